//! Finding: what a visit says of its page, beside what was told of it before.
//!
//! The same bytes are the same page, and so is one of which its server says so. One 404 is no end
//! of a page that was there: a second one is. What refuses, fails or does not answer says nothing
//! of the page.

use crate::known::record::Record;
use rhumb_wire::message::{Change, Outcome, PageState};

/// What a visit says of its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) change: Change,
    pub(crate) before: PageState,
    /// What is told of the page from now on.
    pub(crate) after: PageState,
    /// It answered 404 once, and is there as far as anybody was told.
    pub(crate) is_missed: bool,
    /// It has been gone for so long that it is known no more: for the caller to say.
    pub(crate) is_forgotten: bool,
}

/// What a visit found that ended so. `body`: the fingerprint of the body that came, or of the
/// target of a redirect; 0 without one.
pub(crate) fn judge(known: Option<&Record>, outcome: Outcome, body: u64) -> Finding {
    let before = known.map_or(PageState::None, |known| known.state);
    let was_missed = known.is_some_and(|known| known.is_missed);
    let is_same = body != 0 && known.is_some_and(|known| known.body == body);
    let (change, after) = match (outcome, before) {
        (Outcome::NotModified, PageState::Page) => (Change::Unchanged, PageState::Page),
        (Outcome::Fetched, PageState::Page) if is_same => (Change::Unchanged, PageState::Page),
        (Outcome::Fetched, PageState::Page)
        | (Outcome::Fetched | Outcome::NotModified, PageState::Moved) => {
            (Change::Changed, PageState::Page)
        }
        (Outcome::Fetched | Outcome::NotModified, PageState::None) => {
            (Change::New, PageState::Page)
        }
        (Outcome::Fetched | Outcome::NotModified, _) => (Change::Back, PageState::Page),
        (Outcome::Redirected, PageState::None) => (Change::New, PageState::Moved),
        (Outcome::Redirected, PageState::Moved) if is_same => (Change::Unchanged, PageState::Moved),
        (Outcome::Redirected, PageState::Page | PageState::Moved) => {
            (Change::Changed, PageState::Moved)
        }
        (Outcome::Redirected, PageState::Gone) => (Change::Back, PageState::Moved),
        (Outcome::Gone, PageState::Gone) => (Change::Unchanged, PageState::Gone),
        (Outcome::Gone, PageState::Page | PageState::Moved) if !was_missed => {
            return nothing_told(before, true);
        }
        (Outcome::Gone, _) => (Change::Gone, PageState::Gone),
        _ => return nothing_told(before, was_missed),
    };
    Finding {
        change,
        before,
        after,
        ..Finding::default()
    }
}

/// A visit that says nothing of its page, or not yet.
fn nothing_told(before: PageState, is_missed: bool) -> Finding {
    Finding {
        change: Change::None,
        before,
        after: before,
        is_missed,
        ..Finding::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Failed, Fetched, Gone, NotModified, Redirected, Refused};

    /// What a page's visits find, one after the other, each with the body that it brings.
    fn found(visits: &[(Outcome, u64)]) -> Vec<Change> {
        let mut known: Option<Record> = None;
        let mut changes = Vec::new();
        for &(outcome, body) in visits {
            let finding = judge(known.as_ref(), outcome, body);
            let mut record = known.take().unwrap_or_default();
            assert_eq!(finding.before, record.state);
            record.state = finding.after;
            record.is_missed = finding.is_missed;
            if body != 0 {
                record.body = body;
            }
            known = Some(record);
            changes.push(finding.change);
        }
        changes
    }

    #[test]
    fn the_same_bytes_and_a_304_are_no_change() {
        assert_eq!(
            found(&[
                (Fetched, 1),
                (Fetched, 1),
                (NotModified, 0),
                (Fetched, 2),
                (Fetched, 0)
            ]),
            [
                Change::New,
                Change::Unchanged,
                Change::Unchanged,
                Change::Changed,
                // Of a body that was cut nobody knows.
                Change::Changed
            ]
        );
    }

    #[test]
    fn a_page_is_gone_with_the_second_404_in_a_row_and_may_come_back() {
        assert_eq!(
            found(&[
                (Fetched, 1),
                (Gone, 0),
                (Fetched, 1),
                (Gone, 0),
                (Failed, 0),
                (Gone, 0),
                (Gone, 0),
                (Fetched, 1)
            ]),
            [
                Change::New,
                Change::None,
                Change::Unchanged,
                Change::None,
                Change::None,
                Change::Gone,
                Change::Unchanged,
                Change::Back
            ]
        );
        assert_eq!(
            found(&[(Gone, 0), (Fetched, 3)]),
            [Change::Gone, Change::Back]
        );
    }

    #[test]
    fn a_redirect_takes_the_place_of_a_page() {
        assert_eq!(
            found(&[
                (Redirected, 7),
                (Redirected, 7),
                (Redirected, 8),
                (Fetched, 4),
                (Redirected, 8)
            ]),
            [
                Change::New,
                Change::Unchanged,
                Change::Changed,
                Change::Changed,
                Change::Changed
            ]
        );
    }

    #[test]
    fn what_refuses_says_nothing_of_the_page() {
        assert_eq!(
            found(&[
                (Failed, 0),
                (Refused, 0),
                (Fetched, 5),
                (Refused, 0),
                (Fetched, 5)
            ]),
            [
                Change::None,
                Change::None,
                Change::New,
                Change::None,
                Change::Unchanged
            ]
        );
    }
}
