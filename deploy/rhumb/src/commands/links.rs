//! `rhumb links`: a window on what the parser finds in a document.

use super::arguments::{BadArguments, Which};
use crate::handle;
use crate::output::line;
use anyhow::Context as _;
use clap::Args;
use parser::core::Settings;
use parser::page;
use rhumb_config::Pipeline;
use rhumb_wire::message::Cut;
use serde_json::json;
use std::path::PathBuf;

/// The links found in a document, one a line: of HTML, of a sitemap or feed, of a style sheet, and
/// of the headers that came with it
#[derive(Args)]
#[command(
    after_help = "The keys below stages.parser say what is taken: embedded, forms, amphtml, anchors, nofollow.

Examples:
  rhumb links page.html --base https://example.org/page.html
  rhumb links page.html --base https://example.org/ --json --set stages.parser.anchors=true
  rhumb links sitemap.xml.gz --base https://example.org/sitemap.xml.gz --content-type application/gzip
  rhumb links paper.pdf --base https://example.org/paper.pdf --content-type application/pdf \\
      --header 'Link: </papers/>; rel=up' --header 'X-Robots-Tag: noindex'"
)]
pub(super) struct Links {
    /// The document
    file: PathBuf,
    /// Its URL
    #[arg(long, value_name = "URL")]
    base: String,
    /// Its Content-Type header
    #[arg(long, value_name = "TYPE", default_value = "text/html")]
    content_type: String,
    /// Another header that came with it: Link, Refresh, Location, Content-Location,
    /// Content-Language, Content-Encoding, X-Robots-Tag. Repeatable
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The status it came with
    #[arg(long, value_name = "STATUS", default_value_t = 200)]
    status: u16,
    /// As JSON: each link with its source and, with stages.parser.anchors, its text; title,
    /// language and charset
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Links {
    /// Prints the links, one a line, or all that the parser finds out about the document.
    pub(super) fn run(self) -> anyhow::Result<()> {
        let pipeline = handle::local(&self.which.layers())?;
        let found = self
            .find(&pipeline)
            .map_err(|error| BadArguments(format!("{error:#}")))?;
        if self.json {
            line(described(&found));
        } else {
            found.urls.iter().for_each(line);
        }
        Ok(())
    }

    fn find(&self, pipeline: &Pipeline) -> anyhow::Result<page::Links> {
        let file = &self.file;
        let base = &self.base;
        let body =
            std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        let base = rhumb_url::canonical(base, None, None)
            .with_context(|| format!("'{base}' is no URL that can be crawled"))?;
        let mut headers = vec![("content-type", self.content_type.as_bytes())];
        for header in &self.header {
            let (name, value) = header
                .split_once(':')
                .with_context(|| format!("'{header}' is no header: accepted is 'Name: value'"))?;
            headers.push((name.trim(), value.trim().as_bytes()));
        }
        let response = page::Response {
            url: &base,
            status: self.status,
            headers: &headers,
            body: &body,
        };
        let settings = Settings::from(pipeline);
        let mut found = page::links_by(
            &response,
            &settings.limits,
            &settings.options,
            &settings.product_token,
        );
        // As the parser hands them on.
        found.rewrite(&settings.rules);
        Ok(found)
    }
}

/// All that the parser finds out about a document.
fn described(found: &page::Links) -> serde_json::Value {
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
        "cut": found.cut().map(Cut::key),
    })
}
