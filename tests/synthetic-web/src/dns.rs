//! DNS: a name server for the synthetic hosts (RFC 1035), over UDP on loopback.
//!
//! One question per query, answered from the plan: A for a host, nothing (NOERROR) for other types,
//! NXDOMAIN for other names. The names of hostile hosts are answered as [`Hostility::name`] says. A
//! packet that is no query gets no answer or an error code, and nothing that it contains is
//! followed.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;

use super::hostility::{Hostility, NameAnswer};
use super::place::{host_of_name, listens_at};
use super::profile::Profile;
use super::server::Web;

/// How long an answer may be cached, in seconds.
const TTL_S: u32 = 300;
const HEADER_BYTES: usize = 12;
const NAME_BYTES_MAX: usize = 255;
const TYPE_A: u16 = 1;
const TYPE_SOA: u16 = 6;
const TYPE_AAAA: u16 = 28;
const CLASS_IN: u16 = 1;
const CLASS_ANY: u16 = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    NoError = 0,
    FormatError = 1,
    ServerFailure = 2,
    NameError = 3,
    NotImplemented = 4,
    Refused = 5,
}

/// The names the server knows.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    profile: Profile,
    extra: BTreeMap<String, Vec<IpAddr>>,
    /// Questions so far for the name of each hostile host.
    asked: BTreeMap<u32, u32>,
}

impl Zone {
    pub(crate) fn new(profile: &Profile) -> Self {
        let mut extra: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for (name, address) in &profile.extra_hosts {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            extra.entry(name).or_default().push(*address);
        }
        Self {
            profile: profile.clone(),
            extra,
            asked: BTreeMap::new(),
        }
    }

    /// The answer for a name, and its addresses.
    fn look_up(&mut self, name: &str) -> (NameAnswer, Vec<IpAddr>) {
        let Some(host) = host_of_name(name, self.profile.hosts) else {
            return match self.extra.get(&name.to_ascii_lowercase()) {
                Some(addresses) => (NameAnswer::Address(Duration::ZERO), addresses.clone()),
                None => (NameAnswer::Missing, Vec::new()),
            };
        };
        let said = match self.profile.hostility(host) {
            Some(hostility) => self.ask_hostile(host, hostility),
            None => NameAnswer::Address(Duration::ZERO),
        };
        (said, vec![listens_at(self.profile.address, host, 0).ip()])
    }

    fn ask_hostile(&mut self, host: u32, hostility: Hostility) -> NameAnswer {
        let asked = self.asked.entry(host).or_default();
        *asked += 1;
        hostility.name(*asked - 1)
    }
}

/// An answer, and the time after which it is sent.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) message: Vec<u8>,
    pub(crate) after: Duration,
}

impl Answer {
    fn at_once(message: Vec<u8>) -> Self {
        Self {
            message,
            after: Duration::ZERO,
        }
    }
}

/// Answers queries for ever, each after `latency`.
pub(crate) async fn serve(web: Arc<Web>, socket: UdpSocket, latency: Duration) {
    let mut zone = Zone::new(&web.plan.profile);
    let socket = Arc::new(socket);
    let mut packet = [0; 4096];
    loop {
        // An error here is about an earlier answer that nobody waited for.
        let Ok((length, from)) = socket.recv_from(&mut packet).await else {
            continue;
        };
        if web.network.names_are_silent() {
            continue;
        }
        let Some(Answer { message, after }) = answer(&packet[..length], &mut zone) else {
            continue;
        };
        web.recorder.dns_query();
        let after = after + latency;
        if after.is_zero() {
            send(&socket, &message, from).await;
        } else {
            let socket = Arc::clone(&socket);
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                send(&socket, &message, from).await;
            });
        }
    }
}

async fn send(socket: &UdpSocket, answer: &[u8], to: SocketAddr) {
    // A client that is gone needs no answer.
    let _ = socket.send_to(answer, to).await;
}

struct Question {
    name: String,
    /// Where the question ends in the query.
    end: usize,
    kind: u16,
    class: u16,
}

