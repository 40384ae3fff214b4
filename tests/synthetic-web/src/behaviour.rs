//! Behaviour: what the server does when a URL is requested.
//!
//! The one place that knows: a new way to answer, or not to answer, is a variant here with its arm
//! in `of`, in `outcome` and in `perform`. A new wrong is a kind of [`Hostility`].

use std::io;

use super::byway;
use super::edition::{self, Edition, Reply};
use super::hostility::{Hostility, RobotsMeaning};
use super::html;
use super::http::{self, Body, Request};
use super::plan::{Link, Plan};
use super::record::Recorder;
use super::resource::Resource;
use super::sitemap;
use super::stream::Stream;
use super::validators::{Conditions, Validators};

/// The type of a page.
pub(crate) const HTML: &str = "text/html; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// What the server does with a request for one URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// 200 with the page of that number.
    Page(u32),
    /// 200 with a page that leads on and on, and how it ends for a crawler within its limits.
    Byway(u32, Outcome),
    /// 200 with an image.
    Image,
    /// 200 with the sitemap of that number.
    Map(u32),
    /// 200 with the sitemap of a host whose pages change.
    Sitemap,
    /// 301 to another URL.
    Redirect(Link),
    /// 404.
    NotFound,
    /// The host's robots.txt, or 404 where there is none.
    Robots,
    /// What a hostile host does, and how the URL ends then.
    Hostile(Hostility, Outcome),
}

/// How a URL ends for a crawler that requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A page.
    Fetched,
    /// Another URL to look at.
    Redirected,
    /// Nothing is there.
    NotFound,
    /// An answer that says only that the request is not wanted.
    Refused,
    /// No answer that can be used.
    Failed,
    /// No address to ask.
    Unresolvable,
    /// A page that is one too many.
    OverBudget,
    /// Rules, which are no page.
    Rules,
}

/// One request's turn on a connection.
pub(crate) struct Exchange<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) recorder: &'a Recorder,
    pub(crate) host: u32,
    pub(crate) stream: &'a mut dyn Stream,
    pub(crate) request: &'a Request,
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
        let hostility = plan.site(host).hostility;
        let wrong =
            hostility.and_then(|hostility| Some(Self::Hostile(hostility, hostility.pages()?)));
        match (resource, wrong) {
            (Resource::Robots, _) => Self::Robots,
            (Resource::Sitemap, _) => Self::Sitemap,
            (_, Some(wrong)) => wrong,
            (Resource::Gone(_) | Resource::Unknown, None) => Self::NotFound,
            (Resource::Page(page), None) if plan.shape(host, page).redirect => {
                Self::Redirect(plan.redirect_target(host, page))
            }
            (Resource::Page(page), None) => Self::Page(page),
            (Resource::Byway(number), None) => byway::behaviour(plan, host, number),
        }
    }

    /// How the URL ends for a crawler that may request it and does.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Page(_) | Self::Image | Self::Map(_) | Self::Sitemap => Outcome::Fetched,
            Self::Byway(_, outcome) => outcome,
            Self::Redirect(_) => Outcome::Redirected,
            Self::NotFound => Outcome::NotFound,
            Self::Robots => Outcome::Rules,
            Self::Hostile(_, outcome) => outcome,
        }
    }

    /// Answers. An error ends the connection.
    pub(crate) async fn perform(self, exchange: Exchange<'_>) -> io::Result<()> {
        match self {
            Self::Page(page) => exchange.send_page(page).await,
            Self::Byway(number, _) => {
                let page = byway::render(exchange.plan, exchange.host, number);
                exchange.send("200 OK", HTML, "", page.as_bytes()).await
            }
            Self::Image => exchange.send("200 OK", "image/gif", "", byway::IMAGE).await,
            Self::Map(number) => {
                let (content_type, map) = sitemap::render(exchange.plan, exchange.host, number)?;
                exchange.send("200 OK", content_type, "", &map).await
            }
            Self::Sitemap => {
                let map = sitemap::of_host(exchange.plan, exchange.recorder, exchange.host);
                exchange
                    .send("200 OK", sitemap::XML, "", map.as_bytes())
                    .await
            }
            Self::Redirect(to) => {
                let location = format!("Location: {}\r\n", exchange.plan.url(to.host, to.resource));
                exchange
                    .send("301 Moved Permanently", HTML, &location, b"<p>Moved.</p>")
                    .await
            }
            Self::NotFound => exchange.send_not_found().await,
            Self::Robots => exchange.send_robots().await,
            Self::Hostile(hostility, _) => hostility.answer(exchange).await,
        }
    }
}

