//! The common parts of both tiers' URLs: login, hosts with ports, path and query.
//!
//! The parser is written by hand, since common URL parsers know no list of hosts. Nor do they know
//! which part of an invalid text may hold a password.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::{
    AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode,
};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::secret::{HIDDEN, Secret};
use crate::{ColdUrl, HotUrl, WebUrl};

/// The characters that a path in a URL escapes.
const IN_PATH: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#').add(b'@');

/// An invalid URL. The error holds nothing of the text, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URL is not usable: expected {expected}")]
pub struct UrlError {
    /// The expected form.
    pub expected: String,
}

pub(crate) fn expected(what: impl Into<String>) -> UrlError {
    UrlError {
        expected: what.into(),
    }
}

/// A host and its port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// A name or an address. An IPv6 address has no brackets here.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// A user and a password.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Login {
    /// The user. `None` for the server's default user.
    pub user: Option<String>,
    /// The password. `None` to log in without one.
    pub password: Option<Secret>,
}

impl Login {
    /// This login, with `password` in place of its own if there is one.
    pub(crate) fn with(mut self, password: Option<&Secret>) -> Self {
        self.password = password.cloned().or(self.password);
        self
    }
}

/// `user:***@`, or nothing.
impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            utf8_percent_encode(user, NON_ALPHANUMERIC).fmt(f)?;
        }
        if self.password.is_some() {
            write!(f, ":{HIDDEN}")?;
        }
        if self.user.is_some() || self.password.is_some() {
            f.write_str("@")?;
        }
        Ok(())
    }
}

/// A URL's parts after `scheme://`.
pub(crate) struct Parts {
    pub(crate) login: Login,
    /// Empty when the authority is empty, as in `redis+unix:///path`.
    pub(crate) nodes: Vec<Node>,
    /// The path without its first slash, unescaped.
    pub(crate) path: String,
    /// The parameters in their order, unescaped.
    pub(crate) query: Vec<(String, String)>,
}

impl Parts {
    pub(crate) fn parse(rest: &str, default_port: u16) -> Result<Self, UrlError> {
        if rest.contains('#') {
            return Err(expected(
                "no \"#\"; write %23 for one in a name or password",
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let nodes = match hosts {
            "" => Vec::new(),
            hosts => hosts
                .split(',')
                .map(|host| node(host, default_port))
                .collect::<Result<_, _>>()?,
        };
        Ok(Self {
            login: Login {
                user: filled(decode(user)?),
                password: filled(decode(password)?).map(Secret::new),
            },
            nodes,
            path: decode(path)?,
            query: query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(pair)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The only host.
    pub(crate) fn one_node(&mut self) -> Result<Node, UrlError> {
        match (self.nodes.pop(), self.nodes.is_empty()) {
            (Some(node), true) => Ok(node),
            _ => Err(expected("one host after \"://\" or \"@\"")),
        }
    }

    /// Rejects all parameters that are left. Settings have keys of their own.
    pub(crate) fn no_query(&self) -> Result<(), UrlError> {
        match self.query.is_empty() {
            true => Ok(()),
            false => Err(expected(
                "no such parameter after \"?\"; time-outs, TLS and pools have keys of their own",
            )),
        }
    }

    /// Takes a parameter out of the query.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.query.iter().position(|(key, _)| key == name)?;
        Some(self.query.remove(at).1)
    }
}

/// Hides the secrets of a text under the key of a URL, however the URL is misspelt. A path of SQLite
/// is no secret, and the user needs it to find the mistake.
pub(crate) fn redact(text: &str) -> String {
    if let Ok(url) = text.parse::<HotUrl>() {
        return url.to_string();
    }
    if let Ok(url) = text.parse::<ColdUrl>() {
        return url.to_string();
    }
    let is_scheme = |s: &str| {
        s.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'-')
    };
    match text.split_once("://") {
        _ if text.starts_with("sqlite:") => text.to_owned(),
        Some((scheme, rest)) if is_scheme(scheme) => match rest.rsplit_once('@') {
            // The path of a web address can be a secret, too.
            Some((_, hosts)) if !rest.contains('?') && !scheme.starts_with("http") => {
                format!("{scheme}://{HIDDEN}@{hosts}")
            }
            _ => format!("{scheme}://{HIDDEN}"),
        },
        _ => HIDDEN.to_owned(),
    }
}

/// Any text as a message can show it. A URL may stand under any key by mistake.
pub(crate) fn without_password(text: &str) -> Cow<'_, str> {
    if text.contains("://") && !text.starts_with("sqlite:") {
        Cow::Owned(redact(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// A path with the escapes that it needs inside a URL.
pub(crate) fn escaped(path: &str) -> impl fmt::Display {
    utf8_percent_encode(path, IN_PATH)
}

/// The number of a Redis database. An empty text means 0.
pub(crate) fn database(text: &str) -> Result<u32, UrlError> {
    match text {
        "" => Ok(0),
        number => number
            .parse()
            .map_err(|_| expected("the number of a database, such as /0")),
    }
}

/// Some text, if it is not empty.
pub(crate) fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn node(text: &str, default_port: u16) -> Result<Node, UrlError> {
    let bad_host = || {
        expected("a host name, an address, or an IPv6 address in brackets, each perhaps with :PORT")
    };
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(bad_host)?;
            let _: std::net::Ipv6Addr = host.parse().map_err(|_| bad_host())?;
            (
                host,
                if port.is_empty() {
                    None
                } else {
                    Some(port.strip_prefix(':').ok_or_else(bad_host)?)
                },
            )
        }
        None => {
            let (host, port) = text
                .split_once(':')
                .map_or((text, None), |(host, port)| (host, Some(port)));
            let is_name = |host: &str| {
                host.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
            };
            if host.is_empty() || !is_name(host) {
                return Err(bad_host());
            }
            (host, port)
        }
    };
    let port = match port {
        None => default_port,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| expected("a port from 1 to 65535 after the host"))?,
    };
    Ok(Node {
        host: host.to_owned(),
        port,
    })
}

fn pair(text: &str) -> Result<(String, String), UrlError> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    Ok((decode(name)?, decode(value)?))
}

fn decode(text: &str) -> Result<String, UrlError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(Cow::into_owned)
        .map_err(|_| expected("UTF-8 behind its % escapes"))
}

/// URLs are text. When they are written, they hide their passwords.
macro_rules! urls {
    ($($url:ty),+) => {$(
        impl Serialize for $url {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $url {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(D::Error::custom)
            }
        }
    )+};
}
urls!(HotUrl, ColdUrl, WebUrl);
