//! Name server: answers on loopback, over UDP, as late as the latency model says.
//!
//! In: questions for names of the trace. Out: for type A an address of the range for benchmarks
//! (RFC 2544). For other types the answer is that there is none, with the record that says how long
//! that holds (RFC 2308). Anything else gets no answer.
//!
//! A datagram that repeats a question under way, with the same number, is dropped: the answer to
//! the first will come. So a client gains nothing when it repeats datagrams. A question with a new
//! number is a new one. An answer that would come after the client's time-out is not sent: nobody
//! waits for it, and its port may be another question's by then.
//!
//! Invariants: it runs on a thread of its own; at most [`PENDING_MAX`] answers wait to be sent, and
//! further questions are dropped; no input ends it.

use super::latency::Latency;
use super::names::Names;
use anyhow::Context as _;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as StdSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// Answers that wait at most.
const PENDING_MAX: usize = 65_536;
/// Receive buffer of the socket: all questions of a window come at once.
const RECEIVE_BYTES: usize = 4 << 20;
const PACKET_BYTES: usize = 512;
const HEADER_BYTES: usize = 12;
const TYPE_A: u16 = 1;
/// For how many seconds answers hold. The crawler uses them for longer.
const TTL_S: u32 = 300;
/// The record of an address without the address: owner (the name asked for), type, class, time to
/// live, length.
const ADDRESS: [u8; 12] = [
    0xc0,
    HEADER_BYTES as u8,
    0,
    1,
    0,
    1,
    0,
    0,
    (TTL_S >> 8) as u8,
    TTL_S as u8,
    0,
    4,
];
/// The record that there is nothing: owner (the root), type SOA, class, time to live, length,
/// primary server and mailbox (the root), serial number and times, the last of which says how long
/// that holds.
const NOTHING: [u8; 33] = [
    0,
    0,
    6,
    0,
    1,
    0,
    0,
    (TTL_S >> 8) as u8,
    TTL_S as u8,
    0,
    22,
    0,
    0,
    0,
    0,
    0,
    1,
    0,
    0,
    1,
    0,
    0,
    0,
    1,
    0,
    0,
    1,
    0,
    0,
    0,
    0,
    (TTL_S >> 8) as u8,
    TTL_S as u8,
];

/// A running name server. It ends when dropped.
#[derive(Debug)]
pub(super) struct NameServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl NameServer {
    /// Starts one that knows these names, for clients that wait as long as `patience` says for an
    /// answer.
    pub(super) fn start(
        names: Arc<Names>,
        latency: Latency,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let socket =
            StdSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to bind a name server")?;
        socket.set_nonblocking(true)?;
        // As much as the system allows.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES);
        let address = socket.local_addr()?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let questions = Questions::new(names, latency, timeout);
        let thread = std::thread::Builder::new()
            .name("name-server".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    let Ok(socket) = UdpSocket::from_std(socket) else {
                        return;
                    };
                    tokio::select! {
                        () = serve(socket, questions) => {}
                        // The sender is dropped to stop.
                        _ = stopped => {}
                    }
                });
            })?;
        Ok(NameServer {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

async fn serve(socket: UdpSocket, mut questions: Questions) {
    let mut packet = [0; PACKET_BYTES];
    loop {
        let due_at = questions.due_at();
        tokio::select! {
            received = socket.recv_from(&mut packet) => {
                // An error here is about an earlier answer that nobody waited for.
                if let Ok((length, from)) = received {
                    questions.receive(Instant::now(), &packet[..length], from);
                }
            }
            () = sleep_until(due_at.unwrap_or_else(Instant::now)), if due_at.is_some() => {}
        }
        while let Some((answer, to)) = questions.take_due(Instant::now()) {
            if let Some(answer) = answer {
                // A client that is gone needs none.
                let _ = socket.send_to(&answer, to).await;
            }
        }
    }
}

/// A question: name, type and the number that the client gave it.
type Key = (u32, u16, [u8; 2]);

/// An answer that waits: when it is due, for which question, where to, and its bytes; none when it
/// would come too late.
type Pending = (Instant, Key, SocketAddr, Option<Vec<u8>>);

/// What was asked, and which answers wait.
struct Questions {
    names: Arc<Names>,
    latency: Latency,
    timeout: Duration,
    /// How often each name and type was asked.
    asked: HashMap<(u32, u16), u32>,
    /// The questions whose answers wait: the same as in `pending`.
    under_way: HashSet<Key>,
    /// The answers that wait, the earliest first.
    pending: BinaryHeap<Reverse<Pending>>,
}

impl Questions {
    fn new(names: Arc<Names>, latency: Latency, timeout: Duration) -> Self {
        let asked = HashMap::new();
        let under_way = HashSet::new();
        let pending = BinaryHeap::new();
        Questions {
            names,
            latency,
            timeout,
            asked,
            under_way,
            pending,
        }
    }

    fn receive(&mut self, now: Instant, packet: &[u8], from: SocketAddr) {
        let Some(question) = question(packet) else {
            return;
        };
        let Some(number) = self.names.number(&question.name) else {
            return;
        };
        let key = (number, question.kind, [packet[0], packet[1]]);
        if self.pending.len() >= PENDING_MAX || self.under_way.contains(&key) {
            return;
        }
        let asked = self.asked.entry((number, question.kind)).or_default();
        let Some(latency) = self.latency.of(number, *asked) else {
            return;
        };
        *asked += 1;
        self.under_way.insert(key);
        let is_in_time = latency < self.timeout;
        let answer = is_in_time.then(|| answer(&packet[..question.end], question.kind, number));
        self.pending.push(Reverse((
            now + latency.min(self.timeout),
            key,
            from,
            answer,
        )));
    }

    fn due_at(&self) -> Option<Instant> {
        self.pending.peek().map(|Reverse((due_at, ..))| *due_at)
    }

    /// Something that is due, and to whom it goes.
    fn take_due(&mut self, now: Instant) -> Option<(Option<Vec<u8>>, SocketAddr)> {
        self.due_at().filter(|&due_at| due_at <= now)?;
        let Reverse((_, key, to, answer)) = self.pending.pop()?;
        self.under_way.remove(&key);
        Some((answer, to))
    }
}

struct Question {
    name: String,
    kind: u16,
    /// Where the question ends in the packet.
    end: usize,
}

/// The one question of a packet.
fn question(packet: &[u8]) -> Option<Question> {
    let header = packet.get(..HEADER_BYTES)?;
    let is_answer = header[2] & 0x80 != 0;
    if is_answer || header[4..6] != [0, 1] {
        return None;
    }
    let mut at = HEADER_BYTES;
    let mut name = String::new();
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = std::str::from_utf8(packet.get(at..at + length)?).ok()?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&label.to_ascii_lowercase());
        at += length;
    }
    let &[high, low, _, _] = packet.get(at..at + 4)? else {
        return None;
    };
    Some(Question {
        name,
        kind: u16::from_be_bytes([high, low]),
        end: at + 4,
    })
}

