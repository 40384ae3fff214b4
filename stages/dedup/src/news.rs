//! New URLs on their way into messages, each message of one partition.

use rhumb_stage::Ticket;
use rhumb_wire::message::{NewUrls, Origin};

/// New URLs of one message at most.
const URLS_MAX: usize = 256;
/// A message with this many bytes takes no more URLs.
const BYTES_MAX: usize = 512 << 10;

/// New URLs of one step.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) messages: Vec<NewUrlsOf>,
}

/// New URLs of a partition.
pub(crate) struct NewUrlsOf {
    /// See [`crate::owned`].
    pub(crate) slot: u16,
    /// Without partition and serial number.
    pub(crate) message: NewUrls,
    /// Inputs of its URLs, each once.
    pub(crate) causes: Vec<Ticket>,
    bytes: usize,
}

impl News {
    pub(crate) fn push(&mut self, slot: u16, url: &str, origin: &Origin, ticket: Ticket) {
        let has_room = |of: &NewUrlsOf| {
            of.slot == slot && of.message.urls.len() < URLS_MAX && of.bytes < BYTES_MAX
        };
        // Nearly always the last one: a batch is of one partition, and answers come by partition.
        let at = self.messages.iter().rposition(has_room).unwrap_or_else(|| {
            self.messages.push(NewUrlsOf {
                slot,
                message: NewUrls::default(),
                causes: Vec::new(),
                bytes: 0,
            });
            self.messages.len() - 1
        });
        let NewUrlsOf {
            message,
            causes,
            bytes,
            ..
        } = &mut self.messages[at];
        let index = message
            .origins
            .iter()
            .rposition(|other| other == origin)
            .unwrap_or_else(|| {
                message.origins.push(origin.clone());
                *bytes += origin.page.len() + origin.topic.len();
                message.origins.len() - 1
            });
        message.urls.push(url);
        message.origin_of.push(index as u32);
        *bytes += url.len();
        if causes.last() != Some(&ticket) && !causes.contains(&ticket) {
            causes.push(ticket);
        }
    }
}
