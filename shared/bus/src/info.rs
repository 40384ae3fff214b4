//! What the broker says of one stream.

use super::Bus;
use anyhow::Context as _;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::Info;

/// What the broker says of a stream; none when it has none of that name.
///
/// # Errors
/// The broker does not answer.
pub async fn stream_info(bus: &Bus, name: &str) -> anyhow::Result<Option<Info>> {
    match bus.jetstream.get_stream(name).await {
        Ok(stream) => Ok(Some(stream.cached_info().clone())),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(answer)
                if answer.error_code() == ErrorCode::STREAM_NOT_FOUND =>
            {
                Ok(None)
            }
            _ => {
                Err(error).with_context(|| format!("the broker does not tell of the stream {name}"))
            }
        },
    }
}
