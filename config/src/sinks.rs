//! The sections `sinks.NAME`: receivers of the feed's landed events.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use storage_model::SinkName;

use crate::entry::{Entry, Section, any, between, matching};
use crate::error::{ConfigError, Place};
use crate::hot_url::HotUrl;
use crate::secret::Secret;
use crate::url::{UrlError, redact};
use crate::value::{Raw, Unread, Value};
use crate::web_url::{WEB_URLS, WebUrl};

/// One sink. [`SinkSettings::target`] tells where its events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkSettings {
    /// Where the events go. Required.
    pub kind: Option<SinkKind>,
    /// Kind `File`: the folder of the files, one for each partition. Required there. The worker
    /// creates a missing folder.
    pub dir: Option<PathBuf>,
    /// Kind `Stream`: the Redis of the streams. Kind `Webhook`: the address that is called. Required
    /// for both.
    pub url: Option<SinkUrl>,
    /// Kind `Stream`: the start of the streams' keys, before the number of the partition. 1 to 64
    /// bytes without control characters. Default: `events:`.
    pub key_prefix: String,
    /// Kind `Stream`: about how many events of a stream Redis keeps. 0 to 4294967295. Default: 0,
    /// all of them. Redis forgets the oldest, also if nobody has read them.
    pub keep: u32,
    /// Kinds `Stream` and `Webhook`: how long one call may take. 100 ms to 1 min. Default: 10 s.
    /// After that the events are sent again.
    pub timeout: Duration,
    /// Kind `Webhook`: the value of the header `Authorization`, such as `Bearer …`. Default: none.
    pub authorization: Option<Secret>,
    /// Kind `Webhook`: the HTTP proxy that the calls go through. Default: none (empty in a file).
    /// Proxies of the environment, such as `http_proxy`, are never used.
    pub proxy: Option<WebUrl>,
}

/// The kind of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkKind {
    /// A file of JSON lines for each partition.
    File,
    /// A stream of Redis for each partition.
    Stream,
    /// A web service that gets JSON.
    Webhook,
}

/// The address of a sink. `Display` and `Debug` hide passwords and paths.
#[derive(Clone, PartialEq, Eq)]
pub enum SinkUrl {
    /// A Redis.
    Redis(HotUrl),
    /// A web service.
    Web(WebUrl),
}

/// Where the events of a sink go, with all that this kind needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkTarget {
    /// Files of JSON lines.
    File {
        /// Their folder.
        dir: PathBuf,
    },
    /// Streams of Redis.
    Stream {
        /// The Redis.
        url: HotUrl,
        /// The start of the keys.
        key_prefix: String,
        /// About how many events of a stream are kept. 0 for all.
        keep: u32,
        /// How long one call may take.
        timeout: Duration,
    },
    /// A web service.
    Webhook {
        /// Its address.
        url: WebUrl,
        /// The value of the header `Authorization`.
        authorization: Option<Secret>,
        /// The proxy that the calls go through.
        proxy: Option<WebUrl>,
        /// How long one call may take.
        timeout: Duration,
    },
}

impl Default for SinkSettings {
    fn default() -> Self {
        Self {
            kind: None,
            dir: None,
            url: None,
            key_prefix: "events:".to_owned(),
            keep: 0,
            timeout: Duration::from_secs(10),
            authorization: None,
            proxy: None,
        }
    }
}

impl Section for SinkSettings {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        let (tenth, minute) = (Duration::from_millis(100), Duration::from_mins(1));
        vec![
            Entry::new("kind", &mut self.kind, any(SinkKind::KIND)),
            Entry::new("dir", &mut self.dir, any("the path of a folder")),
            Entry::new("url", &mut self.url, any(SinkUrl::KIND)),
            Entry::new(
                "key_prefix",
                &mut self.key_prefix,
                matching("1 to 64 bytes without control characters", is_prefix),
            ),
            Entry::new("keep", &mut self.keep, between(0, u32::MAX)),
            Entry::new("timeout", &mut self.timeout, between(tenth, minute)),
            Entry::new(
                "authorization",
                &mut self.authorization,
                matching("text of visible ASCII characters and blanks", is_header),
            ),
            Entry::new("proxy", &mut self.proxy, any(WEB_URLS)),
        ]
    }
}

#[expect(clippy::ptr_arg, reason = "a rule gets the type of its setting")]
fn is_prefix(prefix: &String) -> bool {
    (1..=64).contains(&prefix.len()) && !prefix.chars().any(char::is_control)
}

fn is_header(value: &Option<Secret>) -> bool {
    let is_plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    value
        .as_ref()
        .is_none_or(|secret| secret.expose().bytes().all(is_plain))
}

