//! Identity: by which streams, stores, folders and processes of one crawl know each other.
//!
//! In: the configuration when a crawl begins. Out: [`Identity`]. It lies at the broker in the
//! bucket `identity` and in the metadata of every stream, in every store, in the data directory,
//! and in what a process tells of itself. Whoever finds two that differ ends with a [`Misfit`]: to
//! go on would lose URLs without a word.
//!
//! Invariants: whoever writes the bucket first decides; an id never changes; the generation grows
//! by one each time that an operator accepts a loss, and by nothing else.

use crate::Pipeline;
use rhumb_url::Rules;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// How streams and stores are laid out by this build: keys begin with the hash of a host, and
/// partitions are ranges of it. Up to format 1 they began with the number of a partition, which was
/// a rest of a division. Up to format 2 the slots of the scheduler's URLs named no topic.
pub const FORMAT: u32 = 3;
/// What does not name its format is of this one or an earlier one.
const UNNAMED_FORMAT: u32 = 1;
/// Bits of a serial below those of its generation.
const SERIAL_BITS: u32 = 40;
/// Keys of a stream's metadata.
const STREAM_ID: &str = "rhumb_crawl";
const STREAM_GENERATION: &str = "rhumb_generation";
const STREAM_FORMAT: &str = "rhumb_format";

/// What is found does not fit the crawl: what it is, what was expected, and what can be done. To
/// start again would not help.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(pub String);

impl Misfit {
    /// The broker does not know a crawl that it held.
    pub fn gone(crawl: &str) -> Misfit {
        Misfit(format!(
            "the broker does not know {crawl} any more: its store is gone, or it is another \
             broker; {WAYS_OUT}"
        ))
    }
}

/// What an operator can do about a crawl whose parts do not fit together any more.
pub const WAYS_OUT: &str = "put back what was there, or go on without what is missing (rhumb crawl \
                            --resume --accept-loss), or begin anew (rhumb delete)";

/// Checks that this build can go on with what was begun in a format.
///
/// # Errors
/// It cannot: whose format it is, and what can be done.
pub fn check_format(whose: &str, format: u32) -> Result<(), Misfit> {
    match format {
        FORMAT => Ok(()),
        _ => Err(Misfit(format!(
            "{whose} was begun in format {format}, this program writes format {FORMAT}: finish it \
             with the version that began it, or delete it (rhumb delete)"
        ))),
    }
}

/// Which crawl, which of its generations, and in which format it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// 128 random bits in hexadecimal digits.
    pub id: String,
    /// 1 at first; one more after each loss that was accepted.
    pub generation: u32,
    /// How its streams and stores are laid out.
    #[serde(default = "unnamed_format")]
    pub format: u32,
}

fn unnamed_format() -> u32 {
    UNNAMED_FORMAT
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crawl {}, generation {}", self.id, self.generation)
    }
}

impl Mark {
    /// The mark of a crawl that begins under this id.
    pub fn first(id: String) -> Self {
        Mark {
            id,
            generation: 1,
            format: FORMAT,
        }
    }

    /// For the metadata of a stream.
    pub fn metadata(&self) -> HashMap<String, String> {
        let entry = |key: &str, value: String| (key.to_owned(), value);
        [
            entry(STREAM_ID, self.id.clone()),
            entry(STREAM_GENERATION, self.generation.to_string()),
            entry(STREAM_FORMAT, self.format.to_string()),
        ]
        .into()
    }

    /// Reads a stream's metadata; none when it has no mark.
    pub fn of_stream(metadata: &HashMap<String, String>) -> Option<Self> {
        let generation = metadata.get(STREAM_GENERATION)?.parse().ok()?;
        let format = metadata
            .get(STREAM_FORMAT)
            .map_or(Some(UNNAMED_FORMAT), |format| format.parse().ok())?;
        Some(Mark {
            id: metadata.get(STREAM_ID)?.clone(),
            generation,
            format,
        })
    }

    /// Reads the metadata of a stream with which this build is to go on, whichever crawl it belongs
    /// to.
    ///
    /// # Errors
    /// It has no mark, or is of another format.
    pub fn of_usable_stream(
        stream: &str,
        metadata: &HashMap<String, String>,
    ) -> Result<Self, Misfit> {
        let Some(mark) = Mark::of_stream(metadata) else {
            return Err(Misfit(format!(
                "the stream {stream} at the broker names no crawl, so its format is not {FORMAT}: \
                 finish its crawl with the version that began it, or delete it (rhumb delete)"
            )));
        };
        check_format(
            &format!("the crawl of the stream {stream} at the broker"),
            mark.format,
        )?;
        Ok(mark)
    }
}

