//! A node: one instance of a stage, driven as the stage loop drives it in a process.
//!
//! The rules of delivery are those of a process: the same [`Settlement`] says what is acked, committed and published. The
//! node carries its actions out with the broker in memory. A crash takes the core and everything that was not committed;
//! the next life starts from the store, when the lease of the last one is over, under the next epoch, and with a clock
//! of its own.
//!
//! Not modelled: two processes that work on one store at once (the store is locked), and corrupt payloads.

use super::agenda::{Answer, EffectId, Input, Place, Process};
use super::around::Around;
use super::broker::{Delivery, Outgoing, ReplyTo, SoftMessage};
use super::plan::{MILLISECOND, Micros, SECOND};
use shared::config::Pipeline;
use shared::message::{Edge, decode};
use shared::stage::settlement::{Action, Life, Refused, Rewound, Settlement, next_epoch};
use shared::stage::store::{MemoryStore, Store};
use shared::stage::{Core, Count, Event, Output};
use shared::time::Timestamp;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How often a process keeps inputs alive and clears its outbox, as in the stage loop.
const UPKEEP: Micros = 500 * MILLISECOND;
/// As in the loop's lookout.
const LOOK_EVERY: Micros = 5 * SECOND;

/// A core that the simulation can run: who does its work that waits.
pub(crate) trait Simulated: Core + 'static {
    /// Begins work; its answer comes through the agenda.
    fn perform(effect: Self::Effect, id: EffectId, around: &mut Around);
    /// The answer as the core takes it.
    fn accept(answer: Answer) -> Option<Self::Answer>;
    /// Why a server is not being fetched, if that is for the core to say.
    fn why_idle(&self, _now: Timestamp, _server: &str) -> Option<String> {
        None
    }
}

/// What a core is opened with.
pub(crate) struct Opening {
    pub(crate) instance: u16,
    pub(crate) epoch: u64,
    /// A number that no other life has.
    pub(crate) life: u64,
    pub(crate) store: Option<Arc<dyn Store>>,
}

/// A node of any stage.
pub(crate) trait AnyNode {
    /// Starts the next life; false when another process still holds the lease.
    fn start(&mut self, around: &mut Around) -> bool;
    /// Ends the life at once.
    fn crash(&mut self);
    fn process(&self) -> Option<Process>;
    /// Takes what reached it.
    fn take(&mut self, input: Input, around: &mut Around);
    /// When it wants to be woken.
    fn wake_at(&self, now: Micros) -> Option<Micros>;
    /// Nothing in hand, nothing on its way into a stream.
    fn is_quiet(&self) -> bool;
    fn counts(&self) -> Vec<Count>;
    /// Why a server is not being fetched, if that is for the node to say.
    fn why_idle(&self, now: Micros, server: &str) -> Option<String>;
}

/// What an answer to an input is sent to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerTo {
    /// A message of a stream's consumer: an ack.
    Consumer { edge: Edge, consumer: usize, sequence: u64 },
    /// A request: a reply.
    Asker(ReplyTo),
}

/// The life of a process.
struct LifeOf<C> {
    core: C,
    settlement: Settlement<AnswerTo>,
    process: Process,
    store: Option<Arc<MemoryStore>>,
    born: Micros,
    /// What has come and waits for its turn: answers first, then requests, then messages of streams.
    answers: VecDeque<(u64, Answer)>,
    requests: VecDeque<SoftMessage>,
    messages: VecDeque<Delivery>,
    effects: HashSet<u64>,
    next_effect: u64,
    /// Messages published so far, each counted once.
    announced: u64,
    next_upkeep: Micros,
    /// Of a stage with state: when it renews its lease, and the revision under which that was taken.
    next_renewal: Option<Micros>,
    taken: u64,
    /// When it looks at its streams, in a run in which they may become shorter.
    next_look: Option<Micros>,
}

/// An instance of a stage.
pub(crate) struct Node<C: Simulated> {
    place: Place,
    open: Box<dyn Fn(&Opening) -> C>,
    pipeline: Pipeline,
    store: Option<Arc<MemoryStore>>,
    lives: u64,
    life: Option<LifeOf<C>>,
}

/// The process died in the middle of a step.
struct Died;

impl<C: Simulated> Node<C> {
    pub(crate) fn new(place: Place, pipeline: &Pipeline, open: impl Fn(&Opening) -> C + 'static) -> Self {
        let store = place.stage.row().has_state.then(Arc::<MemoryStore>::default);
        Node { place, open: Box::new(open), pipeline: pipeline.clone(), store, lives: 0, life: None }
    }

