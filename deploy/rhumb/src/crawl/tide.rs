//! The tide: how high the streams of a crawl stood when they were seen last. It only rises.
//!
//! In: last sequences of streams, from snapshots and looks; those of earlier runs from a file, if
//! there is one. Out: a [`Misfit`] when one has fallen, which publishers without state cannot tell
//! after a restart; and how many messages are lost with it. Invariant: the file is never ahead of
//! what the streams had given out, and behind it by [`WRITE_EVERY`] at most.

use anyhow::Context as _;
use rhumb_bus::{Bus, stream_info};
use rhumb_config::Pipeline;
use rhumb_config::identity::{Misfit, WAYS_OUT};
use rhumb_config::lasting_streams;
use rhumb_telemetry::whole_file;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file, in the data directory.
pub(crate) const TIDE: &str = "streams.json";
/// How often it is written, when anything has changed.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// The last sequences of streams, by edge.
type Sequences = BTreeMap<String, u64>;

/// How high the streams stood.
#[derive(Debug)]
pub(super) struct Tide {
    /// None where nothing is kept: then each stage with state finds out by itself what its streams
    /// lost meanwhile.
    file: Option<PathBuf>,
    /// The edges in whose streams a sequence number is given out once.
    edges: BTreeSet<String>,
    last: Sequences,
    /// When the file was written; none when it is as it was read.
    written: Option<Instant>,
    /// Something has changed since.
    has_news: bool,
}

impl Tide {
    /// Reads how high the streams stood at the end of the last run.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn open(data: &Path, pipeline: &Pipeline) -> anyhow::Result<Self> {
        let file = data.join(TIDE);
        let mut last: Sequences = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Misfit(format!(
                    "{} is damaged ({error}): put it back, or remove it; without it, what the \
                     broker lost while the crawl was stopped is noticed only by stages with state",
                    file.display()
                ))
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => Sequences::default(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        };
        let mut tide = Tide::in_memory(pipeline);
        last.retain(|edge, _| tide.edges.contains(edge));
        (tide.file, tide.last) = (Some(file), last);
        Ok(tide)
    }

    /// Knows of no earlier run, and keeps nothing.
    pub(super) fn in_memory(pipeline: &Pipeline) -> Self {
        let edges: BTreeSet<String> = lasting_streams(pipeline)
            .into_iter()
            .map(str::to_owned)
            .collect();
        Tide {
            file: None,
            edges,
            last: Sequences::default(),
            written: None,
            has_news: false,
        }
    }

    /// Takes in the last sequences of streams.
    ///
    /// # Errors
    /// One stands lower than it did.
    pub(super) fn learn(&mut self, sequences: &Sequences) -> Result<(), Misfit> {
        if let Some((edge, was, is)) = self.fallen(sequences).next() {
            return Err(Misfit(format!(
                "the stream of {edge} of this crawl is shorter than it was: its last message is \
                 {is}, it had given out {was}. Its broker lost messages, or was restored from an \
                 earlier copy: {WAYS_OUT}"
            )));
        }
        for (edge, last) in sequences
            .iter()
            .filter(|(edge, _)| self.edges.contains(*edge))
        {
            self.has_news |= self.last.insert(edge.clone(), *last) != Some(*last);
        }
        if self.has_news && self.written.is_none_or(|at| at.elapsed() >= WRITE_EVERY) {
            self.write();
        }
        Ok(())
    }

    /// The edges whose streams stand lower than they did, with what it was and what it is.
    fn fallen<'a>(
        &'a self,
        sequences: &'a Sequences,
    ) -> impl Iterator<Item = (&'a String, u64, u64)> {
        self.last.iter().filter_map(|(edge, was)| {
            let is = sequences.get(edge).filter(|is| *is < was)?;
            Some((edge, *was, *is))
        })
    }

    /// Looks at the streams.
    ///
    /// # Errors
    /// One stands lower than it did ([`Misfit`]), or the broker does not answer.
    pub(super) async fn look(&mut self, bus: &Bus) -> anyhow::Result<()> {
        self.learn(&self.now(bus).await?)?;
        self.write();
        Ok(())
    }

    /// Accepts that streams stand lower, or are gone. Returns how many of their messages are lost
    /// at most, by edge.
    ///
    /// # Errors
    /// The broker does not answer.
    pub(super) async fn accept(&mut self, bus: &Bus) -> anyhow::Result<Sequences> {
        let sequences = self.now(bus).await?;
        let lost = self
            .fallen(&sequences)
            .map(|(edge, was, is)| (edge.clone(), was - is))
            .collect();
        self.last = sequences;
        Ok(lost)
    }

    /// Writes how high the streams stood to the file. A full disk is looked after elsewhere: then
    /// the file stays as it was.
    pub(super) fn write(&mut self) {
        (self.written, self.has_news) = (Some(Instant::now()), false);
        let Some(file) = &self.file else { return };
        let written = serde_json::to_vec(&self.last).map_err(std::io::Error::other);
        if let Err(error) = written.and_then(|bytes| whole_file::replace(file, &bytes)) {
            tracing::debug!("cannot write {}: {error}", file.display());
        }
    }

    /// The last sequences of the streams; 0 of one that is not there.
    async fn now(&self, bus: &Bus) -> anyhow::Result<Sequences> {
        let mut sequences = Sequences::new();
        for edge in &self.edges {
            let info = stream_info(bus, &bus.subjects.stream(edge)).await?;
            sequences.insert(
                edge.clone(),
                info.map_or(0, |info| info.state.last_sequence),
            );
        }
        Ok(sequences)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::Layers;

    fn sequences(pages: u64, outcomes: u64) -> Sequences {
        [
            ("pages".to_owned(), pages),
            ("outcomes".to_owned(), outcomes),
        ]
        .into()
    }

    fn pipeline() -> Pipeline {
        let set = [
            "network.allow_private_addresses=true",
            "stages.archiver.replicas=1",
            "edges.documents.storage=memory",
        ]
        .map(str::to_owned);
        Layers {
            file: None,
            set: set.to_vec(),
        }
        .load_with(std::iter::empty())
        .unwrap()
    }

    #[test]
    fn a_stream_that_stands_lower_than_in_any_run_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut tide = Tide::open(folder.path(), &pipeline()).unwrap();
        tide.learn(&sequences(7, 3)).unwrap();
        tide.learn(&sequences(9, 3)).unwrap();
        let text = tide.learn(&sequences(8, 4)).unwrap_err().to_string();
        assert!(
            text.contains("stream of pages") && text.contains("is 8, it had given out 9"),
            "{text}"
        );
        tide.write();
        let mut next = Tide::open(folder.path(), &pipeline()).unwrap();
        assert!(
            next.learn(&sequences(9, 2))
                .unwrap_err()
                .to_string()
                .contains("stream of outcomes")
        );
        assert_eq!(
            next.fallen(&sequences(2, 1))
                .map(|(_, was, is)| was - is)
                .sum::<u64>(),
            9
        );
        next.learn(&Sequences::new()).unwrap();
        let documents = |last| [("documents".to_owned(), last)].into();
        next.learn(&documents(5)).unwrap();
        next.learn(&documents(1)).unwrap();
    }
}
