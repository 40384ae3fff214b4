//! Silence: names that nobody answers for while it is in doubt whether any name server can be
//! reached.
//!
//! In: queries that ended, with an answer or without. Out: which names are held back, and when they
//! are asked for again.
//!
//! While there is [`Doubt`], a name that nobody answers for is not said to have failed: it is held
//! back, with all that waits for it, and one name at a time is asked for. With the first answer all
//! are asked for again. When doubt has lasted as long as it may, they have failed. A name server
//! that fails (SERVFAIL) has not answered: one in front of a network that is cut fails for every
//! name. Nor has one whose port is closed: it may be about to start.
//!
//! Invariant: a name that is held back waits in the resolver, whose limit bounds it (P6).

use rhumb_stage::Count;
use rhumb_stage::doubt::{Doubt, Failure, Past, Verdict};
use rhumb_url::time::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

/// Whether name servers can be reached.
pub(crate) struct Silence {
    doubt: Doubt,
    /// Names that are held back, by the time at which they were asked for last.
    held: VecDeque<String>,
}

impl Silence {
    /// Nothing is in doubt. When it is, it is for `doubt_max` at most.
    pub(crate) fn new(doubt_max: Duration, past: Past) -> Self {
        Silence {
            doubt: Doubt::new(doubt_max, past),
            held: VecDeque::new(),
        }
    }

    /// A query for a name that began at `began` was answered, whatever the answer. Returns the
    /// names that are to be asked for again.
    pub(crate) fn broken(
        &mut self,
        now: Timestamp,
        began: Timestamp,
        name: &str,
    ) -> VecDeque<String> {
        let lasted = self.doubt.succeeded(now, began, name);
        self.let_go(lasted)
    }

    /// A name server answered, and could not tell. Returns the names that are to be asked for
    /// again.
    pub(crate) fn disturbed(&mut self, now: Timestamp) -> VecDeque<String> {
        let lasted = self.doubt.heard(now);
        self.let_go(lasted)
    }

    /// Doubt has ended that lasted so long, if one has.
    fn let_go(&mut self, lasted: Option<Duration>) -> VecDeque<String> {
        let Some(lasted) = lasted else {
            return VecDeque::new();
        };
        tracing::info!(
            names = self.held.len(),
            lasted_s = lasted.as_secs(),
            "name servers answer again; the names that were held back are asked for"
        );
        std::mem::take(&mut self.held)
    }

    /// A query that began at `began` failed. Returns whether its name is held back: only one that
    /// is waited for.
    pub(crate) fn heard(
        &mut self,
        now: Timestamp,
        began: Timestamp,
        name: &str,
        failure: Failure,
        is_waited_for: bool,
    ) -> bool {
        let Verdict::Withheld { begins } = self.doubt.failed(now, began, name, failure) else {
            return false;
        };
        if begins {
            tracing::warn!(
                "no name server answers: is the network of this machine broken, or \
                 network.nameservers wrong? Until one answers, or for network.doubt_max, no name \
                 is given up"
            );
        }
        if is_waited_for {
            self.held.push_back(name.to_owned());
        }
        is_waited_for
    }

    /// Takes a look at the time. Returns the names that have failed because doubt has lasted long
    /// enough.
    pub(crate) fn look(&mut self, now: Timestamp) -> VecDeque<String> {
        if !self.doubt.look(now) {
            return VecDeque::new();
        }
        tracing::warn!(
            names = self.held.len(),
            "no name server answered for network.doubt_max; from now on names fail"
        );
        std::mem::take(&mut self.held)
    }

    /// Returns whether it is in doubt now.
    pub(crate) fn is_on(&self, now: Timestamp) -> bool {
        self.doubt.is_on(now)
    }

    /// How many queries may be made beside those under way, if `window` may be without doubt.
    pub(crate) fn room(&self, now: Timestamp, window: usize, under_way: usize) -> usize {
        match self.doubt.is_on(now) {
            false => window.saturating_sub(under_way),
            true => usize::from(under_way == 0 && self.doubt.may_try(now)),
        }
    }

    /// The name that was held back for longest: it is asked for when no other is.
    pub(crate) fn next(&mut self) -> Option<String> {
        self.held.pop_front()
    }

    /// From when on names may be asked for ahead of time; none while a query is under way in doubt.
    pub(crate) fn ahead_from(&self, under_way: usize) -> Option<Timestamp> {
        match self.doubt.began() {
            None => Some(Timestamp::ZERO),
            Some(_) => (under_way == 0).then(|| self.doubt.try_at()),
        }
    }

    /// When to look again although nothing came.
    pub(crate) fn wake_at(&self, under_way: usize) -> Option<Timestamp> {
        self.doubt.wake_at(under_way == 0)
    }

    /// Why names are not resolved, while there is doubt.
    pub(crate) fn hindrance(&self, now: Timestamp) -> Option<String> {
        let since = self.doubt.since(now)?;
        let until = self.doubt.until()?;
        let lasts = now.since(since).as_secs();
        let left = until.since(now).as_secs();
        Some(format!(
            "no name server answers for {lasts} s; for {left} s more no name is given up"
        ))
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = Count> {
        self.doubt
            .counts()
            .into_iter()
            .chain([("names_held_back", self.held.len() as u64)])
    }
}
