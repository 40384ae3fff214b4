//! Room for bodies: how many bytes of them a fetcher has in hand, from their first byte until their
//! page is in its stream.
//!
//! In: bytes as they come. Out: [`Taken`] room, which is given back when it is dropped. A body for
//! which there is no room is not read on: what its server sends waits in the network.
//!
//! Invariant: bodies take at most `bytes_max`, and one of them may go beyond. So one body always
//! comes to its end, and gives its room back.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The room of a fetcher.
#[derive(Clone, Debug)]
pub struct Room(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Some was given back.
    freed: Notify,
}

#[derive(Clone, Copy, Debug)]
struct State {
    bytes_max: usize,
    taken: usize,
    /// A body goes beyond.
    is_exceeded: bool,
}

/// Room that a body has taken.
#[derive(Default)]
pub struct Taken {
    of: Option<Room>,
    bytes: usize,
    /// It is the body that may go beyond.
    exceeds: bool,
}

impl Room {
    /// Room for so many bytes (`stages.fetcher.bytes_in_hand_max`).
    pub fn new(bytes_max: usize) -> Self {
        let state = Mutex::new(State {
            bytes_max,
            taken: 0,
            is_exceeded: false,
        });
        Room(Arc::new(Shared {
            state,
            freed: Notify::new(),
        }))
    }

    /// There is room for so many bytes from now on.
    pub fn resize(&self, bytes_max: usize) {
        self.state().bytes_max = bytes_max;
        self.0.freed.notify_waiters();
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.state().taken
    }

    /// What a body that begins has: nothing yet.
    pub fn nothing(&self) -> Taken {
        Taken {
            of: Some(self.clone()),
            ..Taken::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Takes more, if there is room for it, or if no other body goes beyond.
    pub fn try_take(&mut self, bytes: usize) -> bool {
        let Some(room) = &self.of else { return true };
        let mut state = room.state();
        // The end of a body takes nothing, and waits for nothing.
        if bytes > 0 && state.taken + bytes > state.bytes_max && !self.exceeds {
            if state.is_exceeded {
                return false;
            }
            (state.is_exceeded, self.exceeds) = (true, true);
        }
        state.taken += bytes;
        self.bytes += bytes;
        true
    }

    /// Takes more as soon as there is room for it.
    pub async fn take(&mut self, bytes: usize) {
        let Some(room) = self.of.clone() else { return };
        loop {
            // First listen, then look: what is given back in between is heard.
            let freed = room.0.freed.notified();
            if self.try_take(bytes) {
                return;
            }
            freed.await;
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(room) = self.of.take() else { return };
        let mut state = room.state();
        state.taken -= self.bytes;
        state.is_exceeded &= !self.exceeds;
        drop(state);
        room.0.freed.notify_waiters();
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "room for {} bytes", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use proptest::prelude::*;
    use std::pin::pin;

    #[test]
    fn one_body_may_go_beyond_and_the_others_wait_until_there_is_room() {
        let room = Room::new(100);
        let mut first = room.nothing();
        let mut second = room.nothing();
        let mut third = room.nothing();
        assert!(first.try_take(60) && second.try_take(40));
        assert!(
            first.try_take(500),
            "the first one that finds no room goes on"
        );
        assert!(!second.try_take(1) && !third.try_take(1));
        assert_eq!((room.taken(), third.take(1).now_or_never()), (600, None));
        drop(first);
        assert_eq!(
            (third.take(60).now_or_never(), room.taken()),
            (Some(()), 100)
        );
        assert!(third.try_take(1), "nobody goes beyond any more");
        assert!(!second.try_take(1));
        drop((second, third));
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn who_waits_goes_on_when_room_is_given_back() {
        let room = Room::new(10);
        let mut first = room.nothing();
        let mut beyond = room.nothing();
        let mut third = room.nothing();
        assert!(first.try_take(10) && beyond.try_take(5));
        let mut waits = pin!(third.take(7));
        assert_eq!(waits.as_mut().now_or_never(), None);
        drop(beyond);
        assert_eq!((waits.now_or_never(), room.taken()), (Some(()), 17));
        room.resize(1);
        assert!(room.nothing().try_take(0));
    }

    proptest! {
        /// Goal: bodies never have more than the room and one body. Method: bodies that grow and
        /// end in any order.
        #[test]
        fn what_is_taken_is_bounded_and_somebody_can_always_go_on(
            steps in proptest::collection::vec((0usize..8, 1usize..50, any::<bool>()), 1..200),
        ) {
            const BODY_MAX: usize = 200;
            let room = Room::new(300);
            let mut bodies: Vec<Taken> = (0..8).map(|_| room.nothing()).collect();
            for (at, bytes, ends) in steps {
                if ends {
                    bodies[at] = room.nothing();
                } else if bodies[at].bytes + bytes <= BODY_MAX {
                    bodies[at].try_take(bytes);
                }
                prop_assert!(room.taken() <= 300 + BODY_MAX, "{}", room.taken());
                prop_assert_eq!(room.taken(), bodies.iter().map(|body| body.bytes).sum::<usize>());
                let exceeding = bodies.iter().filter(|body| body.exceeds).count();
                prop_assert_eq!(exceeding, usize::from(room.state().is_exceeded), "who goes beyond is there, and goes on");
            }
        }
    }
}
