//! robots.txt: fetched, obeyed, redirected, out of reach; one situation a test.

use super::web::{Fine, Web, addresses, origin, redirect, robots, robots_txt};
use super::world::{World, elsewhere};
use crate::core::dispatcher::Input;
use crate::ranking::topics::tests::topics;
use crate::settings::GRACE;
use crate::settings::tests::{settings, with};
use rhumb_config::{Bytes, Unwanted, Usage, Usages};
use rhumb_stage::Core as _;
use rhumb_stage::store::Store as _;
use rhumb_url::time::Timestamp;
use rhumb_url::{host_of, partition};
use rhumb_usage::Purpose;
use rhumb_wire::message::{
    Errand, FailureKind, Origin, Outcome, Report, Resolution, RobotsResponse,
};
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn robots_txt_is_obeyed() {
    let mut world = World::polite();
    world.tell(
        &[
            format!("{A}/public"),
            format!("{A}/private/1"),
            format!("{A}/private/2"),
        ],
        &addresses(),
    );
    let mut web =
        robots_txt(|_, _| robots(200, "User-agent: *\nDisallow: /private\nCrawl-delay: 7\n"));
    world.finish(&mut web, HOUR);
    assert_eq!(
        world.contacted(),
        [format!("{A}/robots.txt"), format!("{A}/public")]
    );
    assert_eq!(
        world.outcome("http://a.test/private/1"),
        (Outcome::Disallowed, "robots.txt")
    );
    assert_eq!(
        world.contacts[1].0.since(world.contacts[0].0),
        Duration::from_secs(7),
        "Crawl-delay"
    );
}

/// Goal: what robots.txt says of use rides in the jobs, and keeps those URLs from being fetched
/// whose topic is for what it refuses.
#[test]
fn a_url_is_skipped_whose_robots_txt_refuses_what_its_topic_is_for() {
    let usage = |unwanted| Usage {
        purposes: vec![Purpose::AiTrain],
        unwanted,
    };
    for (unwanted, skips) in [
        (Unwanted::Record, false),
        (Unwanted::Withhold, false),
        (Unwanted::Skip, true),
    ] {
        let mut world = World::new(with(|set| set.usages = Usages::from(usage(unwanted))));
        world.tell(&[format!("{A}/mine"), format!("{A}/yours")], &addresses());
        let text = "User-agent: *\nContent-Usage: / train-ai=y\nContent-Usage: /mine train-ai=n\n";
        let mut web = robots_txt(|_, _| robots(200, text));
        world.finish(&mut web, HOUR);
        let asked = world.contacted().contains(&"http://a.test/mine");
        assert_eq!(asked, !skips, "{unwanted:?}");
        assert!(world.contacted().contains(&"http://a.test/yours"));
        if skips {
            let outcome = world.outcome("http://a.test/mine");
            assert_eq!(outcome, (Outcome::Disallowed, "usage"));
        }
    }
}

#[test]
fn a_long_crawl_delay_is_capped() {
    let mut world = World::polite();
    world.tell_pages(A, 3);
    let mut web = robots_txt(|_, _| robots(200, "User-agent: *\nCrawl-delay: 86400\n"));
    world.finish(&mut web, HOUR);
    for pair in world.contacts.windows(2) {
        assert_eq!(pair[1].0.since(pair[0].0), Duration::from_secs(60));
    }
}

#[test]
fn thousands_of_disallowed_urls_end_in_bounded_steps() {
    let mut world = World::polite();
    world.tell_pages(A, 3500);
    let mut web = robots_txt(|_, _| robots(200, "User-agent: *\nDisallow: /\n"));
    world.finish(&mut web, HOUR);
    assert_eq!(world.count("outcome_disallowed_total"), 3500);
    assert_eq!(world.contacted().len(), 1);
}

#[test]
fn robots_txt_is_not_asked_for_when_it_is_not_respected() {
    let mut world = World::new(with(|set| set.politeness.respect_robots = false));
    world.tell_pages(A, 2);
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.contacted(), [format!("{A}/0"), format!("{A}/1")]);
}

