//! The subjects of a crawl, from the templates in `pipeline.yaml`.

use super::has_lanes;
use crate::config::{Pipeline, StreamEdge};
use crate::message::Edge;
use crate::stage::Token;

/// Subjects by edge. All start with `rhumb.<crawl>.`.
#[derive(Clone, Debug)]
pub struct Subjects {
    prefix: String,
    crawl: String,
    templates: Vec<(Edge, String)>,
    dead: String,
}

impl Subjects {
    /// From the configuration.
    pub fn new(pipeline: &Pipeline) -> Self {
        let edges = &pipeline.edges;
        let template = |edge| match edge {
            Edge::UrlsFound => &edges.urls.found.subject,
            Edge::UrlsSplit => &edges.urls.split.subject,
            Edge::UrlsNew => &edges.urls.new.subject,
            Edge::UrlsReady => &edges.urls.ready.subject,
            Edge::FetchAsks => &edges.fetch.asks.subject,
            Edge::FetchJobs => &edges.fetch.jobs.subject,
            Edge::FetchReports => &edges.fetch.reports.subject,
            Edge::Pages => &edges.pages.subject,
            Edge::Outcomes => &edges.outcomes.subject,
            Edge::DnsRefresh => &edges.dns.refresh.subject,
            Edge::Errands => &edges.errands.subject,
            Edge::ContentAsks => &edges.content.asks.subject,
            Edge::Documents => &edges.documents.subject,
            Edge::UrlsFiltered => &edges.urls.filtered.subject,
        };
        Subjects {
            prefix: format!("rhumb.{}.", pipeline.crawl),
            crawl: pipeline.crawl.clone(),
            templates: Edge::ALL.into_iter().map(|edge| (edge, template(edge).clone())).collect(),
            dead: edges.dead.subject.clone(),
        }
    }

    fn template(&self, edge: Edge) -> &str {
        self.templates.iter().find(|(other, _)| *other == edge).map_or("", |(_, template)| template)
    }

    /// The subject of a message.
    pub fn of(&self, edge: Edge, token: &Token) -> String {
        let template = self.template(edge);
        let subject = match token {
            Token::None => template.to_owned(),
            Token::Partition(partition) => template.replace("{partition}", &format!("{partition:03}")),
            Token::Instance(instance) => template.replace("{instance}", instance),
            Token::Lane(lane) => format!("{template}.{lane}"),
        };
        format!("{}{subject}", self.prefix)
    }

    /// Whether an edge has a subject for each partition.
    pub fn has_partitions(&self, edge: Edge) -> bool {
        self.template(edge).contains("{partition}")
    }

    fn has_subjects_of_lanes(&self, edge: Edge) -> bool {
        has_lanes(edge) && !self.has_partitions(edge)
    }

    /// All subjects of an edge, by wildcards.
    pub fn all(&self, edge: Edge) -> Vec<String> {
        let all = wildcard(&self.prefix, self.template(edge));
        let lanes = self.has_subjects_of_lanes(edge).then(|| format!("{all}.*"));
        std::iter::once(all).chain(lanes).collect()
    }

    /// The subject of a stage's dead letters.
    pub fn dead(&self, stage: &str) -> String {
        format!("{}{}", self.prefix, self.dead.replace("{stage}", stage))
    }

    /// The edge that a subject belongs to.
    pub fn edge_of(&self, subject: &str) -> Option<Edge> {
        let rest = subject.strip_prefix(&self.prefix)?;
        let fits = |edge: Edge, template: &str| match rest.rsplit_once('.') {
            _ if matches(template, rest) => true,
            Some((rest, _)) => self.has_subjects_of_lanes(edge) && matches(template, rest),
            None => false,
        };
        self.templates.iter().find(|(edge, template)| fits(*edge, template)).map(|(edge, _)| *edge)
    }

    /// The stream of an edge, or of the dead letters, by its key below `edges`.
    pub fn stream(&self, key: &str) -> String {
        format!("rhumb_{}_{}", self.crawl, key.replace('.', "_"))
    }

    /// Subjects that the stream of an edge, or of the dead letters, holds; by its key below `edges`.
    pub fn held_by(&self, key: &str, stream: &StreamEdge) -> Vec<String> {
        let edge = Edge::ALL.into_iter().find(|edge| edge.name() == key);
        edge.map_or_else(|| vec![wildcard(&self.prefix, &stream.subject)], |edge| self.all(edge))
    }

    /// Requests to one process, or (`all`) to each.
    pub fn control(&self, to: &str) -> String {
        format!("{}control.{to}", self.prefix)
    }

    /// A key-value bucket of the crawl.
    pub fn bucket(&self, name: &str) -> String {
        format!("rhumb_{}_{name}", self.crawl)
    }
}

fn wildcard(prefix: &str, template: &str) -> String {
    let tokens: Vec<&str> = template.split('.').map(|token| if token.starts_with('{') { "*" } else { token }).collect();
    format!("{prefix}{}", tokens.join("."))
}

fn matches(template: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    template.split('.').all(|part| tokens.next().is_some_and(|token| part.starts_with('{') || part == token))
        && tokens.next().is_none()
}
