//! A life of a core, driven as the stage loop drives it in a process.

use super::agenda::{Answer, EffectId, Input, Process};
use super::ahead::Ahead;
use super::around::Around;
use super::broker::{Delivery, Drawn, Outgoing, ReplyTo, SoftMessage};
use super::moves::Settling;
use super::node::{Opening, Simulated};
use super::plan::{MILLISECOND, Micros, SECOND};
use rhumb_config::Pipeline;
use rhumb_stage::settlement::{Action, InputAt, Life, Refused, Rewound, Settlement, next_epoch};
use rhumb_stage::store::{MemoryStore, Store};
use rhumb_stage::{Count, Event, Output, Rows};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Edge, decode, payloads};
use rhumb_wire::topology::{Source, StageName};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How often a process keeps inputs alive and clears its outbox, as in the stage loop.
const UPKEEP: Micros = 500 * MILLISECOND;
/// As in the loop's lookout.
const LOOK_EVERY: Micros = 5 * SECOND;

/// What an answer to an input is sent to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerTo {
    /// A message of a stream's consumer: an ack.
    Consumer {
        edge: Edge,
        consumer: usize,
        sequence: u64,
    },
    /// A request: a reply.
    Asker(ReplyTo),
}

/// What a life begins with: a lease that is held.
pub(crate) struct Begun {
    pub(crate) process: Process,
    pub(crate) taken: u64,
    pub(crate) held_until: Micros,
    pub(crate) next_renewal: Micros,
}

impl Begun {
    pub(crate) fn of(settling: &Settling) -> Self {
        let &Settling {
            process,
            taken,
            held_until,
            next_renewal,
            ..
        } = settling;
        Begun {
            process,
            taken,
            held_until,
            next_renewal,
        }
    }
}

/// The partitions that a life works with.
pub(crate) struct Tenure {
    pub(super) rows: Rows,
    pub(super) partitions: Vec<u16>,
    /// Of the table of owners with which it began.
    pub(super) revision: u64,
    /// Partitions of others of which the store still has rows.
    pub(super) left_over: Vec<u16>,
    pub(super) drawn: Drawn,
    /// Since when the instance is to have other partitions.
    pub(super) reassigned: Option<Micros>,
    /// Since when some are ready to come or to go.
    pub(super) ready_since: Option<Duration>,
    /// What is done of the moves while the core works.
    pub(super) ahead: Ahead,
    /// The number of the copies of this life.
    pub(super) epoch: u64,
    pub(super) is_told_to_drain: bool,
}

/// The life of a process.
pub(crate) struct LifeOf<C> {
    pub(crate) core: C,
    pub(crate) settlement: Settlement<AnswerTo>,
    pub(crate) process: Process,
    store: Option<Arc<MemoryStore>>,
    born: Micros,
    /// What has come and waits for its turn: answers first, then requests, then messages of
    /// streams.
    answers: VecDeque<(u64, Answer)>,
    requests: VecDeque<SoftMessage>,
    pub(crate) messages: VecDeque<Delivery>,
    effects: HashSet<u64>,
    next_effect: u64,
    /// Messages published so far, each counted once.
    announced: u64,
    pub(crate) next_upkeep: Micros,
    /// Of a stage with state: when it renews its lease, and the revision under which that was
    /// taken.
    next_renewal: Option<Micros>,
    pub(crate) taken: u64,
    pub(crate) held_until: Micros,
    /// Of a stage with state.
    pub(crate) tenure: Option<Tenure>,
    /// Partitions move in this run.
    pub(crate) scales: bool,
    /// When it looks at its streams, in a run in which they may become shorter, or in which
    /// partitions move.
    next_look: Option<Micros>,
}

/// The process died in the middle of a step.
pub(crate) struct Died;

/// Reads how far earlier lives came in all streams. None is ever made anew here: they all have one
/// identity.
fn adopt(
    settlement: &mut Settlement<AnswerTo>,
    tables: Option<&dyn Store>,
    drawn: &Drawn,
    stage: StageName,
    pipeline: &Pipeline,
) {
    let each: Vec<Option<u16>> = match drawn {
        Drawn::All => vec![None],
        Drawn::Each(owned) => owned
            .iter()
            .map(|(partition, _)| Some(*partition))
            .collect(),
    };
    for edge in Edge::ALL
        .into_iter()
        .filter(|&edge| pipeline.edges.stream(edge).is_some())
    {
        let is_owned = stage.row().inputs.contains(&Source::Owned(edge));
        let consumers: &[Option<u16>] = if is_owned { &each } else { &[None] };
        settlement
            .adopt(tables, edge, consumers, 1)
            .expect("a store in memory does not fail");
    }
}

