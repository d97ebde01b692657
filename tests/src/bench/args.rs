//! The arguments of a run.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::case::Case;
use super::cases;
use super::scale::Scale;

/// Measures every path beside its limit or its alternative, on a Redis and a MariaDB that it
/// starts.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Short repetitions and small worlds. All cases take at most 4 minutes, with less certainty
    #[arg(long)]
    pub quick: bool,
    /// Only cases whose names hold one of these texts, separated by commas
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// The number of partitions of each case, instead of the default
    #[arg(long, value_name = "COUNT")]
    pub partitions: Option<u32>,
    /// Print the names and the comparisons of all cases, and measure nothing
    #[arg(long)]
    pub list: bool,
    /// The file for the results as JSON, besides the table on the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write docs/benchmarks.md and its charts, below the present folder
    #[arg(long)]
    pub docs: bool,
}

impl Args {
    /// The scale of the run.
    #[must_use]
    pub fn scale(&self) -> Scale {
        if self.quick {
            Scale::Quick
        } else {
            Scale::Full
        }
    }

    /// The command with these arguments.
    #[must_use]
    pub fn command(&self) -> String {
        let mut command = "cargo run --release -p storage-tests --bin bench --".to_owned();
        if self.quick {
            command.push_str(" --quick");
        }
        if let Some(only) = &self.only {
            command.push_str(&format!(" --only {only}"));
        }
        if let Some(partitions) = self.partitions {
            command.push_str(&format!(" --partitions {partitions}"));
        }
        if self.docs {
            command.push_str(" --docs");
        }
        command
    }

    /// The requested cases.
    ///
    /// # Errors
    /// No case has the name.
    pub fn cases(&self) -> Result<Vec<Box<dyn Case>>> {
        let mut cases = cases::all();
        if let Some(only) = &self.only {
            let texts: Vec<&str> = only.split(',').map(str::trim).collect();
            cases.retain(|case| texts.iter().any(|text| case.plan().name.contains(text)));
            ensure!(
                !cases.is_empty(),
                "no case has a name with {only:?}; see --list"
            );
        }
        Ok(cases)
    }
}
