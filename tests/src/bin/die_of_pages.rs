//! A further stage for the tests of faults: it gives each page a title, and dies of two.
//!
//! In: `pages`. Out: `titles`. At `/` of host 1 the process aborts, as it would for want of memory;
//! at `/` of host 2 the core panics.

use rhumb_node::{AnyCore, Context, NoShell, Stage, assemble};
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, Output};
use rhumb_telemetry::metrics::Row;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Edge, Page, Undecodable, decode};
use rhumb_wire::topology::{Source, Token};
use std::convert::Infallible;
use std::process::ExitCode;
use titles::{TITLES, Title};

/// The process aborts at the first page of this host.
const ABORTS_AT: &str = "http://h0001.";
/// The core panics at the first page of this host.
const PANICS_AT: &str = "http://h0002.";

#[derive(Default)]
struct DieOfPages {
    pages: u64,
}

fn is_first_page(url: &str, of: &str) -> bool {
    url.starts_with(of) && url.ends_with('/') && url.matches('/').count() == 3
}

impl Core for DieOfPages {
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
            if is_first_page(&page.url, ABORTS_AT) {
                std::process::abort();
            }
            assert!(!is_first_page(&page.url, PANICS_AT), "a page to panic at");
            self.pages += 1;
            out.publish(
                Token::None,
                &Title {
                    url: page.url,
                    title: "a page".into(),
                },
                vec![ticket],
            );
            out.finish(ticket);
        }
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        None
    }

    fn counts(&self) -> Vec<Count> {
        vec![("pages_total", self.pages)]
    }
}

/// What its numbers are called and mean.
const METRICS: &[Row] = &[Row::counter(
    "pages_total",
    "pages",
    "Pages that came and did no harm.",
)];

const STAGE: Stage = Stage {
    name: "die-of-pages",
    about: "Dies of two pages: a stage for tests",
    sources: &[Source::Shared(Edge::Pages)],
    edges: &[TITLES],
    is_required: false,
    metrics: METRICS,
    state: None,
    batch: |_| Stage::BATCH,
    open,
};

fn open(_context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    Ok(assemble(DieOfPages::default(), NoShell))
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
