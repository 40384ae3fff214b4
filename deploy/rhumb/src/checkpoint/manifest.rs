//! The manifest of a checkpoint: what it is of, and which files it has, each with its length and
//! its checksum.
//!
//! In: the folder. Out: the manifest, when all of it fits together; or what does not, by name.
//! Invariant: nothing of a checkpoint is used before all of it was found whole.

use super::parts::PartsReader;
use super::saved::{SavedFile, SavedPartition, hex};
use anyhow::Context as _;
use rhumb_config::identity::{Mark, Misfit, check_format};
use rhumb_config::orders::Orders;
use rhumb_node::Saved;
use rhumb_partition::Owners;
use rhumb_telemetry::whole_file;
use rhumb_url::Rules;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

/// The file of the manifest.
pub(crate) const MANIFEST: &str = "checkpoint.json";
/// The file of the configuration.
pub(crate) const CONFIGURATION: &str = "pipeline.yaml";
/// How checkpoints are laid out by this build.
pub(crate) const FORMAT: u32 = 2;
/// The earliest format that is read: what was spent is in lines of numbers.
const FORMAT_MIN: u32 = 1;
/// Bytes of a file that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// How it is laid out.
    pub(crate) format: u32,
    /// No other checkpoint has the same.
    pub(crate) number: u64,
    /// When it was taken, in seconds since 1970.
    pub(crate) taken_s: u64,
    /// The name of its crawl.
    pub(crate) crawl: String,
    /// Which crawl it is.
    pub(crate) mark: Mark,
    /// Messages whose loss was accepted, by edge.
    pub(crate) lost: BTreeMap<String, u64>,
    /// With how many partitions the crawl began.
    pub(crate) partitions: u16,
    /// Which rewritings of URLs were done.
    pub(crate) url: Rules,
    /// Whether fetchers answered from an archive.
    #[serde(default)]
    pub(crate) replays: bool,
    /// Who had the partitions, by stage; with those that were split.
    pub(crate) owners: BTreeMap<String, Owners>,
    /// What operators have asked of the crawl.
    pub(crate) orders: Orders,
    /// The hosts, or domains, that are followed: entries of the scope, by their keys.
    pub(crate) scope: BTreeMap<String, String>,
    /// What was fetched of shared budgets: ledgers, by their keys.
    pub(crate) spent: BTreeMap<String, String>,
    /// URLs known, and URLs that waited.
    pub(crate) known: u64,
    pub(crate) waiting: u64,
    /// Bytes of all parts, unpacked.
    pub(crate) unpacked_bytes: u64,
    /// The files.
    pub(crate) files: Vec<SavedFile>,
}

/// The file, as it is read and written.
#[derive(Serialize, Deserialize)]
struct Sealed {
    /// SHA-256 of the rest, without any space.
    sha256: String,
    checkpoint: serde_json::Value,
}

