//! An answer that says why there is no other.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};

/// Why a page does not get what it asks for.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    words: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Refusal {
            status,
            words: words.into(),
        }
    }

    /// What the page asks for makes no sense.
    pub(super) fn bad(words: impl Into<String>) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, words)
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}"))
    }
}

impl From<Refusal> for Response {
    fn from(Refusal { status, words }: Refusal) -> Self {
        let body = serde_json::json!({ "error": words }).to_string();
        (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.into()
    }
}
