//! Limits of visits: of a page, and of a server.
//!
//! In: records, servers and settings. Out: how many visits there may be, and until when none.

use crate::known::record::Record;
use crate::robots::state::Rules;
use crate::servers::server::Server;
use crate::settings::Settings;
use rhumb_config::RecrawlPolicy;
use rhumb_url::time::{Timestamp, millis};
use rhumb_wire::message::PageState;
use std::time::Duration;

/// Planned visits of a server at once, at most.
const OUT_MAX: usize = 64;
/// How long a server stands back of which no page may be visited.
const STANDS_BACK: Duration = Duration::from_secs(10);

/// Returns whether a page has no visit to come: its topic has no policy, or it has had as many as
/// it may have.
pub(super) fn is_done(page: &Record, settings: &Settings) -> bool {
    let recrawl = settings.recrawl_of(&page.origin.topic);
    let most = recrawl.visits_max;
    recrawl.policy == RecrawlPolicy::None || most > 0 && page.visits >= most
}

/// Returns whether a page has been gone for so long that the visit that found it so is its last.
pub(super) fn is_forgotten(page: &Record, settings: &Settings, now: Timestamp) -> bool {
    let longest = millis(settings.recrawl_of(&page.origin.topic).forget_after);
    let gone_ms = settings.unix_ms(now).saturating_sub(page.changed_ms);
    longest > 0 && page.state == PageState::Gone && gone_ms >= longest
}

/// Until when no page of a server may be visited; none when one may.
pub(super) fn stands_back_until(
    server: &Server,
    now: Timestamp,
    settings: &Settings,
) -> Option<Timestamp> {
    let is_unreachable =
        settings.politeness.respect_robots && server.robots.rules(now) == Some(Rules::Unreachable);
    let is_away = server.is_paused || is_unreachable || server.out_of_reach(now).is_some();
    is_away.then_some(now + STANDS_BACK)
}

/// Returns whether a server has as many planned visits as it may have.
pub(super) fn is_full(server: &Server, settings: &Settings) -> bool {
    let most = match server.is_in_trouble() {
        true => 1,
        false => server.requests_max(settings).clamp(1, OUT_MAX),
    };
    let share = match has_new(server) {
        true => most * usize::from(settings.recrawl.connections_percent) / 100,
        false => most,
    };
    server.visits_out as usize >= share.max(1)
}

/// Returns whether a server has URLs that are no planned visits.
fn has_new(server: &Server) -> bool {
    let in_flight = server.lease.as_ref().map_or(0, |lease| lease.slots.len());
    server.queues.len() + in_flight as u64 > u64::from(server.visits_out)
}
