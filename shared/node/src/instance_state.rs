//! The state of an instance: whether it belongs to the crawl, and to its present generation.
//!
//! In: the store, the crawl's identity, and what the broker knows of the instance's state. Out:
//! what has to be written before the state is used, or why it must not be. Invariant: state of
//! another crawl, state that is older than what was in use, and new state in the place of state
//! that is gone are refused, unless the operator has accepted the loss: that began another
//! generation.

use rhumb_bus::StateNote;
use rhumb_config::Pipeline;
use rhumb_config::identity::{FORMAT, Identity, Mark, Misfit, WAYS_OUT, check_format};
use rhumb_stage::settlement::{LOOP, forget_positions, stored_epoch};
use rhumb_stage::store::{Changes, Store, StoreError};

/// How the state of an instance goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoesOn {
    /// As it was, or for the first time.
    Regularly,
    /// In a generation that began when a loss was accepted.
    InNewGeneration,
    /// With nothing, where there was state: that loss was accepted.
    WithNothing,
}

/// What goes before the format in the line of a shape.
const SHAPE_FORMAT: &str = " format ";

/// What is fixed for the life of an instance's state, as one line.
pub(super) fn shape(pipeline: &Pipeline) -> String {
    let Pipeline {
        crawl, partitions, ..
    } = pipeline;
    format!("crawl {crawl} partitions {partitions}{SHAPE_FORMAT}{FORMAT}")
}

/// Checks that state of another format or shape is not gone on with.
fn check_shape(stored: &[u8], shape: &str, place: &str) -> anyhow::Result<()> {
    if stored == shape.as_bytes() {
        return Ok(());
    }
    let stored = String::from_utf8_lossy(stored);
    // Format 1 did not name itself.
    let format = stored
        .rsplit_once(SHAPE_FORMAT)
        .map_or(Some(1), |(_, format)| format.parse().ok());
    if let Some(format) = format {
        check_format(&format!("the crawl of the state in {place}"), format)?;
    }
    Err(StoreError::Unusable(format!(
        "the state in {place} belongs to '{stored}', the configuration says '{shape}': they are \
         fixed for the life of a crawl; set them back, or take another data directory"
    ))
    .into())
}

/// Checks that it is right that there is no state: none was begun in this generation of the crawl.
///
/// # Errors
/// The state in `place` is gone.
pub(super) fn check_not_missed(
    identity: &Identity,
    note: Option<StateNote>,
    place: &str,
) -> Result<(), Misfit> {
    if note.is_some_and(|note| note.generation == identity.generation()) {
        let crawl = &identity.mark;
        return Err(Misfit(format!(
            "the state in {place} is gone, and {crawl} has begun it: {WAYS_OUT}"
        )));
    }
    Ok(())
}

