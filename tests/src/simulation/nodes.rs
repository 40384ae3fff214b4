//! Nodes: the instances of all stages but the archiver, opened as their binaries open them, and who
//! does their work that waits.

use super::agenda::{Answer, EffectId, Place};
use super::around::Around;
use super::broker::Broker;
use super::moves::OpenBeside;
use super::names::Found as FoundName;
use super::node::{AnyNode, Node, Opening, Simulated, State};
use super::plan::MILLISECOND;
use super::scaling::{INSTANCES_MAX, Moves};
use super::{scope, web};
use dedup::dedup::Dedup;
use dedup::moving::MovingKeys;
use fetcher::core::Fetcher;
use host_splitter::splitter::Splitter;
use parser::core::Parser;
use resolver::effect::Found;
use resolver::resolver::Resolver;
use rhumb_config::{Pipeline, UrlCacheSettings, open_url_cache};
use rhumb_partition::{Owners, OwnersTable};
use rhumb_stage::Core as _;
use rhumb_url::time::Timestamp;
use rhumb_url::url_cache::UrlCache;
use rhumb_wire::topology::{Source, StageName};
use scheduler::quality::Qualities;
use scheduler::quota::ledger::{Claim, ClaimAnswer};
use scheduler::{Idle, Scheduler, Schedulers, Settings};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::rc::Rc;

impl Simulated for Splitter {
    fn perform(effect: Self::Effect, id: EffectId, around: &mut Around) {
        match effect {
            host_splitter::effect::Effect::NextScope => scope::next(id, around),
            host_splitter::effect::Effect::Join(entry) => scope::join(id, entry, around),
        }
    }

    fn accept(answer: Answer) -> Option<Self::Answer> {
        if let Answer::HostSplitter(answer) = answer {
            Some(answer)
        } else {
            None
        }
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
                let are_dead = around.faults.names_dead.contains(&around.now);
                let (after, found) = around.names.query(&name, are_dead, &mut around.dice);
                let found = match found {
                    FoundName::Address(address, ttl_s) => Found::Addresses {
                        addresses: vec![address],
                        ttl_s,
                    },
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
        if let Answer::Resolver(answer) = answer {
            Some(answer)
        } else {
            None
        }
    }
}

impl Simulated for Scheduler {
    /// The ledger changes after a moment, the answer comes after another: or not, when the broker
    /// is out of reach.
    fn perform(claim: Claim, id: EffectId, around: &mut Around) {
        around.enter_claim(id, claim);
    }

    fn accept(answer: Answer) -> Option<ClaimAnswer> {
        if let Answer::Scheduler(answer) = answer {
            Some(answer)
        } else {
            None
        }
    }

    fn why_idle(&self, now: Timestamp, server: &str) -> Option<String> {
        match self
            .why_idle(now, server)
            .expect("a store in memory does not fail")
        {
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
            fetcher::effect::Effect::Index => unreachable!("there is no archive"),
        }
    }

    fn accept(answer: Answer) -> Option<Self::Answer> {
        if let Answer::Fetcher(answer) = answer {
            Some(answer)
        } else {
            None
        }
    }
}

impl Simulated for Parser {
    fn perform(effect: Self::Effect, id: EffectId, around: &mut Around) {
        around.ask_content(id, effect.dedup, &effect.ask);
    }

