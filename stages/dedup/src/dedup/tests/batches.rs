//! Steps that are committed together.

use super::*;
use rhumb_stage::store::{Overlay, Uncommitted};

/// What follows an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Another input of the same batch.
    Another,
    /// A commit.
    Commit,
    /// The process dies. What was not committed comes again, and is committed.
    Death,
}

/// What came of an input.
#[derive(Debug, PartialEq)]
enum Made {
    New(NewUrls),
    Reply(ContentReply),
}

/// An instance whose steps are committed when that is said.
struct Batching {
    state: State,
    uncommitted: Arc<Uncommitted>,
    core: Option<Dedup>,
    /// Inputs that are not committed, and what came of them.
    inputs: Vec<Input>,
    waits: Vec<Made>,
    /// What came of those that are.
    made: Vec<Made>,
}

impl Batching {
    fn new(seen: DedupStore) -> Self {
        let mut this = Batching {
            state: State::with(seen),
            uncommitted: Arc::default(),
            core: None,
            inputs: Vec::new(),
            waits: Vec::new(),
            made: Vec::new(),
        };
        this.open();
        this
    }

    fn open(&mut self) {
        self.core = None;
        let partitions = [0, 1, 2, 3];
        let settings = settings(self.state.seen);
        let store = self.state.store.clone();
        let folder = self.state.folder.path().into();
        let seen = MovingKeys::open(&settings.seen, store.as_ref(), folder, &partitions).unwrap();
        let overlay = Arc::new(Overlay::new(store, self.uncommitted.clone()));
        let core = Dedup::open(&settings, cache(), &partitions, overlay, seen);
        self.core = Some(core.unwrap());
    }

    fn step(&mut self, now: Timestamp, event: Event<Input, Infallible>) {
        let mut out = Output::default();
        let core = self.core.as_mut().unwrap();
        core.step(now, event, &mut out).unwrap();
        self.uncommitted.add(std::mem::take(&mut out.changes));
        let Output {
            publishes, replies, ..
        } = out;
        for publish in publishes {
            self.waits
                .push(Made::New(decode(&publish.payload).unwrap()));
        }
        for (_, reply) in replies {
            self.waits.push(Made::Reply(decode(&reply).unwrap()));
        }
    }

    fn take(&mut self, input: Input) {
        self.inputs.push(input.clone());
        let ticket = Ticket(1);
        self.step(Timestamp::ZERO, Event::Message { ticket, input });
        while let Some(at) = self.core.as_ref().unwrap().wake_at() {
            self.step(at.max(Timestamp::ZERO + IDLE), Event::Wake);
        }
    }

    fn commit(&mut self) {
        self.state.store.commit(&self.uncommitted.take()).unwrap();
        self.core.as_mut().unwrap().committed().unwrap();
        self.inputs.clear();
        self.made.append(&mut self.waits);
    }

    fn die(&mut self) {
        self.uncommitted.take();
        self.waits.clear();
        self.open();
        for input in std::mem::take(&mut self.inputs) {
            self.take(input);
        }
        self.commit();
    }

    /// The new URLs, sorted, and the replies.
    fn told(&self) -> (Vec<String>, Vec<&ContentReply>) {
        let mut urls = Vec::new();
        let mut replies = Vec::new();
        for made in &self.made {
            match made {
                Made::New(new) => urls.extend(new.urls.iter().map(str::to_owned)),
                Made::Reply(reply) => replies.push(reply),
            }
        }
        urls.sort();
        (urls, replies)
    }

    fn rows(&self) -> Changes {
        let mut rows = Changes::default();
        for (table, _) in TABLES {
            let all = &mut |key: &[u8], row: &[u8]| {
                // Which files the URL-seen store has tells of its deaths, too.
                if key != SEEN {
                    rows.put(table, key, row);
                }
                true
            };
            let store = &self.state.store;
            store.scan(table, &[], &[u8::MAX; 16], all).unwrap();
        }
        rows
    }
}

fn inputs() -> impl Strategy<Value = Vec<(Input, Then)>> {
    let urls = proptest::collection::vec((0u8..6, 0u8..20), 0..20).prop_map(|links| {
        let urls = links
            .iter()
            .map(|(host, path)| format!("http://h{host}.test/{path}"));
        let urls: Vec<String> = urls.collect();
        let urls: Vec<(&str, u32)> = urls.iter().map(|url| (url.as_str(), 0)).collect();
        Input::Split(batch(&urls, &["p"]))
    });
    let bodies = proptest::collection::vec((0u64..5, 0u64..9), 1..4).prop_map(|bodies| {
        let body = |(fingerprint, url)| Body {
            fingerprint,
            at: Place { url, links: 5 },
        };
        let bodies = bodies.into_iter().map(body).collect();
        Input::Content(ContentAsk { bodies })
    });
    let then = prop_oneof![
        6 => Just(Then::Another),
        2 => Just(Then::Commit),
        1 => Just(Then::Death),
    ];
    let input = prop_oneof![3 => urls, 1 => bodies];
    proptest::collection::vec((input, then), 0..40)
}

proptest! {
    /// Goal: batches come to the same as single steps, also with deaths in the middle of them; a
    /// death may only change which new URLs share a message. Method: questions of URLs and of
    /// bodies, most of which were asked before; the same once with a commit after each.
    #[test]
    fn batches_come_to_the_same_as_single_steps(inputs in inputs(), in_memory: bool) {
        let seen = if in_memory { DedupStore::Memory } else { DedupStore::Disk };
        let mut batching = Batching::new(seen);
        let mut single = Batching::new(seen);
        let dies = inputs.iter().any(|(_, then)| *then == Then::Death);
        for (input, then) in inputs {
            single.take(input.clone());
            single.commit();
            batching.take(input);
            match then {
                Then::Another => {}
                Then::Commit => batching.commit(),
                Then::Death => batching.die(),
            }
        }
        batching.commit();
        prop_assert!(dies || batching.made == single.made);
        prop_assert_eq!(batching.told(), single.told());
        prop_assert_eq!(batching.rows(), single.rows());
    }
}
