//! HTTP/2 (RFC 9113): hosts that speak it have pages, redirects and robots.txt like any host.

use anyhow::Result;
use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::{HeaderMap, Response, StatusCode};

use super::behaviour::{Behaviour, HTML};
use super::coding::Coding;
use super::edition::{self, Reply};
use super::hostility::Hostility;
use super::html;
use super::record::Open;
use super::resource::Resource;
use super::server::{Web, note_path};
use super::site::Site;
use super::sitemap;
use super::stream::Stream;
use super::validators::{Conditions, Validators};

/// Answers after which a host that goes away takes leave of a connection.
const ANSWERS: u32 = 5;
/// A host that breaks off breaks off one request in this many, robots.txt apart.
const RESET_EVERY: usize = 3;

/// An answer.
struct Content {
    status: StatusCode,
    content_type: &'static str,
    fields: Vec<(&'static str, String)>,
    coding: Option<Coding>,
    body: Vec<u8>,
}

/// Serves a connection until one side wants no more.
pub(crate) async fn serve(
    web: &Web,
    host: u32,
    open: &Open<'_>,
    stream: &mut impl Stream,
) -> Result<()> {
    let mut connection = h2::server::handshake(stream).await?;
    let Site {
        hostility,
        request_cap,
        ..
    } = web.plan.site(host);
    let cap = if *hostility == Some(Hostility::Http2GoAway) {
        Some(ANSWERS)
    } else {
        *request_cap
    };
    let mut answers = 0;
    while let Some(accepted) = connection.accept().await {
        let (request, mut respond) = accepted?;
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let resource = note_path(web, host, open, path);
        tokio::time::sleep(web.plan.latency(host, resource)).await;
        if *hostility == Some(Hostility::Http2Resets) && is_reset(web, host, resource) {
            respond.send_reset(Reason::INTERNAL_ERROR);
            continue;
        }
        answer(web, host, resource, request.headers(), respond)?;
        answers += 1;
        if Some(answers) == cap {
            connection.graceful_shutdown();
        }
    }
    Ok(())
}

/// Returns whether the last request is broken off.
fn is_reset(web: &Web, host: u32, resource: Resource) -> bool {
    let record = web.recorder.host(host);
    record.requests().is_multiple_of(RESET_EVERY) && record.may_fail(resource)
}

/// Puts an answer into the connection, which sends it when the next request is asked for.
fn answer(
    web: &Web,
    host: u32,
    resource: Resource,
    request: &HeaderMap,
    mut respond: SendResponse<Bytes>,
) -> Result<()> {
    let field = |name| {
        let value = request.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default()
    };
    let accepted = field("accept-encoding");
    let asked = Conditions {
        if_none_match: field("if-none-match"),
        if_modified_since: field("if-modified-since"),
    };
    let Content {
        status,
        content_type,
        fields,
        coding,
        body,
    } = content(web, host, resource, asked);
    let mut head = Response::builder().status(status);
    if status != StatusCode::NOT_MODIFIED {
        head = head.header("content-type", content_type);
    }
    for (name, value) in fields {
        head = head.header(name, value);
    }
    let body = match coding.filter(|coding| coding.is_among(accepted)) {
        Some(coding) => {
            head = head.header("content-encoding", coding.name());
            coding.pack(&[&body])?
        }
        None => body,
    };
    web.recorder.sent(host, body.len());
    let is_over = status == StatusCode::NOT_MODIFIED;
    let mut stream = respond.send_response(head.body(())?, is_over)?;
    if !is_over {
        stream.send_data(body.into(), true)?;
    }
    Ok(())
}

fn content(web: &Web, host: u32, resource: Resource, asked: Conditions<'_>) -> Content {
    let plan = &web.plan;
    let html = |status, body: &[u8]| Content {
        status,
        content_type: HTML,
        fields: Vec::new(),
        coding: None,
        body: body.to_vec(),
    };
    let not_found = || html(StatusCode::NOT_FOUND, b"<p>Not here.</p>");
    match Behaviour::of(plan, host, resource) {
        Behaviour::Page(page) => {
            match edition::reply(plan, &web.recorder, host, page, asked, true) {
                Reply::Page(edition, validators) => Content {
                    fields: owned(&validators),
                    coding: plan.site(host).coding,
                    ..html(
                        StatusCode::OK,
                        html::whole(plan, host, page, edition).as_bytes(),
                    )
                },
                Reply::NotModified(validators) => Content {
                    fields: owned(&validators),
                    ..html(StatusCode::NOT_MODIFIED, b"")
                },
                Reply::Absent => not_found(),
            }
        }
        Behaviour::Redirect(to) => Content {
            fields: vec![("location", plan.url(to.host, to.resource))],
            ..html(StatusCode::MOVED_PERMANENTLY, b"<p>Moved.</p>")
        },
        Behaviour::Robots => match plan.site(host).robots.text() {
            Some(text) => Content {
                content_type: "text/plain",
                ..html(
                    StatusCode::OK,
                    (text + &sitemap::line_of_host(plan, host)).as_bytes(),
                )
            },
            None => html(StatusCode::NOT_FOUND, b"no rules"),
        },
        Behaviour::Sitemap => Content {
            content_type: sitemap::XML,
            ..html(
                StatusCode::OK,
                sitemap::of_host(plan, &web.recorder, host).as_bytes(),
            )
        },
        Behaviour::Byway(..)
        | Behaviour::Image
        | Behaviour::Map(..)
        | Behaviour::NotFound
        | Behaviour::Hostile(..) => not_found(),
    }
}

fn owned(validators: &Validators) -> Vec<(&'static str, String)> {
    let fields = validators.fields();
    fields
        .map(|(name, value)| (name, value.to_owned()))
        .collect()
}