    fn accept(answer: Answer) -> Option<Self::Answer> {
        if let Answer::Parser(answer) = answer {
            Some(answer)
        } else {
            None
        }
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

fn places(pipeline: &Pipeline, stage: StageName) -> Vec<Place> {
    (0..pipeline.stages.of(stage).replicas)
        .map(|instance| Place { stage, instance })
        .collect()
}

/// The instances that a crawl begins with.
pub(crate) fn from_the_beginning(pipeline: &Pipeline) -> BTreeSet<Place> {
    SIMULATED
        .into_iter()
        .flat_map(|stage| places(pipeline, stage))
        .collect()
}

/// Makes the consumers that instances share. Those of owned partitions come with the lives of their
/// cores.
pub(crate) fn connect(broker: &mut Broker, pipeline: &Pipeline) {
    for stage in SIMULATED {
        for source in stage.row().inputs {
            if let Source::Shared(edge) = *source {
                broker.share(edge, places(pipeline, stage));
            }
        }
    }
}

/// All instances of all stages: of those with state as many as may ever be wanted, when the crawl
/// is scaled.
pub(crate) fn all(pipeline: &Pipeline, scales: bool) -> BTreeMap<Place, Box<dyn AnyNode>> {
    let mut all = from_the_beginning(pipeline);
    for stage in SIMULATED
        .into_iter()
        .filter(|stage| scales && stage.row().has_state)
    {
        all.extend((0..INSTANCES_MAX).map(|instance| Place { stage, instance }));
    }
    all.into_iter()
        .map(|place| (place, node(place, pipeline.clone())))
        .collect()
}

fn cache(settings: &UrlCacheSettings) -> UrlCache {
    open_url_cache("cache", settings).expect("a cache without a file")
}

fn node(place: Place, pipeline: Pipeline) -> Box<dyn AnyNode> {
    let all = pipeline.clone();
    match place.stage {
        StageName::HostSplitter => {
            Box::new(Node::new(place, &all, None, move |opening: &Opening| {
                let cache = cache(&pipeline.stages.host_splitter.cache);
                let mut core = Splitter::new((&pipeline).into(), cache, opening.life);
                core.owners(StageName::Dedup, &opening.owners[&StageName::Dedup]);
                core
            }))
        }
        StageName::Dedup => dedup(place, pipeline),
        StageName::Resolver => Box::new(Node::new(place, &all, None, move |opening: &Opening| {
            let past = opening.past;
            Resolver::new(resolver::resolver::Settings {
                past,
                ..(&pipeline).into()
            })
        })),
        StageName::Scheduler => {
            let state = State::new(&scheduler::TABLES, None, scheduler::halve);
            Box::new(Node::new(
                place,
                &all,
                Some(state),
                move |opening: &Opening| {
                    let store = opening.store.clone().expect("the scheduler has a store");
                    let quality = Qualities::open(&pipeline).expect("no table");
                    let schedulers =
                        Schedulers::of(&opening.owners[&StageName::Scheduler], opening.instance);
                    let directory = opening.owners[&StageName::Scheduler].directory();
                    let Opening {
                        instance,
                        life,
                        epoch,
                        partitions,
                        ..
                    } = opening;
                    let pipeline = with_some_topics(&pipeline, *life);
                    let settings = Settings {
                        life: *life,
                        schedulers,
                        directory,
                        ..Settings::new(&pipeline, quality)
                    };
                    let opened = Scheduler::open(
                        settings,
                        *instance,
                        *epoch,
                        partitions,
                        store,
                        Timestamp::ZERO,
                    );
                    let mut core = opened.expect("a store in memory does not fail");
                    core.owners(StageName::Dedup, &opening.owners[&StageName::Dedup]);
                    core
                },
            ))
        }
        StageName::Fetcher => Box::new(Node::new(place, &all, None, move |opening: &Opening| {
            let schedulers = opening.owners[&StageName::Scheduler].instances();
            let settings =
                fetcher::settings::Settings::new(&pipeline, opening.instance, opening.life);
            Fetcher::new(fetcher::settings::Settings {
                schedulers,
                past: opening.past,
                ..settings
            })
        })),
        StageName::Parser => Box::new(Node::new(place, &all, None, move |opening: &Opening| {
            let dedups = opening.owners[&StageName::Dedup].clone();
            Parser::new(parser::core::Settings {
                dedups,
                ..(&pipeline).into()
            })
        })),
        StageName::Archiver => unreachable!("the archiver is not simulated"),
    }
}

/// The configuration without some of its topics: others in each life.
fn with_some_topics(pipeline: &Pipeline, life: u64) -> Pipeline {
    let mut pipeline = pipeline.clone();
    let mut number = 0;
    pipeline.topics.retain(|_, _| {
        number += 1;
        life >> number & 3 != 0
    });
    pipeline
}

fn dedup(place: Place, pipeline: Pipeline) -> Box<dyn AnyNode> {
    let all = pipeline.clone();
    // Goes with the node, not with its lives.
    let folder = Rc::new(tempfile::tempdir().expect("a folder"));
    let (settings, of_moves): (dedup::seen::Settings, _) = ((&pipeline).into(), folder.clone());
    let beside: OpenBeside = Box::new(move |store| {
        let keys = MovingKeys::open(&settings, store.as_ref(), of_moves.path().into(), &[]);
        Box::new(keys.expect("a store in memory does not fail"))
    });
    let state = State::new(
        &dedup::dedup::TABLES,
        Some(beside),
        dedup::meta::last_serial,
    );
    Box::new(Node::new(
        place,
        &all,
        Some(state),
        move |opening: &Opening| {
            let store = opening.store.clone().expect("dedup has a store");
            let cache = cache(&pipeline.stages.dedup.cache);
            let left = opening.beside.take().map(|left| left as Box<dyn Any>);
            let seen = left.and_then(|left| left.downcast().ok()).map_or_else(
                || {
                    let folder = folder.path().into();
                    MovingKeys::open(
                        &(&pipeline).into(),
                        store.as_ref(),
                        folder,
                        &opening.partitions,
                    )
                    .expect("a store in memory does not fail")
                },
                |left: Box<MovingKeys>| *left,
            );
            let directory = opening.owners[&StageName::Dedup].directory();
            let settings = dedup::dedup::Settings {
                directory,
                ..(&pipeline).into()
            };
            Dedup::open(&settings, cache, &opening.partitions, store, seen)
                .expect("a store in memory does not fail")
        },
    ))
}

/// Who has the partitions of the stages with state at the beginning.
pub(crate) fn moves(pipeline: &Pipeline) -> Moves {
    let with_state = SIMULATED.into_iter().filter(|stage| stage.row().has_state);
    let owners =
        |stage: StageName| Owners::new(pipeline.partitions, pipeline.stages.of(stage).replicas);
    let tables = with_state.map(|stage| {
        (
            stage,
            OwnersTable {
                owners: owners(stage),
                revision: 1,
            },
        )
    });
    Moves {
        tables: tables.collect(),
        ..Moves::default()
    }
}
