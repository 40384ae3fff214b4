//! The table of stages.

use super::words::{Division, Edge, Party, Source, StageName};

impl StageName {
    /// All stages, in the order in which a URL passes them.
    pub const ALL: [StageName; STAGES.len()] = {
        let mut all = [StageName::HostSplitter; STAGES.len()];
        let mut at = 0;
        while at < STAGES.len() {
            all[at] = STAGES[at].stage;
            at += 1;
        }
        all
    };

    /// The stage's row.
    pub const fn row(self) -> &'static StageRow {
        &STAGES[self as usize]
    }

    /// The stage's name: of its program, its key below `stages` in `pipeline.yaml`, its folder in
    /// the data directory.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The stages with state whose table of owners this one has to know, beside its own: those
    /// whose instances it asks; for the host-splitter, which addresses dedup's partitions; and for
    /// each of dedup and scheduler that of the other, since their partitions split together.
    pub fn watches(self) -> impl Iterator<Item = StageName> {
        let partners = match self {
            StageName::HostSplitter | StageName::Scheduler => Some(StageName::Dedup),
            StageName::Dedup => Some(StageName::Scheduler),
            _ => None,
        };
        self.asks().chain(partners)
    }

    /// The stages with state whose instances this one asks.
    fn asks(self) -> impl Iterator<Item = StageName> {
        let asked = self
            .row()
            .outputs
            .iter()
            .filter(|edge| edge.division() == Division::Instance);
        let consumers = asked
            .filter_map(|edge| edge.row())
            .flat_map(|row| row.consumers);
        consumers.filter_map(|party| match party {
            Party::Stage(stage) if stage.row().has_state => Some(*stage),
            _ => None,
        })
    }

    /// The stage of that name, if there is one; stages of others (see
    /// `examples/titles`) are none of ours.
    pub fn from_name(name: &str) -> Option<StageName> {
        StageName::ALL
            .into_iter()
            .find(|stage| stage.name() == name)
    }
}

/// A row of the table of stages.
#[derive(Clone, Copy, Debug)]
pub struct StageRow {
    /// The stage.
    pub stage: StageName,
    /// The name of its program, its key below `stages` in `pipeline.yaml`, its folder in the data
    /// directory.
    pub name: &'static str,
    /// The edges that it consumes, and how its instances share them.
    pub inputs: &'static [Source],
    /// The edges that it produces.
    pub outputs: &'static [Edge],
    /// It commits state together with its inputs. Each partition and its state belong to one
    /// instance, as the table of owners says.
    pub has_state: bool,
    /// Its instances keep files that are theirs alone: each has the same number for its life.
    pub keeps_files: bool,
    /// A crawl may do without it (`replicas: 0`). While it has instances, it must get all that is
    /// on its streams, like any other stage.
    pub is_optional: bool,
}

/// All stages, one row each, in the order in which a URL passes them.
pub const STAGES: [StageRow; 7] = [
    StageRow {
        stage: StageName::HostSplitter,
        name: "host-splitter",
        inputs: &[Source::Shared(Edge::UrlsFound)],
        outputs: &[Edge::UrlsSplit, Edge::UrlsFiltered, Edge::UrlsBoosts],
        has_state: false,
        keeps_files: false,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Dedup,
        name: "dedup",
        inputs: &[
            Source::Owned(Edge::UrlsSplit),
            Source::Addressed(Edge::ContentAsks),
        ],
        outputs: &[Edge::UrlsNew],
        has_state: true,
        keeps_files: true,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Resolver,
        name: "resolver",
        inputs: &[Source::Shared(Edge::UrlsNew), Source::Any(Edge::DnsRefresh)],
        outputs: &[Edge::UrlsReady],
        has_state: false,
        keeps_files: false,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Scheduler,
        name: "scheduler",
        inputs: &[
            Source::Owned(Edge::UrlsReady),
            Source::Owned(Edge::FetchReports),
            Source::Addressed(Edge::FetchAsks),
            Source::OwnedSoft(Edge::Errands),
            Source::OwnedSoft(Edge::UrlsBoosts),
        ],
        outputs: &[
            Edge::FetchJobs,
            Edge::Outcomes,
            Edge::UrlsFound,
            Edge::DnsRefresh,
            Edge::Errands,
        ],
        has_state: true,
        keeps_files: true,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Fetcher,
        name: "fetcher",
        inputs: &[Source::Addressed(Edge::FetchJobs)],
        outputs: &[Edge::FetchAsks, Edge::FetchReports, Edge::Pages],
        has_state: false,
        keeps_files: false,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Parser,
        name: "parser",
        inputs: &[Source::Shared(Edge::Pages)],
        outputs: &[Edge::UrlsFound, Edge::Documents, Edge::ContentAsks],
        has_state: false,
        keeps_files: false,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Archiver,
        name: "archiver",
        inputs: &[
            Source::Shared(Edge::Pages),
            Source::Shared(Edge::Documents),
            Source::Shared(Edge::Outcomes),
        ],
        outputs: &[],
        has_state: false,
        keeps_files: true,
        is_optional: true,
    },
];

// The row of a stage stands at the stage's place in `StageName`.
const _: () = {
    let mut at = 0;
    while at < STAGES.len() {
        assert!(STAGES[at].stage as usize == at);
        at += 1;
    }
};
