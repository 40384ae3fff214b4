//! World: all nodes and what lies around them, from the first seed to the end of the crawl.

use super::agenda::{Agenda, Happening, Incident, Input, Place, Process};
use super::around::Around;
use super::broker::{Broker, Outgoing};
use super::checks::Checks;
use super::dice::Dice;
use super::graph::Graph;
use super::leases::Leases;
use super::names::Names;
use super::node::AnyNode;
use super::plan::{MILLISECOND, Micros, Plan, SECOND};
use super::routes::Routes;
use super::scope::ScopeBucket;
use super::verdict::open_urls;
use super::web::Web;
use super::{nodes, scope, web};
use rhumb_config::scope_entry::ScopeEntry;
use rhumb_config::{DEFAULT_TOPIC, Follow};
use rhumb_url::host_of;
use rhumb_wire::message::{Edge, FoundUrls, Origin, encode, tap};
use rhumb_wire::topology::StageName;
use rhumb_wire::topology::Token;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// Simulated time in which a crawl must end.
const TIME_MAX: Micros = 4 * 3600 * SECOND;
/// Steps in which a crawl must end.
const STEPS_MAX: u64 = 3_000_000;

/// A run that ended as it must.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Events.
    pub steps: u64,
    /// Simulated seconds.
    pub seconds: u64,
    /// URLs that passed the URL-seen test.
    pub urls: usize,
    /// Pages with outcome fetched.
    pub fetched: usize,
    /// URLs injected again with outcome not-modified.
    pub not_modified: usize,
    /// Requests that servers saw.
    pub contacts: u64,
    /// URLs with outcome over-budget.
    pub over_budget: usize,
    /// Pages served more often than once, counted each time.
    pub refetched: u64,
    /// Visits of pages after the first.
    pub visits: u64,
    /// Crashes.
    pub crashes: u64,
    /// Queries that no name server answered.
    pub unanswered: u64,
    /// Partitions that one instance took over from another.
    pub moved: u64,
    /// Partitions that were split, of all stages.
    pub halved: u64,
    /// Commits of several steps.
    pub batches: u64,
    /// Times that a process died with several steps in hand that were not committed.
    pub batches_lost: u64,
    /// Claims that schedulers entered into ledgers.
    pub entries: u64,
    /// Why the crawl was not gone on with: a stream was shorter than it had been.
    pub refusal: Option<String>,
}

/// A run in which a promise was broken, or that did not end.
#[derive(Clone, Debug)]
pub struct Failure {
    seed: u64,
    at: Micros,
    step: u64,
    what: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            seed,
            at,
            step,
            what,
        } = self;
        writeln!(
            f,
            "seed {seed}, step {step}, {:.6} s:",
            *at as f64 / SECOND as f64
        )?;
        for line in what.iter().take(20) {
            writeln!(f, "  {line}")?;
        }
        if what.len() > 20 {
            writeln!(f, "  and {} more", what.len() - 20)?;
        }
        write!(
            f,
            "  (RHUMB_SIMULATION_SEED={seed} replays it with a trace)"
        )
    }
}

/// A simulation under way.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) around: Around,
    pub(crate) nodes: BTreeMap<Place, Box<dyn AnyNode>>,
    /// When each process is woken next.
    ticks: HashMap<Process, Micros>,
    pub(crate) steps: u64,
    pub(crate) crashes: u64,
}

impl World {
    pub(crate) fn new(plan: &Plan, trace: bool) -> World {
        let pipeline = &plan.pipeline;
        let mut dice = Dice::new(plan.seed ^ 0xa076_1d64_78bd_642f);
        let graph = Graph::new(plan, &mut dice);
        let names = Names::new(&graph, plan);
        let around = Around {
            now: 0,
            agenda: Agenda::default(),
            broker: Broker::new(pipeline, plan.capacity),
            web: Web::new(graph, plan),
            names,
            scope: ScopeBucket::default(),
            leases: Leases::new(pipeline.ownership_lease.as_micros() as Micros),
            routes: Routes::new(pipeline),
            ledgers: HashMap::new(),
            entries: 0,
            checks: Checks::new(pipeline, !plan.faults.is_none()),
            faults: plan.faults.clone(),
            up: HashMap::new(),
            clocks: HashMap::new(),
            paused: HashMap::new(),
            cut: HashMap::new(),
            dying: HashMap::new(),
            moves: nodes::moves(pipeline),
            lost: 0,
            refusal: None,
            trace,
            dice,
            // Of their own: all else is what it is however many inputs are one batch.
            batch_dice: Dice::new(plan.seed ^ 0x6261_7463_6865_735f),
            batches: 0,
            batches_lost: 0,
        };
        let nodes = nodes::all(pipeline, plan.faults.scalings > 0);
        World {
            plan: plan.clone(),
            around,
            nodes,
            ticks: HashMap::new(),
            steps: 0,
            crashes: 0,
        }
    }

