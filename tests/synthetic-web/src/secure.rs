//! Secure: hosts that speak HTTP/2 over TLS (RFC 9113), and nothing else.
//!
//! Their certificate is for another name and signed by itself, so a crawler has to take their identity on trust. They
//! have pages, redirects and robots.txt like any host.

use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{Response, StatusCode};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::behaviour::{Behaviour, HTML};
use super::hostility::Hostility;
use super::html;
use super::plan::Plan;
use super::record::Open;
use super::resource::Resource;
use super::server::{Web, note_path};

const CERTIFICATE: &[u8] = include_bytes!("../../../shared/tests/certificate/certificate.der");
const KEY: &[u8] = include_bytes!("../../../shared/tests/certificate/key.der");
/// Answers after which a host takes leave of a connection.
const ANSWERS: u32 = 5;
/// A host that breaks off breaks off one request in this many, robots.txt apart.
const RESET_EVERY: usize = 3;

/// An answer.
struct Content {
    status: StatusCode,
    content_type: &'static str,
    location: Option<String>,
    body: Vec<u8>,
}

/// Serves a connection until one side wants no more.
pub(crate) async fn serve(web: &Web, host: u32, open: &Open<'_>, stream: &mut TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let stream = acceptor()?.accept(stream).await?;
    let mut connection = h2::server::handshake(stream).await?;
    let hostility = web.plan.site(host).hostility;
    let mut answers = 0;
    while let Some(accepted) = connection.accept().await {
        let (request, mut respond) = accepted?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let resource = note_path(web, host, open, path);
        tokio::time::sleep(web.plan.latency(host, resource)).await;
        if hostility == Some(Hostility::Http2Resets) && is_reset(web, host, resource) {
            respond.send_reset(Reason::INTERNAL_ERROR);
            continue;
        }
        answer(web, host, resource, respond)?;
        answers += 1;
        if hostility == Some(Hostility::Http2GoAway) && answers == ANSWERS {
            connection.graceful_shutdown();
        }
    }
    Ok(())
}

fn acceptor() -> Result<TlsAcceptor> {
    static CONFIG: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    let config = match CONFIG.get() {
        Some(config) => config,
        None => {
            let made = Arc::new(config()?);
            CONFIG.get_or_init(|| made)
        }
    };
    Ok(TlsAcceptor::from(Arc::clone(config)))
}

fn config() -> Result<ServerConfig> {
    let key = PrivateKeyDer::try_from(KEY).map_err(anyhow::Error::msg).context("the key is none")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

/// Says whether the last request is broken off.
fn is_reset(web: &Web, host: u32, resource: Resource) -> bool {
    let record = web.recorder.host(host);
    record.requests().is_multiple_of(RESET_EVERY) && record.may_fail(resource)
}

/// Puts an answer into the connection, which sends it when the next request is asked for.
fn answer(web: &Web, host: u32, resource: Resource, mut respond: SendResponse<Bytes>) -> Result<()> {
    let Content { status, content_type, location, body } = content(&web.plan, host, resource);
    let mut head = Response::builder().status(status).header("content-type", content_type);
    if let Some(location) = location {
        head = head.header("location", location);
    }
    web.recorder.sent(host, body.len());
    let mut stream = respond.send_response(head.body(())?, false)?;
    stream.send_data(body.into(), true)?;
    Ok(())
}

fn content(plan: &Plan, host: u32, resource: Resource) -> Content {
    let html = |status, body: &[u8]| Content { status, content_type: HTML, location: None, body: body.to_vec() };
    match Behaviour::of(plan, host, resource) {
        Behaviour::Page(page) => html(StatusCode::OK, html::whole(plan, host, page).as_bytes()),
        Behaviour::Redirect(to) => {
            let location = Some(plan.url(to.host, to.resource));
            Content { location, ..html(StatusCode::MOVED_PERMANENTLY, b"<p>Moved.</p>") }
        }
        Behaviour::Robots => match plan.site(host).robots.text() {
            Some(text) => Content { content_type: "text/plain", ..html(StatusCode::OK, text.as_bytes()) },
            None => html(StatusCode::NOT_FOUND, b"no rules"),
        },
        Behaviour::Byway(..) | Behaviour::Image | Behaviour::Map(..) | Behaviour::NotFound | Behaviour::Hostile(..) => {
            html(StatusCode::NOT_FOUND, b"<p>Not here.</p>")
        }
    }
}
