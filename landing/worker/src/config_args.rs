//! The option `--config`, which most subcommands have.

use std::path::PathBuf;

/// The source of the settings.
#[derive(Debug, Clone, clap::Args)]
pub struct ConfigArgs {
    /// The settings file. Without it, only the environment counts: `STORAGE__REDIS__URL` and
    /// `STORAGE__SQL__URL` are enough
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}