    /// Runs to the end.
    pub(crate) fn run(mut self) -> Result<Ended, Failure> {
        nodes::connect(&mut self.around.broker, &self.plan.pipeline);
        let places: Vec<Place> = self.nodes.keys().copied().collect();
        for place in nodes::from_the_beginning(&self.plan.pipeline) {
            self.around.moves.started.insert(place);
            self.start(place);
        }
        self.sow();
        self.around.plan_incidents(&places);
        self.around.plan_scalings();
        let dice = Dice::new(self.plan.seed ^ 0x636c_6f63_6b73_11a7);
        self.around.plan_clock_steps(&places, dice);
        let mut next_look = SECOND;
        let mut quiet_at = None;
        loop {
            let Some((at, happening)) = self.around.agenda.next() else {
                return Err(self.failure(vec!["nothing happens".into()]));
            };
            self.around.now = at;
            self.steps += 1;
            self.happens(happening);
            if self.around.refusal.is_some() {
                return self.refused();
            }
            if !self.around.checks.violations.is_empty() {
                let what = std::mem::take(&mut self.around.checks.violations);
                return Err(self.failure(what));
            }
            if at >= next_look {
                next_look = at + SECOND;
                let sequences = self.is_quiet().then(|| self.around.broker.sequences());
                if sequences.is_some() && sequences == quiet_at {
                    return self.end();
                }
                quiet_at = sequences;
            }
            if at > TIME_MAX || self.steps > STEPS_MAX {
                return Err(self.failure(self.what_waits()));
            }
        }
    }

    /// A crawl that is refused has lost something.
    fn refused(self) -> Result<Ended, Failure> {
        let refusal = self.around.refusal.as_ref().map(ToString::to_string);
        if self.around.lost == 0 {
            return Err(self.failure(refusal.into_iter().collect()));
        }
        let seconds = self.around.now / SECOND;
        let urls = self.around.checks.new.len();
        Ok(Ended {
            steps: self.steps,
            seconds,
            urls,
            crashes: self.crashes,
            refusal,
            ..Ended::default()
        })
    }

    pub(crate) fn failure(&self, what: Vec<String>) -> Failure {
        Failure {
            seed: self.plan.seed,
            at: self.around.now,
            step: self.steps,
            what,
        }
    }

    /// Puts the seeds on their way, as `inject` does: their hosts join the scope first.
    fn sow(&mut self) {
        let origin = Origin::seed(DEFAULT_TOPIC);
        let seeds: Vec<String> = self.around.web.graph.seeds.clone();
        let topics: Vec<String> = self
            .plan
            .pipeline
            .topics
            .keys()
            .cloned()
            .chain([DEFAULT_TOPIC.to_owned()])
            .collect();
        let message = |origin: Origin, urls: &[String], id: String| {
            let found = FoundUrls {
                origin,
                urls: urls.iter().collect(),
                ..FoundUrls::default()
            };
            Outgoing {
                edge: Edge::UrlsFound,
                token: Token::None,
                id,
                payload: encode(&found),
            }
        };
        let follow = self.plan.pipeline.scope.follow;
        if follow != Follow::Any {
            // Whoever has topics follows any host.
            let entries = seeds
                .iter()
                .map(|seed| ScopeEntry::of(follow, &origin.topic, host_of(seed)));
            for entry in entries.collect::<BTreeSet<_>>() {
                scope::put(entry, &mut self.around);
            }
        }
        for (number, topic) in topics.iter().enumerate() {
            let own = seeds
                .iter()
                .enumerate()
                .filter(|(seed, _)| seed % topics.len() == number)
                .map(|(_, seed)| seed);
            let own: Vec<String> = own.cloned().collect();
            if !own.is_empty() {
                let sown = message(Origin::seed(topic), &own, format!("seeds of {topic}"));
                self.around.broker.store(0, &sown);
            }
        }
        self.around.dispatch(Edge::UrlsFound);
        for (time, &(again, at)) in self.plan.again.iter().enumerate() {
            let origin = Origin {
                again,
                ..origin.clone()
            };
            let first = &seeds[..seeds.len().min(2)];
            let injected = message(origin, first, format!("again {time}"));
            self.around.agenda.at(at, Happening::Injection(injected));
        }
    }

