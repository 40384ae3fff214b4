//! Plan: what a seed stands for: how many instances, which limits, which faults.

use super::dice::Dice;
use crate::stages::STAGES;
use rhumb_config::{Follow, Group, GroupedBy, Layers, Pipeline, RecrawlPolicy, Topic};
use std::time::Duration;

/// Simulated microseconds since the beginning.
pub(crate) type Micros = u64;
pub(crate) const MILLISECOND: Micros = 1_000;
pub(crate) const SECOND: Micros = 1_000_000;

/// One simulation, all of it drawn from its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// What goes wrong.
    pub faults: Faults,
    /// Injections of the first seeds again, by number, and when; the same one may come twice.
    pub again: Vec<(u64, Micros)>,
    /// Servers of the web.
    pub servers: usize,
    /// Pages of each server at most.
    pub pages_max: usize,
    /// Messages that a bounded stream holds at most.
    pub capacity: usize,
    /// The configuration of all stages.
    pub pipeline: Pipeline,
}

/// What goes wrong, beside what servers and name servers do by themselves.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Crashes and pauses, and connections to the broker cut for a while.
    pub incidents: usize,
    /// In simulated seconds, when the last of them happens.
    pub until_s: u64,
    /// Messages lost, in ten thousand: soft ones, publishes, PubAcks and acks.
    pub lost: u64,
    /// Stream messages delivered twice, in ten thousand.
    pub repeated: u64,
    /// Messages that take up to a minute, in ten thousand.
    pub late: u64,
    /// Steps that take up to twice as long as a lease on partitions lasts, in ten thousand.
    pub slow_steps: u64,
    /// Incidents in which schedulers cannot hear for a while are the only ones: pauses and cuts of
    /// theirs, and kills of the broker, which stays away.
    pub deafness_alone: bool,
    /// Times that another number of instances of a stage with state is wanted.
    pub scalings: usize,
    /// Times that the broker is restored from an earlier copy of its store.
    pub copies: usize,
    /// From when to when no server can be reached.
    pub web_cut: std::ops::Range<u64>,
    /// From when to when no name server answers.
    pub names_dead: std::ops::Range<u64>,
    /// Times that the wall clock of a machine jumps, forward or back.
    pub clock_steps: usize,
}

impl Faults {
    /// Whether nothing goes wrong.
    pub fn is_none(&self) -> bool {
        let Faults {
            incidents,
            until_s: _,
            lost,
            repeated,
            late,
            slow_steps,
            deafness_alone: _,
            scalings,
            copies,
            web_cut,
            names_dead,
            clock_steps,
        } = self;
        let counts = [incidents, scalings, copies, clock_steps].map(|many| *many as u64);
        let shares = [*lost, *repeated, *late, *slow_steps];
        let ends = [web_cut.end, names_dead.end];
        let counts = [counts.as_slice(), &shares, &ends].concat();
        counts.iter().all(|&many| many == 0)
    }
}

impl Faults {
    /// The same, and in every third run the name servers die for a while, in every second one
    /// clocks jump.
    fn with_names_and_clocks(mut self, seed: u64) -> Faults {
        // By dice of its own: all else is what it is without these.
        let mut dice = Dice::new(seed ^ 0x6e61_6d65_7320_2b1d);
        if dice.below(3) == 0 {
            let from = dice.within(0..self.until_s * SECOND);
            self.names_dead = from..from + dice.within(SECOND..60 * SECOND);
        }
        if dice.below(2) == 0 {
            self.clock_steps = 1 + dice.below(6);
        }
        self
    }
}

impl Plan {
    /// A run in which processes and broker work, on a web of 5 to 20 servers with up to 40 pages
    /// each.
    pub fn without_faults(seed: u64) -> Plan {
        let mut dice = Dice::new(seed);
        let servers = dice.within(5..21) as usize;
        Plan {
            servers,
            pages_max: 40,
            faults: Faults::default(),
            ..Plan::drawn(seed, &mut dice)
        }
    }

