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
    let robots = scheduler::Robots::parse(&body, agent);
    let allowed = robots.allows(shared::url::path_of(&canonical));
    line(if allowed { "allowed" } else { "disallowed" });
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A response that a file stands for.
pub struct Document<'a> {
    /// Its body.
    pub file: &'a Path,
    /// Its URL.
    pub base: &'a str,
    /// Its status.
    pub status: u16,
    /// Its Content-Type.
    pub content_type: &'a str,
    /// Its other headers, `Name: value` each.
    pub headers: &'a [String],
}

/// Prints the links found in a document, one a line, or all that the parser finds out about it.
pub fn links(document: &Document<'_>, pipeline: &Pipeline, as_json: bool) -> anyhow::Result<ExitCode> {
    let Document { file, base, status, content_type, headers } = *document;
    let body = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let base =
        shared::url::canonical(base, None, None).with_context(|| format!("'{base}' is no URL that can be crawled"))?;
    let mut all = vec![("content-type", content_type.as_bytes())];
    for header in headers {
        let (name, value) =
            header.split_once(':').with_context(|| format!("'{header}' is no header: accepted is 'Name: value'"))?;
        all.push((name.trim(), value.trim().as_bytes()));
    }
    let response = parser::page::Response { url: &base, status, headers: &all, body: &body };
    let settings = parser::core::Settings::from(pipeline);
    let mut found = parser::page::links_by(&response, &settings.limits, &settings.options, &settings.agent);
    // As the parser hands them on.
    found.rewrite(&settings.rules);
    if as_json {
        line(described(&found));
    } else {
        found.urls.iter().for_each(line);
    }
    Ok(ExitCode::SUCCESS)
}

fn described(found: &parser::page::Links) -> serde_json::Value {
    let link = |(number, url): (usize, &String)| {
        let mut link = json!({ "url": url, "source": found.sources[number].name() });
        if let Some(anchor) = found.anchors.get(number) {
            link["anchor"] = json!(anchor);
        }
        link
    };
    let links: Vec<_> = found.urls.iter().enumerate().map(link).collect();
    json!({
        "links": links,
        "title": found.title,
        "language": found.language,
        "charset": found.charset,
        "redirect": found.redirect,
        "nofollow": found.nofollow,
        "uncrawlable": found.uncrawlable,
        "truncated": found.truncated,
    })
}
