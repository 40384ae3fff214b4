//! Gates: a way to the web, and to its name server, that can be shut for a while, as a broken
//! network does.
//!
//! Invariant: a gate that is dropped listens no longer.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a name server has to answer, and how long a relay listens before it looks whether it is
/// to end.
const PATIENCE: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct State {
    is_shut: AtomicBool,
    has_ended: AtomicBool,
    /// Both ends of each connection.
    streams: Mutex<Vec<TcpStream>>,
}

impl State {
    fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    fn cut(&self) {
        for stream in self
            .streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// A gate: open at first.
#[derive(Debug)]
pub struct Gate {
    address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Gate {
    /// A SOCKS proxy: the way out to the web. While it is shut it ends every connection at once.
    ///
    /// # Panics
    /// When it cannot listen.
    pub fn to_web() -> Gate {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        Gate::start(address, move |state| {
            for stream in listener.incoming() {
                if state.has_ended() {
                    return;
                }
                let (Ok(stream), false) = (stream, state.is_shut()) else {
                    continue;
                };
                let state = state.clone();
                std::thread::spawn(move || relay(stream, &state));
            }
        })
    }

    /// A relay to a name server. While it is shut nothing comes back.
    ///
    /// # Panics
    /// When it cannot listen.
    pub fn to_name_server(server: SocketAddr) -> Gate {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let address = socket.local_addr().expect("an address");
        Gate::start(address, move |state| {
            let mut query = [0; 4096];
            while !state.has_ended() {
                let Ok((length, from)) = socket.recv_from(&mut query) else {
                    continue;
                };
                let (Ok(socket), false) = (socket.try_clone(), state.is_shut()) else {
                    continue;
                };
                let query = query[..length].to_vec();
                std::thread::spawn(move || {
                    let _ = ask(server, &query).and_then(|answer| socket.send_to(&answer, from));
                });
            }
        })
    }

    fn start(address: SocketAddr, serve: impl FnOnce(Arc<State>) + Send + 'static) -> Gate {
        let state = Arc::<State>::default();
        let thread = std::thread::spawn({
            let state = state.clone();
            move || serve(state)
        });
        Gate {
            address,
            state,
            thread: Some(thread),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets nothing through; connections that go through it end.
    pub fn shut(&self) {
        self.state.is_shut.store(true, Ordering::Relaxed);
        self.state.cut();
    }

    /// Lets everything through again.
    pub fn open(&self) {
        self.state.is_shut.store(false, Ordering::Relaxed);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Relaxed);
        self.state.cut();
        // Ends the wait for the next connection.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn ask(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(10 * PATIENCE))?;
    socket.send_to(query, server)?;
    let mut answer = vec![0; 4096];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// Takes a connection to where its client wants it (RFC 1928, without a password).
fn relay(mut client: TcpStream, state: &State) {
    let Ok(server) = greet(&mut client) else {
        return;
    };
    let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    {
        let mut streams = state.streams.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in [&client, &server] {
            streams.extend(stream.try_clone());
        }
    }
    if state.is_shut() {
        state.cut();
    }
    let back = std::thread::spawn(move || pass(server_too, client_too));
    pass(client, server);
    let _ = back.join();
}

/// Passes all on, then the end.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn greet(client: &mut TcpStream) -> io::Result<TcpStream> {
    client.set_nodelay(true)?;
    let [_, methods] = read(client)?;
    let mut offered = vec![0; methods.into()];
    client.read_exact(&mut offered)?;
    client.write_all(&[5, 0])?;
    let [_, _, _, kind] = read(client)?;
    let address: IpAddr = match kind {
        1 => read::<4>(client)?.into(),
        4 => read::<16>(client)?.into(),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    let port = u16::from_be_bytes(read(client)?);
    let server = TcpStream::connect((address, port));
    client.write_all(&[5, u8::from(server.is_err()), 0, 1, 0, 0, 0, 0, 0, 0])?;
    let server = server?;
    server.set_nodelay(true)?;
    Ok(server)
}

fn read<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
