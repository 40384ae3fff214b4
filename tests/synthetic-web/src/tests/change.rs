//! Tests of a web whose pages change, come and go.

mod http2;

use super::*;
use crate::life::Life;
use crate::record::Sight;
use crate::validators::date;

/// A change of all pages at one rate.
fn steady(interval_ms: u64) -> Change {
    Change {
        sigma: 0.0,
        never: 0.0,
        ..Change::new(Duration::from_millis(interval_ms))
    }
}

/// No page changes.
fn still() -> Change {
    Change {
        never: 1.0,
        ..Change::new(Duration::from_secs(1))
    }
}

fn start(change: Change) -> SyntheticWeb {
    SyntheticWeb::start(Profile {
        change: Some(change),
        ..small()
    })
    .unwrap()
}

fn with_validators(change: Change, tags: [f64; 3], dates: f64) -> SyntheticWeb {
    let [tags, frozen, fickle] = tags;
    start(Change {
        validators: ValidatorShares {
            tags,
            frozen,
            fickle,
            dates,
        },
        ..change
    })
}

fn path(web: &SyntheticWeb, host: u32, page: u32) -> String {
    let mut path = String::new();
    Resource::Page(page).write_path(&web.web.plan, host, "&", &mut path);
    path
}

/// Asks with a header line.
async fn ask_with(web: &SyntheticWeb, client: &mut Client, path: &str, field: &str) -> Response {
    let authority = web.web.plan.authority(0);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n{field}\r\n\r\n");
    client.send(request.as_bytes()).await.unwrap();
    client.receive(true).await.unwrap()
}

fn life(web: &SyntheticWeb, host: u32, page: u32) -> Life {
    web.web.plan.life(host, page).unwrap()
}

fn text(response: &Response) -> &str {
    std::str::from_utf8(&response.body).unwrap()
}

fn now_s(web: &SyntheticWeb) -> f64 {
    web.began().elapsed().as_secs_f64()
}

async fn until(web: &SyntheticWeb, at_s: f64) {
    let wait = Duration::from_secs_f64((at_s - now_s(web)).max(0.0));
    tokio::time::sleep(wait + Duration::from_millis(2)).await;
}

