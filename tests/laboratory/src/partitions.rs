//! Partitions: how evenly do instances share the hosts, and how much moves when one comes or goes?
//!
//! In: webs of hosts, generated. Out: `partitions-scaling.csv`, `partitions-growth.csv`,
//! `partitions.svg` and each claim with what was found.
//!
//! The planner and the directory are the crawler's own ([`rhumb_partition`]). Beside them stand two
//! ways of finding an instance without a table: the rest of a division (*modulo*), and the instance
//! whose hash with the partition is highest (*rendezvous*, Thaler and Ravishankar 1998). Instances
//! join one by one until there are [`Settings::instances`], and leave again one by one.
//!
//! Invariant: a host counts with all its URLs, because all of them are in one partition.
//!
//! Sources: the two-level mapping and the extendible hashing of PQ-MCSA; Fagin, Nievergelt,
//! Pippenger and Strong 1979.

mod claims;
mod figure;
mod growth;
mod scaling;
mod table;
#[cfg(test)]
mod tests;
mod web;

use crate::Claim;
use anyhow::{Context as _, ensure};
use growth::Growth;
use scaling::{Scaling, Scheme};
use std::fs;
use std::path::PathBuf;
use web::{Kind, Web};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hosts of a web.
    pub hosts: usize,
    /// Partitions at the beginning: a power of two.
    pub partitions: u16,
    /// Most instances.
    pub instances: u16,
    /// Webs of each kind.
    pub webs: u64,
    /// Seed of the first web: the same seed gives the same webs.
    pub seed: u64,
    /// Where the tables and the figure go; made if it is not there.
    pub folder: PathBuf,
}

impl Default for Settings {
    /// 10,000 hosts, 64 partitions, up to 8 instances, five webs of each kind.
    fn default() -> Self {
        Settings {
            hosts: 10_000,
            partitions: 64,
            instances: 8,
            webs: 5,
            seed: 2009,
            folder: PathBuf::from("."),
        }
    }
}

/// Lets instances come and go and partitions split on all webs, writes tables and figure, and
/// judges.
///
/// `progress` is told what is being done, a line at a time.
///
/// # Errors
/// When settings make no sense, or a file cannot be written.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<Claim>> {
    ensure!(
        settings.hosts > 0 && settings.webs > 0,
        "there must be a web, and a host in it"
    );
    ensure!(
        settings.partitions.is_power_of_two(),
        "the number of partitions must be a power of two"
    );
    ensure!(
        settings.instances > 1,
        "there must be two instances, so that one can join and leave"
    );
    // Before the work, so that a wrong folder does not show after it.
    let folder = &settings.folder;
    fs::create_dir_all(folder)
        .with_context(|| format!("failed to make the folder {}", folder.display()))?;

    let mut scalings = Vec::new();
    let mut growths = Vec::new();
    for kind in Kind::ALL {
        for seed in settings.seed..settings.seed + settings.webs {
            progress(&format!("{kind}, web {seed}"));
            let web = Web::generate(kind, settings.hosts, seed);
            for is_split in [false, true] {
                let slices = growth::slices(&web, settings.partitions, is_split)?;
                for scheme in Scheme::ALL {
                    scalings.push(Scaling::measure(
                        &web,
                        is_split,
                        scheme,
                        &slices,
                        settings.instances,
                    ));
                }
            }
            growths.push(Growth::measure(&web, settings.partitions)?);
        }
    }
    let files = [
        ("partitions-scaling.csv", table::scaling(&scalings)),
        ("partitions-growth.csv", table::growth(&growths)),
        ("partitions.svg", figure::svg(&scalings, &growths)),
    ];
    for (name, text) in files {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
        progress(&format!("wrote {}", file.display()));
    }
    Ok(claims::judge(&scalings, &growths))
}
