//! Byways: what a hostile host has beside its pages, and where that leads.
//!
//! Byways are numbered from 0 on. Some kinds of hosts have no last one. A perfect crawl finds as
//! many of these as its limits ([`CrawlLimits`](super::CrawlLimits)) let it, so their number is as
//! exact as the limits.

use std::fmt::Write as _;

use super::behaviour::{Behaviour, Outcome};
use super::hostility::Hostility;
use super::plan::{Link, Plan};
use super::resource::Resource;
use super::sitemap;

/// Redirects that lead to one another in a circle.
const LOOP: u32 = 3;
/// The first year of a calendar that has no last year.
const FIRST_YEAR: u32 = 2000;
/// Images of a page, one for each size of screen.
const IMAGES: u32 = 3;
/// An image of one pixel (GIF 87a).
pub(crate) const IMAGE: &[u8] =
    b"GIF87a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";

/// How many byways of a host a perfect crawl finds.
pub(crate) fn count(plan: &Plan, host: u32) -> u32 {
    let site = plan.site(host);
    let limits = &plan.profile.crawl_limits;
    let open = || {
        (0..site.pages)
            .filter(|page| plan.shape(host, *page).is_open())
            .count() as u32
    };
    match site.hostility {
        // The last one is over budget: each month is found on the one before.
        Some(Hostility::Calendar) => limits.pages_per_host.saturating_sub(open()) + 1,
        Some(Hostility::Spiral) => limits.segment_repeats,
        Some(Hostility::Filters) => limits.query_parameters,
        Some(Hostility::Copies) => site.pages,
        Some(Hostility::RedirectLoop) => LOOP + 1,
        // No redirect leads to the first one.
        Some(Hostility::RedirectsForEver) => limits.redirects + 1,
        Some(Hostility::Srcset) if limits.images => IMAGES * site.pages,
        Some(Hostility::Mapped) => sitemap::MAPS + sitemap::MAPPED,
        _ => 0,
    }
}

/// Returns whether a crawl finds that byway: a page that is not fetched has no copies, and its
/// images are not seen.
pub(crate) fn exists(plan: &Plan, host: u32, number: u32) -> bool {
    match plan.site(host).hostility {
        Some(Hostility::Copies) => plan.shape(host, number).is_open(),
        Some(Hostility::Srcset) => plan.shape(host, number / IMAGES).is_open(),
        _ => true,
    }
}

