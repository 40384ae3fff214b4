//! Verdict: what must hold after a trial, by what the web saw and what `rhumb` said at its end.
//!
//! Invariant: nothing is tolerated that docs/guarantees.md does not state.

use super::hand::Claim;
use super::kind::Kind;
use super::schedule::{Fault, Schedule};
use super::trial::{RENEW, delay};
use crate::harness::{Finished, HONEST_HOSTS, Running, World};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use synthetic_web::{Contact, Truth};

/// How long a process that died, or a connection that broke, takes until it is of use again.
const BACK_WITHIN: Duration = Duration::from_secs(4);
/// Until a report has arrived.
const REPORT: Duration = Duration::from_millis(500);
/// The exit code of a refusal.
const REFUSED: i32 = 2;
/// What a refusal says can be done.
const WAY_OUT: &str = "rhumb crawl --resume --accept-loss";

/// What a trial that passed came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passed {
    /// The crawl refused to go on, as it may after some faults.
    pub refused: bool,
    /// URLs of honest hosts that were requested more than once.
    pub repeats: u64,
    /// How many of them the faults allow.
    pub repeats_max: u64,
    /// The longest time in which the whole web saw no request.
    pub pause: Duration,
    /// From the last order of an operator to the end of all moves, where there were orders.
    pub even_after: Option<Duration>,
    /// From the start of the web to the verdict.
    pub elapsed: Duration,
}

/// Judges a crawl that has ended.
///
/// # Panics
/// When a promise does not hold; the message names all that do not.
pub(crate) fn of(
    schedule: &Schedule,
    world: &World,
    mut crawl: Running,
    claims: Vec<Claim>,
    elapsed: Duration,
) -> Passed {
    let report = world.web.report();
    let contacts = world.web.contacts();
    let repeats = report.repeats.count;
    let repeats_max = repeats_max(schedule);
    let passed = Passed {
        repeats,
        repeats_max,
        pause: longest_pause(&contacts),
        elapsed,
        ..Passed::default()
    };
    let code = crawl.exit_code(Duration::ZERO);
    let log = crawl.log();
    if code == REFUSED
        && schedule
            .faults
            .iter()
            .any(|fault| fault.kind.may_be_refused())
    {
        assert!(
            log.contains(WAY_OUT),
            "the refusal names no way out:\n{log}"
        );
        return Passed {
            refused: true,
            ..passed
        };
    }
    let finished = crawl.finish(Duration::ZERO);
    let mut wrong = wrong_with(schedule, world, &finished, &contacts);
    // A broker that comes back with earlier files has forgotten later orders.
    if !schedule.has(Kind::Restore, None) {
        let began = world.web.began();
        let in_hand = usize::from(schedule.has(Kind::Stop, Some("fetcher")));
        wrong.extend(
            claims
                .iter()
                .flat_map(|claim| claim.broken_by(&contacts, began, in_hand)),
        );
    }
    if repeats > repeats_max {
        wrong.push(format!(
            "{repeats} URLs requested again, at most {repeats_max}: {:?}",
            report.repeats.listed
        ));
    }
    assert!(wrong.is_empty(), "{}\n{log}", wrong.join("; "));
    passed
}

