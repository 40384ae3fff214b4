//! Around: what lies around the nodes: agenda, broker, web, name servers, the scope bucket, faults
//! and checks.

use super::agenda::{Agenda, Answer, EffectId, Happening, Incident, Input, Line, Place, Process};
use super::broker::{Broker, Outgoing, ReplyTo, Request, SoftMessage, Storing};
use super::checks::Checks;
use super::dice::Dice;
use super::leases::Leases;
use super::names::Names;
use super::plan::{Faults, MILLISECOND, Micros, SECOND};
use super::routes::Routes;
use super::scaling::Moves;
use super::scope::ScopeBucket;
use super::web::Web;
use bytes::Bytes;
use fetcher::effect::{Answer as Fetched, Asked};
use parser::content::Answer as Judged;
use rhumb_stage::settlement::{Expected, PubAck, Rewound, StreamLook};
use rhumb_wire::message::{Ask, ContentAsk, Edge, decode, encode};
use rhumb_wire::topology::{self, Source, StageName, Token};
use scheduler::quota::ledger::{Claim, Entered};
use std::collections::HashMap;

/// As in the fetcher's shell.
const REPLY_TIMEOUT: Micros = 2 * SECOND;
/// As in the scheduler's shell.
const LEDGER_TIMEOUT: Micros = 5 * SECOND;
/// Acks younger than this may be forgotten by a broker that is killed.
const ACKS_FORGOTTEN: Micros = 2 * SECOND;

/// When a run begins, in nanoseconds since 1970.
const BEGAN_NS: i64 = 1_700_000_000_000_000_000;

/// A time of the world, in nanoseconds since 1970.
pub(crate) fn since_1970_ns(at: Micros) -> i64 {
    BEGAN_NS + 1000 * i64::try_from(at).unwrap_or(i64::MAX / 2000)
}

/// What lies around the nodes.
pub(crate) struct Around {
    pub(crate) now: Micros,
    pub(crate) agenda: Agenda,
    pub(crate) dice: Dice,
    /// Of the batches that stages with state take.
    pub(crate) batch_dice: Dice,
    /// Commits of several steps, and such batches that died before.
    pub(crate) batches: u64,
    pub(crate) batches_lost: u64,
    pub(crate) broker: Broker,
    pub(crate) web: Web,
    pub(crate) names: Names,
    pub(crate) scope: ScopeBucket,
    pub(crate) leases: Leases,
    pub(crate) routes: Routes,
    /// Of what schedulers share, by key, as text.
    pub(crate) ledgers: HashMap<String, String>,
    /// Claims that were entered into ledgers.
    pub(crate) entries: u64,
    pub(crate) checks: Checks,
    pub(crate) faults: Faults,
    /// Processes that run, paused ones too.
    pub(crate) up: HashMap<Place, Process>,
    /// How far the wall clock of a place's machine is ahead of the world's, in nanoseconds.
    pub(crate) clocks: HashMap<Place, i64>,
    /// Until when a place stands still.
    pub(crate) paused: HashMap<Place, Micros>,
    /// Until when a place has no connection to the broker.
    pub(crate) cut: HashMap<Place, Micros>,
    /// Places that die in their next step that brings something about.
    pub(crate) dying: HashMap<Place, usize>,
    /// Who has the partitions of the stages with state, and what is on its way.
    pub(crate) moves: Moves,
    /// Messages that the broker lost.
    pub(crate) lost: usize,
    /// Why a process ended for good: what it found is not what was there.
    pub(crate) refusal: Option<Rewound>,
    pub(crate) trace: bool,
}

impl Around {
    /// Whether a message between a place and the broker is lost.
    pub(crate) fn is_lost(&mut self, place: Place) -> bool {
        self.is_cut_off(place) || self.dice.chance(self.faults.lost)
    }

