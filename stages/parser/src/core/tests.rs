//! Examples of the core: what comes of a page.

use super::*;
use rhumb_config::{Unwanted, Usage};
use rhumb_usage::{Purpose, Signals, Stance};
use rhumb_wire::message::{PageSignals, decode};

pub(super) fn page(status: u16, headers: &[(&str, &str)], body: &str) -> Page {
    Page {
        url: "http://a.test/x".into(),
        origin: Origin {
            depth: 3,
            redirects: 1,
            ..Origin::seed("t")
        },
        status,
        headers: headers
            .iter()
            .map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()))
            .collect(),
        body: body.as_bytes().to_vec(),
        ..Page::default()
    }
}

pub(super) fn message(ticket: u64, page: &Page) -> Event<InPlace<Page>, Answer> {
    Event::Message {
        ticket: Ticket(ticket),
        input: InPlace::of(page),
    }
}

pub(super) fn settings() -> Settings {
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
        usages: Usages::default(),
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
        title: "One".into(),
        language: "de".into(),
        links: 1,
        ..Document::default()
    };
    let said = step(page(200, &[("content-type", "text/html")], html));
    assert_eq!(said, [(vec![document], vec![Ticket(7)])]);
    assert_eq!(step(page(301, &[("location", "/z")], "")), []);
}

/// What is told of a page: its document, and its signal.
fn told(unwanted: Unwanted, page: &Page) -> (Option<Document>, Option<PageSignal>) {
    let usage = Usage {
        purposes: vec![Purpose::AiTrain],
        unwanted,
    };
    let mut parser = Parser::new(Settings {
        content_seen: false,
        documents: true,
        usages: Usages::from(usage),
        ..settings()
    });
    let mut out = Output::default();
    parser
        .step(Timestamp::ZERO, message(7, page), &mut out)
        .unwrap();
    parser
        .step(Timestamp::ZERO, Event::Drain, &mut out)
        .unwrap();
    let of = |edge| out.publishes.iter().find(|publish| publish.edge == edge);
    let document = of(Edge::Documents).map(|publish| {
        let mut documents: Documents = decode(&publish.payload).unwrap();
        documents.entries.pop().unwrap()
    });
    let signal = of(Edge::PagesSignals).map(|publish| {
        let signals: PageSignals = decode(&publish.payload).unwrap();
        signals.pages[0]
    });
    (document, signal)
}

#[test]
fn what_an_owner_says_of_use_is_told_of_every_kind_of_page() {
    let html = "<title>One</title><meta name=robots content=noai>";
    let robots = Signals::of_robots_txt("content-signal: ai-train=no\n");
    for (status, headers, body, usage, place) in [
        (
            200,
            &[("content-type", "text/html")][..],
            html,
            None,
            "meta",
        ),
        (404, &[("content-type", "text/html")], html, None, "meta"),
        (
            301,
            &[("location", "/z"), ("tdm-reservation", "1")],
            "",
            None,
            "header",
        ),
        (
            200,
            &[("content-type", "image/png"), ("x-robots-tag", "noai")],
            "",
            None,
            "header",
        ),
        (
            200,
            &[("content-type", "image/png")],
            "",
            Some(&robots),
            "robots.txt",
        ),
        (304, &[], "", Some(&robots), "robots.txt"),
    ] {
        let page = Page {
            usage: usage.cloned().unwrap_or_default(),
            ..page(status, headers, body)
        };
        let (document, signal) = told(Unwanted::Mark, &page);
        let document = document.expect("a document");
        let said = document.usage;
        assert_eq!(said.statements[0].place.name(), place);
        assert_eq!(said.stances.on(Purpose::AiTrain), Stance::Refused);
        assert_eq!(document.verdict, Verdict::Marked(vec![Purpose::AiTrain]));
        assert_eq!(signal.expect("a signal").usage, said.stances);
    }
    let silent = page(200, &[("content-type", "text/html")], "<title>One</title>");
    let (document, signal) = told(Unwanted::Mark, &silent);
    assert_eq!(document.unwrap().usage, Signals::default());
    assert_eq!(signal, None);
    let quoted = format!("Quoted: {html}");
    let other = page(200, &[("content-type", "image/png")], &quoted);
    assert_eq!(told(Unwanted::Mark, &other), (None, None));
}