/// The identity of a crawl.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Which crawl and generation it is, and in which format.
    #[serde(flatten)]
    pub mark: Mark,
    /// Who has begun it (`owner`): two deployments that take the same name find out by it. Empty of
    /// one that has no owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Fixed for its life: the number of partitions.
    pub partitions: u16,
    /// Fixed for its life: which rewritings of URLs are done.
    pub url: Rules,
    /// Fixed for its life: fetchers answer from an archive in the place of the web.
    #[serde(default)]
    pub replays: bool,
    /// Messages that were lost and that an operator accepted as lost, by edge, over all
    /// generations.
    #[serde(default)]
    pub lost: BTreeMap<String, u64>,
}

impl Identity {
    /// The identity of a crawl that begins under this id.
    pub fn new(id: String, pipeline: &Pipeline) -> Self {
        let mark = Mark::first(id);
        let owner = pipeline.owner.clone();
        let replays = pipeline.replayed().is_some();
        Identity {
            mark,
            owner,
            partitions: pipeline.partitions,
            url: pipeline.url,
            replays,
            lost: BTreeMap::new(),
        }
    }

    /// Who has begun it, for people.
    pub fn owner_in_words(&self) -> String {
        if self.owner.is_empty() {
            "nobody who is named".to_owned()
        } else {
            format!("'{}'", self.owner)
        }
    }

    /// The number of the generation.
    pub fn generation(&self) -> u32 {
        self.mark.generation
    }

    /// Checks that the configuration has what is fixed for the life of the crawl, and that this
    /// build can go on with it.
    ///
    /// # Errors
    /// It cannot: what differs.
    pub fn check(&self, pipeline: &Pipeline) -> Result<(), Misfit> {
        check_format(&format!("the crawl '{}'", pipeline.crawl), self.mark.format)?;
        if !pipeline.owner.is_empty() && pipeline.owner != self.owner {
            return Err(Misfit(format!(
                "the broker holds a crawl '{}' of {}, this one is of '{}' (owner): give this one \
                 another name (crawl), or delete the other one (rhumb delete)",
                pipeline.crawl,
                self.owner_in_words(),
                pipeline.owner
            )));
        }
        pipeline
            .check_replays(self.replays, &format!("the crawl '{}'", pipeline.crawl))
            .map_err(Misfit)?;
        let fixed = |key: &str, is: String, was: String| {
            Misfit(format!(
                "configuration key {key} = {is}: the crawl '{}' has {was}, which is fixed for its \
                 life; set it back, or begin another crawl",
                pipeline.crawl
            ))
        };
        if self.partitions != pipeline.partitions {
            return Err(fixed(
                "partitions",
                pipeline.partitions.to_string(),
                self.partitions.to_string(),
            ));
        }
        for ((key, is), (_, was)) in pipeline.url.by_key().into_iter().zip(self.url.by_key()) {
            if is != was {
                return Err(fixed(key, is.to_string(), was.to_string()));
            }
        }
        Ok(())
    }

    /// Checks that a stream has the crawl's mark.
    ///
    /// # Errors
    /// The stream belongs to another crawl or generation, or is of another format.
    pub fn check_stream(
        &self,
        stream: &str,
        metadata: &HashMap<String, String>,
    ) -> Result<(), Misfit> {
        let mark = Mark::of_usable_stream(stream, metadata)?;
        if mark == self.mark {
            return Ok(());
        }
        Err(Misfit(format!(
            "the stream {stream} at the broker belongs to {mark}, expected is {}: {WAYS_OUT}",
            self.mark
        )))
    }

    /// Checks that the broker still holds this crawl and generation: `found` is what its bucket
    /// says now.
    ///
    /// # Errors
    /// It holds another, or none.
    pub fn check_still(&self, found: Option<&Identity>) -> Result<(), Misfit> {
        match found {
            Some(found) if found.mark == self.mark => Ok(()),
            Some(found) => Err(Misfit(format!(
                "the broker holds {}, expected is {}: {WAYS_OUT}",
                found.mark, self.mark
            ))),
            None => Err(Misfit::gone(&self.mark.to_string())),
        }
    }
}

