//! The table of stages. What a stage takes and puts follows from the table of edges.

use super::edges::{EDGES, Edge, EdgeRow};
use super::words::{Division, Kind, Party, StageName};

/// How a stage takes part in an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A stream whose messages all instances share; of an edge with lanes, an instance preferably
    /// takes those of some.
    Shared(Edge),
    /// A stream of which an instance takes the partitions that it owns.
    Owned(Edge),
    /// Core messages to the instance's own subject.
    Addressed(Edge),
    /// Core messages, each to one of the instances.
    Any(Edge),
    /// Core messages of the partitions that the instance owns.
    OwnedSoft(Edge),
}

impl Source {
    /// The edge.
    pub const fn edge(self) -> Edge {
        match self {
            Source::Shared(edge)
            | Source::Owned(edge)
            | Source::Addressed(edge)
            | Source::Any(edge)
            | Source::OwnedSoft(edge) => edge,
        }
    }
}

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

/// The inputs of a stage, with state or without, in the order of the table of edges.
macro_rules! inputs {
    ($stage:ident, $has_state:literal) => {{
        const TAKEN: [Source; count(StageName::$stage, Side::Consumes)] =
            sources_of(StageName::$stage, $has_state);
        &TAKEN
    }};
}

/// The outputs of a stage, in the order of the table of edges.
macro_rules! outputs {
    ($stage:ident) => {{
        const PUT: [Edge; count(StageName::$stage, Side::Produces)] =
            edges_of(StageName::$stage, Side::Produces);
        &PUT
    }};
}

/// All stages, one row each, in the order in which a URL passes them.
pub const STAGES: [StageRow; 7] = [
    StageRow {
        stage: StageName::HostSplitter,
        name: "host-splitter",
        inputs: inputs!(HostSplitter, false),
        outputs: outputs!(HostSplitter),
        has_state: false,
        keeps_files: false,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Dedup,
        name: "dedup",
        inputs: inputs!(Dedup, true),
        outputs: outputs!(Dedup),
        has_state: true,
        keeps_files: true,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Resolver,
        name: "resolver",
        inputs: inputs!(Resolver, false),
        outputs: outputs!(Resolver),
        has_state: false,
        keeps_files: false,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Scheduler,
        name: "scheduler",
        inputs: inputs!(Scheduler, true),
        outputs: outputs!(Scheduler),
        has_state: true,
        keeps_files: true,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Fetcher,
        name: "fetcher",
        inputs: inputs!(Fetcher, false),
        outputs: outputs!(Fetcher),
        has_state: false,
        keeps_files: false,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Parser,
        name: "parser",
        inputs: inputs!(Parser, false),
        outputs: outputs!(Parser),
        has_state: false,
        keeps_files: false,
        is_optional: false,
    },
    StageRow {
        stage: StageName::Archiver,
        name: "archiver",
        inputs: inputs!(Archiver, false),
        outputs: outputs!(Archiver),
        has_state: false,
        keeps_files: true,
        is_optional: true,
    },
];

/// An end of an edge.
#[derive(Clone, Copy)]
enum Side {
    Produces,
    Consumes,
}

/// Returns whether a stage is at that end of an edge.
const fn is_at(stage: StageName, side: Side, row: &EdgeRow) -> bool {
    let parties = match side {
        Side::Produces => row.producers,
        Side::Consumes => row.consumers,
    };
    let mut at = 0;
    while at < parties.len() {
        if let Party::Stage(party) = parties[at]
            && party as usize == stage as usize
        {
            return true;
        }
        at += 1;
    }
    false
}

/// At how many edges a stage is at that end.
const fn count(stage: StageName, side: Side) -> usize {
    let mut count = 0;
    let mut at = 0;
    while at < EDGES.len() {
        count += is_at(stage, side, &EDGES[at]) as usize;
        at += 1;
    }
    count
}

/// The edges at which a stage is at that end: as many as [`count`] says.
const fn edges_of<const N: usize>(stage: StageName, side: Side) -> [Edge; N] {
    let mut edges = [Edge::UrlsFound; N];
    let mut next = 0;
    let mut at = 0;
    while at < EDGES.len() {
        if is_at(stage, side, &EDGES[at]) {
            edges[next] = EDGES[at].edge;
            next += 1;
        }
        at += 1;
    }
    edges
}

/// How a stage takes part in each of its inputs.
const fn sources_of<const N: usize>(stage: StageName, has_state: bool) -> [Source; N] {
    let edges: [Edge; N] = edges_of(stage, Side::Consumes);
    let mut sources = [Source::Shared(Edge::UrlsFound); N];
    let mut at = 0;
    while at < N {
        sources[at] = source_of(edges[at], has_state);
        at += 1;
    }
    sources
}

/// How a stage, with state or without, takes part in an edge that it consumes: who has state takes
/// the partitions that it owns.
const fn source_of(edge: Edge, has_state: bool) -> Source {
    let row = &EDGES[edge.number() as usize - 1];
    let is_owned = has_state
        && matches!(
            row.division,
            Division::Partition | Division::PartitionInLane
        );
    match (row.kind, row.division) {
        (Kind::Stream(_), _) if is_owned => Source::Owned(edge),
        (Kind::Stream(_), _) => Source::Shared(edge),
        (Kind::Core, Division::Instance) => Source::Addressed(edge),
        (Kind::Core, _) if is_owned => Source::OwnedSoft(edge),
        (Kind::Core, _) => Source::Any(edge),
    }
}

// The row of a stage stands at the stage's place in `StageName`.
const _: () = {
    let mut at = 0;
    while at < STAGES.len() {
        assert!(STAGES[at].stage as usize == at);
        at += 1;
    }
};