    /// Whether a place has no connection to the broker.
    pub(crate) fn is_cut_off(&self, place: Place) -> bool {
        self.cut.get(&place).is_some_and(|&until| until > self.now)
    }

    fn latency(&mut self) -> Micros {
        self.dice.within(100..600)
    }

    /// A message that is late leaves the order of its line.
    fn is_late(&mut self) -> bool {
        self.dice.chance(self.faults.late)
    }

    /// Sends a publish on its way.
    pub(crate) fn publish(&mut self, from: Process, token: u64, message: Outgoing) {
        if !self.is_lost(from.place) {
            let at = self.now + self.latency();
            self.agenda.over(
                Line::ToBroker(from),
                at,
                Happening::Publish {
                    from,
                    token,
                    message,
                },
            );
        }
    }

    /// A publish arrives at the broker.
    pub(crate) fn arrive(&mut self, from: Process, token: u64, message: &Outgoing) {
        // What a dead process had sent may have got as far as the network, or not.
        if self.up.get(&from.place) != Some(&from) && self.dice.below(2) == 0 {
            return;
        }
        // A broker that was restored is another process: what was on its way to the one before it
        // does not arrive.
        if self.faults.copies > 0 && self.is_cut_off(from.place) {
            return;
        }
        let pub_ack = |stream: String, sequence, is_repeat| PubAck {
            stream: stream.into(),
            sequence,
            is_repeat,
        };
        let stream = self.routes.subjects.stream(message.edge.name());
        let answer = match self.broker.store(self.now, message) {
            Storing::Stored(sequence) => {
                self.tell(|| {
                    format!(
                        "{} {sequence} stored as {}",
                        message.edge.name(),
                        message.id
                    )
                });
                self.dispatch(message.edge);
                Input::Stored(token, pub_ack(stream, sequence, false))
            }
            Storing::Known => Input::Stored(token, pub_ack(stream, 0, true)),
            Storing::Refused => Input::Refused(token),
        };
        if !self.is_lost(from.place) {
            let at = self.now + self.latency();
            self.agenda
                .over(Line::FromBroker(from), at, Happening::To(from, answer));
        }
    }

    /// A process asks for its lease to be renewed; it may be renewed although the process does not
    /// learn of it.
    pub(crate) fn renew(&mut self, from: Process) {
        if self.is_lost(from.place) {
            return;
        }
        let asked = self.now;
        let answer = match self.leases.take(self.now, from) {
            Some(taken) => Input::Leased { asked, taken },
            None => Input::LeaseLost,
        };
        if !self.is_lost(from.place) {
            let at = self.now + self.latency();
            self.agenda
                .over(Line::FromBroker(from), at, Happening::To(from, answer));
        }
    }

    /// How long a step takes: nothing, but now and then longer than a lease.
    pub(crate) fn step_takes(&mut self) -> Micros {
        if self.dice.chance(self.faults.slow_steps) {
            self.dice.within(MILLISECOND..2 * self.leases.lasts)
        } else {
            0
        }
    }

    /// The broker comes back from a kill: the acks of its last moments are forgotten, whatever was
    /// delivered to nobody who acked it comes again, and no process has a connection for a while.
    pub(crate) fn restart_broker(&mut self, micros: Micros) {
        self.broker
            .forget_acks(self.now.saturating_sub(ACKS_FORGOTTEN));
        let mut places: Vec<Place> = self.up.keys().copied().collect();
        places.sort();
        for place in places {
            self.cut_off(place, micros);
        }
    }

    /// The broker is killed, its store is replaced by an earlier copy, and it comes back: to each
    /// process at another time.
    pub(crate) fn restore_broker(&mut self, age: Micros) {
        let lost = self.broker.restore(self.now.saturating_sub(age));
        self.lost += lost;
        self.tell(|| {
            format!("the broker is restored from a copy of {age} us ago: {lost} messages are lost")
        });
        let mut places: Vec<Place> = self.up.keys().copied().collect();
        places.sort();
        for place in places {
            let micros = self.dice.within(SECOND / 2..6 * SECOND);
            self.cut_off(place, micros);
        }
    }

