//! A name server on loopback that answers as a test tells it, well or badly: over UDP and TCP, over
//! TLS, or over HTTPS.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test binary uses some of it")]

use bytes::Bytes;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) const A: u16 = 1;
pub(crate) const CNAME: u16 = 5;
pub(crate) const SOA: u16 = 6;
pub(crate) const AAAA: u16 = 28;
pub(crate) const FORMERR: u8 = 1;
pub(crate) const SERVFAIL: u8 = 2;
pub(crate) const NXDOMAIN: u8 = 3;
pub(crate) const NOTIMP: u8 = 4;
pub(crate) const REFUSED: u8 = 5;
/// Where every question begins.
pub(crate) const QUESTION_AT: usize = 12;

/// What a test is asked.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) packet: Vec<u8>,
    pub(crate) name: String,
    pub(crate) kind: u16,
    pub(crate) over_tcp: bool,
}

impl Query {
    /// It has options (EDNS).
    pub(crate) fn has_edns(&self) -> bool {
        // The only additional record that is asked with.
        self.packet[10..12] != [0, 0]
    }
}

/// Bytes to send, and when.
pub(crate) struct Reply(pub(crate) Duration, pub(crate) Vec<u8>);

/// One reply at once.
pub(crate) fn at_once(bytes: Vec<u8>) -> Vec<Reply> {
    vec![Reply(Duration::ZERO, bytes)]
}

type Handler = Arc<dyn Fn(&Query) -> Vec<Reply> + Send + Sync>;

/// The server, and what it was asked.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, u16)>>>,
}

impl NameServer {
    pub(crate) async fn start(
        answer: impl Fn(&Query) -> Vec<Reply> + Send + Sync + 'static,
    ) -> Self {
        let (udp, tcp) = sockets().await;
        let address = udp.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let handler: Handler = Arc::new(move |query| {
            log.lock().unwrap().push((query.name.clone(), query.kind));
            answer(query)
        });
        tokio::spawn(serve_udp(Arc::new(udp), handler.clone()));
        tokio::spawn(serve_tcp(tcp, handler));
        NameServer { address, asked }
    }

    /// Over TLS, or over HTTPS when there is a path.
    pub(crate) async fn start_encrypted(
        path: Option<&'static str>,
        answer: fn(&Query) -> Vec<Reply>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        let handler: Handler = Arc::new(move |query| {
            log.lock().unwrap().push((query.name.clone(), query.kind));
            answer(query)
        });
        tokio::spawn(serve_tls(listener, path, handler));
        NameServer { address, asked }
    }

    /// What it was asked for, each question once.
    pub(crate) fn asked(&self) -> Vec<(String, u16)> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked.dedup();
        asked
    }

    /// How many questions it got for a name.
    pub(crate) fn asked_for(&self, name: &str) -> usize {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .filter(|(asked, _)| asked == name)
            .count()
    }
}

/// Two sockets with one port.
async fn sockets() -> (UdpSocket, TcpListener) {
    for _ in 0..100 {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
    panic!("no port is free for both");
}

async fn serve_udp(socket: Arc<UdpSocket>, handler: Handler) {
    let mut packet = [0; 1500];
    loop {
        // An error here is about an earlier answer that nobody waited for.
        let Ok((length, from)) = socket.recv_from(&mut packet).await else {
            continue;
        };
        for Reply(after, bytes) in handler(&query(&packet[..length], false)) {
            let socket = socket.clone();
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                let _ = socket.send_to(&bytes, from).await;
            });
        }
    }
}

async fn serve_tcp(listener: TcpListener, handler: Handler) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let handler = handler.clone();
        tokio::spawn(async move {
            // The client may leave at any time.
            let _ = converse(stream, handler).await;
        });
    }
}

async fn serve_tls(listener: TcpListener, path: Option<&'static str>, handler: Handler) {
    let certificate = include_bytes!("../../../../shared/bus/tests/certificate/certificate.der");
    let key = include_bytes!("../../../../shared/bus/tests/certificate/key.der");
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.as_slice())],
            PrivateKeyDer::try_from(key.as_slice()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = path.map(|_| b"h2".to_vec()).into_iter().collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let acceptor = acceptor.clone();
        let handler = handler.clone();
        tokio::spawn(async move {
            // A client that does not trust the certificate leaves.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            match path {
                None => drop(converse(stream, handler).await),
                Some(path) => drop(converse_over_http(stream, path, handler).await),
            }
        });
    }
}

