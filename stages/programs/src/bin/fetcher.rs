//! Fetcher: what is there?
//!
//! In:  connection jobs, confirmed renewals and revocations (scheduler).
//! Out: asks for jobs and reports (scheduler); responses as the servers sent them (`pages`).

use fetcher::core::Fetcher;
use fetcher::effect::{Answer, Asked, Effect};
use fetcher::http::{Http, HttpSettings, SendAsk};
use fetcher::replay::Replay;
use fetcher::settings::Settings;
use futures::future::BoxFuture;
use rhumb_bus::Bus;
use rhumb_config::Pipeline;
use rhumb_node::{AnyCore, Context, Shell, Stage, assemble};
use rhumb_wire::message::{Ask, Edge, decode, encode};
use rhumb_wire::topology::Token;
use rhumb_wire::topology::{StageName, sources};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STAGE: Stage = Stage {
    name: "fetcher",
    about: "Fetcher: carries out connection jobs, each one server, one connection and a list of \
            its URLs",
    sources: sources(StageName::Fetcher),
    edges: &[],
    is_required: true,
    metrics: fetcher::metrics::METRICS,
    state: None,
    batch: |_| Stage::BATCH,
    open,
};

fn open(context: &Context) -> anyhow::Result<Box<dyn AnyCore>> {
    let pipeline = &context.pipeline;
    let connections = pipeline.stages.fetcher.connections;
    let room = fetcher::files::allow(connections);
    if room < connections {
        tracing::warn!(
            connections,
            room,
            "fewer connections than stages.fetcher.connections: the limit of open files (ulimit \
             -n) has no room for more"
        );
    }
    let schedulers = context.owners_of(StageName::Scheduler).instances();
    let settings = Settings {
        schedulers,
        ..Settings::new(pipeline, context.instance, context.life)
    };
    let reach = settings.reach.clone().of_this_machine();
    let core = Fetcher::new(Settings {
        connections: room.clamp(1, connections),
        reach,
        past: context.past,
        ..settings
    });
    let bus = context.bus.clone();
    let ask: SendAsk = Arc::new(move |scheduler: u16, ask: Ask| {
        let bus = bus.clone();
        Box::pin(async move { send_ask(&bus, scheduler, &ask).await }) as _
    });
    let settings = HttpSettings::new(pipeline);
    Ok(match pipeline.replayed() {
        None => assemble(core, HttpShell(Http::new(settings, ask)?)),
        Some(archive) => {
            let index = pipeline
                .instance_dir(STAGE.name, context.instance)
                .join("archive");
            assemble(
                core,
                ReplayShell(Replay::new(archive.to_owned(), index, settings, ask)?),
            )
        }
    })
}

struct ReplayShell(Replay);

impl Shell<Fetcher> for ReplayShell {
    fn perform(&mut self, effect: Effect) -> BoxFuture<'static, Answer> {
        self.0.perform(effect)
    }

    fn configure(&mut self, pipeline: &Pipeline) {
        self.0.configure(HttpSettings::new(pipeline));
    }
}

struct HttpShell(Http);

impl Shell<Fetcher> for HttpShell {
    fn perform(&mut self, effect: Effect) -> BoxFuture<'static, Answer> {
        self.0.perform(effect)
    }

    fn configure(&mut self, pipeline: &Pipeline) {
        self.0.configure(HttpSettings::new(pipeline));
    }
}

/// How long a scheduler may take to reply to an ask.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

async fn send_ask(bus: &Bus, scheduler: u16, ask: &Ask) -> Asked {
    let subject = bus
        .subjects
        .of(Edge::FetchAsks, &Token::Instance(scheduler.to_string()));
    match tokio::time::timeout(REPLY_TIMEOUT, bus.client.request(subject, encode(ask))).await {
        Ok(Ok(reply)) => decode(&reply.payload).map_or(Asked::NoAnswer, Asked::Reply),
        Ok(Err(error)) if error.kind() == async_nats::RequestErrorKind::NoResponders => {
            Asked::NoScheduler
        }
        Ok(Err(_)) | Err(_) => Asked::NoAnswer,
    }
}

fn main() -> ExitCode {
    rhumb_node::main(&STAGE)
}