/// The answer to a packet; `None` for a packet that is no query, and for a name that the server is
/// silent about.
pub(crate) fn answer(query: &[u8], zone: &mut Zone) -> Option<Answer> {
    let header = query.get(..HEADER_BYTES)?;
    let is_response = header[2] & 0x80 != 0;
    if is_response {
        return None;
    }
    let operation = (header[2] >> 3) & 0x0f;
    if operation != 0 {
        return Some(Answer::at_once(message(
            header,
            &[],
            Code::NotImplemented,
            &[],
        )));
    }
    let questions = u16::from_be_bytes([header[4], header[5]]);
    let question = match read_question(query) {
        Some(question) if questions == 1 => question,
        _ => {
            return Some(Answer::at_once(message(
                header,
                &[],
                Code::FormatError,
                &[],
            )));
        }
    };
    let asked = &query[HEADER_BYTES..question.end];
    if question.class != CLASS_IN && question.class != CLASS_ANY {
        return Some(Answer::at_once(message(header, asked, Code::Refused, &[])));
    }
    let (said, addresses) = zone.look_up(&question.name);
    let (code, after) = match said {
        NameAnswer::Nothing => return None,
        NameAnswer::Address(after) => (Code::NoError, after),
        NameAnswer::Empty => (Code::NoError, Duration::ZERO),
        NameAnswer::Missing => (Code::NameError, Duration::ZERO),
        NameAnswer::Failure => (Code::ServerFailure, Duration::ZERO),
    };
    let fits =
        |address: &IpAddr| question.kind == if address.is_ipv4() { TYPE_A } else { TYPE_AAAA };
    let fitting: Vec<IpAddr> = match said {
        NameAnswer::Address(_) => addresses.into_iter().filter(fits).collect(),
        _ => Vec::new(),
    };
    Some(Answer {
        message: message(header, asked, code, &fitting),
        after,
    })
}

/// Reads the first question. A compressed name is no name here: nothing comes before it that it
/// could point at.
fn read_question(query: &[u8]) -> Option<Question> {
    let mut name = String::new();
    let mut at = HEADER_BYTES;
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        if length > 63 || name.len() + length + 2 > NAME_BYTES_MAX {
            return None;
        }
        let label = std::str::from_utf8(query.get(at..at + length)?).ok()?;
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(label);
        at += length;
    }
    let [k1, k2, c1, c2] = *query.get(at..at + 4)? else {
        return None;
    };
    Some(Question {
        name,
        end: at + 4,
        kind: u16::from_be_bytes([k1, k2]),
        class: u16::from_be_bytes([c1, c2]),
    })
}

/// Puts a message together. Without addresses it carries a start of authority, for caches (RFC
/// 2308, section 3).
fn message(header: &[u8], asked: &[u8], code: Code, addresses: &[IpAddr]) -> Vec<u8> {
    let questions = u16::from(!asked.is_empty());
    let negative = addresses.is_empty() && matches!(code, Code::NoError | Code::NameError);
    let recursion_desired = header[2] & 0x01;
    let mut out = Vec::with_capacity(HEADER_BYTES + asked.len() + 32 + 28 * addresses.len());
    out.extend_from_slice(&header[..2]);
    out.push(0x84 | recursion_desired); // a response, authoritative
    out.push(0x80 | code as u8); // recursion available: resolvers ask for it
    for count in [questions, addresses.len() as u16, u16::from(negative), 0] {
        out.extend_from_slice(&count.to_be_bytes());
    }
    out.extend_from_slice(asked);
    for address in addresses {
        let question_name = [0xc0, HEADER_BYTES as u8];
        match address {
            IpAddr::V4(address) => push_record(&mut out, &question_name, TYPE_A, &address.octets()),
            IpAddr::V6(address) => {
                push_record(&mut out, &question_name, TYPE_AAAA, &address.octets())
            }
        }
    }
    if negative {
        let mut data = vec![0, 0]; // primary server and mailbox: the root
        for number in [1, 3_600, 600, 86_400, 60u32] {
            data.extend_from_slice(&number.to_be_bytes());
        }
        push_record(&mut out, &[0], TYPE_SOA, &data);
    }
    out
}

fn push_record(out: &mut Vec<u8>, name: &[u8], kind: u16, data: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    out.extend_from_slice(&TTL_S.to_be_bytes());
    out.extend_from_slice(&(data.len() as u16).to_be_bytes());
    out.extend_from_slice(data);
}