    /// A run with losses, repeats, delays, crashes, pauses and cuts, on a smaller web.
    pub fn with_faults(seed: u64) -> Plan {
        let mut dice = Dice::new(seed);
        let faults = Faults {
            incidents: dice.within(1..13) as usize,
            until_s: dice.within(5..120),
            lost: *dice.pick(&[0, 20, 100, 300]).unwrap_or(&0),
            repeated: *dice.pick(&[0, 50, 200]).unwrap_or(&0),
            late: *dice.pick(&[0, 20, 100]).unwrap_or(&0),
            slow_steps: *dice.pick(&[0, 0, 5, 20]).unwrap_or(&0),
            deafness_alone: false,
            // By dice of its own: a run without scalings is what it is without these.
            scalings: 2 * Dice::new(!seed).below(12).saturating_sub(7),
            copies: 0,
            web_cut: 0..0,
            names_dead: 0..0,
            clock_steps: 0,
        }
        .with_names_and_clocks(seed);
        let servers = dice.within(5..10) as usize;
        let mut plan = Plan {
            servers,
            pages_max: 14,
            faults,
            ..Plan::drawn(seed, &mut dice)
        };
        if seed.is_multiple_of(3) {
            // While faults last: an injection, its message once more after a while, and another
            // injection.
            let until = plan.faults.until_s * SECOND;
            plan.again = vec![(7, until / 5), (7, until / 2), (8, until * 4 / 5)];
        }
        plan.shorten_memory(&mut dice);
        if Dice::new(seed ^ 0x746f_7069_6373_77e1).below(3) == 0 {
            plan.with_topics()
        } else {
            plan
        }
    }

    /// The same with topics of several priorities, each with some of the seeds. Schedulers know
    /// some of them in one life and others in the next: they are added and removed.
    fn with_topics(mut self) -> Plan {
        let mut dice = Dice::new(self.seed ^ 0x736c_6963_6573_0b3d);
        // What is crawled would depend on who finds a page first.
        self.pipeline.scope.follow = Follow::Any;
        // The seeds of all topics are there from the beginning.
        self.capacity = self.capacity.max(8);
        for number in 0..dice.within(1..5) {
            let topic = Topic {
                priority: *dice.pick(&[0, 0, 5, 9]).unwrap_or(&0),
                slice: dice
                    .pick(&[10, 1000, 60_000])
                    .copied()
                    .map(Duration::from_millis),
                pages_min: *dice.pick(&[0, 0, 3]).unwrap_or(&0),
                ..Topic::default()
            };
            self.pipeline.topics.insert(format!("t{number}"), topic);
        }
        self
    }

    /// A run in which schedulers cannot hear for a while, up to ten times as long as a job's lease,
    /// and nothing else goes wrong.
    pub fn with_deafness(seed: u64) -> Plan {
        let mut dice = Dice::new(seed);
        let incidents = dice.within(1..5) as usize;
        let until_s = dice.within(5..60);
        let faults = Faults {
            incidents,
            until_s,
            deafness_alone: true,
            ..Faults::default()
        };
        Plan {
            servers: dice.within(5..10) as usize,
            pages_max: 30,
            faults,
            ..Plan::drawn(seed, &mut dice)
        }
    }

    /// The same, and the broker is restored from an earlier copy of its store once or twice.
    #[must_use]
    pub fn with_copies(mut self) -> Plan {
        // A table of owners from before a move is another matter.
        self.faults.scalings = 0;
        self.faults.copies = 1 + (self.seed % 2) as usize;
        // Nobody but its sender knows of an injection before it is taken in.
        self.again.clear();
        self
    }

    /// A run in which no server can be reached for longer than it takes to give up each, and
    /// nothing else goes wrong.
    pub fn with_a_cut_web(seed: u64) -> Plan {
        let mut dice = Dice::new(seed);
        // So late that more servers are known than doubt needs, and on so large a web that enough
        // of them are in play: of a few nobody can tell whether they are at fault or the network.
        let from = dice.within(20 * SECOND..40 * SECOND);
        let web_cut = from..from + dice.within(300 * SECOND..500 * SECOND);
        let faults = Faults {
            until_s: web_cut.end / SECOND,
            web_cut,
            ..Faults::default()
        };
        Plan {
            servers: 60,
            pages_max: 30,
            faults,
            ..Plan::drawn(seed, &mut dice)
        }
    }

