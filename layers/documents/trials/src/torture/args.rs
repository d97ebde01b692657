//! The arguments of a run.

use std::path::PathBuf;

use anyhow::Result;
use storage_tests::torture::args::{Args as CoreArgs, Topology};
use storage_tests::torture::faults::Fault;

/// Writes documents through two gateways, injects faults, and compares the landed feed and the
/// stored documents with the answers.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Decides the play and the faults
    #[arg(long)]
    pub seed: u64,
    /// The seconds for which faults are injected
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// `all`, `none`, or names of faults of the tiers and the workers, separated by commas.
    /// Gateways and the sink break in any case
    #[arg(long, default_value = "all")]
    pub faults: String,
    /// Keep histories and logs in this folder
    #[arg(long, value_name = "FOLDER")]
    pub keep: Option<PathBuf>,
}

impl Args {
    /// The same arguments for the parts that every run of the storage has.
    #[must_use]
    pub fn core(&self) -> CoreArgs {
        CoreArgs {
            seed: self.seed,
            seconds: self.seconds,
            faults: self.faults.clone(),
            seldom: false,
            topology: Topology::Single,
            json: None,
            keep: self.keep.clone(),
        }
    }

    /// The faults of the tiers and of the workers. None of them takes acknowledged changes away, so
    /// that the oracle can ask for each of them. A Redis that comes back older is a trial of the
    /// core.
    ///
    /// # Errors
    /// No fault has the name.
    pub fn faults(&self) -> Result<Vec<Fault>> {
        let mut faults = self.core().faults()?;
        faults.retain(|fault| {
            !matches!(
                fault,
                Fault::GameKill
                    | Fault::GamePause
                    | Fault::GameReopen
                    | Fault::RedisRewind
                    | Fault::RedisWipe
                    | Fault::DbPoison
            )
        });
        Ok(faults)
    }
}
