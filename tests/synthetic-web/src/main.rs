//! The synthetic web as a process: prints one JSON line about where it is, then serves until told
//! to stop.
//!
//! Exit 0 when all is well, 1 when the report is not clean, 2 when anything else fails.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::json;
use synthetic_web::{
    Change, GonePages, Hostility, Latency, NewPages, PagesPerHost, Profile, Report, SitemapShares,
    SyntheticWeb, ask, measure,
};
use tokio::signal::unix::{SignalKind, signal};

/// A web of many hosts on loopback addresses, with its own DNS server, for judging crawlers.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what the crawler did; exit 1 if anything is missing, repeated or violated
    Report(Control),
    /// Print what a perfect crawl finds
    Truth(Control),
    /// Print how fresh the copy of the crawler was, beside plans with as many visits
    Freshness {
        #[command(flatten)]
        control: Control,
        /// From when, in seconds since the start of the web
        #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
        from: f64,
        /// Until when; now if not given, or if that is earlier
        #[arg(long, value_name = "SECONDS")]
        to: Option<f64>,
    },
    /// Forget all requests
    Reset(Control),
    /// Measure how many pages per second the web itself serves
    SelfTest {
        /// Keep-alive connections
        #[arg(long, default_value_t = 64)]
        connections: u32,
        /// How long, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
        seconds: f64,
        #[command(flatten)]
        serve: Box<Serve>,
    },
}

#[derive(Debug, Args)]
struct Control {
    /// Address of the control server
    #[arg(long, value_name = "IP:PORT")]
    control: SocketAddr,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// 50 hosts x 200 pages, nothing in the crawler's way
    Raw,
    /// Latencies, closed connections, robots rules, redirects, dead links
    Mixed,
    /// Large packed pages in TLS, half of them by HTTP/2, ten on a connection
    Modern,
}

