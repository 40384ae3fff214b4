//! What a page costs: the pipeline in turn with a loop in one process, over the same pages in the
//! same run.
//!
//! CPU time decides, not wall time: the web shares the machine with what is measured. Medians are
//! shown. The web runs on a thread of this process and is not counted; the loop and the pipeline
//! are processes of their own, counted whole (the supervising `rhumb` too) when they have ended.

use anyhow::ensure;
use clap::Parser;
use dedup::seen::memory_store_bytes;
use rhumb_config::DedupStore;
use rhumb_tests::bench::bisect::{Found, Way};
use rhumb_tests::bench::figures::Figure;
use rhumb_tests::bench::order::{Measured, Policy};
use rhumb_tests::bench::slow_dns::{self, Steady};
use rhumb_tests::bench::turns::{self, Contender, Spread, Table, Web};
use rhumb_tests::bench::{
    self, frontier, known_pages, known_urls, median, scaling, url_cache, url_seen,
};
use rhumb_tests::harness::World;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use synthetic_web::{Latency, PagesPerHost, Profile};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures what a page costs.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Another build, the folder of its programs: it takes turns with this one, wget2 where that is
    /// installed, and the loop in one process
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,
    /// Overrides a key of the other build's configuration, or of this one in turn with how it is
    /// without; repeatable
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    against_set: Vec<String>,
    /// The web that is crawled
    #[arg(long, value_enum, default_value_t = Web::Raw)]
    web: Web,
    /// Hosts of the web, instead of as many as it has
    #[arg(long)]
    hosts: Option<u32>,
    /// Pages per host, instead of as many as it has
    #[arg(long)]
    pages: Option<u32>,
    /// Requests that a server takes on a connection, instead of as many as it does
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    request_cap: Option<u32>,
    /// Rounds; medians are shown
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Partitions of the crawl
    #[arg(long, default_value_t = 64)]
    partitions: u16,
    /// Overrides a key of the crawl's configuration; repeatable
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    set: Vec<String>,
    /// The figures by which the cost of a page is judged, on the raw, the wide and the modern web,
    /// instead
    #[arg(long, conflicts_with_all = ["against", "against_set", "web", "hosts", "pages", "request_cap"])]
    figures: bool,
    /// Throughput of one and of four fetchers of 64 connections on 300 slow hosts, instead
    #[arg(long)]
    scaling: bool,
    /// The crawl alone with 8, 64 and 256 partitions, instead
    #[arg(long, conflicts_with = "scaling")]
    partitions_sweep: bool,
    /// A DNS server that takes MS milliseconds (300 without) beside one that answers at once, 500
    /// hosts of 120 pages, after the first seconds of a crawl, instead
    #[arg(long, value_name = "MS", num_args = 0..=1, default_missing_value = "300")]
    slow_dns: Option<u64>,
    /// How fresh a crawl keeps 2,000 pages that change, at 400 visits a second, on the way from
    /// visits in turn to the best plan; each of the rounds takes 150 s and has a web of its own,
    /// instead
    #[arg(long)]
    freshness: bool,
    /// What a visit of a known page costs on the modern web that finds another body, the body of
    /// before, or is answered 304, instead
    #[arg(long)]
    visits: bool,
    /// Memory, disk and speed of the scheduler with N known pages, a thousand of each server (1e6
    /// and 1e7 without N), instead
    #[arg(long, value_name = "N", num_args = 0..)]
    known_pages: Option<Vec<f64>>,
    /// How soon crawls with these policies of the scheduler, each with a quality and other keys,
    /// come to the pages that matter, such as `--order breadth-first capacity:flow`, by PageRank
    /// and the order of requests, instead
    #[arg(long, value_name = "POLICY[:QUALITY][,KEY.PATH=VALUE]...", num_args = 1..)]
    order: Option<Vec<Policy>>,
    /// Lookups a second of the URL cache, by policy, instead
    #[arg(long)]
    url_cache: bool,
    /// Speed, memory, disk and latency of the URL-seen stores with N URLs known (1e6 and 1e7
    /// without N), instead
    #[arg(long, value_name = "N", num_args = 0..)]
    url_seen: Option<Vec<f64>>,
    /// With --url-seen: this store alone
    #[arg(long, requires = "url_seen", value_parser = ["disk", "memory"])]
    store: Option<String>,
    /// Speed, memory and disk of the scheduler with N servers in play (1e5 without N), instead
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1e5")]
    frontier: Option<f64>,
    /// With --frontier: URLs that wait at each server, rounded up to a multiple of 4
    #[arg(long, value_name = "N", requires = "frontier", default_value_t = 20, value_parser = clap::value_parser!(u32).range(4..))]
    urls_each: u32,
    /// With --frontier: by this policy alone, instead of breadth-first:zipf, capacity:zipf and
    /// capacity:links
    #[arg(
        long,
        value_name = "POLICY[:QUALITY][,KEY.PATH=VALUE]...",
        requires = "frontier"
    )]
    by: Option<Policy>,
    /// How long a partition with N known and N waiting URLs takes to move while a crawl runs (1e7
    /// and 2e6 without N), instead
    #[arg(long, value_name = "N", num_args = 0..=2)]
    moves: Option<Vec<f64>>,
    /// How long a checkpoint of N known and N waiting URLs takes, and its restore (1e7 and 2e6
    /// without N), instead
    #[arg(long, value_name = "N", num_args = 0..=2)]
    checkpoint: Option<Vec<f64>>,
    /// The commit of a range that made a page dearer, by builds of commits in turn, instead;
    /// --rounds are those of each pair
    #[arg(long, value_name = "GOOD..BAD")]
    bisect: Option<String>,
    /// With --url-seen, --frontier and --known-pages: where the stores are made; the directory for
    /// temporary files. With --bisect: where builds are made and kept; target/bisect
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Fetch the URLs on standard input in this process and say what that cost: the loop to compare
    /// with
    #[arg(long, hide = true)]
    known_urls: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if cli.known_urls {
        let fetched = known_urls::fetch_all(std::io::stdin().lock())?;
        println!("{}", serde_json::to_string(&fetched)?);
    } else if cli.url_cache {
        for speed in url_cache::speeds() {
            if cli.json {
                println!("{}", serde_json::to_string(&speed)?);
            } else {
                let policy = speed.policy;
                let millions = speed.lookups_per_s / 1e6;
                println!(
                    "{policy:<8} {millions:>6.1} million lookups/s  {:.1} % hits",
                    speed.hit_rate * 100.0
                );
            }
        }
    } else if let Some(range) = &cli.bisect {
        bisect(&cli, range)?;
    } else if let Some(urls) = &cli.moves {
        moves(&cli, urls)?;
    } else if let Some(urls) = &cli.checkpoint {
        checkpoint(&cli, urls)?;
    } else if let Some(servers) = cli.frontier {
        frontier(&cli, servers)?;
    } else if let Some(sizes) = &cli.url_seen {
        url_seen(&cli, sizes)?;
    } else if let Some(latency_ms) = cli.slow_dns {
        slow_dns(&cli, latency_ms)?;
    } else if cli.freshness {
        freshness(&cli)?;
    } else if cli.visits {
        visits(&cli)?;
    } else if let Some(sizes) = &cli.known_pages {
        known_pages(&cli, sizes)?;
    } else if let Some(policies) = &cli.order {
        order(&cli, policies)?;
    } else if cli.figures {
        figures(&cli)?;
    } else if cli.scaling {
        scale(&cli)?;
    } else if cli.partitions_sweep {
        for partitions in [8, 64, 256] {
            take_turns(&cli, partitions, &[Contender::this()])?;
        }
    } else {
        take_turns(&cli, cli.partitions, &contenders(&cli)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn take_turns(cli: &Cli, partitions: u16, contenders: &[Contender]) -> anyhow::Result<()> {
    ensure!(cli.rounds > 0, "--rounds must be at least 1");
    let profile = cli.web.profile(cli.hosts, cli.pages, cli.request_cap);
    let mut set = cli.set.clone();
    set.push(format!("partitions={partitions}"));
    let table = Table::new(
        contenders,
        turns::take_turns(contenders, &profile, &set, cli.rounds)?,
    );
    let web = cli.web.name();
    let hosts = profile.hosts;
    let rounds = cli.rounds;
    if cli.json {
        println!(
            "{}",
            json!({ "web": web, "hosts": hosts, "rounds": rounds, "partitions": partitions, "table": table })
        );
    } else {
        println!(
            "{web} web of {hosts} hosts, {partitions} partitions; medians of {rounds} rounds in \
             turn"
        );
        print!("{table}");
    }
    Ok(())
}

fn figures(cli: &Cli) -> anyhow::Result<()> {
    ensure!(cli.rounds > 0, "--rounds must be at least 1");
    let figures = bench::figures::measure(cli.rounds, &cli.set)?;
    if cli.json {
        println!("{}", serde_json::to_string(&figures)?);
        return Ok(());
    }
    for Figure { of, spread } in figures {
        let Spread {
            median,
            lower,
            upper,
            pairs,
        } = spread;
        println!("{median:>8.2} ({lower:.2} to {upper:.2}, {pairs} rounds)  {of}");
    }
    Ok(())
}

fn order(cli: &Cli, policies: &[Policy]) -> anyhow::Result<()> {
    ensure!(cli.rounds > 0, "--rounds must be at least 1");
    let profile = cli.web.profile(cli.hosts, cli.pages, cli.request_cap);
    let compared = bench::order::measure(policies, &profile, &cli.set, cli.rounds)?;
    if cli.json {
        println!("{}", serde_json::to_string(&compared)?);
        return Ok(());
    }
    let web = cli.web.name();
    let hosts = profile.hosts;
    let rounds = cli.rounds;
    println!("{web} web of {hosts} hosts; medians of {rounds} rounds in turn");
    println!(
        "each host a page a round: {:.4} in order of discovery (0 %), {:.4} in the best order (100 \
         %)",
        compared.discovery, compared.best
    );
    println!(
        "{:<32} {:>7} {:>7} {:>8} {:>11}",
        "policy", "area", "way", "pages/s", "CPU ms/page"
    );
    for Measured {
        policy,
        area,
        way,
        pages_per_s,
        cpu_ms_per_page,
    } in compared.measured
    {
        let percent = way * 100.0;
        println!(
            "{policy:<32} {area:>7.4} {percent:>5.0} % {pages_per_s:>8.0} {cpu_ms_per_page:>11.3}"
        );
    }
    Ok(())
}

fn bisect(cli: &Cli, range: &str) -> anyhow::Result<()> {
    ensure!(cli.rounds > 0, "--rounds must be at least 1");
    let dir = cli
        .dir
        .clone()
        .unwrap_or_else(|| PathBuf::from("target/bisect"));
    let way = Way {
        profile: &cli.web.profile(cli.hosts, cli.pages, cli.request_cap),
        set: &cli.set,
        rounds: cli.rounds,
        dir: &dir,
    };
    let Found {
        commit,
        ratio,
        before,
        last,
    } = bench::bisect::bisect(range, &way)?;
    match cli.json {
        true => println!(
            "{}",
            json!({ "commit": commit, "ratio": ratio, "before": before, "last": last })
        ),
        false => println!(
            "{commit}: {ratio:.2} times the first, {before:.2} before it, {last:.2} in the end"
        ),
    }
    Ok(())
}

/// All that can be measured here; says what cannot.
fn contenders(cli: &Cli) -> anyhow::Result<Vec<Contender>> {
    let mut contenders = vec![Contender::this()];
    match &cli.against {
        Some(programs) => contenders.push(Contender::other(programs, &cli.against_set)?),
        None if !cli.against_set.is_empty() => {
            contenders.push(Contender::this_with(&cli.against_set))
        }
        None => {}
    }
    if contenders.len() > 1 {
        match Contender::wget2(cli.web) {
            Ok(wget2) => contenders.push(wget2),
            Err(why) => eprintln!("wget2 takes no turn: {why:#}"),
        }
    }
    contenders.push(Contender::KnownUrls);
    Ok(contenders)
}

fn checkpoint(cli: &Cli, urls: &[f64]) -> anyhow::Result<()> {
    let (known, waiting) = match *urls {
        [] => (1e7, 2e6),
        [known] => (known, known / 5.0),
        [known, waiting, ..] => (known, waiting),
    };
    ensure!(
        [known, waiting]
            .iter()
            .all(|urls| (1e3..=1e9).contains(urls)),
        "--checkpoint takes numbers from 1e3 to 1e9"
    );
    let measured = bench::checkpoints::measure(known as u64, waiting as u64, &cli.set)?;
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

fn moves(cli: &Cli, urls: &[f64]) -> anyhow::Result<()> {
    let (known, waiting) = match *urls {
        [] => (1e7, 2e6),
        [known] => (known, known / 5.0),
        [known, waiting, ..] => (known, waiting),
    };
    ensure!(
        [known, waiting]
            .iter()
            .all(|urls| (1e3..=1e9).contains(urls)),
        "--moves takes numbers from 1e3 to 1e9"
    );
    let bench::moves::MovesAndSplit { moves, split_s } =
        bench::moves::measure(known as u64, waiting as u64, &cli.set)?;
    for measured in moves {
        if cli.json {
            println!("{}", serde_json::to_string(&measured)?);
            continue;
        }
        let bench::moves::Measured {
            stage,
            urls,
            moved_s,
            stood_still_s,
            copied_bytes,
            changed_bytes,
            ..
        } = &measured;
        println!(
            "{stage:<10} {urls} URLs: moved in {moved_s:.1} s, stood still for {stood_still_s:.2} \
             s; copy {:.1} MB ({:.1} s of work, {:.1} s of the receiver), changes {:.2} MB; {:.0} \
             pages/s meanwhile, {:.0} before",
            *copied_bytes as f64 / 1e6,
            measured.sender_worked_s,
            measured.receiver_worked_s,
            *changed_bytes as f64 / 1e6,
            measured.pages_per_s,
            measured.pages_per_s_before
        );
    }
    match cli.json {
        true => println!("{}", serde_json::json!({ "split_s": split_s })),
        false => println!("both        split in {split_s:.1} s"),
    }
    Ok(())
}

fn frontier(cli: &Cli, servers: f64) -> anyhow::Result<()> {
    ensure!(
        (1e4..=1e8).contains(&servers),
        "--frontier takes a number from 1e4 to 1e8"
    );
    let dir = cli.dir.clone().unwrap_or_else(std::env::temp_dir);
    let policies = match &cli.by {
        Some(policy) => vec![policy.clone()],
        None => ["breadth-first:zipf", "capacity:zipf", "capacity:links"]
            .map(str::parse)
            .into_iter()
            .collect::<Result<_, _>>()?,
    };
    let servers = servers as usize;
    let urls_each = cli.urls_each as usize;
    if cli.json {
        for policy in policies {
            // Alone it is measured in this process.
            let measure = if cli.by.is_some() {
                frontier::measure
            } else {
                frontier::measure_apart
            };
            println!(
                "{}",
                serde_json::to_string(&measure(&policy, servers, urls_each, &dir)?)?
            );
        }
        return Ok(());
    }
    println!(
        "{:<18} {:>8} {:>9} {:>11} {:>8} {:>7} {:>6} {:>9} {:>10} {:>9} {:>9} {:>9} {:>9}",
        "policy:quality",
        "servers",
        "URLs",
        "taken on/s",
        "chosen/s",
        "p99 ms",
        "open s",
        "filled/s",
        "dropped/s",
        "lifted/s",
        "B/server",
        "resident",
        "disk/URL"
    );
    for policy in policies {
        print_frontier(&frontier::measure_apart(&policy, servers, urls_each, &dir)?);
    }
    Ok(())
}

fn print_frontier(measured: &frontier::Measured) {
    println!(
        "{:<18} {:>8} {:>9} {:>11.0} {:>8.0} {:>7.3} {:>6.2} {:>9.0} {:>10.0} {:>9} {:>9.0} \
         {:>6.0} MB {:>9.1}",
        measured.policy,
        measured.servers,
        measured.urls,
        measured.taken_on_per_s,
        measured.chosen_per_s,
        measured.chosen_p99_ms,
        measured.open_s,
        measured.filled_per_s,
        measured.dropped_per_s,
        measured
            .lifted_per_s
            .map_or("-".to_owned(), |number| format!("{number:.0}")),
        measured.memory_per_server,
        measured.resident / 1e6,
        measured.disk_per_url
    );
}

fn url_seen(cli: &Cli, sizes: &[f64]) -> anyhow::Result<()> {
    ensure!(
        sizes.iter().all(|size| (1e4..=1e10).contains(size)),
        "--url-seen takes numbers from 1e4 to 1e10"
    );
    let sizes = if sizes.is_empty() { &[1e6, 1e7] } else { sizes };
    let dir = cli.dir.clone().unwrap_or_else(std::env::temp_dir);
    let stores: &[DedupStore] = match cli.store.as_deref() {
        Some("disk") => &[DedupStore::Disk],
        Some(_) => &[DedupStore::Memory],
        None => &[DedupStore::Disk, DedupStore::Memory],
    };
    if cli.json {
        for (&store, &size) in stores
            .iter()
            .flat_map(|store| sizes.iter().map(move |size| (store, size)))
        {
            println!(
                "{}",
                serde_json::to_string(&url_seen::measure(store, size as u64, &dir)?)?
            );
        }
        return Ok(());
    }
    println!("{}", url_seen::head());
    for &store in stores {
        let mut first = None;
        for &size in sizes {
            let measured = url_seen::measure_apart(store, size as u64, &dir)?;
            let growth = *first.get_or_insert(measured.asks_per_s) / measured.asks_per_s;
            println!("{}", measured.line(growth));
        }
    }
    if stores.contains(&DedupStore::Memory) {
        let per_url = memory_store_bytes(1_000_000_000) as f64 / 1e9;
        println!("memory store at 10^9, calculated: {per_url:.2} bytes per URL");
    }
    Ok(())
}

fn known_pages(cli: &Cli, sizes: &[f64]) -> anyhow::Result<()> {
    let sizes = if sizes.is_empty() { &[1e6, 1e7] } else { sizes };
    ensure!(
        sizes.iter().all(|pages| (1e4..=1e9).contains(pages)),
        "--known-pages takes numbers from 1e4 to 1e9"
    );
    let dir = cli.dir.clone().unwrap_or_else(std::env::temp_dir);
    if cli.json {
        for &pages in sizes {
            let measured = known_pages::measure(pages as u64, &dir)?;
            println!("{}", serde_json::to_string(&measured)?);
        }
        return Ok(());
    }
    println!("{}", known_pages::head());
    for &pages in sizes {
        println!("{}", known_pages::measure_apart(pages as u64, &dir)?);
    }
    Ok(())
}

fn slow_dns(cli: &Cli, latency_ms: u64) -> anyhow::Result<()> {
    ensure!(cli.rounds > 0, "--rounds must be at least 1");
    let round = |dns_latency_ms| {
        let profile = Profile {
            hosts: 500,
            pages_per_host: PagesPerHost::Exactly(120),
            ..Profile::raw()
        };
        slow_dns::measure(
            &World::alone(Profile {
                dns_latency_ms,
                ..profile
            }),
            &cli.set,
        )
    };
    let mut instant = Vec::new();
    let mut slow = Vec::new();
    for _ in 0..cli.rounds {
        instant.push(round(0)?);
        slow.push(round(latency_ms)?);
    }
    let of = |number: fn(&Steady) -> f64| {
        let [instant, slow] =
            [&instant, &slow].map(|rounds| median(rounds.iter().map(number).collect()));
        (instant, slow, slow / instant)
    };
    let rate = of(|r| r.requests_per_s);
    let cpu = of(|r| r.cpu_ms_per_request);
    let whole = of(|r| r.whole_requests_per_s);
    if cli.json {
        println!(
            "{}",
            json!({ "latency_ms": latency_ms, "instant": instant, "slow": slow })
        );
        return Ok(());
    }
    println!(
        "500 hosts x 120 pages, medians of {} rounds of each, after the first seconds",
        cli.rounds
    );
    println!(
        "{:<24} {:>12} {:>12} {:>8}",
        "DNS answers",
        "at once",
        format!("after {latency_ms} ms"),
        "ratio"
    );
    for (name, (instant, slow, ratio)) in [
        ("requests/s", rate),
        ("CPU ms/request", cpu),
        ("requests/s, whole crawl", whole),
    ] {
        println!("{name:<24} {instant:>12.3} {slow:>12.3} {ratio:>8.3}");
    }
    Ok(())
}

fn freshness(cli: &Cli) -> anyhow::Result<()> {
    ensure!(cli.rounds > 0, "--rounds must be at least 1");
    let mut ways = Vec::new();
    for seed in 1..=cli.rounds as u64 {
        let fresh = bench::freshness::measure(seed, &cli.set)?;
        ways.extend(fresh.way);
        if cli.json {
            println!("{}", serde_json::to_string(&fresh)?);
            continue;
        }
        let way = fresh.way.map_or("-".to_owned(), |way| format!("{way:.2}"));
        println!(
            "seed {seed}: way {way}  share {:.3}  uniform {:.3}  optimum {:.3}  visits {}",
            fresh.share, fresh.uniform, fresh.optimum, fresh.visits
        );
    }
    if !cli.json && !ways.is_empty() {
        println!(
            "median way from uniform to the optimum: {:.2}",
            median(ways)
        );
    }
    Ok(())
}

fn visits(cli: &Cli) -> anyhow::Result<()> {
    ensure!(cli.rounds > 0, "--rounds must be at least 1");
    let mut unchanged = Vec::new();
    let mut not_modified = Vec::new();
    for _ in 0..cli.rounds {
        let costs = bench::visits::measure(&cli.set)?;
        unchanged.push(costs.unchanged / costs.changed);
        not_modified.push(costs.not_modified / costs.unchanged);
        if cli.json {
            println!("{}", serde_json::to_string(&costs)?);
            continue;
        }
        println!(
            "CPU ms a visit: changed {:.2}  unchanged {:.2}  304 {:.2}",
            costs.changed, costs.unchanged, costs.not_modified
        );
    }
    if !cli.json {
        println!(
            "medians: unchanged to changed {:.2}, 304 to unchanged {:.2}",
            median(unchanged),
            median(not_modified)
        );
    }
    Ok(())
}

fn scale(cli: &Cli) -> anyhow::Result<()> {
    let profile = Profile {
        hosts: 300,
        pages_per_host: PagesPerHost::Exactly(200),
        latency: Latency::Fixed { ms: 400 },
        ..Profile::raw()
    };
    let scaled = scaling::measure(&World::alone(profile), &cli.set)?;
    if cli.json {
        println!("{}", serde_json::to_string(&scaled)?);
    } else {
        println!(
            "300 hosts, 400 ms latency, 64 connections a fetcher, {} s windows",
            scaled.window_s
        );
        println!("1 fetcher   {:.1} pages/s", scaled.one_pages_per_s);
        println!("4 fetchers  {:.1} pages/s", scaled.four_pages_per_s);
        println!("ratio       {:.2}", scaled.ratio);
    }
    Ok(())
}
