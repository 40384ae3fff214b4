//! The state of a server's robots.txt: what is known of it, how to get at it, and what an answer
//! means.
//!
//! RFC 9309, section 2.3.1: a 2xx is read; redirects are followed, to other servers too, five in a
//! row; other 3xx and 4xx mean that there is none, so all is allowed; 429, 5xx and no answer mean
//! that it cannot be reached, so nothing is allowed. What cannot be reached is tried again after a
//! wait, `attempts` times; until then the server's URLs wait, after that they are disallowed for a
//! while. When the robots.txt lies on another server, the silence of the scheduler that was asked
//! for it is no such try: that server may have to wait, or no fetcher may be there. It is asked
//! again. What it answers counts from when it was first asked, since nobody knows how long the
//! answer was on its way: it was fetched after that, and so is no older than it counts (P5).
//!
//! The text of a robots.txt lies in a table of its own, so that a server's record stays small.

use crate::politeness::pauses::back_off;
use crate::settings::Settings;
use crate::store::clock::Clock;
use crate::store::codec::{Reader, Writer};
use rhumb_robots::BYTES_MAX;
use rhumb_stage::store::Table;
use rhumb_url::time::Timestamp;
use rhumb_url::{canonical, server_of};
use rhumb_wire::message::RobotsResponse;
use std::time::Duration;

/// Table of robots.txt texts: server → body.
pub(crate) const ROBOTS: Table = "robots";
/// Redirects followed in a row (RFC 9309, section 2.3.1.2).
const REDIRECTS_MAX: u8 = 5;

/// A robots.txt that could not be reached counts as out of reach for this long, at least.
const UNREACHABLE_MIN: Duration = Duration::from_secs(1);

/// What may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Everything.
    AllowAll = 0,
    /// Nothing: robots.txt could not be reached.
    Unreachable = 1,
    /// What the stored text says.
    Text = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    rules: Rules,
    until: Timestamp,
    crawl_delay_ms: u32,
}

/// A robots.txt asked of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Errand {
    /// Since when its answer is wanted.
    since: Timestamp,
    /// Times it was asked for.
    asked: u8,
    again_at: Timestamp,
}

/// The place where redirects led.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Detour {
    /// How many redirects there were.
    redirects: u8,
    target: Box<str>,
    /// What was asked, when that place is on another server.
    errand: Option<Errand>,
}

/// The state of a server's robots.txt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RobotsState {
    known: Option<Known>,
    /// Failed tries in a row.
    tries: u8,
    detour: Option<Box<Detour>>,
}

/// What an answer brings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The text, to be stored; [`RobotsState::set_text`] follows.
    Text(&'a [u8]),
    /// All is allowed; a stored text is void.
    AllowAll,
    /// Another request is needed.
    Redirect,
    /// It cannot be reached for now: the server is left alone for this long.
    Wait(Duration),
    /// It cannot be reached.
    Unreachable,
}

/// How to get at a server's robots.txt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// By a job for the server itself.
    Own,
    /// By asking for this URL on another server, now.
    Errand(String),
    /// It was asked for there: wait until then.
    Wait(Timestamp),
}

impl RobotsState {
    /// The rules, while they hold.
    pub(crate) fn rules(&self, now: Timestamp) -> Option<Rules> {
        self.known
            .filter(|known| known.until > now)
            .map(|known| known.rules)
    }

