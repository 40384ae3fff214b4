//! The words of the topology that both tables need: names of stages, and how an edge carries and
//! divides its messages.

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
