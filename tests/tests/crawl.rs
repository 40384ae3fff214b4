//! Whole crawls of the synthetic web: everything once, nothing else, politely, within what was
//! asked.

use rhumb::status::ProcessUse;
use rhumb_tests::harness::{World, assert_conserved, assert_manners, json};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use synthetic_web::client::Client;
use synthetic_web::{Latency, PagesPerHost, Profile, RobotsShares};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn every_page_of_a_plain_web_is_fetched_once() {
    let world = World::new(Profile::raw());
    let finished = world.crawl().run(2 * MINUTE);
    world.assert_whole(&finished);
    assert_eq!(
        (
            finished.summary.restarts,
            finished.summary.refetched,
            finished.summary.dead
        ),
        (0, 0, 0)
    );
}

#[test]
fn a_web_with_latencies_robots_redirects_dead_links_and_closing_servers_is_crawled_whole() {
    let mixed = Profile::mixed();
    let robots = RobotsShares {
        crawl_delay: 0.0,
        ..mixed.robots
    };
    // The largest host has 50 times the mean, and one connection: it alone takes longest.
    let world = World::new(Profile {
        hosts: 500,
        pages_per_host: PagesPerHost::HeavyTail { mean: 20 },
        robots,
        ..mixed
    });
    let finished = world.crawl().run(4 * MINUTE);
    world.assert_whole(&finished);
    let truth = world.web.truth();
    assert!(
        !truth.redirects.is_empty() && !truth.not_found.is_empty() && !truth.disallowed.is_empty()
    );
}

/// TLS, HTTP/2, packed pages, ten requests on a connection.
#[test]
fn a_web_as_most_of_it_is_today_is_crawled_whole() {
    let modern = Profile::modern();
    let world = World::new(Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(25),
        ..modern.clone()
    });
    let finished = world.crawl().run(2 * MINUTE);
    world.assert_whole(&finished);
    let report = world.web.report();
    assert!(report.connections >= 20 * 3, "{}", json(&report));
    let sent: u64 = (0..20).map(|host| world.web.bytes_sent(host)).sum();
    let mean = sent / report.pages.expected;
    assert!(
        mean < u64::from(modern.page_bytes_median),
        "pages of {mean} bytes came unpacked"
    );
    drop(world);
    // Without its root certificate nobody vouches for such a web.
    let strange = World::new(Profile {
        hosts: 2,
        pages_per_host: PagesPerHost::Exactly(2),
        ..modern
    });
    let crawl = strange
        .crawl()
        .environment("SSL_CERT_FILE", "/dev/null")
        .set("stages.scheduler.retry_wait=0s");
    let finished = crawl.run(MINUTE);
    assert_eq!(
        (strange.web.report().requests, finished.summary.pages),
        (0, 0),
        "{}",
        json(&finished.summary)
    );
}

#[test]
fn no_server_is_contacted_before_its_delay_or_crawl_delay_is_over() {
    let robots = RobotsShares {
        rules: 0.5,
        missing: 0.25,
        disallowed_pages: 0.1,
        crawl_delay: 1.0,
        crawl_delay_ms: 500,
    };
    let world = World::new(Profile {
        hosts: 6,
        pages_per_host: PagesPerHost::Exactly(8),
        request_caps: vec![(0.3, 1), (0.3, 3)],
        redirects: 0.1,
        robots,
        delay_expected_ms: 300,
        ..Profile::raw()
    });
    let started = Instant::now();
    let finished = world.crawl().set("politeness.delay=300ms").run(MINUTE);
    world.assert_whole(&finished);
    // Seven or more waits of a host with a Crawl-delay lie between its first contact and its last.
    assert!(
        started.elapsed() > Duration::from_millis(7 * 500),
        "{}",
        json(&world.web.report())
    );
}

/// The pages of a host come to the same host-splitter, whose cache knows its links: two
/// host-splitters drop about as much as one.
#[test]
fn host_splitters_share_the_hosts() {
    let world = World::new(Profile {
        latency: Latency::Fixed { ms: 100 },
        ..medium()
    });
    let crawl = world.crawl().set("stages.host-splitter.replicas=2").start();
    crawl.handle();
    let said = crawl.rhumb(&["tap", "urls.split", "--format", "json"]);
    let mut pages_of: BTreeMap<String, BTreeMap<u64, usize>> = BTreeMap::new();
    let mut first = None;
    for line in said.out.lines() {
        let message = serde_json::from_str::<Value>(line).expect("JSON")["message"].take();
        // Batches of a life are numbered from a number of 64 bits that another does not come near
        // to.
        let splitter = message["number"].as_u64().expect("a number") >> 40;
        // One that is there before the other has all hosts until the parser counts both.
        if *first.get_or_insert(splitter) == splitter && pages_of.is_empty() {
            continue;
        }
        for origin in message["origins"].as_array().expect("origins") {
            if let Some(page) = origin["page"].as_str().filter(|page| !page.is_empty()) {
                let host = rhumb_url::host_of(page).to_owned();
                *pages_of
                    .entry(host)
                    .or_default()
                    .entry(splitter)
                    .or_default() += 1;
            }
        }
    }
    let splitters: BTreeSet<u64> = pages_of
        .values()
        .flat_map(|by| by.keys().copied())
        .collect();
    assert_eq!(splitters.len(), 2, "{pages_of:?}");
    let all: usize = pages_of.values().flat_map(|by| by.values()).sum();
    let favourites: usize = pages_of.values().filter_map(|by| by.values().max()).sum();
    assert!(
        all > 500 && favourites * 100 >= all * 98,
        "{favourites} of {all}: {pages_of:?}"
    );
    world.assert_whole(&crawl.finish(MINUTE));
}

