//! Control: how other processes read truth and report, and start afresh, over HTTP on loopback.
//!
//! `GET /truth`, `GET /report`, `GET /freshness?from=SECONDS&to=SECONDS`, `POST /reset`, `GET
//! /healthz`. One request per connection. Truth, report and freshness of a large web take a while:
//! they are made on a thread of their own, so that the hosts go on serving.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream as BlockingStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::net::{TcpListener, TcpStream};

use super::freshness::Freshness;
use super::http::{self, Body, Method, Parsed, Request};
use super::report::Report;
use super::server::Web;
use super::truth::Truth;

const READ_TIMEOUT: Duration = Duration::from_secs(10);
const FETCH_TIMEOUT: Duration = Duration::from_secs(300);

/// Serves for ever.
pub(crate) async fn accept(web: Arc<Web>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(Arc::clone(&web), stream));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve(web: Arc<Web>, mut stream: TcpStream) {
    let mut buffer = Vec::new();
    let read = http::read_request(&mut stream, &mut buffer);
    let Ok(Ok(Some(parsed))) = tokio::time::timeout(READ_TIMEOUT, read).await else {
        return;
    };
    let (status, json) = match parsed {
        Parsed::Request(request, _) => {
            let made = tokio::task::spawn_blocking(move || answer(&web, &request)).await;
            made.unwrap_or_else(|error| ("500 Internal Server Error", error.to_string()))
        }
        Parsed::Refused(status) => (status, String::new()),
        Parsed::Incomplete => return,
    };
    let body = Body {
        parts: [json.as_bytes(), b"\n", b""],
        omitted: false,
    };
    let fields = "Content-Type: application/json\r\n";
    if http::write_response(&mut stream, &mut String::new(), status, fields, true, body)
        .await
        .is_ok()
    {
        http::close(&mut stream).await;
    }
}

fn answer(web: &Web, request: &Request) -> (&'static str, String) {
    let made = match (request.method, request.target.as_str()) {
        (Method::Get, "/truth") => serde_json::to_string(&Truth::new(&web.plan)),
        (Method::Get, "/report") => serde_json::to_string(&Report::new(&web.plan, &web.recorder)),
        (Method::Get, path) if path.starts_with("/freshness?") => {
            let Some((from, to)) = window(path) else {
                return ("400 Bad Request", "{}".to_owned());
            };
            let to = to.min(web.recorder.now());
            serde_json::to_string(&Freshness::new(&web.plan, &web.recorder, from, to))
        }
        (Method::Post, "/reset") => {
            web.recorder.reset();
            Ok("{}".to_owned())
        }
        (Method::Get, "/healthz") => Ok("{\"ok\":true}".to_owned()),
        _ => return ("404 Not Found", "{}".to_owned()),
    };
    match made {
        Ok(json) => ("200 OK", json),
        Err(error) => ("500 Internal Server Error", error.to_string()),
    }
}

/// From when to when, in `/freshness?from=SECONDS&to=SECONDS`.
fn window(path: &str) -> Option<(Duration, Duration)> {
    let (from, to) = path.strip_prefix("/freshness?from=")?.split_once("&to=")?;
    let seconds = |text: &str| Duration::try_from_secs_f64(text.parse().ok()?).ok();
    Some((seconds(from)?, seconds(to)?))
}

/// Asks a control server and waits for the answer. `method` is GET or POST.
///
/// # Errors
/// If there is no answer within five minutes, or one other than 200.
pub fn ask(control: SocketAddr, method: &str, path: &str) -> Result<String> {
    let mut stream = BlockingStream::connect(control)
        .with_context(|| format!("no control server at {control}"))?;
    stream.set_read_timeout(Some(FETCH_TIMEOUT))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {control}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("the control server sent no whole answer")?;
    ensure!(
        head.starts_with("HTTP/1.1 200 "),
        "the control server answered {}",
        head.lines().next().unwrap_or(head)
    );
    Ok(body.trim_end().to_owned())
}