    fn happens(&mut self, happening: Happening) {
        let around = &mut self.around;
        match happening {
            Happening::To(process, input) => self.reaches(process, input),
            Happening::Publish {
                from,
                token,
                message,
            } => around.arrive(from, token, &message),
            Happening::Ack {
                edge,
                consumer,
                sequence,
            } => {
                around.broker.ack(around.now, edge, consumer, sequence);
                around.dispatch(edge);
            }
            Happening::Nak {
                edge,
                consumer,
                sequence,
            } => {
                around.broker.again(edge, consumer, sequence);
                around.dispatch(edge);
            }
            Happening::Scaling(stage, wanted) => around.scale(stage, wanted),
            Happening::Split(hash) => around.split(hash),
            Happening::ClockStep(place, by) => {
                around.tell(|| format!("the clock of {place:?} jumps by {by} ns"));
                *around.clocks.entry(place).or_default() += by;
            }
            Happening::Extend {
                edge,
                consumer,
                sequence,
            } => {
                around.broker.extend(around.now, edge, consumer, sequence);
            }
            Happening::BrokerRestart { micros } => around.restart_broker(micros),
            Happening::BrokerRestored { age } => around.restore_broker(age),
            Happening::Overdue {
                edge,
                consumer,
                sequence,
                delivery,
            } => {
                self.overdue(edge, consumer, sequence, delivery);
            }
            Happening::Incident(place, incident) => self.incident(place, incident),
            Happening::Injection(message) => {
                around.broker.store(around.now, &message);
                around.dispatch(message.edge);
            }
            Happening::Join(id, entry) => scope::joined(id, entry, around),
        }
    }

    fn reaches(&mut self, process: Process, input: Input) {
        let around = &mut self.around;
        let place = process.place;
        if around.up.get(&place) != Some(&process) {
            return;
        }
        if let Some(&until) = around.paused.get(&place) {
            around.agenda.at(until, Happening::To(process, input));
            return;
        }
        if matches!(input, Input::Tick)
            && self.ticks.get(&process).is_some_and(|&at| at <= around.now)
        {
            self.ticks.remove(&process);
        }
        around.tell(|| describe(process, &input));
        if let Some(node) = self.nodes.get_mut(&place) {
            node.take(input, around);
        }
        self.after_step(place);
    }

    fn after_step(&mut self, place: Place) {
        let Some(node) = self.nodes.get(&place) else {
            return;
        };
        let Some(process) = node.process() else {
            self.around.tell(|| format!("{place:?} died in a step"));
            self.died(place);
            return;
        };
        // A process whose core's life is over goes on under another number.
        if let Some(before) = self
            .around
            .up
            .insert(place, process)
            .filter(|before| *before != process)
        {
            self.ticks.remove(&before);
        }
        let has_core = !self.around.moves.between.contains(&place);
        if matches!(place.stage, StageName::Dedup | StageName::Scheduler) && has_core {
            self.around.checks.counts(place, &node.counts());
        }
        if let Some(at) = node.wake_at(self.around.now) {
            let at = at.max(self.around.now + 1);
            if self.ticks.get(&process).is_none_or(|&planned| at < planned) {
                self.ticks.insert(process, at);
                self.around
                    .agenda
                    .at(at, Happening::To(process, Input::Tick));
            }
        }
    }

    fn overdue(&mut self, edge: Edge, consumer: usize, sequence: u64, delivery: u64) {
        let around = &mut self.around;
        match around
            .broker
            .unacked_until(edge, consumer, sequence, delivery)
        {
            None => {}
            Some(until) if until > around.now => {
                around.agenda.at(
                    until,
                    Happening::Overdue {
                        edge,
                        consumer,
                        sequence,
                        delivery,
                    },
                );
            }
            Some(_) => {
                around.tell(|| format!("{} {sequence} comes again", edge.name()));
                around.broker.again(edge, consumer, sequence);
                around.dispatch(edge);
            }
        }
    }