/// Each name is asked for by one resolver of several, which then knows it: three resolvers ask
/// about as often as one.
#[test]
fn resolvers_share_the_names() {
    let profile = Profile {
        hosts: 200,
        pages_per_host: PagesPerHost::Exactly(20),
        ..Profile::raw()
    };
    let world = World::new(Profile {
        latency: Latency::Fixed { ms: 20 },
        ..profile
    });
    let mut crawl = world.up().set("stages.resolver.replicas=3").start();
    // One that is there before the others asks for all names until they are.
    crawl.until(MINUTE, |summary| {
        let is_ready = |process: &&ProcessUse| process.work.as_ref().is_some_and(|work| work.ready);
        let resolvers = summary
            .processes
            .iter()
            .filter(|process| process.stage == "resolver");
        resolvers.filter(is_ready).count() == 3
    });
    let said = crawl.rhumb(&["inject", &world.web.seed_urls()[0]]);
    assert_eq!(said.code, 0, "{}", said.err);
    crawl.until(MINUTE, |summary| summary.complete && summary.pages == 4000);
    assert!(world.web.report().ok, "{}", json(&world.web.report()));
    let queries = world.web.report().dns_queries;
    // For both versions of the protocol. Without a preference it would be about 1,000.
    assert!(
        (400..500).contains(&queries),
        "{queries} queries for 200 names"
    );
}

#[test]
fn scope_host_stays_on_the_hosts_of_the_seeds() {
    let world = World::new(small());
    let finished = world.crawl().arguments(&["--scope", "host"]).run(MINUTE);
    let prefix = format!("http://{}:", world.web.host_name(0));
    let requested: BTreeSet<String> = requested(&world);
    assert!(
        requested.iter().all(|url| url.starts_with(&prefix)),
        "{requested:?}"
    );
    assert_eq!(requested.len(), 40);
    assert_eq!(
        (
            finished.code,
            finished.summary.complete,
            finished.summary.pages
        ),
        (0, true, 40)
    );
    assert!(finished.summary.urls_filtered > 0);
    assert_conserved(&finished.summary);
}

#[test]
fn scope_domain_follows_all_hosts_below_the_registered_domain_of_a_seed() {
    let world = World::new(small());
    let finished = world.crawl().arguments(&["--scope", "domain"]).run(MINUTE);
    world.assert_whole(&finished);
    assert_eq!(finished.summary.urls_filtered, 0);
}

#[test]
fn depth_zero_is_the_seeds_alone() {
    let world = World::new(small());
    let seeds = world.web.seed_urls();
    let finished = world
        .bare("crawl")
        .arguments(&seeds)
        .arguments(&["--max-depth", "0"])
        .run(MINUTE);
    assert_eq!((finished.code, finished.summary.complete), (0, true));
    assert_eq!(requested(&world), seeds.into_iter().collect());
    assert!(finished.summary.urls_filtered > 0);
    assert_conserved(&finished.summary);
}

#[test]
fn depth_one_is_a_seed_and_what_it_links_to() {
    let world = World::new(small());
    let finished = world.crawl().arguments(&["--max-depth", "1"]).run(MINUTE);
    assert_eq!((finished.code, finished.summary.complete), (0, true));
    let requested = requested(&world);
    let seed = &world.web.seed_urls()[0];
    let mut expected: BTreeSet<String> = links(&world, seed).into_iter().collect();
    expected.insert(seed.clone());
    assert_eq!(requested, expected);
    assert_conserved(&finished.summary);
}

#[test]
fn a_crawl_stopped_at_max_pages_goes_on_to_the_end_without_a_repeat() {
    let world = World::new(Profile {
        latency: Latency::Fixed { ms: 40 },
        ..medium()
    });
    let limited = world.crawl().arguments(&["--max-pages", "400"]).run(MINUTE);
    assert_eq!((limited.code, limited.summary.complete), (0, false));
    assert_eq!(limited.summary.pages, 400, "{}", json(&limited.summary));
    let report = world.web.report();
    assert_manners(&report);
    assert_eq!(report.repeats.count, 0, "{}", json(&report));
    assert!(report.pages.requested < 900, "{}", json(&report));

    let resumed = world.resume().run(MINUTE);
    world.assert_whole(&resumed);
}

