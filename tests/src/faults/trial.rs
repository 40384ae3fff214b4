//! Trial: one crawl of the synthetic web with all its hazards, under the faults of one schedule.
//!
//! Flow: the web and, in some settings, a broker are started, then the crawl; from its first
//! request on faults begin and end at their times; from the end of the last one on `rhumb status
//! --check` is asked until the crawl has ended.

use super::broker::{OwnBroker, signal_to};
use super::clock::Clock;
use super::cluster::{Cluster, NODES};
use super::hand::Hand;
use super::kind::{BrokerKind, Kind};
use super::operator::{Operator, assert_even};
use super::proxy::ALL;
use super::schedule::{Fault, Schedule};
use super::verdict::{self, Passed};
use crate::harness::{
    CRAWL_LIMITS, Crawl, Running, World, binaries, ended_within, honest_hosts, hurried,
};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use synthetic_web::{Outage, Profile};

/// Pages of each host; and where an operator scales, which takes longer.
const PAGES: u32 = 20;
const PAGES_WHILE_SCALED: u32 = 45;
/// `politeness.delay`: long enough that most of the crawl lies within the schedule.
pub(crate) const DELAY: Duration = Duration::from_millis(250);
const DELAY_WHILE_SCALED: Duration = Duration::from_millis(700);
/// The Retry-After of the host that is busy: longer than many faults.
const RETRY_AFTER_S: u64 = 4;
/// `stages.fetcher.renew_every`
pub(crate) const RENEW: Duration = Duration::from_millis(500);
/// `edges.pages.bytes_max` where a consumer stands still: the least that is allowed, so that it
/// fills.
const SMALL_PAGES: &str = "16MiB";
/// Until the first request of a crawl.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// From the end of the last fault to the end of the crawl, beside what its longest hosts take.
const ENDS_WITHIN: Duration = Duration::from_secs(75);
/// Between two looks at a crawl that goes on.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a command that scales may take; without a broker it is given up.
const SCALE_AT_MOST: Duration = Duration::from_secs(2);
/// The last order of an operator: until it is carried out.
const EVEN_WITHIN: Duration = Duration::from_secs(30);
/// A slow disk: the broker stands still this long, and goes on for as long.
const SLOW_DISK_TURN: Duration = Duration::from_millis(50);
/// Where publishers come back first: how much later the others do.
const CONSUMERS_LATER: Duration = Duration::from_secs(5);
const CONSUMERS: [&str; 4] = ["host-splitter", "dedup", "resolver", "scheduler"];

/// Runs the trial of a schedule.
///
/// # Panics
/// When a promise does not hold; the message says which, and the folder of the crawl is kept.
pub fn run(schedule: &Schedule) -> Passed {
    let started = Instant::now();
    let world = World::new(Profile {
        delay_expected_ms: delay(schedule).as_millis() as u64,
        retry_after_s: RETRY_AFTER_S,
        ..honest_hosts(if is_scaled(schedule) {
            PAGES_WHILE_SCALED
        } else {
            PAGES
        })
        .with_all_hazards()
    });
    let mut trial = Trial::start(schedule, &world, |crawl| configured(crawl, schedule));
    trial.carry_out();
    let even_after = trial.see_it_scaled();
    trial.watch_to_the_end();
    let claims = trial.hands.into_values().filter_map(Hand::claim).collect();
    Passed {
        even_after,
        ..verdict::of(schedule, &world, trial.crawl, claims, started.elapsed())
    }
}

fn is_scaled(schedule: &Schedule) -> bool {
    schedule.has(Kind::Scalings, None)
}

/// `politeness.delay`
pub(crate) fn delay(schedule: &Schedule) -> Duration {
    if is_scaled(schedule) {
        DELAY_WHILE_SCALED
    } else {
        DELAY
    }
}

fn configured(crawl: Crawl, schedule: &Schedule) -> Crawl {
    let setting = &schedule.setting;
    hurried(crawl)
        .set(&format!(
            "politeness.delay={}ms",
            delay(schedule).as_millis()
        ))
        .set(&format!("politeness.retry_after_max={RETRY_AFTER_S}s"))
        .set("stages.scheduler.retry_wait_max=4s")
        .set(&format!(
            "politeness.robots_lifetime={}s",
            setting.robots_lifetime.as_secs()
        ))
        .set("ownership_lease=2s")
        .set("edges.urls.found.ack_wait=5s")
        .set("edges.pages.ack_wait=5s")
        .set(&format!(
            "stages.scheduler.job_lease={}s",
            setting.job_lease.as_secs()
        ))
        .set(&format!(
            "stages.fetcher.renew_every={}ms",
            RENEW.as_millis()
        ))
}

