use super::*;
use crate::report::Urls;
use crate::status::{Copies, Recrawled, TopicUse};
use rhumb_config::Difference;
use rhumb_stage::report::SLOTS_MAX;
use rhumb_stage::{Leaders, Pace, ServerTold, Tallied};
use serde_json::json;
use std::collections::BTreeMap;

/// A report in which `text` stands wherever text is not ours, with so many hosts.
fn example(text: &str, hosts: usize) -> Report {
    let host = |at: usize| HostTold {
        host: format!("{text}{at}"),
        pages: 9,
        bytes: 5000,
        errors: 1,
    };
    let all: Vec<HostTold> = (0..hosts).map(host).collect();
    let server = |at: usize| ServerTold {
        server: format!("{text}{at}"),
        response_us: 7000,
        failures: 2,
    };
    let servers: Vec<ServerTold> = (0..hosts).map(server).collect();
    let slots = vec![
        Slot {
            pages: 3,
            bytes: 400,
            others: 1
        };
        SLOTS_MAX
    ];
    let ended = Tallied {
        ends: [(
            text.to_owned(),
            BTreeMap::from([(text.to_owned(), 5), (String::new(), 2)]),
        )]
        .into(),
        statuses: [(200, 5), (OTHER_STATUS, 1)].into(),
        media_types: [(text.to_owned(), 5), (String::new(), 1)].into(),
        depths: vec![1; DEPTHS + 1],
        sizes: vec![1; 40],
        times: vec![0, 1, 2],
        truncated: 1,
        pace: Pace {
            doublings: 3,
            slots,
        },
    };
    let leaders = Leaders {
        by_pages: all.clone(),
        by_bytes: all.clone(),
        by_errors: all,
        slowest: servers.clone(),
        troubled: servers,
    };
    Report {
        crawl: text.to_owned(),
        outcomes: [(text.to_owned(), 7)].into(),
        ended,
        leaders,
        filtered: [(text.to_owned(), 4)].into(),
        topics: [(text.to_owned(), TopicUse::default())].into(),
        recrawl: Some(Recrawled {
            known: 1,
            visits: [(text.to_owned(), 2)].into(),
            ..Recrawled::default()
        }),
        configuration: vec![Difference {
            key: text.to_owned(),
            value: json!([text]),
            default: json!(text),
        }],
        missing: vec![text.to_owned()],
        ..empty()
    }
}

/// A report of a crawl in which nothing was found.
fn empty() -> Report {
    Report {
        version: 1,
        program: "0".into(),
        crawl: "default".into(),
        state: State::Stopped,
        at_s: 1_700_000_000,
        elapsed_s: 12.0,
        ran_s: 3.0,
        pages: 0,
        bytes: 0,
        urls: Urls::default(),
        outcomes: BTreeMap::new(),
        walls: 0,
        recrawl: None,
        ended: Tallied::default(),
        leaders: Leaders::default(),
        filtered: BTreeMap::new(),
        topics: BTreeMap::new(),
        configuration: Vec::new(),
        refetched: 0,
        restarts: 0,
        dead: 0,
        missing: Vec::new(),
    }
}

/// What stands between angle brackets.
fn tags(page: &str) -> Vec<&str> {
    page.split('<')
        .skip(1)
        .map(|rest| rest.split('>').next().unwrap_or_default())
        .collect()
}

/// Goal: text that is not ours never becomes markup. Method: a page with hostile text has the tags
/// of one with harmless text.
#[test]
fn hostile_strings_stay_text() {
    let harmless = page(&example("a", 3));
    for hostile in [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "</style><svg onload=alert(1)>",
        "</title><meta http-equiv=refresh content=0>",
        "' onmouseover='alert(1)",
        "&lt;b&gt;",
        "javascript:alert(1)",
        "\u{202e}\u{0}\r\n",
    ] {
        let page = page(&example(hostile, 3));
        assert_eq!(tags(&page), tags(&harmless), "{hostile:?}");
        assert!(!page.contains(['\u{202e}', '\u{0}']));
    }
    assert!(page(&example("<b>", 3)).contains("&lt;b&gt;0"));
    assert!(page(&example("&lt;", 3)).contains("&amp;lt;0"));
}

#[test]
fn the_page_allows_its_one_style_sheet_and_nothing_else() {
    let page = page(&example("a", 3));
    let style = page
        .split_once("<style>")
        .and_then(|(_, rest)| rest.split_once("</style>"))
        .unwrap()
        .0;
    let hash = BASE64.encode(&Sha256::digest(style));
    assert!(
        page.contains(&format!("default-src 'none'; style-src 'sha256-{hash}'")),
        "the hash is of what stands there"
    );
    for tag in tags(&page) {
        assert!(
            !tag.contains("style=") && !tag.starts_with("script") && !tag.contains("src="),
            "{tag}"
        );
        assert!(!tag.contains("href=") || tag.contains("href=\"#"), "{tag}");
    }
}

#[test]
fn each_heading_of_a_table_has_its_scope_and_each_link_its_section() {
    let page = page(&example("a", 3));
    for tag in tags(&page)
        .into_iter()
        .filter(|tag| tag.starts_with("th") && !tag.starts_with("thead"))
    {
        assert!(tag.contains("scope="), "{tag}");
    }
    for (anchor, heading, _) in SECTIONS {
        assert!(
            page.contains(&format!("<h2 id=\"{anchor}\">{heading}</h2>")),
            "{anchor}"
        );
    }
}