#[derive(Debug, Args)]
struct Serve {
    /// What the other options change
    #[arg(long, value_enum, default_value = "raw")]
    profile: Name,
    /// Seed of all random decisions
    #[arg(long)]
    seed: Option<u64>,
    /// Number of hosts
    #[arg(long)]
    hosts: Option<u32>,
    /// Pages per host, the mean if the profile is mixed or --heavy-tail is given
    #[arg(long)]
    pages: Option<u32>,
    /// Exactly --pages pages on every host
    #[arg(long, conflicts_with = "heavy_tail")]
    exact: bool,
    /// Many small hosts and few large ones
    #[arg(long)]
    heavy_tail: bool,
    /// Fewest and most links on a page
    #[arg(long, value_name = "MIN,MAX", value_parser = parse_pair)]
    links: Option<(u32, u32)>,
    /// Median page size in bytes
    #[arg(long, value_name = "BYTES")]
    page_bytes: Option<u32>,
    /// Share of links that stay on the server
    #[arg(long, value_name = "SHARE")]
    locality: Option<f64>,
    /// `none`, milliseconds, or `MEDIAN_MS,SIGMA` for a lognormal spread
    #[arg(long, value_parser = parse_latency)]
    latency: Option<Latency>,
    /// Share of servers that close the connection after N requests; repeatable, replaces the
    /// profile's
    #[arg(long, value_name = "SHARE:N", value_parser = parse_cap)]
    request_cap: Vec<(f64, u32)>,
    /// No server closes connections of its own accord
    #[arg(long, conflicts_with = "request_cap")]
    no_request_caps: bool,
    /// Share of hosts with Disallow rules
    #[arg(long, value_name = "SHARE")]
    robots: Option<f64>,
    /// Share of hosts without robots.txt
    #[arg(long, value_name = "SHARE")]
    robots_missing: Option<f64>,
    /// Share of the pages of a host with rules that are disallowed
    #[arg(long, value_name = "SHARE")]
    disallowed: Option<f64>,
    /// Share of the hosts with rules that ask for a Crawl-delay
    #[arg(long, value_name = "SHARE")]
    crawl_delay_share: Option<f64>,
    /// The Crawl-delay, in milliseconds
    #[arg(long, value_name = "MS")]
    crawl_delay: Option<u64>,
    /// Share of pages that redirect
    #[arg(long, value_name = "SHARE")]
    redirects: Option<f64>,
    /// Share of links that lead to a 404
    #[arg(long, value_name = "SHARE")]
    not_found: Option<f64>,
    /// Share of the hosts that are hostile; never the first
    #[arg(long, value_name = "SHARE")]
    hostile: Option<f64>,
    /// What hostile hosts do, each one in turn; repeatable; all kinds if not given
    #[arg(long, value_enum, value_name = "KIND")]
    hostility: Vec<Hostility>,
    /// One hostile host of each kind, behind the others, which are as many as --hosts says without
    /// them
    #[arg(long, conflicts_with_all = ["hostile", "hostility"])]
    all_hazards: bool,
    /// Redirects in a row that the crawler follows; the truth counts with this and the next four
    #[arg(long, value_name = "N")]
    crawl_redirects: Option<u32>,
    /// How often the crawler lets the same segment stand in a path
    #[arg(long, value_name = "N")]
    crawl_segment_repeats: Option<u32>,
    /// Parameters of a URL that the crawler takes
    #[arg(long, value_name = "N")]
    crawl_query_parameters: Option<u32>,
    /// Pages of a host that the crawler fetches
    #[arg(long, value_name = "N")]
    crawl_pages_per_host: Option<u32>,
    /// The crawler fetches images
    #[arg(long)]
    crawl_images: bool,
    /// Pages have an ETag and a Last-Modified and answer 304 to who has them
    #[arg(long)]
    validators: bool,
    #[command(flatten)]
    change: ChangeOptions,
    /// Least time between two requests to a host that the report demands, in milliseconds
    #[arg(long, value_name = "MS")]
    expect_delay: Option<u64>,
    /// How long the DNS server waits before it answers, in milliseconds
    #[arg(long, value_name = "MS")]
    dns_latency: Option<u64>,
    /// Another name the DNS server knows; repeatable
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = parse_extra_host)]
    extra_host: Vec<(String, IpAddr)>,
    /// One address of this machine for all hosts and the DNS server, instead of loopback addresses:
    /// for crawlers that reach no other. Each host then has a port of its own, one above that of
    /// the host before
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Ipv4Addr>,
    /// TCP port of all hosts, or of the first with --address; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// UDP port of the DNS server; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    dns_port: u16,
    /// TCP port of the control server; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    control_port: u16,
    /// Write the certificate that vouches for the hosts of a modern web to this file, in PEM: a
    /// crawler trusts it when its environment variable SSL_CERT_FILE names the file
    #[arg(long, value_name = "FILE")]
    root_certificate: Option<PathBuf>,
    /// Stop after this many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = parse_seconds)]
    for_s: Option<Duration>,
}

#[derive(Debug, Args)]
struct ChangeOptions {
    /// Pages change: mean time between two changes of the median page that changes, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    change: Option<Duration>,
    /// Standard deviation of the logarithm of rates of change (2.1)
    #[arg(long, value_name = "SIGMA", requires = "change")]
    change_sigma: Option<f64>,
    /// Share of pages that never change (0.3)
    #[arg(long, value_name = "SHARE", requires = "change")]
    change_never: Option<f64>,
    /// Standard deviation of the logarithm of the importance of pages (0: equal)
    #[arg(long, value_name = "SIGMA", requires = "change")]
    change_importance: Option<f64>,
    /// Share of hosts whose ETag tells each change (1)
    #[arg(long, value_name = "SHARE", requires = "change")]
    change_tags: Option<f64>,
    /// Share of hosts whose ETag never changes, and who always answer 304 (0)
    #[arg(long, value_name = "SHARE", requires = "change")]
    change_frozen: Option<f64>,
    /// Share of hosts whose ETag is another one in each answer (0)
    #[arg(long, value_name = "SHARE", requires = "change")]
    change_fickle: Option<f64>,
    /// Share of hosts whose Last-Modified is there, and true (1)
    #[arg(long, value_name = "SHARE", requires = "change")]
    change_dates: Option<f64>,
    /// Share of hosts whose pages have other bytes in each answer (0)
    #[arg(long, value_name = "SHARE", requires = "change")]
    change_noise: Option<f64>,
    /// Shares of hosts with a sitemap whose lastmod is right, always now, or missing (0,0,0)
    #[arg(long, value_name = "RIGHT,WRONG,UNDATED", requires = "change")]
    #[arg(value_parser = parse_numbers::<3>)]
    change_sitemaps: Option<[f64; 3]>,
    /// Share of pages that answer 404 for a while: mean seconds until then, and of it
    #[arg(long, value_name = "SHARE,AFTER,LENGTH", requires = "change")]
    #[arg(value_parser = parse_numbers::<3>)]
    change_gone: Option<[f64; 3]>,
    /// Share of pages that come later: at most so many seconds after the start
    #[arg(long, value_name = "SHARE,WITHIN", requires = "change")]
    #[arg(value_parser = parse_numbers::<2>)]
    change_new: Option<[f64; 2]>,
}

