//! The scope bucket: entries that all host-splitters share and watch.

use super::agenda::{Answer, EffectId, Happening, Process};
use super::around::Around;
use super::plan::MILLISECOND;
use host_splitter::effect::Answer as Scope;
use rhumb_config::scope_entry::ScopeEntry;
use std::collections::HashMap;

/// How far a process has come.
struct Watch {
    next: usize,
    /// Entries that were there at the beginning.
    initial: usize,
    told: bool,
    /// An effect that waits for the next entry.
    waits: Option<EffectId>,
}

/// The bucket.
#[derive(Default)]
pub(crate) struct ScopeBucket {
    entries: Vec<ScopeEntry>,
    watches: HashMap<Process, Watch>,
}

/// The next entry, or that all of the beginning have come.
pub(crate) fn next(id: EffectId, around: &mut Around) {
    let initial = around.scope.entries.len();
    let watch = Watch {
        next: 0,
        initial,
        told: false,
        waits: None,
    };
    around
        .scope
        .watches
        .entry(id.process)
        .or_insert(watch)
        .waits = Some(id);
    notify(id.process, around);
}

/// Adds an entry; it is there after a moment.
pub(crate) fn join(id: EffectId, entry: ScopeEntry, around: &mut Around) {
    let at = around.now + around.dice.within(MILLISECOND..50 * MILLISECOND);
    around.agenda.at(at, Happening::Join(id, entry));
}

/// The bucket takes an entry.
pub(crate) fn joined(id: EffectId, entry: ScopeEntry, around: &mut Around) {
    put(entry.clone(), around);
    let latency = around.dice.within(MILLISECOND..5 * MILLISECOND);
    around.answer(id, latency, Answer::HostSplitter(Scope::Joined(entry)));
}

/// An entry comes into the bucket, from a process or from outside.
pub(crate) fn put(entry: ScopeEntry, around: &mut Around) {
    around.scope.entries.push(entry);
    let mut watching: Vec<Process> = around.scope.watches.keys().copied().collect();
    watching.sort();
    for process in watching {
        notify(process, around);
    }
}

fn notify(process: Process, around: &mut Around) {
    let Some(watch) = around.scope.watches.get_mut(&process) else {
        return;
    };
    let Some(id) = watch.waits else { return };
    let answer = if watch.next >= watch.initial && !watch.told {
        watch.told = true;
        Scope::ScopeCaughtUp
    } else if let Some(entry) = around.scope.entries.get(watch.next) {
        watch.next += 1;
        Scope::Scope(entry.clone())
    } else {
        return;
    };
    watch.waits = None;
    let latency = around.dice.within(MILLISECOND..5 * MILLISECOND);
    around.answer(id, latency, Answer::HostSplitter(answer));
}
