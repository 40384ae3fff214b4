//! Client: a connection that asks the synthetic hosts for pages, for tests and for measuring the
//! web itself.
//!
//! It understands what the synthetic web sends and no more.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// The status line and all header lines.
    pub head: String,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// A header's value; `name` in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The server closes the connection after this response.
    pub fn closes(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut values = fields
        .filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim());
    values.next()
}

/// A connection to one host.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    authority: String,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects. `authority` goes into the Host header.
    ///
    /// # Errors
    /// If nobody listens at `address`.
    pub async fn connect(address: SocketAddr, authority: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            authority: authority.to_owned(),
            buffer: Vec::with_capacity(64 * 1024),
        })
    }

    /// Asks for `path` and reads the whole response.
    ///
    /// # Errors
    /// If the connection ends before the response does.
    pub async fn get(&mut self, path: &str) -> Result<Response> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.authority);
        self.send(request.as_bytes()).await?;
        self.receive(true).await
    }

    /// Sends any bytes.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Reads one response; `with_body` is false after HEAD. A 304 has no body in any case.
    ///
    /// # Errors
    /// If the connection ends before the response does.
    pub async fn receive(&mut self, with_body: bool) -> Result<Response> {
        let head_bytes = loop {
            if let Some(at) = self
                .buffer
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
            {
                break at + 4;
            }
            self.read_more().await?;
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_bytes]).into_owned();
        let status: u16 = head.split(' ').nth(1).context("no status")?.parse()?;
        let end = if with_body && status != 304 {
            head_bytes
                + header(&head, "content-length")
                    .context("no length")?
                    .parse::<usize>()?
        } else {
            head_bytes
        };
        while self.buffer.len() < end {
            self.read_more().await?;
        }
        let body = self.buffer[head_bytes..end].to_vec();
        self.buffer.drain(..end);
        Ok(Response { status, head, body })
    }

    /// Waits until the server ends the connection; bytes that still come are an error.
    ///
    /// # Errors
    /// If the server sends more.
    pub async fn wait_for_end(&mut self) -> Result<()> {
        ensure!(
            self.stream.read_buf(&mut self.buffer).await.unwrap_or(0) == 0,
            "the server sent more"
        );
        Ok(())
    }

    /// Reads what comes next, whatever it is; 0 bytes at the end.
    ///
    /// # Errors
    /// If the connection is lost.
    pub async fn read(&mut self, bytes: &mut Vec<u8>) -> Result<usize> {
        Ok(self.stream.read_buf(bytes).await?)
    }

    async fn read_more(&mut self) -> Result<()> {
        ensure!(
            self.stream.read_buf(&mut self.buffer).await? > 0,
            "the connection ended early"
        );
        Ok(())
    }
}
