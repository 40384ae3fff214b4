//! Seats: how many worlds there may be on this machine at a time.
//!
//! A crawl of a test waits most of its time: for latencies, leases, processes that start. Five of
//! them take a third of two processors, so eight may run side by side. What measures time or memory
//! takes all seats. A seat is a lock on a file, which ends with its process. What keeps all
//! processors busy takes none: it gives way by its priority.
//!
//! Invariant: who has a seat waits for none. A test has one world at a time: with a second one it
//! would wait for who takes all seats, and that one for it.

use rustix::fs::{FlockOperation, flock};
use std::cell::Cell;
use std::fs::File;
use std::time::Duration;

/// As many worlds at a time.
const SEATS: usize = 8;
/// Between two looks for a free one.
const LOOK_EVERY: Duration = Duration::from_millis(20);

thread_local! {
    /// Seats that this thread has.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The right to one world, until it is dropped.
#[derive(Debug)]
pub struct Seat(#[expect(dead_code, reason = "it is held, not read")] File);

impl Seat {
    fn new(file: File) -> Self {
        HELD.set(HELD.get() + 1);
        Seat(file)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        HELD.set(HELD.get().saturating_sub(1));
    }
}

/// Waits for a free seat.
///
/// # Panics
/// When the test has a seat already, or the lock files in the folder of temporary files cannot be
/// used.
pub(super) fn seat() -> Seat {
    assert_eq!(
        HELD.get(),
        0,
        "a test has one world at a time: drop the first one before"
    );
    loop {
        // Who wants all seats keeps others from taking one.
        let turn = file("turn");
        if flock(&turn, FlockOperation::NonBlockingLockShared).is_ok() {
            for number in 0..SEATS {
                let file = file(&number.to_string());
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    return Seat::new(file);
                }
            }
        }
        drop(turn);
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits until all seats are free, and takes them.
///
/// # Panics
/// When the test has a seat already, or the lock files in the folder of temporary files cannot be
/// used.
pub fn alone() -> Vec<Seat> {
    assert_eq!(
        HELD.get(),
        0,
        "a test has one world at a time: drop the first one before"
    );
    // Those who wait for their turn meanwhile come next, while the seats are free.
    let turn = locked(file("turn"));
    let seats = (0..SEATS).map(|number| locked(file(&number.to_string())));
    seats.chain([turn]).collect()
}

fn locked(file: File) -> Seat {
    flock(&file, FlockOperation::LockExclusive).expect("a lock");
    Seat::new(file)
}

fn file(name: &str) -> File {
    let path = std::env::temp_dir().join(format!("rhumb-tests-{name}.lock"));
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .expect("a lock file")
}
