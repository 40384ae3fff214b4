//! Edition: which edition of a page an asker gets, if any.
//!
//! In: a page, the conditions of a request, the clock of the recorder. Out: a [`Reply`], and a line
//! in the record of it. HTTP/1.1 and HTTP/2 send it, each in its way.

use super::lives::Moment;
use super::plan::Plan;
use super::record::{Look, Recorder, Sight};
use super::validators::{Conditions, Validators, date};

/// What differs between two answers with the same page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edition {
    /// The session of the visitor, in each link that stays on the host.
    pub(crate) session: Option<u32>,
    /// Where the page stands in its life, if it changes.
    pub(crate) moment: Option<Moment>,
    /// The number of the answer, on a host that shows it.
    pub(crate) counter: Option<usize>,
}

impl Edition {
    /// The number of the version.
    pub(crate) fn version(&self) -> u64 {
        self.moment.map_or(0, |moment| moment.version.number)
    }
}

/// What an asker gets.
pub(crate) enum Reply {
    /// The page, with validators.
    Page(Edition, Validators),
    /// The asker has it already.
    NotModified(Validators),
    /// The page is not there now.
    Absent,
}

/// Decides on a page, and records what the asker then has. `shows_page` is false for HEAD, which
/// gives nobody a copy.
pub(crate) fn reply(
    plan: &Plan,
    recorder: &Recorder,
    host: u32,
    page: u32,
    asked: Conditions<'_>,
    shows_page: bool,
) -> Reply {
    let at = recorder.now();
    let moment = plan.moment(host, page, at.as_secs_f64());
    let answers = recorder.host(host).contacts.len();
    let manners = plan.site(host).manners;
    let validators = match (moment, manners) {
        (Some(moment), Some(manners)) => {
            let changed = date(recorder.began_at(), moment.version.since_s);
            Validators::of_version(manners, (host, page), moment.version, changed, answers)
        }
        _ if plan.profile.validators => Validators::of(plan, host, page),
        _ => Validators::default(),
    };
    let is_there = moment.is_none_or(|moment| moment.is_there);
    let reply = if !is_there {
        Reply::Absent
    } else if validators.match_those_of(asked) {
        Reply::NotModified(validators)
    } else {
        let edition = Edition {
            session: None,
            moment,
            counter: manners
                .is_some_and(|manners| manners.is_noisy)
                .then_some(answers),
        };
        Reply::Page(edition, validators)
    };
    if moment.is_some() && shows_page {
        let sight = match reply {
            Reply::Page(..) => Sight::Page,
            Reply::NotModified(_) => Sight::NotModified,
            Reply::Absent => Sight::Absent,
        };
        let at_s = at.as_secs_f64();
        recorder.looked(host, Look { page, at_s, sight });
    }
    reply
}