    fn incident(&mut self, place: Place, incident: Incident) {
        let around = &mut self.around;
        around.tell(|| format!("{place:?}: {incident:?}"));
        let is_up = around.up.contains_key(&place);
        match incident {
            Incident::Crash if is_up => {
                if let Some(node) = self.nodes.get_mut(&place) {
                    node.crash(around);
                }
                self.died(place);
            }
            Incident::CrashInStep { after } if is_up => {
                around.dying.insert(place, after);
            }
            Incident::Pause { micros } if is_up && !around.paused.contains_key(&place) => {
                around.stand_still(place, micros);
            }
            Incident::Cut { micros } => around.cut_off(place, micros),
            Incident::Usurped { micros } => {
                around.leases.claim(place, micros);
                around.cut_off(place, 2 * around.leases.lasts);
            }
            Incident::Resume => self.resume(),
            Incident::Restart if !is_up && around.moves.started.contains(&place) => {
                self.start(place)
            }
            Incident::Crash
            | Incident::CrashInStep { .. }
            | Incident::Pause { .. }
            | Incident::Restart => {}
        }
    }

    /// Pauses and cuts that are over end; who was cut off has a new connection.
    fn resume(&mut self) {
        let around = &mut self.around;
        let now = around.now;
        around.paused.retain(|_, until| *until > now);
        let mut back: Vec<Place> = around
            .cut
            .iter()
            .filter(|&(_, &until)| until <= now)
            .map(|(&place, _)| place)
            .collect();
        back.sort();
        for place in back {
            around.cut.remove(&place);
            if let Some(&process) = around.up.get(&place) {
                around
                    .agenda
                    .at(now, Happening::To(process, Input::Reconnected));
            }
        }
        around.dispatch_all();
    }

    fn died(&mut self, place: Place) {
        let around = &mut self.around;
        self.crashes += 1;
        around.dying.remove(&place);
        around.paused.remove(&place);
        if let Some(process) = around.up.remove(&place) {
            self.ticks.remove(&process);
            web::abandon(process, around);
        }
        let at = around.now + around.dice.within(50 * MILLISECOND..10 * SECOND);
        around
            .agenda
            .at(at, Happening::Incident(place, Incident::Restart));
    }

    fn start(&mut self, place: Place) {
        let Some(node) = self.nodes.get_mut(&place) else {
            return;
        };
        if !node.start(&mut self.around) {
            // The lease of an earlier life, or another's, is not over yet.
            let at = self.around.now + self.around.leases.lasts / 20;
            self.around
                .agenda
                .at(at, Happening::Incident(place, Incident::Restart));
            return;
        }
        if let Some(process) = node.process() {
            self.around.up.insert(place, process);
        }
        self.around.dispatch_all();
        self.after_step(place);
    }

    /// As the design says: nothing waits, nothing is in flight, everything is delivered and acked.
    fn is_quiet(&self) -> bool {
        let around = &self.around;
        around.now > around.faults.until_s * SECOND
            && around.up.len() == around.moves.started.len()
            && around.is_scaled()
            && around.paused.is_empty()
            && around.cut.is_empty()
            && around.broker.is_quiet()
            && self.due() == 0
            && around.moves.started.iter().all(|place| {
                let node = &self.nodes[place];
                node.is_quiet() && open_urls(node.as_ref()) == 0
            })
    }
}

fn describe(process: Process, input: &Input) -> String {
    let Process {
        place: Place { stage, instance },
        life,
    } = process;
    let what = match input {
        Input::Delivery(delivery) => {
            let edge = delivery.edge;
            let messages: Vec<String> = tap::all(edge, &delivery.payload)
                .iter()
                .map(ToString::to_string)
                .collect();
            format!(
                "{} {} {}",
                edge.name(),
                delivery.sequence,
                messages.join(" ")
            )
        }
        Input::Soft(message) => {
            let text = tap::json(message.edge, &message.payload)
                .map(|json| json.to_string())
                .unwrap_or_default();
            format!("{} {text}", message.edge.name())
        }
        other => format!("{other:?}"),
    };
    format!("{stage:?}-{instance} ({life}) <- {what}")
}