impl SinkSettings {
    /// Where the events of a sink of this name go.
    ///
    /// # Errors
    /// The kind is missing, or a setting that the kind needs. Or a setting of another kind is there.
    pub fn target(&self, name: &SinkName) -> Result<SinkTarget, ConfigError> {
        let key = |key: &str| format!("sinks.{name}.{key}");
        let missing = |name: &str| missing(key(name));
        let kind = self.kind.ok_or_else(|| missing("kind"))?;
        self.only(kind, name)?;
        match (kind, &self.url) {
            (SinkKind::File, _) => Ok(SinkTarget::File {
                dir: self.dir.clone().ok_or_else(|| missing("dir"))?,
            }),
            (SinkKind::Stream, Some(SinkUrl::Redis(url))) if is_server(url) => {
                Ok(SinkTarget::Stream {
                    url: url.clone(),
                    key_prefix: self.key_prefix.clone(),
                    keep: self.keep,
                    timeout: self.timeout,
                })
            }
            (SinkKind::Webhook, Some(SinkUrl::Web(url))) => Ok(SinkTarget::Webhook {
                url: url.clone(),
                authorization: self.authorization.clone(),
                proxy: self.proxy.clone(),
                timeout: self.timeout,
            }),
            (_, None) => Err(missing("url")),
            (kind, Some(_)) => Err(misfit(key("url"), &self.url.show(), url_of(kind))),
        }
    }

    /// A setting of another kind would do nothing. So it is refused.
    fn only(&self, kind: SinkKind, name: &SinkName) -> Result<(), ConfigError> {
        for (key, value) in self.set_beyond(kind) {
            if let Some(value) = value {
                let expected = format!("no such key, since sinks.{name}.kind is {}", kind.show());
                return Err(misfit(format!("sinks.{name}.{key}"), &value, &expected));
            }
        }
        Ok(())
    }

    /// The keys that another kind has and this one has not, each with its value if it was set.
    fn set_beyond(&self, kind: SinkKind) -> Vec<(&'static str, Option<String>)> {
        let default = Self::default();
        let dir = ("dir", set(&self.dir, &default.dir));
        let url = ("url", set(&self.url, &default.url));
        let key_prefix = ("key_prefix", set(&self.key_prefix, &default.key_prefix));
        let keep = ("keep", set(&self.keep, &default.keep));
        let timeout = ("timeout", set(&self.timeout, &default.timeout));
        let authorization = (
            "authorization",
            set(&self.authorization, &default.authorization),
        );
        let proxy = ("proxy", set(&self.proxy, &default.proxy));
        match kind {
            SinkKind::File => vec![url, key_prefix, keep, timeout, authorization, proxy],
            SinkKind::Stream => vec![dir, authorization, proxy],
            SinkKind::Webhook => vec![dir, key_prefix, keep],
        }
    }
}

/// A value as it is shown, if it is not the default.
fn set<T: Value + PartialEq>(value: &T, default: &T) -> Option<String> {
    (value != default).then(|| value.show())
}

fn missing(key: String) -> ConfigError {
    let variable = format!("STORAGE__{}", key.to_uppercase().replace('.', "__"));
    ConfigError::Missing { key, variable }
}

fn misfit(key: String, value: &str, expected: &str) -> ConfigError {
    ConfigError::Value {
        place: Place::Program,
        key,
        value: value.to_owned(),
        expected: expected.to_owned(),
    }
}

/// The URLs that a kind takes.
fn url_of(kind: SinkKind) -> &'static str {
    match kind {
        SinkKind::Webhook => WEB_URLS,
        SinkKind::File | SinkKind::Stream => {
            "one server: redis://HOST:PORT/DB, rediss://… (TLS) or redis+unix:///PATH"
        }
    }
}

/// Whether a URL names one server. A stream's Redis has no Sentinels and is no cluster.
fn is_server(url: &HotUrl) -> bool {
    matches!(url, HotUrl::Server { .. } | HotUrl::Unix { .. })
}

impl Value for SinkKind {
    const KIND: &'static str = "\"file\", \"stream\" or \"webhook\"";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        match raw.text() {
            Some("file") => Ok(Self::File),
            Some("stream") => Ok(Self::Stream),
            Some("webhook") => Ok(Self::Webhook),
            _ => Err(Unread::Other),
        }
    }

    fn show(&self) -> String {
        let text = match self {
            Self::File => "file",
            Self::Stream => "stream",
            Self::Webhook => "webhook",
        };
        format!("{text:?}")
    }

    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

impl fmt::Display for SinkUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(url) => url.fmt(f),
            Self::Web(url) => url.fmt(f),
        }
    }
}

impl fmt::Debug for SinkUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Value for WebUrl {
    const KIND: &'static str = "http://HOST:PORT";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        String::read(raw)?
            .parse()
            .map_err(|error: UrlError| Unread::Because(error.expected))
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }

    fn redact(text: &str) -> String {
        SinkUrl::redact(text)
    }
}

impl Value for SinkUrl {
    const KIND: &'static str =
        "redis://HOST:PORT/DB for a stream, or http(s)://HOST/PATH for a webhook";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        let text = String::read(raw)?;
        let because = |error: UrlError| Unread::Because(error.expected);
        if text.starts_with("redis") {
            text.parse().map(Self::Redis).map_err(because)
        } else if text.starts_with("http") {
            text.parse().map(Self::Web).map_err(because)
        } else {
            Err(Unread::Other)
        }
    }

    fn show(&self) -> String {
        format!("\"{self}\"")
    }

    /// The path of a web address can hold a secret, too.
    fn redact(text: &str) -> String {
        match text.split_once("://") {
            Some((scheme @ ("http" | "https"), _)) => format!("{scheme}://***"),
            _ => redact(text),
        }
    }
}
