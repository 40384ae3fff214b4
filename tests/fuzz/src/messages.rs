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
use rhumb_wire::message::{
    Ask, AskReply, Boosts, ContentAsk, ContentReply, DnsRefresh, Documents, Edge, EdgeMessage,
    Errand, FRAME_VERSION, FilteredUrls, FoundUrls, NewUrls, Outcomes, Page, ReadyUrls, Report,
    SplitUrls, ToFetcher, decode, encode, frame, payloads, tap,
};
use rkyv::api::high::{HighDeserializer, HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error as Rancor;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use rkyv::{Deserialize, Serialize};
use scheduler::Scheduler;
use std::fmt::Debug;
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
    match edge {
        Edge::UrlsFound => {
            let payload = check::<FoundUrls>(data);
            take(
                Splitter::new((&*PIPELINE).into(), UrlCache::fixed(&[]), 0),
                edge,
                &payload,
            );
        }
        Edge::UrlsSplit => read::<Dedup>(edge, &check::<SplitUrls>(data)),
        Edge::UrlsNew => take(
            Resolver::new((&*PIPELINE).into()),
            edge,
            &check::<NewUrls>(data),
        ),
        Edge::UrlsReady => read::<Scheduler>(edge, &check::<ReadyUrls>(data)),
        Edge::FetchAsks => {
            check::<AskReply>(data);
            read::<Scheduler>(edge, &check::<Ask>(data));
        }
        // The fetcher's core reads them as they are.
        Edge::FetchJobs => drop(check::<ToFetcher>(data)),
        Edge::FetchReports => read::<Scheduler>(edge, &check::<Report>(data)),
        Edge::Pages => take(Parser::new((&*PIPELINE).into()), edge, &check::<Page>(data)),
        Edge::Outcomes => drop(check::<Outcomes>(data)),
        Edge::Documents => drop(check::<Documents>(data)),
        Edge::Further { .. } => unreachable!("an edge of the table"),
        Edge::DnsRefresh => take(
            Resolver::new((&*PIPELINE).into()),
            edge,
            &check::<DnsRefresh>(data),
        ),
        Edge::Errands => read::<Scheduler>(edge, &check::<Errand>(data)),
        Edge::UrlsFiltered => drop(check::<FilteredUrls>(data)),
        Edge::UrlsBoosts => read::<Scheduler>(edge, &check::<Boosts>(data)),
        Edge::ContentAsks => {
            check::<ContentReply>(data);
            read::<Dedup>(edge, &check::<ContentAsk>(data));
        }
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
fn check<M>(data: &[u8]) -> Vec<u8>
where
    M: EdgeMessage
        + PartialEq
        + Debug
        + for<'a> Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Rancor>>,
    M::Archived:
        for<'a> CheckBytes<HighValidator<'a, Rancor>> + Deserialize<M, HighDeserializer<Rancor>>,
{
    let _ = decode::<M>(data);
    let payload = repaired::<M>(data.get(HEADER_BYTES..).unwrap_or_default());
    let message = decode::<M>(&payload);
    if let Ok(message) = &message {
        assert_eq!(decode::<M>(&encode(message)).as_ref(), Ok(message));
    }
    // A tap shows the messages of an edge, not the replies to them.
    let shown = tap::json(M::EDGE, &payload);
    assert!(
        message.is_err() || shown.is_ok() || M::VERSION > 100,
        "{shown:?}"
    );
    payload
}

/// An archive in an envelope that fits it.
fn repaired<M: EdgeMessage>(archive: &[u8]) -> Vec<u8> {
    let checksum = xxh3_64(archive).to_le_bytes();
    [
        b"RHMB".as_slice(),
        &[M::EDGE.number(), M::VERSION, 0, 0],
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