/// Goal: what a page says changes exactly when its version does, and its links do not.
#[tokio::test]
async fn a_page_changes_its_text_with_its_version_and_keeps_its_links() {
    let web = start(steady(50));
    let mut client = connect(&web, 0).await;
    let mut by_tag = BTreeMap::new();
    for _ in 0..20 {
        let page = client.get("/").await.unwrap();
        let tag = page.header("etag").unwrap().to_owned();
        let body = by_tag.entry(tag).or_insert_with(|| page.body.clone());
        assert_eq!(*body, page.body, "a version is the same in each answer");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(by_tag.len() > 2, "{:?}", by_tag.keys());
    let bodies: BTreeSet<&Vec<u8>> = by_tag.values().collect();
    assert_eq!(bodies.len(), by_tag.len());
    let all_links: BTreeSet<Vec<String>> = bodies
        .iter()
        .map(|body| links(std::str::from_utf8(body).unwrap()))
        .collect();
    assert_eq!(all_links.len(), 1);
}

#[tokio::test]
async fn right_validators_tell_each_change_and_its_time() {
    let web = with_validators(steady(100), [1.0, 0.0, 0.0], 1.0);
    let mut client = connect(&web, 0).await;
    let mut held = client.get("/").await.unwrap();
    let mut answers = BTreeMap::new();
    for _ in 0..30 {
        let tag = held.header("etag").unwrap().to_owned();
        let field = format!("If-None-Match: {tag}");
        let answer = ask_with(&web, &mut client, "/", &field).await;
        *answers.entry(answer.status).or_insert(0) += 1;
        let is_same = answer.header("etag") == Some(&tag);
        assert_eq!(answer.status == 304, is_same, "{}", answer.head);
        let mut life = life(&web, 0, 0);
        let mut version = life.version_at(0.0);
        let tag = answer.header("etag").unwrap();
        while !tag.contains(&format!("-v{}\"", version.number)) {
            version = life.version_at(version.until_s);
        }
        let changed = date(web.web.recorder.began_at(), version.since_s);
        let changed = httpdate::fmt_http_date(changed);
        assert_eq!(answer.header("last-modified"), Some(changed.as_str()));
        if !is_same {
            held = answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(answers[&200] > 0 && answers[&304] > 0, "{answers:?}");
}

#[tokio::test]
async fn a_date_alone_tells_a_change_and_a_host_without_validators_tells_none() {
    let web = with_validators(still(), [0.0; 3], 1.0);
    let mut client = connect(&web, 0).await;
    let page = client.get("/").await.unwrap();
    let dated = page.header("last-modified").unwrap();
    assert_eq!(dated, "Tue, 01 Sep 2020 12:00:00 GMT");
    assert_eq!(page.header("etag"), None);
    let same = format!("If-Modified-Since: {dated}");
    assert_eq!(ask_with(&web, &mut client, "/", &same).await.status, 304);
    let web = with_validators(still(), [0.0; 3], 0.0);
    let mut client = connect(&web, 0).await;
    let page = ask_with(&web, &mut client, "/", &same).await;
    let validators = (page.header("etag"), page.header("last-modified"));
    assert_eq!((page.status, validators), (200, (None, None)));
}

#[tokio::test]
async fn a_frozen_host_always_says_304_and_a_fickle_one_never_does() {
    let web = with_validators(steady(5), [0.0, 1.0, 0.0], 0.0);
    let mut client = connect(&web, 0).await;
    let page = client.get("/").await.unwrap();
    let field = format!("If-None-Match: {}", page.header("etag").unwrap());
    until(&web, now_s(&web) + 0.1).await;
    assert_ne!(client.get("/").await.unwrap().body, page.body);
    for field in [field.as_str(), "If-Modified-Since: yesterday"] {
        assert_eq!(ask_with(&web, &mut client, "/", field).await.status, 304);
    }
    let web = with_validators(still(), [0.0, 0.0, 1.0], 0.0);
    let mut client = connect(&web, 0).await;
    let page = client.get("/").await.unwrap();
    let tag = page.header("etag").unwrap();
    let field = format!("If-None-Match: {tag}");
    let again = ask_with(&web, &mut client, "/", &field).await;
    assert_eq!((again.status, &again.body), (200, &page.body));
    assert_ne!(again.header("etag"), Some(tag));
}

#[tokio::test]
async fn a_noisy_host_sends_other_bytes_with_the_same_text() {
    let web = start(Change {
        noise: 1.0,
        ..still()
    });
    let mut client = connect(&web, 0).await;
    let one = client.get("/").await.unwrap();
    let other = client.get("/").await.unwrap();
    assert_ne!(one.body, other.body);
    assert_eq!(one.header("etag"), other.header("etag"));
    let main = |page: &Response| text(page).split_once("<main>").unwrap().1.to_owned();
    assert_eq!(main(&one), main(&other));
}

/// The dates in a sitemap, by page; empty where there is none.
fn dates(web: &SyntheticWeb, sitemap: &Response) -> Vec<(u32, String)> {
    let number = |url: &str| {
        let path = url.strip_prefix(&web.web.plan.origin(0)).unwrap();
        match Resource::of_path(&web.web.plan, 0, &path.replace("&amp;", "&")) {
            Resource::Page(page) => page,
            other => panic!("{other:?}"),
        }
    };
    let between = |text: &str, start, end| -> Option<String> {
        let (_, rest) = text.split_once(start)?;
        Some(rest.split_once(end)?.0.to_owned())
    };
    text(sitemap)
        .lines()
        .filter_map(|line| {
            let url = between(line, "<loc>", "</loc>")?;
            let date = between(line, "<lastmod>", "</lastmod>");
            Some((number(&url), date.unwrap_or_default()))
        })
        .collect()
}

async fn sitemap(right: f64, wrong: f64, undated: f64) -> (SyntheticWeb, Vec<(u32, String)>) {
    let web = start(Change {
        sitemaps: SitemapShares {
            right,
            wrong,
            undated,
        },
        ..Change::new(Duration::from_secs(60))
    });
    let mut client = connect(&web, 0).await;
    let robots = client.get("/robots.txt").await.unwrap();
    let line = format!("Sitemap: {}/sitemap.xml\n", web.web.plan.origin(0));
    assert!(text(&robots).ends_with(&line), "{}", text(&robots));
    let sitemap = client.get("/sitemap.xml").await.unwrap();
    let dates = dates(&web, &sitemap);
    let pages: Vec<u32> = dates.iter().map(|(page, _)| *page).collect();
    assert_eq!(pages, (0..40).collect::<Vec<_>>());
    (web, dates)
}

#[tokio::test]
async fn a_sitemap_tells_the_time_of_each_change_or_of_now_or_none() {
    let (web, dates) = sitemap(1.0, 0.0, 0.0).await;
    let mut different = BTreeSet::new();
    for (page, dated) in dates {
        let mut life = life(&web, 0, page);
        // It was asked for between the start and now.
        let candidates = [life.version_at(0.0), life.version_at(now_s(&web))];
        let dates = candidates.map(|version| {
            let changed = date(web.web.recorder.began_at(), version.since_s);
            humantime::format_rfc3339_millis(changed).to_string()
        });
        assert!(dates.contains(&dated), "page {page}: {dated} {dates:?}");
        different.insert(dated);
    }
    assert!(different.len() > 20, "{different:?}");
    let (web, dates) = sitemap(0.0, 1.0, 0.0).await;
    let started = web.web.recorder.began_at();
    for (_, dated) in dates {
        let dated = humantime::parse_rfc3339(&dated).unwrap();
        let age = dated + Duration::from_millis(1);
        assert!(age >= started && dated <= date(started, now_s(&web)));
    }
    let (_, dates) = sitemap(0.0, 0.0, 1.0).await;
    assert!(dates.iter().all(|(_, dated)| dated.is_empty()));
    let truth = web.truth().pages;
    assert!(truth.contains(&format!("{}/sitemap.xml", web.web.plan.origin(0))));
}

#[tokio::test]
async fn a_host_has_no_sitemap_unless_one_is_asked_for() {
    let web = start(still());
    let mut client = connect(&web, 0).await;
    assert_eq!(client.get("/sitemap.xml").await.unwrap().status, 404);
    assert!(web.report().unexpected.count > 0);
}

#[tokio::test]
async fn gone_pages_answer_404_and_none_leads_to_others_alone() {
    let web = start(Change {
        gone: GonePages {
            share: 1.0,
            after: Duration::ZERO,
            length: Duration::from_secs(3_600_000),
        },
        ..still()
    });
    let mut client = connect(&web, 0).await;
    let mut gone = 0;
    for page in 0..40 {
        let status = client.get(&path(&web, 0, page)).await.unwrap().status;
        let is_leaf = web.web.plan.is_leaf(0, page);
        assert_eq!(status, if is_leaf { 404 } else { 200 }, "page {page}");
        gone += u32::from(is_leaf);
    }
    assert!((10..30).contains(&gone), "{gone}");
    // That a page is gone is the truth about it.
    let after_all_s = now_s(&web);
    until(&web, after_all_s + 0.01).await;
    let now_s = now_s(&web);
    let to = Duration::from_secs_f64(now_s);
    let from = Duration::from_secs_f64(now_s - 1e-4);
    let share = web.freshness(from, to).unwrap().share;
    assert!((share - 40.0 / 240.0).abs() < 1e-6, "{share}");
}

/// Goal: a new page is found by way of the one page that links to it, which then has another
/// version.
#[tokio::test]
async fn new_pages_are_neither_there_nor_linked_to_before_they_come() {
    let new = NewPages {
        share: 1.0,
        within: Duration::from_secs(2),
    };
    let web = start(Change { new, ..still() });
    let plan = &web.web.plan;
    let born = |page: &u32| plan.born_s(0, *page);
    let last = (0..40).max_by(|one, other| born(one).total_cmp(&born(other)));
    let last = last.unwrap();
    let parent = (0..40).find(|page| plan.site(0).children(*page).contains(&last));
    let parent = path(&web, 0, parent.unwrap());
    let mut client = connect(&web, 0).await;
    assert!(
        born(&last) > 1.0 && now_s(&web) < 1.0,
        "the machine stood still"
    );
    let new = path(&web, 0, last);
    assert_eq!(client.get(&new).await.unwrap().status, 404);
    let before = client.get(&parent).await.unwrap();
    until(&web, born(&last)).await;
    let page = client.get(&new).await.unwrap();
    assert_eq!(page.status, 200);
    let after = client.get(&parent).await.unwrap();
    let links_to = |page: &Response| {
        let base = Url::parse(&format!("{}{parent}", plan.origin(0))).unwrap();
        let links = links(text(page));
        links
            .iter()
            .any(|link| base.join(link).unwrap().as_str().ends_with(&new))
    };
    assert!(!links_to(&before) && links_to(&after));
    assert_ne!(before.header("etag"), after.header("etag"));
    until(&web, 2.0).await;
    let found = NaiveCrawl::run(&web, &web.seed_urls()[..1]).await;
    assert_eq!(sorted(found), sorted(web.truth()));
}

/// Goal: the figure is what a hand computes from the times of requests and changes.
#[tokio::test]
async fn freshness_is_the_time_in_which_the_copy_is_the_page() {
    let web = SyntheticWeb::start(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(4),
        change: Some(Change {
            sigma: 1.0,
            never: 0.0,
            ..Change::new(Duration::from_millis(300))
        }),
        ..Profile::raw()
    })
    .unwrap();
    let mut client = connect(&web, 0).await;
    // Page 3 is never asked for.
    for page in [0, 1, 2, 0, 1, 0] {
        client.get(&path(&web, 0, page)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(70)).await;
    }
    let from = Duration::from_millis(100);
    let to = web.began().elapsed();
    let to_s = to.as_secs_f64();
    let window_s = to_s - 0.1;
    let freshness = web.freshness(from, to).unwrap();
    let looks = web.web.recorder.host(0).looks.clone();
    let pages: Vec<u32> = looks.iter().map(|look| look.page).collect();
    assert_eq!(pages, [0, 1, 2, 0, 1, 0]);
    assert!(looks.iter().all(|look| look.sight == Sight::Page));
    // Each copy is fresh until its page changes, or is fetched again, within the window.
    let mut fresh_s = 0.0;
    for (number, look) in looks.iter().enumerate() {
        let again = looks[number + 1..]
            .iter()
            .find(|next| next.page == look.page);
        let changes = life(&web, 0, look.page).version_at(look.at_s).until_s;
        let end = again.map_or(to_s, |next| next.at_s).min(changes);
        fresh_s += (end - look.at_s.max(0.1)).max(0.0);
    }
    let share = fresh_s / (4.0 * window_s);
    assert!((freshness.share - share).abs() < 1e-9 && share > 0.1);
    // The first three are no visits, and no other came before the window.
    assert_eq!((freshness.visits, freshness.pages), (3, 4));
    // F(I) = (1 - e^(-D I)) / (D I), I = pages x window / requests.
    let interval_s = 4.0 * window_s / 3.0;
    let uniform = (0..4).map(|page| {
        let changes = life(&web, 0, page).rate * interval_s;
        (1.0 - (-changes).exp()) / changes
    });
    let uniform = uniform.sum::<f64>() / 4.0;
    assert!((freshness.uniform - uniform).abs() < 1e-9);
    assert!(freshness.optimum > uniform && freshness.weighted == freshness.uniform);
    let way = (freshness.share - uniform) / (freshness.optimum - uniform);
    assert!((freshness.way.unwrap() - way).abs() < 1e-9);
    let asked = format!("/freshness?from=0.1&to={to_s}");
    let asked = ask(web.control(), "GET", &asked).unwrap();
    let told: Freshness = serde_json::from_str(&asked).unwrap();
    assert!((told.share - freshness.share).abs() < 1e-9 && told.visits == 3);
    assert!(web.report().freshness.is_some());
    assert!(ask(web.control(), "GET", "/freshness?from=x&to=0.45").is_err());
}

/// Goal: the formula and the record agree. Method: all pages are visited in turn, evenly, which
/// is the uniform plan.
#[tokio::test]
async fn uniform_visits_are_as_fresh_as_uniform_visits_are_expected_to_be() {
    let web = SyntheticWeb::start(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(100),
        change: Some(Change::new(Duration::from_millis(200))),
        ..Profile::raw()
    })
    .unwrap();
    let mut client = connect(&web, 0).await;
    let paths: Vec<String> = (0..100).map(|page| path(&web, 0, page)).collect();
    let mut every = tokio::time::interval(Duration::from_millis(2));
    for round in 0..1_000 {
        every.tick().await;
        client.get(&paths[round % 100]).await.unwrap();
    }
    let now = web.began().elapsed();
    let freshness = web.freshness(now / 5, now).unwrap();
    let difference = freshness.share - freshness.uniform;
    assert!(difference.abs() < 0.06, "{freshness:?}");
    assert!(freshness.uniform < freshness.optimum, "{freshness:?}");
}

#[tokio::test]
async fn a_web_whose_pages_do_not_change_has_no_freshness() {
    let web = SyntheticWeb::start(small()).unwrap();
    connect(&web, 0).await.get("/").await.unwrap();
    assert_eq!(web.freshness(Duration::ZERO, Duration::from_secs(1)), None);
    assert_eq!(web.report().freshness, None);
    let control = ask(web.control(), "GET", "/freshness?from=0&to=1").unwrap();
    assert_eq!(control, "null");
    assert!(web.web.recorder.host(0).looks.is_empty());
    let both = Profile {
        validators: true,
        change: Some(still()),
        ..small()
    };
    assert!(SyntheticWeb::start(both).is_err());
}
