//! Which partitions have grown too large, and can be split.
//!
//! In: how many URLs each partition knows, and its keys. Out: a partition to be split, if there is
//! one.
//!
//! A split does not help a partition most of whose URLs are of one host: a host is in one
//! partition. It takes a pass over the keys to find out, so that is done when a partition has
//! become too large, and again when it has doubled.

use crate::seen::{SeenError, SeenStore};
use foldhash::{HashMap, HashMapExt as _};

/// What is known of the partitions' sizes.
pub(crate) struct Sizes {
    /// A partition with more known URLs is too large; 0: none is.
    urls_max: u64,
    /// The partitions whose keys were looked through.
    looked: HashMap<u16, Look>,
}

/// What a pass over the keys of a partition has found.
#[derive(Clone, Copy)]
struct Look {
    known: u64,
    is_of_one_host: bool,
}

impl Sizes {
    /// `urls_max`: a partition with more known URLs is too large; 0: none is.
    pub(crate) fn new(urls_max: u64) -> Self {
        Sizes {
            urls_max,
            looked: HashMap::new(),
        }
    }

    /// A partition that is too large, and not because of one host.
    pub(crate) fn overfull(
        &mut self,
        mut partitions: impl Iterator<Item = u16>,
        seen: &dyn SeenStore,
    ) -> Result<Option<u16>, SeenError> {
        let urls_max = self.urls_max;
        let is_large = |partition: &u16| urls_max > 0 && seen.known(*partition) > urls_max;
        // A pass over the keys is none while questions wait.
        while let Some(partition) = partitions.find(is_large).filter(|_| seen.is_idle()) {
            if !self.look(partition, seen)?.is_of_one_host {
                return Ok(Some(partition));
            }
        }
        Ok(None)
    }

    fn look(&mut self, partition: u16, seen: &dyn SeenStore) -> Result<Look, SeenError> {
        let known = seen.known(partition);
        if let Some(&look) = self
            .looked
            .get(&partition)
            .filter(|look| known < 2 * look.known)
        {
            return Ok(look);
        }
        let is_of_one_host = urls_of_largest_host(partition, seen)? > known / 2;
        if is_of_one_host {
            let urls_max = self.urls_max;
            tracing::warn!(
                partition,
                known,
                urls_max,
                "most URLs of a partition are of one host: it cannot be split"
            );
        }
        let look = Look {
            known,
            is_of_one_host,
        };
        self.looked.insert(partition, look);
        Ok(look)
    }

    /// Returns whether a partition is too large because of one host.
    pub(crate) fn is_of_one_host(&self, partition: u16) -> bool {
        self.looked
            .get(&partition)
            .is_some_and(|look| look.is_of_one_host)
    }

    /// How many partitions are too large because of one host.
    pub(crate) fn of_one_host(&self) -> u64 {
        self.looked
            .values()
            .filter(|look| look.is_of_one_host)
            .count() as u64
    }
}

/// The keys of a host lie together.
fn urls_of_largest_host(partition: u16, seen: &dyn SeenStore) -> Result<u64, SeenError> {
    let mut last = None;
    let mut urls = 0;
    let mut most = 0;
    seen.visit(partition, &mut |(host, _)| {
        urls = if last == Some(host) { urls + 1 } else { 1 };
        (last, most) = (Some(host), most.max(urls));
        Ok(())
    })?;
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::{Settings, open};
    use rhumb_config::DedupStore;
    use std::time::Duration;

    fn store(folder: &tempfile::TempDir, kind: DedupStore) -> Box<dyn SeenStore> {
        let settings = Settings {
            store: kind,
            buffer_bytes: 1 << 16,
            flush_after: Duration::from_secs(1),
            filter_urls: 30,
            filter_bytes_max: 1 << 10,
            sync: false,
        };
        let mut store = open(&settings, folder.path().into(), &[], None).unwrap();
        // By partition: how many hosts, and how many URLs of each.
        for (partition, keys) in [(1, keys(20, 1)), (2, keys(2, 1)), (3, keys(5, 2))] {
            let mut import = store.importer(partition).unwrap();
            import.push(&keys).unwrap();
            store.import(import).unwrap();
        }
        // Nearly all of one host.
        let of_one = (0..30)
            .map(|url| (7, url))
            .chain([(8, 1)])
            .collect::<Vec<_>>();
        let mut import = store.importer(4).unwrap();
        import.push(&of_one).unwrap();
        store.import(import).unwrap();
        store
    }

    fn keys(hosts: u64, urls: u64) -> Vec<(u64, u64)> {
        (0..hosts)
            .flat_map(|host| (0..urls).map(move |url| (host, url)))
            .collect()
    }

    #[test]
    fn a_partition_with_many_hosts_is_too_large_and_one_of_one_host_cannot_be_split() {
        for kind in [DedupStore::Disk, DedupStore::Memory] {
            let folder = tempfile::tempdir().unwrap();
            let store = store(&folder, kind);
            let mut sizes = Sizes::new(10);
            let mut overfull = |partitions: &[u16]| {
                sizes
                    .overfull(partitions.iter().copied(), store.as_ref())
                    .unwrap()
            };
            assert_eq!(
                (overfull(&[2, 3]), overfull(&[4]), overfull(&[2, 4, 1])),
                (None, None, Some(1))
            );
            assert_eq!(sizes.of_one_host(), 1);
            assert!(sizes.is_of_one_host(4) && !sizes.is_of_one_host(1));
            let mut none = Sizes::new(0);
            assert_eq!(
                none.overfull([1, 4].into_iter(), store.as_ref()).unwrap(),
                None
            );
        }
    }
}