async fn converse_over_http(
    stream: TlsStream<TcpStream>,
    path: &'static str,
    handler: Handler,
) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, mut respond) = request?;
        let handler = handler.clone();
        tokio::spawn(async move {
            let status = if request.uri().path() == path {
                200
            } else {
                404
            };
            let mut packet = Vec::new();
            let mut body = request.into_body();
            while let Some(part) = body.data().await {
                packet.extend_from_slice(&part?);
            }
            for Reply(after, bytes) in handler(&query(&packet, true)) {
                tokio::time::sleep(after).await;
                let head = http::Response::builder()
                    .status(status)
                    .header("content-type", "application/dns-message");
                let head = head.header("content-length", bytes.len()).body(()).unwrap();
                respond
                    .send_response(head, false)?
                    .send_data(Bytes::from(bytes), true)?;
            }
            Ok::<_, h2::Error>(())
        });
    }
    Ok(())
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: Handler,
) -> std::io::Result<()> {
    loop {
        let length = stream.read_u16().await?;
        let mut packet = vec![0; length.into()];
        stream.read_exact(&mut packet).await?;
        for Reply(after, bytes) in handler(&query(&packet, true)) {
            tokio::time::sleep(after).await;
            stream
                .write_u16(u16::try_from(bytes.len()).unwrap())
                .await?;
            stream.write_all(&bytes).await?;
        }
    }
}

/// Name and type of the question.
fn query(packet: &[u8], over_tcp: bool) -> Query {
    let mut at = QUESTION_AT;
    let mut labels = Vec::new();
    while packet[at] != 0 {
        let length = usize::from(packet[at]);
        labels.push(String::from_utf8_lossy(&packet[at + 1..at + 1 + length]).into_owned());
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([packet[at + 1], packet[at + 2]]);
    Query {
        packet: packet.to_vec(),
        name: labels.join("."),
        kind,
        over_tcp,
    }
}

/// A resource record.
#[derive(Clone)]
pub(crate) struct Record {
    /// As it stands in the message.
    pub(crate) owner: Vec<u8>,
    pub(crate) kind: u16,
    pub(crate) ttl: u32,
    pub(crate) data: Vec<u8>,
}

impl Record {
    /// Of the name asked for.
    pub(crate) fn new(kind: u16, ttl: u32, data: &[u8]) -> Self {
        Record {
            owner: vec![0xc0, QUESTION_AT as u8],
            kind,
            ttl,
            data: data.to_vec(),
        }
    }

    pub(crate) fn of(owner: &str, kind: u16, ttl: u32, data: &[u8]) -> Self {
        Record {
            owner: wire(owner),
            ..Record::new(kind, ttl, data)
        }
    }
}

/// A name as it is written in a message.
pub(crate) fn wire(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// Where the question ends.
pub(crate) fn question_end(query: &[u8]) -> usize {
    let mut end = QUESTION_AT;
    while query[end] != 0 {
        end += 1 + usize::from(query[end]);
    }
    end + 5
}

/// An answer with so many records.
pub(crate) fn response(query: &Query, code: u8, records: &[Record]) -> Vec<u8> {
    let mut packet = query.packet[..question_end(&query.packet)].to_vec();
    packet[2] |= 0x80;
    packet[3] = 0x80 | code;
    packet[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    packet[8..12].fill(0);
    for record in records {
        push(&mut packet, record);
    }
    packet
}

/// An answer without records, and without the question.
pub(crate) fn bare(query: &Query, code: u8) -> Vec<u8> {
    let mut packet = query.packet[..QUESTION_AT].to_vec();
    packet[2] |= 0x80;
    packet[3] = 0x80 | code;
    packet[4..].fill(0);
    packet
}

/// An answer that knows no such version of EDNS (RFC 6891, section 6.1.3).
pub(crate) fn bad_version(query: &Query) -> Vec<u8> {
    const OPT: u16 = 41;
    // The upper bits of the code 16 stand where other records have their lifetime.
    let options = Record {
        owner: vec![0],
        ..Record::new(OPT, 1 << 24, &[])
    };
    let mut packet = response(query, 0, &[options]);
    packet.swap(7, 11);
    packet
}

/// An answer without records whose zone wants it to be remembered for so many seconds.
pub(crate) fn nothing(query: &Query, code: u8, seconds: u32) -> Vec<u8> {
    let mut packet = response(query, code, &[]);
    packet[9] = 1;
    let mut data = vec![0, 0]; // primary server and mailbox: the root
    for number in [1, 3_600, 600, 86_400, seconds] {
        data.extend_from_slice(&u32::to_be_bytes(number));
    }
    push(
        &mut packet,
        &Record {
            owner: vec![0],
            ..Record::new(SOA, 86_400, &data)
        },
    );
    packet
}

fn push(packet: &mut Vec<u8>, record: &Record) {
    packet.extend_from_slice(&record.owner);
    packet.extend_from_slice(&record.kind.to_be_bytes());
    packet.extend_from_slice(&[0, 1]);
    packet.extend_from_slice(&record.ttl.to_be_bytes());
    packet.extend_from_slice(&(record.data.len() as u16).to_be_bytes());
    packet.extend_from_slice(&record.data);
}
