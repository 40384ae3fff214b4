//! The quality of a URL: what it is worth when it is discovered, and what later links add.
//!
//! Sources: Cao, Jiang and Singh 2003 (precomputed PageRank); Cho, Garcia-Molina and Page 1998
//! (backlinks); Abiteboul, Preda and Cobena 2003 (OPIC; `flow` looks at each page once).

use foldhash::{HashMap, HashMapExt as _};
use rhumb_config::{ConfigError, Pipeline, QualityProvider};
use rhumb_url::fingerprint;
use rhumb_wire::message::{Origin, Quality};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

/// Where qualities come from.
#[derive(Clone, Debug)]
pub enum Provider {
    /// 1 for a seed, a half one link away, a third two links away, …
    Depth,
    /// What has flowed to the URL (see [`Origin::flow`]).
    Flow,
    /// The number of links, those from one registered domain the less, the more came before.
    Links,
    /// What has flowed to the URL so far; it flows on to its links when it is fetched.
    Opic,
    /// A number for each of the URLs of a file, by fingerprint; others have none.
    Table(Arc<HashMap<u64, Quality>>),
    /// What a function makes of the URL's fingerprint: for experiments, which draw qualities.
    Drawn(fn(u64) -> Quality),
}

impl Provider {
    fn new(of: QualityProvider, table: &Arc<HashMap<u64, Quality>>) -> Self {
        match of {
            QualityProvider::Depth => Provider::Depth,
            QualityProvider::Flow => Provider::Flow,
            QualityProvider::Links => Provider::Links,
            QualityProvider::Opic => Provider::Opic,
            QualityProvider::Table => Provider::Table(table.clone()),
        }
    }

    /// The quality of a URL, by how it was found.
    fn quality(&self, url: &str, origin: &Origin) -> Quality {
        match self {
            Provider::Depth => Quality::SEED.shared_among(1 + usize::from(origin.depth)),
            Provider::Flow | Provider::Opic => origin.flow,
            Provider::Links => Quality::SEED,
            Provider::Table(table) => table.get(&fingerprint(url)).copied().unwrap_or_default(),
            Provider::Drawn(draw) => draw(fingerprint(url)),
        }
    }
}

/// Where the qualities of the URLs of each topic come from.
#[derive(Clone, Debug)]
pub struct Qualities {
    others: Provider,
    /// Of the topics that have one of their own.
    topics: Arc<BTreeMap<String, Provider>>,
}

impl From<Provider> for Qualities {
    /// The same for all topics.
    fn from(provider: Provider) -> Self {
        Qualities {
            others: provider,
            topics: Arc::default(),
        }
    }
}

impl Qualities {
    /// Those that are configured.
    ///
    /// # Errors
    /// The table is needed and cannot be read, or is no table.
    pub fn open(pipeline: &Pipeline) -> Result<Self, ConfigError> {
        let scheduler = &pipeline.stages.scheduler;
        let of_topics = || {
            pipeline
                .topics
                .iter()
                .filter_map(|(name, topic)| Some((name, topic.quality?)))
        };
        let is_table = |of| of == QualityProvider::Table;
        let needs_table = is_table(scheduler.quality) || of_topics().any(|(_, of)| is_table(of));
        let table = Arc::new(if needs_table {
            read_table(&scheduler.quality_table)?
        } else {
            HashMap::new()
        });
        let topics = of_topics().map(|(name, of)| (name.clone(), Provider::new(of, &table)));
        Ok(Qualities {
            others: Provider::new(scheduler.quality, &table),
            topics: Arc::new(topics.collect()),
        })
    }

    fn of(&self, topic: &str) -> &Provider {
        self.topics.get(topic).unwrap_or(&self.others)
    }

    /// The quality of a URL, by how it was found.
    pub(crate) fn quality(&self, url: &str, origin: &Origin) -> Quality {
        self.of(&origin.topic).quality(url, origin)
    }

    /// Returns whether links that are found later count for the URLs of a topic.
    pub(crate) fn later_links_count(&self, topic: &str) -> bool {
        matches!(self.of(topic), Provider::Links | Provider::Opic)
    }