/// The header lines of validators.
fn lines(validators: &Validators) -> String {
    let fields = validators.fields();
    fields
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect()
}

impl Exchange<'_> {
    async fn send_page(self, page: u32) -> io::Result<()> {
        let site = self.plan.site(self.host);
        if let Some(hostility) = site
            .hostility
            .filter(|hostility| hostility.sends_pages_oddly())
        {
            let whole = html::whole(self.plan, self.host, page, Edition::default());
            return hostility.send_page(self, whole).await;
        }
        let asked = Conditions {
            if_none_match: &self.request.if_none_match,
            if_modified_since: &self.request.if_modified_since,
        };
        let shows_page = !self.head_only;
        let reply = edition::reply(self.plan, self.recorder, self.host, page, asked, shows_page);
        let (edition, validators) = match reply {
            Reply::Page(edition, validators) => (edition, validators),
            Reply::NotModified(validators) => {
                return self.send_not_modified(&lines(&validators)).await;
            }
            Reply::Absent => return self.send_not_found().await,
        };
        let mut fields = format!(
            "Content-Type: {HTML}\r\n{}{}",
            self.promise(),
            lines(&validators)
        );
        // Each request begins a session.
        let session = site
            .hostility
            .filter(|hostility| *hostility == Hostility::Sessions);
        let session = session.map(|_| self.recorder.host(self.host).contacts.len() as u32);
        let edition = Edition { session, ..edition };
        let Scratch { head, page: own } = self.scratch;
        own.clear();
        let filler = html::render(self.plan, self.host, page, edition, own);
        let mut parts = [
            own.as_bytes(),
            self.plan.filler.bytes(filler),
            html::TAIL.as_bytes(),
        ];
        let packed;
        if let Some(coding) = site
            .coding
            .filter(|coding| coding.is_among(&self.request.accept_encoding))
        {
            packed = coding.pack(&parts)?;
            parts = [&packed, &[], &[]];
            fields.push_str(&format!("Content-Encoding: {}\r\n", coding.name()));
        }
        let body = Body {
            parts,
            omitted: self.head_only,
        };
        let bytes =
            http::write_response(self.stream, head, "200 OK", &fields, self.close, body).await?;
        self.recorder.sent(self.host, bytes);
        Ok(())
    }

    async fn send_robots(self) -> io::Result<()> {
        let site = self.plan.site(self.host);
        let hostility = site
            .hostility
            .filter(|hostility| hostility.robots() != RobotsMeaning::AsOnAnyHost);
        match (hostility, site.robots.text()) {
            (Some(hostility), text) => {
                hostility
                    .answer_robots(self, &text.unwrap_or_default())
                    .await
            }
            (None, Some(text)) => {
                let text = text + &sitemap::line_of_host(self.plan, self.host);
                self.send("200 OK", PLAIN, "", text.as_bytes()).await
            }
            (None, None) => self.send("404 Not Found", PLAIN, "", b"no rules\n").await,
        }
    }

    async fn send_not_found(self) -> io::Result<()> {
        self.send("404 Not Found", HTML, "", b"<p>Not here.</p>")
            .await
    }

    /// Says that a page has not changed. Such an answer ends with its head.
    async fn send_not_modified(self, fields: &str) -> io::Result<()> {
        let head = &mut self.scratch.head;
        let bytes =
            http::write_head(self.stream, head, "304 Not Modified", fields, self.close).await?;
        self.recorder.sent(self.host, bytes);
        Ok(())
    }

    pub(crate) async fn send(
        self,
        status: &str,
        content_type: &str,
        fields: &str,
        body: &[u8],
    ) -> io::Result<()> {
        self.send_typed(status, Some(content_type), fields, body)
            .await
    }

    pub(crate) async fn send_typed(
        self,
        status: &str,
        content_type: Option<&str>,
        fields: &str,
        body: &[u8],
    ) -> io::Result<()> {
        let content_type = content_type
            .map(|value| format!("Content-Type: {value}\r\n"))
            .unwrap_or_default();
        let fields = format!("{content_type}{}{fields}", self.promise());
        let body = Body {
            parts: [body, &[], &[]],
            omitted: self.head_only,
        };
        let head = &mut self.scratch.head;
        let bytes =
            http::write_response(self.stream, head, status, &fields, self.close, body).await?;
        self.recorder.sent(self.host, bytes);
        Ok(())
    }

    /// The header field by which a host promises more requests than it serves.
    fn promise(&self) -> &'static str {
        let promises = self
            .plan
            .site(self.host)
            .hostility
            .is_some_and(Hostility::breaks_its_promise);
        if promises {
            "Keep-Alive: timeout=60, max=100\r\n"
        } else {
            ""
        }
    }
}
