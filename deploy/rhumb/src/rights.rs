//! Rights: what each user may do at the broker, derived from the tables of the topology.
//!
//! In: a user, and the configuration, which names the crawl. Out: the subjects
//! that the user may publish to and subscribe to. A call of the broker's JetStream is a message to
//! a subject, too.
//!
//! Invariant: a stage gets nothing that the tables do not give it. It may put messages on its
//! outputs, and back on the streams that it reads: what it had parked, and what it passes on when a
//! partition has been split.

use crate::control::{SUPERVISION, SUPERVISOR};
use rhumb_bus::consumer_name;
use rhumb_config::Pipeline;
use rhumb_config::edges_by_interest;
use rhumb_wire::topology::{
    BESIDE, BUCKETS, BesideRow, Edge, Kind, Retention, StageName, TakenOut, User,
};
use rhumb_wire::{Subjects, lane_consumers};
use std::collections::BTreeSet;

/// Subjects, with wildcards, that a user may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Where it may publish.
    pub publish: BTreeSet<String>,
    /// What it may subscribe to.
    pub subscribe: BTreeSet<String>,
    /// It may answer whoever asks it something.
    pub answers: bool,
}

/// The rights of a user of the crawl that has this configuration.
pub fn of(user: User, pipeline: &Pipeline) -> Rights {
    let subjects = pipeline.subjects();
    let mut grant = Grant {
        subjects: &subjects,
        pipeline,
        user,
        rights: Rights::default(),
    };
    grant
        .rights
        .subscribe
        .insert(format!("_INBOX_{}.>", user.name()));
    grant.verify();
    grant.buckets();
    match user {
        User::Stage(stage) => grant.stage(stage),
        User::Init => grant.init(),
        User::Conductor => grant.conductor(),
        User::Operator => grant.operator(),
        User::Tap => grant.tap(),
    }
    grant.rights
}

/// Calls of JetStream that list or look at consumers of a stream.
const LOOKS: [&str; 3] = [
    "CONSUMER.NAMES.{}",
    "CONSUMER.LIST.{}",
    "CONSUMER.INFO.{}.*",
];
/// Calls that make a stream, or adapt it.
const MAKES: [&str; 2] = ["STREAM.CREATE.{}", "STREAM.UPDATE.{}"];
/// Calls that read keys of a bucket: one, and all of them in their order.
const READS: [&str; 5] = [
    "DIRECT.GET.{}.>",
    "STREAM.MSG.GET.{}",
    "CONSUMER.CREATE.{}",
    "CONSUMER.CREATE.{}.>",
    "CONSUMER.DELETE.{}.*",
];
/// Calls that draw from a work queue, by consumers that the stage makes itself.
const WORKS: [&str; 6] = [
    "CONSUMER.NAMES.{}",
    "CONSUMER.INFO.{}.*",
    "CONSUMER.CREATE.{}.>",
    "CONSUMER.DELETE.{}.*",
    "CONSUMER.MSG.NEXT.{}.*",
    "STREAM.MSG.GET.{}",
];
/// All calls about one stream.
const ALL: [&str; 7] = [
    "STREAM.*.{}",
    "STREAM.MSG.*.{}",
    "CONSUMER.*.{}",
    "CONSUMER.*.{}.>",
    "CONSUMER.MSG.NEXT.{}.*",
    "DIRECT.GET.{}",
    "DIRECT.GET.{}.>",
];

struct Grant<'a> {
    subjects: &'a Subjects,
    pipeline: &'a Pipeline,
    user: User,
    rights: Rights,
}

