//! Is the scanner right, and how fast is it? `cargo run --release -p parser --example markup --
//! DIR...`
//!
//! Reads every HTML file below the directories, compares the scanner's tags, attributes and titles
//! with those of html5ever's tokenizer, and measures how much HTML links are extracted from in a
//! second of CPU time: the best of several rounds over all files. Exit 1 when a file differs.

#[path = "../tests/oracle/mod.rs"]
mod oracle;

use parser::links::{Mentions, mentions};
use parser::options::Options;
use rhumb_markup::scanner::Dialect;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const ROUNDS: usize = 7;

fn main() -> ExitCode {
    let mut paths = Vec::new();
    std::env::args_os()
        .skip(1)
        .for_each(|folder| html_files(Path::new(&folder), &mut paths));
    paths.sort();
    // What is no UTF-8 is left out: html5ever's tokenizer takes text.
    let documents: Vec<(PathBuf, String)> = paths
        .into_iter()
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
        .collect();
    let bytes: usize = documents.iter().map(|(_, document)| document.len()).sum();
    let mut tags = 0;
    let mut links = 0;
    let mut differing = 0;
    for (path, document) in &documents {
        let scanned = oracle::scanned(document);
        tags += scanned.len();
        links += extracted(document).values.len();
        if scanned != oracle::tokenized(document) {
            differing += 1;
            println!("differs: {}", path.display());
        }
    }
    let scanner = best(&documents, |document| {
        black_box(extracted(black_box(document)));
    });
    let tokenizer = best(&documents, |document| {
        black_box(oracle::tokenized(document));
    });
    let speed = |took: Duration| bytes as f64 / took.as_secs_f64() / 1e6;
    println!(
        "{} files, {bytes} bytes, {tags} tags, {links} links; {differing} files differ",
        documents.len()
    );
    println!(
        "link extraction {:.0} MB/s of CPU time; html5ever's tokenizer {:.0} MB/s",
        speed(scanner),
        speed(tokenizer)
    );
    if documents.is_empty() || differing > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn extracted(document: &str) -> Mentions {
    mentions(
        document.as_bytes(),
        Dialect::Html,
        encoding_rs::UTF_8,
        &Options::default(),
        "rhumb",
    )
}

fn best(documents: &[(PathBuf, String)], extract: impl Fn(&str)) -> Duration {
    let round = |_| {
        let start = cpu_time();
        documents.iter().for_each(|(_, document)| extract(document));
        cpu_time() - start
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

/// What this thread has had of the CPU (Linux).
fn cpu_time() -> Duration {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat")
        .expect("a Linux with scheduler statistics");
    let nanoseconds = schedstat
        .split(' ')
        .next()
        .and_then(|first| first.parse().ok())
        .expect("a number first");
    Duration::from_nanos(nanoseconds)
}

fn html_files(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            html_files(&path, paths);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "html" || extension == "htm")
        {
            paths.push(path);
        }
    }
}
