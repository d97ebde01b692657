//! The memory and the sockets of a process. An idle process must return to its earlier level, or it
//! leaks.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result, ensure};

/// The footprint of a process at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Memory that is its own or shared, in bytes.
    pub rss: u64,
    /// Open sockets.
    pub sockets: usize,
}

impl Footprint {
    /// The footprint of a process now.
    ///
    /// # Errors
    /// The process has ended, or is another user's.
    pub fn of(pid: u32) -> Result<Self> {
        let path = format!("/proc/{pid}/status");
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let kilobytes = status.lines().find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .trim()
                .strip_suffix(" kB")?
                .parse::<u64>()
                .ok()
        });
        let path = format!("/proc/{pid}/fd");
        let open = fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?;
        let targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let sockets = targets
            .filter(|target| target.to_string_lossy().starts_with("socket:"))
            .count();
        Ok(Self {
            rss: kilobytes.context("no VmRSS")? * 1024,
            sockets,
        })
    }
}

/// The largest growth of a process' memory to the end: the memory that its allocator keeps, and the
/// memory of its busiest moment.
const RSS_MORE_MAX: u64 = 16 << 20;
/// The largest growth of its sockets: connections of its pools that were not needed at first.
const SOCKETS_MORE_MAX: usize = 8;

/// Footprints of processes over time.
#[derive(Debug, Default)]
pub struct Footprints(BTreeMap<String, Vec<Footprint>>);

impl Footprints {
    /// Looks at a process. A process that has just ended is left alone.
    pub fn look(&mut self, name: &str, pid: Option<u32>) {
        let seen = pid.and_then(|pid| Footprint::of(pid).ok());
        self.0.entry(name.to_owned()).or_default().extend(seen);
    }

    /// Compares the last look at each process with the highest of the first quarter.
    ///
    /// # Errors
    /// A process has grown by more than an allocator and pools keep, or had too few looks for a
    /// verdict.
    pub fn assert_steady(&self) -> Result<()> {
        for (name, seen) in &self.0 {
            let first = seen.get(..seen.len() / 4).unwrap_or_default();
            let (Some(last), true) = (seen.last(), first.len() >= 5) else {
                anyhow::bail!("{name} was looked at {} times only", seen.len());
            };
            let rss = first.iter().map(|one| one.rss).max().unwrap_or_default();
            let sockets = first
                .iter()
                .map(|one| one.sockets)
                .max()
                .unwrap_or_default();
            println!(
                "{name}: {} KiB, then {} KiB; {sockets} sockets, then {}",
                rss >> 10,
                last.rss >> 10,
                last.sockets
            );
            ensure!(
                last.rss <= rss + RSS_MORE_MAX,
                "{name} grew from {rss} to {} bytes",
                last.rss
            );
            ensure!(
                last.sockets <= sockets + SOCKETS_MORE_MAX,
                "{name} had {sockets} sockets, then {}",
                last.sockets
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rss: [u64; 2], sockets: [usize; 2]) -> Footprints {
        let mut seen = vec![
            Footprint {
                rss: rss[0],
                sockets: sockets[0]
            };
            20
        ];
        seen.push(Footprint {
            rss: rss[1],
            sockets: sockets[1],
        });
        Footprints(BTreeMap::from([("w".to_owned(), seen)]))
    }

    #[test]
    fn a_process_that_grows_is_noticed() {
        assert!(series([1 << 20, 17 << 20], [4, 12]).assert_steady().is_ok());
        assert!(series([1 << 20, 18 << 20], [4, 4]).assert_steady().is_err());
        assert!(series([1 << 20, 1 << 20], [4, 13]).assert_steady().is_err());
        let seldom = Footprints(BTreeMap::from([(
            "w".to_owned(),
            vec![Footprint { rss: 1, sockets: 1 }; 19],
        )]));
        assert!(seldom.assert_steady().is_err());
    }

    #[test]
    fn this_process_has_memory_and_its_sockets_are_counted() {
        let before = Footprint::of(std::process::id()).unwrap();
        let sockets: Vec<_> = (0..3)
            .map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let after = Footprint::of(std::process::id()).unwrap();
        // Other tests of this process may close some of their sockets in the meantime.
        assert!(
            before.rss > 1 << 20 && after.sockets >= sockets.len(),
            "{before:?} {after:?}"
        );
    }
}
