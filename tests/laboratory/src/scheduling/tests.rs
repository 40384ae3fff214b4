use super::crawl::{Fetched, Setup, crawl};
use super::curves::{Curves, POLICIES};
use super::quality::Model;
use super::runs::setup;
use super::web::{Page, Server, Web};
use super::*;
use shared::config::Policy;
use shared::message::Quality;
use shared::time::Timestamp;

pub(super) const BASE: Shape = web::tests::SMALL;

/// A run that nobody made: when pages came, in seconds, and what each is worth.
pub(super) fn curves(setup: Setup, model: Model, pages: &[(u32, f32)], whole: Option<f64>) -> Curves {
    let at = |second: u32| Timestamp::from_micros(u64::from(second) * 1_000_000);
    let fetched = pages.iter().enumerate().map(|(page, &(second, _))| Fetched { at: at(second), page }).collect();
    let qualities: Vec<Quality> = pages.iter().map(|&(_, quality)| Quality::new(quality).unwrap()).collect();
    Curves::new((BASE, setup, model), fetched, &qualities, whole)
}

fn small() -> Settings {
    Settings { servers: 20, pages: 80, ..Settings::default() }
}

/// A run into a folder of its own: what came of it, and its files.
fn run_into(settings: Settings) -> (Findings, [String; 3]) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("made").join("here");
    let mut lines = 0;
    let findings = run(&Settings { folder: folder.clone(), ..settings }, &mut |_| lines += 1).unwrap();
    assert!(lines > 0);
    let read = |name| fs::read_to_string(folder.join(name)).unwrap();
    (findings, ["scheduling.csv", "scheduling-runs.csv", "scheduling.svg"].map(read))
}

#[test]
fn a_run_writes_tables_and_figure_and_judges() {
    let (findings, [csv, runs, svg]) = run_into(small());
    // Two kinds of quality, four policies, 101 points and a heading.
    assert_eq!(csv.lines().count(), 1 + 2 * 4 * 101);
    assert!(csv.lines().any(|row| row.starts_with("Zipf(1),capacity,1.00,") && row.ends_with(",1.000000")));
    // Comparisons on 8 webs and with few connections; one without keep-alive; six more of the sweep (64 and 16 are
    // there); three more numbers of schedulers with two numbers of connections, twice; a heading.
    assert_eq!(runs.lines().count(), 9 * 8 + 1 + 7 + 3 * 2 * 2 + 1);
    let columns = runs.lines().next().unwrap().split(',').count();
    assert!(runs.lines().all(|row| row.split(',').count() == columns));
    assert_eq!(svg.matches("<polyline ").count(), 6 * 4);

    assert_eq!(findings.verdicts.len(), 13);
    assert_eq!((findings.sensitivity.len(), findings.order_lost.len()), (9, 8));
}

#[test]
fn the_same_settings_give_the_same_files() {
    let (one, same, other) = (run_into(small()), run_into(small()), run_into(Settings { seed: 7, ..small() }));
    assert_eq!(one, same);
    assert_ne!(one.1, other.1);
}

/// The crawl itself fails on a second connection to a server, on more than allowed, and on a page that was not found.
#[test]
fn every_policy_fetches_each_page_once() {
    let web = Web::generate(BASE);
    let qualities = Model::PageRank.qualities(&web, BASE.seed);
    for policy in POLICIES {
        for (connections, schedulers, keep_alive) in [(1, 1, true), (8, 1, true), (8, 4, true), (64, 1, false)] {
            let setup = Setup { policy, connections, schedulers, keep_alive };
            let fetched = crawl(&web, &qualities, setup).unwrap();
            assert!(fetched.is_sorted_by_key(|fetched| fetched.at));
            let mut pages: Vec<usize> = fetched.iter().map(|fetched| fetched.page).collect();
            pages.sort_unstable();
            assert_eq!(pages, (0..web.pages.len()).collect::<Vec<_>>(), "{setup:?}");
        }
    }
}

/// Goal: policies choose as they should, and time is counted as the module says. Method: a web whose first page links
/// to three servers, and one connection. Nothing was measured when they are ranked, so that with 0.1 s to connect and
/// 0.1 s for a response T is 0.2 + 0.1 P / 1.2 seconds:
///
/// | server | pages | P | P / T | best | sum / T |
/// | --- | --- | --- | --- | --- | --- |
/// | 1 | 9 | 1 | 3.5 | 9 | 31.8 |
/// | 2 | 7 8 8.5 | 3 | 6.7 | 8.5 | 52.2 |
/// | 3 | 1 1.5 1.2 1.1 | 4 | 7.5 | 1.5 | 9.0 |
///
/// Server 3 serves three requests a connection. Once measured it is far faster: its last page has P / T of 48, and no
/// more than 52 of sum / T.
#[test]
fn on_a_web_counted_by_hand_each_policy_takes_its_order() {
    let qualities = [0.5f32, 9.0, 7.0, 8.0, 8.5, 1.0, 1.5, 1.2, 1.1].map(|value| Quality::new(value).unwrap());
    let server = |pages, requests| Server { pages, requests, connect_us: 10_000 };
    let mut web = Web {
        servers: vec![server(0..1, 1), server(1..2, 100), server(2..5, 100), server(5..9, 3)],
        pages: [0, 1, 2, 2, 2, 3, 3, 3, 3].map(|server| Page { server, response_us: 1_000, links: Vec::new() }).into(),
    };
    web.pages[0].links = (1..9).collect();
    let order = |policy| {
        let fetched = crawl(&web, &qualities, setup(policy, 1)).unwrap();
        // Four connections, and one more, for server 3 serves three requests each: opened and closed, but for the
        // last, which is still open when its page comes.
        assert_eq!(fetched.last().unwrap().at.as_micros(), (2 * 5 - 1) * 10_000 + 9 * 1_000);
        fetched.iter().map(|fetched| fetched.page).collect::<Vec<_>>()
    };
    assert_eq!(order(Policy::BreadthFirst), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(order(Policy::Performance), [0, 5, 6, 7, 8, 2, 3, 4, 1]);
    assert_eq!(order(Policy::Quality), [0, 1, 4, 3, 2, 6, 7, 8, 5]);
    assert_eq!(order(Policy::Capacity), [0, 4, 3, 2, 1, 6, 7, 8, 5]);
}

#[test]
fn settings_without_sense_and_files_that_cannot_be_are_errors() {
    let error = |settings: Settings| format!("{:#}", run(&settings, &mut |_| ()).err().unwrap());
    assert!(error(Settings { servers: 0, ..small() }).contains("a server"));
    assert!(error(Settings { servers: 20, pages: 19, ..small() }).contains("a page for each"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("not-a-folder");
    fs::write(&file, "").unwrap();
    assert!(error(Settings { folder: file, ..small() }).contains("not-a-folder"));
}
