//! What proxies and caches on the way need to know, and how callers see the gateway behind them.

use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};

use crate::routes::PREFIX;

/// nginx holds an answer back until it has some kilobytes of it, unless this header says no.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The URL under which callers reach the gateway: a prefix of its resources without a slash at its
/// end. By default it is empty, so that links begin with the path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicUrl(String);

impl PublicUrl {
    /// The URL of a resource.
    #[must_use]
    pub fn of(&self, resource: &str) -> String {
        format!("{}{PREFIX}{resource}", self.0)
    }

    /// The URL itself. Empty if none is named.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write a URL such as https://game.example/storage, below which the proxy has the paths of the gateway";
        let text = text.trim_end_matches('/');
        let uri: Uri = text.parse().map_err(|_| form)?;
        let is_http = uri
            .scheme_str()
            .is_some_and(|of| ["http", "https"].contains(&of));
        if !is_http || uri.query().is_some() || text.contains(['"', '<', '>', '#']) {
            return Err(form.to_owned());
        }
        if text.ends_with(PREFIX) {
            return Err(format!("leave {PREFIX} out: {form}"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Says that an answer is of one moment, unless it says otherwise itself. A feed is not held back.
pub(crate) fn mark(headers: &mut HeaderMap) {
    let no_store = HeaderValue::from_static("no-store");
    let of = headers.get(header::CONTENT_TYPE);
    if of.is_some_and(|of| of.as_bytes().starts_with(b"text/event-stream")) {
        headers.insert(header::CACHE_CONTROL, no_store);
        headers.insert(BUFFERING, HeaderValue::from_static("no"));
    } else {
        headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_is_a_prefix_of_all_resources() {
        assert_eq!(PublicUrl::default().of("/feed"), "/hyper-storage/feed");
        for given in [
            "https://game.example/storage",
            "https://game.example/storage/",
        ] {
            let url: PublicUrl = given.parse().unwrap();
            let feed = "https://game.example/storage/hyper-storage/feed";
            assert_eq!(url.of("/feed"), feed);
        }
        for wrong in [
            "",
            "/storage",
            "ftp://a",
            "https://a?b",
            "https://a/#b",
            "https://a/hyper-storage",
        ] {
            assert!(wrong.parse::<PublicUrl>().is_err(), "{wrong}");
        }
    }
}
