//! Hostile hosts do what they say, and the truth knows what comes of it.

use super::*;
use memchr::memmem;
use std::io::Read as _;

/// Kinds of hostility.
const KINDS: u32 = Hostility::ALL.len() as u32;

#[tokio::test]
async fn every_kind_of_hostility_does_what_it_says() {
    let web = SyntheticWeb::start(hostile()).unwrap();
    let hosts =
        (0..web.web.plan.profile.hosts).filter_map(|host| Some((host, web.hostility(host)?)));
    // All at once: some are silent for as long as the client listens.
    futures::future::join_all(
        hosts.map(|(host, hostility)| does_what_it_says(&web, host, hostility)),
    )
    .await;
    all_closed(&web).await;
    assert_eq!(web.report().violations.parallel, 0);
}

async fn does_what_it_says(web: &SyntheticWeb, host: u32, hostility: Hostility) {
    let page = answer(web, host, "/").await;
    let robots = answer(web, host, "/robots.txt").await;
    let answers = Answers {
        web,
        host,
        page,
        robots,
    };
    use Hostility::*;
    match hostility {
        Refuses | RefusesForADay | Walled | Silent | HangsUp | Closes | Resets | BreaksOff
        | Drips | Garbage | ServerErrors | Vanished | Busy | Http2 | Http2GoAway | Http2Resets => {
            answers.are_of_server(hostility).await
        }
        RobotsRefused | RobotsWalled | RobotsDrips | RobotsEndless | RobotsHuge | RobotsBinary
        | RobotsUtf16 | RobotsLatin1 | RobotsLoop | RobotsElsewhere | RobotsPacked
        | RobotsShort => answers.are_of_robots(hostility),
        NameMissing | NameEmpty | NameFails | NameSilent | NameShy | NameSlow => {
            answers.are_of_name(hostility)
        }
        HeadDrips | HeadHuge | HeadEndless | HeadMissing | BodyMissing | BodyShort
        | BodyEndless | BodyChunks | GzipBomb | BrotliBomb | Mistyped | Untyped => {
            answers.are_of_message(hostility)
        }
        TagSoup | Based | Refreshes | Srcset | Cyrillic | Japanese | Utf16 => {
            answers.are_of_markup(hostility).await
        }
        Calendar | Spiral | Filters | Sessions | Copies | RedirectLoop | RedirectsForEver
        | Mapped => {
            answers.are_of_site(hostility).await;
        }
    }
}

/// Returns whether an answer has this status and is a challenge.
fn is_wall(answer: &[u8], status: &str) -> bool {
    is(answer, status)
        && String::from_utf8_lossy(answer).contains("\r\nCF-Mitigated: challenge\r\n")
}

/// What a hostile host answered.
struct Answers<'a> {
    web: &'a SyntheticWeb,
    host: u32,
    page: Vec<u8>,
    robots: Vec<u8>,
}