impl Grant<'_> {
    /// Everybody may see that all streams and buckets are there, and of which crawl, and the
    /// consumers that `rhumb init` makes.
    fn verify(&mut self) {
        for stream in self.all_streams() {
            self.call(&["STREAM.INFO.{}"], &stream);
        }
        for stream in self.by_interest() {
            self.call(&["CONSUMER.INFO.{}.*"], &stream);
        }
    }

    /// What the table of buckets says.
    fn buckets(&mut self) {
        let user = self.user;
        for row in &BUCKETS {
            let bucket = self.subjects.bucket(row.name);
            if row.readers.iter().any(|who| who.has(user)) {
                self.read_bucket(&bucket);
            }
            for (_, keys) in row.writers.iter().filter(|(who, _)| who.has(user)) {
                let keys = keys.replace("{user}", user.name());
                self.publish(self.subjects.bucket_key(row.name, &keys));
            }
        }
    }

    fn read_bucket(&mut self, bucket: &str) {
        let stream = format!("KV_{bucket}");
        self.call(&READS, &stream);
        // A reader that gets many keys says now and then that it keeps up.
        self.publish(format!("$JS.FC.{stream}.>"));
    }

    fn stage(&mut self, stage: StageName) {
        let row = stage.row();
        row.outputs.iter().for_each(|edge| self.put(*edge));
        for edge in row.inputs.iter().map(|source| source.edge()) {
            match edge.row().map(|row| row.kind) {
                Some(Kind::Stream(retention)) => self.take(stage, edge, retention),
                _ => self.listen(edge),
            }
        }
        let user = self.user;
        for row in BESIDE.iter().filter(|row| row.users.has(user)) {
            self.beside(row, stage.name());
        }
        self.subscribe(self.subjects.control("all"));
        self.subscribe(self.subjects.control(&format!("{}.*", stage.name())));
        self.rights.answers = true;
    }

    /// Puts messages on an edge.
    fn put(&mut self, edge: Edge) {
        self.subjects
            .all(edge)
            .into_iter()
            .for_each(|subject| self.publish(subject));
    }

    fn listen(&mut self, edge: Edge) {
        self.subjects
            .all(edge)
            .into_iter()
            .for_each(|subject| self.subscribe(subject));
    }

    /// Takes messages off a stream, and may put them back.
    fn take(&mut self, stage: StageName, edge: Edge, retention: Retention) {
        let stream = self.subjects.stream(edge.name());
        self.put(edge);
        if retention == Retention::WorkQueue {
            self.call(&WORKS, &stream);
            self.publish(format!("$JS.ACK.{stream}.>"));
            return;
        }
        // Others read it, too: a stage uses its own consumers, which are made for it.
        self.call(&["CONSUMER.NAMES.{}", "STREAM.MSG.GET.{}"], &stream);
        for consumer in self.consumers(stage, edge) {
            self.call(&[&format!("CONSUMER.MSG.NEXT.{{}}.{consumer}")], &stream);
            self.publish(format!("$JS.ACK.{stream}.{consumer}.>"));
        }
    }

    /// The names of a stage's consumers of a stream that is kept by interest.
    fn consumers(&self, stage: StageName, edge: Edge) -> Vec<String> {
        match edge.has_lanes() {
            true => lane_consumers(stage.name(), edge, self.subjects)
                .into_iter()
                .map(|lane| lane.name)
                .collect(),
            false => vec![consumer_name(stage.name(), None)],
        }
    }

    /// Uses a stream beside the edges.
    fn beside(&mut self, row: &BesideRow, stage: &str) {
        let stream = self.subjects.stream(row.name);
        match row.taken_out {
            TakenOut::ByOperator => self.publish(self.subjects.dead(stage)),
            TakenOut::OneByOne => {
                self.publish(self.subjects.all_parked(stage));
                self.call(&["STREAM.MSG.GET.{}", "STREAM.MSG.DELETE.{}"], &stream);
            }
            TakenOut::BySubject => {
                self.publish(self.subjects.moves_of(stage));
                self.call(&["STREAM.MSG.GET.{}", "STREAM.PURGE.{}"], &stream);
            }
        }
    }

    fn init(&mut self) {
        // What the account may have: asked before a bucket is made.
        self.publish("$JS.API.INFO".to_owned());
        for row in &BUCKETS {
            self.call(&MAKES, &format!("KV_{}", self.subjects.bucket(row.name)));
        }
        self.make();
    }

    /// Makes streams, and the consumers of those that are kept by interest, which are there before
    /// anything is published. Removes consumers of a stage that is not wanted any more, and further
    /// ones that hold the crawl back.
    fn make(&mut self) {
        let streams = self.pipeline.edges.streams().into_iter();
        streams.for_each(|(key, _)| self.call(&MAKES, &self.subjects.stream(key)));
        for stream in self.by_interest() {
            self.call(&["CONSUMER.CREATE.{}.>", "CONSUMER.DELETE.{}.*"], &stream);
        }
        self.look();
    }

    /// Looks at the consumers of edges.
    fn look(&mut self) {
        let edges = self
            .pipeline
            .edges
            .streams()
            .into_iter()
            .filter(|(key, _)| Edge::from_name(key).is_some());
        edges.for_each(|(key, _)| self.call(&LOOKS, &self.subjects.stream(key)));
    }

    fn conductor(&mut self) {
        // Streams that a broker kept in memory are made anew after it was started anew.
        self.make();
        self.publish(self.subjects.control("all"));
        self.subscribe(self.subjects.control(SUPERVISOR));
        self.subscribe(self.subjects.control(SUPERVISION));
        self.rights.answers = true;
    }

    fn operator(&mut self) {
        for stream in self.all_streams() {
            self.call(&ALL, &stream);
            self.publish(format!("$JS.ACK.{stream}.>"));
            self.publish(format!("$JS.FC.{stream}.>"));
        }
        self.publish("$JS.API.STREAM.LIST".to_owned());
        self.publish("$JS.API.INFO".to_owned());
        for row in &BUCKETS {
            self.publish(self.subjects.bucket_key(row.name, ">"));
        }
        self.publish(self.subjects.everything());
        self.subscribe(self.subjects.everything());
        self.rights.answers = true;
    }

    fn tap(&mut self) {
        Edge::ALL.into_iter().for_each(|edge| self.listen(edge));
        self.look();
        // Questions alone: what changes a crawl goes to another subject.
        self.publish(self.subjects.control("all"));
        self.publish(self.subjects.control(SUPERVISION));
    }

    /// Calls of JetStream, in which `{}` stands for the stream.
    fn call(&mut self, calls: &[&str], stream: &str) {
        calls
            .iter()
            .for_each(|call| self.publish(format!("$JS.API.{}", call.replace("{}", stream))));
    }

    fn publish(&mut self, subject: String) {
        self.rights.publish.insert(subject);
    }

    fn subscribe(&mut self, subject: String) {
        self.rights.subscribe.insert(subject);
    }

    /// The streams that are kept by interest.
    fn by_interest(&self) -> Vec<String> {
        edges_by_interest()
            .map(|edge| self.subjects.stream(edge.name()))
            .collect()
    }

    /// All streams, those of the buckets among them.
    fn all_streams(&self) -> Vec<String> {
        let streams = self
            .pipeline
            .edges
            .streams()
            .into_iter()
            .map(|(key, _)| self.subjects.stream(key));
        let buckets = BUCKETS
            .iter()
            .map(|row| format!("KV_{}", self.subjects.bucket(row.name)));
        streams.chain(buckets).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::Layers;
    use rhumb_wire::topology::Party;

    fn rights(user: User) -> Rights {
        let set = vec![
            "network.allow_private_addresses=true".to_owned(),
            "crawl=news".to_owned(),
        ];
        of(
            user,
            &Layers { file: None, set }
                .load_with(std::iter::empty())
                .unwrap(),
        )
    }

    fn subjects() -> Subjects {
        let set = vec![
            "network.allow_private_addresses=true".to_owned(),
            "crawl=news".to_owned(),
        ];
        Layers { file: None, set }
            .load_with(std::iter::empty())
            .unwrap()
            .subjects()
    }

    /// The edges of a user's subjects.
    fn edges(of: &BTreeSet<String>) -> BTreeSet<&'static str> {
        let subjects = subjects();
        of.iter()
            .filter_map(|subject| subjects.edge_of(subject))
            .map(Edge::name)
            .collect()
    }

    #[test]
    fn a_stage_publishes_on_its_outputs_and_back_on_its_streams_and_listens_to_its_soft_edges() {
        for stage in StageName::ALL {
            let rights = rights(User::Stage(stage));
            let row = stage.row();
            let inputs = || row.inputs.iter().map(|source| source.edge());
            let is_stream = |edge: &Edge| edge.row().is_some_and(|row| row.kind != Kind::Core);
            let published = row
                .outputs
                .iter()
                .copied()
                .chain(inputs().filter(is_stream))
                .map(Edge::name)
                .collect();
            assert_eq!(edges(&rights.publish), published, "{}", row.name);
            let heard = inputs()
                .filter(|edge| !is_stream(edge))
                .map(Edge::name)
                .collect();
            assert_eq!(edges(&rights.subscribe), heard, "{}", row.name);
        }
    }

    #[test]
    fn every_right_names_the_crawl_or_the_users_own_inbox() {
        let own = |user: User| format!("_INBOX_{}.>", user.name());
        for user in User::ALL {
            let Rights {
                publish, subscribe, ..
            } = rights(user);
            let is_of_crawl = |subject: &str| {
                let mut tokens = subject.split('.');
                tokens.any(|token| {
                    token == "news"
                        || token.starts_with("rhumb_news_")
                        || token.starts_with("KV_rhumb_news_")
                })
            };
            let others: Vec<&String> = publish
                .iter()
                .chain(&subscribe)
                .filter(|subject| !is_of_crawl(subject))
                .collect();
            let all = ["$JS.API.INFO", "$JS.API.STREAM.LIST"].map(str::to_owned);
            let of_account = match user {
                User::Operator => &all[..],
                User::Init => &all[..1],
                User::Conductor | User::Stage(_) | User::Tap => &[],
            };
            assert_eq!(
                others,
                of_account.iter().chain([&own(user)]).collect::<Vec<_>>(),
                "{}",
                user.name()
            );
        }
    }

    #[test]
    fn only_init_the_conductor_and_an_operator_make_streams_and_only_an_operator_deletes_them() {
        let may = |user: User, call: &str| {
            rights(user).publish.iter().any(|subject| {
                subject.starts_with(&format!("$JS.API.STREAM.{call}."))
                    || subject.starts_with("$JS.API.STREAM.*.")
            })
        };
        let who = |call: &str| {
            User::ALL
                .into_iter()
                .filter(|user| may(*user, call))
                .map(User::name)
                .collect::<Vec<_>>()
        };
        assert_eq!(who("CREATE"), ["init", "conductor", "operator"]);
        assert_eq!(who("DELETE"), ["operator"]);
        assert_eq!(who("PURGE"), ["dedup", "scheduler", "operator"]);
    }

    #[test]
    fn a_stage_writes_its_own_leases_and_the_fetcher_no_other_key() {
        let written = |user: User| {
            let publish = rights(user).publish.into_iter();
            publish
                .filter(|subject| subject.starts_with("$KV."))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            written(User::Stage(StageName::Fetcher)),
            ["$KV.rhumb_news_leases.fetcher.*"]
        );
        assert_eq!(written(User::Tap), [""; 0]);
        let scheduler = written(User::Stage(StageName::Scheduler));
        assert!(
            scheduler.contains(&"$KV.rhumb_news_owners.scheduler".to_owned()),
            "{scheduler:?}"
        );
        assert!(
            !scheduler.contains(&"$KV.rhumb_news_owners.dedup".to_owned()),
            "{scheduler:?}"
        );
    }

    #[test]
    fn a_tap_hears_every_edge_and_says_nothing_but_questions() {
        let Rights {
            publish,
            subscribe,
            answers,
        } = rights(User::Tap);
        assert_eq!(
            edges(&subscribe),
            Edge::ALL.into_iter().map(Edge::name).collect()
        );
        assert!(!answers && edges(&publish).is_empty());
        let of_crawl: Vec<&String> = publish
            .iter()
            .filter(|subject| subject.starts_with("rhumb."))
            .collect();
        assert_eq!(
            of_crawl,
            ["rhumb.news.control.all", "rhumb.news.control.supervision"]
        );
        let calls = [
            "STREAM.INFO",
            "STREAM.MSG.GET",
            "DIRECT.GET",
            "CONSUMER.NAMES",
            "CONSUMER.LIST",
            "CONSUMER.INFO",
        ];
        let is_look = |subject: &&String| {
            calls
                .iter()
                .any(|call| subject.starts_with(&format!("$JS.API.{call}.")))
        };
        let is_of_bucket = |subject: &&String| subject.contains("KV_");
        assert!(
            publish
                .iter()
                .filter(|of| of.starts_with("$JS.API."))
                .all(|of| is_look(&of) || is_of_bucket(&of))
        );
    }

    #[test]
    fn what_comes_from_the_command_comes_from_an_operator() {
        let of_rhumb = Edge::ALL.into_iter().filter(|edge| {
            edge.row()
                .is_some_and(|row| row.producers.contains(&Party::Rhumb))
        });
        let subject = subjects().everything();
        assert!(of_rhumb.count() > 0 && rights(User::Operator).publish.contains(&subject));
    }
}
