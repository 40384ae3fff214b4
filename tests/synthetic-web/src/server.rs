//! Server: the hosts' listeners and connections.
//!
//! Per connection: read a request, record it, think for the latency of the URL, answer. The record
//! says a connection is closed as soon as either side has ended it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::behaviour::{Behaviour, Exchange, Scratch};
use super::hostility::{BUSY_EVERY, Hostility, UNREAD_BYTES};
use super::http::{self, Body, Method, Parsed, Request};
use super::http2;
use super::outage::Network;
use super::place::listens_at;
use super::plan::Plan;
use super::profile::Profile;
use super::record::{Contact, Open, Recorder};
use super::resource::Resource;
use super::site::Site;
use super::stream::Stream;
use super::tls::{Security, Tls};

/// A new connection may be seen before the end of the one that it follows. Older ones may take this
/// long to show their end.
const PARALLEL_GRACE: Duration = Duration::from_millis(5);
/// Ports tried until one is free on all addresses.
const PORT_TRIES: usize = 50;
const BACKLOG: u32 = 1024;
/// How often an answer that is held looks whether it may go.
const HELD_LOOK_EVERY: Duration = Duration::from_millis(10);

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Web {
    pub(crate) plan: Plan,
    pub(crate) recorder: Recorder,
    pub(crate) network: Network,
    pub(crate) tls: Tls,
}

/// Binds one listener per host, all on the same port, or on ports in a row of one address. With
/// `port` 0 a port is looked for that is free on all.
pub(crate) fn bind(profile: &Profile) -> io::Result<Vec<TcpListener>> {
    if profile.port != 0 {
        return bind_all(profile, profile.port);
    }
    for _ in 0..PORT_TRIES {
        match bind_all(profile, 0) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AddrInUse,
        "no port is free on the addresses of all hosts",
    ))
}

fn bind_all(profile: &Profile, mut port: u16) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::with_capacity(profile.hosts as usize);
    for host in 0..profile.hosts {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        if profile.hostility(host).is_some() {
            socket.set_send_buffer_size(UNREAD_BYTES)?;
        }
        socket.bind(if port == 0 {
            first_free(profile)
        } else {
            listens_at(profile.address, host, port)
        })?;
        let listener = socket.listen(BACKLOG)?;
        if host == 0 {
            port = listener.local_addr()?.port();
        }
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Any port of the first host.
fn first_free(profile: &Profile) -> SocketAddr {
    SocketAddr::new(listens_at(profile.address, 0, 0).ip(), 0)
}

/// Accepts a host's connections for ever.
pub(crate) async fn accept(web: Arc<Web>, host: u32, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(Arc::clone(&web), host, stream));
            }
            // Out of descriptors, or a connection that is gone already: neither is solved by trying
            // at once.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve(web: Arc<Web>, host: u32, mut stream: TcpStream) {
    if web.network.is_down()
        || converse_while_up(&web, host, &mut stream).await == Conversation::Broken
    {
        web.network.lets_go().await;
        // A connection that ended in order would pass what it brought for all there is.
        let _ = stream.set_zero_linger();
    }
}

/// How a connection ended.
#[derive(PartialEq, Eq)]
enum Conversation {
    Ended,
    /// The network went down.
    Broken,
}

/// Serves a connection to its end, or until the network goes down.
async fn converse_while_up(web: &Arc<Web>, host: u32, stream: &mut TcpStream) -> Conversation {
    let open = web.recorder.open(host);
    if !open.older.is_empty() {
        tokio::spawn(watch_parallel(Arc::clone(web), host, open.older.clone()));
    }
    tokio::select! {
        biased;
        () = web.network.goes_down() => Conversation::Broken,
        () = converse(web, host, open, stream) => Conversation::Ended,
    }
}

/// Serves a connection to its end.
async fn converse(web: &Web, host: u32, open: Open<'_>, stream: &mut TcpStream) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    match web.plan.site(host).security {
        None => converse_in_http1(web, host, open, stream).await,
        Some(security) => {
            // Whatever ends the connection has ended it for good.
            let _ = converse_in_secret(web, host, security, open, stream).await;
        }
    }
}

async fn converse_in_secret(
    web: &Web,
    host: u32,
    security: Security,
    open: Open<'_>,
    stream: &mut TcpStream,
) -> Result<()> {
    let mut stream = web.tls.acceptor(security)?.accept(stream).await?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        http2::serve(web, host, &open, &mut stream).await?;
        drop(open);
        http::close(&mut stream).await;
        return Ok(());
    }
    converse_in_http1(web, host, open, &mut stream).await;
    Ok(())
}

async fn converse_in_http1(web: &Web, host: u32, open: Open<'_>, stream: &mut dyn Stream) {
    let ended = exchange_all(web, host, &open, stream).await.is_err();
    drop(open);
    if !ended {
        http::close(stream).await;
    }
}

