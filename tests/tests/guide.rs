//! The guide: the commands of docs/freshness.md do what the text around them says.

use rhumb_tests::harness::{World, cook, guide, json, logged};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use synthetic_web::{Change, PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);
const PAGES: u32 = 8;

/// A site whose pages change every few seconds.
fn world() -> World {
    World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(PAGES),
        change: Some(Change {
            never: 0.0,
            ..Change::new(Duration::from_secs(2))
        }),
        ..Profile::raw()
    })
}

/// A folder of a user, whose `pipeline.yaml` leads to the web, and who has no hour to wait.
fn folder(world: &World, name: &str) -> PathBuf {
    let folder = world.folder().join(name);
    std::fs::create_dir_all(&folder).expect("room for a folder");
    let dns = world.web.dns();
    let text = format!(
        "network: {{allow_private_addresses: true, nameservers: [\"{dns}\"]}}\n\
         politeness: {{delay: 0s}}\n\
         recrawl: {{interval_min: 1s}}\n"
    );
    std::fs::write(folder.join("pipeline.yaml"), text).expect("room for a file");
    folder
}

/// Runs a block of the guide for the site of the world, with times of seconds. Returns the number
/// of lines that the log has of each page.
fn crawled(world: &World, block: &str, folder: &Path) -> Vec<usize> {
    let commands = block
        .replace("https://docs.example/", &world.web.seed_urls()[0])
        .replace("--for 720h", "--for 30s")
        .replace("24h", "1s")
        .replace("--visits 3", "--visits 3 --set stages.archiver.replicas=1");
    let said = cook(&commands, folder);
    assert_eq!(said.code, 0, "{commands}\n{}{}", said.out, said.err);
    let lines = logged(&folder.join("rhumb-data/archive"));
    lines.values().map(Vec::len).collect()
}

/// Goal: whoever follows the page keeps a crawl fresh, ends one after so many visits, and takes over
/// the log of an earlier one. Method: its commands run as they stand there, but for the site and the
/// times.
#[test]
fn the_commands_of_the_page_on_freshness_do_what_it_says() {
    let world = world();
    let blocks = guide();
    let [fresh, ending, taking_over] = blocks.as_slice() else {
        panic!("{blocks:?}");
    };
    let old = folder(&world, "old");
    let visits = crawled(&world, fresh, &old);
    assert_eq!(visits.len(), PAGES as usize, "{visits:?}");
    assert!(
        visits.iter().sum::<usize>() > 2 * visits.len(),
        "{visits:?}"
    );
    let visits = crawled(&world, ending, &folder(&world, "ending"));
    assert_eq!(visits, [3; PAGES as usize]);

    let mut up = world
        .up()
        .set("recrawl.interval_min=1s")
        .set("recrawl.requests_per_second=20")
        .start();
    up.handle();
    let here = world.folder();
    std::os::unix::fs::symlink(world.data(), here.join("rhumb-data")).expect("a link");
    std::os::unix::fs::symlink(old.join("rhumb-data"), here.join("old-crawl")).expect("a link");
    let listed =
        r#"{"url":"http://listed.test/","outcome":"fetched","time":"2024-02-29T12:00:00Z"}"#;
    let said = cook(&format!("echo '{listed}' | gzip > list.jsonl.gz"), here);
    assert_eq!(said.code, 0, "{}", said.err);
    let said = cook(taking_over, here);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let known = u64::from(PAGES) + 1;
    let summary = up.until(MINUTE, |summary| {
        let of_pages = summary.recrawl.as_ref();
        of_pages.is_some_and(|of| of.known == known && of.visits.values().sum::<u64>() > 50)
    });
    assert_eq!(summary.pages, 0, "{}", json(&summary));
    let status = cook("rhumb status", here).out;
    for line in ["visits    known 9  ", "copies    "] {
        assert!(status.contains(line), "{status}");
    }
    up.signal(Signal::TERM);
    assert_eq!(up.exit_code(MINUTE), 130);
}
