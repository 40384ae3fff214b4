//! Small servers on loopback, written by hand so that they can misbehave.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a server saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) accepted: usize,
    pub(crate) open: usize,
    pub(crate) open_max: usize,
    /// Request heads.
    pub(crate) requests: Vec<String>,
    pub(crate) n_requests: usize,
    pub(crate) requested_at: Vec<Instant>,
    /// Keeps counts alone.
    pub(crate) counts_only: bool,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A connection to a server.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    seen: Arc<Mutex<Seen>>,
    buffer: Vec<u8>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.seen.lock().unwrap().open -= 1;
    }
}

impl Peer {
    /// The next request's head; none when the client closed.
    pub(crate) async fn request(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self
                .buffer
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            {
                let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).unwrap();
                let mut seen = self.seen.lock().unwrap();
                seen.n_requests += 1;
                if !seen.counts_only {
                    seen.requests.push(head.clone());
                    seen.requested_at.push(Instant::now());
                }
                return Some(head);
            }
            if self.stream.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Option<()> {
        self.stream.write_all(bytes.as_ref()).await.ok()
    }

    /// Until the client closes.
    pub(crate) async fn hang(&mut self) {
        while self
            .stream
            .read_buf(&mut self.buffer)
            .await
            .is_ok_and(|read| read > 0)
        {}
    }
}

impl Server {
    pub(crate) async fn start<F, R>(serve: F) -> Server
    where
        F: Fn(Peer) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Server::start_at("127.0.0.1:0", serve).await
    }

    pub(crate) async fn start_at<F, R>(address: &str, serve: F) -> Server
    where
        F: Fn(Peer) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noted = seen.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                {
                    let mut seen = noted.lock().unwrap();
                    seen.accepted += 1;
                    seen.open += 1;
                    seen.open_max = seen.open_max.max(seen.open);
                }
                let peer = Peer {
                    stream,
                    seen: noted.clone(),
                    buffer: Vec::new(),
                };
                tokio::spawn(serve(peer));
            }
        });
        Server {
            address,
            seen,
            task,
        }
    }

    /// Answers every request with the same bytes.
    pub(crate) async fn answering(response: Vec<u8>) -> Server {
        let response = Arc::new(response);
        Server::start(move |mut peer| {
            let response = response.clone();
            async move {
                while peer.request().await.is_some()
                    && peer.send(response.as_slice()).await.is_some()
                {}
            }
        })
        .await
    }

    /// Sends some bytes after the first request, and closes.
    pub(crate) async fn once(response: Vec<u8>) -> Server {
        let response = Arc::new(response);
        Server::start(move |mut peer| {
            let response = response.clone();
            async move {
                peer.request().await;
                peer.send(response.as_slice()).await;
            }
        })
        .await
    }

    /// `http://127.0.0.1:<port>`.
    pub(crate) fn name(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn accepted(&self) -> usize {
        self.seen.lock().unwrap().accepted
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }

    pub(crate) fn n_requests(&self) -> usize {
        self.seen.lock().unwrap().n_requests
    }
}

/// A response with a body of its announced length.
pub(crate) fn ok(body: &[u8]) -> Vec<u8> {
    let mut response =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    response.extend_from_slice(body);
    response
}
