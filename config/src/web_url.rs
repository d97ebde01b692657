//! The address of a web service.

use std::fmt;
use std::str::FromStr;

use crate::url::{Parts, UrlError, expected};

/// The form of the URL, for messages.
pub(crate) const WEB_URLS: &str = "http://HOST:PORT/PATH or https://… (TLS), without a login";

/// `http://HOST[:80][/PATH][?QUERY]` or `https://HOST[:443][/PATH][?QUERY]`.
///
/// Path and query can hold a secret, so `Display` and `Debug` hide them. Only [`WebUrl::expose`]
/// returns them.
///
/// ```
/// # mod storage_sdk { pub mod settings { pub use storage_config::*; } }
/// use storage_sdk::settings::WebUrl;
///
/// let url: WebUrl = "https://hooks.example/in/0a1b2c".parse()?;
/// assert_eq!(url.to_string(), "https://hooks.example:443/***");
/// # Ok::<(), storage_config::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct WebUrl {
    text: String,
    shown: String,
}

impl WebUrl {
    /// The URL itself, for the client that calls it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }
}

impl FromStr for WebUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| expected(WEB_URLS))?;
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return Err(expected(WEB_URLS)),
        };
        let mut parts = Parts::parse(rest, port)?;
        if parts.login.user.is_some() || parts.login.password.is_some() {
            return Err(expected(
                "no login in the URL; the header Authorization has a key of its own, authorization",
            ));
        }
        let node = parts.one_node()?;
        let is_bare = parts.path.is_empty() && parts.query.is_empty();
        let hidden = if is_bare { "" } else { "/***" };
        Ok(Self {
            text: text.to_owned(),
            shown: format!("{scheme}://{node}{hidden}"),
        })
    }
}

impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}