    /// What the broker says of streams.
    pub(crate) fn look(&self, expected: Vec<Expected>) -> Vec<StreamLook> {
        let look = |expected: Expected| {
            let edge = self.routes.edge_of_stream(&expected.stream);
            let at_given = self
                .broker
                .stored_at(edge, expected.given)
                .map(since_1970_ns);
            StreamLook {
                created: 1,
                last: self.broker.last(edge),
                at_given,
                expected,
            }
        };
        expected.into_iter().map(look).collect()
    }

    /// A process ends for good.
    pub(crate) fn refuse(&mut self, place: Place, rewound: Rewound) {
        self.tell(|| format!("{place:?} refuses: {rewound}"));
        self.refusal.get_or_insert(rewound);
    }

    /// A place has no connection to the broker for a while; its process may see that or not.
    pub(crate) fn cut_off(&mut self, place: Place, micros: Micros) {
        let until = self.now + micros;
        let until = *self
            .cut
            .entry(place)
            .and_modify(|before| *before = until.max(*before))
            .or_insert(until);
        self.agenda
            .at(until, Happening::Incident(place, Incident::Resume));
        if let Some(&process) = self.up.get(&place)
            && self.dice.below(2) == 0
        {
            self.agenda
                .at(self.now, Happening::To(process, Input::Disconnected));
        }
    }

    /// Delivers what a stream holds.
    pub(crate) fn dispatch(&mut self, edge: Edge) {
        let up = &self.up;
        let paused = &self.paused;
        let cut = &self.cut;
        let now = self.now;
        let between = &self.moves.between;
        let reachable = |place: Place| {
            let blocked = |until: &HashMap<Place, Micros>| {
                until.get(&place).is_some_and(|&until| until > now)
            };
            // A paused process has asked for messages before; one that is cut off gets none.
            let asks = !blocked(cut) && !blocked(paused) && !between.contains(&place);
            up.get(&place).copied().filter(|_| asks)
        };
        let dice = &mut self.dice;
        for dispatched in self
            .broker
            .dispatch(now, edge, reachable, |n| dice.below(n))
        {
            let delivery = dispatched.delivery;
            let consumer = delivery.consumer;
            let sequence = delivery.sequence;
            let overdue = Happening::Overdue {
                edge,
                consumer,
                sequence,
                delivery: dispatched.number,
            };
            self.agenda
                .at(self.now + self.broker.ack_wait(edge), overdue);
            if self.dice.chance(self.faults.repeated) {
                let at = self.now + self.dice.within(MILLISECOND..10 * SECOND);
                self.agenda.at(
                    at,
                    Happening::To(dispatched.to, Input::Delivery(delivery.clone())),
                );
            }
            let happening = Happening::To(dispatched.to, Input::Delivery(delivery));
            if self.is_late() {
                let at = self.now + self.dice.within(MILLISECOND..60 * SECOND);
                self.agenda.at(at, happening);
            } else {
                let at = self.now + self.latency();
                self.agenda
                    .over(Line::FromBroker(dispatched.to), at, happening);
            }
        }
    }

    /// Delivers everything that can be delivered.
    pub(crate) fn dispatch_all(&mut self) {
        for edge in Edge::ALL {
            self.dispatch(edge);
        }
    }

    /// A process acks an input.
    pub(crate) fn ack(&mut self, from: Process, edge: Edge, consumer: usize, sequence: u64) {
        if !self.is_lost(from.place) {
            let at = self.now + self.latency();
            self.agenda.over(
                Line::ToBroker(from),
                at,
                Happening::Ack {
                    edge,
                    consumer,
                    sequence,
                },
            );
        }
    }

