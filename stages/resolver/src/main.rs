//! Resolver: which address?
//!
//! In:  new URLs (dedup), servers whose addresses have gone stale (scheduler).
//! Out: new URLs with the addresses of their servers (scheduler).

use futures::future::BoxFuture;
use resolver::query::{self, Queries};
use resolver::resolver::{Answer, Effect, Resolver, Settings};
use shared::message::Edge;
use shared::stage::{Context, Shell, Source, Stage};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Resolving;

impl Stage for Resolving {
    const NAME: &'static str = "resolver";
    const ABOUT: &'static str = "Resolver: finds the addresses of servers, concurrently and from a cache";
    type Core = Resolver;
    type Shell = DnsShell;

    fn sources() -> Vec<Source> {
        vec![Source::Shared(Edge::UrlsNew), Source::Any(Edge::DnsRefresh)]
    }

    fn open(context: &Context) -> anyhow::Result<(Resolver, DnsShell)> {
        let queries = Queries::new(&query::Settings::from(&context.pipeline))?;
        Ok((Resolver::new(Settings::from(&context.pipeline)), DnsShell(queries)))
    }
}

struct DnsShell(Queries);

impl Shell<Resolver> for DnsShell {
    fn perform(&mut self, effect: Effect) -> BoxFuture<'static, Answer> {
        self.0.resolve(effect.name)
    }
}

fn main() -> ExitCode {
    shared::stage::main::<Resolving>()
}
