//! The simulated web: servers that answer at simulated times, connections that open, close and
//! break.
//!
//! A request is a contact from the moment it is sent: for the first of a job when its connection is
//! there.

use super::agenda::{Answer, EffectId, Happening, Input, Process};
use super::around::Around;
use super::checks::Answered;
use super::graph::{Graph, Page, Robots};
use super::plan::{MILLISECOND, Micros, Plan};
use fetcher::effect::{Answer as Fetched, End, Request, Response};
use rhumb_url::{path_of, server_of};
use rhumb_wire::message::{FailureKind, HttpVersion, JobId, Truncation, Validators};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub(crate) type ConnectionId = u64;

struct Connection {
    process: Process,
    job: JobId,
    server: usize,
    is_open: bool,
    /// The server has closed it.
    is_gone: bool,
    served: u32,
    /// When its last answer ended.
    idle_since: Micros,
    /// The request that waits for the connection, and when the job's lease ends.
    waits: Option<(EffectId, Request, Micros)>,
    begun: Micros,
}

#[derive(Clone, Default)]
struct ServerState {
    refused: u32,
    /// Answers so far by path.
    answers: HashMap<String, u32>,
}

/// All servers and connections.
pub(crate) struct Web {
    pub(crate) graph: Graph,
    state: Vec<ServerState>,
    connections: BTreeMap<ConnectionId, Connection>,
    by_job: HashMap<(Process, JobId), ConnectionId>,
    next: ConnectionId,
    request_timeout: Micros,
    connect_timeout: Micros,
    /// Whole pages served, by URL.
    pub(crate) served: BTreeMap<String, u32>,
    pub(crate) contacts: u64,
    /// A third of the pages change with each look.
    changes: bool,
}

impl Web {
    pub(crate) fn new(graph: Graph, plan: &Plan) -> Web {
        Web {
            state: vec![ServerState::default(); graph.servers.len()],
            graph,
            connections: BTreeMap::new(),
            by_job: HashMap::new(),
            next: 0,
            request_timeout: plan.pipeline.limits.request_timeout.as_micros() as Micros,
            connect_timeout: plan.pipeline.limits.connect_timeout.as_micros() as Micros,
            served: BTreeMap::new(),
            contacts: 0,
            changes: plan.pipeline.recrawl.visits_max > 0,
        }
    }
}

fn respond(
    id: EffectId,
    after: Micros,
    request: &Request,
    connect_us: Option<u32>,
    end: End,
    around: &mut Around,
) {
    let answer = Fetched::Response {
        job: request.job,
        index: request.index,
        connect_us,
        damaged: 0,
        end,
    };
    around.answer(id, after, Answer::Fetcher(answer));
}

/// A fetcher makes a request: over its job's connection, which the first one opens.
pub(crate) fn request(id: EffectId, request: Request, around: &mut Around) {
    let key = (id.process, request.job);
    if let Some(&connection) = around.web.by_job.get(&key) {
        send(connection, id, request, None, around);
        return;
    }
    let Some(server) = around.web.graph.server(&request.target.server) else {
        panic!("a job for {}, which is no server", request.target.server);
    };
    around.web.next += 1;
    let number = around.web.next;
    let lease_ends = around.now + request.lease_left.as_micros() as Micros;
    let connection = Connection {
        process: id.process,
        job: request.job,
        server,
        is_open: false,
        is_gone: false,
        served: 0,
        idle_since: around.now,
        waits: Some((id, request, lease_ends)),
        begun: around.now,
    };
    around.web.connections.insert(number, connection);
    around.web.by_job.insert(key, number);
    let takes = around.dice.within(5 * MILLISECOND..300 * MILLISECOND);
    around.agenda.at(
        around.now + takes,
        Happening::To(id.process, Input::Connected(number)),
    );
}

/// A connect has ended: refused, too late, or with a connection over which the request goes at
/// once.
pub(crate) fn connected(number: ConnectionId, around: &mut Around) {
    let now = around.now;
    let Some(connection) = around.web.connections.get_mut(&number) else {
        return;
    };
    let Some((id, request, lease_ends)) = connection.waits.take() else {
        return;
    };
    let server = connection.server;
    let process = connection.process;
    let job = connection.job;
    let took = now - connection.begun;
    let accepts = match around.web.graph.servers[server].refuses {
        None => false,
        Some(times) => {
            around.web.state[server].refused += 1;
            around.web.state[server].refused > times
        }
    };
    let is_late = took > around.web.connect_timeout || now >= lease_ends;
    if !accepts || around.is_web_cut() || is_late {
        let is_refused = !accepts && !around.is_web_cut() && !is_late;
        let end = if is_refused {
            End::Refused
        } else {
            End::Failure(FailureKind::Connect)
        };
        respond(id, 0, &request, None, end, around);
        return;
    }
    connection_mut(number, around).is_open = true;
    let server = around.web.graph.servers[server].url.clone();
    around.checks.opens(now, &server, process, job);
    send(number, id, request, Some(took as u32), around);
}