    /// A life that begins; none while another process holds the lease.
    fn begin(&self, process: Process, around: &mut Around) -> Option<LifeOf<C>> {
        let store = self.store.clone();
        let (mut epoch, mut taken) = (0, 0);
        if let Some(store) = &store {
            taken = around.leases.take(around.now, process)?;
            epoch = next_epoch(store.as_ref(), taken).expect("a store in memory does not fail");
        }
        let number = around.dice.number();
        let opening = Opening {
            instance: self.place.instance,
            epoch,
            life: number,
            store: store.clone().map(|store| store as Arc<dyn Store>),
        };
        let core = (self.open)(&opening);
        let life = Life { stage: self.place.stage.name(), instance: self.place.instance, life: number, epoch };
        let tables = store.as_deref().map(|store| store as &dyn Store);
        let subjects = around.routes.subjects.clone();
        let mut settlement = Settlement::open(life, subjects, &self.pipeline, tables, Timestamp::ZERO)
            .expect("a store in memory does not fail");
        for edge in Edge::ALL.into_iter().filter(|&edge| self.pipeline.edges.stream(edge).is_some()) {
            // A stream is never made anew here: they all have one identity.
            settlement.adopt(tables, edge, 1).expect("a store in memory does not fail");
        }
        let looks = around.look(settlement.expected());
        if let Err(rewound) = settlement.look(&looks) {
            around.refuse(self.place, rewound);
        }
        let lasts = around.leases.lasts;
        settlement.leased(Timestamp::from_micros(lasts));
        Some(LifeOf {
            core,
            settlement,
            process,
            next_renewal: store.is_some().then_some(around.now + lasts / 4),
            taken,
            store,
            born: around.now,
            answers: VecDeque::new(),
            requests: VecDeque::new(),
            messages: VecDeque::new(),
            effects: HashSet::new(),
            next_effect: 0,
            announced: 0,
            next_upkeep: around.now + UPKEEP,
            next_look: (around.faults.copies > 0).then_some(around.now + LOOK_EVERY),
        })
    }
}

impl<C: Simulated> AnyNode for Node<C> {
    fn start(&mut self, around: &mut Around) -> bool {
        let process = Process { place: self.place, life: self.lives + 1 };
        self.life = self.begin(process, around);
        let Some(life) = &mut self.life else { return false };
        self.lives += 1;
        if life.carry_out_all(around).is_err() {
            self.life = None;
        }
        true
    }

    fn crash(&mut self) {
        self.life = None;
    }

    fn process(&self) -> Option<Process> {
        self.life.as_ref().map(|life| life.process)
    }

    fn take(&mut self, input: Input, around: &mut Around) {
        let Some(life) = &mut self.life else { return };
        if life.take(input, around).and_then(|()| life.take_what_waits(around)).is_err() {
            self.life = None;
        }
    }

    fn wake_at(&self, now: Micros) -> Option<Micros> {
        self.life.as_ref()?.wake_at(now)
    }

    fn is_quiet(&self) -> bool {
        self.life.as_ref().is_some_and(|life| {
            life.core.is_idle() && life.settlement.is_settled() && life.messages.is_empty() && life.requests.is_empty()
        })
    }

    fn counts(&self) -> Vec<Count> {
        let Some(life) = &self.life else { return Vec::new() };
        let mut counts = life.core.counts();
        counts.extend(life.settlement.counts());
        counts
    }

    fn why_idle(&self, now: Micros, server: &str) -> Option<String> {
        let life = self.life.as_ref()?;
        life.core.why_idle(life.at(now), server)
    }
}

impl<C: Simulated> LifeOf<C> {
    /// A time of the world by the process's own clock.
    fn at(&self, micros: Micros) -> Timestamp {
        Timestamp::from_micros(micros.saturating_sub(self.born))
    }

    fn now(&self, around: &Around) -> Timestamp {
        self.at(around.now)
    }

    /// The next of: the core's wish, publishes that are due, upkeep, the renewal of the lease.
    fn wake_at(&self, now: Micros) -> Option<Micros> {
        let by_clock = |at: Timestamp| self.born.saturating_add(at.as_micros());
        let core = self.core.wake_at().filter(|_| self.settlement.may_step(self.at(now))).map(by_clock);
        let due = self.settlement.due_at().map(by_clock);
        let needs_upkeep = self.settlement.needs_upkeep() || self.settlement.wants_look();
        let upkeep = needs_upkeep.then_some(self.next_upkeep);
        [core, due, upkeep, self.next_renewal, self.next_look].into_iter().flatten().min()
    }

