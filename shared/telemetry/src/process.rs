//! What Linux tells of a process in `/proc`: its start, CPU time and memory.
//!
//! Two files of a fixed form are read here; the crate for all of `/proc` takes 17 s of a first
//! build.

use rustix::param::clock_ticks_per_second;
use std::fs::read_to_string;
use std::net::SocketAddr;
use std::path::Path;

/// CPU time, user and system, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct CpuTime {
    /// Of the process or thread itself.
    pub own_s: f64,
    /// Of its children that have ended and were waited for, theirs included.
    pub ended_children_s: f64,
}

/// Resident memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Now.
    pub resident: u64,
    /// The most so far.
    pub peak: u64,
}

/// The name of the host that this process runs on; none when the system does not tell. In a pod of
/// Kubernetes it is the pod's.
pub fn host_name() -> Option<String> {
    let name = read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Where others reach what listens at an address: by the host's name when it listens on all of its
/// addresses.
pub fn reachable(listen: SocketAddr) -> String {
    match host_name().filter(|_| listen.ip().is_unspecified()) {
        Some(host) => format!("{host}:{}", listen.port()),
        None => listen.to_string(),
    }
}

/// CPU seconds and peak resident bytes of a process; none when it is gone.
pub fn usage(pid: u32) -> Option<(f64, u64)> {
    let peak = memory(pid).map_or(0, |memory| memory.peak);
    Some((cpu_time(pid)?.own_s, peak))
}

/// The CPU time of a process; none when it is gone.
pub fn cpu_time(pid: u32) -> Option<CpuTime> {
    cpu_time_in(format!("/proc/{pid}").as_ref())
}

/// The CPU time of the main thread of a process; none when it is gone.
pub fn main_thread_cpu_time(pid: u32) -> Option<CpuTime> {
    cpu_time_in(format!("/proc/{pid}/task/{pid}").as_ref())
}

/// The memory of a process; none when it is gone or has ended and was not waited for.
pub fn memory(pid: u32) -> Option<Memory> {
    let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
    let bytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    };
    Some(Memory {
        resident: bytes("VmRSS:")?,
        peak: bytes("VmHWM:")?,
    })
}

/// When a process began, in seconds since 1970; none when it is gone.
pub fn start_time_s(pid: u32) -> Option<f64> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // starttime, in ticks since the machine began.
    let ticks = ticks_from(&stat, 22)?.next()??;
    let machine = read_to_string("/proc/stat").ok()?;
    let began = machine
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    Some(began.trim().parse::<u64>().ok()? as f64 + ticks as f64 / clock_ticks_per_second() as f64)
}

fn cpu_time_in(folder: &Path) -> Option<CpuTime> {
    read_stat(&read_to_string(folder.join("stat")).ok()?)
}

/// The fields of `stat` from one on, which are counts, numbered as proc_pid_stat(5) numbers them.
/// The second field, the name in parentheses, may hold any character.
fn ticks_from(stat: &str, field: usize) -> Option<impl Iterator<Item = Option<u64>> + '_> {
    // The first field behind the name is 3.
    let fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some(fields.skip(field - 3).map(|field| field.parse().ok()))
}

fn read_stat(stat: &str) -> Option<CpuTime> {
    // utime, stime, cutime and cstime.
    let mut ticks = ticks_from(stat, 14)?;
    let mut seconds =
        || Some((ticks.next()?? + ticks.next()??) as f64 / clock_ticks_per_second() as f64);
    Some(CpuTime {
        own_s: seconds()?,
        ended_children_s: seconds()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::parent_id;

    #[test]
    fn the_times_stand_behind_a_name_of_any_form() {
        let per_second = clock_ticks_per_second();
        let stat = format!(
            "7 (a b) (c) S 1 7 7 0 -1 4 100 0 0 0 {} {} 3 4 20 0 1 0",
            2 * per_second,
            per_second
        );
        let time = read_stat(&stat).unwrap();
        assert_eq!(
            (time.own_s, time.ended_children_s),
            (3.0, 7.0 / per_second as f64)
        );
        assert!(read_stat("7 (cut) S 1 7").is_none() && read_stat("").is_none());
    }

    #[test]
    fn a_process_begins_after_its_parent_and_before_its_children() {
        let child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let pids = [parent_id(), std::process::id(), child.id()];
        let began = pids.map(|pid| start_time_s(pid).unwrap());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(began.is_sorted(), "{began:?}");
        // In this century.
        assert!(began[1] > 946_684_800.0, "{began:?}");
        assert_eq!(start_time_s(u32::MAX), None);
    }

    #[test]
    fn this_process_uses_time_and_memory_and_one_that_is_gone_does_not() {
        let pid = std::process::id();
        let memory = memory(pid).unwrap();
        assert!(
            memory.resident > 0 && memory.peak >= memory.resident,
            "{memory:?}"
        );
        assert!(cpu_time(pid).unwrap().own_s >= main_thread_cpu_time(pid).unwrap().own_s);
        assert!(cpu_time(u32::MAX).is_none() && super::memory(u32::MAX).is_none());
    }
}