    /// A process gives an input back: it is to come again, to whoever draws it then.
    pub(crate) fn nak(&mut self, from: Process, edge: Edge, consumer: usize, sequence: u64) {
        if !self.is_lost(from.place) {
            let at = self.now + self.latency();
            self.agenda.over(
                Line::ToBroker(from),
                at,
                Happening::Nak {
                    edge,
                    consumer,
                    sequence,
                },
            );
        }
    }

    /// The process of a place that listens to what others send.
    fn listener(&self, place: Place) -> Option<Process> {
        self.up
            .get(&place)
            .copied()
            .filter(|_| !self.moves.between.contains(&place))
    }

    /// A place stands still for a while.
    pub(crate) fn stand_still(&mut self, place: Place, micros: Micros) {
        self.paused.insert(place, self.now + micros);
        self.agenda.at(
            self.now + micros,
            Happening::Incident(place, Incident::Resume),
        );
    }

    /// A process tells the broker that it still has an input in hand.
    pub(crate) fn extend(&mut self, from: Process, edge: Edge, consumer: usize, sequence: u64) {
        if !self.is_lost(from.place) {
            let at = self.now + self.latency();
            self.agenda.over(
                Line::ToBroker(from),
                at,
                Happening::Extend {
                    edge,
                    consumer,
                    sequence,
                },
            );
        }
    }

    /// A process sends a soft message.
    pub(crate) fn send(&mut self, from: Process, edge: Edge, token: &Token, payload: Bytes) {
        self.checks.sends(self.now, from, edge, &payload);
        let Some(place) = self.addressee(edge, token) else {
            return;
        };
        if self.is_lost(from.place) || self.is_lost(place) {
            return;
        }
        if let Some(to) = self.listener(place) {
            let happening = Happening::To(
                to,
                Input::Soft(SoftMessage {
                    edge,
                    payload,
                    reply: None,
                }),
            );
            let at = self.now + self.soft_latency();
            self.agenda
                .over(Line::Soft(from.place, place), at, happening);
        }
    }

    /// Soft messages keep their order; a late one holds up those behind it.
    fn soft_latency(&mut self) -> Micros {
        if self.is_late() {
            self.dice.within(MILLISECOND..30 * SECOND)
        } else {
            self.latency()
        }
    }

    fn addressee(&mut self, edge: Edge, token: &Token) -> Option<Place> {
        // What is for taps alone is for nobody here.
        let (stage, source) = topology::consumers(edge).next()?;
        match (source, token) {
            (Source::Addressed(_), Token::Instance(name)) => Some(Place {
                stage,
                instance: name.parse().ok()?,
            }),
            (Source::OwnedSoft(_), Token::Partition(partition)) => self.user_of(stage, *partition),
            (Source::Any(_), _) => {
                let all = self.up.keys().copied();
                let mut up: Vec<Place> = all.filter(|place| place.stage == stage).collect();
                up.sort();
                self.dice.pick(&up).copied()
            }
            _ => panic!("a soft message on {} to {token:?}", edge.name()),
        }
    }

    /// A fetcher asks a scheduler for jobs.
    pub(crate) fn ask(&mut self, id: EffectId, scheduler: u16, ask: &Ask) {
        let asked = |result| {
            Answer::Fetcher(Fetched::Asked {
                scheduler,
                ask: ask.ask,
                result,
            })
        };
        self.answer(id, REPLY_TIMEOUT, asked(Asked::NoAnswer));
        let to = Place {
            stage: StageName::Scheduler,
            instance: scheduler,
        };
        let request = Request::Jobs {
            scheduler,
            ask: ask.ask,
        };
        if let Some(latency) = self.request(id, to, Edge::FetchAsks, encode(ask), request) {
            self.answer(id, latency, asked(Asked::NoScheduler));
        }
    }

