//! Users: who has a connection to the broker under a name of its own, and what it does there beside
//! the edges.
//!
//! In: nothing; the tables are written by hand. Out: [`User`], [`BUCKETS`] and [`BESIDE`], from
//! which `rhumb auth` derives rights, with the tables of edges and stages.
//!
//! Invariant: a broker's rights match whole tokens of subjects. So a key of a bucket has its stage
//! as a token of its own.

use super::edges::{DEAD, MOVES, PARKED};
use super::words::StageName;

/// Who has a connection to the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum User {
    /// All instances of a stage.
    Stage(StageName),
    /// `rhumb init`: makes streams, buckets and consumers.
    Init,
    /// `rhumb conduct`: decides when the crawl is over.
    Conductor,
    /// Whoever runs commands on the crawl, or the whole of it with `rhumb crawl`.
    Operator,
    /// Whoever looks at the crawl and changes nothing.
    Tap,
}

impl User {
    /// All users: the stages in the order in which a URL passes them, then the others.
    pub const ALL: [User; StageName::ALL.len() + 4] = {
        let mut all = [User::Init; StageName::ALL.len() + 4];
        let mut at = 0;
        while at < StageName::ALL.len() {
            all[at] = User::Stage(StageName::ALL[at]);
            at += 1;
        }
        all[at + 1] = User::Conductor;
        all[at + 2] = User::Operator;
        all[at + 3] = User::Tap;
        all
    };

    /// Its name: that of its files, and behind `_INBOX_` the beginning of the subjects on which it
    /// gets replies.
    pub const fn name(self) -> &'static str {
        match self {
            User::Stage(stage) => stage.name(),
            User::Init => "init",
            User::Conductor => "conductor",
            User::Operator => "operator",
            User::Tap => "tap",
        }
    }

    /// The user of that name, if there is one.
    pub fn from_name(name: &str) -> Option<User> {
        User::ALL.into_iter().find(|user| user.name() == name)
    }
}

/// Some of the users. An operator may do all that any of them may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Every stage.
    Stages,
    /// The stages with state.
    StagesWithState,
    /// The stages that have to know who has which partition.
    StagesThatWatch,
    /// One user.
    One(User),
}

impl Who {
    /// Returns whether a user is one of them.
    pub fn has(self, user: User) -> bool {
        match (self, user) {
            (Who::One(one), user) => one == user,
            (Who::Stages, User::Stage(_)) => true,
            (Who::StagesWithState, User::Stage(stage)) => stage.row().has_state,
            (Who::StagesThatWatch, User::Stage(stage)) => {
                stage.row().has_state || stage.watches().next().is_some()
            }
            _ => false,
        }
    }
}

/// A row of the table of buckets.
#[derive(Clone, Copy, Debug)]
pub struct BucketRow {
    /// Its name behind `rhumb_<crawl>_`.
    pub name: &'static str,
    /// Who reads its keys.
    pub readers: &'static [Who],
    /// Who writes which of its keys, by a pattern of subjects, in which `{user}` stands for the
    /// user's name.
    pub writers: &'static [(Who, &'static str)],
}

/// The crawl's key-value buckets.
pub const BUCKETS: [BucketRow; 6] = [
    BucketRow {
        name: "leases",
        readers: &[Who::Stages, CONDUCTOR, TAP],
        writers: &[(Who::Stages, "{user}.*"), (CONDUCTOR, "supervisor.*")],
    },
    BucketRow {
        name: "scope",
        readers: &[HOST_SPLITTER],
        writers: &[(HOST_SPLITTER, "*")],
    },
    BucketRow {
        name: "tokens",
        readers: &[SCHEDULER],
        writers: &[(SCHEDULER, ">")],
    },
    BucketRow {
        name: "identity",
        readers: &[Who::Stages, INIT, CONDUCTOR, TAP],
        // The conductor notes the streams that it makes anew.
        writers: &[
            (INIT, ">"),
            (CONDUCTOR, "conducted"),
            (CONDUCTOR, "stream.*"),
            (Who::StagesWithState, "state.{user}.*"),
        ],
    },
    BucketRow {
        name: "owners",
        readers: &[Who::StagesThatWatch, INIT, CONDUCTOR, TAP],
        // Either stage with state has a partition of both tables split, the scheduler's first.
        writers: &[
            (INIT, "*"),
            (CONDUCTOR, "*"),
            (Who::StagesWithState, "{user}"),
            (Who::StagesWithState, "scheduler"),
        ],
    },
    // Operators alone give orders. What has been set must go with the configuration of an init.
    BucketRow {
        name: "orders",
        readers: &[Who::Stages, INIT, CONDUCTOR, TAP],
        writers: &[],
    },
];

const HOST_SPLITTER: Who = Who::One(User::Stage(StageName::HostSplitter));
const SCHEDULER: Who = Who::One(User::Stage(StageName::Scheduler));
const INIT: Who = Who::One(User::Init);
const CONDUCTOR: Who = Who::One(User::Conductor);
const TAP: Who = Who::One(User::Tap);

/// How messages leave a stream beside the edges again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenOut {
    /// By an operator alone.
    ByOperator,
    /// By who put them there, one by one.
    OneByOne,
    /// By who gets them, all of a subject at once.
    BySubject,
}

/// A stream beside the edges.
#[derive(Clone, Copy, Debug)]
pub struct BesideRow {
    /// Its key below `edges` in `pipeline.yaml`.
    pub name: &'static str,
    /// Who uses it, each under a subject with its name.
    pub users: Who,
    /// How messages leave it.
    pub taken_out: TakenOut,
}

/// The streams beside the edges.
pub const BESIDE: [BesideRow; 3] = [
    BesideRow {
        name: DEAD,
        users: Who::Stages,
        taken_out: TakenOut::ByOperator,
    },
    BesideRow {
        name: PARKED,
        users: Who::Stages,
        taken_out: TakenOut::OneByOne,
    },
    BesideRow {
        name: MOVES,
        users: Who::StagesWithState,
        taken_out: TakenOut::BySubject,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_name_which_is_a_token_of_a_subject() {
        for user in User::ALL {
            assert_eq!(User::from_name(user.name()), Some(user));
            assert!(
                user.name()
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c == '-'),
                "{}",
                user.name()
            );
        }
        assert_eq!(
            User::ALL[7..],
            [User::Init, User::Conductor, User::Operator, User::Tap]
        );
        assert_eq!(User::from_name("broker"), None);
    }

    #[test]
    fn who_watches_and_who_has_state_comes_from_the_table_of_stages() {
        let of = |who: Who| {
            User::ALL
                .into_iter()
                .filter(|user| who.has(*user))
                .map(User::name)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(Who::StagesWithState), ["dedup", "scheduler"]);
        assert_eq!(
            of(Who::StagesThatWatch),
            ["host-splitter", "dedup", "scheduler", "fetcher", "parser"]
        );
        assert_eq!(
            (of(Who::Stages).len(), of(TAP)),
            (StageName::ALL.len(), vec!["tap"])
        );
    }
}
