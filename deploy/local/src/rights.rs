//! Rights: what each user may do at the broker, derived from the tables of the topology.
//!
//! In: a user, and the configuration, which names the crawl and the subjects. Out: the subjects that the user may publish to
//! and subscribe to. A call of the broker's JetStream is a message to a subject, too.
//!
//! Invariant: a stage gets nothing that the tables do not give it. It may put messages on its outputs, and back on the
//! streams that it reads: what it had parked, and what it passes on when a partition has been split.

use crate::control::{SUPERVISION, SUPERVISOR};
use shared::bus::{Subjects, consumer_name, edges_by_interest, lane_consumers};
use shared::config::{Pipeline, Retention};
use shared::topology::{BESIDE, BUCKETS, BesideRow, Edge, Kind, StageName, TakenOut, User};
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
    let subjects = Subjects::new(pipeline);
    let mut grant = Grant { subjects: &subjects, pipeline, user, rights: Rights::default() };
    grant.rights.subscribe.insert(format!("_INBOX_{}.>", user.name()));
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
const LOOKS: [&str; 3] = ["CONSUMER.NAMES.{}", "CONSUMER.LIST.{}", "CONSUMER.INFO.{}.*"];
/// Calls that read keys of a bucket: one, and all of them in their order.
const READS: [&str; 4] = ["DIRECT.GET.{}.>", "STREAM.MSG.GET.{}", "CONSUMER.CREATE.{}.>", "CONSUMER.DELETE.{}.*"];
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
    /// Everybody may see that all streams and buckets are there, and of which crawl.
    fn verify(&mut self) {
        for stream in self.all_streams() {
            self.call(&["STREAM.INFO.{}"], &stream);
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
        self.subjects.all(edge).into_iter().for_each(|subject| self.publish(subject));
    }

    fn listen(&mut self, edge: Edge) {
        self.subjects.all(edge).into_iter().for_each(|subject| self.subscribe(subject));
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
            let call = |call: &str| format!("CONSUMER.{call}.{{}}.{consumer}");
            self.call(&[&call("INFO"), &call("MSG.NEXT")], &stream);
            self.publish(format!("$JS.ACK.{stream}.{consumer}.>"));
        }
    }

    /// The names of a stage's consumers of a stream that is kept by interest.
    fn consumers(&self, stage: StageName, edge: Edge) -> Vec<String> {
        match edge.has_lanes() {
            true => lane_consumers(stage.name(), edge, self.subjects).into_iter().map(|lane| lane.name).collect(),
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
        for stream in self.all_streams() {
            self.call(&["STREAM.CREATE.{}", "STREAM.UPDATE.{}"], &stream);
        }
        // A consumer that is there before anything is published is made for every stage that reads with others.
        for stream in self.by_interest() {
            self.call(&LOOKS, &stream);
            self.call(&["CONSUMER.CREATE.{}.>", "CONSUMER.DELETE.{}.*"], &stream);
        }
    }

    fn conductor(&mut self) {
        for stream in self.edges() {
            self.call(&LOOKS, &stream);
        }
        // Further consumers that hold the crawl back are removed; what went with the broker's memory is made again.
        for stream in self.by_interest() {
            self.call(&["CONSUMER.CREATE.{}.>", "CONSUMER.DELETE.{}.*"], &stream);
        }
        for stream in
            self.pipeline.edges.streams().into_iter().map(|(key, _)| self.subjects.stream(key)).collect::<Vec<_>>()
        {
            self.call(&["STREAM.CREATE.{}", "STREAM.UPDATE.{}"], &stream);
        }
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
        for row in &BUCKETS {
            self.publish(self.subjects.bucket_key(row.name, ">"));
        }
        self.publish(self.subjects.everything());
        self.subscribe(self.subjects.everything());
        self.rights.answers = true;
    }

    fn tap(&mut self) {
        Edge::ALL.into_iter().for_each(|edge| self.listen(edge));
        for stream in self.edges() {
            self.call(&LOOKS, &stream);
        }
        // Questions alone: what changes a crawl goes to another subject.
        self.publish(self.subjects.control("all"));
        self.publish(self.subjects.control(SUPERVISION));
    }

    /// Calls of JetStream, in which `{}` stands for the stream.
    fn call(&mut self, calls: &[&str], stream: &str) {
        calls.iter().for_each(|call| self.publish(format!("$JS.API.{}", call.replace("{}", stream))));
    }

    fn publish(&mut self, subject: String) {
        self.rights.publish.insert(subject);
    }

    fn subscribe(&mut self, subject: String) {
        self.rights.subscribe.insert(subject);
    }

    /// The streams of edges.
    fn edges(&self) -> Vec<String> {
        let edges = self.pipeline.edges.streams().into_iter().filter(|(key, _)| Edge::from_name(key).is_some());
        edges.map(|(key, _)| self.subjects.stream(key)).collect()
    }

    /// Those among them that are kept by interest.
    fn by_interest(&self) -> Vec<String> {
        edges_by_interest().map(|edge| self.subjects.stream(edge.name())).collect()
    }

    /// All streams, those of the buckets among them.
    fn all_streams(&self) -> Vec<String> {
        let streams = self.pipeline.edges.streams().into_iter().map(|(key, _)| self.subjects.stream(key));
        let buckets = BUCKETS.iter().map(|row| format!("KV_{}", self.subjects.bucket(row.name)));
        streams.chain(buckets).collect()
    }
}