fn connection_mut(number: ConnectionId, around: &mut Around) -> &mut Connection {
    around
        .web
        .connections
        .get_mut(&number)
        .unwrap_or_else(|| panic!("connection {number} is not there"))
}

/// Sends a request over an open connection.
fn send(
    number: ConnectionId,
    id: EffectId,
    request: Request,
    connect_us: Option<u32>,
    around: &mut Around,
) {
    let now = around.now;
    let connection = connection_mut(number, around);
    let server = connection.server;
    let idle_since = connection.idle_since;
    if !connection.is_open {
        // The connect failed and nothing may open a second one.
        respond(id, 0, &request, connect_us, End::Gone, around);
        return;
    }
    let closes_idle = around.web.graph.servers[server].closes_idle;
    let is_idle_too_long =
        closes_idle > 0 && connect_us.is_none() && now > idle_since + closes_idle;
    let connection = connection_mut(number, around);
    connection.is_gone |= is_idle_too_long;
    if connection.is_gone {
        respond(id, 0, &request, connect_us, End::Gone, around);
        return;
    }
    assert_eq!(
        server_of(&request.url),
        request.target.server,
        "P7: a request to another server"
    );
    connection.served += 1;
    let process = connection.process;
    let job = connection.job;
    let served = connection.served;
    around.web.contacts += 1;
    let path = path_of(&request.url).to_owned();
    let server_url = around.web.graph.servers[server].url.clone();
    around
        .checks
        .contacts(now, &server_url, process, job, &request.url);
    around.tell(|| format!("{process:?} requests {}", request.url));

    let nth = around.web.state[server]
        .answers
        .entry(path.clone())
        .or_insert(0);
    *nth += 1;
    let nth = *nth;
    let latency = around
        .dice
        .within(MILLISECOND..2 * around.web.graph.servers[server].latency);
    let breaks = !around.faults.is_none() && around.dice.chance(100);
    let end = around
        .web
        .answer(server, &path, nth)
        .map(|response| conditional(response, &request.validators));
    let longest = around.web.request_timeout;
    let timeout = request.head_timeout.map_or(longest, |timeout| {
        longest.min(timeout.as_micros() as Micros)
    });
    let (after, end) = match end {
        // No answer at all.
        None => (timeout, End::Failure(FailureKind::Timeout)),
        Some(_) if breaks => (latency / 2, End::Failure(FailureKind::Reset)),
        Some(_) if latency >= timeout || around.is_web_cut() => {
            (timeout, End::Failure(FailureKind::Timeout))
        }
        Some(response) => {
            if response.status == 200 {
                *around.web.served.entry(request.url.clone()).or_insert(0) += 1;
            }
            let config = &around.web.graph.servers[server];
            let closes = config.closes_after > 0 && served >= config.closes_after;
            let keeps_open = !(closes && config.announces_close);
            let crawl_delay_s = around
                .web
                .crawl_delay(server)
                .filter(|_| path == "/robots.txt");
            let retry_after_s = response
                .header("retry-after")
                .and_then(|seconds| seconds.parse().ok());
            let robots_of = around.web.robots_of(server, &path, response.status);
            let answered = Answered {
                status: response.status,
                took: latency,
                retry_after_s,
                crawl_delay_s,
                robots_of,
            };
            around
                .checks
                .answers(now + latency, &server_url, job, &answered);
            let connection = connection_mut(number, around);
            connection.is_gone |= closes;
            connection.idle_since = now + latency;
            let response = Response {
                keeps_open,
                elapsed_us: latency as u32,
                fetched_at_ms: now / 1000,
                ..response
            };
            (latency, End::Response(Box::new(response)))
        }
    };
    respond(id, after, &request, connect_us, end, around);
}

/// A fetcher closes its job's connection.
pub(crate) fn close(id: EffectId, job: JobId, around: &mut Around) {
    if let Some(number) = around.web.by_job.remove(&(id.process, job)) {
        drop_connection(number, around);
    }
    around.answer(id, 1, Answer::Fetcher(Fetched::Closed { job }));
}

/// The process of some connections is dead.
pub(crate) fn abandon(process: Process, around: &mut Around) {
    let numbers: Vec<ConnectionId> = around
        .web
        .connections
        .iter()
        .filter(|(_, c)| c.process == process)
        .map(|(&number, _)| number)
        .collect();
    for number in numbers {
        drop_connection(number, around);
    }
    around.web.by_job.retain(|(owner, _), _| *owner != process);
}