/// What does not hold of P1 to P3 and P5.
fn wrong_with(
    schedule: &Schedule,
    world: &World,
    finished: &Finished,
    contacts: &[Contact],
) -> Vec<String> {
    let report = world.web.report();
    let truth = world.web.truth();
    let Finished { code, summary } = finished;
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, otherwise: String| {
        if !holds {
            wrong.push(otherwise);
        }
    };
    expect(
        *code == 0 && summary.complete,
        format!("exit code {code}, complete: {}", summary.complete),
    );
    // Where nothing was dropped, all is as without the order.
    let has_dropped = summary
        .outcomes
        .get("dropped")
        .is_some_and(|dropped| *dropped > 0);
    match schedule
        .faults
        .iter()
        .find(|fault| fault.kind == Kind::Drop && has_dropped)
    {
        Some(fault) => {
            let host = fault.target.parse().expect("the number of a host");
            let name = world.web.host_name(host);
            let missing =
                missing_elsewhere(&truth, contacts, &name, &world.web.found_only_through(host));
            expect(
                missing.is_empty(),
                format!("never requested, although not of {name}: {missing:?}"),
            );
            let more = more_than_true(&summary.outcomes, &truth.outcomes);
            expect(
                more.is_empty(),
                format!("{more:?} are more than in {:?}", truth.outcomes),
            );
        }
        None => {
            expect(
                report.missing.count == 0,
                format!("never requested: {:?}", report.missing),
            );
            let is_true = summary.outcomes == truth.outcomes;
            expect(
                is_true,
                format!("outcomes {:?}, not {:?}", summary.outcomes, truth.outcomes),
            );
        }
    }
    let parts = summary.urls_filtered + summary.urls_repeated + summary.urls_new;
    expect(
        summary.urls_found == parts,
        format!("P3: found {} is not {parts}", summary.urls_found),
    );
    let ended: u64 = summary.outcomes.values().sum();
    expect(
        summary.urls_new == ended,
        format!("P3: new {} is not outcomes {ended}", summary.urls_new),
    );
    expect(summary.dead == 0, format!("{} dead letters", summary.dead));
    let violations = &report.violations;
    expect(
        violations.early == 0,
        format!("P2: {} early: {:?}", violations.early, violations.examples),
    );
    expect(
        violations.robots == 0,
        format!(
            "P5: {} disallowed: {:?}",
            violations.robots, violations.examples
        ),
    );
    expect(
        report.hosts_without_robots_first == 0,
        "P5: a host was not asked for robots.txt first".to_owned(),
    );
    let stale = stale(
        contacts,
        schedule.setting.robots_lifetime + schedule.setting.job_lease + BACK_WITHIN,
    );
    expect(
        stale.is_empty(),
        format!("P5: under a robots.txt that had lapsed: {stale:?}"),
    );
    // The kernel keeps the connections of a process that stands still: what counts is what is asked
    // over them.
    let stands_still = schedule.has(Kind::Stop, Some("fetcher"));
    let parallel = violations.parallel;
    expect(
        stands_still || parallel == 0,
        format!("P1: {parallel} parallel: {:?}", violations.examples),
    );
    let overtaken = overtaken(contacts);
    expect(
        overtaken <= u64::from(stands_still),
        format!("P1: {overtaken} requests on a connection after the next one"),
    );
    let nonsense = report.malformed + report.misdirected + report.unexpected.count;
    expect(
        nonsense == 0,
        format!("{nonsense} requests make no sense: {:?}", report.unexpected),
    );
    wrong
}

/// What was never requested, although it is at another host than the one whose URLs were dropped,
/// and not found through that alone.
fn missing_elsewhere<'a>(
    truth: &'a Truth,
    contacts: &[Contact],
    dropped: &str,
    through: &BTreeSet<String>,
) -> Vec<&'a str> {
    let requested: BTreeSet<&str> = contacts
        .iter()
        .map(|contact| contact.url.as_str())
        .collect();
    let expected = [&truth.pages, &truth.redirects, &truth.not_found]
        .into_iter()
        .flatten()
        .map(String::as_str);
    let of_dropped = format!("//{dropped}:");
    let is_expected = |url: &&str| !url.contains(&of_dropped) && !through.contains(*url);
    expected
        .filter(|url| is_expected(url) && !requested.contains(url))
        .collect()
}

/// Outcomes beside `dropped` of which there are more than in the truth: what is dropped ends in no
/// other way, and what it would have led to is not found.
fn more_than_true(
    outcomes: &BTreeMap<String, u64>,
    truth: &BTreeMap<String, u64>,
) -> Vec<(String, u64)> {
    let is_more = |(outcome, count): &(&String, &u64)| {
        outcome.as_str() != "dropped" && **count > truth.get(*outcome).copied().unwrap_or_default()
    };
    outcomes
        .iter()
        .filter(is_more)
        .map(|(outcome, count)| (outcome.clone(), *count))
        .collect()
}

/// The most requests on one connection that came after another connection to the same host had
/// brought one. A holder of a lease that was paused may finish the one request that it had in hand.
fn overtaken(contacts: &[Contact]) -> u64 {
    let mut newest: BTreeMap<u32, u32> = BTreeMap::new();
    let mut overtaken: BTreeMap<u32, u64> = BTreeMap::new();
    let mut contacts: Vec<&Contact> = contacts.iter().collect();
    contacts.sort_by_key(|contact| contact.at);
    for Contact {
        host, connection, ..
    } in contacts
    {
        let newest = newest.entry(*host).or_insert(*connection);
        if connection < newest {
            *overtaken.entry(*connection).or_default() += 1;
        }
        *newest = (*newest).max(*connection);
    }
    overtaken.into_values().max().unwrap_or(0)
}

/// Requests to honest hosts that came longer than this after the last one for their robots.txt. A
/// job that was granted under fresh rules may last as long as its lease.
fn stale(contacts: &[Contact], longest: Duration) -> Vec<&str> {
    let mut asked: BTreeMap<u32, Duration> = BTreeMap::new();
    let mut stale = Vec::new();
    // Those of a host come one after the other.
    for contact in contacts
        .iter()
        .filter(|contact| contact.host < HONEST_HOSTS)
    {
        if contact.url.ends_with("/robots.txt") {
            asked.insert(contact.host, contact.at);
        } else if asked
            .get(&contact.host)
            .is_none_or(|asked| contact.at > *asked + longest)
        {
            stale.push(contact.url.as_str());
        }
    }
    stale
}