/// Checks the state in `place`, and makes it that of the crawl's present generation.
///
/// # Errors
/// It belongs to another crawl, is older than it was, or is gone; or the store fails.
pub(super) fn take_over(
    store: &dyn Store,
    identity: &Identity,
    note: Option<StateNote>,
    shape: &str,
    place: &str,
) -> anyhow::Result<GoesOn> {
    let stored_shape = store.get(LOOP, b"shape")?;
    if let Some(stored) = &stored_shape {
        check_shape(stored, shape, place)?;
    }
    let stored = store.get(LOOP, b"identity")?;
    let mark = stored
        .as_deref()
        .and_then(|bytes| serde_json::from_slice::<Mark>(bytes).ok());
    let misfit = |found: &str| Misfit(format!("the state in {place} {found}: {WAYS_OUT}"));
    let current = note.filter(|note| note.generation == identity.generation());
    let goes_on = match mark {
        Some(mark) if mark.id != identity.mark.id || mark.generation > identity.generation() => {
            return Err(misfit(&format!(
                "belongs to {mark}, the broker holds {}",
                identity.mark
            ))
            .into());
        }
        Some(mark) if mark.generation < identity.generation() => GoesOn::InNewGeneration,
        Some(_) => {
            let epoch = stored_epoch(store)?;
            if let Some(note) = current.filter(|note| note.epoch > epoch) {
                let found = format!(
                    "is an earlier copy: it is of epoch {epoch}, epoch {} was in use",
                    note.epoch
                );
                return Err(misfit(&found).into());
            }
            return Ok(GoesOn::Regularly);
        }
        None if stored_shape.is_some() => {
            return Err(misfit(&format!(
                "belongs to no crawl that it names, the broker holds {}",
                identity.mark
            ))
            .into());
        }
        None => {
            check_not_missed(identity, note, place)?;
            if note.is_some() {
                GoesOn::WithNothing
            } else {
                GoesOn::Regularly
            }
        }
    };
    let mut changes = Changes::default();
    if goes_on != GoesOn::Regularly {
        forget_positions(store, &mut changes)?;
    }
    let mark = serde_json::to_vec(&identity.mark)?;
    changes.put(LOOP, *b"shape", shape.as_bytes());
    changes.put(LOOP, *b"identity", mark);
    store.commit(&changes)?;
    Ok(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::Layers;
    use rhumb_stage::settlement::next_epoch;
    use rhumb_stage::store::MemoryStore;

    const SHAPE: &str = "crawl default partitions 64 format 3";

    fn identity(id: &str, generation: u32) -> Identity {
        let set = vec!["network.allow_private_addresses=true".to_owned()];
        let pipeline = Layers { file: None, set }
            .load_with(std::iter::empty())
            .unwrap();
        let mut identity = Identity::new(id.into(), &pipeline);
        assert_eq!(shape(&pipeline), SHAPE);
        identity.mark.generation = generation;
        identity
    }

    fn note(generation: u32, epoch: u64) -> Option<StateNote> {
        Some(StateNote { generation, epoch })
    }

    fn taken(
        store: &MemoryStore,
        identity: &Identity,
        note: Option<StateNote>,
    ) -> Result<GoesOn, String> {
        take_over(store, identity, note, SHAPE, "data/dedup/0").map_err(|error| error.to_string())
    }

    #[test]
    fn state_begins_once_and_goes_on_in_its_crawl_alone() {
        let store = MemoryStore::default();
        assert_eq!(
            taken(&store, &identity("a", 1), None),
            Ok(GoesOn::Regularly)
        );
        let epoch = next_epoch(&store, 0).unwrap();
        assert_eq!(
            taken(&store, &identity("a", 1), note(1, epoch)),
            Ok(GoesOn::Regularly)
        );
        let error = taken(&store, &identity("b", 1), None).unwrap_err();
        assert!(
            error.contains(
                "data/dedup/0 belongs to crawl a, generation 1, the broker holds crawl b"
            ),
            "{error}"
        );
        let error = taken(&store, &identity("a", 1), note(1, epoch + 1)).unwrap_err();
        assert!(
            error.contains("is an earlier copy") && error.contains("--accept-loss"),
            "{error}"
        );
    }

    #[test]
    fn state_that_is_gone_is_missed_until_its_loss_is_accepted() {
        let store = MemoryStore::default();
        let error = taken(&store, &identity("a", 1), note(1, 5)).unwrap_err();
        assert!(
            error.contains("is gone, and crawl a, generation 1 has begun it"),
            "{error}"
        );
        assert_eq!(
            taken(&store, &identity("a", 2), note(1, 5)),
            Ok(GoesOn::WithNothing)
        );
        assert_eq!(
            taken(&store, &identity("a", 2), note(2, 0)),
            Ok(GoesOn::Regularly)
        );
    }

    #[test]
    fn a_new_generation_forgets_positions_and_state_of_a_later_one_is_refused() {
        let store = MemoryStore::default();
        taken(&store, &identity("a", 1), None).unwrap();
        let mut changes = Changes::default();
        changes.put(LOOP, *b"position urls.split", *b"x");
        store.commit(&changes).unwrap();
        assert_eq!(
            taken(&store, &identity("a", 2), note(1, 0)),
            Ok(GoesOn::InNewGeneration)
        );
        assert_eq!(store.get(LOOP, b"position urls.split").unwrap(), None);
        let error = taken(&store, &identity("a", 1), None).unwrap_err();
        assert!(
            error.contains(
                "belongs to crawl a, generation 2, the broker holds crawl a, generation 1"
            ),
            "{error}"
        );
    }

    #[test]
    fn state_of_another_format_or_shape_or_of_no_crawl_is_refused_in_every_generation() {
        let of_shape = |shape: &str| {
            let store = MemoryStore::default();
            let mut changes = Changes::default();
            changes.put(LOOP, *b"shape", shape.as_bytes());
            store.commit(&changes).unwrap();
            store
        };
        for (shape, part) in [
            (
                "crawl default partitions 64 replicas 1",
                "data/dedup/0 was begun in format 1, this program writes format 3",
            ),
            (
                "crawl default partitions 64 replicas 1 format 4",
                "data/dedup/0 was begun in format 4",
            ),
            (
                "crawl default partitions 32 replicas 1 format 3",
                "fixed for the life of a crawl",
            ),
            (SHAPE, "data/dedup/0 belongs to no crawl that it names"),
        ] {
            for identity in [identity("a", 1), identity("a", 2)] {
                let store = of_shape(shape);
                for note in [None, note(1, 0)] {
                    let error = taken(&store, &identity, note).unwrap_err();
                    assert!(error.contains(part), "{error}");
                }
                assert_eq!(
                    store.get(LOOP, b"identity").unwrap(),
                    None,
                    "nothing was written"
                );
            }
        }
    }
}
