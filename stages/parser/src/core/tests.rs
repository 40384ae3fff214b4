//! Examples of the core: what comes of a page.

use super::*;
use rhumb_wire::message::{HttpVersion, decode};

fn page(status: u16, headers: &[(&str, &str)], body: &str) -> Page {
    Page {
        url: "http://a.test/x".into(),
        origin: Origin {
            depth: 3,
            redirects: 1,
            ..Origin::seed("t")
        },
        status,
        fetched_at_ms: 0,
        elapsed_us: 0,
        address: None,
        http_version: HttpVersion::Http11,
        request_headers: Vec::new(),
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()))
            .collect(),
        truncated: None,
        body: body.as_bytes().to_vec(),
        is_robots: false,
    }
}

fn message(ticket: u64, page: &Page) -> Event<InPlace<Page>, Answer> {
    Event::Message {
        ticket: Ticket(ticket),
        input: InPlace::of(page),
    }
}

fn settings() -> Settings {
    Settings {
        limits: Limits {
            decoded_bytes_max: 16 << 20,
            sitemap_bytes_max: 16 << 20,
            links_per_page_max: 5000,
            links_per_sitemap_max: 5000,
            url_bytes_max: 2048,
        },
        options: Options::default(),
        rules: Rules::default(),
        product_token: "rhumb".into(),
        content_seen: true,
        documents: false,
        topics: Vec::new(),
        dedups: Owners::new(4, 1),
    }
}

fn found(page: Page) -> Option<FoundUrls> {
    let mut messages = messages(page);
    assert!(messages.len() <= 1);
    messages.pop()
}

fn messages(page: Page) -> Vec<FoundUrls> {
    let mut parser = Parser::new(Settings {
        content_seen: false,
        ..settings()
    });
    let mut out = Output::default();
    parser
        .step(Timestamp::ZERO, message(7, &page), &mut out)
        .unwrap();
    assert_eq!(out.finished, [Ticket(7)]);
    assert!(
        out.publishes
            .iter()
            .all(|publish| publish.causes == [Ticket(7)])
    );
    out.publishes
        .iter()
        .map(|publish| decode(&publish.payload).unwrap())
        .collect()
}

#[test]
fn links_lie_one_step_deeper_and_are_no_seeds() {
    let found = found(page(
        200,
        &[("content-type", "text/html")],
        "<a href=/y>y</a>",
    ))
    .unwrap();
    assert_eq!(found.urls.iter().collect::<Vec<_>>(), ["http://a.test/y"]);
    assert_eq!(
        (
            found.origin.depth,
            found.origin.redirects,
            found.origin.seed
        ),
        (4, 0, false)
    );
    assert_eq!(found.origin.page, "http://a.test/x");
}

#[test]
fn a_redirect_keeps_depth_and_seed_and_counts_a_hop() {
    let found = found(page(301, &[("location", "http://b.test/")], "")).unwrap();
    assert_eq!(found.urls.iter().collect::<Vec<_>>(), ["http://b.test/"]);
    assert_eq!(
        (
            found.origin.depth,
            found.origin.redirects,
            found.origin.seed
        ),
        (3, 2, true)
    );
}