#[test]
fn a_host_gives_as_many_pages_as_its_budget_or_all_it_has() {
    let mixed = Profile::mixed();
    let robots = RobotsShares {
        crawl_delay: 0.0,
        ..mixed.robots
    };
    let pages_per_host = PagesPerHost::HeavyTail { mean: 45 };
    let world = World::new(Profile {
        hosts: 50,
        pages_per_host,
        robots,
        ..mixed
    });
    let crawl = world.bare("crawl").arguments(&world.web.seed_urls());
    let finished = crawl.set("limits.pages_per_host=20").run(MINUTE);

    let requested = requested(&world);
    let truth = world.web.truth();
    let mut fetched = 0;
    let mut small_hosts = 0;
    for host in 0..50 {
        let prefix = format!("http://{}:", world.web.host_name(host));
        let pages: Vec<&String> = truth
            .pages
            .iter()
            .filter(|url| url.starts_with(&prefix))
            .collect();
        let given = pages.iter().filter(|url| requested.contains(**url)).count();
        assert_eq!(
            given,
            pages.len().min(20),
            "{prefix} has {} pages",
            pages.len()
        );
        fetched += given as u64;
        small_hosts += usize::from(pages.len() < 20);
    }
    assert!(
        (1..50).contains(&small_hosts),
        "{small_hosts} hosts have fewer pages than the budget"
    );
    let summary = &finished.summary;
    assert_eq!(
        (finished.code, summary.complete, summary.pages),
        (0, true, fetched),
        "{}",
        json(summary)
    );
    let over_budget = summary
        .outcomes
        .get("over-budget")
        .copied()
        .unwrap_or_default();
    assert!(over_budget > 100, "{}", json(summary));
    assert_conserved(summary);
    assert_manners(&world.web.report());
}

#[test]
fn several_schedulers_stop_at_max_pages_together() {
    let world = World::new(Profile {
        latency: Latency::Fixed { ms: 10 },
        ..medium()
    });
    let limited = world
        .crawl()
        .set("stages.scheduler.replicas=3")
        .arguments(&["--max-pages", "400"])
        .run(MINUTE);
    assert_eq!((limited.code, limited.summary.complete), (0, false));
    assert_eq!(limited.summary.pages, 400, "{}", json(&limited.summary));
    let limited = world
        .resume()
        .arguments(&["--max-pages", "1100"])
        .run(MINUTE);
    assert_eq!(
        (limited.code, limited.summary.pages),
        (0, 1100),
        "{}",
        json(&limited.summary)
    );
    world.assert_whole(&world.resume().arguments(&["--max-pages", "0"]).run(MINUTE));
}

/// All hosts of the synthetic web are of one registered domain.
#[test]
fn a_domain_gives_as_many_pages_as_its_budget_over_all_schedulers() {
    for schedulers in [1, 3] {
        let world = World::new(Profile {
            latency: Latency::Fixed { ms: 10 },
            ..medium()
        });
        let seeds = world.web.seed_urls();
        let crawl = world
            .bare("crawl")
            .arguments(&seeds)
            .set(&format!("stages.scheduler.replicas={schedulers}"));
        let finished = crawl.set("limits.pages_per_domain=700").run(MINUTE);
        let summary = &finished.summary;
        assert_eq!(
            (finished.code, summary.complete, summary.pages),
            (0, true, 700),
            "{}",
            json(summary)
        );
        assert_eq!(requested(&world).len(), 700);
        assert_eq!(
            summary.outcomes.get("over-budget"),
            Some(&(summary.urls_new - 700)),
            "{}",
            json(summary)
        );
        assert_conserved(summary);
    }
}

#[test]
fn urls_over_budget_wait_for_a_resumed_crawl_with_a_larger_one() {
    let world = World::new(Profile {
        latency: Latency::Fixed { ms: 10 },
        ..medium()
    });
    let crawl = world
        .bare("crawl")
        .arguments(&world.web.seed_urls())
        .set("limits.over_budget=wait");
    let limited = crawl.set("limits.pages_per_host=30").run(MINUTE);
    let summary = &limited.summary;
    assert_eq!(
        (limited.code, summary.complete, summary.pages),
        (0, false, 600),
        "{}",
        json(summary)
    );
    assert!(
        summary.waiting > 0 && summary.waiting == summary.waiting_over_budget,
        "{}",
        json(summary)
    );
    world.assert_whole(&world.resume().set("limits.pages_per_host=100").run(MINUTE));
}