#[test]
fn robots_txt_is_fetched_again_when_it_is_a_day_old() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    world.finish(&mut Fine, HOUR);
    world.run(&mut Fine, 23 * HOUR);
    world.tell(&[format!("{A}/x")], &addresses());
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("robots_fetched_total"), 1);
    world.run(&mut Fine, HOUR);
    world.tell(&[format!("{A}/y")], &addresses());
    world.finish(&mut Fine, HOUR);
    assert_eq!(world.count("robots_fetched_total"), 2);
}

/// A move, or a checkpoint, may bring rules to a life whose epoch has the number of that in which
/// they were stored.
#[test]
fn rules_of_another_life_are_stale_also_when_its_epoch_has_the_same_number() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    world.finish(&mut Fine, HOUR);
    for (life, fetched) in [(0, 1), (77, 2)] {
        world.settings.life = life;
        world.epoch -= 1;
        world.crash();
        world.tell(&[format!("{A}/of-life-{life}")], &addresses());
        world.finish(&mut Fine, HOUR);
        let robots = world
            .contacted()
            .into_iter()
            .filter(|url| url.ends_with("/robots.txt"))
            .count();
        assert_eq!(robots, fetched, "{life}");
    }
}

#[test]
fn urls_wait_while_robots_txt_cannot_be_reached_and_go_on_when_it_can() {
    let mut world = World::polite();
    world.tell_pages(A, 2);
    let mut tries = 0;
    let mut web = robots_txt(|_, _| {
        tries += 1;
        if tries < 3 {
            robots(500, "")
        } else {
            robots(200, "User-agent: *\nDisallow: /1\n")
        }
    });
    world.finish(&mut web, HOUR);
    assert_eq!(world.outcome("http://a.test/0").0, Outcome::Fetched);
    assert_eq!(world.outcome("http://a.test/1").0, Outcome::Disallowed);
    let waits: Vec<_> = world
        .contacts
        .windows(2)
        .map(|pair| pair[1].0.since(pair[0].0).as_secs())
        .collect();
    assert_eq!(waits, [30, 60, 1]);
}

#[test]
fn nothing_is_fetched_when_robots_txt_stays_out_of_reach() {
    for failure in [
        robots(503, ""),
        robots(429, ""),
        Err(FailureKind::Timeout),
        Err(FailureKind::Protocol),
    ] {
        let mut world = World::polite();
        world.tell_pages(A, 2500);
        world.finish(&mut robots_txt(|_, _| failure.clone()), HOUR);
        assert_eq!(world.contacted().len(), 4);
        assert_eq!(
            world.outcome("http://a.test/2499"),
            (Outcome::Disallowed, "robots.txt unreachable")
        );
        // Later URLs end at once, and much later ones after one more try.
        world.tell(&[format!("{A}/soon")], &addresses());
        world.run(
            &mut robots_txt(|_, _| failure.clone()),
            Duration::from_secs(1),
        );
        assert_eq!(world.outcome("http://a.test/soon").0, Outcome::Disallowed);
        assert_eq!(world.contacted().len(), 4);
        world.run(&mut Fine, HOUR);
        world.tell(&[format!("{A}/later")], &addresses());
        world.finish(&mut Fine, HOUR);
        assert_eq!(world.outcome("http://a.test/later").0, Outcome::Fetched);
    }
}

#[test]
fn rules_hold_as_they_were_stored_last_whether_they_are_kept_parsed_or_not() {
    for robots_cache_bytes in [Bytes(0), Bytes(1 << 20)] {
        let mut world = World::new(with(|set| {
            set.scheduler.robots_cache_bytes = robots_cache_bytes;
            set.scheduler.requests_per_connection = 1;
        }));
        for (round, disallowed) in ["/0", "/1", "/0"].into_iter().enumerate() {
            world.tell(
                &[format!("{A}/0-{round}"), format!("{A}/1-{round}")],
                &addresses(),
            );
            let text = format!("User-agent: *\nDisallow: {disallowed}\n");
            world.finish(&mut robots_txt(|_, _| robots(200, &text)), HOUR);
            assert_eq!(
                world.outcome(&format!("{A}{disallowed}-{round}")).0,
                Outcome::Disallowed
            );
            assert_eq!(world.count("outcome_disallowed_total"), round as u64 + 1);
            world.run(&mut Fine, 25 * HOUR);
        }
    }
}

