//! The subjects of a crawl.

use crate::topology::{DEAD, Division, Edge, MOVES, PARKED, Token};
use std::borrow::Cow;

/// Subjects by edge. All start with `rhumb.<crawl>.`.
#[derive(Clone, Debug)]
pub struct Subjects {
    /// `rhumb.<crawl>.`
    prefix: String,
    crawl: String,
    /// The templates of the table's edges, with the prefix, in the order of [`Edge::ALL`].
    templates: [String; Edge::ALL.len()],
}

/// What messages are parked under one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedUnder<'a> {
    /// The stage that could not read them.
    pub stage: &'a str,
    /// The name of the edge that they came on.
    pub edge: &'a str,
    /// Version of their schema.
    pub version: u8,
}

impl Subjects {
    /// The subjects of a crawl.
    pub fn new(crawl: &str) -> Self {
        let prefix = format!("rhumb.{crawl}.");
        Subjects {
            crawl: crawl.to_owned(),
            templates: Edge::ALL.map(|edge| format!("{prefix}{}", edge.template())),
            prefix,
        }
    }

    fn template(&self, edge: Edge) -> Cow<'_, str> {
        match self.templates.get(usize::from(edge.number()) - 1) {
            Some(template) => Cow::Borrowed(template),
            // A further edge: its name is its subject.
            None => Cow::Owned(format!("{}{}", self.prefix, edge.name())),
        }
    }

    /// The subject of a message.
    pub fn of(&self, edge: Edge, token: &Token) -> String {
        let template = self.template(edge);
        match token {
            Token::None => template.into_owned(),
            Token::Partition(partition) => {
                template.replace("{partition}", &format!("{partition:03}"))
            }
            Token::InLane { partition, lane } => {
                format!(
                    "{}.{lane}",
                    template.replace("{partition}", &format!("{partition:03}"))
                )
            }
            Token::Instance(instance) => template.replace("{instance}", instance),
            Token::Lane(lane) => format!("{template}.{lane}"),
        }
    }

    /// Returns whether an edge has a subject for each partition.
    pub fn has_partitions(&self, edge: Edge) -> bool {
        matches!(
            edge.division(),
            Division::Partition | Division::PartitionInLane
        )
    }

    /// All subjects of an edge, by wildcards.
    pub fn all(&self, edge: Edge) -> Vec<String> {
        let all = wildcard(&self.template(edge));
        match edge.division() {
            Division::Lane => vec![format!("{all}.*"), all],
            Division::PartitionInLane => vec![format!("{all}.*")],
            _ => vec![all],
        }
    }

    /// The subjects of a lane of an edge, by wildcards.
    pub(crate) fn lane(&self, edge: Edge, lane: u16) -> String {
        format!("{}.{lane}", wildcard(&self.template(edge)))
    }

    /// The subjects of a partition of an edge, by wildcards.
    pub fn partition(&self, edge: Edge, partition: u16) -> String {
        let subject = self.of(edge, &Token::Partition(partition));
        if edge.division() == Division::PartitionInLane {
            format!("{subject}.*")
        } else {
            subject
        }
    }

    /// The subject of a stage's dead letters.
    pub fn dead(&self, stage: &str) -> String {
        format!("{}{DEAD}.{stage}", self.prefix)
    }

    /// The subject of messages of an edge and a schema version that a stage does not read.
    pub fn parked(&self, stage: &str, edge: Edge, version: u8) -> String {
        format!("{}{PARKED}.{stage}.{}.{version}", self.prefix, edge.name())
    }

    /// All that a stage parked.
    pub fn all_parked(&self, stage: &str) -> String {
        format!("{}{PARKED}.{stage}.>", self.prefix)
    }

    /// The subject of the parts of a partition that its owner gives away under a version of its
    /// ownership.
    pub fn moves(&self, stage: &str, partition: u16, version: u64) -> String {
        format!("{}{MOVES}.{stage}.{partition:03}.{version}", self.prefix)
    }

    /// The subjects of all parts of a partition.
    pub fn all_moves(&self, stage: &str, partition: u16) -> String {
        format!("{}{MOVES}.{stage}.{partition:03}.>", self.prefix)
    }

    /// The subjects of all that moves between the instances of a stage.
    pub fn moves_of(&self, stage: &str) -> String {
        format!("{}{MOVES}.{stage}.>", self.prefix)
    }

    /// All subjects of the crawl.
    pub fn everything(&self) -> String {
        format!("{}>", self.prefix)
    }

    /// What is parked under a subject; none when it is not one of [`parked`](Self::parked).
    pub fn parked_under<'a>(&self, subject: &'a str) -> Option<ParkedUnder<'a>> {
        let rest = subject
            .strip_prefix(&self.prefix)?
            .strip_prefix(PARKED)?
            .strip_prefix('.')?;
        let (stage, rest) = rest.split_once('.')?;
        let (edge, version) = rest.rsplit_once('.')?;
        Some(ParkedUnder {
            stage,
            edge,
            version: version.parse().ok()?,
        })
    }

    /// The edge of the table that a subject belongs to.
    pub fn edge_of(&self, subject: &str) -> Option<Edge> {
        Edge::ALL.into_iter().find(|&edge| {
            let template = self.template(edge);
            let is_in_lane = || {
                subject
                    .rsplit_once('.')
                    .is_some_and(|(before, _)| matches(&template, before))
            };
            match edge.division() {
                Division::Lane => matches(&template, subject) || is_in_lane(),
                Division::PartitionInLane => is_in_lane(),
                _ => matches(&template, subject),
            }
        })
    }

    /// What operators call the edge of a subject: its name; `dead` for the dead letters, `parked`
    /// for parked messages.
    pub fn name_of<'a>(&self, subject: &'a str) -> &'a str {
        if let Some(edge) = self.edge_of(subject) {
            return edge.name();
        }
        // A further edge: its name is its subject.
        let rest = subject.strip_prefix(&self.prefix).unwrap_or(subject);
        match self.parked_under(subject) {
            Some(_) => PARKED,
            None if rest
                .strip_prefix(DEAD)
                .is_some_and(|stage| stage.starts_with('.')) =>
            {
                DEAD
            }
            None => rest,
        }
    }

    /// The stream of an edge, of the dead letters or of parked messages, by its key below `edges`.
    pub fn stream(&self, key: &str) -> String {
        format!("rhumb_{}_{}", self.crawl, key.replace('.', "_"))
    }

    /// Subjects that a stream holds; by the name of its edge, [`DEAD`], [`PARKED`] or [`MOVES`].
    pub fn held_by(&self, name: &str) -> Vec<String> {
        match Edge::from_name(name) {
            Some(edge) => self.all(edge),
            None if name == DEAD => vec![format!("{}{DEAD}.*", self.prefix)],
            None if name == PARKED => vec![format!("{}{PARKED}.*.>", self.prefix)],
            None if name == MOVES => vec![format!("{}{MOVES}.*.>", self.prefix)],
            // A further edge: its name is its subject.
            None => vec![format!("{}{name}", self.prefix)],
        }
    }

    /// Requests to one process, or (`all`) to each.
    pub fn control(&self, to: &str) -> String {
        format!("{}control.{to}", self.prefix)
    }

    /// A key-value bucket of the crawl.
    pub fn bucket(&self, name: &str) -> String {
        format!("rhumb_{}_{name}", self.crawl)
    }

    /// The subject to which a value for a key of such a bucket is published.
    pub fn bucket_key(&self, name: &str, key: &str) -> String {
        format!("$KV.{}.{key}", self.bucket(name))
    }
}