#[test]
fn links_too_long_for_one_message_travel_in_several() {
    let filler = "x".repeat(2000);
    let body: String = (0..1000)
        .map(|n| format!("<a href=/{n}-{filler}>y</a>"))
        .collect();
    let messages = messages(page(200, &[("content-type", "text/html")], &body));
    assert!(
        messages
            .iter()
            .all(|message| message.urls.bytes() <= MESSAGE_BYTES_MAX)
    );
    let urls: Vec<String> = messages
        .iter()
        .flat_map(|message| message.urls.iter().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let expected: Vec<String> = (0..1000)
        .map(|n| format!("http://a.test/{n}-{filler}"))
        .collect();
    assert!(urls == expected);
}

#[test]
fn links_of_a_body_that_were_taken_from_another_page_are_left_out() {
    let mut parser = Parser::new(settings());
    let mut now = Timestamp::ZERO;
    let mut step = |event| {
        let mut out = Output::default();
        parser.step(now, event, &mut out).unwrap();
        now = now + std::time::Duration::from_secs(1);
        parser.step(now, Event::Wake, &mut out).unwrap();
        (
            out.effects,
            out.publishes.len(),
            out.finished,
            parser.is_idle(),
        )
    };
    let html = [("content-type", "text/html")];
    let mut other = page(200, &html, "<a href=/y>y</a>");
    other.url = "http://a.test/other".into();
    let (asks, published, finished, is_idle) = step(message(1, &other));
    assert_eq!(
        (published, finished.len(), is_idle),
        (0, 0, false),
        "the page waits for the verdict"
    );
    let [Ask { dedup: 0, ask }] = &asks[..] else {
        panic!("one ask")
    };
    let first = Some(Place {
        url: 1,
        links: ask.bodies[0].at.links,
    });
    let reply = Some(rhumb_wire::message::ContentReply { first: vec![first] });
    assert_eq!(
        step(Event::Answer(Answer { dedup: 0, reply })),
        (vec![], 0, vec![Ticket(1)], true)
    );

    let mut places = |url: &str, headers: &[(&str, &str)], body: &str| {
        let input = Page {
            url: url.into(),
            ..page(200, headers, body)
        };
        let (asks, ..) = step(message(9, &input));
        step(Event::Answer(Answer {
            dedup: 0,
            reply: None,
        }));
        asks[0].ask.bodies[0].at.links
    };
    // Does not begin like HTML, so that the type decides.
    let relative = "see <a href=y>y</a>";
    let there = places("http://a.test/1/x", &html, relative);
    assert_eq!(there, places("http://a.test/1/z", &html, relative));
    assert_ne!(
        there,
        places("http://a.test/2/x", &html, relative),
        "the links lead elsewhere"
    );
    assert_ne!(
        there,
        places("http://b.test/1/x", &html, relative),
        "another server"
    );
    let nofollow = [html[0], ("x-robots-tag", "nofollow")];
    assert_ne!(
        there,
        places("http://a.test/1/x", &nofollow, relative),
        "no links were taken"
    );
    assert_ne!(
        there,
        places(
            "http://a.test/1/x",
            &[("content-type", "text/plain")],
            relative
        )
    );

    step(message(2, &page(200, &html, "<a href=/y>y</a>")));
    let (_, published, finished, _) = step(Event::Answer(Answer {
        dedup: 0,
        reply: None,
    }));
    assert_eq!(
        (published, finished),
        (1, vec![Ticket(2)]),
        "no answer counts as not met before"
    );
}

#[test]
fn a_page_without_links_makes_no_message() {
    assert_eq!(
        found(page(200, &[("content-type", "text/html")], "nothing")),
        None
    );
    assert_eq!(
        found(page(
            404,
            &[("content-type", "text/html")],
            "<a href=/y>y</a>"
        )),
        None
    );
    let robots = page(200, &[("content-type", "text/html")], "<a href=/y>y</a>");
    assert_eq!(
        found(Page {
            is_robots: true,
            ..robots
        }),
        None
    );
}
#[test]
fn a_document_says_of_itself_what_it_is_and_a_redirect_is_none() {
    let mut parser = Parser::new(Settings {
        content_seen: false,
        documents: true,
        ..settings()
    });
    let mut step = |input| {
        let mut out = Output::default();
        parser
            .step(Timestamp::ZERO, message(7, &input), &mut out)
            .unwrap();
        assert_eq!(out.finished, [Ticket(7)]);
        let said = out
            .publishes
            .into_iter()
            .filter(|publish| publish.edge == Edge::Documents);
        let said = said.map(|publish| {
            (
                decode::<Documents>(&publish.payload).unwrap().entries,
                publish.causes,
            )
        });
        said.collect::<Vec<_>>()
    };
    let html = "<html lang=de><title>One</title><a href=/y>y</a>";
    let document = Document {
        url: "http://a.test/x".into(),
        fetched_at_ms: 0,
        title: "One".into(),
        language: "de".into(),
        links: 1,
        cut: None,
    };
    let said = step(page(200, &[("content-type", "text/html")], html));
    assert_eq!(said, [(vec![document], vec![Ticket(7)])]);
    assert_eq!(step(page(301, &[("location", "/z")], "")), []);
}

#[test]
fn the_urls_of_a_sitemap_are_offered_to_each_topic_and_links_of_a_page_are_not() {
    let topics = ["docs", "t", "news"].map(str::to_owned).into();
    let mut parser = Parser::new(Settings {
        content_seen: false,
        topics,
        ..settings()
    });
    let mut found_by = |content_type: &str, body: &str| {
        let mut input = page(200, &[("content-type", content_type)], body);
        input.origin.topic = "t".into();
        let mut out = Output::default();
        parser
            .step(Timestamp::ZERO, message(7, &input), &mut out)
            .unwrap();
        assert_eq!(out.finished, [Ticket(7)]);
        let found = out
            .publishes
            .iter()
            .map(|publish| decode::<FoundUrls>(&publish.payload).unwrap());
        found
            .map(|found| (found.origin.topic, found.urls.len(), found.origin.depth))
            .collect::<Vec<_>>()
    };
    let map = "<urlset><url><loc>http://a.test/1</loc></url><url><loc>http://a.test/2</loc></url></urlset>";
    let depth = page(200, &[], "").origin.depth + 1;
    let expected = ["t", "docs", "news"].map(|topic| (topic.to_owned(), 2, depth));
    assert_eq!(found_by("application/xml", map), expected);
    assert_eq!(
        found_by("text/html", "<a href=/1>1</a>"),
        [("t".to_owned(), 1, depth)]
    );
    let rss = "<rss><channel><item><link>http://a.test/1</link></item></channel></rss>";
    assert_eq!(
        found_by("application/xml", rss),
        [("t".to_owned(), 1, depth)]
    );
}

/// Goal: what a sitemap redirects to, and what an index lists, are sitemaps of the same server;
/// nothing else is one. What is listed is known as that, also behind a redirect, and lists no
/// sitemaps itself.
#[test]
fn redirects_and_indexes_hand_on_who_named_them_and_pages_do_not() {
    let on = "http://a.test/robots.txt";
    let named = Origin::page_of_sitemaps(on, "http://a.test");
    let listed = Origin::page_of_listed_sitemaps("http://a.test/index", "http://a.test");
    let linked = on.to_owned();
    let index = "<sitemapindex><sitemap><loc>http://b.test/s</loc></sitemap></sitemapindex>";
    let map = "<urlset><url><loc>http://b.test/p</loc></url></urlset>";
    let html = ("content-type", "text/html");
    let to_b = ("location", "http://b.test/");
    let of = |by: &str, status: u16, header: (&str, &str), body: &str| {
        let mut input = page(status, &[header], body);
        input.url = on.into();
        input.origin.page = by.to_owned();
        found(input).unwrap().origin.page
    };
    let of_listed = |server: &str| Origin::page_of_listed_sitemaps(on, server);
    assert_eq!(of(&named, 301, to_b, ""), named);
    assert_eq!(of(&listed, 301, to_b, ""), of_listed("http://a.test"));
    assert_eq!(of(&named, 200, html, index), of_listed("http://a.test"));
    assert_eq!(
        of(&linked, 200, html, index),
        of_listed(""),
        "an index that no robots.txt names"
    );
    for (by, status, header, body) in [
        (&named, 200, html, map),
        (&named, 200, html, "http://b.test/p"),
        (&named, 200, html, "<a href=/x>"),
        (&listed, 200, html, map),
        (&listed, 200, html, index),
        (&linked, 200, html, "<a href=/x>"),
        (&linked, 301, to_b, ""),
    ] {
        assert_eq!(of(by, status, header, body), on, "{by} {status} {body}");
    }
}

#[test]
fn what_a_limit_left_out_is_told_in_documents_and_to_who_asks() {
    let limits = Limits {
        links_per_page_max: 2,
        links_per_sitemap_max: 3,
        ..settings().limits
    };
    let mut parser = Parser::new(Settings {
        content_seen: false,
        documents: true,
        limits,
        ..settings()
    });
    let mut cut = |body: &str| {
        let mut out = Output::default();
        let page = page(200, &[("content-type", "text/html")], body);
        parser
            .step(Timestamp::ZERO, message(7, &page), &mut out)
            .unwrap();
        let said = out
            .publishes
            .iter()
            .find(|publish| publish.edge == Edge::Documents)
            .unwrap();
        let cut = decode::<Documents>(&said.payload).unwrap().entries[0].cut;
        (cut, parser.why(Timestamp::ZERO, "http://a.test/x").unwrap())
    };
    assert_eq!(cut("<a href=/1><a href=/2>"), (None, None));
    let (said, why) = cut("<a href=/1><a href=/2><a href=/3>");
    assert_eq!(said, Some(Cut::PageLinks));
    assert!(why.unwrap().contains("limits.links_per_page"));
    let locs = |n: usize| {
        (0..n)
            .map(|number| format!("<loc>/{number}</loc>"))
            .collect::<String>()
    };
    assert_eq!(cut(&format!("<urlset>{}</urlset>", locs(3))).0, None);
    assert_eq!(
        cut(&format!("<urlset>{}</urlset>", locs(4))).0,
        Some(Cut::SitemapLinks)
    );
    let counts: std::collections::HashMap<_, _> = parser.counts().into_iter().collect();
    assert_eq!(
        (
            counts["truncated_links_total"],
            counts["cut_sitemaps_total"]
        ),
        (2, 1)
    );
}

#[test]
fn anchors_travel_beside_their_urls() {
    let options = Options {
        anchors: true,
        ..Options::default()
    };
    let mut parser = Parser::new(Settings {
        content_seen: false,
        options,
        ..settings()
    });
    let mut anchors = |input| {
        let mut out = Output::default();
        parser
            .step(Timestamp::ZERO, message(7, &input), &mut out)
            .unwrap();
        let found: FoundUrls = decode(&out.publishes[0].payload).unwrap();
        assert_eq!(found.urls.len(), found.anchors.len());
        found
            .anchors
            .into_iter()
            .map(|anchor| anchor.text)
            .collect::<Vec<_>>()
    };
    let html = [("content-type", "text/html")];
    assert_eq!(
        anchors(page(
            200,
            &html,
            "<a href=/y>why</a> and <a href=/z>zed</a>"
        )),
        ["why", "zed"]
    );
    assert_eq!(
        anchors(page(301, &[("location", "http://b.test/")], "")),
        [""]
    );
    assert_eq!(
        anchors(page(301, &[("location", "http://a.test/%78")], "")),
        [""],
        "a literal target, too"
    );
}

/// Goal: of many pages some are sketched, each in its first message alone, and none where nobody
/// wants it.
#[test]
fn some_pages_are_sketched() {
    let html = [("content-type", "text/html")];
    let body = "<p>One two three four five six seven eight nine ten eleven</p><a href=/y>why</a>";
    let sketched = |wanted: bool| {
        let options = Options {
            sketch: wanted,
            ..Options::default()
        };
        let mut parser = Parser::new(Settings {
            content_seen: false,
            options,
            ..settings()
        });
        let is_sketched = |number: &u32| {
            let mut out = Output::default();
            let page = Page {
                url: format!("http://a.test/{number}"),
                ..page(200, &html, body)
            };
            parser
                .step(Timestamp::ZERO, message(7, &page), &mut out)
                .unwrap();
            decode::<FoundUrls>(&out.publishes[0].payload)
                .unwrap()
                .sketch
                .is_some()
        };
        (0..3200).filter(is_sketched).count()
    };
    assert_eq!(sketched(false), 0);
    let some = sketched(true);
    assert!((50..150).contains(&some), "{some} of 3,200");
}