/// Each method asserts the answers of some kinds of hostility.
impl Answers<'_> {
    /// What the host answers to one more request.
    async fn more(&self, path: &str) -> Vec<u8> {
        answer(self.web, self.host, path).await
    }

    /// The server answers or does not, and keeps its connections or does not.
    async fn are_of_server(&self, hostility: Hostility) {
        let Answers { page, robots, .. } = self;
        use Hostility::*;
        match hostility {
            Refuses | RefusesForADay => {
                assert!(is(page, "429") && is(robots, "404"));
                let retry_after =
                    String::from_utf8_lossy(page).contains("\r\nRetry-After: 86400\r\n");
                assert_eq!(retry_after, hostility == RefusesForADay);
            }
            Walled => assert!(is_wall(page, "200") && is(robots, "404")),
            Silent | HangsUp => assert!(page.is_empty() && is(robots, "404"), "{hostility:?}"),
            Closes | Resets => {
                assert!(
                    is(page, "200") && page.ends_with(html::TAIL.as_bytes()),
                    "{hostility:?}"
                );
                assert!(
                    String::from_utf8_lossy(page)
                        .contains("\r\nKeep-Alive: timeout=60, max=100\r\n")
                );
                let mut client = connect(self.web, self.host).await;
                client.get("/").await.unwrap();
                assert!(client.get("/").await.is_err(), "{hostility:?}");
            }
            BreaksOff => assert!(is(page, "200") && page.len() < 100_000),
            Drips => assert!(is(page, "200") && (2..100).contains(&body(page).len())),
            Garbage => assert!(!page.is_empty() && !page.starts_with(b"HTTP")),
            ServerErrors => assert!(is(page, "500") && is(robots, "404")),
            Vanished => assert!(is(page, "410") && is(robots, "404")),
            Busy => {
                assert!(is(page, "503") && is(robots, "404"));
                assert!(String::from_utf8_lossy(page).contains("\r\nRetry-After: 1\r\n"));
                assert!(is(&self.more("/").await, "200"));
            }
            // They do not speak HTTP/1.1 to anybody.
            Http2 | Http2GoAway | Http2Resets => {
                assert!(!page.starts_with(b"HTTP") && !robots.starts_with(b"HTTP"))
            }
            _ => unreachable!("{hostility:?} is no kind of these"),
        }
    }

    /// Its robots.txt is odd.
    fn are_of_robots(&self, hostility: Hostility) {
        let Answers { page, robots, .. } = self;
        use Hostility::*;
        match hostility {
            RobotsRefused => assert!(is(robots, "429") && is(page, "200")),
            RobotsWalled => assert!(is_wall(robots, "403") && is(page, "200")),
            RobotsDrips => assert!(
                is(robots, "200") && (2..100).contains(&body(robots).len()) && is(page, "200")
            ),
            RobotsEndless | RobotsHuge => {
                assert!(robots.len() >= ROBOTS_READ && contains_rules(&body(robots)[..1_000]));
                let counted = String::from_utf8_lossy(&body(robots)[1_000..500 << 10]);
                assert!(counted.lines().skip(1).all(|line| line.starts_with('#')));
                assert!(
                    String::from_utf8_lossy(robots).contains("\n\nUser-agent: *\nDisallow: /\n")
                );
            }
            RobotsBinary => assert!(body(robots)[0] >= 0x80 && contains_rules(body(robots))),
            RobotsUtf16 => {
                let text: Vec<u16> = body(robots)
                    .chunks(2)
                    .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
                    .collect();
                assert!(contains_rules(
                    String::from_utf16(&text).unwrap().as_bytes()
                ));
            }
            RobotsLatin1 => {
                assert!(
                    body(robots).starts_with(b"\xef\xbb\xbf")
                        && std::str::from_utf8(body(robots)).is_err()
                );
                assert!(contains_rules(body(robots)));
            }
            RobotsLoop => assert!(is(robots, "301")),
            RobotsElsewhere => {
                let location = format!("Location: {}robots.txt\r\n", self.web.seed_urls()[0]);
                assert!(is(robots, "301") && String::from_utf8_lossy(robots).contains(&location));
            }
            RobotsPacked => {
                let mut rules = Vec::new();
                flate2::read::GzDecoder::new(body(robots))
                    .read_to_end(&mut rules)
                    .unwrap();
                assert!(contains_rules(&rules) && is(page, "200"));
            }
            RobotsShort => {
                assert_eq!(body(robots).len(), 20);
                assert!(announced(robots).is_some_and(|bytes| bytes > 20) && is(page, "200"));
            }
            _ => unreachable!("{hostility:?} is no kind of these"),
        }
    }

    /// The DNS server does not answer for its name as it should.
    fn are_of_name(&self, hostility: Hostility) {
        let Answers { page, robots, .. } = self;
        use Hostility::*;
        match hostility {
            NameMissing | NameEmpty | NameFails | NameSilent => {
                assert!(page.is_empty() && robots.is_empty())
            }
            NameShy | NameSlow => assert!(is(page, "200") && is(robots, "404")),
            _ => unreachable!("{hostility:?} is no kind of these"),
        }
    }

    /// The head or the body of the message is wrong.
    fn are_of_message(&self, hostility: Hostility) {
        let page = &self.page;
        use Hostility::*;
        match hostility {
            HeadDrips => assert!((25..100).contains(&page.len()) && !contains(page, b"\r\n\r\n")),
            HeadHuge => assert!(page.len() > 300 << 10 && body(page) == b"<p>small</p>"),
            HeadEndless => assert!(page.len() >= ROBOTS_READ && !contains(page, b"\r\n\r\n")),
            HeadMissing => assert!(page.starts_with(b"<html>")),
            BodyMissing => assert!(is(page, "200") && body(page).is_empty()),
            BodyShort => {
                assert!(is_whole(page) && announced(page) == Some(body(page).len() + 5_000))
            }
            BodyEndless => {
                assert!(page.len() >= ROBOTS_READ && announced(page).is_none());
                assert!(contains(page, html::TAIL.as_bytes()));
            }
            BodyChunks => {
                let body = String::from_utf8_lossy(body(page)).into_owned();
                let (length, rest) = body.split_once("\r\n").unwrap();
                let length = usize::from_str_radix(length, 16).unwrap();
                assert!(rest[..length].ends_with(html::TAIL));
                assert_eq!(&rest[length..], "\r\nno chunk\r\n");
            }
            GzipBomb => assert!(contains(page, b"\r\nContent-Encoding: gzip\r\n")),
            BrotliBomb => assert!(contains(page, b"\r\nContent-Encoding: br\r\n")),
            Mistyped => {
                assert!(is_whole(page) && contains(page, b"\r\nContent-Type: image/png\r\n"))
            }
            Untyped => assert!(is_whole(page) && !contains(page, b"Content-Type")),
            _ => unreachable!("{hostility:?} is no kind of these"),
        }
    }

    /// Its pages are written oddly.
    async fn are_of_markup(&self, hostility: Hostility) {
        let page = &self.page;
        use Hostility::*;
        match hostility {
            TagSoup => assert!(contains(page, b"<![CDATA[ x ]]>") && !contains(page, b"</head>")),
            Based => assert!(is_whole(page) && contains(page, b"<base href=\"http://")),
            Refreshes => {
                assert!(is_whole(page) && contains(page, b"\"Refresh\" content=\"30; URL='"))
            }
            Srcset => {
                assert!(
                    is_whole(page)
                        && contains(page, b" srcset=\"/img/1.gif 640w,/img/2.gif 1280w\"")
                );
                assert!(body(&self.more("/img/1.gif").await).starts_with(b"GIF87a"));
            }
            Cyrillic => assert!(is_whole(page) && contains(page, b"/\xea\xe0\xf0\xf2\xe0/")),
            Japanese => assert!(is_whole(page) && contains(page, b"/\x95\\\x8e\xa6/")),
            Utf16 => assert!(body(page).starts_with(b"\xff\xfe<\0!\0")),
            _ => unreachable!("{hostility:?} is no kind of these"),
        }
    }

    /// Its pages never end, or are the same again and again.
    async fn are_of_site(&self, hostility: Hostility) {
        let Answers { page, robots, .. } = self;
        use Hostility::*;
        match hostility {
            Calendar => {
                assert!(contains(page, b"calendar/2000/1"));
                let december = self.more("/calendar/2011/12").await;
                assert!(is(&december, "200") && contains(&december, b"\"/calendar/2012/1\""));
                assert!(is(&self.more("/calendar/2011/13").await, "404"));
            }
            Spiral => {
                let deeper = self.more(&format!("/{}", "deeper/".repeat(99))).await;
                assert!(contains(page, b"deeper/") && contains(&deeper, b"\"deeper/\""));
            }
            Filters => {
                let filtered = self.more("/filter?f0=1&f1=1").await;
                assert!(contains(&filtered, b"\"/filter?f0=1&amp;f1=1&amp;f2=1\""));
            }
            Sessions => {
                let again = self.more("/?PHPSESSID=00000007").await;
                assert!(
                    is(&again, "200")
                        && body(&again) != body(page)
                        && contains(page, b"PHPSESSID=")
                );
            }
            Copies => assert_eq!(body(page), body(&self.more("/?copy=1").await)),
            RedirectLoop => {
                for (from, to) in [(0, 1), (1, 2), (2, 0), (3, 3)] {
                    let hop = self.more(&format!("/hop/{from}")).await;
                    assert!(is(&hop, "301") && contains(&hop, format!("/hop/{to}\r\n").as_bytes()));
                }
            }
            RedirectsForEver => {
                let hop = self.more("/hop/12345").await;
                assert!(is(&hop, "301") && contains(&hop, b"/hop/12346\r\n"));
            }
            Mapped => {
                assert!(contains(robots, b"/sitemap.xml\n"));
                let map = self.more("/sitemap.xml").await;
                assert!(is(&map, "200") && contains(&map, b"/maps/2.xml.gz</loc>"));
                let mut packed = String::new();
                let map = self.more("/maps/2.xml.gz").await;
                flate2::read::GzDecoder::new(body(&map))
                    .read_to_string(&mut packed)
                    .unwrap();
                assert_eq!(packed.matches("/mapped/").count(), 3);
                let map = self.more("/maps/sitemap-3.txt").await;
                assert_eq!(body(&map).split(|byte| *byte == b'\n').count(), 4);
                assert!(is(&self.more("/mapped/12").await, "200"));
            }
            _ => unreachable!("{hostility:?} is no kind of these"),
        }
    }
}

