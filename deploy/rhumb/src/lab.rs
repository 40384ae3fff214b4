//! `rhumb lab`: experiments of the papers. A program of its own runs them, the laboratory, which
//! lies beside this one.
//!
//! In: the arguments of an experiment, read alike by both programs. Out: the laboratory in the
//! place of this process.

use crate::binaries;
use clap::{Args, Subcommand};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// The program that runs the experiments.
const LABORATORY: &str = "laboratory";

/// Reproduces a paper's experiment
#[derive(Debug, Subcommand)]
pub enum Experiment {
    /// Names and pages a second (two papers of 2008): what do a cache, many lookups at once, a good
    /// table and a queue for each worker bring?
    #[command(
        after_help = "Takes six minutes. The crawler's own resolver resolves a million names from \
                      a name server on loopback that is as slow as the paper's, and seven small \
                      crawlers take turns on a synthetic web. Nothing outside this machine is \
                      contacted. Writes dns-arms.csv, dns-hit-rates.csv, dns-tables.csv, \
                      dns-rows.csv and dns.svg; exit 1 when a claim does not hold. Other work on \
                      the machine makes what is measured in real time look worse.\n\nExample:\n  \
                      rhumb lab dns --out figures"
    )]
    Dns {
        /// Folder for the tables and the figure
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// Seed of names, trace and latencies: the same seed gives the same ones
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Visits of known pages (Cho and Garcia-Molina 2000; Azar and others 2018): how fresh is a
    /// copy that has as many requests as uniform visits take?
    #[command(
        after_help = "Takes a minute and a half. Made-up pages change, each at its own rate, and \
                      the scheduler's own rules choose which is visited next: with rates known, \
                      with rates learned from what visits find, and with signals of changes. Each \
                      figure is the way from uniform visits (0) to the optimum (1), the median of \
                      five webs. Writes fresh.csv, fresh-runs.csv and fresh.svg; exit 1 when a \
                      claim does not hold.\n\nExample:\n  rhumb lab fresh --out figures"
    )]
    Fresh {
        /// Folder for the tables and the figure
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// Seed of the webs: the same seed gives the same files
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Order of a crawl (Cho, Garcia-Molina and Page 1998; Abiteboul, Preda and Cobena 2003): how
    /// soon does it come to the pages that matter?
    #[command(
        after_help = "Takes three seconds. A synthetic web is crawled in rounds, in which each \
                      server fetches its best page, by six orders: discovery, what a page is worth \
                      when it is found (flow), links counted until the fetch, cash gathered until \
                      the fetch (OPIC), the same with a part of each page's own, and the true \
                      PageRank of what is known. Then with links that leave only when they matter, \
                      with news that come late, with jobs of several pages, and with few \
                      connections. Writes order.csv, order-curves.csv and order.svg; exit 1 when a \
                      claim does not hold.\n\nExamples:\n  rhumb lab order --out figures\n  rhumb \
                      lab order --hosts 500 --pages 60 --heavy-tail --connections 80"
    )]
    Order(OrderOfCrawl),
    /// Partitions (PQ-MCSA; Fagin and others 1979): how evenly do instances share the hosts, and
    /// how much moves when one comes or goes?
    #[command(
        after_help = "Takes a few seconds. Instances join and leave, and partitions split, on \
                      made-up webs of 10,000 hosts. Writes partitions-scaling.csv, \
                      partitions-growth.csv and partitions.svg; exit 1 when a claim does not \
                      hold.\n\nExample:\n  rhumb lab partitions --out figures"
    )]
    Partitions {
        /// Folder for the tables and the figure
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// Seed of the webs: the same seed gives the same files
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Policies of the scheduler (Cao, Jiang and Singh 2003): how many pages, and how much quality,
    /// by when?
    #[command(
        after_help = "Crawls a made-up web in simulated time with the scheduler's own core. Writes \
                      scheduling.csv, scheduling-runs.csv and scheduling.svg; exit 1 when a claim \
                      does not hold. With --search it writes scheduling-search.csv instead, exits \
                      0, and takes ten to fifteen minutes.\n\nExamples:\n  rhumb lab scheduling \
                      --out figures\n  rhumb lab scheduling --search --out figures"
    )]
    Scheduling {
        /// Folder for the tables and the figure
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// Vary what the paper leaves open, one condition at a time and then several: which bring
        /// about the claims that fail?
        #[arg(long)]
        search: bool,
        /// Seed of the web and its qualities: the same seed gives the same files
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Topics that share a node (Fan and Li 2015, PQ-MCSA): does each get its share of the
    /// connections?
    #[command(
        after_help = "Takes half a minute. Three topics with unequal webs crawl for twenty minutes \
                      of simulated time with the scheduler's own core, first in, first out and in \
                      turns. Writes topics.csv and topics.svg; exit 1 when a claim does not \
                      hold.\n\nExample:\n  rhumb lab topics --out figures"
    )]
    Topics {
        /// Folder for the table and the figure
        #[arg(long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
        /// Seed of the webs: the same seed gives the same files
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
    /// Policies and sizes of a URL cache (Broder, Najork and Wiener 2003): which share of the links
    /// does it catch?
    #[command(
        after_help = "Writes url-cache.csv and url-cache.svg; exit 1 when a claim does not \
                      hold.\n\nExamples:\n  rhumb lab url-cache --out figures\n  rhumb export \
                      links --data rhumb-data >links.tsv && rhumb lab url-cache --trace links.tsv"
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

/// What `rhumb lab order` measures.
#[derive(Debug, Args)]
pub struct OrderOfCrawl {
    /// Folder for the tables and the figure
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Hosts of the web
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub hosts: u32,
    /// Pages of each host, or their mean with --heavy-tail
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub pages: u32,
    /// Many small hosts and few large ones
    #[arg(long)]
    pub heavy_tail: bool,
    /// Fewest links on a page
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub links_min: u32,
    /// Most links on a page
    #[arg(long, value_name = "N", default_value_t = 80)]
    pub links_max: u32,
    /// Share of the links that stay on their host
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    pub locality: f64,
    /// Each host's first page is a seed, not that of the first host alone
    #[arg(long)]
    pub seeds_everywhere: bool,
    /// Connections, where they are few: so many hosts fetch a page in a round
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = positive)]
    pub connections: usize,
    /// Seed of the web: the same seed gives the same files
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&number| number > 0)
        .ok_or_else(|| "must be a number above 0".to_owned())
}

/// Becomes the laboratory, with the arguments that follow `rhumb lab`: its exit code is that of the
/// command. Returns only the error when that is not possible.
pub(crate) fn start() -> anyhow::Error {
    let program = match binaries::folder() {
        Ok(folder) => folder.join(LABORATORY),
        Err(error) => return error,
    };
    let error = Command::new(&program)
        .args(std::env::args_os().skip(2))
        .exec();
    if error.kind() == ErrorKind::NotFound {
        let program = program.display();
        // Of the whole workspace: of the package alone its dependencies would be built once more.
        return anyhow::anyhow!(
            "{program} does not exist: build it with `cargo build --release --workspace --bin \
             {LABORATORY}`"
        );
    }
    anyhow::Error::from(error).context(format!("cannot start {}", program.display()))
}
