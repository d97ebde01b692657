//! The location of the cold tier.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::url::{Login, Node, Parts, UrlError, escaped, expected};

/// All forms of the URL, for messages.
pub(crate) const COLD_URLS: &str = "mysql://USER@HOST:PORT/DATABASE, mysql://USER@/DATABASE?socket=PATH (both also mariadb:), sqlite:PATH or sqlite::memory:";

/// The location of the cold tier. `Display` and `Debug` show the URL with its password hidden.
///
/// ```
/// # use storage_config as storage_sdk;
/// use storage_sdk::ColdUrl;
///
/// let url: ColdUrl = "mysql://game:secret@db.example/game".parse()?;
/// assert_eq!(url.to_string(), "mysql://game:***@db.example:3306/game");
/// # Ok::<(), storage_config::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum ColdUrl {
    /// `mysql://[USER[:PASSWORD]@]HOST[:3306]/DATABASE` or
    /// `mysql://[USER[:PASSWORD]@]/DATABASE?socket=PATH`. `mariadb://` means the same.
    Mysql {
        /// The address of the server.
        address: MysqlAddress,
        /// The user and the password.
        login: Login,
        /// The name of the database (schema).
        database: String,
    },
    /// `sqlite:PATH`. The path is taken as it stands, relative to the working directory. A missing
    /// file is created.
    SqliteFile(PathBuf),
    /// `sqlite::memory:`. The data ends with the process.
    SqliteMemory,
}

/// The address of a MySQL or MariaDB server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MysqlAddress {
    /// A TCP port.
    Tcp(Node),
    /// A socket of this machine.
    Socket(PathBuf),
}

impl ColdUrl {
    /// The login of the URL. The settings can name another password.
    pub(crate) fn login(&self) -> Login {
        match self {
            Self::Mysql { login, .. } => login.clone(),
            Self::SqliteFile(_) | Self::SqliteMemory => Login::default(),
        }
    }
}

impl FromStr for ColdUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            return sqlite(path.strip_prefix("//").unwrap_or(path));
        }
        match text.split_once("://") {
            Some(("mysql" | "mariadb", rest)) => mysql(rest),
            _ => Err(expected(COLD_URLS)),
        }
    }
}

fn sqlite(path: &str) -> Result<ColdUrl, UrlError> {
    match path {
        ":memory:" => Ok(ColdUrl::SqliteMemory),
        path if path.is_empty() || path.contains('?') => Err(expected(
            "sqlite:PATH without parameters, or sqlite::memory:",
        )),
        path => Ok(ColdUrl::SqliteFile(PathBuf::from(path))),
    }
}

fn mysql(rest: &str) -> Result<ColdUrl, UrlError> {
    let mut parts = Parts::parse(rest, 3306)?;
    let socket = parts.take("socket");
    parts.no_query()?;
    if parts.path.is_empty() || parts.path.contains('/') {
        return Err(expected(
            "the database's name after the host: mysql://USER@HOST:PORT/DATABASE",
        ));
    }
    let address = match socket {
        None => MysqlAddress::Tcp(parts.one_node()?),
        Some(path) if parts.nodes.is_empty() && !path.is_empty() => {
            MysqlAddress::Socket(PathBuf::from(path))
        }
        Some(_) => return Err(expected("either a host or ?socket=PATH")),
    };
    Ok(ColdUrl::Mysql {
        address,
        login: parts.login,
        database: parts.path,
    })
}

impl fmt::Display for ColdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mysql {
                address: MysqlAddress::Tcp(node),
                login,
                database,
            } => {
                write!(f, "mysql://{login}{node}/{}", escaped(database))
            }
            Self::Mysql {
                address: MysqlAddress::Socket(path),
                login,
                database,
            } => {
                write!(
                    f,
                    "mysql://{login}/{}?socket={}",
                    escaped(database),
                    path.display()
                )
            }
            Self::SqliteFile(path) => write!(f, "sqlite:{}", path.display()),
            Self::SqliteMemory => f.write_str("sqlite::memory:"),
        }
    }
}

impl fmt::Debug for ColdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
