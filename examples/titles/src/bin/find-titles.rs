//! How to add a stage that produces: this one finds the titles of pages and puts them on an edge of
//! its own.
//!
//! In: `pages` (fetcher), as a consumer of its own: each page comes to it and to the parser. Out:
//! `titles`, an edge that it brings to the crawl (`lib.rs`). A page that comes twice gives its
//! title twice: each stands for the page's URL.
//!
//! ```text
//! rhumb crawl https://example.org/ --data rhumb-data …             in one terminal, and in another:
//! export RHUMB__BROKER__URL="$(python3 -c 'import json; print(json.load(open("rhumb-data/control.json"))["broker"])')"
//! find-titles --config rhumb-data/configuration.json
//! ```
//!
//! A stage is a core, which knows no broker and no clock, and a description of where its input
//! comes from. The loop that runs it gives it the command line of all stages, acks, a drain at
//! SIGTERM, `/metrics`, and its place in `rhumb status`. From its first start on it gets every
//! page. It is optional: `rhumb` removes its consumer when it holds the crawl back (P8).

use rhumb_node::{AnyCore, Context, NoShell, Stage, assemble};
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, Output};
use rhumb_telemetry::metrics::Row;
use rhumb_url::time::Timestamp;
use rhumb_warc::content_coding;
use rhumb_wire::message::{Edge, Page, Undecodable, decode};
use rhumb_wire::topology::{Source, Token};
use std::convert::Infallible;
use std::process::ExitCode;
use titles::{TITLES, Title};

struct FindTitles {
    /// Longer pages are cut there when they are decoded.
    decoded_bytes_max: usize,
    pages: u64,
    titles: u64,
}

impl Core for FindTitles {
    type Input = Page;
    type Effect = Infallible;
    type Answer = Infallible;

    fn decode(_edge: Edge, payload: &[u8]) -> Result<Page, Undecodable> {
        decode(payload)
    }

    fn step(
        &mut self,
        _now: Timestamp,
        event: Event<Page, Infallible>,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        if let Event::Message {
            ticket,
            input: page,
        } = event
        {
            if page.is_robots || !page.wall.is_empty() {
                out.finish(ticket);
                return Ok(());
            }
            self.pages += 1;
            let codings = page
                .headers
                .iter()
                .filter(|(name, _)| name == "content-encoding");
            let values = codings.map(|(_, value)| value.as_slice());
            let decoded = content_coding::decode(values, &page.body, self.decoded_bytes_max);
            if let Some(title) = title_of(&decoded.body) {
                self.titles += 1;
                out.publish(
                    Token::None,
                    &Title {
                        url: page.url,
                        title,
                    },
                    vec![ticket],
                );
            }
            out.finish(ticket);
        }
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }

    fn counts(&self) -> Vec<Count> {
        vec![("pages_total", self.pages), ("titles_total", self.titles)]
    }
}

fn title_of(body: &[u8]) -> Option<String> {
    let after = |bytes: &[u8], tag: &[u8]| {
        bytes
            .windows(tag.len())
            .position(|word| word.eq_ignore_ascii_case(tag))
    };
    let title = &body[after(body, b"<title>")? + b"<title>".len()..];
    Some(String::from_utf8_lossy(&title[..after(title, b"</title>")?]).into_owned())
}

/// What its numbers are called and mean.
const METRICS: &[Row] = &[
    Row::counter("pages_total", "pages", "Pages that came."),
    Row::counter("titles_total", "titles", "Titles that were found in them."),
];

const STAGE: Stage = Stage {
    name: "find-titles",
    about: "Finds the titles of pages: an example of a further stage that produces",
    sources: &[Source::Shared(Edge::Pages)],
    edges: &[TITLES],
    is_required: false,
    metrics: METRICS,
    state: None,
    batch: |_| Stage::BATCH,
    open,
};

fn open(context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    let decoded_bytes_max = context.pipeline.limits.decoded_bytes_max.as_usize();
    Ok(assemble(
        FindTitles {
            decoded_bytes_max,
            pages: 0,
            titles: 0,
        },
        NoShell,
    ))
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