impl<C: Simulated> LifeOf<C> {
    #[expect(clippy::too_many_arguments, reason = "all that a life begins with")]
    pub(crate) fn begin(
        core: C,
        opening: &Opening,
        begun: &Begun,
        drawn: &Drawn,
        rows: Option<(Rows, u64, Vec<u16>, Ahead)>,
        pipeline: &Pipeline,
        store: Option<Arc<MemoryStore>>,
        around: &mut Around,
    ) -> Self {
        let Begun {
            process,
            taken,
            held_until,
            next_renewal,
        } = *begun;
        let place = process.place;
        let born = around.now;
        let life = Life {
            stage: place.stage.name(),
            instance: place.instance,
            life: opening.life,
            epoch: opening.epoch,
        };
        let tables = store.as_deref().map(|store| store as &dyn Store);
        let subjects = around.routes.subjects.clone();
        let mut settlement = Settlement::open(life, subjects, pipeline, tables, Timestamp::ZERO)
            .expect("a store in memory does not fail");
        adopt(&mut settlement, tables, drawn, place.stage, pipeline);
        let looks = around.look(settlement.expected());
        if let Err(rewound) = settlement.look(&looks) {
            around.refuse(place, rewound);
        }
        settlement.leased(Timestamp::from_micros(held_until.saturating_sub(born)));
        let tenure = rows.map(|(rows, revision, left_over, ahead)| Tenure {
            rows,
            partitions: opening.partitions.clone(),
            revision,
            left_over,
            drawn: drawn.clone(),
            reassigned: None,
            ready_since: None,
            ahead: ahead.going_on(),
            epoch: opening.epoch,
            is_told_to_drain: false,
        });
        let scales = around.faults.scalings > 0;
        LifeOf {
            core,
            settlement,
            process,
            next_renewal: store.is_some().then_some(next_renewal),
            taken,
            held_until,
            tenure,
            scales,
            store,
            born,
            answers: VecDeque::new(),
            requests: VecDeque::new(),
            messages: VecDeque::new(),
            effects: HashSet::new(),
            next_effect: 0,
            announced: 0,
            next_upkeep: born + UPKEEP,
            next_look: (around.faults.copies > 0 || scales).then_some(born + LOOK_EVERY),
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.core.is_idle()
            && self.settlement.is_settled()
            && self.messages.is_empty()
            && self.requests.is_empty()
    }

    pub(crate) fn counts(&self) -> Vec<Count> {
        let mut counts = self.core.counts();
        counts.extend(self.settlement.counts());
        counts
    }
}

impl<C: Simulated> LifeOf<C> {
    /// A time of the world by the process's own clock.
    pub(crate) fn at(&self, micros: Micros) -> Timestamp {
        Timestamp::from_micros(micros.saturating_sub(self.born))
    }

    fn is_reassigned(&self) -> bool {
        self.tenure
            .as_ref()
            .is_some_and(|tenure| tenure.reassigned.is_some())
    }

    pub(crate) fn now(&self, around: &Around) -> Timestamp {
        self.at(around.now)
    }

