//! Long URLs, wide objects, and clients that read slowly.

use anyhow::{Context as _, Result};
use reqwest::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::feeds::Feed;
use crate::place::{Place, refused, told};

/// The most bytes of a URL that the HTTP library reads.
const URL_BYTES_MAX: usize = 65_534;
/// The members of a wide object.
const MEMBERS: usize = 100_000;
/// The most operations of a patch.
const OPERATIONS_MAX: usize = 1_000;
/// The documents that a slow client does not read. They have 48 MB.
const UNREAD: usize = 48;

/// The head and the body of the answer to a GET, as they come over the wire.
async fn raw(place: &Place, url: &str) -> Result<(String, String)> {
    let mut connection = TcpStream::connect(place.gateway.address()).await?;
    let token = place.gateway.token();
    let request = format!(
        "GET {url} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    let read = async { Ok(connection.read_to_string(&mut answer).await?) };
    storage_tests::bounded("an answer", read).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a head")?;
    Ok((head.to_owned(), body.to_owned()))
}

pub(crate) async fn urls_of_any_length_are_answered(place: Place) -> Result<()> {
    let url = "/hyper-storage/content/a";
    let url = url.to_owned() + &"a".repeat(URL_BYTES_MAX - url.len());
    let (head, body) = raw(&place, &url).await?;
    assert!(head.starts_with("HTTP/1.1 414 "), "{head}");
    assert!(body.contains("urn:document-gateway:path-too-long"));
    // The library answers before the gateway sees the request.
    let (head, body) = raw(&place, &(url + "a")).await?;
    assert!(head.starts_with("HTTP/1.1 414 "), "{head}");
    assert_eq!(body, "");
    place.close().await
}

/// An object whose members have these values.
fn wide(members: impl Iterator<Item = usize>, value: &str) -> String {
    let members = members.map(|number| format!("\"k{number:x}\":{value}"));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// D22: nothing compares each member with each other one.
pub(crate) async fn objects_with_a_hundred_thousand_members(place: Place) -> Result<()> {
    let whole = wide(0..MEMBERS, "1");
    let send = async |method: Method, path: &str, of: &'static str, body: String| {
        let request = place.call(method, path).header("content-type", of);
        let sent = async { Ok(request.body(body).send().await?) };
        storage_tests::bounded("an answer", sent).await
    };
    let json = "application/json";
    let twice = whole.replacen("\"k1\":", "\"k0\":", 1);
    let refusal = send(Method::PUT, "a", json, twice).await?;
    assert_eq!(refused(refusal).await?, (400, "body".to_owned()));
    for (path, count) in [("a", ""), ("a~/1", "1")] {
        let put = send(Method::PUT, path, json, whole.clone()).await?;
        assert_eq!(told(&put), (201, "1", ""), "{path}");
        let nulls = wide((0..MEMBERS).step_by(2), "null");
        let patched = send(Method::PATCH, path, json, nulls).await?;
        assert_eq!(told(&patched), (200, "2", ""), "{path}");
        let increment = "application/vnd.hyper-storage-increment+json";
        let more = wide((1..MEMBERS).step_by(2), "2");
        let added = send(Method::PATCH, path, increment, more).await?;
        assert_eq!(told(&added), (200, "3", ""), "{path}");
        let added = place.json(path).await?;
        let members = added.as_object().context("an object")?;
        let of_id = usize::from(!count.is_empty());
        assert_eq!(members.len(), MEMBERS / 2 + of_id, "{path}");
        let sums = members.values().filter(|value| **value == 3);
        assert_eq!(sums.count(), MEMBERS / 2, "{path}");
    }
    let one = r#"{"op":"replace","path":"/k1869f","value":3}"#;
    let many = format!("[{}]", vec![one; OPERATIONS_MAX].join(","));
    let replaced = send(Method::PATCH, "a", "application/json-patch+json", many).await?;
    assert_eq!(told(&replaced), (200, "4", ""));
    for query in ["", "?filter=k1869f%20%3D%203", "?sort=-k1869f,k0"] {
        let list = send(Method::GET, &format!("a~{query}"), json, String::new()).await?;
        assert_eq!(told(&list), (200, "3", "1"), "{query}");
        let list = crate::place::json(list).await?;
        assert_eq!(list.as_array().map(Vec::len), Some(1), "{query}");
    }
    place.close().await
}

/// D24: a client that is too many bytes behind begins anew, and so does one that comes back.
pub(crate) async fn a_client_that_is_far_behind_begins_anew(place: Place) -> Result<()> {
    let mut slow = Feed::open(&place, "?prefix=a").await?;
    let id = slow.last_id().to_owned();
    let body = format!("\"{}\"", "x".repeat(1_000_000));
    for number in 0..UNREAD {
        let put = place.put(&format!("a/{number}"), &body).await?;
        put.error_for_status()?;
    }
    let all = format!("storage_document_events_total {UNREAD}");
    let is_told = async || {
        let page = place.look("_metrics").await?.text().await?;
        Ok(page.lines().any(|line| line == all))
    };
    storage_tests::until("the gateway has heard all", is_told).await?;
    let mut back = Feed::open(&place, &format!("?prefix=a&since={id}")).await?;
    for feed in [&mut slow, &mut back] {
        feed.until("event: reset").await?;
    }
    place.put("a/last", "1").await?.error_for_status()?;
    for feed in [&mut slow, &mut back] {
        feed.until(r#""path":"a/last""#).await?;
        assert_eq!(feed.names().filter(|name| *name == "reset").count(), 1);
    }
    drop((slow, back));
    place.close().await
}
