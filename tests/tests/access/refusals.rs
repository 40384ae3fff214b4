//! What a user may not do is refused, whoever tries it: each tries all.

use super::block_on;
use async_nats::{Client, Message};
use futures::StreamExt as _;
use rhumb_tests::harness::Guarded;
use rhumb_wire::Subjects;
use rhumb_wire::topology::{Edge, Kind, STAGES, User};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long messages may take over loopback, and the broker to write its log.
const AT_MOST: Duration = Duration::from_secs(20);
/// How long to wait for a message that must not come.
const A_MOMENT: Duration = Duration::from_millis(300);

/// One subject of an edge.
fn subject(subjects: &Subjects, edge: Edge) -> String {
    subjects.all(edge).remove(0).replace('*', "7")
}

/// Subjects of all kinds, with what an operator calls them.
fn all_subjects(subjects: &Subjects) -> Vec<String> {
    let edges = Edge::ALL.into_iter().map(|edge| subject(subjects, edge));
    let control = ["all", "supervisor", "supervision", "fetcher.0"].map(|to| subjects.control(to));
    let beside = STAGES.iter().flat_map(|row| {
        [
            subjects.dead(row.name),
            subjects.parked(row.name, Edge::Pages, 1),
            subjects.moves(row.name, 7, 1),
        ]
    });
    edges.chain(control).chain(beside).collect()
}

/// Where a user may publish, by the tables.
fn may_publish(subjects: &Subjects, user: User) -> BTreeSet<String> {
    match user {
        User::Stage(stage) => {
            let row = stage.row();
            let inputs = row.inputs.iter().map(|source| source.edge());
            let streams =
                inputs.filter(|edge| edge.row().is_some_and(|row| row.kind != Kind::Core));
            let edges = row
                .outputs
                .iter()
                .copied()
                .chain(streams)
                .map(|edge| subject(subjects, edge));
            let beside = [
                subjects.dead(row.name),
                subjects.parked(row.name, Edge::Pages, 1),
            ];
            let moves = row.has_state.then(|| subjects.moves(row.name, 7, 1));
            edges.chain(beside).chain(moves).collect()
        }
        User::Init => BTreeSet::new(),
        User::Conductor => [subjects.control("all")].into(),
        User::Operator => all_subjects(subjects).into_iter().collect(),
        User::Tap => [subjects.control("all"), subjects.control("supervision")].into(),
    }
}

/// What a user may hear, by the tables.
fn may_hear(subjects: &Subjects, user: User) -> BTreeSet<String> {
    match user {
        User::Stage(stage) => {
            let inputs = stage.row().inputs.iter().map(|source| source.edge());
            let soft = inputs.filter(|edge| edge.row().is_some_and(|row| row.kind == Kind::Core));
            let own = subjects.control(&format!("{}.0", stage.name()));
            let control = [subjects.control("all")]
                .into_iter()
                .chain((own == subjects.control("fetcher.0")).then_some(own));
            soft.map(|edge| subject(subjects, edge))
                .chain(control)
                .collect()
        }
        User::Init => BTreeSet::new(),
        User::Conductor => [
            subjects.control("supervisor"),
            subjects.control("supervision"),
        ]
        .into(),
        User::Operator => all_subjects(subjects).into_iter().collect(),
        User::Tap => Edge::ALL
            .into_iter()
            .map(|edge| subject(subjects, edge))
            .collect(),
    }
}

async fn clients(broker: &Guarded) -> BTreeMap<User, Client> {
    let mut clients = BTreeMap::new();
    for user in User::ALL {
        clients.insert(
            user,
            broker
                .client(user.name())
                .await
                .expect("the broker lets it in"),
        );
    }
    clients
}

/// Comes back when the broker has done all that a client asked of it before: everybody may ask it
/// for a stream.
async fn settle(client: &Client) {
    let asked = client.request("$JS.API.STREAM.INFO.rhumb_default_pages", "".into());
    asked.await.expect("the broker answers");
}

/// Takes messages until so many have come, and then what comes within a moment: nothing tells that
/// there is no more.
async fn taken(
    messages: &mut (impl futures::Stream<Item = Message> + Unpin),
    expected: usize,
) -> Vec<Message> {
    let mut taken = Vec::new();
    let end = tokio::time::Instant::now() + AT_MOST;
    loop {
        let moment = tokio::time::Instant::now() + A_MOMENT;
        let patience = if taken.len() < expected { end } else { moment };
        match tokio::time::timeout_at(patience, messages.next()).await {
            Ok(Some(message)) => taken.push(message),
            _ => return taken,
        }
    }
}

