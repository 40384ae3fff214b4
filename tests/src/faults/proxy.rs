//! Proxy: a way to the broker that can be cut for some of its clients and not for others.
//!
//! In: connections of clients. Out: connections to the broker, with the same bytes. A client is
//! known by the name that it connects with: `fetcher-0` is an instance of `fetcher`.
//!
//! Invariant: while a client is cut off nothing passes, in neither direction; what was sent
//! meanwhile passes afterwards, as over a network that lost packets for a while.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// Every client.
pub(crate) const ALL: &str = "all";
/// The first line of a client, with its name, is shorter.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// A way to a broker.
#[derive(Clone)]
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    to: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Clients that are cut off, by the name of their stage.
    cut: BTreeSet<String>,
    /// Nothing is relayed any more.
    is_over: bool,
}

/// The name of a client's stage, when it has said it.
type Name = Arc<OnceLock<String>>;

impl Proxy {
    /// Listens on a free port of loopback.
    pub(crate) fn start(to: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            to,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.state().is_over {
                    return;
                }
                // A broker that is away refuses: the client sees its end.
                let _ = accepting.relay(client);
            }
        });
        Ok(Proxy { address, shared })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the instances of a stage off, or [`ALL`] clients.
    pub(crate) fn cut(&self, stage: &str) {
        self.shared.state().cut.insert(stage.to_owned());
    }

    /// Connects them again.
    pub(crate) fn heal(&self, stage: &str) {
        self.shared.state().cut.remove(stage);
        self.shared.changed.notify_all();
    }

    /// Ends all.
    pub(crate) fn end(&self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Relays in both directions, in threads of their own.
    fn relay(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let broker = TcpStream::connect(self.to)?;
        for stream in [&client, &broker] {
            stream.set_nodelay(true)?;
        }
        let name = Name::default();
        let from_client = client.try_clone()?;
        let to_client = client;
        let from_broker = broker.try_clone()?;
        let to_broker = broker;
        let there = Arc::clone(self);
        let back = Arc::clone(self);
        let name_there = Arc::clone(&name);
        thread::spawn(move || there.pump(from_client, to_broker, &name_there, true));
        thread::spawn(move || back.pump(from_broker, to_client, &name, false));
        Ok(())
    }

    /// Relays in one direction until either side ends.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream, name: &Name, is_client: bool) {
        let mut buffer = vec![0; 64 << 10];
        let mut head = Vec::new();
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if is_client && name.get().is_none() && head.len() < HEAD_BYTES_MAX {
                head.extend_from_slice(&buffer[..read]);
                if let Some(stage) = stage_of(&head) {
                    let _ = name.set(stage);
                }
            }
            if !self.wait_until_open(name) || to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        // An end, too, is not seen by who is cut off.
        self.wait_until_open(name);
        for stream in [&from, &to] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// False when all is over.
    fn wait_until_open(&self, name: &Name) -> bool {
        let is_cut = |state: &mut State| {
            let is_meant = |cut: &String| cut == ALL || name.get() == Some(cut);
            !state.is_over && state.cut.iter().any(is_meant)
        };
        let state = self.changed.wait_while(self.state(), is_cut);
        !state.unwrap_or_else(PoisonError::into_inner).is_over
    }
}

/// The stage of a client, by the first line that it sends.
fn stage_of(head: &[u8]) -> Option<String> {
    let line = head
        .split(|byte| *byte == b'\r')
        .next()
        .filter(|line| line.len() < head.len())?;
    let options: serde_json::Value =
        serde_json::from_slice(line.strip_prefix(b"CONNECT ")?).ok()?;
    let name = options["name"].as_str()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let stage = name
        .rsplit_once('-')
        .filter(|(_, instance)| is_number(instance));
    Some(stage.map_or(name, |(stage, _)| stage).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A server that sends back what it is sent.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || io::copy(&mut stream.try_clone().unwrap(), &mut stream));
            }
        });
        address
    }

    fn client(proxy: &Proxy, name: &str) -> TcpStream {
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let hello = format!("CONNECT {{\"verbose\":false,\"name\":\"{name}\"}}\r\n");
        stream.write_all(hello.as_bytes()).unwrap();
        stream.read_exact(&mut vec![0; hello.len()]).unwrap();
        stream
    }

    #[test]
    fn who_is_cut_off_hears_nothing_until_the_way_is_there_again_and_the_others_notice_nothing() {
        let proxy = Proxy::start(echo()).unwrap();
        let mut cut = client(&proxy, "host-splitter-0");
        let mut other = client(&proxy, "fetcher-12");
        proxy.cut("host-splitter");
        let mut answer = [0; 4];
        cut.write_all(b"PING").unwrap();
        assert!(cut.read_exact(&mut answer).is_err());
        other.write_all(b"PING").unwrap();
        other.read_exact(&mut answer).unwrap();
        proxy.heal("host-splitter");
        cut.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"PING");
        proxy.end();
    }

    #[test]
    fn all_are_cut_off_at_once_and_the_end_ends_connections() {
        let proxy = Proxy::start(echo()).unwrap();
        let mut one = client(&proxy, "rhumb");
        proxy.cut(ALL);
        one.write_all(b"PING").unwrap();
        assert!(one.read_exact(&mut [0; 4]).is_err());
        proxy.end();
        assert_eq!(one.read(&mut [0; 4]).unwrap_or(0), 0);
    }
}
