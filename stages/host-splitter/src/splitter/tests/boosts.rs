//! Later links: what is sent of them, and what is not.

use super::*;
use rhumb_url::fingerprint;
use rhumb_wire::message::{Boosts, Quality};

/// What was sent for each URL, by its fingerprint.
fn boosts(t: &Harness) -> HashMap<u64, f32> {
    let mut sums = HashMap::new();
    for send in t.sends.iter().filter(|send| send.edge == Edge::UrlsBoosts) {
        let boosts: Boosts = decode(&send.payload).unwrap();
        assert_eq!(send.token, Token::Partition(boosts.partition));
        for boost in boosts.boosts {
            assert_eq!(
                t.core.batches.partition_of_hash(boost.host),
                boosts.partition
            );
            *sums.entry(boost.url).or_default() += boost.worth.get();
        }
    }
    sums
}

fn linking(quality: &str) -> Harness {
    let quality = format!("stages.scheduler.quality={quality}");
    let set = [
        "scope.follow=any",
        "stages.scheduler.policy=capacity",
        &quality,
        "stages.scheduler.boost_bytes=1MiB",
    ];
    Harness::new(settings_with(&set))
}

/// The links of a page that has so much to give to each.
fn links(page: &str, flow: f32, urls: &[&str]) -> FoundUrls {
    let mut found = found(false, urls);
    (found.origin.page, found.origin.flow) = (page.into(), Quality::new(flow).unwrap());
    found
}

#[test]
fn what_later_links_bring_is_sent_when_it_is_half_of_what_went_before() {
    let mut t = linking("opic");
    let url = "http://a.test/";
    let sent = |t: &mut Harness, flow| {
        t.input(links("http://b.test/", flow, &[url]));
        t.settle();
        boosts(t)
            .get(&fingerprint(url))
            .copied()
            .unwrap_or_default()
    };
    // The first goes on with the URL.
    let flows = [1.0, 0.5, 0.5, 1.0, 0.75, 0.25, 4.0];
    assert_eq!(
        flows.map(|flow| sent(&mut t, flow)),
        [0.0, 0.5, 0.5, 2.0, 2.0, 2.0, 7.0]
    );
}

#[test]
fn links_to_a_page_that_was_fetched_send_nothing_more() {
    let mut t = linking("links");
    let one = "http://a.test/1";
    let other = "http://a.test/2";
    let mut linked_from = |page: &str, urls: &[&str]| {
        t.input(links(page, 1.0, urls));
        t.settle();
        [one, other].map(|url| {
            boosts(&t)
                .get(&fingerprint(url))
                .copied()
                .unwrap_or_default()
        })
    };
    assert_eq!(
        linked_from("http://b.test/", &[one, other]),
        [0.0, 0.0],
        "the first goes on with the URL"
    );
    assert_eq!(linked_from("http://c.test/", &[one, other]), [1.0, 1.0]);
    assert_eq!(linked_from(one, &[]), [1.0, 1.0]);
    for n in 0..9 {
        linked_from(&format!("http://d{n}.test/"), &[one, other]);
    }
    assert_eq!(linked_from("http://e.test/", &[one]), [1.0, 7.0]);
    let again = FoundUrls {
        origin: Origin {
            again: 1,
            ..Origin::default()
        },
        ..found(true, &[one])
    };
    t.input(again);
    t.input(links("http://e.test/", 1.0, &[one]));
    t.settle();
    assert_eq!(
        boosts(&t)[&fingerprint(one)],
        2.0,
        "it is to be fetched again"
    );
}

#[test]
fn links_count_once_however_often_their_page_is_visited() {
    for policy in ["links", "opic"] {
        let mut t = linking(policy);
        let url = "http://a.test/";
        let new = "http://a.test/new";
        let mut visited = |visit: u32, urls: &[&str]| {
            t.input(FoundUrls {
                visit,
                ..links("http://b.test/", 1.0, urls)
            });
            t.settle();
        };
        visited(1, &[url]);
        for visit in 2..9 {
            visited(visit, &[url, new]);
        }
        assert!(boosts(&t).is_empty(), "{policy}");
        assert_eq!(t.core.found_total, 15, "what is new is followed");
    }
}

#[test]
fn a_link_to_a_url_that_was_forgotten_waits_for_others() {
    let mut t = linking("links");
    let url = "http://a.test/";
    // Found, and handed on: known as repeated from now on.
    t.input(links("http://b.test/", 1.0, &[url]));
    t.settle();
    t.store_all();
    t.core.boosts.forget();
    for page in 0..3 {
        t.input(links(&format!("http://c{page}.test/"), 1.0, &[url]));
        t.settle();
        assert_eq!(
            boosts(&t).get(&fingerprint(url)).copied(),
            [None, Some(2.0), Some(2.0)][page]
        );
    }
}