#[test]
fn sitemaps_are_found_with_each_robots_txt_that_comes_and_those_beyond_the_limit_are_told() {
    for (sitemaps_per_server, left_out) in [(0, 0), (2, 1), (3, 0)] {
        let mut world = World::new(with(|set| {
            set.limits.sitemaps_per_server = sitemaps_per_server
        }));
        let text = "Sitemap: /1.xml\nSitemap: /2.xml\nSitemap: /3.xml\n";
        for round in 0..4u64 {
            world.tell(&[format!("{A}/page-{round}")], &addresses());
            world.finish(&mut robots_txt(|_, _| robots(200, text)), HOUR);
            world.run(&mut Fine, 25 * HOUR);
        }
        assert_eq!(world.count("robots_fetched_total"), 4);
        assert_eq!(
            world.found.len(),
            if sitemaps_per_server == 0 { 0 } else { 4 }
        );
        assert_eq!(world.count("sitemaps_left_out_total"), 4 * left_out);
        let why = world
            .core
            .why(world.now, &format!("{A}/page-0"))
            .unwrap()
            .unwrap();
        let told =
            "; sitemaps of its robots.txt left out (limits.sitemaps_per_server, or too long): 1";
        assert_eq!(why.ends_with(told), left_out > 0, "{why}");
        for found in &world.found {
            let expected: Vec<String> = (1..=sitemaps_per_server)
                .map(|number| format!("{A}/{number}.xml"))
                .collect();
            assert_eq!(found.urls.iter().collect::<Vec<_>>(), expected);
            let page = Origin::page_of_sitemaps(&format!("{A}/robots.txt"), A);
            assert_eq!(found.origin, Origin { page, ..origin() });
        }
    }
}

#[test]
fn sitemaps_are_found_for_each_topic_whose_urls_wait() {
    let settings = with(|set| {
        set.limits.sitemaps_per_server = 2;
        set.topics = topics(&[(0, 1000), (0, 1000)]);
    });
    let mut world = World::new(settings);
    for topic in ["t2", "default", "t1", "t2"] {
        world.topics = vec![topic.to_owned()];
        let page = world.told.len();
        world.tell(&[format!("{A}/{page}")], &addresses());
    }
    world.finish(
        &mut robots_txt(|_, _| robots(200, "Sitemap: /1.xml\n")),
        HOUR,
    );
    let mut topics: Vec<_> = world
        .found
        .iter()
        .map(|found| found.origin.topic.as_str())
        .collect();
    topics.sort_unstable();
    assert_eq!(topics, ["default", "t1", "t2"]);
}

#[test]
fn a_hostile_robots_txt_is_bounded_and_decided() {
    // Too large, binary, in another charset, without an end of line: what can be read of it counts.
    let zeros = vec![0; 600 << 10];
    let noise: Vec<u8> = (0..600 << 10)
        .map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let latin: Vec<u8> = b"User-agent: *\nDisallow: /caf\xe9\nDisallow: /0\n".to_vec();
    let endless = [
        b"User-agent: *\nDisallow: /0\nDisallow: /".to_vec(),
        vec![b'1'; 600 << 10],
    ]
    .concat();
    let maps = "Sitemap: /a.xml\n".repeat(50_000).into_bytes();
    for (body, fetched) in [(zeros, 2), (noise, 2), (latin, 1), (endless, 1), (maps, 2)] {
        let mut world = World::new(with(|set| set.limits.sitemaps_per_server = 100));
        world.tell_pages(A, 2);
        let answer = RobotsResponse {
            status: 200,
            body,
            ..RobotsResponse::default()
        };
        world.finish(&mut robots_txt(|_, _| Ok(answer.clone())), HOUR);
        assert_eq!(world.count("outcome_fetched_total"), fetched);
        let key = world.core.key_of(A).to_bytes();
        let stored = world
            .store
            .get(crate::robots::state::ROBOTS, &key)
            .unwrap()
            .unwrap();
        assert!(stored.len() <= 500 << 10);
        assert!(world.found.iter().all(|found| found.urls.len() <= 100));
    }
}