    /// A parser asks dedup who had bodies first.
    pub(crate) fn ask_content(&mut self, id: EffectId, dedup: u16, ask: &ContentAsk) {
        let unanswered = || Answer::Parser(Judged { dedup, reply: None });
        self.answer(id, REPLY_TIMEOUT, unanswered());
        let to = Place {
            stage: StageName::Dedup,
            instance: dedup,
        };
        if let Some(latency) = self.request(
            id,
            to,
            Edge::ContentAsks,
            encode(ask),
            Request::Content { dedup },
        ) {
            self.answer(id, latency, unanswered());
        }
    }

    /// A scheduler enters a claim into a ledger, which may change although nobody learns of it.
    pub(crate) fn enter_claim(&mut self, id: EffectId, claim: Claim) {
        let from = id.process.place;
        let mut answer = None;
        if !self.is_lost(from) {
            self.entries += 1;
            let ledger = self.ledgers.entry(claim.quota.key()).or_default();
            let Entered {
                text,
                answer: entered,
            } = claim.enter(ledger).expect("a ledger");
            *ledger = text.unwrap_or(std::mem::take(ledger));
            answer = Some(entered).filter(|_| !self.is_lost(from));
        }
        let after = if answer.is_some() {
            self.latency()
        } else {
            LEDGER_TIMEOUT
        };
        self.answer(
            id,
            after,
            Answer::Scheduler(answer.unwrap_or_else(|| claim.unanswered())),
        );
    }

    /// Sends a request, unless it is lost; when nobody is there, says after how long that is known.
    fn request(
        &mut self,
        id: EffectId,
        to: Place,
        edge: Edge,
        payload: Bytes,
        request: Request,
    ) -> Option<Micros> {
        let from = id.process.place;
        if self.is_lost(from) || self.is_lost(to) {
            return None;
        }
        let latency = self.soft_latency();
        let Some(process) = self.listener(to) else {
            return Some(latency);
        };
        let message = SoftMessage {
            edge,
            payload,
            reply: Some(ReplyTo {
                effect: id,
                request,
            }),
        };
        let at = self.now + latency;
        self.agenda.over(
            Line::Soft(from, to),
            at,
            Happening::To(process, Input::Soft(message)),
        );
        None
    }

    /// A process replies to a request.
    pub(crate) fn reply(&mut self, from: Process, to: ReplyTo, payload: &[u8]) {
        if self.is_lost(from.place) || self.is_lost(to.effect.process.place) {
            return;
        }
        let answer = match to.request {
            Request::Jobs { scheduler, ask } => Answer::Fetcher(Fetched::Asked {
                scheduler,
                ask,
                result: Asked::Reply(decode(payload).expect("a reply")),
            }),
            Request::Content { dedup } => Answer::Parser(Judged {
                dedup,
                reply: Some(decode(payload).expect("a reply")),
            }),
        };
        let at = self.now + self.soft_latency();
        let line = Line::Soft(from.place, to.effect.process.place);
        self.agenda.over(
            line,
            at,
            Happening::To(to.effect.process, Input::Answer(to.effect.number, answer)),
        );
    }

    /// Work ends.
    pub(crate) fn answer(&mut self, id: EffectId, after: Micros, answer: Answer) {
        self.agenda.at(
            self.now + after,
            Happening::To(id.process, Input::Answer(id.number, answer)),
        );
    }

    /// Whether a place dies in this step, and after how many acts.
    pub(crate) fn dies_in_step(&mut self, place: Place, acts: bool) -> Option<usize> {
        if acts {
            self.dying.remove(&place)
        } else {
            None
        }
    }

    /// Whether a place dies before the batch is committed that it has in hand.
    pub(crate) fn dies_in_batch(&mut self, place: Place, steps: usize) -> bool {
        let dies = self.dying.contains_key(&place) && self.batch_dice.below(2) == 0;
        if dies {
            self.dying.remove(&place);
            self.batches_lost += u64::from(steps > 1);
        }
        dies
    }

