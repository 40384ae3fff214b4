//! How to add a stage that only reads: this one counts the titles that `find-titles` finds.
//!
//! In: `titles`, an edge that a stage beside the pipeline brings (`lib.rs`). Out: nothing but
//! counts in `/metrics`. Streams that are kept by interest take any number of such consumers: each
//! gets every message.

use rhumb_node::{AnyCore, Context, NoShell, Stage, assemble};
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, Output};
use rhumb_telemetry::metrics::Row;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Edge, Undecodable, decode};
use rhumb_wire::topology::Source;
use std::collections::HashSet;
use std::convert::Infallible;
use std::process::ExitCode;
use titles::{TITLES, Title};

/// URLs whose titles came. An input may come twice; a URL counts once.
#[derive(Default)]
struct CountTitles(HashSet<String>);

impl Core for CountTitles {
    type Input = Title;
    type Effect = Infallible;
    type Answer = Infallible;

    fn decode(_edge: Edge, payload: &[u8]) -> Result<Title, Undecodable> {
        decode(payload)
    }

    fn step(
        &mut self,
        _now: Timestamp,
        event: Event<Title, Infallible>,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        if let Event::Message {
            ticket,
            input: Title { url, title },
        } = event
        {
            if !title.is_empty() {
                self.0.insert(url);
            }
            out.finish(ticket);
        }
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }

    fn counts(&self) -> Vec<Count> {
        vec![("titles_total", self.0.len() as u64)]
    }
}

/// What its numbers are called and mean.
const METRICS: &[Row] = &[Row::counter(
    "titles_total",
    "titles",
    "Titles that came, each URL once.",
)];

const STAGE: Stage = Stage {
    name: "count-titles",
    about: "Counts the titles of pages: an example of a further stage that only reads",
    sources: &[Source::Shared(TITLES)],
    edges: &[TITLES],
    is_required: false,
    metrics: METRICS,
    state: None,
    batch: |_| Stage::BATCH,
    open,
};

fn open(_context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    Ok(assemble(CountTitles::default(), NoShell))
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