/// A query for one name, as a resolver would send it.
#[cfg(test)]
pub(crate) fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut out = vec![0xab, 0xcd, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::{Dice, Purpose};
    use crate::place::host_address;

    fn zone() -> Zone {
        let extra = [
            ("other.test".to_owned(), "127.0.0.9".parse().unwrap()),
            ("other.test".to_owned(), "::1".parse().unwrap()),
        ];
        Zone::new(&Profile {
            hosts: 50,
            extra_hosts: extra.to_vec(),
            ..Profile::raw()
        })
    }

    fn answer(query: &[u8], zone: &mut Zone) -> Option<Vec<u8>> {
        super::answer(query, zone).map(|answer| answer.message)
    }

    fn code(message: &[u8]) -> u8 {
        message[3] & 0x0f
    }

    fn answers(message: &[u8]) -> u16 {
        u16::from_be_bytes([message[6], message[7]])
    }

    #[test]
    fn a_host_has_its_address_whatever_the_case_of_its_name() {
        for name in ["h0017.web.test", "H0017.wEb.TeSt"] {
            let message = answer(&query(name, TYPE_A), &mut zone()).unwrap();
            assert_eq!(&message[..4], &[0xab, 0xcd, 0x85, 0x80]);
            assert_eq!(answers(&message), 1);
            assert_eq!(message[message.len() - 4..], host_address(17).octets());
            let asked = &query(name, TYPE_A)[12..];
            assert_eq!(&message[12..12 + asked.len()], asked);
        }
    }

    #[test]
    fn a_host_has_nothing_else_and_other_names_do_not_exist() {
        let other_type = answer(&query("h0017.web.test", TYPE_AAAA), &mut zone()).unwrap();
        assert_eq!((code(&other_type), answers(&other_type)), (0, 0));
        let other_name = answer(&query("h0050.web.test", TYPE_A), &mut zone()).unwrap();
        assert_eq!((code(&other_name), answers(&other_name)), (3, 0));
    }

    #[test]
    fn extra_names_have_the_addresses_given() {
        let four = answer(&query("Other.test", TYPE_A), &mut zone()).unwrap();
        assert_eq!(
            (answers(&four), &four[four.len() - 4..]),
            (1, &[127, 0, 0, 9][..])
        );
        let six = answer(&query("other.test", TYPE_AAAA), &mut zone()).unwrap();
        assert_eq!((answers(&six), six[six.len() - 1]), (1, 1));
    }

    #[test]
    fn no_packet_does_harm() {
        let whole = query("h0017.web.test", TYPE_A);
        for length in 0..whole.len() {
            let message = answer(&whole[..length], &mut zone());
            assert_eq!(message.is_none(), length < 12);
            assert!(message.is_none_or(|message| code(&message) == 1));
        }
        let mut dice = Dice::new(5, Purpose::Filler, 0, 0);
        for _ in 0..50_000 {
            let mut packet = if dice.chance(0.5) {
                whole.clone()
            } else {
                vec![0; dice.below(80) as usize]
            };
            let flips = 1 + dice.below(12);
            for _ in 0..flips.min(packet.len() as u32) {
                let at = dice.below(packet.len() as u32) as usize;
                packet[at] = dice.next() as u8;
            }
            let message = answer(&packet, &mut zone());
            assert!(message.is_none_or(|message| message.len() <= 512));
        }
        let mut pointer = whole[..12].to_vec();
        pointer.extend([0xc0, 12, 0, 1, 0, 1]);
        assert_eq!(code(&answer(&pointer, &mut zone()).unwrap()), 1);
    }

    #[test]
    fn of_hostile_hosts_it_says_what_they_are() {
        use Hostility::*;
        let hostilities = vec![
            NameMissing,
            NameEmpty,
            NameFails,
            NameSilent,
            NameShy,
            NameSlow,
            Silent,
        ];
        let profile = Profile {
            hosts: 8,
            hostile: 7.0 / 8.0,
            hostilities,
            ..Profile::raw()
        };
        let mut zone = Zone::new(&profile);
        let mut said = |host: u32| {
            let answer = super::answer(&query(&format!("h{host:04}.web.test"), TYPE_A), &mut zone)?;
            Some((
                code(&answer.message),
                answers(&answer.message),
                answer.after.as_millis(),
            ))
        };
        let expected = [
            Some((0, 1, 0)),
            Some((3, 0, 0)),
            Some((0, 0, 0)),
            Some((2, 0, 0)),
            None,
        ];
        assert_eq!([0, 1, 2, 3, 4].map(&mut said), expected);
        assert_eq!([0; 6].map(|_| said(5).unwrap().0), [2, 2, 2, 2, 0, 0]);
        assert_eq!((said(6), said(7)), (Some((0, 1, 1_000)), Some((0, 1, 0))));
    }
}