#[test]
fn a_user_publishes_where_the_tables_say_and_nowhere_else() {
    let broker = Guarded::start(None);
    let subjects = broker.pipeline("operator").subjects();
    block_on(async {
        let clients = clients(&broker).await;
        let mut heard = clients[&User::Operator]
            .subscribe(subjects.everything())
            .await
            .expect("a subscription");
        settle(&clients[&User::Operator]).await;
        for (user, client) in &clients {
            for subject in all_subjects(&subjects) {
                client
                    .publish(subject, user.name().into())
                    .await
                    .expect("a connection");
            }
            settle(client).await;
        }
        let expected = User::ALL
            .map(|user| may_publish(&subjects, user).len())
            .into_iter()
            .sum();
        let mut published: BTreeMap<User, BTreeSet<String>> = BTreeMap::new();
        for message in taken(&mut heard, expected).await {
            let user = std::str::from_utf8(&message.payload)
                .ok()
                .and_then(User::from_name)
                .expect("a user");
            published
                .entry(user)
                .or_default()
                .insert(message.subject.to_string());
        }
        for user in User::ALL {
            let published = published.remove(&user).unwrap_or_default();
            assert_eq!(published, may_publish(&subjects, user), "{}", user.name());
        }
    });
}

#[test]
fn a_user_hears_what_the_tables_say_and_no_other_users_replies() {
    let broker = Guarded::start(None);
    let subjects = broker.pipeline("operator").subjects();
    block_on(async {
        let clients = clients(&broker).await;
        let mut heard = BTreeMap::new();
        for (user, client) in &clients {
            let mut all = futures::stream::SelectAll::new();
            for subject in all_subjects(&subjects) {
                all.push(client.subscribe(subject).await.expect("a connection"));
            }
            for other in User::ALL {
                all.push(
                    client
                        .subscribe(format!("_INBOX_{}.>", other.name()))
                        .await
                        .expect("a connection"),
                );
            }
            for everything in ["_INBOX.>", "rhumb.>", "$KV.>", ">"] {
                all.push(client.subscribe(everything).await.expect("a connection"));
            }
            heard.insert(*user, all);
        }
        // Every subscription is there before anything is published. What the broker answers comes
        // to a user's own inbox alone: once more when all others listen.
        for client in clients.values().chain(clients.values()) {
            settle(client).await;
        }
        let operator = &clients[&User::Operator];
        for subject in all_subjects(&subjects) {
            operator
                .publish(subject, "".into())
                .await
                .expect("a connection");
        }
        for user in User::ALL {
            let mut all = heard.remove(&user).expect("a user");
            let expected = may_hear(&subjects, user);
            let got = taken(&mut all, expected.len() + 2)
                .await
                .into_iter()
                .map(|message| message.subject.to_string());
            let own = format!("_INBOX_{}.", user.name());
            let got: BTreeSet<String> = got.filter(|subject| !subject.starts_with(&own)).collect();
            assert_eq!(got, expected, "{}", user.name());
        }
    });
}

