//! The mark of pages that are given as known: they were visited before, in this crawl or by
//! another crawler.
//!
//! In: how the last visit of a page ended. Out: an [`Origin`] whose page has the mark, and what
//! that says.
//!
//! The mark is a fragment of no page: `#last-visit=1769860800123,3,page`. No canonical URL is empty
//! or has a fragment. So no page that is fetched can pass its links off as known, and no message
//! needs another layout.

use super::outcomes::PageState;
use super::urls::Origin;

/// What stands before the visit.
const MARK: &str = "#last-visit=";
/// The states of a page, as the mark spells them.
const STATES: [(PageState, &str); 4] = [
    (PageState::None, "none"),
    (PageState::Page, "page"),
    (PageState::Moved, "moved"),
    (PageState::Gone, "gone"),
];

/// The last visit of a page, as a crawl log tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastVisit {
    /// When it ended, in milliseconds of Unix time.
    pub at_ms: u64,
    /// Which visit of its page it was: 1 is the first.
    pub number: u32,
    /// What was told of the page when it had ended.
    pub state: PageState,
}

impl Origin {
    /// The origin of a URL whose page is given as known. It is not fetched for that. The URL-seen
    /// test lets it pass once for each time of a last visit, whether it was met before or not.
    pub fn known(topic: &str, depth: u16, last: LastVisit) -> Self {
        let LastVisit {
            at_ms,
            number,
            state,
        } = last;
        let state = STATES.iter().find(|(of, _)| *of == state);
        let state = state.map_or("", |(_, name)| name);
        Origin {
            page: format!("{MARK}{at_ms},{number},{state}"),
            depth,
            again: at_ms.max(1),
            ..Origin::seed(topic)
        }
    }

    /// The last visit of the page of these URLs; none when they are to be fetched.
    pub fn last_visit(&self) -> Option<LastVisit> {
        let mut parts = self.page.strip_prefix(MARK)?.split(',');
        let at_ms = parts.next()?.parse().ok()?;
        let number = parts.next()?.parse().ok()?;
        let name = parts.next()?;
        let (state, _) = STATES.iter().find(|(_, of)| *of == name)?;
        Some(LastVisit {
            at_ms,
            number,
            state: *state,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_how_the_last_visit_ended_and_no_link_has_one() {
        for (state, name) in STATES {
            let last = LastVisit {
                at_ms: 1_769_860_800_123,
                number: 3,
                state,
            };
            let origin = Origin::known("news", 2, last);
            assert_eq!(origin.page, format!("#last-visit=1769860800123,3,{name}"));
            assert_eq!(origin.last_visit(), Some(last));
            assert_eq!((origin.found_on(), origin.sitemap_of()), ("", None));
            assert_eq!(origin.trace(), None);
            assert!(origin.seed && origin.again != 0);
            assert_eq!(serde_json::to_value(state).unwrap(), name);
        }
        let at_first = LastVisit {
            at_ms: 0,
            number: 1,
            state: PageState::Page,
        };
        assert_ne!(Origin::known("news", 0, at_first).again, 0);
        for page in [
            "",
            "http://a.test/",
            "http://a.test/#last-visit=1,1,page",
            "#last-visit=",
            "#last-visit=1,1",
            "#last-visit=1,1,away",
            "#last-visit=-1,1,page",
        ] {
            let origin = Origin {
                page: page.into(),
                ..Origin::default()
            };
            assert_eq!(origin.last_visit(), None, "{page}");
        }
    }
}