fn drop_connection(number: ConnectionId, around: &mut Around) {
    if let Some(connection) = around.web.connections.remove(&number)
        && connection.is_open
    {
        let server = around.web.graph.servers[connection.server].url.clone();
        around
            .checks
            .closes(&server, connection.process, connection.job);
    }
}

impl Graph {
    /// What a server's robots.txt says.
    fn robots_text(&self, server: usize) -> String {
        let crawl_delay = match self.servers[server].robots {
            Robots::Rules(Some(seconds)) => format!("Crawl-delay: {seconds}\n"),
            _ => String::new(),
        };
        let sitemaps: String = self.servers[server]
            .sitemaps
            .iter()
            .map(|url| format!("Sitemap: {url}\n"))
            .collect();
        format!("User-agent: *\n{crawl_delay}Disallow: /private/\n{sitemaps}")
    }
}

impl Web {
    /// The `nth` answer of a server for a path; none when it gives none.
    fn answer(&self, server: usize, path: &str, nth: u32) -> Option<Response> {
        if path == "/robots.txt" {
            return Some(match &self.graph.servers[server].robots {
                Robots::None => status(404),
                Robots::Rules(_) => text(self.graph.robots_text(server)),
                Robots::Recovering(times) if nth > *times => text(self.graph.robots_text(server)),
                Robots::Recovering(_) | Robots::Unreachable => status(503),
                Robots::Moved(target) => redirect(301, target),
            });
        }
        if let Some(of) = path
            .strip_prefix("/robots-of-")
            .and_then(|rest| rest.strip_suffix(".txt"))
        {
            let of = of.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
            return Some(text(self.graph.robots_text(of)));
        }
        match self.graph.servers[server].pages.get(path) {
            None => Some(status(404)),
            Some(Page::Html(links)) if self.changes && path.len().is_multiple_of(3) => {
                Some(version(nth, links))
            }
            Some(Page::Html(links)) => Some(html(links)),
            Some(Page::Cut(links)) => Some(Response {
                truncated: Some(Truncation::Time),
                ..html(links)
            }),
            Some(Page::Redirect(code, target)) => Some(redirect(*code, target)),
            Some(Page::Recovering(times, code, retry_after, _)) if nth <= *times => {
                let headers = retry_after
                    .map(|seconds| ("retry-after".to_owned(), seconds.to_string().into_bytes()));
                Some(Response {
                    headers: headers.into_iter().collect(),
                    ..status(*code)
                })
            }
            Some(Page::Recovering(_, _, _, links)) => Some(html(links)),
            Some(Page::Hanging(times, _)) if nth <= *times => None,
            Some(Page::Hanging(_, links)) => Some(html(links)),
            Some(Page::Status(code)) => Some(status(*code)),
        }
    }
}

fn status(status: u16) -> Response {
    Response {
        room: Arc::default(),
        status,
        http_version: HttpVersion::Http11,
        request_headers: Vec::new(),
        headers: Vec::new(),
        body: b"no".to_vec(),
        truncated: None,
        keeps_open: true,
        fetched_at_ms: 0,
        elapsed_us: 0,
        address: None,
        lacks_length: false,
        leads_back: false,
    }
}

/// The version of every page that does not change.
const ETAG: &str = "\"1\"";

/// A page that has not changed is not sent to whoever has it.
fn conditional(response: Response, known: &Validators) -> Response {
    let has_it = response
        .header("etag")
        .is_some_and(|etag| etag == known.etag);
    if has_it {
        Response {
            body: Vec::new(),
            headers: response.headers,
            ..status(304)
        }
    } else {
        response
    }
}

fn text(body: String) -> Response {
    let headers = vec![("content-type".to_owned(), b"text/plain".to_vec())];
    Response {
        headers,
        body: body.into_bytes(),
        ..status(200)
    }
}

fn redirect(code: u16, target: &str) -> Response {
    Response {
        headers: vec![("location".to_owned(), target.as_bytes().to_vec())],
        ..status(code)
    }
}

/// A page that changes.
fn version(number: u32, links: &[String]) -> Response {
    let mut response = html(links);
    response
        .body
        .extend(format!("<p>version {number}</p>\n").bytes());
    for (name, value) in &mut response.headers {
        if name == "etag" {
            *value = format!("\"{number}\"").into_bytes();
        }
    }
    response
}

fn html(links: &[String]) -> Response {
    let mut body = String::from("<!doctype html><html><head><title>a page</title></head><body>\n");
    for link in links {
        body.push_str(&format!("<p><a href=\"{link}\">a link</a></p>\n"));
    }
    let headers = vec![
        (
            "content-type".to_owned(),
            b"text/html; charset=utf-8".to_vec(),
        ),
        ("etag".to_owned(), ETAG.as_bytes().to_vec()),
    ];
    Response {
        headers,
        body: body.into_bytes(),
        ..status(200)
    }
}