/// Calls of JetStream and keys that a user must not use, each with why somebody would.
fn forbidden() -> Vec<(&'static str, String)> {
    let stream = |key: &str| format!("rhumb_default_{key}");
    let bucket = |name: &str| format!("rhumb_default_{name}");
    let mut all = Vec::new();
    let everybody_but_an_operator = User::ALL
        .into_iter()
        .filter(|user| *user != User::Operator)
        .map(User::name);
    for user in everybody_but_an_operator {
        for call in ["DELETE", "PURGE", "SNAPSHOT"] {
            all.push((user, format!("$JS.API.STREAM.{call}.{}", stream("pages"))));
        }
        all.push((
            user,
            format!("$JS.API.STREAM.DELETE.KV_{}", bucket("leases")),
        ));
        all.push((
            user,
            format!("$JS.API.STREAM.MSG.DELETE.{}", stream("dead")),
        ));
        all.push((user, "$JS.API.STREAM.CREATE.other".to_owned()));
        all.push((user, "$SYS.REQ.USER.INFO".to_owned()));
    }
    for stage in STAGES.iter().map(|row| row.name) {
        all.push((stage, format!("$JS.API.STREAM.CREATE.{}", stream("pages"))));
        all.push((stage, format!("$JS.API.STREAM.UPDATE.{}", stream("pages"))));
        all.push((
            stage,
            format!(
                "$JS.API.CONSUMER.CREATE.{}.{stage}.rhumb.default.pages",
                stream("pages")
            ),
        ));
        all.push((
            stage,
            format!("$JS.API.CONSUMER.DELETE.{}.parser", stream("pages")),
        ));
        all.push((stage, format!("$KV.{}.crawl", bucket("identity"))));
        all.push((stage, format!("$KV.{}.supervisor.0", bucket("leases"))));
    }
    for (user, subject) in [
        (
            "fetcher",
            format!("$JS.API.CONSUMER.MSG.NEXT.{}.parser", stream("pages")),
        ),
        (
            "archiver",
            format!("$JS.API.CONSUMER.MSG.NEXT.{}.parser", stream("pages")),
        ),
        (
            "archiver",
            format!("$JS.ACK.{}.parser.1.1.1.1.0", stream("pages")),
        ),
        (
            "parser",
            format!("$JS.API.STREAM.MSG.GET.{}", stream("urls_new")),
        ),
        (
            "fetcher",
            format!("$JS.API.DIRECT.GET.KV_{0}.$KV.{0}.x", bucket("tokens")),
        ),
        (
            "fetcher",
            format!("$JS.API.DIRECT.GET.KV_{0}.$KV.{0}.x", bucket("scope")),
        ),
        ("fetcher", format!("$KV.{}.scheduler.0", bucket("leases"))),
        (
            "dedup",
            format!("$KV.{}.state.scheduler.0", bucket("identity")),
        ),
        ("scheduler", format!("$KV.{}.dedup", bucket("owners"))),
        ("conductor", format!("$KV.{}.crawl", bucket("identity"))),
        ("conductor", format!("$KV.{}.crawl", bucket("orders"))),
        ("scheduler", format!("$KV.{}.crawl", bucket("orders"))),
        ("tap", format!("$KV.{}.crawl", bucket("orders"))),
        ("tap", format!("$KV.{}.x", bucket("scope"))),
        (
            "tap",
            format!("$JS.API.DIRECT.GET.KV_{0}.$KV.{0}.x", bucket("scope")),
        ),
        (
            "tap",
            format!("$JS.API.CONSUMER.CREATE.{}.tap", stream("pages")),
        ),
        ("tap", format!("$JS.API.STREAM.MSG.GET.{}", stream("pages"))),
        (
            "operator",
            "$JS.API.STREAM.DELETE.rhumb_other_pages".to_owned(),
        ),
    ] {
        all.push((user, subject));
    }
    all
}

/// Goal: the broker refuses each call by name, which it says in its log with the key of who tried
/// it. Method: the calls are published; to wait for replies that never come would take minutes.
#[test]
fn calls_of_jetstream_and_keys_that_a_user_does_not_need_are_refused() {
    let broker = Guarded::start(None);
    let init = broker.rhumb(
        "init",
        &["init", "--set", "network.allow_private_addresses=true"],
    );
    assert_eq!(init.code, 0, "{}", init.err);
    let nkeys = broker.public_keys();
    block_on(async {
        let clients = clients(&broker).await;
        for (user, subject) in forbidden() {
            let client = &clients[&User::from_name(user).expect("a user")];
            client
                .publish_with_reply(subject, format!("_INBOX_{user}.x"), "".into())
                .await
                .expect("a connection");
        }
        // Until the broker has answered it has perhaps not read them all; a client that is gone may
        // take them with it.
        for client in clients.values() {
            settle(client).await;
        }
    });
    let end = Instant::now() + AT_MOST;
    loop {
        let lines = broker.violations();
        let is_refused = |(user, subject): &(&str, String)| {
            let key = &nkeys[*user];
            let subject = format!("{subject:?}");
            lines.iter().any(|line| {
                line.contains("Publish Violation")
                    && line.contains(key.as_str())
                    && line.contains(&subject)
            })
        };
        let allowed: Vec<_> = forbidden()
            .into_iter()
            .filter(|tried| !is_refused(tried))
            .collect();
        if allowed.is_empty() {
            break;
        }
        assert!(Instant::now() < end, "not refused: {allowed:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    // What they tried to delete is still there.
    assert_eq!(broker.rhumb("tap", &["consumers"]).code, 0);
}
