//! Traps: what brings only itself goes last, what repeats itself for very long waits until nothing
//! else does, and nothing of it is lost.

use super::web::{Fine, addresses, origin};
use super::world::World;
use crate::core::dispatcher::Input;
use crate::settings::tests::with;
use rhumb_config::OverBudget;
use rhumb_config::orders::{Author, DropOrder, Orders, Release, Selection};
use rhumb_partition::Owners;
use rhumb_stage::Core as _;
use rhumb_url::shape_hash;
use rhumb_wire::message::{Origin, Outcome, PageSignal, PageSignals};
use rhumb_wire::topology::StageName;
use std::ops::Range;
use std::time::Duration;

const A: &str = "http://a.test";
const HOUR: Duration = Duration::from_secs(3600);

fn world(shape_pages: u64) -> World {
    let delay = Duration::from_millis(1);
    World::new(with(|set| {
        set.politeness.respect_robots = false;
        set.limits.shape_pages = shape_pages;
        set.politeness.delay = delay;
    }))
}

fn month(number: usize) -> String {
    format!("{A}/calendar/{}/{}", 2000 + number / 12, 1 + number % 12)
}

/// URLs are found, each on that page.
fn find(world: &mut World, found: impl Iterator<Item = (String, String)>) {
    let (urls, pages): (Vec<_>, Vec<_>) = found.unzip();
    let mut ready = world.batch(&urls, Some(&addresses()));
    ready.origins = pages
        .into_iter()
        .map(|page| Origin { page, ..origin() })
        .collect();
    ready.origin_of = (0..urls.len() as u32).collect();
    world.step(Some(Input::Ready(ready)));
}

/// These months are found, each on the one before.
fn find_months(world: &mut World, months: Range<usize>) {
    find(
        world,
        months.map(|number| (month(number), month(number.wrapping_sub(1).min(number)))),
    );
}

/// Pages of that shape look like this.
fn signals(world: &mut World, shape: &str, sketches: impl Iterator<Item = u64>) {
    let signal = |sketch| PageSignal {
        shape: shape_hash(shape),
        sketch: Some(sketch),
        ..PageSignal::default()
    };
    let signals = PageSignals {
        pages: sketches.map(signal).collect(),
        ..PageSignals::default()
    };
    world.step(Some(Input::Signals(signals)));
}

/// So many pages of the calendar looked alike.
fn sketch(world: &mut World, pages: usize) {
    signals(world, &month(0), std::iter::repeat_n(7, pages));
}

/// A calendar that was fetched for long, and of which 100 months wait.
fn trapped() -> World {
    let mut world = world(1000);
    find_months(&mut world, 0..1100);
    world.finish(&mut Fine, HOUR);
    sketch(&mut world, 1100);
    find_months(&mut world, 1100..1200);
    world
}

fn order(world: &mut World) -> Vec<String> {
    let before = world.contacted().len();
    world.finish(&mut Fine, HOUR);
    world.contacted()[before..]
        .iter()
        .map(|url| (*url).to_owned())
        .collect()
}

/// Nothing else waits in the crawl.
fn end_traps(world: &mut World) {
    let mut owners = Owners::new(4, 1);
    owners.traps_end = true;
    world.core.owners(StageName::Scheduler, &owners);
}

fn release(world: &mut World, host: &str, shape: Option<&str>) {
    let released = vec![Release {
        host: host.into(),
        shape: shape.map(str::to_owned),
        author: Author::default(),
    }];
    world.core.orders(&Orders {
        released,
        ..Orders::default()
    });
    world.step(None);
}

#[test]
fn what_brings_only_itself_goes_last_on_its_server_and_behind_other_servers() {
    let mut world = world(0);
    find_months(&mut world, 0..200);
    world.tell_pages(A, 20);
    world.tell_pages("http://b.test", 20);
    world.crash();
    world.ask(1);
    world.ask(1);
    let mut servers: Vec<_> = world
        .held
        .iter()
        .map(|held| held.job.server.clone())
        .collect();
    servers.sort_unstable();
    assert_eq!(servers, [A, "http://b.test"]);
    let order = order(&mut world);
    let ahead = order
        .iter()
        .take(40)
        .filter(|url| !url.contains("calendar"))
        .count();
    assert_eq!((order.len(), ahead), (240, 40), "{order:?}");
    // Those that waited before it was known are moved behind them when it is their turn.
    let first_known = 64 + 63;
    let moved = (first_known..200).chain(0..first_known);
    assert_eq!(order[40..], moved.map(month).collect::<Vec<_>>());
}

#[test]
fn a_server_with_nothing_else_waits_for_all_others() {
    let mut world = world(0);
    find_months(&mut world, 0..200);
    world.tell_pages("http://b.test", 20);
    world.ask(1);
    assert_eq!(world.held[0].job.server, "http://b.test");
    world.ask(1);
    assert_eq!(world.held[1].job.server, A);
}