#[test]
fn a_robots_txt_that_is_refused_is_out_of_reach_however_few_failures_a_server_may_have() {
    for failure in [robots(503, ""), robots(429, ""), Err(FailureKind::Timeout)] {
        let mut world = World::new(with(|set| set.scheduler.server_failures_max = 1));
        world.tell_pages(A, 3);
        world.finish(&mut robots_txt(|_, _| failure.clone()), HOUR);
        assert_eq!(world.contacted().len(), 4);
        assert_eq!(
            world.outcome("http://a.test/2"),
            (Outcome::Disallowed, "robots.txt unreachable")
        );
    }
}

#[test]
fn robots_txt_may_move_on_its_server() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    let mut web = robots_txt(|_, url| {
        if url.ends_with("/moved") {
            robots(200, "User-agent: *\nDisallow: /0\n")
        } else {
            redirect("/moved")
        }
    });
    world.finish(&mut web, HOUR);
    assert_eq!(
        world.contacted(),
        [format!("{A}/robots.txt"), format!("{A}/moved")]
    );
    assert_eq!(world.outcome("http://a.test/0").0, Outcome::Disallowed);
}

#[test]
fn a_loop_of_redirects_means_that_there_is_no_robots_txt() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    world.finish(&mut robots_txt(|_, _| redirect("/robots.txt")), HOUR);
    assert_eq!(world.contacted().len(), 7);
    assert_eq!(world.outcome("http://a.test/0").0, Outcome::Fetched);
}

#[test]
fn robots_txt_may_lie_on_another_server_of_this_instance() {
    let mut world = World::polite();
    world.tell_pages(A, 2);
    world.tell_pages("http://www.a.test", 1);
    let mut web = robots_txt(|_, url| match url {
        "http://a.test/robots.txt" => redirect("http://www.a.test/rules"),
        "http://www.a.test/rules" => robots(200, "User-agent: *\nDisallow: /1\n"),
        _ => robots(404, ""),
    });
    world.finish(&mut web, HOUR);
    assert_eq!(world.outcome("http://a.test/0").0, Outcome::Fetched);
    assert_eq!(world.outcome("http://a.test/1").0, Outcome::Disallowed);
    assert_eq!(world.outcome("http://www.a.test/0").0, Outcome::Fetched);
    assert!(world.errands.is_empty());
}

#[test]
fn the_address_of_another_server_is_asked_for_and_one_without_is_out_of_reach() {
    struct Nowhere;
    impl Web for Nowhere {
        fn robots(&mut self, _: Timestamp, _: &str) -> Result<RobotsResponse, FailureKind> {
            redirect("http://nowhere.test/robots.txt")
        }
        fn resolve(&mut self, server: &str) -> Option<Resolution> {
            assert_eq!(server, "http://nowhere.test");
            Some(Resolution::NoAddress)
        }
    }
    let mut world = World::polite();
    world.tell_pages(A, 1);
    world.finish(&mut Nowhere, HOUR);
    assert_eq!(
        world.outcome("http://a.test/0"),
        (Outcome::Disallowed, "robots.txt unreachable")
    );
}