fn wildcard(template: &str) -> String {
    let tokens: Vec<&str> = template
        .split('.')
        .map(|token| if token.starts_with('{') { "*" } else { token })
        .collect();
    tokens.join(".")
}

fn matches(template: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    template.split('.').all(|part| {
        tokens
            .next()
            .is_some_and(|token| part.starts_with('{') || part == token)
    }) && tokens.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_called_by_the_name_of_its_edge() {
        let subjects = Subjects::new("default");
        for edge in Edge::ALL {
            for subject in subjects.all(edge) {
                assert_eq!(subjects.name_of(&subject.replace('*', "7")), edge.name());
            }
        }
        assert_eq!(subjects.name_of(&subjects.dead("host-splitter")), DEAD);
        assert_eq!(
            subjects.name_of(&subjects.parked("dedup", Edge::UrlsSplit, 7)),
            PARKED
        );
        assert_eq!(subjects.name_of("rhumb.default.titles"), "titles");
    }

    #[test]
    fn subjects_stay_as_users_of_a_broker_know_them() {
        let subjects = Subjects::new("default");
        let all: Vec<String> = Edge::ALL
            .into_iter()
            .flat_map(|edge| subjects.all(edge))
            .collect();
        // Further ones come behind these.
        assert!(all.join(" ").replace("rhumb.default.", "").starts_with(
            "urls.found.* urls.found urls.split.* urls.new.*.* urls.ready.* fetch.asks.* fetch.jobs.* \
             fetch.reports.* pages outcomes.* dns.refresh.* errands.* urls.filtered \
             content.asks.* documents urls.boosts.* pages.signals.*"
        ));
        assert_eq!(subjects.held_by(DEAD), ["rhumb.default.dead.*"]);
        assert_eq!(subjects.held_by(PARKED), ["rhumb.default.parked.*.>"]);
        assert_eq!(subjects.held_by(MOVES), ["rhumb.default.moves.*.>"]);
    }

    #[test]
    fn the_subject_of_a_parked_message_says_what_it_is() {
        let subjects = Subjects::new("default");
        for edge in [Edge::Pages, Edge::UrlsFound, Edge::further(128, "titles")] {
            let subject = subjects.parked("find-titles", edge, 7);
            let parked = ParkedUnder {
                stage: "find-titles",
                edge: edge.name(),
                version: 7,
            };
            assert_eq!(subjects.parked_under(&subject), Some(parked), "{subject}");
        }
        assert_eq!(subjects.parked_under(&subjects.dead("dedup")), None);
    }
}
