//! Traps through all processes: calendars without end cost little, end as trapped or are released,
//! and archives that only look like them are fetched whole.

use rhumb_tests::harness::{Answer, Running, Site, World, assert_conserved, assert_manners, json};
use std::collections::BTreeSet;
use std::time::Duration;
use synthetic_web::{CrawlLimits, Hostility, Latency, PagesPerHost, Profile};

const HOSTS: u32 = 50;
const PAGES: u32 = 200;
const CALENDARS: u32 = 2;
const AT_MOST: Duration = Duration::from_secs(240);
/// Pages of a calendar, more than any of these crawls fetches.
const WITHOUT_END: u32 = 1_000_000;

/// A web of which some hosts have a calendar without end beside their pages.
fn web(calendars: u32) -> Profile {
    Profile {
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(PAGES),
        hostile: f64::from(calendars) / f64::from(HOSTS),
        hostilities: vec![Hostility::Calendar],
        crawl_limits: CrawlLimits {
            pages_per_host: WITHOUT_END,
            ..CrawlLimits::default()
        },
        ..Profile::raw()
    }
}

fn is_month(url: &str) -> bool {
    url.contains("/calendar/")
}

/// Requests, and those among them for months, until so many of the pages that are none were
/// requested.
fn requests_until(world: &World, pages: usize) -> Option<(usize, usize)> {
    let mut contacts = world.web.contacts();
    contacts.sort_by_key(|contact| contact.at);
    let mut met = BTreeSet::new();
    let mut months = 0;
    for (requests, contact) in contacts
        .into_iter()
        .filter(|contact| !contact.url.ends_with("/robots.txt"))
        .enumerate()
    {
        match is_month(&contact.url) {
            true => months += 1,
            false => drop(met.insert(contact.url)),
        }
        if met.len() == pages {
            return Some((requests + 1, months));
        }
    }
    None
}

/// Goal: with two calendars among 50 hosts, 95 % of the true pages take at most 1.3 times the
/// requests that a web without calendars takes, and less than a tenth of the requests goes to
/// calendars; what is left of these ends as trapped.
#[test]
fn calendars_without_end_cost_little_and_end_as_trapped() {
    let most = (HOSTS * PAGES) as usize * 95 / 100;
    let alone = {
        let world = World::new(web(0));
        world.assert_whole(&world.crawl().run(AT_MOST));
        requests_until(&world, most).expect("all pages are there").0
    };
    let world = World::new(web(CALENDARS));
    let finished = world.crawl().set("limits.shape_pages=500").run(AT_MOST);
    let summary = &finished.summary;
    assert_eq!(finished.code, 0, "{}", json(summary));
    assert_conserved(summary);
    assert_manners(&world.web.report());
    let (requests, months) = requests_until(&world, most).expect("95 % of the pages are there");
    println!(
        "{alone} requests without calendars, {requests} with them, {months} of these for months"
    );
    assert!(
        10 * requests <= 13 * alone && 10 * months <= requests,
        "{requests} requests ({alone}), {months} for months"
    );
    let requested: BTreeSet<String> = world
        .web
        .contacts()
        .into_iter()
        .map(|contact| contact.url)
        .collect();
    let pages = requested
        .iter()
        .filter(|url| !is_month(url) && !url.ends_with("/robots.txt"))
        .count();
    assert_eq!(pages, (HOSTS * PAGES) as usize, "no page is missing");
    assert!(
        summary.outcomes["trapped"] >= u64::from(CALENDARS) && summary.waiting == 0,
        "{}",
        json(summary)
    );
}

/// Goal: an operator sees what is kept back and why, and lets it go; later it is a trap again.
#[test]
fn a_trap_is_named_and_released() {
    let world = World::new(Profile {
        hosts: 4,
        hostile: 0.25,
        latency: Latency::Fixed { ms: 10 },
        ..web(1)
    });
    let calendar = (0..4)
        .find(|host| world.web.hostility(*host) == Some(Hostility::Calendar))
        .expect("a calendar");
    let host = world.web.host_name(calendar);
    // What waits at a paused host keeps the crawl from its end.
    let paused = world.web.host_name((calendar + 1) % 4);
    let mut crawl = world.crawl().set("limits.shape_pages=500").start();
    crawl.until(AT_MOST, |summary| summary.pages > 10);
    says(&crawl, &["pause", "--host", &paused], "is paused by");
    let summary = crawl.until(AT_MOST, |summary| summary.waiting_trapped > 0);
    let [trap] = &summary.traps[..] else {
        panic!("{}", json(&summary))
    };
    assert!(
        trap.server.contains(&host) && trap.shape == "/calendar/0/0" && trap.pages >= 500,
        "{trap}"
    );
    says(
        &crawl,
        &["status"],
        &format!(
            "trap      {}/calendar/0/0: brings only itself, ",
            trap.server
        ),
    );
    let waiting = crawl.rhumb(&["queue", "--host", &host, "--json"]).out;
    let month = waiting
        .split('"')
        .find(|word| is_month(word) && word.starts_with("http"))
        .expect("a month waits");
    says(
        &crawl,
        &["why", month],
        "kept back until nothing else waits, because the shape /calendar/0/0 brings only itself",
    );

    says(
        &crawl,
        &["release", &host, "--shape", "/calendar/2031/7"],
        "this is no shape",
    );
    says(
        &crawl,
        &["release", &host, "--take-back"],
        "is not released; released: nothing",
    );
    says(
        &crawl,
        &[
            "release",
            &host,
            "--shape",
            "/calendar/0/0",
            "--note",
            "a real one",
        ],
        "is released by",
    );
    let before = months(&world);
    crawl.until(AT_MOST, |summary| {
        summary.waiting_trapped == 0 && months(&world) > before + 100
    });
    says(&crawl, &["status"], ": a real one");
    says(
        &crawl,
        &["release", &host, "--shape", "/calendar/0/0", "--take-back"],
        "no longer released: /calendar/0/0 of host",
    );
    says(&crawl, &["unpause", "--host", &paused], "no longer paused");
    let finished = crawl.finish(AT_MOST);
    assert_eq!(finished.code, 0, "{}", json(&finished.summary));
    assert_conserved(&finished.summary);
    assert_eq!(
        (
            finished.summary.outcomes["trapped"],
            finished.summary.waiting
        ),
        (1, 0),
        "{}",
        json(&finished.summary)
    );
}