/// Returns whether an answer has a status.
fn is(answer: &[u8], expected: &str) -> bool {
    String::from_utf8_lossy(answer).split(' ').nth(1) == Some(expected)
}

/// A host of each kind behind as many honest ones. The honest ones have the same pages without
/// them.
#[test]
fn hostile_hosts_change_nothing_of_the_others_and_hide_only_their_own() {
    let with = SyntheticWeb::start(hostile()).unwrap();
    let honest = with.web.plan.profile.honest_hosts();
    let without = SyntheticWeb::start(Profile {
        hosts: honest,
        hostile: 0.0,
        ..hostile()
    })
    .unwrap();
    assert_eq!((honest, with.web.plan.profile.hosts), (KINDS, 2 * KINDS));
    let hidden = |truth: &Truth, host: u32| {
        let prefix = format!("://{}:", with.host_name(host));
        let lists = [
            &truth.pages,
            &truth.redirects,
            &truth.disallowed,
            &truth.refused,
            &truth.failed,
            &truth.unresolvable,
            &truth.not_found,
            &truth.over_budget,
        ];
        lists.map(|list| list.iter().filter(|url| url.contains(&prefix)).count())
    };
    let truth = with.truth();
    let truth_without = without.truth();
    for host in 0..honest {
        assert_eq!(hidden(&truth, host), hidden(&truth_without, host));
        assert_eq!(with.hostility(host), None);
    }
    let pages = with.web.plan.site(honest).pages as usize;
    for (host, hostility) in (honest..).zip(Hostility::ALL) {
        assert_eq!(with.hostility(host), Some(hostility));
        let [
            fetched,
            redirects,
            disallowed,
            refused,
            failed,
            unresolvable,
            gone,
            over_budget,
        ] = hidden(&truth, host);
        let all =
            fetched + redirects + disallowed + refused + failed + unresolvable + gone + over_budget;
        assert!(all > 0, "{hostility:?} is linked from the first host");
        use Hostility::*;
        match hostility {
            Refuses | RefusesForADay | Walled => assert_eq!(refused, all),
            Silent | HangsUp | Drips | Garbage => assert_eq!(failed, all),
            ServerErrors | HeadDrips | HeadHuge | HeadEndless | HeadMissing | BodyMissing => {
                assert_eq!(failed, all)
            }
            Vanished => assert_eq!(gone, all),
            BreaksOff => assert_eq!(fetched, all),
            RobotsRefused | RobotsWalled | RobotsDrips | RobotsShort => assert_eq!(disallowed, all),
            NameMissing | NameEmpty | NameFails | NameSilent => assert_eq!(unresolvable, all),
            Closes | Resets | NameShy | NameSlow | RobotsLoop => {
                assert_eq!((fetched + redirects, disallowed), (pages, 0))
            }
            // As many pages as the crawler's budget, and the month after.
            Calendar => assert_eq!((fetched, over_budget), (1_000, 1)),
            Spiral => assert_eq!(fetched + redirects, pages + 5),
            Filters => assert_eq!(fetched + redirects, pages + 100),
            Copies => assert_eq!(fetched, 2 * (pages - redirects)),
            RedirectLoop => assert_eq!(fetched + redirects, pages + 4),
            RedirectsForEver => assert_eq!(fetched + redirects, pages + 11),
            // Four maps, nine pages.
            Mapped => assert_eq!(fetched + redirects, pages + 13),
            RobotsEndless | RobotsHuge | RobotsBinary | RobotsUtf16 | RobotsLatin1
            | RobotsPacked => {
                assert!(
                    fetched + redirects + disallowed == pages && disallowed > 0,
                    "{hostility:?}"
                );
            }
            _ => assert_eq!((fetched + redirects, all), (pages, pages), "{hostility:?}"),
        }
    }
}

