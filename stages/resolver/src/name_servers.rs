//! Which name server next? What is known of how well each one answers.
//!
//! In: how questions ended, with the time. Out: in which order to ask the servers, and after how
//! long without an answer it pays to ask another one as well.
//!
//! A question goes where its answer is expected soonest: smoothed latency times the questions that
//! are under way there, this one included. So load is spread as the servers can take it. A server
//! that failed several times in a row rests for a time that doubles with every further failure; one
//! answer ends that. While all rest, all are asked.
//!
//! Invariant: every server is in every order exactly once.
//!
//! Source: latency and its deviation are smoothed as TCP does it (RFC 6298, section 2).

use std::time::{Duration, Instant};

/// After this many failures in a row a server rests,
const FAILURES_TO_REST: u32 = 5;
/// at first for so long,
const REST: Duration = Duration::from_secs(1);
/// at last for so long.
const REST_MAX: Duration = Duration::from_secs(60);
/// How long an answer is taken to need of a server that has given none (RFC 6298, section 2.1).
const LATENCY_UNKNOWN: Duration = Duration::from_secs(1);

/// The servers by number.
#[derive(Debug)]
pub struct NameServers {
    servers: Vec<Standing>,
    /// Who comes first among equals; goes round.
    turn: usize,
}

#[derive(Clone, Debug, Default)]
struct Standing {
    latency: Option<Latency>,
    under_way: u32,
    /// Since the last answer.
    failures: u32,
    rests_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Latency {
    smoothed: Duration,
    deviation: Duration,
}

impl NameServers {
    /// Creates `count` servers that nothing is known about.
    pub fn new(count: usize) -> Self {
        NameServers {
            servers: vec![Standing::default(); count],
            turn: 0,
        }
    }

    /// The order in which to ask: those that do not rest, the soonest expected answer first; then
    /// the others, the one whose rest ends soonest first.
    pub fn order(&mut self, now: Instant) -> Vec<usize> {
        let count = self.servers.len();
        let turn = self.turn;
        self.turn = (turn + 1) % count.max(1);
        let mut order: Vec<usize> = (0..count).map(|place| (turn + place) % count).collect();
        order.sort_by_key(|&server| {
            let standing = &self.servers[server];
            let rest = standing
                .rests_until
                .map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
            (rest, standing.expected())
        });
        order
    }

    /// After how long without an answer of this server another one should be asked as well.
    pub fn hedge_after(&self, server: usize) -> Duration {
        self.servers[server]
            .latency
            .map_or(LATENCY_UNKNOWN, |latency| {
                latency.smoothed + 4 * latency.deviation
            })
    }

    /// A question goes out.
    pub fn asked(&mut self, server: usize) {
        self.servers[server].under_way += 1;
    }

    /// An answer came.
    pub fn answered(&mut self, server: usize, took: Duration) {
        let standing = &mut self.servers[server];
        standing.under_way -= 1;
        standing.failures = 0;
        standing.rests_until = None;
        standing.measure(took);
    }

    /// None came, or one that says that the server cannot or will not answer.
    pub fn failed(&mut self, server: usize, took: Duration, now: Instant) {
        let standing = &mut self.servers[server];
        standing.under_way -= 1;
        standing.failures = standing.failures.saturating_add(1);
        // To be refused quickly is no reason to come again.
        standing.measure(took.max(LATENCY_UNKNOWN));
        if let Some(more) = standing.failures.checked_sub(FAILURES_TO_REST) {
            let rest = REST.saturating_mul(2u32.saturating_pow(more)).min(REST_MAX);
            standing.rests_until = Some(now + rest);
        }
    }

    /// Another server was faster: this one needs at least so long.
    pub fn left_behind(&mut self, server: usize, after: Duration) {
        let standing = &mut self.servers[server];
        standing.under_way -= 1;
        if standing
            .latency
            .is_none_or(|latency| latency.smoothed < after)
        {
            standing.measure(after);
        }
    }
}

impl Standing {
    /// When an answer to one more question is expected. A server that nothing is known of is tried
    /// at once, but not by everybody.
    fn expected(&self) -> Duration {
        match self.latency {
            Some(latency) => latency.smoothed.saturating_mul(self.under_way + 1),
            None => LATENCY_UNKNOWN.saturating_mul(self.under_way),
        }
    }

