//! Goal: whatever arrives on an edge, there is an answer; what is read can be written, and is then
//! read as the same; cores that need no store take what they read (P9).
//!
//! Input: a payload. It is read as it is, and once more with its envelope repaired: else the
//! checksum would keep nearly everything from the archive behind it. `run` limits the memory, so
//! that an absurd allocation is a finding.

use dedup::dedup::Dedup;
use host_splitter::splitter::Splitter;
use parser::core::Parser;
use resolver::resolver::Resolver;
use rhumb_config::Pipeline;
use rhumb_stage::{Core, Event, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_url::url_cache::UrlCache;
use rhumb_wire::message::envelope::HEADER_BYTES;
use rhumb_wire::message::{Edge, FRAME_VERSION, MESSAGES, MessageRow, frame, payloads, tap};
use rhumb_wire::topology::{self, StageName};
use scheduler::Scheduler;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

static PIPELINE: LazyLock<Pipeline> = LazyLock::new(|| crate::pipeline(&["partitions=4"]));

/// Takes one input.
pub fn run(data: &[u8]) {
    let Some(&edge) = data.get(EDGE_AT) else {
        return;
    };
    let Some(edge) = Edge::ALL.into_iter().find(|known| known.number() == edge) else {
        return;
    };
    unframe(edge, data);
    for row in MESSAGES.iter().filter(|row| row.edge == edge) {
        let payload = check(row, data);
        let consumers = topology::consumers(edge).filter(|_| !row.is_reply);
        consumers.for_each(|(stage, _)| give(stage, edge, &payload));
    }
}

/// Gives a payload to the core of a stage.
fn give(stage: StageName, edge: Edge, payload: &[u8]) {
    match stage {
        StageName::HostSplitter => {
            let splitter = Splitter::new((&*PIPELINE).into(), UrlCache::fixed(&[]), 0);
            take(splitter, edge, payload);
        }
        StageName::Resolver => take(Resolver::new((&*PIPELINE).into()), edge, payload),
        StageName::Parser => take(Parser::new((&*PIPELINE).into()), edge, payload),
        // They need a store to take it.
        StageName::Dedup => read::<Dedup>(edge, payload),
        StageName::Scheduler => read::<Scheduler>(edge, payload),
        // They read messages as they are.
        StageName::Fetcher | StageName::Archiver => {}
    }
}

/// Where a payload says which edge it is of.
const EDGE_AT: usize = 4;

/// Takes a message of an edge apart as it is, and as a frame whose lengths have the right checksum.
/// What comes out gives the same frame again.
fn unframe(edge: Edge, data: &[u8]) {
    let _ = payloads(edge, data.to_vec().into());
    let Some((header, rest)) = data.split_at_checked(HEADER_BYTES) else {
        return;
    };
    let count = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let checksum = xxh3_64(&rest[..rest.len().min(4 * count)]).to_le_bytes();
    let framed = [
        b"RHMB".as_slice(),
        &[edge.number(), FRAME_VERSION],
        &header[6..8],
        &checksum,
        rest,
    ]
    .concat();
    if let Ok(messages) = payloads(edge, framed.clone().into()) {
        // One alone travels without a frame.
        assert!(
            messages.len() == 1 || frame(edge, &messages) == framed,
            "{} messages",
            messages.len()
        );
    }
}

/// Reads a payload as it is and repaired, and writes what it held; gives the repaired payload.
fn check(row: &MessageRow, data: &[u8]) -> Vec<u8> {
    let _ = (row.again)(data);
    let payload = repaired(row, data.get(HEADER_BYTES..).unwrap_or_default());
    let again = (row.again)(&payload);
    if let Ok(again) = &again {
        assert_eq!((row.json)(again), (row.json)(&payload));
        assert_eq!((row.again)(again).as_ref(), Ok(again));
    }
    // A tap shows the messages of an edge, not the replies to them.
    let shown = tap::json(row.edge, &payload);
    assert!(again.is_err() || shown.is_ok() || row.is_reply, "{shown:?}");
    payload
}

/// An archive in an envelope that fits it.
fn repaired(row: &MessageRow, archive: &[u8]) -> Vec<u8> {
    let checksum = xxh3_64(archive).to_le_bytes();
    [
        b"RHMB".as_slice(),
        &[row.edge.number(), row.version, 0, 0],
        &checksum,
        archive,
    ]
    .concat()
}

/// Gives a payload to a core to read.
fn read<C: Core>(edge: Edge, payload: &[u8]) {
    let _ = C::decode(edge, payload);
}

/// Gives a payload to a core to read and take.
fn take<C: Core>(mut core: C, edge: Edge, payload: &[u8]) {
    let Ok(input) = C::decode(edge, payload) else {
        return;
    };
    for event in [
        Event::Message {
            ticket: Ticket(1),
            input,
        },
        Event::Wake,
        Event::Drain,
    ] {
        core.step(Timestamp::ZERO, event, &mut Output::default())
            .expect("no store that could fail");
    }
}
