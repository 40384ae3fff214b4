//! Pages of hostile hosts: as on any host, but not sent as they should be.

use std::io;

use super::Hostility;
use super::answers::{head, hung_up};
use crate::behaviour::{Exchange, HTML};

/// Bytes by which the announced length of a short body is too large.
const BYTES_MISSING: usize = 5_000;
/// The comment that comes behind a page that does not end.
const COMMENT: &[u8] = b"<!-- and so on -->\n";
const COMMENTS: usize = 1_000;

impl Hostility {
    /// The value of Content-Type, if pages have one.
    pub(crate) fn content_type(self) -> Option<&'static str> {
        match self {
            Self::Mistyped => Some("image/png"),
            Self::Untyped => None,
            // Said in the page, by its first bytes, or here.
            Self::Cyrillic | Self::Utf16 => Some("text/html"),
            Self::Japanese => Some("text/html; charset=Shift_JIS"),
            _ => Some(HTML),
        }
    }

    /// Pages are sent by [`send_page`](Self::send_page), whole.
    pub(crate) fn sends_pages_oddly(self) -> bool {
        self.tongue().is_some()
            || matches!(
                self,
                Self::BodyShort
                    | Self::BodyEndless
                    | Self::BodyChunks
                    | Self::GzipBomb
                    | Self::BrotliBomb
                    | Self::Mistyped
                    | Self::Untyped
            )
    }

    /// Sends a page.
    pub(crate) async fn send_page(
        self,
        mut exchange: Exchange<'_>,
        page: String,
    ) -> io::Result<()> {
        let bytes = page.len();
        match self {
            Self::BodyShort => {
                exchange
                    .write(&head(
                        HTML,
                        &format!("Content-Length: {}\r\n", bytes + BYTES_MISSING),
                    ))
                    .await?;
                exchange.write(page.as_bytes()).await?;
                hung_up()
            }
            Self::BodyEndless => {
                exchange.write(&head(HTML, "")).await?;
                exchange.write(page.as_bytes()).await?;
                let comments = COMMENT.repeat(COMMENTS);
                loop {
                    exchange.write(&comments).await?;
                }
            }
            Self::BodyChunks => {
                exchange
                    .write(&head(HTML, "Transfer-Encoding: chunked\r\n"))
                    .await?;
                exchange
                    .write(format!("{bytes:x}\r\n{page}\r\nno chunk\r\n").as_bytes())
                    .await?;
                hung_up()
            }
            Self::GzipBomb => {
                let bomb = exchange.plan.bombs()?.gzip(page.as_bytes())?;
                exchange
                    .send("200 OK", HTML, "Content-Encoding: gzip\r\n", &bomb)
                    .await
            }
            Self::BrotliBomb => {
                let bomb = exchange.plan.bombs()?.brotli(page.as_bytes());
                exchange
                    .send("200 OK", HTML, "Content-Encoding: br\r\n", &bomb)
                    .await
            }
            _ => {
                let page = match self.tongue() {
                    Some(tongue) => tongue.encode(&page),
                    None => page.into_bytes(),
                };
                exchange
                    .send_typed("200 OK", self.content_type(), "", &page)
                    .await
            }
        }
    }
}