    fn measure(&mut self, took: Duration) {
        self.latency = Some(match self.latency {
            None => Latency {
                smoothed: took,
                deviation: took / 2,
            },
            Some(Latency {
                smoothed,
                deviation,
            }) => Latency {
                smoothed: (smoothed * 7 + took) / 8,
                deviation: (deviation * 3 + smoothed.abs_diff(took)) / 4,
            },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn resting(servers: &NameServers, now: Instant) -> usize {
        servers
            .servers
            .iter()
            .filter(|standing| standing.rests_until.is_some_and(|until| until > now))
            .count()
    }

    fn ask(servers: &mut NameServers, now: Instant) -> usize {
        let server = servers.order(now)[0];
        servers.asked(server);
        server
    }

    #[test]
    fn servers_that_nothing_is_known_of_take_turns() {
        let mut servers = NameServers::new(3);
        let now = Instant::now();
        let first: Vec<usize> = (0..6).map(|_| servers.order(now)[0]).collect();
        assert_eq!(first, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn load_is_spread_by_latency() {
        let mut servers = NameServers::new(2);
        let now = Instant::now();
        for (server, latency) in [(0, 10), (1, 30)] {
            servers.asked(server);
            servers.answered(server, latency * MILLISECOND);
        }
        let mut asked = [0; 2];
        for _ in 0..400 {
            asked[ask(&mut servers, now)] += 1;
        }
        assert!(
            (295..=305).contains(&asked[0]),
            "three times as fast, {asked:?}"
        );
    }

    #[test]
    fn a_server_that_fails_rests_longer_each_time_until_it_answers() {
        let mut servers = NameServers::new(2);
        let mut now = Instant::now();
        let fail = |servers: &mut NameServers, now| {
            servers.asked(0);
            servers.failed(0, Duration::ZERO, now);
        };
        for _ in 1..FAILURES_TO_REST {
            fail(&mut servers, now);
        }
        assert_eq!(resting(&servers, now), 0);
        for rest_s in [1, 2, 4, 8, 16, 32, 60, 60] {
            fail(&mut servers, now);
            let end = now + Duration::from_secs(rest_s);
            assert_eq!(
                (resting(&servers, end - MILLISECOND), resting(&servers, end)),
                (1, 0),
                "{rest_s}"
            );
            assert_eq!(
                (servers.order(now), servers.order(now)),
                (vec![1, 0], vec![1, 0])
            );
            now = end;
        }
        fail(&mut servers, now);
        servers.asked(0);
        servers.answered(0, MILLISECOND);
        assert_eq!(resting(&servers, now), 0);
        fail(&mut servers, now);
        assert_eq!(resting(&servers, now), 0, "counted anew");
    }

    #[test]
    fn another_server_is_asked_after_what_is_usual_and_some_deviation() {
        let mut servers = NameServers::new(1);
        assert_eq!(servers.hedge_after(0), LATENCY_UNKNOWN);
        for _ in 0..100 {
            servers.asked(0);
            servers.answered(0, 40 * MILLISECOND);
        }
        let steady = servers.hedge_after(0);
        assert!(
            (40 * MILLISECOND..42 * MILLISECOND).contains(&steady),
            "{steady:?}"
        );
        servers.asked(0);
        servers.left_behind(0, MILLISECOND);
        assert_eq!(
            servers.hedge_after(0),
            steady,
            "that it was not faster than that is nothing new"
        );
        servers.asked(0);
        servers.left_behind(0, 400 * MILLISECOND);
        assert!(servers.hedge_after(0) > 2 * steady);
    }

    proptest! {
        /// Goal: the module's invariant, and nothing overflows. Method: random questions with
        /// random ends; a model counts what is under way, and failures since the last answer.
        #[test]
        fn every_order_has_every_server_once_and_those_that_rest_last(
            count in 1usize..6, ends in proptest::collection::vec((0u8..4, 0u64..100_000, 0u64..5_000), 0..200),
        ) {
            let mut servers = NameServers::new(count);
            let mut now = Instant::now();
            let mut under_way = Vec::new();
            let mut failures = vec![0; count];
            for (end, took_ms, pause_ms) in ends {
                now += Duration::from_millis(pause_ms);
                let order = servers.order(now);
                let mut sorted = order.clone();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..count).collect::<Vec<_>>());
                let awake = count - resting(&servers, now);
                for (place, &server) in order.iter().enumerate() {
                    let rests = servers.servers[server].rests_until.is_some_and(|until| until > now);
                    prop_assert_eq!(rests, place >= awake);
                    prop_assert!(!rests || failures[server] >= FAILURES_TO_REST);
                }
                servers.asked(order[0]);
                under_way.push(order[0]);
                let took = Duration::from_millis(took_ms);
                match end {
                    0 => {}
                    1 => {
                        let server = under_way.remove(0);
                        servers.answered(server, took);
                        failures[server] = 0;
                    }
                    2 => {
                        let server = under_way.remove(0);
                        servers.failed(server, took, now);
                        failures[server] += 1;
                    }
                    _ => servers.left_behind(under_way.remove(0), took),
                }
                for (server, standing) in servers.servers.iter().enumerate() {
                    let expected = under_way.iter().filter(|&&asked| asked == server).count();
                    prop_assert_eq!(standing.under_way as usize, expected);
                }
            }
        }
    }
}
