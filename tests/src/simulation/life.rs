//! A life of a core, driven as the stage loop drives it in a process.

use super::agenda::{Answer, Input, Process};
use super::around::Around;
use super::background::Workers;
use super::batches::Batch;
use super::broker::{Delivery, Outgoing, ReplyTo, SoftMessage};
use super::moves::Settling;
use super::node::{Opening, Simulated};
use super::plan::{MILLISECOND, Micros, SECOND};
use rhumb_config::Pipeline;
use rhumb_stage::node::{Drawn, Node, Tenure};
use rhumb_stage::settlement::{Action, Life, Refused, Rewound, Settlement};
use rhumb_stage::store::{MemoryStore, Store};
use rhumb_stage::{Count, Event, Output};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Edge;
use rhumb_wire::topology::{Source, StageName};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

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

/// The life of a process.
pub(crate) struct LifeOf<C: Simulated> {
    pub(crate) core: C,
    pub(crate) node: Node<AnswerTo>,
    pub(crate) process: Process,
    pub(super) store: Option<Arc<MemoryStore>>,
    born: Micros,
    /// What has come and waits for its turn: answers first, then requests, then messages of
    /// streams.
    pub(super) answers: VecDeque<(u64, Answer)>,
    pub(super) requests: VecDeque<SoftMessage>,
    pub(crate) messages: VecDeque<Delivery>,
    /// Until when it works on its last batch.
    pub(super) busy_until: Micros,
    pub(super) batch: Batch<C::Effect>,
    pub(super) effects: HashSet<u64>,
    pub(super) next_effect: u64,
    /// Messages published so far, each counted once.
    announced: u64,
    pub(crate) next_upkeep: Micros,
    /// Of a stage with state: when it renews its lease, and the revision under which that was
    /// taken.
    next_renewal: Option<Micros>,
    pub(crate) taken: u64,
    pub(crate) held_until: Micros,
    /// Who does what is done of the moves while the core works.
    pub(crate) workers: Workers,
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
    let each = drawn.partitions();
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
    pub(crate) fn begin(
        core: C,
        opening: &Opening,
        begun: &Begun,
        tenure: Option<Tenure>,
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
        let uncommitted = opening.uncommitted.clone();
        let now = Timestamp::ZERO;
        let mut settlement = Settlement::open(life, subjects, pipeline, tables, uncommitted, now)
            .expect("a store in memory does not fail");
        let drawn = tenure.as_ref().map_or(&Drawn::All, Tenure::drawn);
        adopt(&mut settlement, tables, drawn, place.stage, pipeline);
        let looks = around.look(settlement.expected());
        if let Err(rewound) = settlement.look(&looks) {
            around.refuse(place, rewound);
        }
        settlement.leased(Timestamp::from_micros(held_until.saturating_sub(born)));
        let scales = around.faults.scalings > 0;
        LifeOf {
            core,
            node: Node::new(settlement, tenure),
            process,
            next_renewal: store.is_some().then_some(next_renewal),
            taken,
            held_until,
            workers: Workers::default(),
            scales,
            store,
            born,
            answers: VecDeque::new(),
            requests: VecDeque::new(),
            messages: VecDeque::new(),
            busy_until: born,
            batch: Batch::default(),
            effects: HashSet::new(),
            next_effect: 0,
            announced: 0,
            next_upkeep: born + UPKEEP,
            next_look: (around.faults.copies > 0 || scales).then_some(born + LOOK_EVERY),
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.core.is_idle()
            && self.node.settlement.is_settled()
            && self.messages.is_empty()
            && self.requests.is_empty()
    }

    pub(crate) fn counts(&self) -> Vec<Count> {
        let mut counts = self.core.counts();
        counts.extend(self.node.settlement.counts());
        counts
    }
}

impl<C: Simulated> LifeOf<C> {
    /// A time of the world by the process's own clock.
    pub(crate) fn at(&self, micros: Micros) -> Timestamp {
        Timestamp::from_micros(micros.saturating_sub(self.born))
    }

    /// Now, at the end of the steps of the batch under way.
    pub(crate) fn now(&self, around: &Around) -> Timestamp {
        self.at(around.now + self.batch.took)
    }