    /// Returns whether the quality of a topic's URLs is cash.
    pub(crate) fn is_cash(&self, topic: &str) -> bool {
        matches!(self.of(topic), Provider::Opic)
    }

    /// The quality of a URL to which later links add. `before`: what it was.
    pub(crate) fn lift(&self, origin: &mut Origin, before: Quality, worth: Quality) -> Quality {
        match self.of(&origin.topic) {
            Provider::Links => before.plus(worth),
            Provider::Opic => {
                origin.flow = origin.flow.plus(worth);
                origin.flow
            }
            Provider::Depth | Provider::Flow | Provider::Table(_) | Provider::Drawn(_) => before,
        }
    }
}

/// Reads lines of a URL, white space and a number; empty lines and lines that start with `#` are
/// skipped.
fn read_table(path: &Path) -> Result<HashMap<u64, Quality>, ConfigError> {
    let shown = path.display();
    let bad = |what: String| {
        ConfigError::Range(vec![format!(
            "configuration key stages.scheduler.quality_table = '{shown}': {what}"
        )])
    };
    let unreadable = |error| {
        bad(format!(
            "it cannot be read: {error}; the quality 'table' needs a file of URLs and numbers"
        ))
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut table = HashMap::new();
    for (number, line) in (1..).zip(BufReader::new(file).lines()) {
        let line = line.map_err(unreadable)?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts = line.rsplit_once(char::is_whitespace);
        let quality = parts.and_then(|(_, quality)| Quality::new(quality.parse().ok()?));
        let url = parts.and_then(|(url, _)| rhumb_url::canonical(url.trim(), None, None).ok());
        let (Some(url), Some(quality)) = (url, quality) else {
            return Err(bad(format!(
                "line {number} is not a URL and a number from 0, such as 'https://example.org/ \
                 0.25': '{line}'"
            )));
        };
        table.insert(fingerprint(&url), quality);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_to_a_seed_the_better() {
        let of = |depth| {
            Provider::Depth
                .quality(
                    "http://a.test/",
                    &Origin {
                        depth,
                        ..Origin::default()
                    },
                )
                .get()
        };
        assert_eq!([of(0), of(1), of(3)], [1.0, 0.5, 0.25]);
        assert!(of(u16::MAX) > 0.0);
    }

    #[test]
    fn a_topic_may_have_a_provider_of_its_own() {
        let set = [
            "topics.news={quality: flow}",
            "topics.shop={}",
            "network.allow_private_addresses=true",
        ];
        let layers = rhumb_config::Layers {
            file: None,
            set: set.map(str::to_owned).into(),
        };
        let qualities = Qualities::open(&layers.load_with(std::iter::empty()).unwrap()).unwrap();
        let of = |topic: &str| {
            let origin = Origin {
                topic: topic.into(),
                depth: 1,
                flow: Quality::SEED,
                ..Origin::default()
            };
            qualities.quality("http://a.test/", &origin)
        };
        assert_eq!(
            ["news", "shop", "default"].map(of),
            [Quality::SEED, of("default"), Quality::new(0.5).unwrap()]
        );
    }

    #[test]
    fn a_table_says_what_each_url_is_worth() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            &file,
            "# PageRank\n\nHTTP://a.test:80/x\t0.25\nhttp://b.test/  3e-5\n",
        )
        .unwrap();
        let table = Provider::Table(Arc::new(read_table(file.path()).unwrap()));
        let of = |url| table.quality(url, &Origin::default()).get();
        assert_eq!(
            [
                of("http://a.test/x"),
                of("http://b.test/"),
                of("http://c.test/")
            ],
            [0.25, 3e-5, 0.0]
        );
        for bad in [
            "http://a.test/",
            "http://a.test/ -1",
            "http://a.test/ x",
            "nonsense 1",
            "http://a.test/ inf",
        ] {
            std::fs::write(&file, format!("http://b.test/ 1\n{bad}\n")).unwrap();
            let error = read_table(file.path()).unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains(bad), "{error}");
        }
        let missing = read_table(Path::new("/nowhere/table"))
            .unwrap_err()
            .to_string();
        assert!(
            missing.contains("stages.scheduler.quality_table = '/nowhere/table'"),
            "{missing}"
        );
    }
}
