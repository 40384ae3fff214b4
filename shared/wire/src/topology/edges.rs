//! The table of edges: a new edge is a word of [`Edge`], its number, and a row.

use super::words::{Division, Kind, Party, Retention, StageName};

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
    /// What parsers learn of pages that the scheduler should know.
    PagesSignals,
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
            Edge::PagesSignals => 16,
            Edge::Further { number, .. } => number,
        }
    }
}

impl Edge {
    /// All edges of the table, in its order.
    pub const ALL: [Edge; EDGES.len()] = {
        let mut all = [Edge::UrlsFound; EDGES.len()];
        let mut at = 0;
        while at < EDGES.len() {
            all[at] = EDGES[at].edge;
            at += 1;
        }
        all
    };

    /// The edge's row; none for a [further](Edge::further) edge. An edge without one does not
    /// compile as soon as a message has it ([`MESSAGES`](crate::message::MESSAGES)).
    pub const fn row(self) -> Option<&'static EdgeRow> {
        match self {
            Edge::Further { .. } => None,
            _ => Some(&EDGES[self.number() as usize - 1]),
        }
    }

    /// The edge's name, as operators write it (`rhumb tap urls.new`), and the key of its stream
    /// below `edges` in `pipeline.yaml`.
    pub const fn name(self) -> &'static str {
        match self {
            Edge::Further { name, .. } => name,
            _ => self.row().expect("an edge of the table has a row").name,
        }
    }

    /// How its messages are divided among subjects and consumers.
    pub const fn division(self) -> Division {
        match self.row() {
            Some(row) => row.division,
            None => Division::Whole,
        }
    }

    /// Returns whether several of its messages may travel as one. Only stages without state read
    /// such an edge: where a stage has come in a stream is counted by the stream's messages.
    pub const fn is_framed(self) -> bool {
        match self.row() {
            Some(row) => row.is_framed,
            None => false,
        }
    }

    /// Returns whether its large messages may lie in files of a machine.
    pub const fn is_spooled(self) -> bool {
        match self.row() {
            Some(row) => row.is_spooled,
            None => false,
        }
    }

    /// The edge of the table with that name, if there is one.
    pub fn from_name(name: &str) -> Option<Edge> {
        Edge::ALL.into_iter().find(|edge| edge.name() == name)
    }

    /// The template of its subjects, without the prefix that all subjects of a crawl have, and
    /// without lanes.
    pub fn template(self) -> String {
        let last = match self.division() {
            Division::Whole | Division::Lane => "",
            Division::Partition | Division::PartitionInLane => ".{partition}",
            Division::Instance => ".{instance}",
        };
        format!("{}{last}", self.name())
    }

    /// When the broker deletes a message of its stream; none for an edge of core NATS messages.
    pub const fn retention(self) -> Option<Retention> {
        match self.row() {
            Some(row) => match row.kind {
                Kind::Stream(retention) => Some(retention),
                Kind::Core => None,
            },
            None => Some(Retention::Interest),
        }
    }

    /// Returns whether the edge's stream is consumed by lane (see [`crate::LANES`]).
    pub const fn has_lanes(self) -> bool {
        matches!(self.division(), Division::Lane | Division::PartitionInLane)
    }
}

/// A row of the table of edges.
#[derive(Clone, Copy, Debug)]
pub struct EdgeRow {
    /// The edge.
    pub edge: Edge,
    /// Its name for operators, and the key of its stream below `edges` in `pipeline.yaml`.
    pub name: &'static str,
    /// What carries it.
    pub kind: Kind,
    /// How its messages are divided among subjects and consumers.
    pub division: Division,
    /// Several of its messages may travel as one ([`frame`](crate::message::frame)).
    pub is_framed: bool,
    /// Its large messages may lie in files of a machine (a spool).
    pub is_spooled: bool,
    /// The type of its messages, in [`crate::message`].
    pub message: &'static str,
    /// The type of the message that answers a request on it; none where nothing is answered.
    pub reply: Option<&'static str>,
    /// Who puts messages on it: a stage's outputs follow from it.
    pub producers: &'static [Party],
    /// Who takes messages off it: a stage's inputs follow from it. Further consumers may join a
    /// stream that is kept by interest.
    pub consumers: &'static [Party],
}

const HOST_SPLITTER: Party = Party::Stage(StageName::HostSplitter);
const DEDUP: Party = Party::Stage(StageName::Dedup);
const RESOLVER: Party = Party::Stage(StageName::Resolver);
const SCHEDULER: Party = Party::Stage(StageName::Scheduler);
const FETCHER: Party = Party::Stage(StageName::Fetcher);
const PARSER: Party = Party::Stage(StageName::Parser);
const ARCHIVER: Party = Party::Stage(StageName::Archiver);

/// The key below `edges` of the dead letters: a stream beside the edges. Any stage puts corrupt
/// messages there, and those that three of its processes died of. An operator takes them out
/// (`rhumb dead`).
pub const DEAD: &str = "dead";

/// The key below `edges` of the parked messages: a stream beside the edges. A stage puts messages
/// there whose schema version it does not read, and a program that reads them puts them back.
pub const PARKED: &str = "parked";

/// The key below `edges` of the moves: a stream beside the edges, with partitions on their way from
/// one instance of a stage to another.
pub const MOVES: &str = "moves";

