//! `rhumb`: runs, watches and steers a crawl.

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use rhumb::crawl::{Ending, Plan, SUPERVISOR, SupervisorRequest};
use rhumb::output::line;
use rhumb::{crawl, dead, delete, export, handle, inject, lab, status, tap, topology, why, windows};
use shared::config::{Layers, Pipeline};
use shared::message::Edge;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// A web crawler made as a dataflow of separate processes over NATS.
#[derive(Parser)]
#[command(
    name = "rhumb",
    version,
    after_help = "Examples:
  rhumb crawl https://example.org/ --set 'network.user_agent=mybot/1.0 (+https://example.org/bot)'
  rhumb crawl --seeds seeds.txt --scope domain --max-pages 10000 --data /var/lib/rhumb --summary summary.json
  rhumb tap urls.new --limit 5 --format json          in another terminal, while a crawl runs
  rhumb scale fetcher=4
  rhumb status --watch"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Which crawl, and with which configuration.
#[derive(Args, Clone, Debug)]
struct Which {
    /// The configuration; may hold only the keys it changes [default: pipeline.yaml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Overrides a key of the configuration; VALUE is YAML. Repeatable
    #[arg(long, value_name = "KEY.PATH=VALUE")]
    set: Vec<String>,
    /// Data directory of the crawl (configuration key data)
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Which {
    fn layers(&self) -> Layers {
        let mut set = self.set.clone();
        if let Some(data) = &self.data {
            set.push(handle::assignment("data", &data.display().to_string()));
        }
        Layers { file: self.config.clone(), set }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    Host,
    Domain,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Lab {
    /// Names and pages a second (two papers of 2008): what do a cache, many lookups at once, a good table and a queue for
    /// each worker bring?
    #[command(
        after_help = "Takes six minutes: a million names are resolved by the crawler's own resolver, from a name server \
                      on loopback that is as slow as the paper's, and seven small crawlers take turns on a synthetic \
                      web. Nothing outside this machine is contacted. Writes dns-arms.csv, dns-hit-rates.csv, \
                      dns-tables.csv, dns-rows.csv and dns.svg; exit 1 when a claim does not hold. Other work on the \
                      machine makes what is measured in real time look worse.\n\nExample:\n  rhumb lab dns --out \
                      figures"
    )]
    Dns {
        /// Folder for the tables and the figure
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// Of names, trace and latencies: the same seed gives the same ones
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Policies of the scheduler (Cao, Jiang and Singh 2003): how many pages, and how much quality, by when?
    #[command(
        after_help = "Crawls a made-up web in simulated time with the scheduler's own core. Writes scheduling.csv, \
                      scheduling-runs.csv and scheduling.svg; exit 1 when a claim does not hold.\n\nExample:\n  rhumb \
                      lab scheduling --out figures"
    )]
    Scheduling {
        /// Folder for the tables and the figure
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// Of the web and its qualities: the same seed gives the same files
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Policies and sizes of a URL cache (Broder, Najork and Wiener 2003): which share of the links does it catch?
    #[command(
        after_help = "Writes url-cache.csv and url-cache.svg; exit 1 when a claim does not hold.\n\nExamples:\n  \
                      rhumb lab url-cache --out figures\n  rhumb export links --data rhumb-data >links.tsv && rhumb lab \
                      url-cache --trace links.tsv"
    )]
    UrlCache {
        /// Folder for the table and the figure
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// Links of a crawl, as `rhumb export links` writes them, instead of generated ones
        #[arg(long, value_name = "FILE")]
        trace: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
enum Export {
    /// The URLs found most often until the crawl's end, for stages.*.cache.policy=static
    #[command(after_help = "Example:\n  rhumb export frequent-urls --for 10m >frequent-urls.txt")]
    FrequentUrls {
        /// How many
        #[arg(long, value_name = "N", default_value_t = 65_536)]
        entries: usize,
        /// Listen for so long at most, such as 90s or 2h
        #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
        at_most: Option<Duration>,
        #[command(flatten)]
        which: Which,
    },
    /// Every link, after the host of its page and a tab, as `rhumb lab url-cache --trace` reads it
    Links {
        /// Listen for so long at most, such as 90s or 2h
        #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
        at_most: Option<Duration>,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Subcommand)]
enum Command {
    /// Runs the whole pipeline here as separate processes, from seeds until nothing is left or a limit is reached
    #[command(
        after_help = "Ends with exit code 0 when complete or at a limit (`complete` in the summary tells), 130 after Ctrl-C \
(drained; go on with --resume), 2 for bad configuration or seeds.

Examples:
  rhumb crawl http://localhost:8000/ --set network.allow_private_addresses=true
  rhumb crawl https://example.org/ --max-pages 500 --set 'network.user_agent=mybot/1.0 (me@example.org)'
  rhumb crawl --resume --data rhumb-data"
    )]
    Crawl {
        /// URLs to begin with
        #[arg(value_name = "URL")]
        urls: Vec<String>,
        /// File with URLs to begin with, one a line
        #[arg(long, value_name = "FILE")]
        seeds: Option<PathBuf>,
        #[command(flatten)]
        which: Which,
        /// Stop when the crawl has so many pages, those of earlier runs included (configuration key limits.max_pages)
        #[arg(long, value_name = "N")]
        max_pages: Option<u64>,
        /// Follow links at most so far from a seed (configuration key scope.max_depth)
        #[arg(long, value_name = "N")]
        max_depth: Option<u16>,
        /// Stop after this time, such as 90s or 2h
        #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
        at_most: Option<Duration>,
        /// Which hosts to follow: those of the seeds, all under their registered domains, or any (scope.follow)
        #[arg(long)]
        scope: Option<Scope>,
        /// Write the final numbers to this file, as JSON
        #[arg(long, value_name = "FILE")]
        summary: Option<PathBuf>,
        /// Go on with the crawl that the data directory holds, with the configuration of its last run (unless
        /// --config names another) and what the environment and --set change from now on
        #[arg(long)]
        resume: bool,
    },
    /// Runs the pipeline without seeds until stopped; feed it with `rhumb inject`
    Up {
        #[command(flatten)]
        which: Which,
    },
    /// Adds URLs to a running crawl
    Inject {
        /// The URLs
        #[arg(value_name = "URL", required = true)]
        urls: Vec<String>,
        /// The topic they belong to
        #[arg(long, default_value = "default")]
        topic: String,
        /// Fetch them although the crawl has met them before: only if they changed, as far as their servers tell
        #[arg(long)]
        again: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Changes how many instances of a stage run, while the crawl goes on
    #[command(after_help = "Example:\n  rhumb scale fetcher=4 parser=2")]
    Scale {
        /// Stage and number of instances
        #[arg(value_name = "STAGE=N", required = true)]
        stages: Vec<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Shows how a running crawl stands
    Status {
        /// As JSON, with the keys of `crawl --summary`
        #[arg(long)]
        json: bool,
        /// Again every second, until Ctrl-C
        #[arg(long)]
        watch: bool,
        /// Check that no URL is unaccounted for; exit 1 and say what is wrong otherwise
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Prints the messages on an edge as they pass, without any effect on the crawl
    #[command(after_help = tap::help())]
    Tap {
        /// The edge
        edge: String,
        /// Only this partition
        #[arg(long, value_name = "P")]
        partition: Option<u16>,
        /// Only messages about this host
        #[arg(long)]
        host: Option<String>,
        /// How to print a message
        #[arg(long, default_value = "text")]
        format: Format,
        /// End after so many messages
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
        /// Without bodies
        #[arg(long)]
        headers: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Tells where a URL is now and why: filtered, seen, waiting for what until when
    #[command(after_help = "Every process that knows something of the URL says it in a line.

Example:
  rhumb why https://example.org/page --data rhumb-data")]
    Why {
        /// The URL
        url: String,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
    Topology(topology::Topology),
    /// Lists the corrupt messages that stages put aside
    Dead {
        /// Send each again to where it came from
        #[arg(long)]
        replay: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Deletes a stopped crawl: its streams, buckets and state
    #[command(after_help = "Asks first on a terminal. Example:\n  rhumb delete --data rhumb-data --yes")]
    Delete {
        /// Do not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Reproduces a paper's experiment
    #[command(subcommand)]
    Lab(Lab),
    /// Prints what a running crawl finds, for a later one or for `rhumb lab`
    #[command(subcommand)]
    Export(Export),
    /// Canonical form, SURT, fingerprint and partition of a URL; exit 1 with the reason when it is not crawlable
    Canonical {
        /// The URL
        url: String,
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Whether a robots.txt allows a URL: exit 0 allowed, 1 disallowed, 2 bad arguments
    Robots {
        /// The robots.txt
        file: PathBuf,
        /// The URL
        url: String,
        /// User agent whose group counts
        #[arg(long, default_value = "rhumb")]
        agent: String,
    },
    /// The links found in a document, one a line: of HTML, of a sitemap or feed, and of the headers that came with it
    #[command(
        after_help = "What is taken the keys below stages.parser say: embedded, forms, amphtml, anchors, nofollow.

Examples:
  rhumb links page.html --base https://example.org/page.html
  rhumb links page.html --base https://example.org/ --json --set stages.parser.anchors=true
  rhumb links sitemap.xml.gz --base https://example.org/sitemap.xml.gz --content-type application/gzip
  rhumb links paper.pdf --base https://example.org/paper.pdf --content-type application/pdf \\
      --header 'Link: </papers/>; rel=up' --header 'X-Robots-Tag: noindex'"
    )]
    Links {
        /// The document
        file: PathBuf,
        /// Its URL
        #[arg(long, value_name = "URL")]
        base: String,
        /// Its Content-Type header
        #[arg(long, value_name = "TYPE", default_value = "text/html")]
        content_type: String,
        /// Another header that came with it: Link, Refresh, Location, Content-Location, Content-Language,
        /// Content-Encoding, X-Robots-Tag. Repeatable
        #[arg(long, value_name = "NAME: VALUE")]
        header: Vec<String>,
        /// The status it came with
        #[arg(long, value_name = "STATUS", default_value_t = 200)]
        status: u16,
        /// As JSON: each link with its source and, with stages.parser.anchors, its text; title, language and charset
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
}

/// Bad configuration or arguments.
const EXIT_ARGUMENTS: u8 = 2;
/// Ended by Ctrl-C, as shells expect.
const EXIT_INTERRUPTED: u8 = 130;
/// How long a look at a crawl may take.
const LOOK_AT_MOST: Duration = Duration::from_secs(10);
/// So many looks in a row must find something wrong.
const LOOKS_AT_WRONG: u32 = 3;

/// An error that is the caller's: exit 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct BadArguments(String);

fn main() -> ExitCode {
    let cli = Cli::parse();
    shared::telemetry::init();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("rhumb: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(cli.command)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("rhumb: {error:#}");
            let is_bad = error.downcast_ref::<BadArguments>().is_some()
                || error.downcast_ref::<shared::config::ConfigError>().is_some();
            if is_bad { ExitCode::from(EXIT_ARGUMENTS) } else { ExitCode::FAILURE }
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Crawl { urls, seeds, which, max_pages, max_depth, at_most, scope, summary, resume } => {
            let seeds = inject::seeds(&urls, seeds.as_deref()).map_err(BadArguments)?;
            let mut layers = which.layers();
            layers.set.extend(max_depth.map(|n| format!("scope.max_depth={n}")));
            layers.set.extend(scope.map(|scope| {
                let name = scope.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
                format!("scope.follow={name}")
            }));
            let layers = if resume { handle::resumed(layers)? } else { layers };
            let mut pipeline = layers.load()?;
            // A limit of this run: what resumes the crawl goes on.
            pipeline.limits.max_pages = max_pages.unwrap_or(pipeline.limits.max_pages);
            let seeds = pipeline.url.rewrite_all(seeds);
            inject::check_length(&seeds, pipeline.limits.url_bytes_max).map_err(BadArguments)?;
            check_beginning(&pipeline, &seeds, resume)?;
            if resume {
                check_shape(&pipeline)?;
            }
            check_summary(summary.as_deref())?;
            let plan = Plan { layers, pipeline, seeds, topic: "default".into(), ends: true, at_most, summary };
            finish(crawl::run(&plan).await?)
        }
        Command::Up { which } => {
            let layers = handle::resumed(which.layers())?;
            let pipeline = layers.load()?;
            check_shape(&pipeline)?;
            let plan = Plan {
                layers,
                pipeline,
                seeds: Vec::new(),
                topic: "default".into(),
                ends: false,
                at_most: None,
                summary: None,
            };
            finish(crawl::run(&plan).await?)
        }
        Command::Inject { urls, topic, again, which } => {
            let seeds = inject::seeds(&urls, None).map_err(BadArguments)?;
            let running = handle::find(&which.layers()).await?;
            let seeds = running.pipeline.url.rewrite_all(seeds);
            inject::check_length(&seeds, running.pipeline.limits.url_bytes_max).map_err(BadArguments)?;
            let again = if again { inject::injection() } else { 0 };
            inject::inject(&running.bus, &topic, &seeds, again).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Scale { stages, which } => scale(&stages, &which).await,
        Command::Status { json, watch, check, which } => show_status(json, watch, check, &which).await,
        Command::Tap { edge, partition, host, format, limit, headers, which } => {
            let edge = Edge::from_name(&edge).ok_or_else(|| {
                let names: Vec<&str> = Edge::ALL.iter().map(|edge| edge.name()).collect();
                BadArguments(format!("there is no edge '{edge}'; edges are {}", names.join(", ")))
            })?;
            let running = handle::find(&which.layers()).await?;
            let n_partitions = running.pipeline.partitions;
            if let Some(partition) = partition.filter(|&partition| partition >= n_partitions) {
                let last = n_partitions - 1;
                return Err(BadArguments(format!("there is no partition {partition}: they are 0 to {last}")).into());
            }
            // As URLs have it.
            let host = host.map(|host| host.to_ascii_lowercase());
            let tap = tap::Tap { edge, partition, host, json: format == Format::Json, limit, headers_only: headers };
            tap::run(&running, &tap).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Why { url, json, which } => {
            let url = shared::url::canonical(&url, None, None)
                .map_err(|reason| BadArguments(format!("'{url}' is no URL that can be crawled: {reason}")))?;
            why::run(&handle::find(&which.layers()).await?, &url, json).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Topology(topology) => {
            topology.print();
            Ok(ExitCode::SUCCESS)
        }
        Command::Dead { replay, json, which } => {
            dead::run(&handle::find(&which.layers()).await?, replay, json).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Delete { yes, which } => {
            let own = handle::local(&which.layers())?;
            let pipeline = handle::kept(&own.data)?.unwrap_or(own);
            if !yes && std::io::stdin().is_terminal() && !confirmed(&pipeline)? {
                return Ok(ExitCode::FAILURE);
            }
            delete::run(&pipeline).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Lab(Lab::Dns { out, seed }) => {
            let holds = lab::dns(out, seed)?;
            Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Lab(Lab::Scheduling { out, seed }) => {
            let holds = lab::scheduling(out, seed)?;
            Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Lab(Lab::UrlCache { out, trace }) => {
            let holds = lab::url_cache(out, trace)?;
            Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Export(Export::FrequentUrls { entries, at_most, which }) => {
            export::frequent_urls(&handle::find(&which.layers()).await?, entries, at_most).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Export(Export::Links { at_most, which }) => {
            export::links(&handle::find(&which.layers()).await?, at_most).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Canonical { url, json, which } => {
            let pipeline = handle::local(&which.layers())?;
            Ok(windows::canonical(&url, &pipeline, json))
        }
        Command::Robots { file, url, agent } => {
            windows::robots(&file, &url, &agent).map_err(|error| BadArguments(format!("{error:#}")).into())
        }
        Command::Links { file, base, content_type, header, status, json, which } => {
            let pipeline = handle::local(&which.layers())?;
            let document =
                windows::Document { file: &file, base: &base, status, content_type: &content_type, headers: &header };
            windows::links(&document, &pipeline, json).map_err(|error| BadArguments(format!("{error:#}")).into())
        }
    }
}

fn confirmed(pipeline: &Pipeline) -> anyhow::Result<bool> {
    eprint!("Delete the crawl '{}' in {}, with all that it knows? [y/N] ", pipeline.crawl, pipeline.data.display());
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "yes"))
}

fn finish(ending: Ending) -> anyhow::Result<ExitCode> {
    Ok(match ending {
        Ending::Done => ExitCode::SUCCESS,
        Ending::Interrupted => ExitCode::from(EXIT_INTERRUPTED),
    })
}

/// A crawl begins with seeds in an empty data directory, or goes on in one that holds a crawl.
fn check_beginning(pipeline: &Pipeline, seeds: &[String], resume: bool) -> anyhow::Result<()> {
    let holds_a_crawl = pipeline.data.join("dedup").exists() || pipeline.data.join("scheduler").exists();
    let data = pipeline.data.display();
    if holds_a_crawl && !resume {
        return Err(BadArguments(format!(
            "the data directory {data} holds a crawl already: go on with it (--resume), take another (--data DIR), or remove it"
        ))
        .into());
    }
    if !holds_a_crawl && seeds.is_empty() {
        let what = if resume { "holds no crawl to resume" } else { "holds no crawl, and no seed was given" };
        return Err(BadArguments(format!("the data directory {data} {what}: name URLs to begin with")).into());
    }
    Ok(())
}

/// What is fixed for the life of a crawl must be as it was.
fn check_shape(pipeline: &Pipeline) -> anyhow::Result<()> {
    let Some(kept) = handle::kept(&pipeline.data)? else { return Ok(()) };
    let fixed = |pipeline: &Pipeline| {
        [
            ("crawl", pipeline.crawl.clone()),
            ("partitions", pipeline.partitions.to_string()),
            ("ownership_lease", humantime::format_duration(pipeline.ownership_lease).to_string()),
            ("stages.dedup.replicas", pipeline.stages.dedup.replicas.to_string()),
            ("stages.scheduler.replicas", pipeline.stages.scheduler.replicas.to_string()),
        ]
    };
    for ((key, is), (_, was)) in fixed(pipeline).into_iter().zip(fixed(&kept)) {
        if is != was {
            let data = pipeline.data.display();
            return Err(BadArguments(format!(
                "configuration key {key} = {is}: the crawl in {data} has {was}, which is fixed for its life; set it \
                 back, or take another data directory"
            ))
            .into());
        }
    }
    Ok(())
}

/// That the summary can be written is known before the crawl, not after it.
fn check_summary(path: Option<&Path>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let opened = std::fs::File::options().create(true).append(true).open(path);
    opened
        .map(drop)
        .map_err(|error| BadArguments(format!("cannot write the summary to {}: {error}", path.display())).into())
}

async fn scale(stages: &[String], which: &Which) -> anyhow::Result<ExitCode> {
    let mut wanted = Vec::new();
    for assignment in stages {
        let parsed = assignment.split_once('=').and_then(|(stage, n)| Some((stage.to_owned(), n.parse::<u16>().ok()?)));
        match parsed {
            Some((stage, replicas)) if (1..=1000).contains(&replicas) => wanted.push((stage, replicas)),
            _ => {
                return Err(
                    BadArguments(format!("'{assignment}' is not of the form STAGE=N with N from 1 to 1000")).into()
                );
            }
        }
    }
    let running = handle::find(&which.layers()).await?;
    for (stage, replicas) in wanted {
        let request = serde_json::to_vec(&SupervisorRequest::Scale { stage, replicas })?;
        let answer = running
            .bus
            .client
            .request(running.bus.subjects.control(SUPERVISOR), request.into())
            .await
            .context("no `rhumb crawl` or `rhumb up` supervises this crawl; scale its deployment instead")?;
        let error = String::from_utf8_lossy(&answer.payload);
        if !error.is_empty() {
            return Err(BadArguments(error.into_owned()).into());
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn show_status(json: bool, watch: bool, check: bool, which: &Which) -> anyhow::Result<ExitCode> {
    let running = handle::find(&which.layers()).await?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    loop {
        let mut looks = 0;
        let (snapshot, summary) = loop {
            looks += 1;
            let look = status::look(&running.bus, &running.pipeline);
            let looked = tokio::select! {
                looked = tokio::time::timeout(LOOK_AT_MOST, look) => looked,
                _ = interrupt.recv() => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
            };
            let (snapshot, summary) =
                looked.context("the broker or the processes of the crawl do not answer: has it just stopped?")??;
            // Processes do not answer at the same moment: what is wrong of a crawl is still wrong in the next looks.
            if !check || looks == LOOKS_AT_WRONG || snapshot.violations().is_empty() {
                break (snapshot, summary);
            }
        };
        if json {
            line(serde_json::to_string(&summary)?);
        } else {
            line(status::text(&summary, &snapshot).trim_end());
        }
        if check {
            if let Some(unknown) = snapshot.unknown(&running.pipeline) {
                eprintln!("cannot be checked: {unknown}");
                return Ok(ExitCode::FAILURE);
            }
            let violations = snapshot.violations();
            for violation in &violations {
                eprintln!("check failed: {violation}");
            }
            if !violations.is_empty() {
                return Ok(ExitCode::FAILURE);
            }
            if !json {
                line("check     every URL is accounted for");
            }
        }
        if !watch {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
            _ = interrupt.recv() => return Ok(ExitCode::SUCCESS),
        }
    }
}
