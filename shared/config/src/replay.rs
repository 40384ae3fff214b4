//! Replay: what else is configured when fetchers answer from an archive.
//!
//! In: a configuration as it was read. Out: one without pauses, when there is an archive.
//! Invariant: what decides which URLs are fetched stays as it was.

use super::Pipeline;
use std::path::Path;
use std::time::Duration;

impl Pipeline {
    /// The archive that fetchers read in the place of the web; none in a crawl of the web.
    pub fn replayed(&self) -> Option<&Path> {
        let archive = &self.stages.fetcher.archive;
        (!archive.as_os_str().is_empty()).then_some(archive)
    }

    /// Checks that a crawl goes on with what it began with, an archive or the web. `of` names it in
    /// errors.
    ///
    /// # Errors
    /// It would go on with the other one.
    pub fn check_replays(&self, replays: bool, of: &str) -> Result<(), String> {
        match (replays, self.replayed()) {
            (true, None) => Err(format!(
                "{of} reads an archive in the place of the web, and none is named: name it (--from \
                 DIR, or stages.fetcher.archive), or begin another crawl to ask the web"
            )),
            (false, Some(archive)) => Err(format!(
                "configuration key stages.fetcher.archive = {}: {of} fetches from the web; leave \
                 the key out, or begin another crawl to read the archive",
                archive.display()
            )),
            (true, Some(_)) | (false, None) => Ok(()),
        }
    }

    /// A replay waits for nobody: no server is contacted, so none has to be spared, and no address
    /// is private.
    pub(super) fn hurried(mut self) -> Self {
        if self.replayed().is_none() {
            return self;
        }
        let politeness = &mut self.politeness;
        politeness.delay = Duration::ZERO;
        politeness.crawl_delay_max = Duration::ZERO;
        politeness.download_factor = 0;
        politeness.retry_after_max = Duration::ZERO;
        politeness.connections_per_address = 0;
        politeness.groups.clear();
        self.stages.scheduler.retry_wait = Duration::ZERO;
        self.stages.scheduler.retry_wait_max = Duration::ZERO;
        self.network.allow_private_addresses = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layers, Pipeline};
    use crate::orders::{Author, Setting};
    use std::path::Path;
    use std::time::Duration;

    fn load(set: &[&str]) -> Result<Pipeline, String> {
        let set = set
            .iter()
            .map(|assignment| (*assignment).to_owned())
            .collect();
        Layers { file: None, set }
            .load_with(std::iter::empty())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_replay_has_no_pauses_also_after_a_change_and_needs_no_contact() {
        let set = [
            "stages.fetcher.archive=/a",
            "politeness.delay=7s",
            "politeness.groups=[{by: registered-domain}]",
        ];
        let pipeline = load(&set).unwrap();
        assert_eq!(pipeline.replayed(), Some(Path::new("/a")));
        assert!(pipeline.politeness.groups.is_empty() && pipeline.network.allow_private_addresses);
        let setting = Setting {
            key: "politeness.delay".to_owned(),
            value: "9s".into(),
            author: Author::default(),
        };
        for pipeline in [pipeline.with(&[setting]).unwrap(), pipeline] {
            let waits = (
                pipeline.politeness.delay,
                pipeline.stages.scheduler.retry_wait_max,
            );
            assert_eq!(waits, (Duration::ZERO, Duration::ZERO));
        }
        let web = load(&["network.user_agent=t (a@b)", "politeness.delay=7s"]).unwrap();
        assert_eq!(
            (web.replayed(), web.politeness.delay),
            (None, Duration::from_secs(7))
        );
    }

    #[test]
    fn a_replay_is_not_kept_in_the_archive_that_it_reads() {
        let set = ["stages.fetcher.archive=/a", "stages.archiver.replicas=1"];
        load(&set).unwrap();
        let error = load(&[set[0], set[1], "stages.archiver.dir=/a"]).unwrap_err();
        assert!(
            error.contains("stages.archiver.dir = '/a'") && error.contains("another one"),
            "{error}"
        );
    }
}
