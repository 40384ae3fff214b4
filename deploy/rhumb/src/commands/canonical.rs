//! `rhumb canonical`: a window on how URLs are spelled, hashed and divided.

use super::arguments::Which;
use crate::handle;
use crate::inspect::owners::directory;
use crate::output::line;
use clap::Args;
use rhumb_partition::Directory;
use serde_json::json;
use std::process::ExitCode;

/// Canonical form, SURT, fingerprint and partition of a URL; exit 1 with the reason when it is not
/// crawlable
#[derive(Args)]
pub(super) struct Canonical {
    /// The URL
    url: String,
    /// As JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Canonical {
    /// Prints what becomes of the URL, or why it is not crawlable.
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let pipeline = handle::local(&self.which.layers())?;
        let canonical = match rhumb_url::canonical(&self.url, None, None) {
            Ok(canonical) => pipeline.url.rewrite(&canonical),
            Err(reason) => {
                eprintln!("not crawlable: {reason}");
                return Ok(ExitCode::FAILURE);
            }
        };
        let surt = rhumb_url::surt(&canonical);
        let fingerprint = format!("{:016x}", rhumb_url::fingerprint(&canonical));
        // Without a crawl that runs, the one with which a crawl begins.
        let directory = match handle::find(&self.which.layers()).await {
            Ok(running) => directory(&running).await,
            Err(_) => Directory::new(pipeline.partitions),
        };
        let partition =
            directory.partition_of(rhumb_url::host_hash(rhumb_url::host_of(&canonical)));
        if self.json {
            line(
                json!({ "canonical": canonical, "surt": surt, "fingerprint": fingerprint, "partition": partition }),
            );
        } else {
            line(format_args!(
                "canonical    {canonical}\nsurt         {surt}\nfingerprint  \
                 {fingerprint}\npartition    {partition}"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}