#[test]
fn a_trap_is_kept_back_over_a_crash_until_nothing_else_waits_and_ends_then() {
    let mut world = trapped();
    for crashes in [false, true] {
        if crashes {
            world.crash();
            world.step(None);
        }
        assert_eq!(order(&mut world), [] as [String; 0]);
        assert_eq!(
            (world.count("waiting"), world.count("waiting_trapped")),
            (100, 100)
        );
        assert_eq!(world.count("servers_waiting_trap"), 1);
    }
    // Others of the server go on, and so does what is new of the shape.
    world.tell_pages(A, 5);
    find_months(&mut world, 1200..1210);
    assert_eq!(order(&mut world).len(), 5);
    assert_eq!(
        (world.count("waiting"), world.count("waiting_trapped")),
        (110, 110)
    );
    let why = world.core.why(world.now, &month(1150)).unwrap().unwrap();
    assert!(
        why.contains(
            "kept back until nothing else waits, because the shape /calendar/0/0 brings only \
             itself: 1100 pages"
        ),
        "{why}"
    );
    let [trap] = &world.core.traps()[..] else {
        panic!("one trap")
    };
    assert_eq!(
        (
            trap.server.as_str(),
            trap.shape.as_str(),
            trap.pages,
            trap.waiting
        ),
        (A, "/calendar/0/0", 1100, 110)
    );
    end_traps(&mut world);
    world.run(&mut Fine, HOUR);
    assert_eq!(
        (world.count("waiting"), world.count("outcome_trapped_total")),
        (0, 110)
    );
    assert_eq!(
        world.outcome(&month(1209)),
        (
            Outcome::Trapped,
            "pages of its shape repeat themselves without end"
        )
    );
}

#[test]
fn operators_release_a_trap_for_as_long_as_they_want() {
    let mut world = trapped();
    order(&mut world);
    release(&mut world, "a.test", Some("/other/0"));
    assert_eq!(
        (order(&mut world).len(), world.count("waiting_trapped")),
        (0, 100)
    );
    release(&mut world, "a.test", Some("/calendar/0/0"));
    world.tell_pages(A, 5);
    // What fetchers had asked for is one job.
    let order = order(&mut world);
    assert!(
        order.len() == 105 && order[50..55].iter().all(|url| !url.contains("calendar")),
        "{order:?}"
    );
    find_months(&mut world, 1200..2300);
    world.finish(&mut Fine, HOUR);
    sketch(&mut world, 1100);
    find_months(&mut world, 2300..2310);
    assert_eq!(
        (
            self::order(&mut world).len(),
            world.count("waiting_trapped")
        ),
        (10, 0),
        "it is none while it is released"
    );
    find_months(&mut world, 2310..2320);
    world.core.orders(&Orders::default());
    sketch(&mut world, 1100);
    find_months(&mut world, 2320..2330);
    assert_eq!(
        (
            self::order(&mut world).len(),
            world.count("waiting_trapped")
        ),
        (10, 10)
    );
}

#[test]
fn what_is_kept_back_can_be_dropped() {
    let mut world = trapped();
    order(&mut world);
    let what = Selection::Match("/calendar/".into());
    let drop = DropOrder {
        id: 1,
        what,
        and_later: false,
        author: Author::default(),
    };
    world.core.orders(&Orders {
        drops: vec![drop],
        ..Orders::default()
    });
    for _ in 0..5 {
        world.step(None);
    }
    assert_eq!(
        (
            world.count("waiting"),
            world.count("waiting_trapped"),
            world.count("outcome_dropped_total")
        ),
        (0, 0, 100)
    );
    assert_eq!(order(&mut world).len(), 0);
}

/// Goal: an archive whose pages lead on to the next ones, and say something else each, is fetched
/// whole.
#[test]
fn an_archive_of_numbered_pages_is_no_trap() {
    let mut world = world(1000);
    let mail = |number: usize| format!("{A}/mail/{number}");
    for part in 0..5usize {
        find(
            &mut world,
            (500 * part..500 * (part + 1))
                .map(|number| (mail(number), mail(number.saturating_sub(1)))),
        );
        world.finish(&mut Fine, HOUR);
        let sketch = |number: usize| (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        signals(
            &mut world,
            &mail(0),
            (500 * part..500 * (part + 1)).map(sketch),
        );
    }
    assert_eq!(
        (
            world.count("outcome_fetched_total"),
            world.count("traps_found_total")
        ),
        (2500, 0)
    );
}

/// Goal: what waits for a larger budget keeps no trap from its end.
#[test]
fn traps_end_while_others_wait_over_their_budget() {
    let settings = {
        let mut set = world(1000).settings;
        set.limits.pages_per_host = 1105;
        set.limits.over_budget = OverBudget::Wait;
        set
    };
    let mut world = World::new(settings);
    find_months(&mut world, 0..1100);
    world.finish(&mut Fine, HOUR);
    sketch(&mut world, 1100);
    find_months(&mut world, 1100..1200);
    world.tell_pages(A, 20);
    world.run(&mut Fine, HOUR);
    let counts = |world: &World| {
        ["waiting", "waiting_over_budget", "waiting_trapped"].map(|name| world.count(name))
    };
    assert_eq!(counts(&world), [115, 15, 100]);
    end_traps(&mut world);
    world.run(&mut Fine, HOUR);
    assert_eq!(
        (counts(&world), world.count("outcome_trapped_total")),
        ([15, 15, 0], 100)
    );
}

/// Goal: after its URLs have ended a shape that is released is none any more.
#[test]
fn what_is_found_after_a_release_goes() {
    let mut world = trapped();
    order(&mut world);
    end_traps(&mut world);
    world.run(&mut Fine, HOUR);
    assert_eq!(world.count("outcome_trapped_total"), 100);
    release(&mut world, "a.test", None);
    find_months(&mut world, 1200..1210);
    assert_eq!((order(&mut world).len(), world.count("waiting")), (10, 0));
}