    /// Whether a batch ends although more is there.
    pub(crate) fn batch_ends(&mut self) -> bool {
        self.batch_dice.below(8) == 0
    }

    /// What the wall clock of a place's machine says, in nanoseconds since 1970.
    pub(crate) fn wall_clock(&self, place: Place) -> i64 {
        let ahead = self.clocks.get(&place).copied().unwrap_or_default();
        since_1970_ns(self.now).saturating_add(ahead)
    }

    /// Draws when clocks jump, from a blink to more than a year.
    pub(crate) fn plan_clock_steps(&mut self, places: &[Place], mut dice: Dice) {
        for _ in 0..self.faults.clock_steps {
            let at = dice.within(0..self.faults.until_s * SECOND);
            let longest = *dice.pick(&[2, 3600, 400 * 86_400]).unwrap_or(&2);
            let by = 1000 * dice.within(1..longest * SECOND) as i64;
            let by = if dice.below(2) == 0 { by } else { -by };
            if let Some(&place) = dice.pick(places) {
                self.agenda.at(at, Happening::ClockStep(place, by));
            }
        }
    }

    /// Whether no server can be reached now.
    pub(crate) fn is_web_cut(&self) -> bool {
        self.faults.web_cut.contains(&self.now)
    }

    /// Draws the incidents of the run.
    pub(crate) fn plan_incidents(&mut self, places: &[Place]) {
        for _ in 0..self.faults.incidents {
            let at = self.dice.within(0..self.faults.until_s * SECOND);
            if self.faults.deafness_alone {
                self.plan_deafness(at, places);
                continue;
            }
            let Some(&place) = self.dice.pick(places) else {
                return;
            };
            let incident = match self.dice.below(8) {
                // What a process without state published is known to itself alone.
                0..4 if self.faults.copies > 0 && !place.stage.row().has_state => Incident::Pause {
                    micros: self.interruption(),
                },
                0 | 1 => Incident::Crash,
                2 | 3 => Incident::CrashInStep {
                    after: self.dice.below(4),
                },
                4 => Incident::Pause {
                    micros: self.interruption(),
                },
                5 => Incident::Cut {
                    micros: self.interruption(),
                },
                6 => Incident::Usurped {
                    micros: self.interruption(),
                },
                _ => {
                    let micros = self.dice.within(SECOND / 2..20 * SECOND);
                    self.agenda.at(at, Happening::BrokerRestart { micros });
                    continue;
                }
            };
            self.agenda.at(at, Happening::Incident(place, incident));
        }
        for _ in 0..self.faults.copies {
            let at = self.dice.within(SECOND..self.faults.until_s * SECOND);
            let age = self.dice.within(MILLISECOND..5 * SECOND);
            self.agenda.at(at, Happening::BrokerRestored { age });
        }
    }

    /// Draws an incident in which a scheduler, or nobody, can hear for a while.
    fn plan_deafness(&mut self, at: Micros, places: &[Place]) {
        let schedulers: Vec<Place> = places
            .iter()
            .copied()
            .filter(|place| place.stage == StageName::Scheduler)
            .collect();
        let Some(&place) = self.dice.pick(&schedulers) else {
            return;
        };
        let micros = self.interruption();
        let happening = match self.dice.below(3) {
            0 => Happening::Incident(place, Incident::Pause { micros }),
            1 => Happening::Incident(place, Incident::Cut { micros }),
            _ => Happening::BrokerRestart { micros },
        };
        self.agenda.at(at, happening);
    }

    /// Some outlast leases, some rules of robots.txt.
    fn interruption(&mut self) -> Micros {
        let longest_s = *self.dice.pick(&[5, 40, 200]).unwrap_or(&40);
        self.dice.within(SECOND / 10..longest_s * SECOND)
    }

    /// Says what happens, when somebody wants to know.
    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.trace {
            eprintln!("{:>12.6} {}", self.now as f64 / SECOND as f64, what());
        }
    }
}
