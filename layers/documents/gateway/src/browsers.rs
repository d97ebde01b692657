//! Pages of other origins, which browsers let read an answer only if its headers allow it (CORS).

use std::str::FromStr;
use std::time::Duration;

use axum::http::uri::{Scheme, Uri};
use axum::http::{HeaderName, HeaderValue, Method, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// How long a browser may remember what it may send. Browsers have bounds of their own.
const REMEMBERED: Duration = Duration::from_hours(2);
/// The methods of all resources.
const METHODS: [Method; 6] = [
    Method::GET,
    Method::HEAD,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::POST,
];
/// The headers of answers that a page may read beside those that it always may.
const EXPOSED: [HeaderName; 13] = [
    header::ALLOW,
    header::ETAG,
    header::LINK,
    header::LOCATION,
    header::RETRY_AFTER,
    HeaderName::from_static("accept-patch"),
    HeaderName::from_static("count"),
    HeaderName::from_static("hyper-storage-transaction"),
    HeaderName::from_static("idempotent-replayed"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("preference-applied"),
    HeaderName::from_static("request-id"),
    HeaderName::from_static("revision"),
];

/// The origins of pages that may use the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Every page.
    Any,
    /// The pages of this scheme, host and port.
    One(HeaderValue),
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let form = || "write an origin such as https://game.example or http://localhost:3000, or *";
        let uri: Uri = text.parse().map_err(|_| form())?;
        let (scheme, authority) = (uri.scheme().ok_or_else(form)?, uri.authority());
        let authority = authority.ok_or_else(form)?.as_str().to_ascii_lowercase();
        if uri.path() != "/" || uri.query().is_some() || text.ends_with('/') {
            return Err(format!("an origin has no path: {}", form()));
        }
        // Browsers leave the usual port out.
        let usual = match scheme {
            scheme if *scheme == Scheme::HTTPS => ":443",
            scheme if *scheme == Scheme::HTTP => ":80",
            _ => "",
        };
        let host = authority.strip_suffix(usual).unwrap_or(&authority);
        let origin = HeaderValue::from_str(&format!("{scheme}://{host}"));
        origin.map(Self::One).map_err(|_| form().to_owned())
    }
}

/// Lets pages of these origins use the gateway. Without one, no page of another origin can.
///
/// A page may send any header. It needs the token or a ticket all the same, and browsers send
/// neither by themselves.
pub(crate) fn layer(origins: &[Origin]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let ones = origins.iter().filter_map(|origin| match origin {
        Origin::Any => None,
        Origin::One(origin) => Some(origin.clone()),
    });
    let allowed = if origins.contains(&Origin::Any) {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(ones)
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods(METHODS)
        .max_age(REMEMBERED)
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED);
    Some(layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_as_browsers_write_it() {
        for (given, sent) in [
            ("https://game.example", "https://game.example"),
            ("https://Game.Example:443", "https://game.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://localhost:80", "http://localhost"),
            ("https://game.example:8443", "https://game.example:8443"),
        ] {
            let sent = HeaderValue::from_static(sent);
            assert_eq!(given.parse(), Ok(Origin::One(sent)), "{given}");
        }
        assert_eq!("*".parse(), Ok(Origin::Any));
        for wrong in [
            "",
            "game.example",
            "null",
            "https://game.example/",
            "https://game.example/app",
            "https://*.game.example/x",
            "https://game.example?x",
        ] {
            let refusal = wrong.parse::<Origin>().unwrap_err();
            assert!(refusal.contains("https://game.example"), "{wrong}");
        }
    }
}
