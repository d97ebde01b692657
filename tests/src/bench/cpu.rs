//! CPU time: of the processes of a case, and of all other processes of the machine.

use std::fs;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::case::Processes;

/// CPU time in microseconds, by process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cpu {
    /// This process, landing workers and game servers.
    pub client: f64,
    /// The Redis server.
    pub redis: f64,
    /// The database server.
    pub mariadb: f64,
    /// The gateway. 0 for a case without one.
    pub gateway: f64,
    /// The whole machine, other processes included.
    pub machine: f64,
}

impl Cpu {
    /// The CPU time since the processes began.
    ///
    /// # Errors
    /// A process has ended.
    pub fn now(processes: &Processes) -> Result<Self> {
        let server = |pid: Option<u32>| pid.map_or(Ok(0.0), |pid| of(&pid.to_string()));
        let mut client = of("self")?;
        for child in &processes.children {
            client += of(&child.to_string())?;
        }
        Ok(Self {
            client,
            redis: server(processes.redis)?,
            mariadb: server(processes.mariadb)?,
            gateway: server(processes.gateway)?,
            machine: machine()?,
        })
    }

    /// The CPU time since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            client: (self.client - earlier.client).max(0.0),
            redis: (self.redis - earlier.redis).max(0.0),
            mariadb: (self.mariadb - earlier.mariadb).max(0.0),
            gateway: (self.gateway - earlier.gateway).max(0.0),
            machine: (self.machine - earlier.machine).max(0.0),
        }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            client: self.client + other.client,
            redis: self.redis + other.redis,
            mariadb: self.mariadb + other.mariadb,
            gateway: self.gateway + other.gateway,
            machine: self.machine + other.machine,
        }
    }

    /// The CPU time for each of this number of operations.
    #[must_use]
    pub fn each(&self, operations: f64) -> Self {
        let by = operations.max(1.0);
        Self {
            client: self.client / by,
            redis: self.redis / by,
            mariadb: self.mariadb / by,
            gateway: self.gateway / by,
            machine: self.machine / by,
        }
    }

    /// The CPU time of all processes of the case.
    #[must_use]
    pub fn all(&self) -> f64 {
        self.client + self.redis + self.mariadb + self.gateway
    }

    /// The CPU time of all other processes.
    #[must_use]
    pub fn foreign(&self) -> f64 {
        (self.machine - self.all()).max(0.0)
    }
}

/// The time of a process: the time of its threads to the nanosecond if the kernel has it, otherwise
/// ticks.
fn of(pid: &str) -> Result<f64> {
    threads(pid).map_or_else(|| ticks(pid), Ok)
}

/// The time of the living threads. The threads of a server or of this program's runtime live as
/// long as a repetition.
fn threads(pid: &str) -> Option<f64> {
    let mut nanos = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        nanos += text.split_whitespace().next()?.parse::<f64>().ok()?;
    }
    Some(nanos / 1e3)
}

/// User and system time of a process and of its ended threads.
fn ticks(pid: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    // The second word is the program's name in parentheses. It may contain spaces.
    let (_, rest) = text
        .rsplit_once(')')
        .with_context(|| format!("{path} has no name"))?;
    let times: Vec<f64> = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    Ok(micros(times.iter().sum()))
}

/// All time except idle time and waits. Words 1 to 8 are user, nice, system, idle, iowait, irq,
/// softirq and steal.
fn machine() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let busy = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .enumerate()
        .filter(|(at, _)| !matches!(at, 3 | 4));
    let ticks: Vec<f64> = busy
        .map(|(_, word)| word.parse())
        .collect::<Result<_, _>>()?;
    Ok(micros(ticks.iter().sum()))
}

#[expect(clippy::cast_precision_loss, reason = "a hundred or so")]
fn micros(ticks: f64) -> f64 {
    ticks * 1e6 / rustix::param::clock_ticks_per_second() as f64
}

/// The highest memory use of a process, in bytes.
///
/// # Errors
/// The process has ended.
pub fn peak_memory(pid: u32) -> Result<f64> {
    bytes_of(pid, "VmHWM:")
}

/// The memory that a process has now, in bytes: its resident set.
///
/// # Errors
/// The process has ended.
pub fn memory(pid: u32) -> Result<f64> {
    bytes_of(pid, "VmRSS:")
}

/// The most resident memory that a process has had, in bytes.
///
/// # Errors
/// The process has ended.
pub fn peak(pid: u32) -> Result<f64> {
    bytes_of(pid, "VmHWM:")
}

fn bytes_of(pid: u32, name: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("{path} has no {name}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_this_process_grows_and_is_a_part_of_the_machines() {
        let before = Cpu::now(&Processes::default()).unwrap();
        let mut sum = 0_u64;
        while Cpu::now(&Processes::default()).unwrap().client < before.client + 50_000.0 {
            sum = (0..100_000_u64).fold(sum, u64::wrapping_add);
        }
        let used = Cpu::now(&Processes::default()).unwrap().since(&before);
        assert!(
            used.client >= 50_000.0 && used.machine > 0.0 && sum > 0,
            "{used:?}"
        );
        assert_eq!((used.redis, used.mariadb), (0.0, 0.0));
        assert!(peak_memory(std::process::id()).unwrap() > 1e6);
    }
}
