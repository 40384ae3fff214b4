//! Nodes: the instances of all stages but the archiver, opened as their binaries open them, and who does their work
//! that waits.

use super::agenda::{Answer, EffectId, Place};
use super::around::Around;
use super::broker::Broker;
use super::names::Found as FoundName;
use super::node::{AnyNode, Node, Opening, Simulated};
use super::plan::MILLISECOND;
use super::{scope, web};
use dedup::dedup::Dedup;
use fetcher::core::Fetcher;
use host_splitter::splitter::Splitter;
use parser::core::Parser;
use resolver::effect::Found;
use resolver::resolver::Resolver;
use scheduler::quality::Provider;
use scheduler::tokens::{Need, Settled};
use scheduler::{Idle, Scheduler, Settings};
use shared::config::{Pipeline, UrlCacheSettings};
use shared::time::Timestamp;
use shared::topology::{Source, StageName};
use shared::url_cache::UrlCache;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

impl Simulated for Splitter {
    fn perform(effect: Self::Effect, id: EffectId, around: &mut Around) {
        match effect {
            host_splitter::effect::Effect::NextScope => scope::next(id, around),
            host_splitter::effect::Effect::Join(entry) => scope::join(id, entry, around),
        }
    }

    fn accept(answer: Answer) -> Option<Self::Answer> {
        if let Answer::HostSplitter(answer) = answer { Some(answer) } else { None }
    }
}

impl Simulated for Dedup {
    fn perform(effect: Infallible, _id: EffectId, _around: &mut Around) {
        match effect {}
    }

    fn accept(_answer: Answer) -> Option<Infallible> {
        None
    }
}

impl Simulated for Resolver {
    fn perform(effect: Self::Effect, id: EffectId, around: &mut Around) {
        let (after, answer) = match effect {
            resolver::effect::Effect::Query { name } => {
                let (after, found) = around.names.query(&name, &mut around.dice);
                let found = match found {
                    FoundName::Address(address, ttl_s) => Found::Addresses { addresses: vec![address], ttl_s },
                    FoundName::Missing => Found::NoAddress { ttl_s: None },
                    FoundName::Failure => Found::Temporary,
                };
                (after, resolver::effect::Answer::Found { name, found })
            }
            resolver::effect::Effect::Keep { .. } => (MILLISECOND, resolver::effect::Answer::Kept),
        };
        around.answer(id, after, Answer::Resolver(answer));
    }

    fn accept(answer: Answer) -> Option<Self::Answer> {
        if let Answer::Resolver(answer) = answer { Some(answer) } else { None }
    }
}

impl Simulated for Scheduler {
    /// The ledger changes after a moment, the answer comes after another: or not, when the broker is out of reach.
    fn perform(need: Need, id: EffectId, around: &mut Around) {
        around.ask_for_tokens(id, need);
    }

    fn accept(answer: Answer) -> Option<Settled> {
        if let Answer::Scheduler(answer) = answer { Some(answer) } else { None }
    }

    fn why_idle(&self, now: Timestamp, server: &str) -> Option<String> {
        match self.why_idle(now, server).expect("a store in memory does not fail") {
            Idle::Elsewhere(_) => None,
            why => Some(why.to_string()),
        }
    }
}

impl Simulated for Fetcher {
    fn perform(effect: Self::Effect, id: EffectId, around: &mut Around) {
        match effect {
            fetcher::effect::Effect::Ask { scheduler, ask } => around.ask(id, scheduler, &ask),
            fetcher::effect::Effect::Request(request) => web::request(id, request, around),
            fetcher::effect::Effect::Close { job } => web::close(id, job, around),
        }
    }

    fn accept(answer: Answer) -> Option<Self::Answer> {
        if let Answer::Fetcher(answer) = answer { Some(answer) } else { None }
    }
}

impl Simulated for Parser {
    fn perform(effect: Self::Effect, id: EffectId, around: &mut Around) {
        around.ask_content(id, effect.dedup, &effect.ask);
    }

    fn accept(answer: Answer) -> Option<Self::Answer> {
        if let Answer::Parser(answer) = answer { Some(answer) } else { None }
    }
}

