//! The machine of a run.

use std::fmt;
use std::fs;

use anyhow::Result;
use serde::Serialize;

use super::place::Place;

/// The machine and the programs.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// The number of cores that this process may use.
    pub cores: usize,
    /// The machine's memory, in GiB.
    pub memory_gib: f64,
    /// Redis' version.
    pub redis: String,
    /// The database's version.
    pub database: String,
    /// The kernel's version.
    pub kernel: String,
    /// The database's buffers, in GiB.
    pub database_gib: u32,
    /// Whether this program was built for speed.
    pub optimised: bool,
}

impl Machine {
    /// This machine.
    ///
    /// # Errors
    /// A server does not answer.
    pub async fn look(place: &Place, database_gib: u32) -> Result<Self> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let find = |text: &str, name: &str| {
            let line = text
                .lines()
                .find(|line| line.starts_with(name))
                .unwrap_or_default();
            line.split_once(':')
                .map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let kib: f64 = find(&read("/proc/meminfo"), "MemTotal")
            .trim_end_matches(" kB")
            .parse()
            .unwrap_or_default();
        let info = place.redis.call(&["INFO", "server"]).await?;
        Ok(Self {
            processor: find(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: kib / (1024.0 * 1024.0),
            redis: find(info.text()?, "redis_version"),
            database: place.sql("SELECT VERSION()").await?.trim().to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            database_gib,
            optimised: !cfg!(debug_assertions),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processor,
            cores,
            memory_gib,
            redis,
            database,
            kernel,
            database_gib: _,
            optimised,
        } = self;
        write!(
            f,
            "{cores} cores of {processor}, {memory_gib:.0} GiB, Linux {kernel}, Redis {redis}, database {database}"
        )?;
        if *optimised {
            Ok(())
        } else {
            write!(f, "; NOT BUILT FOR SPEED")
        }
    }
}