/// Who runs the broker.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Broker {
    /// `rhumb`
    Private,
    Own(OwnBroker),
    Cluster(Cluster),
}

/// A crawl that faults befall.
pub(super) struct Trial<'a> {
    schedule: &'a Schedule,
    world: &'a World,
    /// Processes that stand still because of a fault, by its number. They go on before the crawl
    /// has to end.
    under_way: BTreeMap<usize, Standstill>,
    /// Further consumers.
    guests: Vec<Guest>,
    /// What an operator does, by the number of its fault.
    hands: BTreeMap<usize, Hand>,
    crawl: Running,
    operator: Operator,
    broker: Broker,
    clock: Option<Clock>,
}

impl<'a> Trial<'a> {
    /// Starts what the setting of a schedule asks for, and a crawl of the web that is configured
    /// further.
    pub(super) fn start(
        schedule: &'a Schedule,
        world: &'a World,
        configured: impl FnOnce(Crawl) -> Crawl,
    ) -> Trial<'a> {
        let setting = &schedule.setting;
        let folder = world.data().with_file_name("broker");
        let broker = match setting.broker {
            BrokerKind::Private => Broker::Private,
            BrokerKind::Own => Broker::Own(OwnBroker::start(&folder)),
            BrokerKind::Cluster => Broker::Cluster(Cluster::start(&folder)),
        };
        let clock = schedule
            .has(Kind::Clock, None)
            .then(|| Clock::start(&world.data().with_file_name("clock")));
        let crawl = configured(world.crawl())
            .set(&format!("stages.dedup.replicas={}", setting.dedups))
            .set(&format!("stages.scheduler.replicas={}", setting.schedulers))
            .set(&format!("stages.fetcher.replicas={}", setting.fetchers))
            .set(&format!(
                "stages.archiver.replicas={}",
                u16::from(setting.archiver)
            ));
        let crawl = match &broker {
            Broker::Private => crawl,
            Broker::Own(broker) => crawl.set(&format!("broker.url={}", broker.url())),
            Broker::Cluster(cluster) => crawl
                .set(&format!("broker.url='{}'", cluster.url()))
                .set(&format!("broker.replicas={NODES}")),
        };
        let crawl = match schedule.has(Kind::Consumer, None) {
            true => crawl.set(&format!("edges.pages.bytes_max={SMALL_PAGES}")),
            false => crawl,
        };
        let environment = clock.as_ref().map_or(Vec::new(), Clock::environment);
        let crawl = environment
            .iter()
            .fold(crawl, |crawl, (name, value)| crawl.environment(name, value))
            .start();
        let operator = Operator::new(crawl.data());
        let under_way = BTreeMap::new();
        let guests = Vec::new();
        let hands = BTreeMap::new();
        Trial {
            schedule,
            world,
            under_way,
            guests,
            hands,
            crawl,
            operator,
            broker,
            clock,
        }
    }

    /// Lets the faults begin and end at their times. Gives the time of the first request, from
    /// which those count, by the clock of the web.
    pub(super) fn carry_out(&mut self) -> Duration {
        let first = Instant::now();
        while self.world.web.contacts().is_empty() {
            let is_over = first.elapsed() > STARTS_WITHIN || self.crawl.has_ended();
            assert!(!is_over, "the crawl does not start:\n{}", self.crawl.log());
            thread::sleep(Duration::from_millis(20));
        }
        let first = Instant::now();
        let schedule = self.schedule;
        let mut turns: Vec<(u64, bool, usize)> = Vec::new();
        for (number, fault) in schedule.faults.iter().enumerate() {
            turns.push((fault.at_ms, true, number));
            turns.push((fault.at_ms + fault.lasts_ms, false, number));
        }
        turns.sort_unstable_by_key(|&(at_ms, begins, _)| (at_ms, !begins));
        for (at_ms, begins, number) in turns {
            thread::sleep(Duration::from_millis(at_ms).saturating_sub(first.elapsed()));
            let fault = &schedule.faults[number];
            match begins {
                // A crawl that is over is no longer hurt, but it must not be over before it was
                // scaled.
                true if self.crawl.has_ended() => {
                    assert!(
                        fault.kind != Kind::Scalings,
                        "the crawl was too short to be scaled:\n{}",
                        self.crawl.log()
                    );
                }
                true => self.begin(number, fault),
                false => self.end(number, fault),
            }
        }
        self.world
            .web
            .contacts()
            .iter()
            .map(|contact| contact.at)
            .min()
            .unwrap_or_default()
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.crawl.has_ended()
    }

    fn begin(&mut self, number: usize, fault: &Fault) {
        if matches!(fault.kind, Kind::Broker | Kind::Rhumb) {
            self.operator.sees_a_kill();
        }
        match fault.kind {
            Kind::Kill => {
                if let Some(pid) = self.one_of(fault) {
                    signal_to(pid, Signal::KILL);
                }
            }
            Kind::Stop => {
                if let Some(pid) = self.one_of(fault) {
                    self.under_way.insert(number, Standstill::whole(pid));
                }
            }
            Kind::Disk => {
                if let Some(pid) = self.one_of(fault) {
                    self.under_way.insert(number, Standstill::half(pid));
                }
            }
            Kind::Broker => match &mut self.broker {
                Broker::Own(broker) => broker.kill(),
                _ => self
                    .crawl
                    .pids("broker")
                    .into_iter()
                    .for_each(|pid| signal_to(pid, Signal::KILL)),
            },
            Kind::Rhumb => self.start_again(),
            Kind::Scale => self.scale(&fault.target, 3),
            Kind::Scalings => self.operator.order(&fault.target),
            Kind::Cut => self.own_broker().proxy().cut(&fault.target),
            Kind::Restore => self.own_broker().keep_copy(),
            Kind::Node => self.cluster().kill(number_of(fault)),
            Kind::Clock => self
                .clock
                .iter()
                .for_each(|clock| clock.step(&fault.target)),
            Kind::Consumer => self.guests.push(Guest::start(&fault.target, &self.crawl)),
            Kind::Web => {
                let is_silent = fault.target == "silent";
                self.world.web.cut(Some(if is_silent {
                    Outage::Silent
                } else {
                    Outage::Broken
                }));
            }
            Kind::Names => self.world.web.silence_names(true),
            Kind::State => self.remove_state(&fault.target),
            Kind::Pause | Kind::Set | Kind::Drop => {
                let host = fault
                    .target
                    .parse()
                    .ok()
                    .map(|host| self.world.web.host_name(host));
                self.hands.insert(
                    number,
                    Hand::lay(fault, &self.crawl.data(), host.as_deref()),
                );
            }
        }
    }

    fn end(&mut self, number: usize, fault: &Fault) {
        self.under_way.remove(&number);
        self.hands.get(&number).into_iter().for_each(Hand::end);
        match fault.kind {
            Kind::Broker => {
                if let Broker::Own(broker) = &mut self.broker {
                    broker.restart();
                }
            }
            Kind::Scale if !self.crawl.has_ended() => self.scale(&fault.target, 1),
            Kind::Cut => self.own_broker().proxy().heal(&fault.target),
            Kind::Node => self.cluster().restart(number_of(fault)),
            Kind::Clock => self.clock.iter().for_each(|clock| clock.step("+0")),
            // For good.
            Kind::Consumer => self
                .guests
                .iter()
                .for_each(|guest| signal_to(guest.0.id(), Signal::STOP)),
            Kind::Restore if !self.crawl.has_ended() => self.restore(fault.target == ALL),
            Kind::Web => self.world.web.cut(None),
            Kind::Names => self.world.web.silence_names(false),
            _ => {}
        }
    }

    fn own_broker(&mut self) -> &mut OwnBroker {
        match &mut self.broker {
            Broker::Own(broker) => broker,
            _ => unreachable!("the fault is drawn only with such a broker"),
        }
    }

    fn cluster(&mut self) -> &mut Cluster {
        match &mut self.broker {
            Broker::Cluster(cluster) => cluster,
            _ => unreachable!("the fault is drawn only with such a broker"),
        }
    }

    /// `rhumb` is killed, and resumed.
    fn start_again(&mut self) {
        self.crawl.signal(Signal::KILL);
        self.crawl.exit_code(STARTS_WITHIN);
        let environment = self.clock.as_ref().map_or(Vec::new(), Clock::environment);
        let resumed = environment
            .iter()
            .fold(self.world.resume(), |crawl, (name, value)| {
                crawl.environment(name, value)
            });
        self.crawl = resumed.start();
    }

    /// One of the processes that a fault is upon, if there is one just now.
    fn one_of(&self, fault: &Fault) -> Option<u32> {
        let mut pids = match &self.broker {
            Broker::Own(broker) if fault.target == "broker" => vec![broker.pid()],
            _ => self.crawl.pids(&fault.target),
        };
        pids.sort_unstable();
        pids.get(fault.at_ms as usize % pids.len().max(1)).copied()
    }

    fn scale(&mut self, stage: &str, replicas: u16) {
        let mut command = Command::new(binaries().join("rhumb"));
        command
            .args(["scale", &format!("{stage}={replicas}"), "--data"])
            .arg(self.crawl.data());
        let scaled = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut scaled = scaled.expect("rhumb can be started");
        if ended_within(&mut scaled, SCALE_AT_MOST).is_none() {
            let _ = scaled.kill();
            let _ = scaled.wait();
        }
    }

    /// The broker comes back with its earlier files; unless all do at once, those that consume find
    /// it later.
    fn restore(&mut self, all_at_once: bool) {
        let broker = self.own_broker();
        if all_at_once {
            return broker.restore();
        }
        CONSUMERS.iter().for_each(|stage| broker.proxy().cut(stage));
        broker.restore();
        thread::sleep(CONSUMERS_LATER);
        CONSUMERS
            .iter()
            .for_each(|stage| broker.proxy().heal(stage));
    }

    /// Removes the state of a stage and ends its processes, which are started again.
    fn remove_state(&mut self, stage: &str) {
        let folder = self.crawl.data().join(stage);
        let away = folder.with_file_name(format!("{stage}-removed"));
        if std::fs::rename(&folder, &away).is_ok() {
            self.crawl
                .pids(stage)
                .into_iter()
                .for_each(|pid| signal_to(pid, Signal::KILL));
            let _ = std::fs::remove_dir_all(&away);
        }
    }

    /// Waits until the last order of the operator is carried out, if there are any, and looks at
    /// the owners of the partitions. Gives the time that it took.
    fn see_it_scaled(&mut self) -> Option<Duration> {
        let order = &self
            .schedule
            .faults
            .iter()
            .rfind(|fault| fault.kind == Kind::Scalings)?
            .target;
        let even_after = self.operator.finish(EVEN_WITHIN);
        assert!(
            !self.crawl.has_ended(),
            "the crawl was too short to be scaled:\n{}",
            self.crawl.log()
        );
        assert_even(&self.crawl, order);
        even_after
    }

    /// Looks at the crawl, which has no more faults to meet, until it has ended.
    fn watch_to_the_end(&mut self) {
        let since = Instant::now();
        let at_most = ENDS_WITHIN + CRAWL_LIMITS.pages_per_host * delay(self.schedule);
        while !self.crawl.has_ended() {
            let violations = self.crawl.violations();
            assert!(
                violations.is_empty(),
                "{}:\n{}",
                violations.join("; "),
                self.crawl.log()
            );
            let is_late = since.elapsed() > at_most;
            assert!(
                !is_late,
                "does not end within {at_most:?} of the last fault:\n{}",
                self.crawl.log()
            );
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// The number of the node that a fault is upon.
fn number_of(fault: &Fault) -> usize {
    fault.target.parse().unwrap_or_default()
}

/// A further consumer, killed when dropped.
struct Guest(Child);

impl Guest {
    /// Starts one, and does not wait for it: the broker may be away.
    fn start(name: &str, crawl: &Running) -> Guest {
        let mut command = Command::new(binaries().join(name));
        command.args([
            "--set",
            &format!("broker.url={}", crawl.handle().broker),
            "--config",
        ]);
        command.arg(crawl.data().join("configuration.json"));
        let started = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Guest(started.expect("a further stage can be started"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that stands still, all the time or half of it, until the value is dropped.
struct Standstill {
    pid: u32,
    alternating: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

impl Standstill {
    fn whole(pid: u32) -> Standstill {
        signal_to(pid, Signal::STOP);
        Standstill {
            pid,
            alternating: None,
            is_over: Arc::default(),
        }
    }

    fn half(pid: u32) -> Standstill {
        let is_over = Arc::<AtomicBool>::default();
        let told = Arc::clone(&is_over);
        let alternating = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                for signal in [Signal::STOP, Signal::CONT] {
                    signal_to(pid, signal);
                    thread::sleep(SLOW_DISK_TURN);
                }
            }
        });
        Standstill {
            pid,
            alternating: Some(alternating),
            is_over,
        }
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(alternating) = self.alternating.take() {
            let _ = alternating.join();
        }
        signal_to(self.pid, Signal::CONT);
    }
}