    /// The time until which the last rules hold, or held.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        self.known.map(|known| known.until)
    }

    /// Crawl-delay of the last rules, also when they are stale: politeness does not lapse.
    pub(crate) fn crawl_delay(&self) -> Duration {
        self.known.map_or(Duration::ZERO, |known| {
            Duration::from_millis(known.crawl_delay_ms.into())
        })
    }

    /// URL to request on the server itself, when that is where robots.txt is to be got.
    pub(crate) fn own_url(&self, server: &str) -> String {
        match &self.detour {
            Some(detour) if detour.errand.is_none() => detour.target.to_string(),
            _ => format!("{server}/robots.txt"),
        }
    }

    /// Says how to get at it.
    pub(crate) fn next(&self, now: Timestamp) -> Next {
        match self.errand() {
            Some((errand, _)) if errand.again_at > now => Next::Wait(errand.again_at),
            Some((_, target)) => Next::Errand(target.to_owned()),
            None => Next::Own,
        }
    }

    fn errand(&self) -> Option<(Errand, &str)> {
        let detour = self.detour.as_ref()?;
        Some((detour.errand?, &detour.target))
    }

    /// What was asked of another server, while its answer is awaited.
    pub(crate) fn errand_url(&self) -> Option<String> {
        self.errand().map(|(_, target)| target.to_owned())
    }

    /// Returns whether the last try brought no answer, or none that says anything.
    pub(crate) fn was_tried_in_vain(&self) -> bool {
        self.tries > 0
            || self
                .known
                .is_some_and(|known| known.rules == Rules::Unreachable)
    }

    /// Returns whether the answer of another server is awaited.
    pub(crate) fn awaits_errand(&self) -> bool {
        self.errand().is_some()
    }

    /// The other server was asked.
    pub(crate) fn asked(&mut self, now: Timestamp, settings: &Settings) {
        if let Some(errand) = self
            .detour
            .as_mut()
            .and_then(|detour| detour.errand.as_mut())
        {
            errand.asked = errand.asked.saturating_add(1);
            errand.again_at = now + back_off(settings, errand.asked);
        }
    }

    /// Takes the answer to the request for `url`; none when there was none.
    pub(crate) fn answered<'a>(
        &mut self,
        now: Timestamp,
        server: &str,
        url: &str,
        response: Option<&'a RobotsResponse>,
        settings: &Settings,
    ) -> Found<'a> {
        let Some(response) = response else {
            return self.failed(now, settings);
        };
        match response.status {
            200..=299 => Found::Text(text_of(response).unwrap_or_default()),
            300..=399 => {
                let redirects = self.detour.as_ref().map_or(0, |detour| detour.redirects);
                match target_of(url, response) {
                    Some(target) if redirects < REDIRECTS_MAX => {
                        let elsewhere = server_of(&target) != server;
                        let errand = elsewhere.then_some(Errand {
                            since: now,
                            asked: 0,
                            again_at: now,
                        });
                        let detour = Detour {
                            redirects: redirects + 1,
                            target: target.into(),
                            errand,
                        };
                        self.detour = Some(Box::new(detour));
                        Found::Redirect
                    }
                    _ => self.allow_all(now, settings),
                }
            }
            429 => self.failed(now, settings),
            400..=499 => self.allow_all(now, settings),
            _ => self.failed(now, settings),
        }
    }

    /// Notes that a try brought no answer, or none that says anything.
    pub(crate) fn failed(&mut self, now: Timestamp, settings: &Settings) -> Found<'static> {
        let tries = self.tries.saturating_add(1);
        if tries >= settings.scheduler.attempts {
            return self.give_up(now, settings);
        }
        let known = self.known;
        *self = RobotsState {
            known,
            tries,
            ..RobotsState::default()
        };
        Found::Wait(back_off(settings, tries))
    }

    /// Gives up: there will be no answer.
    fn give_up(&mut self, now: Timestamp, settings: &Settings) -> Found<'static> {
        self.learn(
            now,
            Rules::Unreachable,
            settings.scheduler.retry_wait_max.max(UNREACHABLE_MIN),
            self.crawl_delay(),
        );
        // When the rules have lapsed, and URLs still come, one more try decides.
        self.tries = settings.scheduler.attempts.saturating_sub(1);
        Found::Unreachable
    }

    fn allow_all(&mut self, now: Timestamp, settings: &Settings) -> Found<'static> {
        self.learn(
            self.age_from(now),
            Rules::AllowAll,
            lifetime(settings),
            Duration::ZERO,
        );
        Found::AllowAll
    }

    /// The text that came was stored; this is the Crawl-delay in it.
    pub(crate) fn set_text(&mut self, now: Timestamp, crawl_delay: Duration, settings: &Settings) {
        self.learn(
            self.age_from(now),
            Rules::Text,
            lifetime(settings),
            crawl_delay,
        );
    }

    /// A Crawl-delay was read in a text whose rules are not used.
    pub(crate) fn heed_crawl_delay(&mut self, crawl_delay: Duration) {
        let stale = Known {
            rules: Rules::Text,
            until: Timestamp::ZERO,
            crawl_delay_ms: 0,
        };
        self.known.get_or_insert(stale).crawl_delay_ms = rounded_up_ms(crawl_delay);
    }

    /// From when the rules count that come `now`.
    fn age_from(&self, now: Timestamp) -> Timestamp {
        self.errand().map_or(now, |(errand, _)| errand.since)
    }

    /// What holds from `since` on.
    fn learn(&mut self, since: Timestamp, rules: Rules, lifetime: Duration, crawl_delay: Duration) {
        let known = Known {
            rules,
            until: since + lifetime,
            crawl_delay_ms: rounded_up_ms(crawl_delay),
        };
        *self = RobotsState {
            known: Some(known),
            ..RobotsState::default()
        };
    }

    /// Writes it into the server's record. Redirects followed so far are soft state.
    pub(crate) fn write(&self, row: &mut Writer, clock: Clock) {
        row.byte(self.tries);
        match &self.known {
            None => row.byte(0),
            Some(known) => {
                row.byte(1 + known.rules as u8);
                row.number(clock.life());
                row.number(clock.store(known.until));
                row.number(known.crawl_delay_ms.into());
            }
        }
    }

    /// Reads it from the server's record. Rules of an earlier life are stale: nobody knows how long
    /// ago it ended (P5).
    pub(crate) fn read(row: &mut Reader<'_>, clock: Clock) -> Option<Self> {
        let tries = row.byte()?;
        let rules = match row.byte()? {
            0 => {
                return Some(RobotsState {
                    tries,
                    ..RobotsState::default()
                });
            }
            1 => Rules::AllowAll,
            2 => Rules::Unreachable,
            3 => Rules::Text,
            _ => return None,
        };
        let life = row.number()?;
        let until = row.number()?;
        let crawl_delay_ms = row.small()?;
        let until = if life == clock.life() {
            clock.restore(until)
        } else {
            Timestamp::ZERO
        };
        let known = Some(Known {
            rules,
            until,
            crawl_delay_ms,
        });
        Some(RobotsState {
            known,
            tries,
            ..RobotsState::default()
        })
    }
}

