//! The embedded mode: one game server with everything inside it, which is killed, stopped, closed and opened again.

use std::path::Path;

use anyhow::{Result, bail};

use super::args::Args;
use super::report::Report;

/// One run of the embedded mode.
///
/// # Errors
/// The run itself failed.
pub async fn run(_args: &Args, _exe: &Path) -> Result<Report> {
    bail!("not yet")
}