/// The answer to a packet, of which only header and question are given.
fn answer(packet: &[u8], kind: u16, number: u32) -> Vec<u8> {
    let mut answer = packet.to_vec();
    let is_address = kind == TYPE_A;
    // An answer, as recursive as the question wanted it, without an error.
    answer[2] |= 0x80;
    answer[3] = 0x80;
    answer[6..12].copy_from_slice(&[0, u8::from(is_address), 0, u8::from(!is_address), 0, 0]);
    if is_address {
        answer.extend_from_slice(&ADDRESS);
        answer.extend_from_slice(&[
            198,
            18 + (number >> 16 & 1) as u8,
            (number >> 8) as u8,
            number as u8,
        ]);
    } else {
        answer.extend_from_slice(&NOTHING);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
    const TYPE_AAAA: u16 = 28;
    const LATENCY: Latency = Latency {
        seed: 1,
        scale: 1.0,
    };

    fn packet(name: &str, kind: u16) -> Vec<u8> {
        let mut packet = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            packet.push(label.len() as u8);
            packet.extend_from_slice(label.as_bytes());
        }
        packet.extend_from_slice(&[0, 0, kind as u8, 0, 1]);
        packet
    }

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn questions() -> Questions {
        Questions::new(Arc::new(Names::new(1_000, 1)), LATENCY, TIMEOUT)
    }

    #[test]
    fn a_question_is_answered_when_the_model_says_so_and_its_repeats_are_dropped() {
        let mut questions = questions();
        let number = (0..)
            .find(|&name| LATENCY.of(name, 0).is_some_and(|latency| latency < TIMEOUT))
            .unwrap();
        let name = questions.names.get(number).to_owned();
        let now = Instant::now();
        questions.receive(now, &packet(&name.to_ascii_uppercase(), TYPE_A), FROM);
        let due_at = now + LATENCY.of(number, 0).unwrap();
        assert_eq!(questions.due_at(), Some(due_at));
        questions.receive(now + Duration::from_millis(1), &packet(&name, TYPE_A), FROM);
        questions.receive(now, &packet(&name, TYPE_AAAA), FROM);
        assert!(
            questions
                .take_due(due_at - Duration::from_micros(1))
                .is_none()
        );
        let answers: Vec<Vec<u8>> = std::iter::from_fn(|| questions.take_due(due_at))
            .filter_map(|(answer, _)| answer)
            .collect();
        assert_eq!(answers.len(), 2, "both types take the same time");
        questions.receive(due_at, &packet(&name, TYPE_A), FROM);
        assert_eq!(
            questions.due_at(),
            Some(due_at + LATENCY.of(number, 1).unwrap().min(TIMEOUT))
        );
        for answer in answers {
            assert_eq!(
                (&answer[..2], answer[2] & 0x80, answer[3] & 0x0f),
                (&[7, 9][..], 0x80, 0)
            );
            assert_eq!(
                answer[7] + answer[9],
                1,
                "an address, or that there is none"
            );
        }
    }

    #[test]
    fn an_answer_that_comes_too_late_is_not_sent_and_the_next_question_is_a_new_one() {
        let mut questions = questions();
        let late = (0..1_000)
            .find(|&name| LATENCY.of(name, 0).is_some_and(|latency| latency > TIMEOUT))
            .unwrap();
        let now = Instant::now();
        let packet = packet(questions.names.get(late), TYPE_A);
        questions.receive(now, &packet, FROM);
        questions.receive(now, &packet, FROM);
        assert_eq!(questions.take_due(now + TIMEOUT), Some((None, FROM)));
        questions.receive(now + TIMEOUT, &packet, FROM);
        assert_eq!(
            questions.due_at(),
            Some(now + TIMEOUT + LATENCY.of(late, 1).unwrap().min(TIMEOUT))
        );
    }

    #[test]
    fn what_is_no_question_for_a_name_gets_no_answer() {
        let mut questions = questions();
        let silent = (0..).find(|&name| LATENCY.of(name, 0).is_none()).unwrap();
        let whole = packet(questions.names.get(0), TYPE_A);
        for length in 0..whole.len() {
            questions.receive(Instant::now(), &whole[..length], FROM);
        }
        let answer = { [&whole[..2], &[0x81], &whole[3..]].concat() };
        for packet in [
            answer,
            packet("nobody.example", TYPE_A),
            packet(questions.names.get(silent), TYPE_A),
        ] {
            questions.receive(Instant::now(), &packet, FROM);
        }
        assert!(questions.pending.is_empty());
    }
}
