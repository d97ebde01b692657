//! The options of the program.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use storage_documents::history::History;
use storage_documents::list::SIZE_MAX;
use storage_sdk::settings::parse_duration;

/// The items of a page, unless an option says otherwise.
pub const PAGE_SIZE: usize = 100;

use crate::browsers::Origin;
use crate::proxies::PublicUrl;

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
    /// The most connections at once. A further one takes the place of the oldest without a token, or
    /// waits. There are fewer if the process may open few files
    #[arg(long, value_name = "N", default_value = "4096")]
    pub connections: NonZeroU32,
    /// How long a connection stays open without a request. A proxy should let go of it earlier. The
    /// first request has to come within 10s
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = idle)]
    pub idle: Duration,
    /// Speak TLS with the certificates of this file (PEM), the server's first. They are read again
    /// within a minute when they change
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Let pages of this origin use the gateway, such as `https://game.example`, or * for all. Can be
    /// repeated
    #[arg(long, value_name = "ORIGIN")]
    pub origin: Vec<Origin>,
    /// The URL of the gateway behind a proxy, such as `https://game.example/storage`. Location and
    /// Link begin with it
    #[arg(long, value_name = "URL")]
    pub public_url: Option<PublicUrl>,
    /// How long the gateway goes on to serve after SIGTERM, while /ready is 503
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub drain: Duration,
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
    text.parse()
        .ok()
        .filter(|size| (1..=SIZE_MAX).contains(size))
        .ok_or_else(|| format!("send a page of 1 to {SIZE_MAX} items"))
}

/// The shortest time without a request. A client needs some time to send one.
const IDLE_MIN: Duration = Duration::from_millis(100);

/// Reads the time that a connection stays open without a request.
fn idle(text: &str) -> Result<Duration, String> {
    let idle = parse_duration(text)?;
    if idle < IDLE_MIN {
        return Err("no request could come in so short a time; write 100ms or more".to_owned());
    }
    Ok(idle)
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
    let age = age
        .map(parse_duration)
        .transpose()
        .map_err(|error| format!("the age: {error}"))?;
    History::new(prefix, versions, age).map_err(|error| error.to_string())
}