#[test]
fn a_page_of_many_long_names_stays_small() {
    let long = format!("https://{}", "long-name.".repeat(25));
    let html = page(&example(&long, 50));
    assert!(html.len() < 150_000, "{} bytes", html.len());
}

#[test]
fn a_crawl_in_which_nothing_was_found_has_a_page() {
    let page = page(&empty());
    assert!(page.contains("Hosts with most pages") && page.contains("Languages are not counted"));
    assert!(page.contains("2023-11-14 22:13:08Z"), "when the run began");
}

#[test]
fn walls_are_told_with_their_share_where_there_are_some() {
    let walled = Report {
        pages: 24,
        walls: 8,
        ..empty()
    };
    assert!(page(&walled).contains("8 walls, 25.0 % of pages and walls."));
    assert!(!page(&empty()).contains("walls"));
}

#[test]
fn visits_are_told_by_what_they_found_where_pages_are_known() {
    let visited = Report {
        recrawl: Some(Recrawled {
            known: 1200,
            planned: 52,
            withdrawn: 2,
            visits: [("changed".to_owned(), 10), ("unchanged".to_owned(), 40)].into(),
            copies: Some(Copies {
                pages: 1100,
                fresh_expected: 1012,
                age_s: 5400,
                changes_expected: 11,
                changes_found: 10,
            }),
            ..Recrawled::default()
        }),
        ..empty()
    };
    let visited = page(&visited);
    for words in [
        "1,200 pages are known, 52 visits were planned, 2 of them withdrawn.",
        "<td>80.0 %</td>",
        "Copies: 92.0 % of 1100 should be current, 1h 30m old in the mean; visits found 10 changes \
         where 11 were expected.",
    ] {
        assert!(visited.contains(words), "{words}");
    }
    assert!(page(&empty()).contains("No page is visited again."));
}

/// The colours of a scheme of the style sheet.
fn colours(scheme: &str) -> BTreeMap<&str, [f64; 3]> {
    let named = scheme
        .split(';')
        .filter_map(|of| of.rsplit_once("--")?.1.split_once(": #"));
    let part =
        |hex: &str, at: usize| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
    named
        .map(|(name, hex)| (name, [0, 2, 4].map(|at| part(hex, at))))
        .collect()
}

/// The contrast of two colours (WCAG 2.2).
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let linear = |c: f64| {
        if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        }
    };
    let luminance =
        |[r, g, b]: [f64; 3]| 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    let a = luminance(a);
    let b = luminance(b);
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn text_can_be_read_in_light_and_dark_and_on_paper() {
    let schemes: Vec<_> = STYLE
        .split(":root {")
        .skip(1)
        .map(|rest| colours(rest.split('}').next().unwrap()))
        .collect();
    assert_eq!(schemes.len(), 3);
    for scheme in schemes {
        assert_eq!(scheme.len(), 7, "{scheme:?}");
        for text in ["text", "soft", "mark"] {
            for back in ["back", "panel"] {
                let contrast = contrast(scheme[text], scheme[back]);
                assert!(contrast >= 4.5, "{text} on {back}: {contrast:.1}");
            }
        }
    }
}

#[test]
fn a_model_comes_back_as_it_was_and_one_of_a_later_version_is_refused() {
    let report = example("a", 2);
    let bytes = serde_json::to_vec(&report).unwrap();
    assert_eq!(Report::read(&bytes).unwrap(), report);
    let later = Report {
        version: 99,
        ..report
    };
    let error = Report::read(&serde_json::to_vec(&later).unwrap())
        .unwrap_err()
        .to_string();
    assert!(error.contains("version 99"), "{error}");
    assert!(Report::read(&bytes[..bytes.len() - 1]).is_err() && Report::read(b"{}").is_err());
}

/// The rates of slots of 10 s with so many pages, of a crawl that has run for so long.
fn rates_of(pages: &[u64], ran_s: f64) -> Vec<f64> {
    let slots: Vec<Slot> = pages
        .iter()
        .map(|&pages| Slot {
            pages,
            ..Slot::default()
        })
        .collect();
    rates(&slots, 10, ran_s, |slot| slot.pages)
}

#[test]
fn a_slot_that_goes_on_counts_for_as_long_as_it_has_lasted() {
    assert_eq!(rates_of(&[100, 100, 70], 27.0), [10.0, 10.0, 10.0]);
    assert_eq!(rates_of(&[100, 100], 20.0), [10.0, 10.0]);
    assert_eq!(
        rates_of(&[60], 6.0),
        [10.0],
        "the first one is the last one, too"
    );
    assert_eq!(
        rates_of(&[4], 0.2),
        [4.0],
        "of less than a second nobody tells more than a second's"
    );
    assert!(rates_of(&[], 0.0).is_empty());
}

/// Goal: a steady crawl is drawn as a steady one, whenever it ends. Method: crawls of 98 pages a
/// second, with a few pages that count for the slot after the one in which they were fetched.
#[test]
fn the_last_slot_of_a_steady_crawl_is_drawn_as_the_others_whenever_it_ends() {
    for tenths in 1..=100_u64 {
        let ran_s = 100.0 + tenths as f64 / 10.0;
        let mut pages = vec![980; 10];
        pages.push(98 * tenths / 10 + 20);
        let rates = rates_of(&pages, ran_s);
        assert!(
            rates.iter().all(|rate| (90.0..=107.0).contains(rate)),
            "{ran_s} s: {rates:?}"
        );
    }
}