/// Appends path and query.
pub(crate) fn write_path(plan: &Plan, host: u32, number: u32, ampersand: &str, out: &mut String) {
    let written = match plan.site(host).hostility {
        Some(Hostility::Calendar) => write!(
            out,
            "/calendar/{}/{}",
            FIRST_YEAR + number / 12,
            1 + number % 12
        ),
        Some(Hostility::Spiral) => write!(out, "/{}", "deeper/".repeat(number as usize + 1)),
        Some(Hostility::Filters) => {
            out.push_str("/filter?f0=1");
            (1..=number).try_for_each(|filter| write!(out, "{ampersand}f{filter}=1"))
        }
        Some(Hostility::Copies) => {
            let start = out.len();
            Resource::Page(number).write_path(plan, host, ampersand, out);
            let join = if out[start..].contains('?') {
                ampersand
            } else {
                "?"
            };
            write!(out, "{join}copy=1")
        }
        Some(Hostility::Srcset) => write!(out, "/img/{number}.gif"),
        Some(Hostility::Mapped) => match sitemap::path(number) {
            Some(path) => out.write_str(path),
            None => write!(out, "/mapped/{number}"),
        },
        _ => write!(out, "/hop/{number}"),
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

/// The only byway that may have this path.
pub(crate) fn candidate(plan: &Plan, host: u32, path: &str) -> Option<u32> {
    let last = |path: &str| path.rsplit('/').next()?.split('.').next()?.parse().ok();
    match plan.site(host).hostility? {
        Hostility::Calendar => {
            let (year, month) = path.strip_prefix("/calendar/")?.split_once('/')?;
            let years = year.parse::<u32>().ok()?.checked_sub(FIRST_YEAR)?;
            years
                .checked_mul(12)?
                .checked_add(month.parse::<u32>().ok()?.checked_sub(1)?)
        }
        Hostility::Spiral => (path.matches("deeper/").count() as u32).checked_sub(1),
        Hostility::Filters => (path.matches('=').count() as u32).checked_sub(1),
        Hostility::Copies => {
            let page = path.strip_suffix("copy=1")?;
            match Resource::of_path(plan, host, &page[..page.len().checked_sub(1)?]) {
                Resource::Page(page) => Some(page),
                _ => None,
            }
        }
        Hostility::Srcset => last(path.strip_prefix("/img/")?),
        Hostility::Mapped => sitemap::number(path).or_else(|| last(path.strip_prefix("/mapped/")?)),
        Hostility::RedirectLoop | Hostility::RedirectsForEver => last(path.strip_prefix("/hop/")?),
        _ => None,
    }
}

/// The byways that an open page links to, beside its own links.
pub(crate) fn linked_from(plan: &Plan, host: u32, links: &[Link]) -> Vec<Link> {
    let byway = |number| Link {
        host,
        resource: Resource::Byway(number),
    };
    match plan.site(host).hostility {
        Some(
            Hostility::Calendar
            | Hostility::Spiral
            | Hostility::Filters
            | Hostility::RedirectsForEver,
        ) => {
            vec![byway(0)]
        }
        // Into the circle, and to one that leads to itself.
        Some(Hostility::RedirectLoop) => vec![byway(0), byway(LOOP)],
        Some(Hostility::Copies) => {
            let pages = links
                .iter()
                .filter(|link| link.host == host)
                .filter_map(|link| match link.resource {
                    Resource::Page(page) if plan.shape(host, page).is_open() => Some(byway(page)),
                    _ => None,
                });
            std::iter::once(byway(0)).chain(pages).collect()
        }
        _ => Vec::new(),
    }
}

/// The images that a page shows.
pub(crate) fn images(page: u32) -> [Resource; IMAGES as usize] {
    [0, 1, 2].map(|size| Resource::Byway(page * IMAGES + size))
}

/// What the server does with a request for a byway.
pub(crate) fn behaviour(plan: &Plan, host: u32, number: u32) -> Behaviour {
    let to = |number| {
        Behaviour::Redirect(Link {
            host,
            resource: Resource::Byway(number),
        })
    };
    let site = plan.site(host);
    match site.hostility {
        Some(Hostility::Copies) if number < site.pages => Behaviour::Page(number),
        Some(Hostility::RedirectLoop) if number < LOOP => to((number + 1) % LOOP),
        Some(Hostility::RedirectLoop) => to(number),
        Some(Hostility::RedirectsForEver) => to(number.saturating_add(1)),
        Some(Hostility::Srcset) => Behaviour::Image,
        Some(Hostility::Mapped) if number < sitemap::MAPS => Behaviour::Map(number),
        Some(Hostility::Calendar) if number + 1 >= site.byways => {
            Behaviour::Byway(number, Outcome::OverBudget)
        }
        _ => Behaviour::Byway(number, Outcome::Fetched),
    }
}

/// A page that leads on, with a link to the next of its kind and one back to the host's first page.
pub(crate) fn render(plan: &Plan, host: u32, number: u32) -> String {
    let mut next = String::new();
    match plan.site(host).hostility {
        // The link is relative, like the links of a page that is served under any path.
        Some(Hostility::Spiral) => next.push_str("deeper/"),
        // The maps lead to the next one.
        Some(Hostility::Mapped) => next.push('/'),
        _ => write_path(plan, host, number.saturating_add(1), "&amp;", &mut next),
    }
    let text = if plan.site(host).hostility == Some(Hostility::Calendar) {
        month(number)
    } else {
        String::new()
    };
    format!(
        "<!DOCTYPE html>\n<html><head><title>One of many</title></head>\n\
         <body>{text}<p><a href=\"/\">Back</a> <a href=\"{next}\">Onward</a></p></body></html>\n"
    )
}

/// The months of a calendar, as people call them.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// What a calendar says of a month in which nothing happens.
fn month(number: u32) -> String {
    let year = FIRST_YEAR + number / 12;
    let name = MONTHS[number as usize % 12];
    let days: String = (1..=28 + number % 4)
        .map(|day| format!("<td>{day}</td>"))
        .collect();
    format!(
        "<h1>{name} {year}</h1><p>Mon Tue Wed Thu Fri Sat Sun</p><table>{days}</table><p>No events \
         this month</p>"
    )
}
