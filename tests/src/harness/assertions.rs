//! Assertions: what holds of a summary and of a web's report, whatever the crawl.

use rhumb::status::{Recrawled, Summary};
use synthetic_web::Report;

/// Asserts that no URL is lost or counted twice (P3) in a crawl that is complete.
///
/// # Panics
/// When one is.
pub fn assert_conserved(summary: &Summary) {
    let parts = summary.urls_filtered + summary.urls_repeated + summary.urls_new;
    assert_eq!(
        summary.urls_found,
        parts,
        "found = filtered + repeated + new: {}",
        json(summary)
    );
    let ended: u64 = summary.outcomes.values().sum();
    let given = summary.recrawl.as_ref().map_or(0, |recrawl| recrawl.given);
    assert_eq!(
        summary.urls_new,
        ended + given,
        "new = outcomes + given: {}",
        json(summary)
    );
    assert_eq!(summary.waiting + summary.in_flight, 0, "{}", json(summary));
}

/// Asserts that no server was treated against its rules (P1, P2, P5).
///
/// # Panics
/// When one was.
pub fn assert_manners(report: &Report) {
    let violations = &report.violations;
    assert_eq!(
        (violations.robots, violations.parallel, violations.early),
        (0, 0, 0),
        "{}",
        json(report)
    );
}

/// Known pages; none where none is known.
pub fn recrawled(summary: &Summary) -> Recrawled {
    summary.recrawl.clone().unwrap_or_default()
}

/// Visits that ended, after the first of each page.
pub fn visits(summary: &Summary) -> u64 {
    recrawled(summary).visits.values().sum()
}

/// A value as text for the message of a failed test.
pub fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
