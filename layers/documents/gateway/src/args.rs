//! The options of the program.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Documents over HTTP.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "document-gateway", version)]
pub struct Args {
    /// Serve from this file alone, without any server
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "config",
        required_unless_present = "config"
    )]
    pub embedded: Option<PathBuf>,
    /// Serve from the tiers that this settings file names
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The address to listen on. Other machines reach it only if you name another host
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// The file with the token that callers send as `Authorization: Bearer TOKEN`. Without it, one
    /// is drawn and printed
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The first name of the world, whose documents are served
    #[arg(long, default_value = "documents")]
    pub app: String,
    /// The second name of the world
    #[arg(long, default_value = "main")]
    pub region: String,
}
