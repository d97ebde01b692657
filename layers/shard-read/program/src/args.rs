//! Options of several commands.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use storage_sdk::Settings;
use storage_sdk::layer::ColdTier;
use storage_sdk::layer::claims::{ClaimStore, ServiceName};
use storage_sdk::settings::parse_duration;
use storage_shard_read::owners::Owners;
use storage_shard_read::{ClientBuilder, Schema as _};

use crate::exit::{self, Exit};

/// The database of the claims.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DatabaseArgs {
    /// The settings file of the storage, of which the database is used. Without it, only the environment counts:
    /// `STORAGE__SQL__URL` is enough
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The file of an embedded storage, in place of a database server
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub(crate) embedded: Option<PathBuf>,
}

impl DatabaseArgs {
    /// The settings.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        Ok(match (&self.embedded, &self.config) {
            (Some(file), _) => Settings::embedded(file),
            (None, Some(file)) => Settings::load(file)?,
            (None, None) => Settings::from_env()?,
        })
    }

    /// The database, open.
    pub(crate) async fn open(&self) -> anyhow::Result<ColdTier> {
        Ok(ColdTier::open_for_layers(&self.settings()?).await?)
    }
}

/// The claims of a database.
pub(crate) fn claims(cold: &ColdTier) -> anyhow::Result<&dyn ClaimStore> {
    let none = || exit::error(Exit::Refused, "this database has no claims");
    cold.layers().claims().ok_or_else(none)
}

/// The service that is meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServiceArgs {
    /// The name of the service, as its schema has it
    #[arg(long, value_name = "NAME", default_value = Owners::NAME, value_parser = ServiceName::new)]
    pub(crate) service: ServiceName,
}

/// How servers are asked.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ClientArgs {
    /// The file with the token that servers ask for
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Speak TLS, and trust servers with a certificate of an authority in this file (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The client's own certificate (PEM), for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "tls_ca")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

impl ClientArgs {
    /// A client with these options.
    pub(crate) fn apply(
        &self,
        builder: ClientBuilder<Owners>,
    ) -> anyhow::Result<ClientBuilder<Owners>> {
        let known = match &self.token_file {
            Some(file) => builder.token(token(file)?),
            None => builder,
        };
        let encrypted = match &self.tls_ca {
            Some(file) => known.tls(text(file)?),
            None => known,
        };
        Ok(match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => encrypted.identity(text(certificate)?, text(key)?),
            _ => encrypted,
        })
    }
}

/// The longest time: a year. The clock can't represent much later moments.
const TIME_MAX: Duration = Duration::from_hours(365 * 24);

/// Reads a time such as 30s.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)
        .map_err(|error| format!("{error}: give a time such as 30s or 5min"))?;
    if time.is_zero() {
        return Err("give more than 0, such as 30s or 5min".to_owned());
    }
    Ok(time.min(TIME_MAX))
}

/// Checks an address of a server, such as 10.0.0.1:7000.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let is_host = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
    if is_host && port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Ok(text.to_owned());
    }
    Err("write HOST:PORT, such as 10.0.0.1:7000".to_owned())
}

/// Does a command's work until its deadline. Then drops the work.
pub(crate) async fn within<T>(
    deadline: Duration,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let late = |_| {
        exit::error(
            Exit::Late,
            format!("the deadline of {deadline:?} has passed (--deadline)"),
        )
    };
    tokio::time::timeout(deadline, work).await.map_err(late)?
}

/// The content of a file of text.
pub(crate) fn text(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// The token in a file, without the end of its line.
pub(crate) fn token(file: &Path) -> anyhow::Result<String> {
    let token = text(file)?.trim().to_owned();
    if token.is_empty() {
        let message = format!("{}: there is no token in it", file.display());
        return Err(exit::error(Exit::Usage, message));
    }
    Ok(token)
}
