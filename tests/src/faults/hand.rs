//! Hand: what an operator does to a crawl that faults befall (`rhumb pause`, `set`, `drop`), and
//! takes back.
//!
//! Flow: a command is given until every process has heard it; when its fault ends, the one that
//! takes it back is, until the crawl has ended; a drop holds to the end. What the web must not see
//! in between is a claim, which the verdict holds against what it saw.

use super::command_line::CommandLine;
use super::kind::Kind;
use super::schedule::Fault;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use synthetic_web::{Contact, EARLY_TOLERANCE};

/// Before a command that not every process heard is given again.
const PAUSE: Duration = Duration::from_millis(500);
/// From the end of a command that all have heard, until no request may contradict it.
const HEEDED_WITHIN: Duration = Duration::from_secs(1);

/// A command that holds until it is taken back, if it is.
pub(super) struct Hand {
    kind: Kind,
    target: String,
    is_ending: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    /// None when not all heard it in time.
    held: JoinHandle<io::Result<Option<Held>>>,
}

/// From when a command was heard by all, until it was taken back, if it was.
type Held = (Instant, Option<Instant>);

/// What the web must not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    kind: Kind,
    target: String,
    from: Instant,
    until: Instant,
}

impl Hand {
    /// Gives the command, and waits for nothing. `host` is the name of the host that it is about,
    /// if it is about one.
    pub(super) fn lay(fault: &Fault, data: &Path, host: Option<&str>) -> Hand {
        let (words, taken_back) = words(fault, host);
        let line =
            |words: &str| CommandLine::new(data, words, &format!("{}.log", fault.kind.name()));
        let order = line(&words);
        let back = taken_back.as_deref().map(line);
        let is_ending = Arc::<AtomicBool>::default();
        let is_over = Arc::<AtomicBool>::default();
        let ending = Arc::clone(&is_ending);
        let over = Arc::clone(&is_over);
        let held = thread::spawn(move || {
            let Some(back) = back else {
                return Ok(until_heard(&order, &over)?.map(|from| (from, None)));
            };
            let from = until_heard(&order, &ending)?;
            while !ending.load(Ordering::Relaxed) {
                thread::sleep(super::command_line::LOOK_EVERY);
            }
            let until = Instant::now();
            until_heard(&back, &over)?;
            Ok(from.map(|from| (from, Some(until))))
        });
        Hand {
            kind: fault.kind,
            target: fault.target.clone(),
            is_ending,
            is_over,
            held,
        }
    }

    /// Takes it back, and waits for nothing.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// What must not have happened, if there is something. The crawl has ended.
    ///
    /// # Panics
    /// When a command could not be given.
    pub(super) fn claim(self) -> Option<Claim> {
        let Hand {
            kind,
            target,
            is_ending,
            is_over,
            held,
        } = self;
        [is_ending, is_over]
            .iter()
            .for_each(|flag| flag.store(true, Ordering::Relaxed));
        let held = held
            .join()
            .expect("a thread that gives commands")
            .expect("commands can be given");
        held.map(|(from, until)| Claim {
            kind,
            target,
            from,
            until: until.unwrap_or_else(Instant::now),
        })
    }
}

/// The command and the one that takes it back, in the words of the command line.
fn words(fault: &Fault, host: Option<&str>) -> (String, Option<String>) {
    let of = |host: Option<&str>| host.map_or_else(String::new, |host| format!(" --host {host}"));
    match fault.kind {
        Kind::Pause => (
            format!("pause{}", of(host)),
            Some(format!("unpause{}", of(host))),
        ),
        Kind::Set => {
            let key = fault.target.split('=').next().unwrap_or_default();
            (
                format!("set {}", fault.target),
                Some(format!("set --unset {key}")),
            )
        }
        _ => (format!("drop{} --and-later --yes --yes", of(host)), None),
    }
}

/// Gives a command until all have heard it, or it is no longer of use. When they had, if they did.
fn until_heard(line: &CommandLine, is_cut_off: &AtomicBool) -> io::Result<Option<Instant>> {
    while let Some(code) = line.once(is_cut_off)? {
        if code == 0 {
            return Ok(Some(Instant::now()));
        }
        thread::sleep(PAUSE);
    }
    Ok(None)
}