#[test]
fn every_policy_of_the_url_caches_comes_to_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("frequent-urls.txt");
    for policy in ["clock", "lru", "random", "static", "none"] {
        let world = World::new(Profile {
            latency: Latency::Fixed { ms: 10 },
            ..small()
        });
        let frequent: Vec<String> = world.web.truth().pages.iter().take(50).cloned().collect();
        std::fs::write(&file, frequent.join("\n")).expect("a file");
        let mut crawl = world.crawl();
        for stage in ["host-splitter", "dedup"] {
            crawl = crawl
                .set(&format!("stages.{stage}.cache.policy={policy}"))
                .set(&format!("stages.{stage}.cache.entries=100"))
                .set(&format!("stages.{stage}.cache.file={}", file.display()));
        }
        world.assert_whole(&crawl.run(MINUTE));
    }
}

/// With so little buffer the sieve makes runs all the time, and without caches is asked about every
/// link.
#[test]
fn every_url_seen_store_comes_to_the_same() {
    for (store, buffer) in [("disk", "4KiB"), ("disk", "64MiB"), ("memory", "4KiB")] {
        let world = World::new(Profile {
            latency: Latency::Fixed { ms: 10 },
            ..medium()
        });
        let crawl = world
            .crawl()
            .set(&format!("stages.dedup.store={store}"))
            .set(&format!("stages.dedup.buffer_bytes={buffer}"))
            .set("stages.dedup.cache.policy=none")
            .set("stages.host-splitter.cache.policy=none");
        world.assert_whole(&crawl.run(MINUTE));
    }
}

/// What the memory store logged the sieve goes on from; the way back is refused, and nothing is
/// lost by trying.
#[test]
fn a_crawl_goes_on_with_the_sieve_but_not_back_in_memory() {
    let world = World::new(Profile {
        latency: Latency::Fixed { ms: 20 },
        ..medium()
    });
    let limited = world
        .crawl()
        .set("stages.dedup.store=memory")
        .arguments(&["--max-pages", "300"])
        .run(MINUTE);
    assert_eq!((limited.code, limited.summary.complete), (0, false));
    let on_disk = [
        "--set",
        "stages.dedup.store=disk",
        "--set",
        "stages.dedup.buffer_bytes=4KiB",
        "--max-pages",
        "900",
    ];
    let limited = world.resume().arguments(&on_disk).run(MINUTE);
    assert_eq!((limited.code, limited.summary.complete), (0, false));

    let mut in_memory = world.resume().set("stages.dedup.store=memory").start();
    assert_eq!(in_memory.exit_code(MINUTE), 2);
    let log = in_memory.log();
    assert!(
        log.contains("dedup.0 cannot go on") && log.contains("stages.dedup.store"),
        "{log}"
    );

    world.assert_whole(
        &world
            .resume()
            .set("stages.dedup.store=disk")
            .arguments(&["--max-pages", "0"])
            .run(MINUTE),
    );
}

/// 5 hosts of 40 pages.
fn small() -> Profile {
    Profile {
        hosts: 5,
        pages_per_host: PagesPerHost::Exactly(40),
        ..Profile::raw()
    }
}

/// 20 hosts of 100 pages.
fn medium() -> Profile {
    Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(100),
        ..Profile::raw()
    }
}

/// All URLs requested, without robots.txt; none of them twice.
fn requested(world: &World) -> BTreeSet<String> {
    let mut requested = BTreeSet::new();
    for contact in world
        .web
        .contacts()
        .into_iter()
        .filter(|contact| !contact.url.ends_with("/robots.txt"))
    {
        assert!(
            requested.insert(contact.url.clone()),
            "{} was requested twice",
            contact.url
        );
    }
    requested
}

/// The links of a page, found without the crawler's loop.
fn links(world: &World, url: &str) -> Vec<String> {
    let host = (0..)
        .find(|host| url.contains(&world.web.host_name(*host)))
        .expect("a host of the web");
    let address = world.web.host_address(host);
    let authority = format!("{}:{}", world.web.host_name(host), world.web.port());
    let path = url.split_once(&authority).expect("a URL of the host").1;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let body = runtime.block_on(async {
        let mut client = Client::connect(address, &authority)
            .await
            .expect("a connection");
        client.get(path).await.expect("a page").body
    });
    let headers = [("content-type", b"text/html; charset=utf-8".as_slice())];
    let limits = parser::page::Limits {
        decoded_bytes_max: 16 << 20,
        sitemap_bytes_max: 16 << 20,
        links_per_page_max: 5_000,
        links_per_sitemap_max: 5_000,
        url_bytes_max: 2_048,
    };
    let response = parser::page::Response {
        url,
        status: 200,
        headers: &headers,
        body: &body,
    };
    parser::page::links(&response, &limits, "rhumb").urls
}
