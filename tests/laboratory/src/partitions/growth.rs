//! Growth: partitions split as a web grows.
//!
//! A partition splits when it has more URLs than the limit, and more than half of the limit beside
//! its largest host: what would stay with one enormous host is not worth a split.

use super::web::{Host, Kind, Web};
use anyhow::Context as _;
use rhumb_partition::{Directory, Slice};
use std::ops::RangeInclusive;

/// The limit of a partition's URLs when instances come and go, as a part of all: a web that is
/// spread evenly over twice as many partitions would fill them.
const LIMIT: f64 = 1.0 / 128.0;
/// How many times as large a web becomes.
const GROWTH: f64 = 16.0;
/// Steps in which its size doubles.
const STEPS_PER_DOUBLING: u32 = 6;

/// What a partition has of a web.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Content {
    pub(super) partition: u16,
    pub(super) urls: f64,
    pub(super) time: f64,
    /// URLs of its largest host.
    pub(super) largest: f64,
}

impl Content {
    fn of(partition: u16, range: &RangeInclusive<u64>, hosts: &[Host]) -> Self {
        let from = hosts.partition_point(|host| host.hash < *range.start());
        let within = hosts[from..]
            .iter()
            .take_while(|host| range.contains(&host.hash));
        within.fold(
            Content {
                partition,
                ..Content::default()
            },
            |sum, host| Content {
                urls: sum.urls + host.urls,
                time: sum.time + host.time,
                largest: sum.largest.max(host.urls),
                ..sum
            },
        )
    }

    fn is_to_split(&self, limit: f64) -> bool {
        self.urls > limit && self.urls - self.largest > limit / 2.0
    }
}

fn contents(directory: &Directory, web: &Web) -> Vec<Content> {
    directory
        .slices()
        .map(|(Slice { partition, .. }, range)| Content::of(partition, &range, &web.hosts))
        .collect()
}

fn split(directory: &mut Directory, web: &Web, limit: f64) -> anyhow::Result<()> {
    loop {
        let to_split: Vec<u16> = contents(directory, web)
            .into_iter()
            .filter(|content| content.is_to_split(limit))
            .map(|content| content.partition)
            .collect();
        if to_split.is_empty() {
            return Ok(());
        }
        for partition in to_split {
            directory
                .split(partition)
                .with_context(|| format!("partition {partition} cannot be split"))?;
        }
    }
}

/// The partitions of a web, split where they are overfull if that is asked for.
pub(super) fn slices(web: &Web, n_partitions: u16, is_split: bool) -> anyhow::Result<Vec<Content>> {
    let mut directory = Directory::new(n_partitions);
    if is_split {
        split(&mut directory, web, LIMIT)?;
    }
    Ok(contents(&directory, web))
}

/// The directory at one size of the web.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Size {
    /// URLs, in limits of a partition.
    pub(super) urls: f64,
    pub(super) partitions: usize,
    pub(super) global_depth: u32,
    /// Partitions above the limit: their largest hosts are too large to share one.
    pub(super) over_limit: usize,
}

/// How the directory grew with a web.
#[derive(Clone, Debug)]
pub(super) struct Growth {
    pub(super) kind: Kind,
    pub(super) seed: u64,
    pub(super) sizes: Vec<Size>,
}

impl Growth {
    /// Lets all hosts of a web grow alike, from as many URLs as the partitions of the beginning
    /// hold.
    pub(super) fn measure(web: &Web, n_partitions: u16) -> anyhow::Result<Self> {
        let mut directory = Directory::new(n_partitions);
        let mut sizes = Vec::new();
        let doublings = GROWTH.log2() as u32;
        for step in 0..=doublings * STEPS_PER_DOUBLING {
            let urls =
                f64::from(n_partitions) * (f64::from(step) / f64::from(STEPS_PER_DOUBLING)).exp2();
            split(&mut directory, web, 1.0 / urls)?;
            let contents = contents(&directory, web);
            sizes.push(Size {
                urls,
                partitions: contents.len(),
                global_depth: directory.global_depth(),
                over_limit: contents
                    .iter()
                    .filter(|content| content.urls * urls > 1.0)
                    .count(),
            });
        }
        Ok(Growth {
            kind: web.kind,
            seed: web.seed,
            sizes,
        })
    }

    /// How full partitions are on average, over all sizes.
    pub(super) fn fullness(&self) -> f64 {
        self.sizes
            .iter()
            .map(|size| size.urls / size.partitions as f64)
            .sum::<f64>()
            / self.sizes.len() as f64
    }
}
