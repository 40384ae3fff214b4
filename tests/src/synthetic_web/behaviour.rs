//! Behaviour: what the server does when a URL is requested.
//!
//! The one place that knows: a new way of answering (or of not answering) is a variant here, with
//! its arm in `of`, in `ending` and in `perform`.

use std::io;

use tokio::net::TcpStream;

use super::html;
use super::http::{self, Body};
use super::plan::{Link, Plan};
use super::resource::Resource;

/// What the server does with a request for one URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// 200 with the page of that number.
    Page(u32),
    /// 301 to another URL.
    Redirect(Link),
    /// 404.
    NotFound,
    /// The host's robots.txt, or 404 where there is none.
    Robots,
}

/// What a crawler that requests the URL ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A page.
    Fetched,
    /// Another URL to look at.
    Redirected,
    /// Nothing there.
    NotFound,
    /// Rules, which are no page.
    Rules,
}

/// One request's turn on a connection.
pub(crate) struct Exchange<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) host: u32,
    pub(crate) stream: &'a mut TcpStream,
    /// The request was HEAD: announce the body, do not send it.
    pub(crate) head_only: bool,
    /// Announce that the connection closes after this response.
    pub(crate) close: bool,
    /// Scratch space that outlives the exchange, so that a page costs no allocation.
    pub(crate) scratch: &'a mut Scratch,
}

/// Reused buffers of a connection.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    head: String,
    page: String,
}

impl Behaviour {
    /// What `resource` of `host` does.
    pub(crate) fn of(plan: &Plan, host: u32, resource: Resource) -> Self {
        match resource {
            Resource::Robots => Self::Robots,
            Resource::Gone(_) | Resource::Unknown => Self::NotFound,
            Resource::Page(page) if plan.shape(host, page).redirect => Self::Redirect(plan.redirect_target(host, page)),
            Resource::Page(page) => Self::Page(page),
        }
    }

    /// How the URL ends for a crawler that may and does request it.
    pub(crate) fn ending(self) -> Ending {
        match self {
            Self::Page(_) => Ending::Fetched,
            Self::Redirect(_) => Ending::Redirected,
            Self::NotFound => Ending::NotFound,
            Self::Robots => Ending::Rules,
        }
    }

    /// Answers. An error ends the connection.
    pub(crate) async fn perform(self, exchange: Exchange<'_>) -> io::Result<()> {
        match self {
            Self::Page(page) => exchange.send_page(page).await,
            Self::Redirect(to) => {
                let location = format!("Location: {}\r\n", exchange.plan.url(to.host, to.resource));
                exchange.send("301 Moved Permanently", "text/html; charset=utf-8", &location, "<p>Moved.</p>").await
            }
            Self::NotFound => exchange.send("404 Not Found", "text/html; charset=utf-8", "", "<p>Not here.</p>").await,
            Self::Robots => match exchange.plan.site(exchange.host).robots.text() {
                Some(text) => exchange.send("200 OK", "text/plain; charset=utf-8", "", &text).await,
                None => exchange.send("404 Not Found", "text/plain; charset=utf-8", "", "no rules\n").await,
            },
        }
    }
}

impl Exchange<'_> {
    async fn send_page(self, page: u32) -> io::Result<()> {
        let Scratch { head, page: own } = self.scratch;
        own.clear();
        let filler = html::render(self.plan, self.host, page, own);
        let parts = [own.as_bytes(), self.plan.filler.bytes(filler), html::TAIL.as_bytes()];
        let body = Body { parts, omitted: self.head_only };
        let fields = "Content-Type: text/html; charset=utf-8\r\n";
        http::write_response(self.stream, head, "200 OK", fields, self.close, body).await
    }

    async fn send(self, status: &str, content_type: &str, fields: &str, text: &str) -> io::Result<()> {
        let fields = format!("Content-Type: {content_type}\r\n{fields}");
        let body = Body { parts: [text.as_bytes(), &[], &[]], omitted: self.head_only };
        http::write_response(self.stream, &mut self.scratch.head, status, &fields, self.close, body).await
    }
}
