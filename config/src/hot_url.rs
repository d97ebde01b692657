//! The location of the hot tier.

use std::fmt;
use std::str::FromStr;

use crate::secret::HIDDEN;
use crate::url::{Login, Node, Parts, UrlError, database, escaped, expected, filled};

/// All forms of the URL, for messages.
pub(crate) const HOT_URLS: &str = "redis://HOST:PORT/DB, rediss://… (TLS), redis+unix:///PATH, redis-sentinel://HOST,HOST/MASTER/DB, \
                                   redis-cluster://HOST,HOST (both also rediss-…) or memory:";

/// The location of the hot tier. `Display` and `Debug` show the URL with its password hidden.
///
/// ```
/// # use storage_config as storage_sdk;
/// use storage_sdk::HotUrl;
///
/// let url: HotUrl = "rediss-cluster://game:secret@a,b:7001,[::1]:7002".parse()?;
/// assert_eq!(url.to_string(), "rediss-cluster://game:***@a:6379,b:7001,[::1]:7002");
/// # Ok::<(), storage_config::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum HotUrl {
    /// `memory:`. The engine inside this process. The data ends with the process.
    Memory,
    /// `redis://[USER:PASSWORD@]HOST[:6379][/DB]`, with TLS `rediss://`. One server.
    Server {
        /// Host and port.
        node: Node,
        /// Whether the connection is encrypted and the server's certificate is checked.
        tls: bool,
        /// The user and the password.
        login: Login,
        /// The number of the database.
        database: u32,
    },
    /// `redis+unix:///PATH[?db=DB&user=USER&pass=PASSWORD]`. One server on this machine.
    Unix {
        /// The socket's absolute path.
        path: String,
        /// The user and the password.
        login: Login,
        /// The number of the database.
        database: u32,
    },
    /// `redis-sentinel://[USER:PASSWORD@]HOST[:26379],…/MASTER[/DB][?sentinel-user=USER&sentinel-pass=PASSWORD]`,
    /// with TLS `rediss-sentinel://`. The server that Sentinels call the master.
    Sentinel {
        /// The Sentinels. Name all of them, since the address that most of them give is believed.
        sentinels: Vec<Node>,
        /// The name under which the Sentinels know the master.
        master: String,
        /// Whether connections are encrypted, to Sentinels too.
        tls: bool,
        /// The user and the password at the server.
        login: Login,
        /// The user and the password at the Sentinels. Empty if they ask for no password.
        sentinel_login: Login,
        /// The number of the database.
        database: u32,
    },
    /// `redis-cluster://[USER:PASSWORD@]HOST[:6379],…`, with TLS `rediss-cluster://`. A cluster has
    /// database 0 alone.
    Cluster {
        /// The nodes to ask for the others. Name several, since one may be down.
        seeds: Vec<Node>,
        /// Whether connections are encrypted.
        tls: bool,
        /// The user and the password at every node.
        login: Login,
    },
}

impl HotUrl {
    /// Whether connections are encrypted.
    #[must_use]
    pub fn tls(&self) -> bool {
        match self {
            Self::Memory | Self::Unix { .. } => false,
            Self::Server { tls, .. } | Self::Sentinel { tls, .. } | Self::Cluster { tls, .. } => {
                *tls
            }
        }
    }

    /// The login of the URL. The settings can name another password.
    pub(crate) fn login(&self) -> Login {
        match self {
            Self::Memory => Login::default(),
            Self::Server { login, .. }
            | Self::Unix { login, .. }
            | Self::Sentinel { login, .. }
            | Self::Cluster { login, .. } => login.clone(),
        }
    }

    /// The number of the database.
    #[must_use]
    pub fn database(&self) -> u32 {
        match self {
            Self::Memory | Self::Cluster { .. } => 0,
            Self::Server { database, .. }
            | Self::Unix { database, .. }
            | Self::Sentinel { database, .. } => *database,
        }
    }
}

impl FromStr for HotUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| expected(HOT_URLS))?;
        let tls = scheme.starts_with("rediss");
        match scheme {
            "redis" | "rediss" => server(rest, tls),
            "redis+unix" => unix(rest),
            "redis-sentinel" | "rediss-sentinel" => sentinel(rest, tls),
            "redis-cluster" | "rediss-cluster" => cluster(rest, tls),
            _ => Err(expected(HOT_URLS)),
        }
    }
}

fn server(rest: &str, tls: bool) -> Result<HotUrl, UrlError> {
    let mut parts = Parts::parse(rest, 6379)?;
    parts.no_query()?;
    Ok(HotUrl::Server {
        node: parts.one_node()?,
        tls,
        database: database(&parts.path)?,
        login: parts.login,
    })
}

