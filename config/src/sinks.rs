//! The sections `sinks.NAME`: receivers of the feed's landed events.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::hot_url::{self, HotUrl, ONE_SERVER};
use crate::rule::Rule::{self, Number, Optional, Secret as Hidden, Text, Time, Url};
use crate::rule::{Rules, fault, is_name};
use crate::secret::Secret;
use crate::web_url::{WEB_URLS, WebUrl};

/// One sink: where the events go, with all that this kind needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum SinkSettings {
    /// A file of JSON lines for each partition.
    #[non_exhaustive]
    File {
        /// The folder of the files. Required. The worker creates a missing folder.
        dir: PathBuf,
    },
    /// A stream of Redis for each partition.
    #[non_exhaustive]
    Stream {
        /// The Redis of the streams, one server. Required.
        url: HotUrl,
        /// The start of the streams' keys, before the number of the partition. 1 to 64 bytes
        /// without control characters. Default: `events:`.
        #[serde(default = "key_prefix")]
        key_prefix: String,
        /// About how many events of a stream Redis keeps. 0 to 4294967295. Default: 0, all of them.
        /// Redis forgets the oldest, also if nobody has read them.
        #[serde(default)]
        keep: u32,
        /// How long one call may take. 100 ms to 1 min. Default: 10 s. After that the events are
        /// sent again.
        #[serde(default = "timeout", with = "duration")]
        timeout: Duration,
    },
    /// A web service that gets JSON.
    #[non_exhaustive]
    Webhook {
        /// The address that is called. Required.
        url: WebUrl,
        /// The value of the header `Authorization`, such as `Bearer …`. Default: none.
        authorization: Option<Secret>,
        /// The HTTP proxy that the calls go through. Default: none (empty in a file). Proxies of
        /// the environment, such as `http_proxy`, are never used.
        proxy: Option<WebUrl>,
        /// How long one call may take. 100 ms to 1 min. Default: 10 s. After that the events are
        /// sent again.
        #[serde(default = "timeout", with = "duration")]
        timeout: Duration,
    },
}

impl SinkSettings {
    /// Each kind, and the allowed values of its keys.
    pub(crate) const KINDS: [(&str, Rules); 3] =
        [("file", FILE), ("stream", STREAM), ("webhook", WEBHOOK)];
}

/// [`SinkSettings::KINDS`] has the allowed values.
const KIND: Rule = Text("the kind of a sink", |_| true);

const KEY_PREFIX: Rule = Text("1 to 64 bytes without control characters", is_name);
/// The value of a header.
const HEADER: Rule = Hidden("text of visible ASCII characters and blanks", is_header);

const FILE: Rules = &[
    ("kind", KIND),
    ("dir", Text("the path of a folder", |path| !path.is_empty())),
];

const STREAM: Rules = &[
    ("kind", KIND),
    ("url", Url(ONE_SERVER, hot_url::fault_of_server)),
    ("key_prefix", KEY_PREFIX),
    ("keep", Number(0, 0xffff_ffff)),
    ("timeout", Time("100ms", "1m")),
];

const WEBHOOK: Rules = &[
    ("kind", KIND),
    ("url", Url(WEB_URLS, fault::<WebUrl>)),
    ("authorization", Optional(&HEADER)),
    ("proxy", Optional(&Url(WEB_URLS, fault::<WebUrl>))),
    ("timeout", Time("100ms", "1m")),
];

fn is_header(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

fn key_prefix() -> String {
    "events:".to_owned()
}

fn timeout() -> Duration {
    Duration::from_secs(10)
}