    /// The next of: the core's wish, publishes that are due, upkeep, the renewal of the lease.
    pub(crate) fn wake_at(&self, now: Micros) -> Option<Micros> {
        let by_clock = |at: Timestamp| self.born.saturating_add(at.as_micros());
        let core = self
            .core
            .wake_at()
            .filter(|_| self.settlement.may_step(self.at(now)))
            .map(by_clock);
        let due = self.settlement.due_at().map(by_clock);
        let needs_upkeep =
            self.scales || self.settlement.needs_upkeep() || self.settlement.wants_look();
        let upkeep = needs_upkeep.then_some(self.next_upkeep);
        [core, due, upkeep, self.next_renewal, self.next_look]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn take(&mut self, input: Input, around: &mut Around) -> Result<(), Died> {
        match input {
            // Who draws no more does not know of it.
            Input::Delivery(_) if self.is_reassigned() => {}
            Input::Delivery(delivery) => self.messages.push_back(delivery),
            Input::Soft(message) => self.requests.push_back(message),
            Input::Answer(number, answer) => self.answers.push_back((number, answer)),
            Input::Stored(token, ack) => {
                let stored = self.settlement.stored_at(self.now(around), token, &ack);
                for tag in self.unless_rewound(stored, around)? {
                    self.step(Event::Stored(tag), around)?;
                }
            }
            Input::Refused(token) => {
                self.settlement
                    .refused(self.now(around), token, Refused::Full)
            }
            Input::Disconnected => self.settlement.disconnected(),
            Input::Reconnected => {
                self.settlement.disconnected();
                self.look(around)?;
                self.settlement.reconnected(self.now(around));
            }
            Input::Leased { asked, taken } => {
                self.held_until = asked + around.leases.lasts;
                let until = self.at(self.held_until);
                self.settlement.leased(until);
                self.owned_since(taken);
                if self.settlement.hears_again(self.now(around)) {
                    return self.step(Event::HearsAgain, around);
                }
            }
            // The process sees that it has lost the lease, and ends.
            Input::LeaseLost => return Err(Died),
            Input::Tick => return self.tick(around),
            Input::Owners(..) => {}
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
        let looked = self
            .settlement
            .look(&around.look(self.settlement.expected()));
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
            self.look_after_partitions(around);
            if self.settlement.wants_look() && !around.is_cut_off(self.process.place) {
                self.look(around)?;
            }
        }
        if self.next_look.is_some_and(|at| at <= around.now) {
            self.next_look = Some(around.now + LOOK_EVERY);
            if !around.is_cut_off(self.process.place) {
                self.look(around)?;
                self.raise_positions(around);
            }
        }
        if let Some(at) = self.next_renewal.filter(|&at| at <= around.now) {
            self.next_renewal = Some(at.max(around.now) + around.leases.lasts / 4);
            around.renew(self.process);
        }
        self.carry_out_all(around)
    }

    /// Takes what has come, as far as the process may and wants.
    pub(crate) fn take_what_waits(&mut self, around: &mut Around) -> Result<(), Died> {
        while self.settlement.may_step(self.now(around)) {
            if let Some((number, answer)) = self.answers.pop_front() {
                if let Some(answer) = C::accept(answer).filter(|_| self.effects.remove(&number)) {
                    self.step(Event::Answer(answer), around)?;
                }
            } else if let Some(message) = self.requests.pop_front() {
                self.receive_soft(message, around)?;
            } else if !self.is_reassigned()
                && self.settlement.takes_input(self.now(around))
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
        let Delivery {
            edge,
            consumer,
            partition,
            sequence,
            at,
            payload,
        } = delivery;
        let answer_to = AnswerTo::Consumer {
            edge,
            consumer,
            sequence,
        };
        let payloads =
            payloads(edge, payload).unwrap_or_else(|error| panic!("{edge:?} {sequence}: {error}"));
        let at = (
            InputAt {
                edge,
                partition,
                sequence,
            },
            at as i64,
        );
        let given =
            self.settlement
                .message(self.now(around), at.0, at.1, payloads.len(), answer_to);
        let Some(tickets) = self.unless_rewound(given, around)? else {
            return self.carry_out_all(around);
        };
        for (ticket, payload) in tickets.into_iter().zip(payloads) {
            let input = C::decode(edge, &payload)
                .unwrap_or_else(|error| panic!("{edge:?} {sequence}: {error}"));
            if edge == Edge::FetchReports
                && let Ok(report) = decode(&payload)
            {
                around.checks.learns(around.now, &report);
            }
            self.step(Event::Message { ticket, input }, around)?;
        }
        Ok(())
    }

    fn receive_soft(&mut self, message: SoftMessage, around: &mut Around) -> Result<(), Died> {
        let input = C::decode(message.edge, &message.payload)
            .unwrap_or_else(|error| panic!("{:?}: {error}", message.edge));
        let ticket = self
            .settlement
            .request(message.reply.map(AnswerTo::Asker), self.now(around));
        self.step(Event::Message { ticket, input }, around)
    }

    /// Steps the core and carries out what it says, unless the process dies half-way.
    pub(crate) fn step(
        &mut self,
        event: Event<C::Input, C::Answer>,
        around: &mut Around,
    ) -> Result<(), Died> {
        let mut out = Output::default();
        let stepped = self.core.step(self.now(around), event, &mut out);
        stepped.expect("a store in memory does not fail");
        self.check_outputs(&out);
        let acts = out.publishes.len() + out.sends.len() + out.effects.len() > 0
            || !out.finished.is_empty();
        let mut left = around
            .dies_in_step(self.process.place, acts)
            .unwrap_or(usize::MAX);
        let (step, effects) = out.split();
        // A step that took long may end after the lease.
        let ended = self.now(around) + Duration::from_micros(around.step_takes());
        self.settlement.stepped(ended, step).map_err(|_| Died)?;
        self.carry_out(&mut left, around)?;
        for effect in effects {
            spend(&mut left)?;
            self.next_effect += 1;
            self.effects.insert(self.next_effect);
            C::perform(
                effect,
                EffectId {
                    process: self.process,
                    number: self.next_effect,
                },
                around,
            );
        }
        if left == usize::MAX {
            Ok(())
        } else {
            Err(Died)
        }
    }

    /// The stage sends on the edges that the topology gives it, or passes on what is addressed to a
    /// partition that was split.
    fn check_outputs(&self, out: &Output<C::Effect>) {
        let row = self.process.place.stage.row();
        for edge in out
            .publishes
            .iter()
            .map(|publish| publish.edge)
            .chain(out.sends.iter().map(|send| send.edge))
        {
            let passes_on = row.inputs.contains(&Source::Owned(edge));
            assert!(
                row.outputs.contains(&edge) || passes_on,
                "{} sends on {}",
                row.name,
                edge.name()
            );
        }
    }

    pub(crate) fn carry_out_all(&mut self, around: &mut Around) -> Result<(), Died> {
        let mut left = usize::MAX;
        self.carry_out(&mut left, around)
    }

    /// Does what the settlement says, as long as acts are left; the process dies after the last. A
    /// commit is no act: what is before it has no effect.
    fn carry_out(&mut self, left: &mut usize, around: &mut Around) -> Result<(), Died> {
        while let Some(action) = self.settlement.next_action() {
            if let Action::Commit(changes) = action {
                let store = self
                    .store
                    .as_ref()
                    .expect("only a stage with state commits");
                self.tenure
                    .iter_mut()
                    .for_each(|tenure| tenure.ahead.changed.note(&tenure.rows, &changes));
                store
                    .commit(&changes)
                    .expect("a store in memory does not fail");
                self.settlement.committed(self.at(around.now));
                continue;
            }
            spend(left)?;
            match action {
                Action::Commit(_) => {}
                Action::Publish(token) => self.publish(token, around),
                Action::Send(send) => {
                    around.send(self.process, send.edge, &send.token, send.payload)
                }
                Action::Reply(AnswerTo::Asker(to), payload) => {
                    around.reply(self.process, to, &payload)
                }
                Action::Ack(AnswerTo::Consumer {
                    edge,
                    consumer,
                    sequence,
                }) => {
                    around.ack(self.process, edge, consumer, sequence);
                }
                Action::Extend(AnswerTo::Consumer {
                    edge,
                    consumer,
                    sequence,
                }) => {
                    around.extend(self.process, edge, consumer, sequence);
                }
                Action::Nak(AnswerTo::Consumer {
                    edge,
                    consumer,
                    sequence,
                }) => {
                    around.nak(self.process, edge, consumer, sequence);
                }
                // Who asked waits for nothing more.
                Action::Nak(AnswerTo::Asker(_)) => {}
                Action::Reply(..) | Action::Ack(_) | Action::Extend(_) => {
                    panic!(
                        "{:?} answers an input as none is answered: {action:?}",
                        self.process
                    )
                }
            }
        }
        Ok(())
    }

    fn publish(&mut self, token: u64, around: &mut Around) {
        let Some(message) = self.settlement.outgoing(token) else {
            return;
        };
        let (edge, on) = around.routes.of(&message.subject);
        let message = Outgoing {
            edge,
            token: on,
            id: message.id.clone(),
            payload: message.payload.clone(),
        };
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
