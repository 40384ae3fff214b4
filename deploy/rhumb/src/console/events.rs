//! Server-sent events: an answer that goes on.

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream::{BoxStream, Stream, StreamExt as _};
use std::convert::Infallible;

/// An event: its name, and its data in JSON.
pub(super) type Named = (&'static str, String);

/// The events of an answer.
pub(super) struct Events(BoxStream<'static, Named>);

impl Events {
    /// All that the stream brings; then the answer ends.
    pub(super) fn of(stream: impl Stream<Item = Named> + Send + 'static) -> Self {
        Events(stream.boxed())
    }

    pub(super) fn answer(self) -> Response {
        let events = self
            .0
            .map(|(name, data)| Ok::<_, Infallible>(Event::default().event(name).data(data)));
        Sse::new(events)
            .keep_alive(KeepAlive::default())
            .into_response()
    }
}
