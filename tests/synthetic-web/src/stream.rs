//! Stream: the bytes of a connection, plain or within TLS.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// What a connection is read from and written to.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {
    /// When it is dropped, the client sees a reset.
    fn end_with_reset(&self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn end_with_reset(&self) -> io::Result<()> {
        self.set_zero_linger()
    }
}

impl Stream for TlsStream<&mut TcpStream> {
    fn end_with_reset(&self) -> io::Result<()> {
        self.get_ref().0.set_zero_linger()
    }
}