#[test]
fn robots_txt_on_a_server_of_another_instance_is_asked_for_there() {
    let other = elsewhere(A);
    let target = format!("{other}/robots.txt");
    let mine = partition("a.test", 4);
    let theirs = partition(host_of(&other), 4);
    let mut asking = World::owning(settings(), &[mine]);
    let mut asked = World::owning(settings(), &[theirs]);
    asking.tell_pages(A, 2);
    let mut web = robots_txt(|_, url| {
        if url == target {
            robots(200, "User-agent: *\nDisallow: /1\n")
        } else {
            redirect(&target)
        }
    });
    asking.run(&mut web, Duration::from_secs(2));
    let wanted = Errand::Wanted {
        url: target.clone(),
        server: A.into(),
    };
    assert_eq!(asking.errands, [(theirs, wanted.clone())]);
    // The message is lost; it is sent again.
    asking.run(&mut web, Duration::from_secs(31));
    assert_eq!(asking.errands.len(), 2);
    asked.step(Some(Input::Errand(wanted.clone())));
    asked.step(Some(Input::Errand(wanted)));
    asked.run(&mut web, Duration::from_secs(10));
    assert_eq!(
        asked.contacted(),
        [target.as_str()],
        "asked twice, fetched once"
    );
    let [(to, found)] = &asked.errands[..] else {
        panic!("{:?}", asked.errands)
    };
    assert_eq!(*to, mine);
    asking.step(Some(Input::Errand(found.clone())));
    asking.step(Some(Input::Errand(found.clone())));
    asking.finish(&mut web, HOUR);
    assert_eq!(asking.outcome("http://a.test/0").0, Outcome::Fetched);
    assert_eq!(asking.outcome("http://a.test/1").0, Outcome::Disallowed);
}

/// An hour in which no fetcher is there for the other server is no reason to end URLs.
#[test]
fn an_errand_that_nobody_answers_is_asked_for_again_until_somebody_does() {
    let other = elsewhere(A);
    let mut world = World::owning(settings(), &[partition("a.test", 4)]);
    world.tell_pages(A, 1);
    let mut web = robots_txt(|_, _| redirect(&format!("{other}/robots.txt")));
    world.run(&mut web, HOUR);
    assert!(
        (5..100).contains(&world.errands.len()),
        "{}",
        world.errands.len()
    );
    assert_eq!(world.count("waiting"), 1);
    let response = Some(RobotsResponse {
        status: 404,
        ..RobotsResponse::default()
    });
    world.step(Some(Input::Errand(Errand::Found {
        server: A.into(),
        response,
    })));
    world.finish(&mut web, HOUR);
    assert_eq!(world.outcome("http://a.test/0").0, Outcome::Fetched);
}

#[test]
fn a_server_that_cannot_be_reached_for_the_robots_txt_of_another_ends_the_errand() {
    let other = elsewhere(A);
    let mut world = World::owning(settings(), &[partition("a.test", 4)]);
    world.tell_pages(A, 1);
    let mut web = robots_txt(|_, _| redirect(&format!("{other}/robots.txt")));
    for _ in 0..settings().scheduler.attempts {
        world.run(&mut web, Duration::from_secs(600));
        world.step(Some(Input::Errand(Errand::Found {
            server: A.into(),
            response: None,
        })));
    }
    world.finish(&mut web, HOUR);
    assert_eq!(
        world.outcome("http://a.test/0"),
        (Outcome::Disallowed, "robots.txt unreachable")
    );
}

#[test]
fn robots_txt_is_fetched_again_after_a_restart_and_its_crawl_delay_holds_meanwhile() {
    let mut world = World::polite();
    world.tell_pages(A, 2);
    let mut web = robots_txt(|_, _| robots(200, "User-agent: *\nCrawl-delay: 7\n"));
    world.run(&mut web, Duration::from_secs(1));
    world.crash();
    world.finish(&mut web, HOUR);
    // Nobody knows how long the process was gone (P5).
    assert_eq!(
        world.contacted(),
        ["robots.txt", "robots.txt", "0", "1"].map(|path| format!("{A}/{path}"))
    );
    // The wait goes on from where it was at the last commit.
    let waits: Vec<_> = world
        .contacts
        .windows(2)
        .map(|pair| pair[1].0.since(pair[0].0).as_secs())
        .collect();
    assert_eq!(waits, [8, 7, 7]);
}