fn unix(rest: &str) -> Result<HotUrl, UrlError> {
    let mut parts = Parts::parse(rest, 0)?;
    let (number, user, password) = (parts.take("db"), parts.take("user"), parts.take("pass"));
    parts.no_query()?;
    if !parts.nodes.is_empty() || parts.login != Login::default() || parts.path.is_empty() {
        return Err(expected(
            "redis+unix:///PATH with three slashes, and ?db=, &user= and &pass= where needed",
        ));
    }
    let login = Login {
        user: user.and_then(filled),
        password: password.and_then(filled).map(crate::Secret::new),
    };
    Ok(HotUrl::Unix {
        path: format!("/{}", parts.path),
        login,
        database: database(&number.unwrap_or_default())?,
    })
}

fn sentinel(rest: &str, tls: bool) -> Result<HotUrl, UrlError> {
    let mut parts = Parts::parse(rest, 26379)?;
    let (user, password) = (parts.take("sentinel-user"), parts.take("sentinel-pass"));
    parts.no_query()?;
    let (master, number) = parts.path.split_once('/').unwrap_or((&parts.path, ""));
    if parts.nodes.is_empty() || master.is_empty() {
        return Err(expected(
            "redis-sentinel://HOST,HOST/MASTER/DB with at least one host and the master's name",
        ));
    }
    if !master
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    {
        return Err(expected(
            "a master's name of letters, digits, '-', '.' and '_', which are all that Sentinels take",
        ));
    }
    let (master, database) = (master.to_owned(), database(number)?);
    let sentinel_login = Login {
        user: user.and_then(filled),
        password: password.and_then(filled).map(crate::Secret::new),
    };
    Ok(HotUrl::Sentinel {
        sentinels: parts.nodes,
        master,
        tls,
        login: parts.login,
        sentinel_login,
        database,
    })
}

fn cluster(rest: &str, tls: bool) -> Result<HotUrl, UrlError> {
    let parts = Parts::parse(rest, 6379)?;
    parts.no_query()?;
    if parts.nodes.is_empty() {
        return Err(expected("redis-cluster://HOST,HOST with at least one host"));
    }
    if database(&parts.path)? != 0 {
        return Err(expected(
            "no database after the hosts, since a cluster has database 0 alone",
        ));
    }
    Ok(HotUrl::Cluster {
        seeds: parts.nodes,
        tls,
        login: parts.login,
    })
}

impl fmt::Display for HotUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls() { "s" } else { "" };
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Server {
                node,
                login,
                database,
                ..
            } => write!(f, "redis{s}://{login}{node}/{database}"),
            Self::Unix {
                path,
                login,
                database,
            } => {
                write!(
                    f,
                    "redis+unix://{}?db={database}{}",
                    escaped(path),
                    parameters(login, "&user", "&pass")
                )
            }
            Self::Sentinel {
                sentinels,
                master,
                login,
                sentinel_login,
                database,
                ..
            } => {
                let parameters = parameters(sentinel_login, "&sentinel-user", "&sentinel-pass")
                    .replacen('&', "?", 1);
                write!(
                    f,
                    "redis{s}-sentinel://{login}{}/{master}/{database}{parameters}",
                    list(sentinels)
                )
            }
            Self::Cluster { seeds, login, .. } => {
                write!(f, "redis{s}-cluster://{login}{}", list(seeds))
            }
        }
    }
}

impl fmt::Debug for HotUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A login as parameters of these names, with the password hidden.
fn parameters(login: &Login, user: &str, password: &str) -> String {
    let escaped =
        |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
    let user = login
        .user
        .as_ref()
        .map(|text| format!("{user}={}", escaped(text)))
        .unwrap_or_default();
    let password = login
        .password
        .as_ref()
        .map(|_| format!("{password}={HIDDEN}"))
        .unwrap_or_default();
    user + &password
}

fn list(nodes: &[Node]) -> String {
    nodes
        .iter()
        .map(Node::to_string)
        .collect::<Vec<_>>()
        .join(",")
}

/// The forms of a URL that names one server, for messages.
pub(crate) const ONE_SERVER: &str =
    "one server: redis://HOST:PORT/DB, rediss://… (TLS) or redis+unix:///PATH";

/// The fault of a text that does not name one server, without Sentinels and cluster.
pub(crate) fn fault_of_server(text: &str) -> Option<UrlError> {
    match text.parse() {
        Ok(HotUrl::Server { .. } | HotUrl::Unix { .. }) => None,
        Ok(_) => Some(expected(ONE_SERVER)),
        Err(fault) => Some(fault),
    }
}