    fn take(&mut self, input: Input, around: &mut Around) -> Result<(), Died> {
        match input {
            Input::Delivery(delivery) => self.messages.push_back(delivery),
            Input::Soft(message) => self.requests.push_back(message),
            Input::Answer(number, answer) => self.answers.push_back((number, answer)),
            Input::Stored(token, ack) => {
                let stored = self.settlement.stored_at(self.now(around), token, &ack);
                if let Some(tag) = self.unless_rewound(stored, around)? {
                    return self.step(Event::Stored(tag), around);
                }
            }
            Input::Refused(token) => self.settlement.refused(self.now(around), token, Refused::Full),
            Input::Disconnected => self.settlement.disconnected(),
            Input::Reconnected => {
                self.settlement.disconnected();
                self.look(around)?;
                self.settlement.reconnected(self.now(around));
            }
            Input::Leased { asked, taken } => {
                let until = self.at(asked + around.leases.lasts);
                self.settlement.leased(until);
                self.owned_since(taken);
                if self.settlement.hears_again(self.now(around)) {
                    return self.step(Event::HearsAgain, around);
                }
            }
            // The process sees that it has lost the lease, and ends.
            Input::LeaseLost => return Err(Died),
            Input::Tick => return self.tick(around),
            Input::Connected(connection) => super::web::connected(connection, around),
        }
        self.carry_out_all(around)
    }

    /// A lease that had lapsed and was taken again begins an epoch.
    fn owned_since(&mut self, taken: u64) {
        if let Some(store) = &self.store
            && self.taken != taken
        {
            self.taken = taken;
            let epoch = next_epoch(store.as_ref(), taken).expect("a store in memory does not fail");
            self.settlement.owned_since(epoch);
            self.core.owned_since(epoch);
        }
    }

    /// Looks whether the streams are what they were.
    fn look(&mut self, around: &mut Around) -> Result<(), Died> {
        let looked = self.settlement.look(&around.look(self.settlement.expected()));
        self.unless_rewound(looked, around)
    }

    /// A process that finds a stream rewound ends for good.
    fn unless_rewound<T>(&self, found: Result<T, Rewound>, around: &mut Around) -> Result<T, Died> {
        found.map_err(|rewound| {
            around.refuse(self.process.place, rewound);
            Died
        })
    }

    fn tick(&mut self, around: &mut Around) -> Result<(), Died> {
        let now = self.now(around);
        if self.settlement.may_step(now) && self.core.wake_at().is_some_and(|at| at <= now) {
            self.step(Event::Wake, around)?;
        }
        self.settlement.due(now);
        if self.next_upkeep <= around.now {
            self.next_upkeep = around.now + UPKEEP;
            self.settlement.upkeep(now);
            if self.settlement.wants_look() && !around.is_cut_off(self.process.place) {
                self.look(around)?;
            }
        }
        if self.next_look.is_some_and(|at| at <= around.now) {
            self.next_look = Some(around.now + LOOK_EVERY);
            if !around.is_cut_off(self.process.place) {
                self.look(around)?;
            }
        }
        if let Some(at) = self.next_renewal.filter(|&at| at <= around.now) {
            self.next_renewal = Some(at.max(around.now) + around.leases.lasts / 4);
            around.renew(self.process);
        }
        self.carry_out_all(around)
    }

