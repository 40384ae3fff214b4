//! What a page costs: processor time of core and shell against a server on another thread.
//!
//! `cargo test --release -p fetcher --test cost -- --ignored --nocapture`

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of what waits"
)]
#![allow(clippy::unwrap_used, reason = "what fails in a test fails the test")]

mod common;

use common::server::{Server, ok};
use common::{Driver, http_settings, job, settings};
use std::time::{Duration, Instant};

/// As in the stage.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PAGES_PER_JOB: usize = 50;
const PAGE_BYTES: usize = 17_000;

/// Processor time of this thread.
fn cpu() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(schedstat.split(' ').next().unwrap().parse().unwrap())
}

#[tokio::test]
#[ignore = "a measurement"]
async fn a_page_costs_little() {
    let jobs: usize = std::env::var("JOBS").map_or(400, |jobs| jobs.parse().unwrap());
    let (told, name) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(async {
                let server = Server::answering(ok(&[b'x'; PAGE_BYTES])).await;
                server.seen.lock().unwrap().counts_only = true;
                told.send(server.name()).unwrap();
                std::future::pending::<()>().await;
            });
    });
    let server = name.recv().unwrap();
    for pages_per_job in [PAGES_PER_JOB, 1] {
        let mut driver = Driver::new(settings(), http_settings());
        driver.counts_only = true;
        let jobs = jobs * PAGES_PER_JOB / pages_per_job / if pages_per_job == 1 { 10 } else { 1 };
        for _ in 0..jobs {
            driver.grant(job(&server, pages_per_job));
        }
        let begun = Instant::now();
        let before = cpu();
        driver.run().await;
        let used = cpu() - before;
        assert_eq!(driver.n_pages, jobs * pages_per_job);
        println!(
            "{} pages, {pages_per_job} on a connection: {:.1} us of processor time each, {:.1} us \
             of time",
            driver.n_pages,
            used.as_secs_f64() * 1e6 / driver.n_pages as f64,
            begun.elapsed().as_secs_f64() * 1e6 / driver.n_pages as f64,
        );
    }
}
