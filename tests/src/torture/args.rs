//! The arguments of a run.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::faults::Fault;

/// The place of the tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// One Redis and one MariaDB.
    Single,
    /// A Redis Cluster of three masters, each with a replica, and one MariaDB.
    Cluster,
    /// Memory and SQLite inside one game server.
    Embedded,
}

/// Plays with game servers and landing workers as processes, injects faults, and compares the
/// stored data with the oracle.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Decides the play and the faults
    #[arg(long)]
    pub seed: u64,
    /// The seconds for which faults are injected
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// `all`, `none`, or names of faults separated by commas
    #[arg(long, default_value = "all")]
    pub faults: String,
    /// Break the tiers seldom, so that most of the time is play: Redis every few seconds and the
    /// database half as often
    #[arg(long)]
    pub seldom: bool,
    /// The place of the tiers
    #[arg(long, value_enum, default_value_t = Topology::Single)]
    pub topology: Topology,
    /// The file for the verdict as JSON, besides the table on the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Keep the histories in this folder
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
}

impl Args {
    /// The requested faults that make sense on the topology.
    ///
    /// # Errors
    /// No fault has the name. The message lists them.
    pub fn faults(&self) -> Result<Vec<Fault>> {
        let possible = || {
            Fault::ALL
                .iter()
                .copied()
                .filter(|fault| fault.topologies().contains(&self.topology))
        };
        match self.faults.as_str() {
            "all" => return Ok(possible().collect()),
            "none" => return Ok(Vec::new()),
            _ => {}
        }
        let mut faults = Vec::new();
        for name in self.faults.split(',').map(str::trim) {
            let fault = possible().find(|fault| fault.name() == name);
            let names: Vec<&str> = possible().map(Fault::name).collect();
            ensure!(
                fault.is_some(),
                "there is no fault {name:?} on this topology, but {}",
                names.join(", ")
            );
            faults.extend(fault);
        }
        Ok(faults)
    }
}