async fn watch_parallel(web: Arc<Web>, host: u32, older: Vec<u32>) {
    tokio::time::sleep(PARALLEL_GRACE).await;
    // The end of an older connection may be waiting in the same turn of the loop as this timer.
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    web.recorder.judge_parallel(host, &older);
}

/// Serves requests until one side wants no more. An error means that the stream is of no further
/// use.
async fn exchange_all(
    web: &Web,
    host: u32,
    open: &Open<'_>,
    stream: &mut dyn Stream,
) -> io::Result<()> {
    let authority = web.plan.authority(host);
    let Site {
        request_cap,
        hostility,
        ..
    } = web.plan.site(host);
    let request_cap = request_cap.unwrap_or(u32::MAX);
    let mut buffer = Vec::with_capacity(1024);
    let mut scratch = Scratch::default();
    let mut served = 0;
    while let Some(parsed) = http::read_request(stream, &mut buffer).await? {
        let (request, length) = match parsed {
            Parsed::Request(request, length) => (request, length),
            Parsed::Refused(status) => return refuse(web, host, stream, status).await,
            Parsed::Incomplete => continue,
        };
        buffer.drain(..length);
        if !matches!(request.method, Method::Get | Method::Head) {
            return refuse(web, host, stream, "405 Method Not Allowed").await;
        }
        if !request.host.eq_ignore_ascii_case(&authority) {
            web.recorder.host(host).misdirected += 1;
            return answer_plainly(stream, "421 Misdirected Request").await;
        }
        served += 1;
        if served > 1 && *hostility == Some(Hostility::Resets) {
            note(web, host, open, &request);
            stream.end_with_reset()?;
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let close = request.close || served >= request_cap;
        answer(
            web,
            host,
            open,
            stream,
            &mut buffer,
            &mut scratch,
            &request,
            close,
        )
        .await?;
        if close || *hostility == Some(Hostility::Closes) {
            break;
        }
    }
    Ok(())
}

#[expect(
    clippy::too_many_arguments,
    reason = "the state of a connection, used by this one caller"
)]
async fn answer(
    web: &Web,
    host: u32,
    open: &Open<'_>,
    stream: &mut dyn Stream,
    buffer: &mut Vec<u8>,
    scratch: &mut Scratch,
    request: &Request,
    close: bool,
) -> io::Result<()> {
    let mut resource = note(web, host, open, request);
    if resource == Resource::Unknown && web.plan.site(host).hostility == Some(Hostility::Sessions) {
        // This URL is not among what is linked, but is there for a crawler that keeps session ids.
        resource = Resource::of_path(&web.plan, host, without_session(&request.target));
    }
    http::wait(stream, buffer, web.plan.latency(host, resource)).await?;
    while web.network.answers_wait() {
        http::wait(stream, buffer, HELD_LOOK_EVERY).await?;
    }
    let head_only = request.method == Method::Head;
    let exchange = Exchange {
        plan: &web.plan,
        recorder: &web.recorder,
        host,
        stream,
        request,
        head_only,
        close,
        scratch,
    };
    if is_busy(web, host, resource) {
        web.recorder
            .busy(host, Duration::from_secs(web.plan.profile.retry_after_s));
        return exchange.send_busy().await;
    }
    Behaviour::of(&web.plan, host, resource)
        .perform(exchange)
        .await
}

/// A path without the session id behind it.
fn without_session(path: &str) -> &str {
    let cut = [";jsessionid=", "?PHPSESSID=", "&PHPSESSID="]
        .iter()
        .filter_map(|name| path.find(name))
        .min();
    &path[..cut.unwrap_or(path.len())]
}

/// Returns whether the host is too busy for the last request.
fn is_busy(web: &Web, host: u32, resource: Resource) -> bool {
    if web.plan.site(host).hostility != Some(Hostility::Busy) {
        return false;
    }
    let record = web.recorder.host(host);
    record.requests() % BUSY_EVERY == 1 && record.may_fail(resource)
}

/// Records a request.
fn note(web: &Web, host: u32, open: &Open<'_>, request: &Request) -> Resource {
    note_path(web, host, open, &request.target)
}

/// Records a request for a path.
pub(crate) fn note_path(web: &Web, host: u32, open: &Open<'_>, path: &str) -> Resource {
    let resource = Resource::of_path(&web.plan, host, path);
    let contact = Contact {
        at: web.recorder.now(),
        connection: open.connection,
        resource,
    };
    web.recorder.contact(host, contact, path);
    resource
}

async fn refuse(web: &Web, host: u32, stream: &mut dyn Stream, status: &str) -> io::Result<()> {
    web.recorder.host(host).malformed += 1;
    answer_plainly(stream, status).await
}

async fn answer_plainly(stream: &mut dyn Stream, status: &str) -> io::Result<()> {
    http::write_response(
        stream,
        &mut String::new(),
        status,
        "",
        true,
        Body::default(),
    )
    .await?;
    Ok(())
}
