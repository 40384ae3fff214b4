//! What a fetcher is configured with.

use rhumb_config::{DownloadPause, Pipeline};
use rhumb_stage::doubt::Past;
use rhumb_url::address::Reach;
use rhumb_wire::message::Request;
use std::time::Duration;

/// What a fetcher is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The last token of the instance's `fetch.jobs` subject.
    pub instance: String,
    /// Different in each life of the process.
    pub life: u64,
    /// The instances of the scheduler that have partitions.
    pub schedulers: Vec<u16>,
    /// Jobs in hand at once.
    pub connections: u32,
    /// How long an ask holds.
    pub ask_lifetime: Duration,
    /// How often a job's lease is renewed.
    pub renew_every: Duration,
    /// Between two contacts of a server, at least: also when the job is of a time when less was
    /// asked for.
    pub delay: Duration,
    /// How long a server is left alone, by how long its last answer took.
    pub download_pause: DownloadPause,
    /// The addresses that may be contacted (P7).
    pub reach: Reach,
    /// How long failures may be put down to the network here, at most.
    pub doubt_max: Duration,
    /// Whether a server has answered before.
    pub past: Past,
    /// A longer body is cut there.
    pub body_bytes_max: usize,
    /// The same for what a robots.txt, or an index, names as a sitemap.
    pub sitemap_bytes_max: usize,
    /// Requests at once on a connection of HTTP/2, where no pauses are asked for.
    pub streams: usize,
    /// Requests are answered by an archive, not by the web.
    pub replays: bool,
    /// By which name headers address us.
    pub product_token: String,
    /// Responses to requests for robots.txt are passed on, too: there is an archiver.
    pub keeps_robots: bool,
    /// Pages are visited again: bodies are compared.
    pub recrawls: bool,
}

impl Settings {
    /// From the configuration.
    pub fn new(pipeline: &Pipeline, instance: u16, life: u64) -> Self {
        let fetcher = &pipeline.stages.fetcher;
        Settings {
            instance: instance.to_string(),
            life,
            schedulers: (0..pipeline.stages.scheduler.replicas).collect(),
            connections: fetcher.connections,
            ask_lifetime: fetcher.ask_lifetime,
            renew_every: fetcher.renew_every,
            delay: pipeline.politeness.delay,
            download_pause: DownloadPause::new(&pipeline.politeness),
            reach: Reach::new(pipeline.network.allow_private_addresses),
            doubt_max: pipeline.network.doubt_max,
            past: Past::Unknown,
            body_bytes_max: pipeline.limits.body_bytes_max.as_usize(),
            sitemap_bytes_max: pipeline.limits.sitemap_bytes_max.as_usize(),
            streams: fetcher.streams as usize,
            replays: pipeline.replayed().is_some(),
            product_token: pipeline.product_token(),
            keeps_robots: pipeline.stages.archiver.replicas > 0,
            recrawls: pipeline.visits_again(),
        }
    }

    /// Where the body of a page is cut.
    pub(crate) fn bytes_max_of(&self, request: &Request) -> usize {
        if request.origin.sitemap_of().is_some() {
            self.sitemap_bytes_max
        } else {
            self.body_bytes_max
        }
    }

    /// Takes over what may change while the crawl runs.
    pub fn configure(&mut self, pipeline: &Pipeline) {
        self.delay = pipeline.politeness.delay;
        self.download_pause = DownloadPause::new(&pipeline.politeness);
        self.body_bytes_max = pipeline.limits.body_bytes_max.as_usize();
        self.sitemap_bytes_max = pipeline.limits.sitemap_bytes_max.as_usize();
        self.recrawls = pipeline.visits_again();
    }
}
