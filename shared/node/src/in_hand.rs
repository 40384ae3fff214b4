//! The file `in-hand` in the folder of an instance: what the core is being stepped with, when lives
//! may die of it.
//!
//! It is written for inputs that are delivered again, and for those at which the core panicked; a
//! crawl without deaths has none, and neither has an instance that ended in order. It is not
//! synced: the kernel survives the death of a process.

use rhumb_stage::settlement::{Deaths, InputName};
use rhumb_wire::message::Edge;
use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// What the core is being stepped with.
pub(super) struct InHand {
    path: PathBuf,
    deaths: Deaths,
    is_failing: bool,
}

impl InHand {
    /// Reads what the last life left in the folder of the instance.
    pub(super) fn open(folder: PathBuf) -> InHand {
        let path = folder.join("in-hand");
        let deaths = std::fs::read(&path)
            .map(|bytes| Deaths::after(&bytes))
            .unwrap_or_default();
        let mut this = InHand {
            path,
            deaths,
            is_failing: false,
        };
        if !this.deaths.is_empty() {
            tracing::warn!(
                "an earlier life of this process died of an input, which is stepped with care"
            );
            this.write();
        }
        this
    }

    /// Returns whether an input may be one that earlier lives died of.
    pub(super) fn suspects(&self, edge: Edge, payload: &[u8]) -> bool {
        self.deaths.suspect(edge, payload)
    }

    /// Steps the core with an input, with care if it may have come before (`is_repeat`). None: too
    /// many lives died of it, and it is to be stepped no more.
    ///
    /// # Errors
    /// The core panicked.
    pub(super) fn step<T>(
        &mut self,
        edge: Edge,
        message: &async_nats::Message,
        is_repeat: bool,
        step: impl FnOnce() -> T,
    ) -> Result<Option<T>, Panicked> {
        let suspect = is_repeat.then(|| InputName::of(edge, &message.payload));
        if let Some(input) = &suspect {
            // It is not forgotten: it may come again. One that an operator sends again is a new
            // message, and is stepped.
            if self.deaths.are_too_many(input) {
                return Ok(None);
            }
            self.note(input.clone());
        }
        let stepped = guarded(|| format!("at a message of {}", message.subject), step);
        match (&stepped, suspect) {
            (Ok(_), Some(input)) => self.survived(&input),
            (Err(_), None) => self.note(InputName::of(edge, &message.payload)),
            _ => {}
        }
        stepped.map(Some)
    }

    /// The process ends in order: nobody dies any more.
    pub(super) fn end(&self) {
        let _ = std::fs::remove_file(&self.path);
    }

    fn note(&mut self, input: InputName) {
        self.deaths.note(input);
        self.write();
    }

    fn survived(&mut self, input: &InputName) {
        self.deaths.survived(input);
        self.write();
    }

    /// Puts the new file in the place of the old one. Without it the process goes on, and counts no
    /// deaths.
    fn write(&mut self) {
        let new = self.path.with_extension("new");
        let write = || -> io::Result<()> {
            if let Some(folder) = self.path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(&new, self.deaths.to_bytes())?;
            std::fs::rename(&new, &self.path)
        };
        let failure = write().err();
        if let Some(error) = failure.as_ref().filter(|_| !self.is_failing) {
            let path = self.path.display();
            tracing::warn!(%path, %error, "cannot be written: an input that this process dies of is not recognised");
        }
        self.is_failing = failure.is_some();
    }
}

/// The core panicked: nobody knows its state, so the process ends and begins anew.
#[derive(Debug, thiserror::Error)]
#[error("the core panicked {at}: {message}; its state is thrown away and read anew")]
pub(super) struct Panicked {
    at: String,
    message: String,
}

/// Calls the core. `at` says what it is called with, when it panics.
pub(super) fn guarded<T>(
    at: impl FnOnce() -> String,
    call: impl FnOnce() -> T,
) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| Panicked {
        at: at(),
        message: text(panic.as_ref()),
    })
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &'static str) -> async_nats::Message {
        let subject = "rhumb.a.pages".into();
        let payload = payload.into();
        async_nats::Message {
            subject,
            reply: None,
            length: 0,
            payload,
            headers: None,
            status: None,
            description: None,
        }
    }

    /// Steps a core that dies of a message: it panics.
    fn dies(life: &mut InHand, of: &'static str, is_repeat: bool) -> bool {
        life.step(Edge::Pages, &message(of), is_repeat, || {
            panic!("dies of {of}")
        })
        .map(|step: Option<()>| step)
        .is_err()
    }

    fn survives(life: &mut InHand, message_is: &'static str, is_repeat: bool) -> bool {
        life.step(Edge::Pages, &message(message_is), is_repeat, || ())
            .unwrap()
            .is_some()
    }

    #[test]
    fn what_three_lives_died_of_is_stepped_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let open = || InHand::open(folder.path().join("parser/0"));
        assert!(survives(&mut open(), "a", false));
        assert!(
            !folder.path().join("parser").exists(),
            "nothing is written without need"
        );
        // Whether a panic is caught does not matter: the note is there before the step.
        for (life, is_repeat) in [false, true, true].into_iter().enumerate() {
            assert!(dies(&mut open(), "a", is_repeat), "{life}");
            assert!(survives(&mut open(), "b", true));
        }
        let mut life = open();
        assert!(
            life.suspects(Edge::Pages, b"a") && !life.suspects(Edge::Pages, b"b"),
            "buried, and any other"
        );
        assert!(survives(&mut life, "b", false) && !survives(&mut life, "a", true));
        assert!(
            !survives(&mut life, "a", true) && !survives(&mut open(), "a", true),
            "it may come again"
        );
        assert!(
            survives(&mut open(), "a", false),
            "an operator sent it again"
        );
        open().end();
        assert!(open().deaths.is_empty(), "after an end in order");
    }

    #[test]
    fn a_life_that_is_killed_between_steps_died_of_no_input() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..9 {
            let mut life = InHand::open(folder.path().to_owned());
            assert!(survives(&mut life, "a", true) && survives(&mut life, "b", true));
        }
        assert!(InHand::open(folder.path().to_owned()).deaths.is_empty());
    }

    #[test]
    fn a_panic_becomes_an_error_that_names_what_was_done() {
        let panicked = guarded(|| "at a test".into(), || panic!("three is {}", 3))
            .map(|(): ()| ())
            .unwrap_err();
        let text = panicked.to_string();
        assert!(
            text.starts_with("the core panicked at a test: three is 3; its state"),
            "{text}"
        );
        assert_eq!(guarded(String::new, || 7).unwrap(), 7);
    }
}
