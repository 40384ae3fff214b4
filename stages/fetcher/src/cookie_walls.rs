//! Cookie walls of a job: answers that redirect to their own URLs with a cookie, for which a server
//! may have the page.
//!
//! In: such an answer. Out: whether its URL is to be asked for once more over the same connection,
//! on which alone its cookies live. What comes then is what the URL brought. The answer at the wall
//! is kept until then: it counts when nothing comes.
//!
//! Invariant: over one connection a URL is asked for once more, not again (P6), and it has one end
//! (P3).

use crate::effect::Response;

/// An answer with a larger body is taken as it is, lest what is kept at walls takes the room of
/// pages.
const BODY_BYTES_MAX: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct CookieWalls(Vec<CookieWall>);

pub(crate) struct CookieWall {
    /// Index of the request.
    index: usize,
    pub(crate) answer: Response,
    /// It was met on the connection that speaks HTTP/1.1 alone.
    http11: bool,
}

impl CookieWalls {
    /// A request brought an answer over the connection that speaks HTTP/1.1 alone, or over the one
    /// before. Keeps it if it is a wall whose URL is to be asked for once more, and else gives it
    /// back: as what the URL brought.
    pub(crate) fn answered(
        &mut self,
        index: usize,
        answer: Response,
        http11: bool,
    ) -> Option<Response> {
        let is_behind = self
            .take(index)
            .is_some_and(|before| before.http11 == http11);
        if is_behind || !answer.leads_back || answer.body.len() > BODY_BYTES_MAX {
            return Some(answer);
        }
        self.0.push(CookieWall {
            index,
            answer,
            http11,
        });
        None
    }

    /// Takes out the answer at the wall that a request met, if it met one.
    pub(crate) fn take(&mut self, index: usize) -> Option<CookieWall> {
        let place = self.0.iter().position(|wall| wall.index == index)?;
        Some(self.0.swap_remove(place))
    }
}