/// The report of a robots.txt that was fetched and has not reached the scheduler.
fn report_on_its_way(world: &mut World, web: &mut dyn Web) -> Report {
    world.ask(1);
    world.request(0, web);
    let report = world.held[0].report(true, false);
    world.held.clear();
    report
}

/// P5: nobody knows how long a report waited that comes after a time in which nothing was heard.
#[test]
fn a_robots_txt_whose_report_waited_while_nothing_was_heard_is_fetched_again() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    world.ask(1);
    world.request(0, &mut Fine);
    let report = world.held[0].report(true, false);
    world.pass(HOUR);
    world.hear_again();
    world.held.clear();
    world.step(Some(Input::Report(report)));
    world.finish(&mut Fine, HOUR);
    assert_eq!(
        world.contacted(),
        ["/robots.txt", "/robots.txt", "/0"].map(|path| format!("{A}{path}"))
    );
}

#[test]
fn a_robots_txt_whose_report_waited_for_the_next_life_is_fetched_again() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    let mut web = robots_txt(|_, _| robots(200, "User-agent: *\nDisallow:\n"));
    let report = report_on_its_way(&mut world, &mut web);
    world.crash();
    world.pass(Duration::from_secs(2));
    world.step(Some(Input::Report(report)));
    world.finish(&mut web, HOUR);
    // Nobody knows how long the report waited (P5).
    assert_eq!(
        world.contacted(),
        ["robots.txt", "robots.txt", "0"].map(|path| format!("{A}/{path}"))
    );
}

/// P2: what the server asked for is known, though nobody knows since when.
#[test]
fn the_crawl_delay_of_a_robots_txt_whose_rules_are_not_used_holds() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    let mut web = robots_txt(|_, _| robots(200, "User-agent: *\nCrawl-delay: 7\n"));
    let report = report_on_its_way(&mut world, &mut web);
    world.crash();
    world.step(Some(Input::Report(report)));
    world.crash();
    world.finish(&mut web, HOUR);
    let waits: Vec<_> = world
        .contacts
        .windows(2)
        .map(|pair| pair[1].0.since(pair[0].0).as_secs())
        .collect();
    assert_eq!(waits, [7, 7], "{:?}", world.contacted());
}

/// P5: a report that waited is prompt while it comes within the lease, and its robots.txt is as old
/// as the wait.
#[test]
fn rules_count_from_the_answer_and_not_from_its_report() {
    let lifetime = 60;
    let settings = with(|set| set.politeness.robots_lifetime = Duration::from_secs(lifetime));
    let mut world = World::new({
        let mut set = settings;
        set.scheduler.visit_budget = Duration::from_secs(30);
        set
    });
    world.tell_pages(A, 1);
    let mut web = robots_txt(|_, _| robots(200, "User-agent: *\nDisallow:\n"));
    let report = report_on_its_way(&mut world, &mut web);
    world.pass(world.settings.scheduler.job_lease);
    world.step(Some(Input::Report(report)));
    // Rules that counted from the report would hold for twenty seconds more.
    world.pass(Duration::from_secs(lifetime / 2 + 1) - world.settings.scheduler.job_lease);
    world.finish(&mut web, HOUR);
    assert_eq!(
        world.contacted(),
        ["robots.txt", "robots.txt", "0"].map(|path| format!("{A}/{path}"))
    );
}

/// The scheduler stood still for longer than the lease, and hears the report before anything else.
#[test]
fn a_robots_txt_whose_report_outlasted_the_lease_is_fetched_again() {
    let mut world = World::polite();
    world.tell_pages(A, 1);
    let mut web = robots_txt(|_, _| robots(200, "User-agent: *\nDisallow:\n"));
    let report = report_on_its_way(&mut world, &mut web);
    world.now = world.now + world.settings.scheduler.job_lease + 2 * GRACE;
    world.step(Some(Input::Report(report)));
    world.finish(&mut web, HOUR);
    assert_eq!(
        world.contacted(),
        ["robots.txt", "robots.txt", "0"].map(|path| format!("{A}/{path}"))
    );
}