fn months(world: &World) -> usize {
    world
        .web
        .contacts()
        .into_iter()
        .filter(|contact| is_month(&contact.url))
        .count()
}

fn says(crawl: &Running, arguments: &[&str], expected: &str) {
    let said = crawl.rhumb(arguments);
    let said = format!("{}{}", said.out, said.err);
    assert!(said.contains(expected), "{arguments:?}: {said}");
}

/// Letters of the archive, each with a text of its own: the first is answered by two, and so is
/// each of these.
const LETTERS: usize = 3000;
/// Products of the shop, each with a page.
const PRODUCTS: usize = 300;
/// What products are chosen by: colours, sizes and brands, and pages of each choice.
const FACETS: [usize; 3] = [5, 5, 6];
const PAGES_OF_A_CHOICE: usize = 10;

/// Goal: an archive of numbered letters and a shop with facets, whose pages lead on to their own
/// kind, are fetched whole however early a shape may be a trap.
#[test]
fn archives_and_shops_are_fetched_whole() {
    let world = World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(1),
        ..Profile::raw()
    });
    let site = Site::serve(|path, _| Answer::html(archive_or_shop(path)));
    let crawl = world.bare("crawl").arguments(&[format!("{}/", site.name)]);
    let finished = crawl.set("limits.shape_pages=300").run(AT_MOST);
    assert_eq!(
        (finished.code, finished.summary.complete),
        (0, true),
        "{}",
        json(&finished.summary)
    );
    let choices = FACETS.iter().map(|values| values + 1).product::<usize>() * PAGES_OF_A_CHOICE;
    // The home page, and robots.txt.
    let asked = site.sent().len();
    let expected = LETTERS + PRODUCTS + choices + 2;
    assert_eq!(
        (asked, finished.summary.outcomes["trapped"]),
        (expected, 0),
        "{}",
        json(&finished.summary)
    );
}

/// A page of the archive, or of the shop.
fn archive_or_shop(path: &str) -> String {
    let link = |to: &str| format!("<a href=\"{to}\">on</a> ");
    if let Some(letter) = path
        .strip_prefix("/letters/")
        .and_then(|number| number.parse::<usize>().ok())
    {
        let answers = [2 * letter + 1, 2 * letter + 2]
            .into_iter()
            .filter(|answer| *answer < LETTERS);
        let answers: String = answers
            .map(|answer| link(&format!("/letters/{answer}")))
            .collect();
        return format!(
            "<h1>Letter {letter}</h1><p>From: a reader</p>{}<p>Archive Home Next \
             Previous</p>{answers}",
            prose(letter, 80)
        );
    }
    if let Some(product) = path
        .strip_prefix("/product/")
        .and_then(|number| number.parse().ok())
    {
        return format!(
            "<h1>{}</h1><p>Shop Basket Imprint</p>{}",
            prose(product, 3),
            prose(product, 60)
        );
    }
    match path.strip_prefix("/shop") {
        Some(query) => choice(query.strip_prefix('?').unwrap_or_default()),
        None => link("/letters/0") + &link("/shop"),
    }
}

/// A choice of products: facets with their values, and the number of the page.
fn choice(query: &str) -> String {
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(known, _)| *known == name)
            .and_then(|(_, value)| value.parse::<usize>().ok())
    };
    let chosen = ["color", "size", "brand"].map(value);
    let page = value("page").unwrap_or_default();
    let href = |chosen: [Option<usize>; 3], page: usize| {
        let named = ["color", "size", "brand"].into_iter().zip(chosen);
        let mut pairs: Vec<String> = named
            .filter_map(|(name, value)| Some(format!("{name}={}", value?)))
            .collect();
        pairs.extend((page > 0).then(|| format!("page={page}")));
        if pairs.is_empty() {
            "/shop".to_owned()
        } else {
            format!("/shop?{}", pairs.join("&amp;"))
        }
    };
    let mut html = "<h1>Shop</h1><p>Color Size Brand Basket Imprint</p>".to_owned();
    for (facet, values) in FACETS.into_iter().enumerate() {
        for value in 0..values {
            let mut other = chosen;
            other[facet] = Some(value);
            html.push_str(&format!("<a href=\"{}\">{value}</a> ", href(other, 0)));
        }
    }
    if page + 1 < PAGES_OF_A_CHOICE {
        html.push_str(&format!("<a href=\"{}\">more</a>", href(chosen, page + 1)));
    }
    let number = chosen.iter().fold(page, |number, value| {
        7 * number + value.map_or(0, |value| value + 1)
    });
    for place in 0..12 {
        let product = (31 * number + 17 * place * place) % PRODUCTS;
        html.push_str(&format!(
            "<p><a href=\"/product/{product}\">{}</a> 9.99</p>",
            prose(product, 3)
        ));
    }
    html
}

/// So many words, for each seed others.
fn prose(seed: usize, words: usize) -> String {
    let mut state = seed as u64 + 1;
    let word = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let letters = (0..5).map(|place| char::from(b'a' + (state >> (12 * place + 2)) as u8 % 26));
        letters.chain([' ']).collect::<String>()
    };
    (0..words).map(word).collect()
}