    /// The next of: the core's wish, publishes that are due, upkeep, the renewal of the lease, the
    /// end of its work.
    pub(crate) fn wake_at(&self, now: Micros) -> Option<Micros> {
        let by_clock = |at: Timestamp| self.born.saturating_add(at.as_micros());
        let core = self
            .core
            .wake_at()
            .filter(|_| self.node.settlement.may_step(self.at(now)))
            .map(by_clock);
        let due = self.node.settlement.due_at().map(by_clock);
        let needs_upkeep =
            self.scales || self.node.settlement.needs_upkeep() || self.node.settlement.wants_look();
        let upkeep = needs_upkeep.then_some(self.next_upkeep);
        let free = (self.busy_until > now).then_some(self.busy_until);
        [core, due, upkeep, self.next_renewal, self.next_look, free]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn take(&mut self, input: Input, around: &mut Around) -> Result<(), Died> {
        match input {
            // Who draws no more does not know of it.
            Input::Delivery(_) if self.node.is_draining() => {}
            Input::Delivery(delivery) => self.messages.push_back(delivery),
            Input::Soft(message) => self.requests.push_back(message),
            Input::Answer(number, answer) => self.answers.push_back((number, answer)),
            Input::Stored(token, ack) => {
                let stored = self
                    .node
                    .settlement
                    .stored_at(self.now(around), token, &ack);
                for tag in self.unless_rewound(stored, around)? {
                    self.step(Event::Stored(tag), around)?;
                }
            }
            Input::Refused(token) => {
                self.node
                    .settlement
                    .refused(self.now(around), token, Refused::Full)
            }
            Input::Disconnected => self.node.settlement.disconnected(),
            Input::Reconnected => {
                self.node.settlement.disconnected();
                self.look(around)?;
                self.node.settlement.reconnected(self.now(around));
            }
            Input::Leased { asked, taken } => {
                self.held_until = asked + around.leases.lasts;
                self.taken = taken;
                let until = self.at(self.held_until);
                let begun = self.node.leased(until, taken);
                if let Some(epoch) = begun.expect("a store in memory does not fail") {
                    self.core.owned_since(epoch);
                }
                self.hear(around)?;
            }
            // The process sees that it has lost the lease, and ends.
            Input::LeaseLost => return Err(Died),
            Input::Tick => return self.tick(around),
            Input::Owners(..) => {}
            Input::Connected(connection) => super::web::connected(connection, around),
        }
        self.carry_out_all(around)
    }

    /// Tells the core what it is to be told before anything else.
    pub(super) fn hear(&mut self, around: &mut Around) -> Result<(), Died> {
        while let Some(signal) = self.node.next_signal(self.now(around)) {
            self.step(signal.into(), around)?;
        }
        Ok(())
    }

    /// Looks whether the streams are what they were.
    fn look(&mut self, around: &mut Around) -> Result<(), Died> {
        let looked = self
            .node
            .settlement
            .look(&around.look(self.node.settlement.expected()));
        self.unless_rewound(looked, around)
    }

    /// A process that finds a stream rewound ends for good.
    pub(super) fn unless_rewound<T>(
        &self,
        found: Result<T, Rewound>,
        around: &mut Around,
    ) -> Result<T, Died> {
        found.map_err(|rewound| {
            around.refuse(self.process.place, rewound);
            Died
        })
    }

    fn tick(&mut self, around: &mut Around) -> Result<(), Died> {
        let now = self.now(around);
        if self.node.settlement.may_step(now) && self.core.wake_at().is_some_and(|at| at <= now) {
            self.step(Event::Wake, around)?;
        }
        self.node.settlement.due(now);
        if self.next_upkeep <= around.now {
            self.next_upkeep = around.now + UPKEEP;
            let wall_clock = around.wall_clock(self.process.place);
            self.node.settlement.is_now(now, wall_clock);
            self.node.settlement.upkeep(now);
            self.look_after_partitions(around);
            if self.node.settlement.wants_look() && !around.is_cut_off(self.process.place) {
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

    /// The stage sends on the edges that the topology gives it, or passes on what is addressed to a
    /// partition that was split.
    pub(super) fn check_outputs(&self, out: &Output<C::Effect>) {
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
    pub(super) fn carry_out(&mut self, left: &mut usize, around: &mut Around) -> Result<(), Died> {
        while let Some(action) = self.node.next_action() {
            if let Action::Commit(changes) = action {
                let store = self
                    .store
                    .as_ref()
                    .expect("only a stage with state commits");
                store
                    .commit(&changes)
                    .expect("a store in memory does not fail");
                let removed = self.core.committed();
                removed.expect("a store in memory does not fail");
                self.node.settlement.committed(self.at(around.now));
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
        let Some(message) = self.node.settlement.outgoing(token) else {
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
pub(super) fn spend(left: &mut usize) -> Result<(), Died> {
    match *left {
        usize::MAX => Ok(()),
        0 => Err(Died),
        _ => {
            *left -= 1;
            Ok(())
        }
    }
}
