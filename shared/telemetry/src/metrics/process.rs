//! The metrics of any process: whether it is ready, its start, CPU time and memory.

use super::exposition::Exposition;
use super::row::Row;
use crate::process;
use std::sync::OnceLock;

/// Whether the process is ready.
const READY: Row = Row::gauge(
    "process_ready",
    "0 or 1",
    "1 while the process can do its work. When it stays 0, /readyz says why.",
);
/// When it began.
const START: Row = Row::gauge(
    "process_start_time_seconds",
    "seconds",
    "When the process began, since 1970. It changes when the process is started again.",
);
/// What it has used.
const CPU: Row = Row::counter(
    "process_cpu_seconds_total",
    "seconds",
    "CPU time of the process, user and system. Near 1 a second a stage is as fast as one process \
     can be: scale it.",
);
/// What it holds.
const MEMORY: Row = Row::gauge(
    "process_resident_memory_bytes",
    "bytes",
    "Memory of the process that is resident. It is bounded by the configuration: set limits above \
     what it reaches.",
);

/// The table.
pub const PROCESS: &[Row] = &[READY, START, CPU, MEMORY];

/// Writes them, of this process.
pub fn tell_process(prefix: &str, is_ready: bool, to: &mut Exposition) {
    to.family(prefix, &READY).value(&[], u8::from(is_ready));
    // Read once: the start of the machine, from which it is told, is moved by corrections of its clock.
    static BEGAN: OnceLock<Option<f64>> = OnceLock::new();
    let pid = std::process::id();
    if let Some(began) = *BEGAN.get_or_init(|| process::start_time_s(pid)) {
        to.family(prefix, &START).value(&[], began);
    }
    if let (Some(cpu), Some(memory)) = (process::cpu_time(pid), process::memory(pid)) {
        to.family(prefix, &CPU).value(&[], cpu.own_s);
        to.family(prefix, &MEMORY).value(&[], memory.resident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_tells_of_all_that_is_in_the_table() {
        let mut to = Exposition::default();
        tell_process("rhumb_x", true, &mut to);
        let text = to.into_text();
        for row in PROCESS {
            assert_eq!(row.fault(), None);
            assert!(text.contains(&format!("\nrhumb_x_{} ", row.name)), "{text}");
        }
    }
}
