//! Partitions that were split.

use super::*;
use crate::meta::last_serial;
use crate::moving::MovingKeys;
use rhumb_partition::Owners;
use rhumb_stage::Beside as _;
use rhumb_wire::lane_of_hash;
use rhumb_wire::topology::Token;

const HOME: u16 = 1;
const HALVES: [u16; 2] = [4, 5];

/// A URL of each of so many hosts of the partition that is split.
fn urls(hosts: usize) -> Vec<String> {
    let hosts = (0..)
        .map(|n| format!("h{n}.test"))
        .filter(|host| partition(host, PARTITIONS) == HOME)
        .take(hosts);
    hosts.map(|host| format!("http://{host}/")).collect()
}

fn of(urls: &[String]) -> SplitUrls {
    let urls: Vec<(&str, u32)> = urls.iter().map(|url| (url.as_str(), 0)).collect();
    batch(&urls, &["p"])
}

/// Halves what an instance has of the partition. Returns the table, and the last serial number.
fn halve(state: &State) -> (Owners, u64) {
    let mut owners = Owners::new(PARTITIONS, 1);
    owners.split(HOME).unwrap();
    let split = owners.splits().remove(0);
    let mut changes = Changes::default();
    let last = last_serial(state.store.as_ref(), &split, &mut changes).unwrap();
    let seen = settings(state.seen).seen;
    let mut keys =
        MovingKeys::open(&seen, state.store.as_ref(), state.folder.path().into(), &[]).unwrap();
    keys.halve(&split).unwrap();
    keys.stage(&mut changes).unwrap();
    state.store.commit(&changes).unwrap();
    keys.committed().unwrap();
    (owners, last)
}

fn open_split(state: &State, owners: &Owners, partitions: &[u16]) -> Dedup {
    let settings = Settings {
        directory: owners.directory(),
        ..settings(state.seen)
    };
    opened(state, &settings, partitions).unwrap()
}

#[test]
fn what_was_seen_stays_seen_and_each_half_counts_from_one() {
    for kind in [DedupStore::Disk, DedupStore::Memory] {
        let state = State::with(kind);
        let urls = urls(40);
        let (seen, later) = urls.split_at(20);
        let mut core = open(&state, &[0, 1, 2, 3]);
        assert_eq!(
            run(&mut core, of(seen))
                .iter()
                .map(|new| new.urls.len())
                .sum::<usize>(),
            20
        );
        drop(core);
        let (owners, last) = halve(&state);
        assert_eq!(last, 20);
        let all = [0, 1, 2, 3, 4, 5];
        let mut core = open_split(&state, &owners, &all);
        assert_eq!(run(&mut core, of(seen)), [], "{kind:?}");
        let new = run(&mut core, of(later));
        let mut partitions: Vec<(u16, u64)> = new
            .iter()
            .map(|new| (new.partition, new.first_serial))
            .collect();
        partitions.sort_unstable();
        assert_eq!(partitions, [(HALVES[0], 1), (HALVES[1], 1)]);
        assert_eq!(
            (counts(&core)["new_total"], counts(&core)["repeated_total"]),
            (40, 20)
        );
        assert_conserved(&core);
        let out = step(&mut core, of(&urls_of_other_hosts()));
        for publish in out.publishes {
            let new: NewUrls = decode(&publish.payload).unwrap();
            let lane = lane_of_hash(*owners.directory().hashes_of(new.partition).unwrap().start());
            assert_eq!(
                publish.token,
                Token::InLane {
                    partition: new.partition,
                    lane
                }
            );
        }
    }
}

fn urls_of_other_hosts() -> Vec<String> {
    (0..20).map(|n| format!("http://other{n}.test/")).collect()
}

/// Goal: what comes for a partition that was split is passed on to a half that has moved on, and
/// what was counted with it counts once (P3).
#[test]
fn what_is_of_a_half_that_has_moved_on_is_passed_on_without_the_counts() {
    let state = State::new();
    let (owners, _) = halve(&state);
    let urls = urls(30);
    let directory = owners.directory();
    let half = |url: &&String| directory.partition_of(host_hash(host_of(url))) == HALVES[0];
    let (here, there): (Vec<&String>, Vec<&String>) = urls.iter().partition(half);
    let mut core = open_split(&state, &owners, &[HOME, HALVES[0]]);
    let mut counted = of(&urls);
    (counted.filtered, counted.repeated, counted.number) = ([1; 7], 3, 9);
    let out = step(&mut core, counted);
    core.store.commit(&out.changes).unwrap();
    let passed_on: Vec<_> = out
        .publishes
        .iter()
        .filter(|publish| publish.edge == Edge::UrlsSplit)
        .collect();
    let [publish] = passed_on[..] else {
        panic!("one batch is passed on, not {}", passed_on.len())
    };
    assert_eq!(
        (&publish.token, &publish.causes),
        (&Token::Partition(HALVES[1]), &vec![Ticket(1)])
    );
    let batch: SplitUrls = decode(&publish.payload).unwrap();
    assert_eq!((batch.filtered, batch.repeated), ([0; 7], 0));
    assert_eq!(batch.urls.iter().collect::<Vec<_>>(), there);
    assert!(Dedup::decode(Edge::UrlsSplit, &publish.payload).is_ok());
    let counts = counts(&core);
    assert_eq!(counts["found_total"], 7 + 3 + here.len() as u64);
    assert_eq!(
        (counts["filtered_total"], counts["misrouted_total"]),
        (7, 0)
    );
    assert_conserved(&core);
    // Of a partition that it never had it is not.
    let out = step(&mut core, of(&[format!("http://{}/", elsewhere())]));
    assert!(out.publishes.is_empty());
    assert_eq!(super::counts(&core)["misrouted_total"], 1);
}

fn elsewhere() -> String {
    (0..)
        .map(|n| format!("h{n}.test"))
        .find(|host| partition(host, PARTITIONS) != HOME)
        .unwrap()
}