/// The text in the answer to a request for a robots.txt, as much of it as is read; none when there
/// is no robots.txt.
pub(crate) fn text_of(response: &RobotsResponse) -> Option<&[u8]> {
    matches!(response.status, 200..=299)
        .then(|| &response.body[..response.body.len().min(BYTES_MAX)])
}

/// Rounded up: a pause must not become shorter.
fn rounded_up_ms(pause: Duration) -> u32 {
    u32::try_from(pause.as_micros().div_ceil(1000)).unwrap_or(u32::MAX)
}

/// Returns how long rules are used. A job granted at the last moment still ends within their
/// lifetime (P5).
fn lifetime(settings: &Settings) -> Duration {
    settings.politeness.robots_lifetime
        - settings
            .scheduler
            .visit_budget
            .min(settings.politeness.robots_lifetime / 2)
}

fn target_of(url: &str, response: &RobotsResponse) -> Option<String> {
    if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let base = url::Url::parse(url).ok()?;
    canonical(response.location.as_deref()?, Some(&base), None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    const SERVER: &str = "http://a.test";
    const URL: &str = "http://a.test/robots.txt";

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn response(status: u16, location: Option<&str>) -> RobotsResponse {
        RobotsResponse {
            status,
            location: location.map(str::to_owned),
            body: b"User-agent: *".to_vec(),
        }
    }

    #[test]
    fn statuses_mean_what_rfc_9309_says() {
        let settings = settings();
        for status in [400, 401, 403, 404, 410, 499, 300, 304, 301] {
            let mut robots = RobotsState::default();
            assert_eq!(
                robots.answered(at(0), SERVER, URL, Some(&response(status, None)), &settings),
                Found::AllowAll
            );
            assert_eq!(robots.rules(at(1)), Some(Rules::AllowAll), "{status}");
        }
        for status in [429, 500, 503, 599, 100, 0] {
            let mut robots = RobotsState::default();
            let answer = response(status, None);
            for wait in [30, 60, 120] {
                let found = robots.answered(at(0), SERVER, URL, Some(&answer), &settings);
                assert_eq!(found, Found::Wait(Duration::from_secs(wait)), "{status}");
                assert_eq!(robots.rules(at(1)), None);
            }
            assert_eq!(
                robots.answered(at(0), SERVER, URL, Some(&answer), &settings),
                Found::Unreachable
            );
            assert_eq!(robots.rules(at(1)), Some(Rules::Unreachable));
        }
    }

    #[test]
    fn redirects_are_followed_five_times_then_all_is_allowed() {
        let settings = settings();
        let mut robots = RobotsState::default();
        for hop in 0..5 {
            let answer = response(301, Some(&format!("/{hop}#x")));
            assert_eq!(
                robots.answered(at(0), SERVER, URL, Some(&answer), &settings),
                Found::Redirect
            );
            assert_eq!(robots.next(at(0)), Next::Own);
            assert_eq!(robots.own_url(SERVER), format!("http://a.test/{hop}"));
        }
        assert_eq!(
            robots.answered(
                at(0),
                SERVER,
                URL,
                Some(&response(301, Some("/x"))),
                &settings
            ),
            Found::AllowAll
        );
    }

    #[test]
    fn another_server_is_asked_until_it_answers_and_fails_so_often_and_no_more() {
        let settings = settings();
        let mut robots = RobotsState::default();
        let redirect = response(308, Some("https://www.a.test/robots.txt"));
        let mut now = at(0);
        for tries in 1..=settings.scheduler.attempts {
            assert_eq!(robots.next(now), Next::Own);
            assert_eq!(
                robots.answered(now, SERVER, URL, Some(&redirect), &settings),
                Found::Redirect
            );
            for _ in 0..2 * settings.scheduler.attempts {
                assert_eq!(
                    robots.next(now),
                    Next::Errand("https://www.a.test/robots.txt".into())
                );
                robots.asked(now, &settings);
                let Next::Wait(until) = robots.next(now) else {
                    panic!("asks without a pause")
                };
                now = until;
            }
            let found = robots.answered(
                now,
                SERVER,
                "https://www.a.test/robots.txt",
                None,
                &settings,
            );
            assert_eq!(
                found == Found::Unreachable,
                tries == settings.scheduler.attempts,
                "{found:?}"
            );
        }
    }

    #[test]
    fn what_another_server_answers_counts_from_when_it_was_asked_however_late_it_is_heard() {
        let settings = settings();
        let day = settings.politeness.robots_lifetime - settings.scheduler.visit_budget;
        let elsewhere = "https://www.a.test/robots.txt";
        let asked = || {
            let mut robots = RobotsState::default();
            let redirect = response(308, Some(elsewhere));
            assert_eq!(
                robots.answered(at(0), SERVER, URL, Some(&redirect), &settings),
                Found::Redirect
            );
            robots.asked(at(0), &settings);
            robots
        };
        for (status, rules) in [(200, Rules::Text), (404, Rules::AllowAll)] {
            let mut robots = asked();
            let hour = at(3600);
            robots.answered(
                hour,
                SERVER,
                elsewhere,
                Some(&response(status, None)),
                &settings,
            );
            if rules == Rules::Text {
                robots.set_text(hour, Duration::ZERO, &settings);
            }
            assert_eq!(robots.rules(hour), Some(rules));
            assert_eq!(
                robots.rules(at(0) + day),
                None,
                "a day after it was asked for"
            );

            let mut robots = asked();
            let too_late = at(0) + day;
            robots.answered(
                too_late,
                SERVER,
                elsewhere,
                Some(&response(status, None)),
                &settings,
            );
            if rules == Rules::Text {
                robots.set_text(too_late, Duration::ZERO, &settings);
            }
            assert_eq!(
                (robots.rules(too_late), robots.next(too_late)),
                (None, Next::Own),
                "it is got anew"
            );
        }
    }

    #[test]
    fn what_is_stored_comes_back_but_rules_of_an_earlier_life_are_stale() {
        let settings = settings();
        let clock = Clock::resume(0, at(0), 1);
        let mut robots = RobotsState::default();
        robots.set_text(at(10), Duration::from_secs(3), &settings);
        let mut row = Writer::with_capacity(0);
        robots.write(&mut row, clock);
        let row = row.finish();
        assert_eq!(
            RobotsState::read(&mut Reader::new(&row).unwrap(), clock),
            Some(robots)
        );
        let later = Clock::resume(clock.store(at(20)), at(0), 2);
        let stale = RobotsState::read(&mut Reader::new(&row).unwrap(), later).unwrap();
        assert_eq!(
            (stale.rules(at(0)), stale.crawl_delay()),
            (None, Duration::from_secs(3))
        );
    }

    #[test]
    fn rules_lapse_before_their_lifetime_does() {
        let settings = settings();
        let mut robots = RobotsState::default();
        robots.set_text(at(0), Duration::ZERO, &settings);
        assert_eq!(robots.rules(at(24 * 3600 - 61)), Some(Rules::Text));
        assert_eq!(robots.rules(at(24 * 3600 - 60)), None);
    }
}