fn longest_pause(contacts: &[Contact]) -> Duration {
    let mut times: Vec<Duration> = contacts.iter().map(|contact| contact.at).collect();
    times.sort_unstable();
    times
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap_or_default()
}

/// How many URLs of honest hosts the faults allow to be requested again.
fn repeats_max(schedule: &Schedule) -> u64 {
    let lease = schedule.setting.job_lease;
    // Time without scheduler or broker: a lease that is not renewed in it is lost.
    let away: Duration = schedule
        .faults
        .iter()
        .filter(|fault| keeps_reports_back(fault))
        .map(time_away)
        .sum();
    let requests_in = |time: Duration| requests_in(time, delay(schedule));
    let lost_leases = if away > lease / 2 {
        requests_in(lease)
    } else {
        0
    };
    let lost_reports: u64 = schedule
        .faults
        .iter()
        .map(|fault| repeats_of(fault, lease, requests_in))
        .sum();
    lost_leases + lost_reports
}

fn time_away(fault: &Fault) -> Duration {
    Duration::from_millis(fault.lasts_ms) + BACK_WITHIN
}

/// While it lasts, no scheduler hears of what is fetched.
fn keeps_reports_back(fault: &Fault) -> bool {
    match fault.kind {
        Kind::Broker | Kind::Disk | Kind::Restore | Kind::Rhumb | Kind::Node => true,
        Kind::Kill | Kind::Stop | Kind::Cut => {
            matches!(
                fault.target.as_str(),
                "scheduler" | "broker" | "fetcher" | "all"
            )
        }
        Kind::Scale
        | Kind::Scalings
        | Kind::Web
        | Kind::Names
        | Kind::State
        | Kind::Clock
        | Kind::Consumer => false,
        Kind::Pause | Kind::Set | Kind::Drop => false,
    }
}

/// What a fault makes unknown of requests that were made.
fn repeats_of(fault: &Fault, lease: Duration, requests_in: impl Fn(Duration) -> u64) -> u64 {
    let hosts = u64::from(HONEST_HOSTS);
    match (fault.kind, fault.target.as_str()) {
        // What was done since the last report is not known.
        (Kind::Kill, "fetcher") | (Kind::Rhumb, _) => requests_in(RENEW + REPORT),
        // What was done while nobody heard of it.
        (Kind::Stop | Kind::Cut, "fetcher" | "all") => requests_in(lease),
        // The answer to what was on its way.
        (Kind::Web, _) => hosts,
        (Kind::Restore, _) => requests_in(time_away(fault)),
        _ => 0,
    }
}

/// Requests to all honest hosts in a time: they are as many as connections, and each has its delay.
fn requests_in(time: Duration, delay: Duration) -> u64 {
    let in_time = time.as_millis() / delay.as_millis() + 1;
    u64::from(HONEST_HOSTS) * u64::try_from(in_time).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contacts(connections: &[(u32, u32)]) -> Vec<Contact> {
        let contact = |(at, &(host, connection)): (u64, &(u32, u32))| Contact {
            host,
            url: String::new(),
            at: Duration::from_secs(at),
            connection,
        };
        (0..).zip(connections).map(contact).collect()
    }

    #[test]
    fn requests_on_a_connection_that_another_has_followed_are_counted() {
        assert_eq!(
            overtaken(&contacts(&[(0, 1), (0, 1), (0, 2), (1, 3), (0, 4), (0, 4)])),
            0
        );
        assert_eq!(overtaken(&contacts(&[(0, 1), (0, 2), (0, 1), (0, 2)])), 1);
        assert_eq!(
            overtaken(&contacts(&[(0, 1), (0, 2), (0, 1), (0, 2), (0, 1)])),
            2
        );
    }

    #[test]
    fn a_request_is_stale_when_the_last_robots_txt_is_too_old_or_there_was_none() {
        let mut contacts = contacts(&[(0, 1); 4]);
        contacts[0].url = "http://h/robots.txt".to_owned();
        assert!(stale(&contacts, Duration::from_secs(3)).is_empty());
        assert_eq!(stale(&contacts, Duration::from_secs(2)).len(), 1);
        assert_eq!(stale(&contacts[1..], Duration::from_secs(9)).len(), 3);
    }

    #[test]
    fn only_what_makes_requests_unknown_allows_repeats() {
        let none = Schedule::draw(0, &[Kind::Scale]);
        assert_eq!(repeats_max(&none), 0);
        let rhumb = Schedule::draw(0, &[Kind::Rhumb]);
        assert!(repeats_max(&rhumb) >= requests_in(RENEW, delay(&rhumb)));
    }

    #[test]
    fn a_pause_is_the_longest_time_without_a_request() {
        let mut contacts = contacts(&[(0, 1), (0, 1), (1, 2)]);
        contacts[0].at = Duration::from_secs(10);
        assert_eq!(longest_pause(&contacts), Duration::from_secs(8));
    }
}