    /// The same with a budget of 1 to 12 pages for each host, of which many have two servers, or of
    /// up to 24 for each registered domain, of which many have three hosts.
    #[must_use]
    pub fn with_budget(mut self) -> Plan {
        match self.seed % 2 {
            0 => self.pipeline.limits.pages_per_host = 1 + self.seed / 2 % 12,
            _ => self.pipeline.limits.pages_per_domain = 1 + self.seed / 2 % 24,
        }
        // More often with several schedulers, and with moves.
        let mut dice = Dice::new(self.seed ^ 0x746f_6b65_6e73_0a51);
        self.pipeline.stages.scheduler.replicas = 1 + dice.below(3) as u16;
        if self.faults.incidents > 0 {
            self.faults.scalings = 2 * dice.below(4);
        }
        // What is fetched again uses up budgets that the web's truth knows nothing of.
        self.again.clear();
        // A robots.txt that a used up budget leaves unread names no sitemaps: which ones are
        // depends on the order.
        self.pipeline.limits.sitemaps_per_server = 0;
        self
    }

    /// The same with groups: every registered domain, of which many have three hosts, is one, and
    /// so are, in some runs, the hosts of one of these domains and others. Several schedulers share
    /// them, and move.
    #[must_use]
    pub fn with_groups(mut self) -> Plan {
        let mut dice = Dice::new(self.seed ^ 0x6b79_6c6f_7330_31aa);
        let delay =
            |dice: &mut Dice| Duration::from_millis(*dice.pick(&[0, 0, 300, 2500]).unwrap_or(&0));
        let hosts = ["*.sim0.test", "*.sim2.test"].map(|text| serde_json::from_value(text.into()));
        let hosts = hosts
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("no hosts: {error}"));
        let listed = Group {
            by: None,
            hosts,
            jobs_max: 1 + dice.below(2) as u32,
            delay: delay(&mut dice),
        };
        let by = Some(GroupedBy::RegisteredDomain);
        let domains = Group {
            by,
            hosts: Vec::new(),
            jobs_max: 1 + dice.below(2) as u32,
            delay: delay(&mut dice),
        };
        self.pipeline.politeness.groups = if dice.below(2) == 0 {
            vec![domains]
        } else {
            vec![listed, domains]
        };
        // More often with several schedulers, and with moves.
        self.pipeline.stages.scheduler.replicas = 1 + dice.below(3) as u16;
        if self.faults.incidents > 0 {
            self.faults.scalings = 2 * dice.below(4);
        }
        self
    }

    /// The same, and each page is visited two to four times, by one of the policies, or by that of
    /// its topic within a budget of its own; a third of the pages change with each look.
    #[must_use]
    pub fn with_visits(mut self) -> Plan {
        let mut dice = Dice::new(self.seed ^ 0x7669_7369_7473_1f3d);
        let policies = [
            RecrawlPolicy::Fresh,
            RecrawlPolicy::Interval,
            RecrawlPolicy::Uniform,
        ];
        let recrawl = &mut self.pipeline.recrawl;
        recrawl.policy = *dice.pick(&policies).unwrap_or(&RecrawlPolicy::Uniform);
        recrawl.requests_per_second = dice.within(2..100);
        recrawl.interval_min = Duration::from_secs(dice.within(1..20));
        recrawl.interval_max = Duration::from_secs(60);
        recrawl.forget_after = Duration::from_secs(*dice.pick(&[0, 0, 10]).unwrap_or(&0));
        recrawl.visits_max = dice.within(2..5) as u32;
        for topic in self.pipeline.topics.values_mut() {
            if dice.below(2) == 0 {
                topic.recrawl.policy = dice.pick(&policies).copied();
                topic.recrawl.requests_per_second = Some(dice.within(2..100));
                topic.recrawl.interval_min = Some(Duration::from_secs(dice.within(1..20)));
            }
        }
        // More often with several schedulers, and with moves.
        self.pipeline.stages.scheduler.replicas = 1 + dice.below(3) as u16;
        if self.faults.incidents > 0 {
            self.faults.scalings = 2 * dice.below(4);
        }
        self
    }

    /// A broker that forgets ids at once, or that waits for acks for a moment only.
    fn shorten_memory(&mut self, dice: &mut Dice) {
        let forgets = dice.below(3) == 0;
        let ack_wait_s = *dice.pick(&[2, 30, 30]).unwrap_or(&30);
        let edges = &mut self.pipeline.edges;
        let urls = &mut edges.urls;
        for edge in [
            &mut urls.found,
            &mut urls.split,
            &mut urls.new,
            &mut urls.ready,
            &mut edges.pages.stream,
            &mut edges.pages.signals,
            &mut edges.outcomes,
            &mut edges.fetch.reports,
        ] {
            edge.ack_wait = Duration::from_secs(ack_wait_s);
            if forgets {
                edge.duplicate_window = Duration::ZERO;
            }
        }
    }

    fn drawn(seed: u64, dice: &mut Dice) -> Plan {
        let one_or_two = |dice: &mut Dice| 1 + dice.below(2);
        let mut set: Vec<String> = [
            // Retries so many that no fault uses them up: how a URL ends depends on the web alone.
            "stages.scheduler.attempts=20",
            "stages.scheduler.resolve_attempts=20",
            "stages.scheduler.retry_wait=2s",
            "stages.scheduler.retry_wait_max=20s",
            "stages.scheduler.server_failures_max=12",
            "stages.resolver.cache.temporary=1s",
            "limits.request_timeout=8s",
            "limits.connect_timeout=3s",
            "network.user_agent='rhumb/0 (+https://example.org/simulation)'",
            "partitions=8",
        ]
        .map(str::to_owned)
        .to_vec();
        for stage in STAGES {
            set.push(format!("stages.{stage}.replicas={}", one_or_two(dice)));
        }
        set.push(format!(
            "stages.fetcher.connections={}",
            dice.pick(&[1, 3, 64]).unwrap_or(&64)
        ));
        set.push(format!(
            "stages.host-splitter.batch_urls_max={}",
            dice.pick(&[1, 7, 256]).unwrap_or(&256)
        ));
        for stage in ["host-splitter", "dedup"] {
            let policy = dice
                .pick(&["clock", "lru", "random", "none"])
                .unwrap_or(&"clock");
            set.push(format!("stages.{stage}.cache.policy={policy}"));
            set.push(format!(
                "stages.{stage}.cache.entries={}",
                dice.pick(&[1, 20, 65_536]).unwrap_or(&65_536)
            ));
        }
        set.push(format!(
            "stages.dedup.store={}",
            dice.pick(&["disk", "disk", "memory"]).unwrap_or(&"disk")
        ));
        // With little memory, what is known goes to the runs, and repeats are questions to them.
        set.push(format!(
            "stages.dedup.buffer_bytes={}",
            dice.pick(&["4KiB", "64MiB"]).unwrap_or(&"64MiB")
        ));
        let policy = dice
            .pick(&["breadth-first", "performance", "quality", "capacity"])
            .unwrap_or(&"capacity");
        set.push(format!("stages.scheduler.policy={policy}"));
        set.push(format!(
            "stages.scheduler.quality={}",
            dice.pick(&["depth", "flow", "links", "opic"])
                .unwrap_or(&"depth")
        ));
        set.push(format!(
            "politeness.connections_per_address={}",
            dice.pick(&[0, 1, 2]).unwrap_or(&0)
        ));
        set.push(format!(
            "politeness.download_factor={}",
            dice.pick(&[0, 1, 4]).unwrap_or(&1)
        ));
        set.push(format!(
            "limits.sitemaps_per_server={}",
            dice.pick(&[0, 1, 5]).unwrap_or(&0)
        ));
        set.push(format!(
            "stages.scheduler.requests_per_connection={}",
            dice.pick(&[3, 50]).unwrap_or(&50)
        ));
        set.push(format!(
            "stages.scheduler.job_lease={}s",
            dice.pick(&[6, 20]).unwrap_or(&20)
        ));
        set.push("stages.fetcher.renew_every=2s".to_owned());
        set.push(format!(
            "politeness.robots_lifetime={}",
            dice.pick(&["1m", "24h"]).unwrap_or(&"24h")
        ));
        set.push(format!(
            "stages.resolver.cache.refresh={}",
            dice.pick(&["10s", "30m"]).unwrap_or(&"30m")
        ));
        set.push(format!(
            "scope.follow={}",
            dice.pick(&["host", "any"]).unwrap_or(&"any")
        ));
        // The environment of whoever runs the tests does not count.
        let pipeline = Layers { file: None, set }
            .load_with(std::iter::empty())
            .unwrap_or_else(|error| panic!("the simulation's configuration is not valid: {error}"));
        let capacity = *dice.pick(&[1, 4, 1000]).unwrap_or(&1000);
        Plan {
            seed,
            faults: Faults::default(),
            again: Vec::new(),
            servers: 0,
            pages_max: 0,
            capacity,
            pipeline,
        }
    }
}
