use super::crawl::{Fetched, crawl};
use super::curves::Curves;
use super::policy::Policy;
use super::quality::Model;
use super::setup::Setup;
use super::web::{Page, Server, Web};
use super::*;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Quality;

pub(super) const BASE: Shape = web::tests::SMALL;

/// The setup of the paper's comparison.
pub(super) fn setup(policy: Policy, connections: usize) -> Setup {
    Setup {
        policy,
        ..breadth_first(connections)
    }
}

/// A run that nobody made: when pages came, in seconds, and what each is worth.
pub(super) fn curves(
    setup: Setup,
    model: Model,
    pages: &[(u32, f32)],
    whole: Option<f64>,
) -> Curves {
    let at = |second: u32| Timestamp::from_micros(u64::from(second) * 1_000_000);
    let fetched = pages
        .iter()
        .enumerate()
        .map(|(page, &(second, _))| Fetched {
            at: at(second),
            page,
        })
        .collect();
    let qualities: Vec<Quality> = pages
        .iter()
        .map(|&(_, quality)| Quality::new(quality).unwrap())
        .collect();
    Curves::new((BASE, setup, model), fetched, &qualities, whole)
}

fn small() -> Settings {
    Settings {
        servers: 20,
        pages: 80,
        ..Settings::default()
    }
}