/// Bytes that are read of an answer that goes on for ever.
const ROBOTS_READ: usize = 600 << 10;

/// As many hosts as there are kinds of hostility, and a hostile one of each kind.
fn hostile() -> Profile {
    let mut profile = Profile {
        hosts: 2 * KINDS,
        hostile: 0.5,
        redirects: 0.1,
        ..small()
    };
    profile.robots.missing = 1.0;
    profile.robots.disallowed_pages = 0.3;
    profile
}

/// Time to wait for the rest of an answer, which some never send.
const PATIENCE: Duration = Duration::from_secs(2);

/// An answer as far as it comes in time. It may be longer than what counts of a robots.txt.
async fn answer(web: &SyntheticWeb, host: u32, path: &str) -> Vec<u8> {
    let mut client = connect(web, host).await;
    client
        .send(
            format!(
                "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n",
                web.web.plan.authority(host)
            )
            .as_bytes(),
        )
        .await
        .unwrap();
    let mut bytes = Vec::new();
    let read = async {
        while bytes.len() < ROBOTS_READ
            && !has_come(&bytes)
            && client.read(&mut bytes).await.is_ok_and(|read| read > 0)
        {}
    };
    let _ = tokio::time::timeout(PATIENCE, read).await;
    bytes
}

/// Returns whether all is there that an answer announces.
fn has_come(answer: &[u8]) -> bool {
    contains(answer, b"\r\n\r\n")
        && announced(answer).is_some_and(|bytes| body(answer).len() >= bytes)
}

