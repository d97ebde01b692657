//! The arguments of a run.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::case::Case;
use super::scale::Scale;
use super::suite::Suite;

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
    /// Write the page of the results and its charts, below the folder docs of the present folder
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

    /// The command that runs a suite with these arguments.
    #[must_use]
    pub fn command(&self, suite: &Suite) -> String {
        let mut command = suite.command.to_owned();
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

    /// The requested cases of a suite.
    ///
    /// # Errors
    /// No case has the name.
    pub fn cases(&self, suite: &Suite) -> Result<Vec<Box<dyn Case>>> {
        let mut cases = (suite.cases)();
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
