//! The bytes that clients send.

use rand::RngExt as _;
use rand::rngs::StdRng;

use super::kind::Kind;
use crate::gateway::TOKEN;

/// The bytes of a head that does not end. The HTTP library takes so many.
const LONG_HEAD: usize = 60_000;
/// The requests on a connection of HTTP/2.
const STREAMS: u32 = 100;
/// The parts of HTTP/2: the types of frames, their flags, and the reason of a reset.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const IS_WHOLE: u8 = 0x1 | 0x4;
const CANCEL: u32 = 8;

/// What a client sends first.
#[must_use]
pub fn opening(kind: Kind, rng: &mut StdRng) -> Vec<u8> {
    let text = match kind {
        Kind::Silent | Kind::Crowd => String::new(),
        Kind::HalfLine => "GET /hyper-st".to_owned(),
        Kind::HalfHead => format!(
            "GET /ready HTTP/1.1\r\nHost: gateway\r\nCookie: {}",
            "x".repeat(rng.random_range(0..LONG_HEAD))
        ),
        Kind::HalfOpen => "GET /ready HTTP/1.1\r\nHost: ga".to_owned(),
        Kind::Stranger => "GET /ready HTTP/1.1\r\nHost: gateway\r\n\r\n".to_owned(),
        Kind::StrangeBody => put(""),
        Kind::SlowBody => put(&bearer()),
        Kind::GoneInRequest => put(&bearer()) + "\"half of a bo",
        Kind::SlowList => get("content/bulk~?size=1000"),
        Kind::SlowExport | Kind::GoneInAnswer => get("_export?prefix=bulk~"),
        Kind::DeafFeed | Kind::GoneInFeed => get("feed?prefix=honest/"),
        Kind::Streams => return streams(rng),
    };
    text.into_bytes()
}

fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

fn get(resource: &str) -> String {
    let head = format!("GET /hyper-storage/{resource} HTTP/1.1\r\nHost: gateway\r\n");
    head + &bearer() + "\r\n"
}

fn put(token: &str) -> String {
    format!(
        "PUT /hyper-storage/content/rogue HTTP/1.1\r\nHost: gateway\r\n{token}Content-Length: 100000\r\n\r\n"
    )
}

/// Many requests on one connection of HTTP/2, of which most are reset at once.
fn streams(rng: &mut StdRng) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame((SETTINGS, 0), 0, &[]));
    for number in 0..rng.random_range(1..STREAMS) {
        // A client numbers its streams by odd numbers.
        let stream = 2 * number + 1;
        let path = match rng.random_range(0..3) {
            0 => "/hyper-storage/feed?prefix=honest/",
            1 => "/hyper-storage/content/bulk~?size=1000",
            _ => "/hyper-storage/_export?prefix=bulk~",
        };
        bytes.extend(frame((HEADERS, IS_WHOLE), stream, &head(path)));
        if rng.random_range(0..10) > 0 {
            bytes.extend(frame((RST_STREAM, 0), stream, &CANCEL.to_be_bytes()));
        }
    }
    bytes
}

fn frame((of, flags): (u8, u8), stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let [_, high, middle, low] = length.to_be_bytes();
    let mut bytes = vec![high, middle, low, of, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A head by HPACK: two names and values of its table, and three names with values of their own.
fn head(path: &str) -> Vec<u8> {
    let (get, http) = (0x82, 0x86);
    let mut bytes = vec![get, http];
    let token = format!("Bearer {TOKEN}");
    // The names :path, :authority and authorization.
    let literals: [(&[u8], &str); 3] = [
        (&[0x04], path),
        (&[0x01], "gateway"),
        (&[0x0F, 0x08], &token),
    ];
    for (name, value) in literals {
        bytes.extend(name);
        // All values are shorter than 127 bytes.
        bytes.extend(u8::try_from(value.len()));
        bytes.extend(value.as_bytes());
    }
    bytes
}
