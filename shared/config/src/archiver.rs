//! The section `stages.archiver` of `pipeline.yaml`.

use super::keys::{choice, section};
use super::units::Bytes;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// Settings of the archiver.
    pub struct Archiver {
        /// Instances; 0: nothing is kept. A crawl with an archiver waits for it rather than lose a
        /// page.
        #[key(default = "0", range = "0..1000")]
        pub replicas: u16,
        /// Address of /healthz, /readyz and /metrics; port 0: a free one.
        #[key(default = "127.0.0.1:0")]
        pub listen: SocketAddr,
        /// Folder of the files; empty: archive in the crawl's data directory.
        #[key(default = "")]
        pub dir: PathBuf,
        /// A WARC file is finished when it has reached this size.
        #[key(default = "1GiB", range = "1MiB..64GiB")]
        pub file_bytes_max: Bytes,
        /// A WARC file is finished when it has reached this age.
        #[key(default = "1h", range = "1s..30d")]
        pub file_age_max: Duration,
        /// A page waits this long, so that several are written together.
        #[key(default = "200ms", range = "1ms..10s")]
        pub linger: Duration,
        /// Each topic has WARC files of its own, `<crawl>-<topic>-…`; all are finished with the
        /// longest.
        #[key(default = "false")]
        pub by_topic: bool,
        /// How records are compressed.
        #[key(default = "warc.gz")]
        pub format: WarcFormat,
        /// Effort of the compression, from 0 (none, the fastest) to 12 (the smallest); bodies that
        /// servers sent compressed stay as they are.
        #[key(default = "1", range = "0..12")]
        pub compression: u8,
        /// Number of bodies remembered, about 250 bytes each: a body that comes again is kept as a
        /// reference (revisit) to the first.
        #[key(default = "100000", range = "0..1000000000")]
        pub digests: usize,
    }
}

choice! {
    /// How the records of WARC files are compressed, each by itself.
    pub enum WarcFormat {
        /// Gzip members, which every tool reads (WARC 1.1, annex A).
        #[serde(rename = "warc.gz")]
        Gzip,
        /// Zstandard frames without a dictionary, which take less CPU time where compression is
        /// above 1 (the IIPC's "Zstandard compression for WARC files" 1.0).
        #[serde(rename = "warc.zst")]
        Zstd,
    }
}

impl WarcFormat {
    /// All there are.
    pub const ALL: [WarcFormat; 2] = [WarcFormat::Gzip, WarcFormat::Zstd];

    /// What the names of such files end in.
    pub fn extension(self) -> &'static str {
        match self {
            WarcFormat::Gzip => "warc.gz",
            WarcFormat::Zstd => "warc.zst",
        }
    }
}