impl Manifest {
    /// Reads the manifest in a folder, and checks that all its files are there as they were
    /// written.
    ///
    /// # Errors
    /// What is wrong with it, as a [`Misfit`]; or it cannot be read.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Manifest> {
        let manifest = Manifest::read(folder)?;
        check_format(
            &format!("the crawl of the checkpoint in {}", folder.display()),
            manifest.mark.format,
        )?;
        for file in &manifest.files {
            manifest.check_file(folder, file)?;
        }
        manifest.check_partitions(folder)?;
        Ok(manifest)
    }

    /// Reads the manifest alone.
    ///
    /// # Errors
    /// There is none, or it is damaged, or of another format.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Manifest> {
        let path = folder.join(MANIFEST);
        let place = folder.display();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let what = format!(
                    "{place} holds no checkpoint, or one that was not finished: there is no \
                     {MANIFEST}"
                );
                return Err(Misfit(what).into());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let damaged = |why: &str| {
            Misfit(format!(
                "{} is damaged ({why}): take another checkpoint",
                path.display()
            ))
        };
        let sealed: Sealed =
            serde_json::from_slice(&bytes).map_err(|error| damaged(&error.to_string()))?;
        match sealed
            .checkpoint
            .get("format")
            .and_then(serde_json::Value::as_u64)
        {
            Some(format) if (u64::from(FORMAT_MIN)..=u64::from(FORMAT)).contains(&format) => {}
            format => {
                let format = format.map_or_else(
                    || "that it does not name".to_owned(),
                    |format| format.to_string(),
                );
                return Err(Misfit(format!(
                    "the checkpoint in {place} is of format {format}, this program reads formats \
                     {FORMAT_MIN} to {FORMAT}: restore it with the version that took it"
                ))
                .into());
            }
        }
        if hex(&Sha256::digest(sealed.checkpoint.to_string())) != sealed.sha256 {
            return Err(damaged("its checksum is another").into());
        }
        serde_json::from_value(sealed.checkpoint)
            .map_err(|error| damaged(&error.to_string()).into())
    }

    /// Writes it into a folder: with that the checkpoint is whole.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let checkpoint = serde_json::to_value(self)?;
        let path = folder.join(MANIFEST);
        let sealed = Sealed {
            sha256: hex(&Sha256::digest(checkpoint.to_string())),
            checkpoint,
        };
        whole_file::replace(&path, &serde_json::to_vec_pretty(&sealed)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// What tells it from all others.
    pub(crate) fn name(&self) -> String {
        format!("{} of {}", self.number, self.mark)
    }

    /// What the parts of a partition in a file say of themselves.
    pub(crate) fn saved(&self, of: &SavedPartition) -> Saved {
        Saved::new(
            &self.mark.to_string(),
            &of.stage,
            (of.partition, of.version),
            self.number,
        )
    }

    fn check_file(&self, folder: &Path, saved: &SavedFile) -> anyhow::Result<()> {
        let path = folder.join(&saved.path);
        let wrong = |what: &str| {
            Misfit(format!(
                "{} {what}: take another checkpoint",
                path.display()
            ))
        };
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(wrong("is missing").into());
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let mut hash = Sha256::new();
        let mut bytes = 0;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let n = file
                .read(&mut piece)
                .with_context(|| format!("cannot read {}", path.display()))?;
            if n == 0 {
                break;
            }
            hash.update(&piece[..n]);
            bytes += n as u64;
        }
        if bytes != saved.bytes {
            return Err(wrong(&format!("has {bytes} bytes, {} were written", saved.bytes)).into());
        }
        if hex(&hash.finalize()) != saved.sha256 {
            return Err(wrong("is damaged: its checksum is another").into());
        }
        Ok(())
    }

    /// Checks that there is a file for each partition of each stage, and that it begins with a part
    /// of it.
    fn check_partitions(&self, folder: &Path) -> anyhow::Result<()> {
        let lacks = |what: String| {
            Misfit(format!(
                "the checkpoint in {} {what}: take another",
                folder.display()
            ))
        };
        for (stage, owners) in &self.owners {
            for (partition, _) in owners.all() {
                let is_of = |of: &SavedPartition| of.stage == *stage && of.partition == partition;
                let files = self
                    .files
                    .iter()
                    .filter_map(|file| Some((file, file.of.as_ref()?)));
                let mut files = files.filter(|(_, of)| is_of(of));
                let (Some((file, of)), None) = (files.next(), files.next()) else {
                    return Err(lacks(format!(
                        "has not one file for partition {partition} of {stage}"
                    ))
                    .into());
                };
                let first = PartsReader::open(&folder.join(&file.path))?.next()?;
                let first = first.with_context(|| format!("{} is empty", file.path))?;
                self.saved(of)
                    .check(0, &first)
                    .map_err(|why| lacks(format!("cannot be used: {}: {why}", file.path)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The manifest of a checkpoint of the crawl with this id.
    pub(crate) fn manifest_of(id: &str) -> Manifest {
        Manifest {
            format: FORMAT,
            number: u64::MAX,
            taken_s: 1_700_000_000,
            crawl: "news".into(),
            mark: Mark::first(id.to_owned()),
            lost: BTreeMap::new(),
            partitions: 4,
            url: Rules::default(),
            replays: false,
            owners: BTreeMap::new(),
            orders: Orders::default(),
            scope: BTreeMap::from([("k".into(), "default\nb\u{fc}cher.example".into())]),
            spent: BTreeMap::new(),
            known: 3,
            waiting: 2,
            unpacked_bytes: 10,
            files: Vec::new(),
        }
    }

    fn manifest() -> Manifest {
        manifest_of("a")
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written_and_refused_when_anything_of_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            Manifest::read(folder.path())
                .unwrap_err()
                .to_string()
                .contains("holds no checkpoint")
        );
        manifest().write(folder.path()).unwrap();
        assert_eq!(Manifest::read(folder.path()).unwrap(), manifest());
        let path = folder.path().join(MANIFEST);
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("\"known\": 3", "\"known\": 4"),
            ("}", ""),
            ("\"news\"", "\"mews\""),
        ] {
            std::fs::write(&path, text.replace(from, to)).unwrap();
            let error = Manifest::read(folder.path()).unwrap_err();
            assert!(
                error.is::<Misfit>() && error.to_string().contains("is damaged"),
                "{error:#}"
            );
        }
    }

    #[test]
    fn a_manifest_of_a_later_format_is_refused_by_name_and_one_of_the_first_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let of_format = |format| {
            let manifest = Manifest {
                format,
                ..manifest()
            };
            manifest.write(folder.path()).unwrap();
            Manifest::read(folder.path())
        };
        let error = of_format(3).unwrap_err().to_string();
        assert!(
            error.contains("is of format 3, this program reads formats 1 to 2"),
            "{error}"
        );
        assert_eq!(of_format(1).unwrap().format, 1);
    }

    #[test]
    fn a_file_that_is_missing_or_another_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = SavedFile {
            path: CONFIGURATION.into(),
            bytes: 3,
            sha256: hex(&Sha256::digest(b"abc")),
            of: None,
        };
        Manifest {
            files: vec![file],
            ..manifest()
        }
        .write(folder.path())
        .unwrap();
        let refused = || Manifest::open(folder.path()).unwrap_err().to_string();
        assert!(
            refused().contains("pipeline.yaml is missing"),
            "{}",
            refused()
        );
        for (text, words) in [
            ("abcd", "has 4 bytes, 3 were written"),
            ("abd", "its checksum is another"),
        ] {
            std::fs::write(folder.path().join(CONFIGURATION), text).unwrap();
            assert!(refused().contains(words), "{}", refused());
        }
        std::fs::write(folder.path().join(CONFIGURATION), "abc").unwrap();
        Manifest::open(folder.path()).unwrap();
    }
}
