//! Edges as they are listened to, without any effect on the crawl.

use futures::stream::SelectAll;

/// Listens to all these subjects.
pub(crate) async fn subscribe(
    client: &async_nats::Client,
    subjects: Vec<String>,
) -> anyhow::Result<SelectAll<async_nats::Subscriber>> {
    let mut messages = SelectAll::new();
    for subject in subjects {
        messages.push(client.subscribe(subject).await?);
    }
    Ok(messages)
}
