//! Who may come in: on loopback whoever is on this machine, elsewhere who has the token; and only
//! who has it may act.
//!
//! A page of another site cannot use the console through a browser: its requests name another host,
//! say that they come from elsewhere, or lack the token. What an answer may do in a browser is
//! limited by its headers.

use super::Shared;
use super::refusal::Refusal;
use crate::secret;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Random bytes in a token, written as two digits each.
const TOKEN_BYTES: usize = 16;
/// What a browser may do with an answer: show it with the scripts and styles of the console alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Who may come in, and who may act.
pub(crate) struct Door {
    /// Needed to act, and to look where not only this machine can come in.
    token: String,
    /// The operator knows it.
    is_given: bool,
    /// Looking needs the token, too.
    is_closed: bool,
    /// Acts are served.
    pub(crate) may_act: bool,
}

impl Door {
    /// The door of a console that listens there. Without `token` it makes one; with one, every look
    /// needs it.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(crate) fn new(
        listen: SocketAddr,
        may_act: bool,
        token: Option<String>,
    ) -> anyhow::Result<Self> {
        let is_given = token.is_some();
        let token = token.map_or_else(secret::random::<TOKEN_BYTES>, Ok)?;
        Ok(Door {
            token,
            is_given,
            is_closed: is_given || !listen.ip().is_loopback(),
            may_act,
        })
    }

    /// The address to open, with the token where one is needed.
    pub(crate) fn address(&self, at: SocketAddr) -> String {
        let at = if at.ip().is_unspecified() {
            format!("localhost:{}", at.port())
        } else {
            at.to_string()
        };
        match self {
            Door { is_given: true, .. } => format!("http://{at}/#token=… (of --token-file)"),
            Door {
                is_closed: true, ..
            }
            | Door { may_act: true, .. } => format!("http://{at}/#token={}", self.token),
            _ => format!("http://{at}/"),
        }
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        given.is_some_and(|given| is_equal(given.as_bytes(), self.token.as_bytes()))
    }

    /// Returns whether an act may be done.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn may_act(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match (self.may_act, self.has_token(headers)) {
            (false, _) => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "this console only looks: start one with --allow-actions",
            )),
            (true, false) => Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "this needs the token of the console",
            )),
            (true, true) => Ok(()),
        }
    }
}

/// In the same time wherever the first difference is.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .fold(0, |all, (one, other)| all | (one ^ other))
            == 0
}

/// Lets no request of another site in, and says what may be done with the answer.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    let mut answer = match strange(request.headers(), shared.door.is_closed) {
        Some(why) => Refusal::new(StatusCode::FORBIDDEN, why).into(),
        None => next.run(request).await,
    };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Lets in who may look.
pub(super) async fn check(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response {
    if shared.door.is_closed && !shared.door.has_token(request.headers()) {
        return Refusal::new(StatusCode::UNAUTHORIZED, "this console needs a token").into();
    }
    next.run(request).await
}

/// Why a request is not of a page of this console; nothing when it may be. One that is `closed` may
/// have any name.
fn strange(headers: &HeaderMap, is_closed: bool) -> Option<&'static str> {
    let text =
        |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).unwrap_or_default();
    // A name that somebody else has pointed at this machine would make their page one of this
    // console.
    if !is_closed && !is_own(host) {
        return Some("the console is reached by an address or as localhost, not by another name");
    }
    let origin = text(header::ORIGIN)
        .map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    let from = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    // Who follows a link to the page opens a page of this console.
    let is_link = headers
        .get("sec-fetch-mode")
        .is_some_and(|mode| mode.as_bytes() == b"navigate");
    let is_elsewhere = origin.is_some_and(|origin| origin != host)
        || from.is_some_and(|from| from != b"same-origin" && from != b"none" && !is_link);
    is_elsewhere.then_some("the console answers to its own pages alone")
}

/// Returns whether a Host header names this machine as no page of another site could.
fn is_own(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| !address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&'static str, &str)]) -> HeaderMap {
        of.iter()
            .map(|(name, value)| {
                (
                    header::HeaderName::from_static(name),
                    value.parse().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn what_comes_from_another_site_stays_outside() {
        for (given, is_let_in) in [
            (&[("host", "127.0.0.1:7070")][..], true),
            (
                &[
                    ("host", "localhost:7070"),
                    ("origin", "http://localhost:7070"),
                    ("sec-fetch-site", "same-origin"),
                ],
                true,
            ),
            (&[("host", "[::1]:7070"), ("sec-fetch-site", "none")], true),
            (
                &[
                    ("host", "127.0.0.1:7070"),
                    ("sec-fetch-site", "cross-site"),
                    ("sec-fetch-mode", "navigate"),
                ],
                true,
            ),
            (&[("host", "0.0.0.0:7070")], false),
            (&[("host", "console.evil.example:7070")], false),
            (&[("host", "127.0.0.1.evil.example")], false),
            (&[], false),
            (
                &[
                    ("host", "127.0.0.1:7070"),
                    ("origin", "http://evil.example"),
                ],
                false,
            ),
            (&[("host", "127.0.0.1:7070"), ("origin", "null")], false),
            (
                &[("host", "127.0.0.1:7070"), ("sec-fetch-site", "cross-site")],
                false,
            ),
            (
                &[
                    ("host", "127.0.0.1:7070"),
                    ("origin", "http://127.0.0.1:8000"),
                    ("sec-fetch-site", "same-site"),
                ],
                false,
            ),
        ] {
            assert_eq!(
                strange(&headers(given), false).is_none(),
                is_let_in,
                "{given:?}"
            );
        }
        let named = [
            ("host", "console.example"),
            ("origin", "https://console.example"),
        ];
        assert!(
            strange(&headers(&named), true).is_none(),
            "a proxy gives it a name, and its token keeps others out"
        );
        assert!(
            strange(
                &headers(&[
                    ("host", "console.example"),
                    ("origin", "https://evil.example")
                ]),
                true
            )
            .is_some()
        );
    }

    #[test]
    fn who_acts_needs_the_token_and_a_console_that_allows_it() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let door = |may_act| Door {
            token: "abc".into(),
            ..Door::new(at("127.0.0.1:7070"), may_act, None).unwrap()
        };
        let status = |door: &Door, given: &[(&'static str, &str)]| {
            door.may_act(&headers(given))
                .err()
                .map_or(StatusCode::OK, |refusal| refusal.status)
        };
        let with = [("authorization", "Bearer abc")];
        assert_eq!(status(&door(false), &with), StatusCode::FORBIDDEN);
        assert_eq!(status(&door(true), &with), StatusCode::OK);
        for without in [
            &[][..],
            &[("authorization", "Bearer abd")],
            &[("authorization", "abc")],
            &[("authorization", "Bearer ")],
        ] {
            assert_eq!(
                status(&door(true), without),
                StatusCode::UNAUTHORIZED,
                "{without:?}"
            );
        }
        assert_eq!(
            door(false).address(at("127.0.0.1:7070")),
            "http://127.0.0.1:7070/"
        );
        assert_eq!(
            door(true).address(at("127.0.0.1:7070")),
            "http://127.0.0.1:7070/#token=abc"
        );
        let given = Door::new(at("127.0.0.1:7070"), false, Some("secret".into())).unwrap();
        assert!(given.is_closed && !given.address(at("127.0.0.1:7070")).contains("secret"));
        let open = Door::new(at("0.0.0.0:80"), false, None).unwrap();
        assert!(open.is_closed && open.token.len() == 2 * TOKEN_BYTES);
        assert!(
            open.address(at("0.0.0.0:80"))
                .starts_with("http://localhost:80/#token=")
        );
    }
}