fn body(answer: &[u8]) -> &[u8] {
    let head = memmem::find(answer, b"\r\n\r\n").unwrap();
    &answer[head + 4..]
}

fn contains_rules(text: &[u8]) -> bool {
    let rules = Robots::Rules {
        crawl_delay_ms: None,
    }
    .text()
    .unwrap();
    contains(text, rules.as_bytes())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    memmem::find(bytes, part).is_some()
}

fn is_whole(answer: &[u8]) -> bool {
    answer.ends_with(html::TAIL.as_bytes())
}

fn announced(answer: &[u8]) -> Option<usize> {
    let head = String::from_utf8_lossy(&answer[..answer.len() - body(answer).len()]).into_owned();
    head.split_once("Content-Length: ")?
        .1
        .split("\r\n")
        .next()?
        .parse()
        .ok()
}

#[tokio::test]
async fn a_request_before_a_busy_host_has_time_again_is_early() {
    let busy = Profile {
        hosts: 2,
        hostile: 0.5,
        hostilities: vec![Hostility::Busy],
        ..small()
    };
    let web = SyntheticWeb::start(busy).unwrap();
    let mut client = connect(&web, 1).await;
    assert_eq!(client.get("/").await.unwrap().status, 503);
    assert_eq!(client.get("/").await.unwrap().status, 200);
    assert_eq!(web.report().violations.early, 1);
}

#[test]
fn the_truth_counts_with_the_limits_of_the_crawler() {
    let crawl_limits = CrawlLimits {
        redirects: 3,
        segment_repeats: 2,
        query_parameters: 7,
        pages_per_host: 100,
        images: true,
    };
    let count = |hostility| {
        let hostilities = vec![hostility];
        let web = SyntheticWeb::start(Profile {
            hosts: 2,
            hostile: 0.5,
            hostilities,
            crawl_limits,
            ..small()
        })
        .unwrap();
        let outcomes = web.truth().outcomes;
        assert_eq!(outcomes.len(), 11);
        ["fetched", "redirected", "over-budget"]
            .map(|name| outcomes[name] - if name == "fetched" { 80 } else { 0 })
    };
    assert_eq!(count(Hostility::Http2), [0, 0, 0]);
    assert_eq!(count(Hostility::Calendar), [60, 0, 1]);
    assert_eq!(count(Hostility::Spiral), [2, 0, 0]);
    assert_eq!(count(Hostility::Filters), [7, 0, 0]);
    assert_eq!(count(Hostility::RedirectsForEver), [0, 4, 0]);
    assert_eq!(count(Hostility::Srcset), [120, 0, 0]);
}
