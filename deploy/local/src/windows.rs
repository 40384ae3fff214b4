//! Three small windows on the cores: `rhumb canonical`, `rhumb robots`, `rhumb links`.

use crate::output::line;
use anyhow::Context as _;
use serde_json::json;
use shared::config::Pipeline;
use std::path::Path;
use std::process::ExitCode;

/// Prints a URL's canonical form, SURT, fingerprint and partition; exit 1 with the reason when it is not
/// crawlable.
pub fn canonical(url: &str, pipeline: &Pipeline, as_json: bool) -> ExitCode {
    match shared::url::canonical(url, None, None) {
        Ok(canonical) => {
            let canonical = pipeline.url.rewrite(&canonical);
            let surt = shared::url::surt(&canonical);
            let fingerprint = format!("{:016x}", shared::url::fingerprint(&canonical));
            let partition = shared::url::partition(shared::url::host_of(&canonical), pipeline.partitions);
            if as_json {
                line(
                    json!({ "canonical": canonical, "surt": surt, "fingerprint": fingerprint, "partition": partition }),
                );
            } else {
                line(format_args!(
                    "canonical    {canonical}\nsurt         {surt}\nfingerprint  {fingerprint}\npartition    {partition}"
                ));
            }
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("not crawlable: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Says whether a robots.txt allows a URL: exit 0 allowed, 1 disallowed.
pub fn robots(file: &Path, url: &str, agent: &str) -> anyhow::Result<ExitCode> {
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let canonical =
        shared::url::canonical(url, None, None).with_context(|| format!("'{url}' is no URL that can be crawled"))?;
    let robots = scheduler::robots::Robots::parse(&body, agent);
    let allowed = robots.allows(shared::url::path_of(&canonical));
    line(if allowed { "allowed" } else { "disallowed" });
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the links found in a document, one a line.
pub fn links(file: &Path, base: &str, content_type: &str, pipeline: &Pipeline) -> anyhow::Result<ExitCode> {
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let base =
        shared::url::canonical(base, None, None).with_context(|| format!("'{base}' is no URL that can be crawled"))?;
    let headers = [("content-type", content_type.as_bytes())];
    let response = parser::page::Response { url: &base, status: 200, headers: &headers, body: &body };
    let limits = parser::page::Limits {
        decoded_bytes_max: pipeline.limits.decoded_bytes_max.as_usize(),
        links_per_page_max: pipeline.limits.links_per_page,
        url_bytes_max: pipeline.limits.url_bytes_max,
    };
    // As the parser hands them on.
    for url in pipeline.url.rewrite_all(parser::page::links(&response, &limits, &pipeline.user_agent()).urls) {
        line(url);
    }
    Ok(ExitCode::SUCCESS)
}
