//! The words of the topology: names of edges and stages, and how the one takes part in the other.
//! They stand apart from the tables, because each table needs the names of the other's rows.

/// An edge of the pipeline: what carries one type of message from its producers to its consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edge {
    /// Links, redirect targets and seeds.
    UrlsFound,
    /// Found URLs that passed the filters, by partition.
    UrlsSplit,
    /// URLs that passed the URL-seen test.
    UrlsNew,
    /// New URLs with the addresses of their servers.
    UrlsReady,
    /// A fetcher asks a scheduler instance for connection jobs.
    FetchAsks,
    /// Connection jobs and confirmed renewals, to one fetcher instance.
    FetchJobs,
    /// Measurements of a job and how its URLs ended so far.
    FetchReports,
    /// Responses as the server sent them.
    Pages,
    /// How new URLs ended.
    Outcomes,
    /// Servers whose addresses have gone stale.
    DnsRefresh,
    /// Requests of one partition's scheduler to that of another: a robots.txt, or tokens of a
    /// shared budget.
    Errands,
    /// Found URLs that the filters rejected: for taps alone.
    UrlsFiltered,
    /// A parser asks a dedup instance whether bodies were met before.
    ContentAsks,
    /// Titles, languages and the like of parsed documents.
    Documents,
    /// What later links add to URLs that were found before.
    UrlsBoosts,
    /// An edge that a stage beside the pipeline brings itself; [`Edge::further`] makes one.
    #[non_exhaustive]
    Further {
        /// The number in the envelope.
        number: u8,
        /// Its name and its subject.
        name: &'static str,
    },
}

/// The first number of a further edge; those below are kept for the table.
const FURTHER_FROM: u8 = 128;

impl Edge {
    /// An edge that a stage beside the pipeline brings itself: a stream without division, kept by
    /// interest with the settings of `edges.documents`. No row of a table names it; `Stage::edges`
    /// of the stages at its ends do.
    ///
    /// # Panics
    /// The number is below 128. In a constant this is an error of the compiler.
    pub const fn further(number: u8, name: &'static str) -> Edge {
        assert!(
            number >= FURTHER_FROM,
            "the numbers below 128 are kept for the edges of the table"
        );
        Edge::Further { number, name }
    }

    /// The number in the envelope of each message: an edge keeps it for ever.
    pub const fn number(self) -> u8 {
        match self {
            Edge::UrlsFound => 1,
            Edge::UrlsSplit => 2,
            Edge::UrlsNew => 3,
            Edge::UrlsReady => 4,
            Edge::FetchAsks => 5,
            Edge::FetchJobs => 6,
            Edge::FetchReports => 7,
            Edge::Pages => 8,
            Edge::Outcomes => 9,
            Edge::DnsRefresh => 10,
            Edge::Errands => 11,
            Edge::UrlsFiltered => 12,
            Edge::ContentAsks => 13,
            Edge::Documents => 14,
            Edge::UrlsBoosts => 15,
            Edge::Further { number, .. } => number,
        }
    }
}

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StageName {
    /// Filters found URLs and groups them by partition.
    HostSplitter,
    /// The URL-seen test and the content-seen test.
    Dedup,
    /// Finds the addresses of servers.
    Resolver,
    /// Keeps the frontier and decides which server is contacted next, and when.
    Scheduler,
    /// Fetches over one connection per job.
    Fetcher,
    /// Finds links in pages.
    Parser,
    /// Keeps pages and outcomes.
    Archiver,
}

/// What carries an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A JetStream stream, which keeps each message until it is acknowledged.
    Stream(Retention),
    /// Core NATS messages, which nobody keeps: one that is lost is sent again by whoever still
    /// needs it.
    Core,
}

/// When the broker deletes a message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// When its one consumer has acked it.
    WorkQueue,
    /// When all consumers have acked it.
    Interest,
    /// When the stream is full.
    Limits,
}

impl Retention {
    /// Its name, as earlier versions of `pipeline.yaml` had it.
    pub const fn name(self) -> &'static str {
        match self {
            Retention::WorkQueue => "work-queue",
            Retention::Interest => "interest",
            Retention::Limits => "limits",
        }
    }
}

/// How the messages of an edge are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Not at all: one subject.
    Whole,
    /// A subject for each partition.
    Partition,
    /// A subject for each partition, with its lane, and a consumer for each lane, which takes an
    /// eighth of the hashes. So a partition that is new has a consumer before anything is published
    /// to it.
    PartitionInLane,
    /// A subject and a consumer for each lane, and one of each for what belongs to no lane.
    Lane,
    /// A subject for each instance of the consuming stage.
    Instance,
}

/// Who is at an end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// All instances of a stage.
    Stage(StageName),
    /// The `rhumb` command: seeds and `rhumb inject`.
    Rhumb,
    /// Whoever taps the edge (`rhumb tap`); without a tap its messages are for nobody.
    Tap,
}

impl Party {
    /// Its name: of a stage, or `rhumb` or `tap`.
    pub const fn name(self) -> &'static str {
        match self {
            Party::Stage(stage) => stage.name(),
            Party::Rhumb => "rhumb",
            Party::Tap => "tap",
        }
    }
}

impl Division {
    /// What has a subject of its own; nothing where there is one subject.
    pub const fn per(self) -> &'static str {
        match self {
            Division::Whole => "",
            Division::Partition | Division::PartitionInLane => "partition",
            Division::Lane => "lane",
            Division::Instance => "instance",
        }
    }
}

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

/// The last token of a subject: says where on its edge a message belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    /// The edge has one subject.
    None,
    /// A partition.
    Partition(u16),
    /// A partition on an edge that has lanes for them.
    InLane {
        /// The partition.
        partition: u16,
        /// Its lane, by the upper bits of its first hash.
        lane: u16,
    },
    /// An instance.
    Instance(String),
    /// A lane of an edge that has some.
    Lane(u16),
}
