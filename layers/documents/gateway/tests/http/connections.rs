//! Connections: silent ones, too many, and HTTP/2. In the embedded mode alone.

use std::io::ErrorKind;

use anyhow::Result;
use reqwest::{Certificate, Client, Response, StatusCode, Version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::feeds::Feed;
use crate::place::Place;

/// So few connections, and so short a time without a request, that tests meet both.
const NARROW: [&str; 4] = ["--connections", "4", "--idle", "200ms"];

/// The documents that a slow client does not read. They have 20 MB.
const UNREAD: usize = 20;

/// A connection that has sent these bytes.
async fn begun(place: &Place, bytes: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(place.gateway.address()).await?;
    stream.write_all(bytes.as_bytes()).await?;
    Ok(stream)
}

/// What comes until the gateway closes the connection.
async fn until_closed(mut stream: TcpStream) -> Result<String> {
    let mut bytes = Vec::new();
    let read = async {
        match stream.read_to_end(&mut bytes).await {
            // Bytes that the gateway did not read make its end a reset.
            Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error.into()),
            _ => Ok(()),
        }
    };
    storage_tests::bounded("the end of the connection", read).await?;
    Ok(String::from_utf8(bytes)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_without_a_request_are_closed_and_others_get_their_place() -> Result<()> {
    let place = Place::embedded_with(&NARROW).await?;
    let mut silent = Vec::new();
    for begun_with in ["", "GET /ready HTTP/1.1\r\nHost: ga", "PRI * HTTP/2.0\r\n"] {
        for _ in 0..4 {
            silent.push(begun(&place, begun_with).await?);
        }
    }
    let put = storage_tests::bounded("an answer", place.put("a", "1")).await?;
    assert_eq!(put.status(), StatusCode::CREATED);
    for stream in silent {
        assert_eq!(until_closed(stream).await?, "");
    }
    // One that a client keeps for later ends, too.
    let kept = begun(&place, "GET /ready HTTP/1.1\r\nHost: gateway\r\n\r\n").await?;
    let answer = until_closed(kept).await?;
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    place.close().await
}

/// The head that comes behind a request, or behind a part of one.
async fn answered(stream: &mut TcpStream, request: &str) -> Result<String> {
    stream.write_all(request.as_bytes()).await?;
    let mut head = String::new();
    let read = async {
        while !head.ends_with("\r\n\r\n") {
            head.push(char::from(stream.read_u8().await?));
        }
        Ok(())
    };
    storage_tests::bounded("the head of an answer", read).await?;
    Ok(head)
}

/// Each stranger sends a short request, and could send one again and again before its time is over.
#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_connection_without_a_token_gives_its_place_to_a_further_one() -> Result<()> {
    let place = Place::embedded_with(&["--connections", "4", "--idle", "1h"]).await?;
    let token = place.gateway.token();
    let head = format!(
        "PUT /hyper-storage/content/a HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: 1\r\nExpect: 100-continue\r\n\r\n"
    );
    // A caller in the middle of its first request.
    let mut caller = begun(&place, "").await?;
    let goes_on = answered(&mut caller, &head).await?;
    assert!(goes_on.starts_with("HTTP/1.1 100 "), "{goes_on}");
    let ready = "GET /ready HTTP/1.1\r\nHost: gateway\r\n\r\n";
    let mut strangers = Vec::new();
    for _ in 0..6 {
        let mut stranger = begun(&place, "").await?;
        let answer = answered(&mut stranger, ready).await?;
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
        strangers.push(stranger);
    }
    let put = storage_tests::bounded("an answer", place.put("b", "1")).await?;
    assert_eq!(put.status(), StatusCode::CREATED);
    let left = strangers.split_off(4);
    for stranger in strangers {
        assert_eq!(until_closed(stranger).await?, "");
    }
    for mut stranger in left {
        let answer = answered(&mut stranger, ready).await?;
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    }
    let made = answered(&mut caller, "1").await?;
    assert!(made.starts_with("HTTP/1.1 201 "), "{made}");
    place.close().await
}

/// Both answers are larger than what the system keeps for a client that does not read.
#[tokio::test(flavor = "multi_thread")]
async fn answers_outlive_the_time_without_a_request_however_slowly_they_are_read() -> Result<()> {
    let place = Place::embedded_with(&NARROW).await?;
    let mut feed = Feed::open(&place, "?prefix=a").await?;
    let body = format!("\"{}\"", "x".repeat(1_000_000));
    for number in 0..UNREAD {
        let put = place.put(&format!("a/{number:02}"), &body).await?;
        put.error_for_status()?;
    }
    let export = place.look("_export?prefix=a").await?.error_for_status()?;
    for _ in 0..3 {
        until_closed(begun(&place, "").await?).await?;
    }
    place.put("a/last", "1").await?.error_for_status()?;
    feed.until(r#""path":"a/last""#).await?;
    assert_eq!(export.text().await?.lines().count(), UNREAD);
    drop(feed);
    place.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_without_a_request_do_not_hold_up_the_end() -> Result<()> {
    let place = Place::embedded().await?;
    let silent = begun(&place, "").await?;
    let half = begun(&place, "GET /ready HTTP/1.1\r\nHost: ga").await?;
    let kept = begun(&place, "GET /ready HTTP/1.1\r\nHost: gateway\r\n\r\n").await?;
    place.close().await?;
    for stream in [silent, half, kept] {
        until_closed(stream).await?;
    }
    Ok(())
}

/// The feed has more than the system keeps for a client that does not read, and half of the body is
/// all that comes.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_stand_still_do_not_hold_up_the_end() -> Result<()> {
    let place = Place::embedded().await?;
    let token = place.gateway.token();
    let feed = format!(
        "GET /hyper-storage/feed HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut deaf = begun(&place, "").await?;
    let begins = answered(&mut deaf, &feed).await?;
    assert!(begins.starts_with("HTTP/1.1 200 "), "{begins}");
    let half =
        "PUT /hyper-storage/content/a HTTP/1.1\r\nHost: gateway\r\nContent-Length: 9000\r\n\r\nx";
    let stranger = begun(&place, half).await?;
    let body = format!("\"{}\"", "x".repeat(1_000_000));
    for number in 0..UNREAD {
        let put = place.put(&format!("a/{number:02}"), &body).await?;
        put.error_for_status()?;
    }
    place.close().await?;
    drop((deaf, stranger));
    Ok(())
}

/// Each feed would need a connection of its own by HTTP/1.1.
#[tokio::test(flavor = "multi_thread")]
async fn many_feeds_share_a_connection_of_http_2() -> Result<()> {
    let mut place = Place::embedded_with(&["--connections", "1"]).await?;
    place.client = Client::builder().http2_prior_knowledge().build()?;
    let mut feeds = Vec::new();
    for _ in 0..100 {
        feeds.push(Feed::open(&place, "?prefix=a").await?);
    }
    let put: Response = place.put("a", "1").await?.error_for_status()?;
    assert_eq!(put.version(), Version::HTTP_2);
    for feed in &mut feeds {
        feed.until("feed:put").await?;
    }
    place.close().await
}

/// Such a client answers pings, but it has no request.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_of_http_2_without_a_request_ends() -> Result<()> {
    let mut place = Place::embedded_with(&NARROW).await?;
    place.client = Client::builder().http2_prior_knowledge().build()?;
    place.put("a", "1").await?.error_for_status()?;
    let kept = std::mem::take(&mut place.client);
    let alone = async || {
        let page = place.look("_metrics").await?.text().await?;
        Ok(page
            .lines()
            .any(|line| line == "storage_document_connections 1.0"))
    };
    storage_tests::until("the other connection ended", alone).await?;
    drop(kept);
    place.close().await
}

/// A balancer sees that the gateway is about to end before the gateway ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_leaves_serves_on_but_is_not_ready() -> Result<()> {
    let place = Place::embedded().await?;
    let ready = format!("http://{}/ready", place.gateway.address());
    let ready = async || anyhow::Ok(place.client.get(&ready).send().await?.status());
    assert_eq!(ready().await?, StatusCode::NO_CONTENT);
    let mut feed = Feed::open(&place, "?prefix=a").await?;
    place.gateway.leave();
    assert_eq!(ready().await?, StatusCode::SERVICE_UNAVAILABLE);
    place.put("a", "1").await?.error_for_status()?;
    feed.until("feed:put").await?;
    drop(Feed::open(&place, "").await?);
    place.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_a_certificate_speaks_tls_and_http_2() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("server.pem"), file("server.key"));
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    let options = ["--tls-cert", &certificate, "--tls-key", &key];
    let place = Place::embedded_with(&options).await?;
    let trusted = Certificate::from_pem(made.cert.pem().as_bytes())?;
    let client = Client::builder().tls_certs_only([trusted]).build()?;
    let url = place.gateway.url();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let url = url.replace("127.0.0.1", "localhost");
    let answer = client.get(format!("{url}/openapi.json")).send().await?;
    assert_eq!(
        (answer.status(), answer.version()),
        (StatusCode::OK, Version::HTTP_2)
    );
    // Half a greeting does not hold up the end.
    let half = begun(&place, "\u{16}\u{3}").await?;
    place.close().await?;
    until_closed(half).await?;
    Ok(())
}
