//! Sitemaps named in a robots.txt: URLs like others, which take the whole way from `urls.found` on.
//! Where none is named, one may be guessed at the place where most are (`limits.sitemap_guess`).
//!
//! They count as found by the URL that waited for the robots.txt first: on its topic and at its
//! depth, so that the pages of a sitemap are as deep as those that this URL links to. Where those
//! would be too deep no sitemap is asked for. Where URLs of several topics wait it is the first of
//! each: the first topic whose scope lets a sitemap pass has it. They are marked as sitemaps of
//! this server, wherever they and the robots.txt lie ([`Origin::sitemap_of`]). Each robots.txt that
//! comes gives its sitemaps, changed or not: the URL-seen test says which URLs are new.

use crate::settings::Settings;
use rhumb_robots::Robots;
use rhumb_url::canonical;
use rhumb_wire::message::{FoundUrls, Origin, UrlList};

/// Where the robots.txt of a server is, wherever that leads to: the server that asks for it names
/// the sitemaps.
const ROBOTS_TXT: &str = "/robots.txt";
/// Where a sitemap is guessed.
const GUESS: &str = "/sitemap.xml";

/// Returns the sitemaps of a server in the robots.txt at `url`, or the guessed one; none when there
/// are none to be followed. `first` is the origin of the URL that waited for the robots.txt first.
pub(crate) fn sitemaps_of(
    settings: &Settings,
    robots: &Robots,
    server: &str,
    url: &str,
    first: &Origin,
) -> Option<FoundUrls> {
    if !leads_on(settings, first) {
        return None;
    }
    let base = url::Url::parse(url).ok()?;
    let sitemaps = robots
        .sitemaps()
        .iter()
        .take(settings.limits.sitemaps_per_server);
    let mut urls: UrlList = sitemaps
        .filter_map(|sitemap| canonical(sitemap, Some(&base), None).ok())
        .collect();
    if settings.limits.sitemap_guess && robots.sitemaps().is_empty() {
        urls.push(&[server, GUESS].concat());
    }
    // The URL that was found first keeps its own; nothing comes of nothing.
    let flow = first.flow.shared_among(urls.len() + 1);
    let page = Origin::page_of_sitemaps(&[server, ROBOTS_TXT].concat(), server);
    let origin = Origin {
        page,
        redirects: 0,
        seed: false,
        again: 0,
        flow,
        ..first.clone()
    };
    (!urls.is_empty()).then_some(FoundUrls {
        origin,
        urls,
        ..FoundUrls::default()
    })
}

/// Returns whether sitemaps that are found where this URL was are followed: what they list lies one
/// link deeper.
pub(crate) fn leads_on(settings: &Settings, first: &Origin) -> bool {
    first.depth < settings.max_depth.of(&first.topic)
}

/// How many of the sitemaps that a robots.txt names are left out, as too many or too long. Where
/// none are wanted, none are.
pub(crate) fn left_out(settings: &Settings, robots: &Robots) -> u64 {
    let taken = settings.limits.sitemaps_per_server;
    if taken == 0 {
        return 0;
    }
    let surplus = robots.sitemaps().len().saturating_sub(taken);
    surplus as u64 + u64::from(robots.sitemaps_left_out())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::with;
    use rhumb_config::topics::Depths;

    fn first() -> Origin {
        Origin {
            page: "http://a.test/".into(),
            topic: "t".into(),
            depth: 2,
            redirects: 1,
            seed: true,
            ..Origin::default()
        }
    }

    const SERVER: &str = "http://a.test";
    const ROBOTS: &str = "http://www.a.test/robots.txt";

    #[test]
    fn the_first_so_many_that_can_be_crawled_are_found_where_the_first_url_was() {
        let settings = with(|set| set.limits.sitemaps_per_server = 4);
        let text = "Sitemap: /map.xml\nsitemap: http://B.test:80/x y#z\nSitemap: ftp://a.test/\n\
                    User-agent: *\nSitemap: https://c.test/map.gz\nSitemap: /fifth.xml\n";
        let found = sitemaps_of(
            &settings,
            &Robots::parse(text.as_bytes(), "rhumb"),
            SERVER,
            ROBOTS,
            &first(),
        )
        .unwrap();
        let urls: Vec<_> = found.urls.iter().collect();
        assert_eq!(
            urls,
            [
                "http://www.a.test/map.xml",
                "http://b.test/x%20y",
                "https://c.test/map.gz"
            ]
        );
        let page = "http://a.test/robots.txt#sitemap-of=http://a.test".to_owned();
        assert_eq!(
            found.origin,
            Origin {
                page,
                redirects: 0,
                seed: false,
                again: 0,
                ..first()
            }
        );
    }

    #[test]
    fn none_is_found_where_there_is_none_or_its_pages_would_be_too_deep() {
        let settings = with(|set| set.limits.sitemaps_per_server = 4);
        let robots = Robots::parse(b"Sitemap: /map.xml\n", "rhumb");
        assert_eq!(
            sitemaps_of(&settings, &Robots::allow_all(), SERVER, ROBOTS, &first()),
            None
        );
        let at_max = Settings {
            max_depth: Depths::all(first().depth),
            ..settings.clone()
        };
        assert_eq!(
            sitemaps_of(&at_max, &robots, SERVER, ROBOTS, &first()),
            None
        );
        assert!(sitemaps_of(&settings, &robots, SERVER, ROBOTS, &first()).is_some());
    }

    #[test]
    fn those_that_are_too_many_or_too_long_are_left_out_where_any_are_wanted() {
        let long = "x".repeat(rhumb_url::URL_BYTES_MAX);
        let text = format!("Sitemap: /1.xml\nSitemap: /{long}\nSitemap: /2.xml\nSitemap: /3.xml\n");
        let robots = Robots::parse(text.as_bytes(), "rhumb");
        for (sitemaps_per_server, expected) in [(0, 0), (1, 3), (2, 2), (3, 1), (100, 1)] {
            let settings = with(|set| set.limits.sitemaps_per_server = sitemaps_per_server);
            assert_eq!(
                left_out(&settings, &robots),
                expected,
                "{sitemaps_per_server}"
            );
            assert_eq!(left_out(&settings, &Robots::allow_all()), 0);
        }
    }

    #[test]
    fn one_is_guessed_where_none_is_named_and_that_is_asked_for() {
        let settings = with(|set| {
            set.limits.sitemaps_per_server = 0;
            set.limits.sitemap_guess = true;
        });
        let guessed = |robots: &Robots| {
            let found = sitemaps_of(&settings, robots, SERVER, ROBOTS, &first());
            found.map(|found| found.urls.iter().map(str::to_owned).collect::<Vec<_>>())
        };
        assert_eq!(
            guessed(&Robots::allow_all()),
            Some(vec!["http://a.test/sitemap.xml".to_owned()])
        );
        assert_eq!(
            guessed(&Robots::parse(b"Sitemap: /map.xml\n", "rhumb")),
            None
        );
    }
}