impl Claim {
    /// What the web saw against it. `began` is when the times of contacts begin. `in_hand`:
    /// requests that a fetcher which stood still may have had in hand.
    pub(crate) fn broken_by(
        &self,
        contacts: &[Contact],
        began: Instant,
        in_hand: usize,
    ) -> Vec<String> {
        let held = self.from + HEEDED_WITHIN..self.until;
        let is_about = |contact: &&Contact| {
            self.target
                .parse()
                .ok()
                .is_none_or(|host: u32| host == contact.host)
        };
        let within: Vec<&Contact> = contacts
            .iter()
            .filter(|contact| held.contains(&(began + contact.at)))
            .filter(is_about)
            .collect();
        match self.kind {
            Kind::Set => {
                let delay = delay_of(&self.target).mul_f64(1.0 - EARLY_TOLERANCE);
                let is_early = |pair: &&[&Contact]| {
                    pair[0].host == pair[1].host && pair[1].at - pair[0].at < delay
                };
                within
                    .windows(2)
                    .filter(is_early)
                    .map(|pair| self.says(pair[1]))
                    .collect()
            }
            // A job for a robots.txt has no URL that could be dropped; and a drop does not wait for
            // fetchers.
            Kind::Drop => {
                let of_urls = within
                    .into_iter()
                    .filter(|contact| !contact.url.ends_with("/robots.txt"));
                of_urls
                    .skip(in_hand)
                    .map(|contact| self.says(contact))
                    .collect()
            }
            _ => within
                .into_iter()
                .map(|contact| self.says(contact))
                .collect(),
        }
    }

    fn says(&self, contact: &Contact) -> String {
        format!(
            "{} at {:.1} s in spite of {} {}",
            contact.url,
            contact.at.as_secs_f64(),
            self.kind.name(),
            self.target
        )
    }
}

/// The seconds in `politeness.delay=2s`.
fn delay_of(setting: &str) -> Duration {
    let seconds = setting
        .trim_end_matches('s')
        .rsplit('=')
        .next()
        .and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_while_it_must_not_be_breaks_the_claim() {
        let began = Instant::now();
        let claim = |kind, target: &str| Claim {
            kind,
            target: target.to_owned(),
            from: began + Duration::from_secs(10),
            until: began + Duration::from_secs(20),
        };
        let contacts: Vec<Contact> = [
            (0, 10_900),
            (0, 12_000),
            (1, 13_000),
            (1, 14_500),
            (1, 16_600),
            (0, 20_100),
        ]
        .map(|(host, ms)| Contact {
            host,
            url: String::new(),
            at: Duration::from_millis(ms),
            connection: 0,
        })
        .into();
        let broken = |kind, target: &str| claim(kind, target).broken_by(&contacts, began, 0).len();
        assert_eq!(broken(Kind::Pause, "crawl"), 4);
        assert_eq!((broken(Kind::Pause, "0"), broken(Kind::Pause, "2")), (1, 0));
        let dropped = claim(Kind::Drop, "1");
        assert_eq!(
            [0, 1].map(|in_hand| dropped.broken_by(&contacts, began, in_hand).len()),
            [3, 2]
        );
        assert_eq!(
            (
                broken(Kind::Set, "politeness.delay=2s"),
                broken(Kind::Set, "politeness.delay=1s")
            ),
            (1, 0)
        );
    }

    #[test]
    fn the_words_of_an_order_name_its_host() {
        let fault = |kind, target: &str| Fault {
            kind,
            target: target.to_owned(),
            at_ms: 0,
            lasts_ms: 0,
        };
        let of_host = words(&fault(Kind::Pause, "3"), Some("h3.test"));
        assert_eq!(
            of_host,
            (
                "pause --host h3.test".to_owned(),
                Some("unpause --host h3.test".to_owned())
            )
        );
        let set = words(&fault(Kind::Set, "politeness.delay=2s"), None);
        assert_eq!(
            set,
            (
                "set politeness.delay=2s".to_owned(),
                Some("set --unset politeness.delay".to_owned())
            )
        );
        assert_eq!(
            words(&fault(Kind::Drop, "3"), Some("h3.test")).0,
            "drop --host h3.test --and-later --yes --yes"
        );
    }
}