impl ChangeOptions {
    fn change(&self) -> Result<Option<Change>> {
        let Some(interval) = self.change else {
            return Ok(None);
        };
        let mut change = Change::new(interval);
        replace(&mut change.sigma, self.change_sigma);
        replace(&mut change.never, self.change_never);
        replace(&mut change.importance_sigma, self.change_importance);
        replace(&mut change.validators.tags, self.change_tags);
        replace(&mut change.validators.frozen, self.change_frozen);
        replace(&mut change.validators.fickle, self.change_fickle);
        replace(&mut change.validators.dates, self.change_dates);
        replace(&mut change.noise, self.change_noise);
        if let Some([right, wrong, undated]) = self.change_sitemaps {
            change.sitemaps = SitemapShares {
                right,
                wrong,
                undated,
            };
        }
        if let Some([share, after, length]) = self.change_gone {
            change.gone = GonePages {
                share,
                after: Duration::try_from_secs_f64(after)?,
                length: Duration::try_from_secs_f64(length)?,
            };
        }
        if let Some([share, within]) = self.change_new {
            let within = Duration::try_from_secs_f64(within)?;
            change.new = NewPages { share, within };
        }
        Ok(Some(change))
    }
}

impl Serve {
    fn profile(&self) -> Result<Profile> {
        let mut profile = match self.profile {
            Name::Raw => Profile::raw(),
            Name::Mixed => Profile::mixed(),
            Name::Modern => Profile::modern(),
        };
        replace(&mut profile.seed, self.seed);
        replace(&mut profile.hosts, self.hosts);
        profile.pages_per_host = self.pages_per_host(profile.pages_per_host);
        if let Some((min, max)) = self.links {
            (profile.links_min, profile.links_max) = (min, max);
        }
        replace(&mut profile.page_bytes_median, self.page_bytes);
        replace(&mut profile.locality, self.locality);
        replace(&mut profile.latency, self.latency);
        if self.no_request_caps || !self.request_cap.is_empty() {
            profile.request_caps = self.request_cap.clone();
        }
        replace(&mut profile.robots.rules, self.robots);
        replace(&mut profile.robots.missing, self.robots_missing);
        replace(&mut profile.robots.disallowed_pages, self.disallowed);
        replace(&mut profile.robots.crawl_delay, self.crawl_delay_share);
        replace(&mut profile.robots.crawl_delay_ms, self.crawl_delay);
        replace(&mut profile.redirects, self.redirects);
        replace(&mut profile.not_found, self.not_found);
        replace(&mut profile.hostile, self.hostile);
        if !self.hostility.is_empty() {
            profile.hostilities = self.hostility.clone();
        }
        if self.all_hazards {
            profile = profile.with_all_hazards();
        }
        let limits = &mut profile.crawl_limits;
        replace(&mut limits.redirects, self.crawl_redirects);
        replace(&mut limits.segment_repeats, self.crawl_segment_repeats);
        replace(&mut limits.query_parameters, self.crawl_query_parameters);
        replace(&mut limits.pages_per_host, self.crawl_pages_per_host);
        limits.images = self.crawl_images;
        profile.validators = self.validators;
        profile.change = self.change.change()?;
        replace(&mut profile.delay_expected_ms, self.expect_delay);
        replace(&mut profile.dns_latency_ms, self.dns_latency);
        profile.extra_hosts = self.extra_host.clone();
        profile.address = self.address;
        (profile.port, profile.dns_port, profile.control_port) =
            (self.port, self.dns_port, self.control_port);
        Ok(profile)
    }