/// The number that the serials of a generation follow: a serial says in its upper bits which
/// generation of dedup's state gave it, so that those of state that was lost are not taken for
/// those of the state in its place.
pub fn serials_follow(generation: u32) -> u64 {
    u64::from(generation.saturating_sub(1)) << SERIAL_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layers;

    fn pipeline(set: &[&str]) -> Pipeline {
        let mut set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
        set.push("network.allow_private_addresses=true".into());
        Layers { file: None, set }
            .load_with(std::iter::empty())
            .unwrap()
    }

    #[test]
    fn what_is_fixed_is_refused_by_name() {
        let identity = Identity::new("a".into(), &pipeline(&[]));
        identity
            .check(&pipeline(&["stages.fetcher.replicas=3"]))
            .unwrap();
        for set in ["partitions=32", "url.sort_query=true"] {
            let text = identity.check(&pipeline(&[set])).unwrap_err().to_string();
            assert!(
                text.contains(&set.replace('=', " = ")) && text.contains("fixed for its life"),
                "{text}"
            );
        }
        let from = pipeline(&["stages.fetcher.archive=/a"]);
        for (identity, pipeline) in [
            (Identity::new("b".into(), &from), pipeline(&[])),
            (identity, from),
        ] {
            let text = identity.check(&pipeline).unwrap_err().to_string();
            assert!(
                text.contains("stages.fetcher.archive") && text.contains("the crawl 'default'"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_crawl_of_another_format_is_refused_by_name() {
        let identity = Identity::new("a".into(), &pipeline(&[]));
        // As a build of format 1 wrote it to the bucket and to a data directory.
        let first =
            r#"{"id":"a","generation":1,"format":1,"partitions":64,"adopted":false,"url":URL}"#;
        let first = first.replace("URL", &serde_json::to_string(&identity.url).unwrap());
        let first: Identity = serde_json::from_str(&first).unwrap();
        let kept: Mark = serde_json::from_str(r#"{"id":"a","generation":1}"#).unwrap();
        assert_eq!((&first.mark, kept.format), (&kept, 1));
        let later = Identity {
            mark: Mark {
                format: FORMAT + 1,
                ..identity.mark.clone()
            },
            ..identity
        };
        for (found, format) in [(first, "format 1,"), (later, "format 4,")] {
            let text = found.check(&pipeline(&[])).unwrap_err().to_string();
            assert!(
                text.contains("'default' was begun in") && text.contains(format),
                "{text}"
            );
            assert!(
                text.contains("this program writes format 3") && text.contains("rhumb delete"),
                "{text}"
            );
        }
    }

    #[test]
    fn it_comes_back_as_it_was() {
        let mut identity = Identity::new("0f".into(), &pipeline(&[]));
        identity.lost.insert("pages".into(), 7);
        let text = serde_json::to_string(&identity).unwrap();
        assert_eq!(
            serde_json::from_str::<Identity>(&text).unwrap(),
            identity,
            "{text}"
        );
        assert_eq!(
            Mark::of_stream(&identity.mark.metadata()),
            Some(identity.mark)
        );
    }

    #[test]
    fn a_stream_belongs_to_one_generation_of_one_crawl() {
        let identity = Identity::new("a".into(), &pipeline(&[]));
        identity
            .check_stream("s", &identity.mark.metadata())
            .unwrap();
        let other = |id: &str, generation| {
            Mark {
                generation,
                ..Mark::first(id.into())
            }
            .metadata()
        };
        for metadata in [other("b", 1), other("a", 2)] {
            let text = identity
                .check_stream("s", &metadata)
                .unwrap_err()
                .to_string();
            assert!(
                text.contains("stream s") && text.contains("expected is crawl a, generation 1"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_stream_of_another_format_or_without_a_mark_is_refused_by_name() {
        let identity = Identity::new("a".into(), &pipeline(&[]));
        let mut first = identity.mark.metadata();
        first.remove(STREAM_FORMAT);
        for (metadata, part) in [
            (first, "was begun in format 1"),
            (HashMap::new(), "names no crawl"),
        ] {
            let text = identity
                .check_stream("s", &metadata)
                .unwrap_err()
                .to_string();
            assert!(
                text.contains("stream s") && text.contains(part) && text.contains("rhumb delete"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_broker_holds_this_crawl_or_is_refused() {
        let identity = Identity::new("a".into(), &pipeline(&[]));
        identity.check_still(Some(&identity)).unwrap();
        let other = Identity::new("b".into(), &pipeline(&[]));
        assert!(
            identity
                .check_still(Some(&other))
                .unwrap_err()
                .to_string()
                .contains("holds crawl b")
        );
        assert!(
            identity
                .check_still(None)
                .unwrap_err()
                .to_string()
                .contains("does not know crawl a")
        );
    }

    #[test]
    fn serials_of_two_generations_never_meet() {
        assert_eq!(serials_follow(1), 0);
        assert!(
            serials_follow(2) > 1 << 39
                && serials_follow(3) - serials_follow(2) == serials_follow(2)
        );
    }
}
