//! The options of the program.

use std::net::SocketAddr;
use std::path::PathBuf;

use storage_documents::history::History;
use storage_documents::list::SIZE_MAX;

/// The items of a page, unless an option says otherwise.
pub const PAGE_SIZE: usize = 100;

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
    /// Keep versions of the paths below a prefix, for GET with ?revision=: PREFIX=VERSIONS or
    /// PREFIX=VERSIONS,AGE such as guilds/=20,30d. Can be repeated
    #[arg(long, value_name = "PREFIX=VERSIONS[,AGE]", value_parser = history)]
    pub history: Vec<History>,
    /// The items of a page of a list, unless its request says size=
    #[arg(long, value_name = "ITEMS", default_value_t = PAGE_SIZE, value_parser = page_size)]
    pub page_size: usize,
    /// The first name of the world, whose documents are served
    #[arg(long, default_value = "documents")]
    pub app: String,
    /// The second name of the world
    #[arg(long, default_value = "main")]
    pub region: String,
}

/// Reads the items of a page.
fn page_size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok();
    let size = size.filter(|size| (1..=SIZE_MAX).contains(size));
    size.ok_or_else(|| format!("send a page of 1 to {SIZE_MAX} items"))
}

/// Reads `PREFIX=VERSIONS` or `PREFIX=VERSIONS,AGE`.
fn history(text: &str) -> Result<History, String> {
    let form = "write PREFIX=VERSIONS or PREFIX=VERSIONS,AGE, such as guilds/=20,30d";
    let (prefix, kept) = text.rsplit_once('=').ok_or(form)?;
    let (versions, age) = match kept.split_once(',') {
        Some((versions, age)) => (versions, Some(age)),
        None => (kept, None),
    };
    let versions = versions.parse().map_err(|_| form)?;
    let age = age.map(humantime::parse_duration).transpose();
    let age = age.map_err(|error| format!("the age: {error}"))?;
    History::new(prefix, versions, age).map_err(|error| error.to_string())
}