/// The stages that are simulated: all but the archiver, which has no say in what is crawled.
const SIMULATED: [StageName; 6] = [
    StageName::HostSplitter,
    StageName::Dedup,
    StageName::Resolver,
    StageName::Scheduler,
    StageName::Fetcher,
    StageName::Parser,
];

/// How many instances each stage has.
pub(crate) fn replicas(pipeline: &Pipeline) -> HashMap<StageName, u16> {
    SIMULATED.into_iter().map(|stage| (stage, pipeline.stages.of(stage).replicas)).collect()
}

fn places(replicas: &HashMap<StageName, u16>, stage: StageName) -> Vec<Place> {
    (0..replicas[&stage]).map(|instance| Place { stage, instance }).collect()
}

/// Makes the consumers of all stages, as the table of stages has them.
pub(crate) fn connect(broker: &mut Broker, replicas: &HashMap<StageName, u16>) {
    for stage in SIMULATED {
        for source in stage.row().inputs {
            match *source {
                Source::Shared(edge) => broker.consumer(edge, places(replicas, stage), None),
                Source::Owned(edge) => {
                    for place in places(replicas, stage) {
                        broker.consumer(edge, vec![place], Some((replicas[&stage], place.instance)));
                    }
                }
                Source::Addressed(_) | Source::Any(_) | Source::OwnedSoft(_) => {}
            }
        }
    }
}

/// All instances of all stages.
pub(crate) fn all(pipeline: &Pipeline) -> BTreeMap<Place, Box<dyn AnyNode>> {
    let replicas = replicas(pipeline);
    let mut nodes: BTreeMap<Place, Box<dyn AnyNode>> = BTreeMap::new();
    for stage in SIMULATED {
        for place in places(&replicas, stage) {
            nodes.insert(place, node(place, pipeline.clone()));
        }
    }
    nodes
}

fn cache(settings: &UrlCacheSettings) -> UrlCache {
    UrlCache::open("cache", settings).expect("a cache without a file")
}

fn node(place: Place, pipeline: Pipeline) -> Box<dyn AnyNode> {
    let all = pipeline.clone();
    match place.stage {
        StageName::HostSplitter => Box::new(Node::new(place, &all, move |opening: &Opening| {
            Splitter::new((&pipeline).into(), cache(&pipeline.stages.host_splitter.cache), opening.life)
        })),
        StageName::Dedup => {
            // Goes with the node, not with its lives.
            let folder = tempfile::tempdir().expect("a folder");
            Box::new(Node::new(place, &all, move |opening: &Opening| {
                let partitions = partitions(&pipeline, pipeline.stages.dedup.replicas, opening.instance);
                let store = opening.store.clone().expect("dedup has a store");
                let cache = cache(&pipeline.stages.dedup.cache);
                Dedup::open(&(&pipeline).into(), cache, &partitions, store, folder.path().into())
                    .expect("a store in memory does not fail")
            }))
        }
        StageName::Resolver => Box::new(Node::new(place, &all, move |_: &Opening| Resolver::new((&pipeline).into()))),
        StageName::Scheduler => Box::new(Node::new(place, &all, move |opening: &Opening| {
            let partitions = partitions(&pipeline, pipeline.stages.scheduler.replicas, opening.instance);
            let store = opening.store.clone().expect("the scheduler has a store");
            let quality = Provider::open(&pipeline.stages.scheduler).expect("no table");
            let settings = Settings::new(&pipeline, quality);
            Scheduler::open(settings, opening.instance, opening.epoch, &partitions, store, Timestamp::ZERO)
                .expect("a store in memory does not fail")
        })),
        StageName::Fetcher => Box::new(Node::new(place, &all, move |opening: &Opening| {
            Fetcher::new(fetcher::settings::Settings::new(&pipeline, opening.instance, opening.life))
        })),
        StageName::Parser => Box::new(Node::new(place, &all, move |_: &Opening| Parser::new((&pipeline).into()))),
        StageName::Archiver => unreachable!("the archiver is not simulated"),
    }
}

fn partitions(pipeline: &Pipeline, replicas: u16, instance: u16) -> Vec<u16> {
    (0..pipeline.partitions).filter(|&partition| Pipeline::owner(partition, replicas) == instance).collect()
}
