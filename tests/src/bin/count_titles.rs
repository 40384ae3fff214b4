//! How to add a stage: this one counts the titles of pages.
//!
//! ```text
//! rhumb crawl https://example.org/ --data rhumb-data …             in one terminal, and in another:
//! count-titles --config rhumb-data/configuration.json --set broker.url=$(jq -r .broker rhumb-data/control.json)
//! ```
//!
//! A stage is a core, which knows no broker and no clock, and a line for where its input comes from; the loop that runs
//! it gives it the command line of all stages, acks, a drain at SIGTERM, `/metrics`, and its place in `rhumb status`.
//! It is a consumer of its own on the edge `pages`: each page comes to it and to the parser. From its first start on it
//! takes part in the crawl, which waits for it rather than lose a page; who only wants to look uses `rhumb tap pages`.

use shared::message::{Edge, Page, Undecodable, decode};
use shared::stage::store::StoreError;
use shared::stage::{AnyCore, Context, Core, Count, Event, NoShell, Output, Source, Stage, assemble};
use shared::time::Timestamp;
use std::convert::Infallible;
use std::process::ExitCode;

#[derive(Default)]
struct CountTitles {
    pages: u64,
    titles: u64,
}

impl Core for CountTitles {
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
        if let Event::Message { ticket, input: page } = event {
            self.pages += 1;
            self.titles += u64::from(page.body.windows(7).any(|word| word.eq_ignore_ascii_case(b"<title>")));
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

const STAGE: Stage = Stage {
    name: "count-titles",
    about: "Counts the titles of pages: an example of a further stage",
    sources: &[Source::Shared(Edge::Pages)],
    state: None,
    batch: |_| Stage::BATCH,
    open,
};

fn open(_context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    Ok(assemble(CountTitles::default(), NoShell))
}

fn main() -> ExitCode {
    shared::stage::main(&STAGE)
}