#[test]
fn of_a_page_that_is_withheld_no_text_is_told() {
    let html = "<title>One</title><meta name=robots content=noai><a href=/y>y</a>";
    let page = page(200, &[("content-type", "text/html")], html);
    for (unwanted, title, name) in [
        (Unwanted::Record, "One", "kept"),
        (Unwanted::Mark, "One", "marked"),
        (Unwanted::Withhold, "", "withheld"),
        (Unwanted::Skip, "", "withheld"),
    ] {
        let document = told(unwanted, &page).0.unwrap();
        assert_eq!(document.title, title);
        assert_eq!(document.verdict.name(), name);
        assert_eq!((document.links, document.usage.statements.len()), (1, 1));
    }
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

/// Goal: of many pages that have links some are sketched, the scheduler of their host is told so in
/// few messages, and nobody is where nobody wants it.
#[test]
fn some_pages_are_sketched() {
    let html = [("content-type", "text/html")];
    let text = "<p>One two three four five six seven eight nine ten eleven</p>";
    let signals = |wanted: bool, body: &str| {
        let options = Options {
            sketch: wanted,
            ..Options::default()
        };
        let mut parser = Parser::new(Settings {
            content_seen: false,
            options,
            ..settings()
        });
        let mut out = Output::default();
        for number in 0..3200 {
            let page = Page {
                url: format!("http://a.test/{number}"),
                ..page(200, &html, body)
            };
            parser
                .step(Timestamp::ZERO, message(7, &page), &mut out)
                .unwrap();
        }
        let mut out = Output::default();
        if let Some(at) = parser.wake_at() {
            parser.step(at, Event::Wake, &mut out).unwrap();
        }
        assert!(out.publishes.len() <= 1, "all of one partition");
        let messages = out.publishes.iter();
        let messages = messages.map(|publish| decode::<PageSignals>(&publish.payload).unwrap());
        messages
            .flat_map(|message| message.pages)
            .collect::<Vec<_>>()
    };
    let linked = format!("{text}<a href=/y>why</a>");
    assert_eq!(signals(false, &linked), []);
    assert_eq!(signals(true, text), [], "they lead to nothing");
    let some = signals(true, &linked);
    assert!((50..150).contains(&some.len()), "{} of 3,200", some.len());
    let shape = rhumb_url::shape_hash("http://a.test/1");
    let host = rhumb_url::host_hash("a.test");
    assert!(
        some.iter()
            .all(|page| (page.host, page.shape) == (host, shape))
    );
}

/// Goal: a sitemap tells which pages changed since it was visited last, of the hosts that it may
/// speak for alone. Method: one that lies elsewhere, named by the robots.txt of a host, with pages
/// of three hosts, at its first visit and at a later one.
#[test]
fn a_sitemap_that_is_visited_again_tells_which_pages_have_changed() {
    const AT_MS: u64 = 1_277_478_000_000;
    let map = "<urlset>
        <url><loc>http://a.test/own</loc><lastmod>2010-06-25T15:00:00Z</lastmod></url>
        <url><loc>https://named.test:8443/1</loc><lastmod>2010-06-25T15:00:00Z</lastmod></url>
        <url><loc>http://other.test/</loc><lastmod>2010-06-25T15:00:00Z</lastmod></url>
        <url><loc>http://a.test/old</loc><lastmod>2010-06-25T13:00:00Z</lastmod></url></urlset>";
    let dated = |visited_ms: u64| {
        let mut parser = Parser::new(Settings {
            content_seen: false,
            ..settings()
        });
        let mut sitemap = page(200, &[("content-type", "application/xml")], map);
        sitemap.origin.page = Origin::page_of_sitemaps(
            "https://named.test:8443/robots.txt",
            "https://named.test:8443",
        );
        sitemap.visited_ms = visited_ms;
        sitemap.fetched_at_ms = AT_MS + 3_600_000;
        let mut out = Output::default();
        parser
            .step(Timestamp::ZERO, message(7, &sitemap), &mut out)
            .unwrap();
        parser
            .step(Timestamp::ZERO, Event::Drain, &mut out)
            .unwrap();
        let signals = out.publishes.iter();
        let signals = signals.filter(|publish| publish.edge == Edge::PagesSignals);
        let signals = signals.map(|publish| decode::<PageSignals>(&publish.payload).unwrap());
        let mut dated: Vec<DatedPage> = signals.flat_map(|signals| signals.dated).collect();
        dated.sort_by_key(|page| page.port);
        dated
    };
    let of = |url: &str, is_https, port| DatedPage {
        url: rhumb_url::fingerprint(url),
        host: rhumb_url::host_hash(rhumb_url::host_of(url)),
        is_https,
        port,
        at_ms: AT_MS,
        kind: SignalKind::Sitemap,
        by: 0,
        waited_ms: 3_600_001,
    };
    let changed = [
        DatedPage {
            by: rhumb_url::fingerprint("http://a.test/x"),
            ..of("http://a.test/own", false, 80)
        },
        of("https://named.test:8443/1", true, 8443),
    ];
    assert_eq!(dated(AT_MS - 1), changed);
    assert_eq!(dated(AT_MS), []);
    assert_eq!(dated(0), [], "its first visit");
}