    /// Takes what has come, as far as the process may and wants.
    fn take_what_waits(&mut self, around: &mut Around) -> Result<(), Died> {
        while self.settlement.may_step(self.now(around)) {
            if let Some((number, answer)) = self.answers.pop_front() {
                if let Some(answer) = C::accept(answer).filter(|_| self.effects.remove(&number)) {
                    self.step(Event::Answer(answer), around)?;
                }
            } else if let Some(message) = self.requests.pop_front() {
                self.receive_soft(message, around)?;
            } else if self.settlement.takes_input(self.now(around))
                && self.core.wants_input()
                && let Some(delivery) = self.messages.pop_front()
            {
                self.receive(delivery, around)?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn receive(&mut self, delivery: Delivery, around: &mut Around) -> Result<(), Died> {
        let Delivery { edge, consumer, sequence, at, payload } = delivery;
        let answer_to = AnswerTo::Consumer { edge, consumer, sequence };
        let given = self.settlement.message(self.now(around), edge, (sequence, at as i64), answer_to);
        let Some(ticket) = self.unless_rewound(given, around)? else {
            return self.carry_out_all(around);
        };
        let input = C::decode(edge, &payload).unwrap_or_else(|error| panic!("{edge:?} {sequence}: {error}"));
        if edge == Edge::FetchReports
            && let Ok(report) = decode(&payload)
        {
            around.checks.learns(around.now, &report);
        }
        self.step(Event::Message { ticket, input }, around)
    }

    fn receive_soft(&mut self, message: SoftMessage, around: &mut Around) -> Result<(), Died> {
        let input =
            C::decode(message.edge, &message.payload).unwrap_or_else(|error| panic!("{:?}: {error}", message.edge));
        let ticket = self.settlement.request(message.reply.map(AnswerTo::Asker), self.now(around));
        self.step(Event::Message { ticket, input }, around)
    }

    /// Steps the core and carries out what it says, unless the process dies half-way.
    fn step(&mut self, event: Event<C::Input, C::Answer>, around: &mut Around) -> Result<(), Died> {
        let mut out = Output::default();
        let stepped = self.core.step(self.now(around), event, &mut out);
        stepped.expect("a store in memory does not fail");
        self.check_outputs(&out);
        let acts = out.publishes.len() + out.sends.len() + out.effects.len() > 0 || !out.finished.is_empty();
        let mut left = around.dies_in_step(self.process.place, acts).unwrap_or(usize::MAX);
        let (step, effects) = out.split();
        // A step that took long may end after the lease.
        let ended = self.now(around) + Duration::from_micros(around.step_takes());
        self.settlement.stepped(ended, step).map_err(|_| Died)?;
        self.carry_out(&mut left, around)?;
        for effect in effects {
            spend(&mut left)?;
            self.next_effect += 1;
            self.effects.insert(self.next_effect);
            C::perform(effect, EffectId { process: self.process, number: self.next_effect }, around);
        }
        if left == usize::MAX { Ok(()) } else { Err(Died) }
    }

    /// The stage sends on the edges that the topology gives it.
    fn check_outputs(&self, out: &Output<C::Effect>) {
        let row = self.process.place.stage.row();
        for edge in out.publishes.iter().map(|publish| publish.edge).chain(out.sends.iter().map(|send| send.edge)) {
            assert!(row.outputs.contains(&edge), "{} sends on {}", row.name, edge.name());
        }
    }

    fn carry_out_all(&mut self, around: &mut Around) -> Result<(), Died> {
        let mut left = usize::MAX;
        self.carry_out(&mut left, around)
    }

    /// Does what the settlement says, as long as acts are left; the process dies after the last. A commit is no act:
    /// what is before it has no effect.
    fn carry_out(&mut self, left: &mut usize, around: &mut Around) -> Result<(), Died> {
        while let Some(action) = self.settlement.next_action() {
            if let Action::Commit(changes) = action {
                let store = self.store.as_ref().expect("only a stage with state commits");
                store.commit(&changes).expect("a store in memory does not fail");
                self.settlement.committed(self.at(around.now));
                continue;
            }
            spend(left)?;
            match action {
                Action::Commit(_) => {}
                Action::Publish(token) => self.publish(token, around),
                Action::Send(send) => around.send(self.process, send.edge, &send.token, send.payload),
                Action::Reply(AnswerTo::Asker(to), payload) => around.reply(self.process, to, &payload),
                Action::Ack(AnswerTo::Consumer { edge, consumer, sequence }) => {
                    around.ack(self.process, edge, consumer, sequence);
                }
                Action::Extend(AnswerTo::Consumer { edge, consumer, sequence }) => {
                    around.extend(self.process, edge, consumer, sequence);
                }
                Action::Reply(..) | Action::Ack(_) | Action::Extend(_) | Action::Nak(..) => {
                    panic!("{:?} answers an input as none is answered: {action:?}", self.process)
                }
            }
        }
        Ok(())
    }

    fn publish(&mut self, token: u64, around: &mut Around) {
        let Some(message) = self.settlement.outgoing(token) else { return };
        let (edge, on) = around.routes.of(&message.subject);
        let message = Outgoing { edge, token: on, id: message.id.clone(), payload: message.payload.clone() };
        if token == self.announced {
            self.announced += 1;
            around.checks.publishes(self.process, &message);
        }
        around.publish(self.process, token, message);
    }
}

/// One more act before the process dies.
fn spend(left: &mut usize) -> Result<(), Died> {
    match *left {
        usize::MAX => Ok(()),
        0 => Err(Died),
        _ => {
            *left -= 1;
            Ok(())
        }
    }
}