/// All edges, one row each, in the order of their numbers.
pub const EDGES: [EdgeRow; 16] = [
    EdgeRow {
        edge: Edge::UrlsFound,
        name: "urls.found",
        kind: Kind::Stream(Retention::WorkQueue),
        division: Division::Lane,
        is_framed: true,
        is_spooled: false,
        message: "FoundUrls",
        reply: None,
        producers: &[SCHEDULER, PARSER, Party::Rhumb],
        consumers: &[HOST_SPLITTER],
    },
    EdgeRow {
        edge: Edge::UrlsSplit,
        name: "urls.split",
        kind: Kind::Stream(Retention::WorkQueue),
        division: Division::Partition,
        is_framed: false,
        is_spooled: false,
        message: "SplitUrls",
        reply: None,
        producers: &[HOST_SPLITTER],
        consumers: &[DEDUP],
    },
    EdgeRow {
        edge: Edge::UrlsNew,
        name: "urls.new",
        kind: Kind::Stream(Retention::WorkQueue),
        division: Division::PartitionInLane,
        is_framed: false,
        is_spooled: false,
        message: "NewUrls",
        reply: None,
        producers: &[DEDUP],
        consumers: &[RESOLVER],
    },
    EdgeRow {
        edge: Edge::UrlsReady,
        name: "urls.ready",
        kind: Kind::Stream(Retention::WorkQueue),
        division: Division::Partition,
        is_framed: false,
        is_spooled: false,
        message: "ReadyUrls",
        reply: None,
        producers: &[RESOLVER],
        consumers: &[SCHEDULER],
    },
    EdgeRow {
        edge: Edge::FetchAsks,
        name: "fetch.asks",
        kind: Kind::Core,
        division: Division::Instance,
        is_framed: false,
        is_spooled: false,
        message: "Ask",
        reply: Some("AskReply"),
        producers: &[FETCHER],
        consumers: &[SCHEDULER],
    },
    EdgeRow {
        edge: Edge::FetchJobs,
        name: "fetch.jobs",
        kind: Kind::Core,
        division: Division::Instance,
        is_framed: false,
        is_spooled: false,
        message: "ToFetcher",
        reply: None,
        producers: &[SCHEDULER],
        consumers: &[FETCHER],
    },
    EdgeRow {
        edge: Edge::FetchReports,
        name: "fetch.reports",
        kind: Kind::Stream(Retention::WorkQueue),
        division: Division::Partition,
        is_framed: false,
        is_spooled: false,
        message: "Report",
        reply: None,
        producers: &[FETCHER],
        consumers: &[SCHEDULER],
    },
    EdgeRow {
        edge: Edge::Pages,
        name: "pages",
        kind: Kind::Stream(Retention::Interest),
        division: Division::Whole,
        is_framed: true,
        is_spooled: true,
        message: "Page",
        reply: None,
        producers: &[FETCHER],
        consumers: &[PARSER, ARCHIVER],
    },
    EdgeRow {
        edge: Edge::Outcomes,
        name: "outcomes",
        kind: Kind::Stream(Retention::Interest),
        division: Division::Partition,
        is_framed: false,
        is_spooled: false,
        message: "Outcomes",
        reply: None,
        producers: &[SCHEDULER],
        consumers: &[ARCHIVER],
    },
    EdgeRow {
        edge: Edge::DnsRefresh,
        name: "dns.refresh",
        kind: Kind::Core,
        division: Division::Partition,
        is_framed: false,
        is_spooled: false,
        message: "DnsRefresh",
        reply: None,
        producers: &[SCHEDULER],
        consumers: &[RESOLVER],
    },
    EdgeRow {
        edge: Edge::Errands,
        name: "errands",
        kind: Kind::Core,
        division: Division::Partition,
        is_framed: false,
        is_spooled: false,
        message: "Errand",
        reply: None,
        producers: &[SCHEDULER],
        consumers: &[SCHEDULER],
    },
    EdgeRow {
        edge: Edge::UrlsFiltered,
        name: "urls.filtered",
        kind: Kind::Core,
        division: Division::Whole,
        is_framed: false,
        is_spooled: false,
        message: "FilteredUrls",
        reply: None,
        producers: &[HOST_SPLITTER],
        consumers: &[Party::Tap],
    },
    EdgeRow {
        edge: Edge::ContentAsks,
        name: "content.asks",
        kind: Kind::Core,
        division: Division::Instance,
        is_framed: false,
        is_spooled: false,
        message: "ContentAsk",
        reply: Some("ContentReply"),
        producers: &[PARSER],
        consumers: &[DEDUP],
    },
    EdgeRow {
        edge: Edge::Documents,
        name: "documents",
        kind: Kind::Stream(Retention::Interest),
        division: Division::Whole,
        is_framed: true,
        is_spooled: true,
        message: "Documents",
        reply: None,
        producers: &[PARSER],
        consumers: &[ARCHIVER],
    },
    EdgeRow {
        edge: Edge::UrlsBoosts,
        name: "urls.boosts",
        kind: Kind::Core,
        division: Division::Partition,
        is_framed: false,
        is_spooled: false,
        message: "Boosts",
        reply: None,
        producers: &[HOST_SPLITTER],
        consumers: &[SCHEDULER],
    },
    EdgeRow {
        edge: Edge::PagesSignals,
        name: "pages.signals",
        kind: Kind::Stream(Retention::WorkQueue),
        division: Division::Partition,
        is_framed: false,
        is_spooled: false,
        message: "PageSignals",
        reply: None,
        producers: &[PARSER],
        consumers: &[SCHEDULER],
    },
];

// The row of an edge stands at the edge's number.
const _: () = {
    let mut at = 0;
    while at < EDGES.len() {
        assert!(EDGES[at].edge.number() as usize == at + 1);
        at += 1;
    }
};