#[test]
fn links_from_one_domain_are_worth_the_less_the_more_there_are() {
    let mut t = linking("links");
    let farmed = "http://a.test/farmed";
    let linked = "http://a.test/linked";
    for page in 0..1000 {
        t.input(links(
            &format!("http://h{}.farm.example/{page}", page % 7),
            1.0,
            &[farmed],
        ));
        t.input(links(&format!("http://d{page}.test/"), 1.0, &[linked]));
    }
    t.settle();
    let farmed = boosts(&t)[&fingerprint(farmed)];
    let linked = boosts(&t)[&fingerprint(linked)];
    assert!(farmed < 100.0 && linked > 3.0 * farmed, "{farmed} {linked}");
}

#[test]
fn five_domains_that_link_in_turn_count_as_one() {
    let mut t = linking("links");
    for page in 0..5000 {
        t.input(links(
            &format!("http://h.farm{}.example/{page}", page % 5),
            1.0,
            &["http://a.test/"],
        ));
        t.settle();
    }
    let farmed = boosts(&t)[&fingerprint("http://a.test/")];
    assert!(farmed < 500.0, "{farmed}");
}

#[test]
fn topics_that_value_links_otherwise_have_no_say_about_each_other_s_urls() {
    let set = [
        "scope.follow=any",
        "stages.scheduler.policy=capacity",
        "stages.scheduler.quality=links",
    ];
    let mut t = Harness::new(settings_with(
        &[&set[..], &["topics.cash={quality: opic}"]].concat(),
    ));
    let url = "http://a.test/";
    for page in 0..4 {
        let mut found = links(&format!("http://b.test/{page}"), 1000.0, &[url]);
        t.input(found.clone());
        found.origin.topic = "cash".into();
        t.input(found);
    }
    t.settle();
    assert_eq!(boosts(&t)[&fingerprint(url)], 2.0);
}

#[test]
fn a_flood_of_boosts_of_one_partition_is_cut() {
    let mut t = linking("links");
    let urls: Vec<String> = (0..500).map(|n| format!("http://a.test/{n}")).collect();
    for page in 0..4 {
        for urls in urls.chunks(50) {
            let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
            t.input(links(&format!("http://d{page}.test/"), 1.0, &urls));
        }
    }
    let counts = |t: &Harness| t.core.counts().into_iter().collect::<HashMap<_, _>>();
    t.now = t.now + Duration::from_secs(1);
    t.step(Event::Wake);
    assert_eq!(
        (
            counts(&t)["boosts_total"],
            counts(&t)["boosts_dropped_total"]
        ),
        (100, 900)
    );
}

#[test]
fn what_gives_way_is_sent_where_it_matters_and_no_more_is_sent_than_came() {
    let mut t = linking("opic");
    let url = |n: usize| format!("http://h{}.test/{n}", n % 50);
    // Three times as many URLs as there are rows.
    let urls = 3 * (1 << 20) / 32;
    let mut came: HashMap<u64, f32> = HashMap::new();
    for n in 0..urls {
        let all = [url(n), url(n / 2), url(n / 3)];
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        all.iter()
            .for_each(|url| *came.entry(fingerprint(url)).or_default() += 0.5);
        t.input(links("http://b.test/", 0.5, &all));
        if n % 100 == 0 {
            t.settle();
        }
    }
    t.settle();
    let sent = boosts(&t);
    assert!(sent.len() > urls / 10, "{} of {urls}", sent.len());
    assert!(sent.iter().all(|(url, sum)| *sum <= came[url]));
}

#[test]
fn seeds_and_topics_that_do_not_ask_for_it_send_nothing() {
    let set = [
        "scope.follow=any",
        "stages.scheduler.policy=capacity",
        "topics.t={quality: flow}",
    ];
    let mut flow = Harness::new(settings_with(
        &[&set[..], &["stages.scheduler.quality=links"]].concat(),
    ));
    let mut first = Harness::new(settings_with(&[
        "scope.follow=any",
        "stages.scheduler.quality=links",
    ]));
    let mut seeds = linking("links");
    for _ in 0..3 {
        flow.input(found(false, &["http://a.test/"]));
        first.input(found(false, &["http://a.test/"]));
        seeds.input(FoundUrls {
            origin: Origin {
                page: String::new(),
                ..found(false, &[]).origin
            },
            ..found(false, &["http://a.test/"])
        });
    }
    for t in [&mut flow, &mut first, &mut seeds] {
        t.settle();
        assert!(boosts(t).is_empty());
    }
}

#[test]
fn a_page_that_is_given_as_known_does_not_wait_again() {
    let mut t = linking("links");
    let url = "http://a.test/";
    for page in ["http://b.test/", "http://c.test/"] {
        t.input(links(page, 1.0, &[url]));
    }
    t.input(links(url, 1.0, &[]));
    t.settle();
    let sent = boosts(&t);
    assert_eq!(sent[&fingerprint(url)], 1.0);
    t.input(known(url, 1));
    for page in ["http://d.test/", "http://e.test/", "http://f.test/"] {
        t.input(links(page, 1.0, &[url]));
    }
    t.settle();
    assert_eq!(boosts(&t), sent);
}