    fn pages_per_host(&self, default: PagesPerHost) -> PagesPerHost {
        let (PagesPerHost::Exactly(pages) | PagesPerHost::HeavyTail { mean: pages }) = default;
        let pages = self.pages.unwrap_or(pages);
        let was_exact = matches!(default, PagesPerHost::Exactly(_));
        if self.exact || (was_exact && !self.heavy_tail) {
            PagesPerHost::Exactly(pages)
        } else {
            PagesPerHost::HeavyTail { mean: pages }
        }
    }
}

fn replace<T>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

fn parse_pair(text: &str) -> Result<(u32, u32)> {
    let (min, max) = text.split_once(',').context("expected MIN,MAX")?;
    Ok((min.parse()?, max.parse()?))
}

fn parse_numbers<const N: usize>(text: &str) -> Result<[f64; N]> {
    let numbers: Vec<f64> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let numbers = numbers.try_into().ok();
    numbers.with_context(|| format!("expected {N} numbers with commas between them"))
}

fn parse_latency(text: &str) -> Result<Latency> {
    if text == "none" {
        return Ok(Latency::None);
    }
    match text.split_once(',') {
        Some((median, sigma)) => Ok(Latency::Lognormal {
            median_ms: median.parse()?,
            sigma: sigma.parse()?,
        }),
        None => Ok(Latency::Fixed { ms: text.parse()? }),
    }
}

fn parse_cap(text: &str) -> Result<(f64, u32)> {
    let (share, cap) = text.split_once(':').context("expected SHARE:N")?;
    Ok((share.parse()?, cap.parse()?))
}

fn parse_extra_host(text: &str) -> Result<(String, IpAddr)> {
    let (name, address) = text.split_once('=').context("expected NAME=ADDRESS")?;
    Ok((name.to_owned(), address.parse()?))
}

fn parse_seconds(text: &str) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn run(cli: Cli) -> Result<ExitCode> {
    match cli.command {
        None => serve(&cli.serve).await,
        Some(Command::Report(Control { control })) => print_report(control),
        Some(Command::Truth(Control { control })) => print_answer(control, "GET", "/truth"),
        Some(Command::Freshness {
            control: Control { control },
            from,
            to,
        }) => {
            let to = to.unwrap_or(f64::from(u32::MAX));
            print_answer(control, "GET", &format!("/freshness?from={from}&to={to}"))
        }
        Some(Command::Reset(Control { control })) => print_answer(control, "POST", "/reset"),
        Some(Command::SelfTest {
            connections,
            seconds,
            serve,
        }) => self_test(&serve, connections, seconds).await,
    }
}

async fn serve(serve: &Serve) -> Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let web = SyntheticWeb::start(serve.profile()?)?;
    if let Some(file) = &serve.root_certificate {
        let root = web
            .root_certificate()
            .context("no host has a certificate: take --profile modern")?;
        std::fs::write(file, root).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let place = json!({
        "port": web.port(),
        "dns": web.dns().to_string(),
        "control": web.control().to_string(),
        "seeds": web.seed_urls(),
    });
    println!("{place}");
    let time_is_up = async {
        match serve.for_s {
            Some(duration) => tokio::time::sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = time_is_up => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn print_report(control: SocketAddr) -> Result<ExitCode> {
    let report: Report = serde_json::from_str(&ask(control, "GET", "/report")?)?;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(if report.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print_answer(control: SocketAddr, method: &str, path: &str) -> Result<ExitCode> {
    println!("{}", ask(control, method, path)?);
    Ok(ExitCode::SUCCESS)
}

async fn self_test(serve: &Serve, connections: u32, seconds: f64) -> Result<ExitCode> {
    let web = SyntheticWeb::start(serve.profile()?)?;
    ensure!(
        web.root_certificate().is_none(),
        "the self-test speaks no TLS: take another --profile"
    );
    let load = measure(&web, connections, Duration::try_from_secs_f64(seconds)?).await?;
    println!("{}", serde_json::to_string_pretty(&load)?);
    Ok(ExitCode::SUCCESS)
}