/// A run into a folder of its own: what came of it, and its files.
fn run_into(settings: Settings) -> (Findings, [String; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("made").join("here");
    let mut lines = 0;
    let findings = run(
        &Settings {
            folder: folder.clone(),
            ..settings
        },
        &mut |_| lines += 1,
    )
    .unwrap();
    assert!(lines > 0);
    let read = |name| fs::read_to_string(folder.join(name)).unwrap();
    (
        findings,
        ["scheduling.csv", "scheduling-runs.csv", "scheduling.svg"].map(read),
    )
}

#[test]
fn a_run_writes_tables_and_figure_and_judges() {
    let (findings, [csv, runs, svg]) = run_into(small());
    // Two kinds of quality, six policies, 101 points and a heading.
    assert_eq!(csv.lines().count(), 1 + 2 * 6 * 101);
    assert!(
        csv.lines()
            .any(|row| row.starts_with("Zipf(1),capacity,1.00,") && row.ends_with(",1.000000"))
    );
    // For claims, on five webs: a comparison, one without keep-alive, four of the sweeps, all with
    // fast servers. Ten more comparisons, of which one run was made for a claim. Of both sweeps
    // what is not there yet; three more numbers of schedulers, twice for each quality.
    assert_eq!(
        runs.lines().count(),
        5 * (12 + 1 + 4 + 11) + (10 * 12 - 1) + 6 + 6 + 3 * 2 * 2 + 1
    );
    let columns = runs.lines().next().unwrap().split(',').count();
    assert!(runs.lines().all(|row| row.split(',').count() == columns));
    assert_eq!(svg.matches("<polyline ").count(), 6 * 6);

    assert_eq!(findings.claims.len(), 14);
    assert_eq!(
        (findings.throughput.len(), findings.sensitivity.len()),
        (3, 11)
    );
    assert_eq!((findings.defaults.len(), findings.order_lost.len()), (2, 8));
}

#[test]
fn the_same_settings_give_the_same_files() {
    let one = run_into(small());
    let same = run_into(small());
    let other = run_into(Settings { seed: 7, ..small() });
    assert_eq!(one, same);
    assert_ne!(one.1, other.1);
}

/// The crawl itself fails on a second connection to a server, on more than allowed, and on a page
/// that was not found.
#[test]
fn every_policy_fetches_each_page_once() {
    let web = Web::generate(BASE);
    let qualities = Model::PageRank.qualities(&web, BASE);
    for policy in Policy::ALL {
        for (connections, schedulers, keep_alive) in
            [(1, 1, true), (8, 1, true), (8, 4, true), (64, 1, false)]
        {
            let setup = Setup {
                schedulers,
                keep_alive,
                ..setup(policy, connections)
            };
            let fetched = crawl(&web, &qualities, setup).unwrap();
            assert!(fetched.is_sorted_by_key(|fetched| fetched.at));
            let mut pages: Vec<usize> = fetched.iter().map(|fetched| fetched.page).collect();
            pages.sort_unstable();
            assert_eq!(pages, (0..web.pages.len()).collect::<Vec<_>>(), "{setup:?}");
        }
    }
}

/// Goal: policies choose as they should, and time is counted as the module says. Method: a web
/// whose first page links to three servers, and one connection. Nothing was measured when they are
/// ranked, so that with 0.1 s to connect and 0.1 s for a response T is 0.2 + 0.1 P / 1.2 seconds:
///
/// | server | pages | P | P / T | best | sum / T |
/// | --- | --- | --- | --- | --- | --- |
/// | 1 | 9 | 1 | 3.5 | 9 | 31.8 |
/// | 2 | 7 8 8.5 | 3 | 6.7 | 8.5 | 52.2 |
/// | 3 | 1 1.5 1.2 1.1 | 4 | 7.5 | 1.5 | 9.0 |
///
/// Server 3 serves three requests a connection. Once measured it is far faster: its last page has P
/// / T of 48, and no more than 52 of sum / T.
#[test]
fn on_a_web_counted_by_hand_each_policy_takes_its_order() {
    let qualities =
        [0.5f32, 9.0, 7.0, 8.0, 8.5, 1.0, 1.5, 1.2, 1.1].map(|value| Quality::new(value).unwrap());
    let server = |pages, requests| Server {
        pages,
        requests,
        connect_us: 10_000,
    };
    let mut web = Web {
        servers: vec![
            server(0..1, 1),
            server(1..2, 100),
            server(2..5, 100),
            server(5..9, 3),
        ],
        pages: [0, 1, 2, 2, 2, 3, 3, 3, 3]
            .map(|server| Page {
                server,
                response_us: 1_000,
                links: Vec::new(),
            })
            .into(),
    };
    web.pages[0].links = (1..9).collect();
    let order = |policy| {
        let fetched = crawl(&web, &qualities, setup(policy, 1)).unwrap();
        // Four connections, and one more, for server 3 serves three requests each: opened and
        // closed, but for the last, which is still open when its page comes.
        assert_eq!(
            fetched.last().unwrap().at.as_micros(),
            (2 * 5 - 1) * 10_000 + 9 * 1_000
        );
        fetched
            .iter()
            .map(|fetched| fetched.page)
            .collect::<Vec<_>>()
    };
    assert_eq!(order(Policy::BreadthFirst), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(order(Policy::InTurn), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(order(Policy::Performance), [0, 5, 6, 7, 8, 2, 3, 4, 1]);
    assert_eq!(order(Policy::Quality), [0, 1, 4, 3, 2, 6, 7, 8, 5]);
    assert_eq!(order(Policy::Capacity), [0, 4, 3, 2, 1, 6, 7, 8, 5]);
    // All are as deep: the most pages a second are the most quality a second.
    assert_eq!(order(Policy::CapacityByDepth), order(Policy::Performance));
}

/// Goal: breadth-first goes by the time when a page was found, whatever its server has had; servers
/// in turn do not. Method: two servers that serve one request a connection; all pages of the first
/// are found before those of the second.
#[test]
fn breadth_first_goes_by_pages_and_not_by_servers() {
    let server = |pages| Server {
        pages,
        requests: 1,
        connect_us: 1_000,
    };
    let mut web = Web {
        servers: vec![server(0..1), server(1..4), server(4..6)],
        pages: [0, 1, 1, 1, 2, 2]
            .map(|server| Page {
                server,
                response_us: 1_000,
                links: Vec::new(),
            })
            .into(),
    };
    web.pages[0].links = (1..6).collect();
    let order = |policy| {
        let fetched = crawl(&web, &[Quality::NONE; 6], setup(policy, 1)).unwrap();
        fetched
            .iter()
            .map(|fetched| fetched.page)
            .collect::<Vec<_>>()
    };
    assert_eq!(order(Policy::BreadthFirst), [0, 1, 2, 3, 4, 5]);
    assert_eq!(order(Policy::InTurn), [0, 1, 4, 2, 5, 3]);
}

/// Goal: pages wait for the CPU one after another, and a connection waits for its page. Method:
/// three servers answer at once. With 10 ms of CPU for each 1 ms of response, pages come 10 ms
/// apart. Only the first takes 12 ms.
#[test]
fn pages_come_no_faster_than_the_cpu_takes_them() {
    let server = |pages| Server {
        pages,
        requests: 100,
        connect_us: 1_000,
    };
    let web = Web {
        servers: vec![server(0..2), server(2..4), server(4..6)],
        pages: [0, 0, 1, 1, 2, 2]
            .map(|server| Page {
                server,
                response_us: 1_000,
                links: Vec::new(),
            })
            .into(),
    };
    let setup = Setup {
        seeds: Seeds::AllPages,
        page_cpu_us: 10_000,
        ..breadth_first(3)
    };
    let fetched = crawl(&web, &[Quality::NONE; 6], setup).unwrap();
    let at: Vec<u64> = fetched
        .iter()
        .map(|fetched| fetched.at.as_micros())
        .collect();
    assert_eq!(at, [12_000, 22_000, 32_000, 42_000, 52_000, 62_000]);
    let fetched = crawl(
        &web,
        &[Quality::NONE; 6],
        Setup {
            page_cpu_us: 0,
            ..setup
        },
    )
    .unwrap();
    assert_eq!(fetched.last().unwrap().at.as_micros(), 3_000);
}

#[test]
fn settings_without_sense_and_files_that_cannot_be_are_errors() {
    let error = |settings: Settings| format!("{:#}", run(&settings, &mut |_| ()).err().unwrap());
    assert!(
        error(Settings {
            servers: 0,
            ..small()
        })
        .contains("a server")
    );
    assert!(
        error(Settings {
            servers: 20,
            pages: 19,
            ..small()
        })
        .contains("a page for each")
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("not-a-folder");
    fs::write(&file, "").unwrap();
    assert!(
        error(Settings {
            folder: file,
            ..small()
        })
        .contains("not-a-folder")
    );
}
