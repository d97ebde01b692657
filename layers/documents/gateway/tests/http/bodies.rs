//! Bodies as clients send them, and as they want them back.

use std::io::{Read as _, Write as _};

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use storage_documents::documents::BODY_BYTES_MAX;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::answers::explained;
use crate::feeds::Feed;
use crate::place::{Place, header, json as body_of, refused, told};

/// What some programs write before their text.
const MARK: &str = "\u{feff}";

fn packed(text: &str) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    Ok(encoder.finish()?)
}

fn unpacked(bytes: &[u8]) -> Result<String> {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text)?;
    Ok(text)
}

pub(crate) async fn a_byte_order_mark_is_no_part_of_a_body(place: Place) -> Result<()> {
    let put = place.put("a", &format!(r#"{MARK}{{"n":1}}"#)).await?;
    assert_eq!(told(&put), (201, "1", ""));
    for (of, body, n) in [
        ("application/json", r#"{"n":2}"#, 2),
        (
            "application/json-patch+json",
            r#"[{"op":"add","path":"/n","value":3}]"#,
            3,
        ),
        (
            "application/vnd.hyper-storage-increment+json",
            r#"{"n":1}"#,
            4,
        ),
    ] {
        let patch = place.call(Method::PATCH, "a").header("content-type", of);
        let patched = patch.body(format!("{MARK}{body}")).send().await?;
        assert_eq!(patched.status(), 200, "{of}");
        assert_eq!(
            place.get("a").await?.text().await?,
            format!(r#"{{"n":{n}}}"#)
        );
    }
    assert_eq!(told(&place.put("b~", &format!("{MARK}null")).await?).0, 201);
    let posted = place.post("b~", &format!(r#"{MARK}{{"x":1}}"#)).await?;
    assert_eq!(posted.status(), 201);
    // Files with a mark each, one behind the other.
    let line = |path| format!("{MARK}{{\"path\":\"{path}\",\"body\":1}}\n");
    let import = place.client.post(place.url("_import"));
    let import = import.bearer_auth(place.gateway.token());
    let import = import.body(line("c") + &line("d")).send().await?;
    assert_eq!(import.status(), 200);
    assert_eq!(body_of(import).await?.get("put"), Some(&json!(2)));
    assert_eq!(place.json("d").await?, json!(1));
    place.close().await
}

pub(crate) async fn a_body_is_taken_packed_and_its_limits_are_those_of_the_unpacked_one(
    place: Place,
) -> Result<()> {
    let send = async |method: Method, path: &str, encoding: &str, body: Vec<u8>| {
        let request = place
            .call(method, path)
            .header("content-encoding", encoding);
        anyhow::Ok(request.body(body).send().await?)
    };
    let body = r#"{"n":1}"#;
    for encoding in ["gzip", "GZIP", "x-gzip"] {
        let put = send(Method::PUT, "a", encoding, packed(body)?).await?;
        assert!(put.status().is_success(), "{encoding}");
        assert_eq!(place.get("a").await?.text().await?, body, "{encoding}");
    }
    let patched = send(Method::PATCH, "a", "gzip", packed(r#"{"n":2}"#)?).await?;
    assert_eq!(told(&patched), (200, "4", ""));
    let plain = send(Method::PUT, "b", "identity", body.into()).await?;
    assert_eq!(told(&plain), (201, "1", ""));
    let import = place.client.post(place.url("_import"));
    let import = import.bearer_auth(place.gateway.token());
    let import = import.header("content-encoding", "gzip");
    // Files that were packed one by one, one behind the other.
    let line = |path| packed(&format!("{{\"path\":\"{path}\",\"body\":1}}\n"));
    let lines = [line("c")?, line("d")?].concat();
    let import = import.body(lines).send().await?.error_for_status()?;
    assert_eq!(body_of(import).await?.get("put"), Some(&json!(2)));

    for encoding in ["br", "deflate", "gzip, gzip", "nonsense"] {
        let put = send(Method::PUT, "x", encoding, body.into()).await?;
        assert_eq!(header(&put, "accept-encoding"), "gzip", "{encoding}");
        assert_eq!(header(&put, "accept-patch"), "", "{encoding}");
        let expected = (415, "content-encoding".to_owned());
        assert_eq!(refused(put).await?, expected, "{encoding}");
    }
    let broken = send(Method::PUT, "x", "gzip", body.into()).await?;
    assert_eq!(refused(broken).await?, (400, "request".to_owned()));
    let mut cut = packed(body)?;
    cut.truncate(cut.len() - 9);
    let cut = send(Method::PUT, "x", "gzip", cut).await?;
    assert_eq!(refused(cut).await?, (400, "request".to_owned()));
    // A small body can be large once it is unpacked.
    let bomb = packed(&format!("\"{}\"", "x".repeat(64 << 20)))?;
    let bomb = send(Method::PUT, "x", "gzip", bomb).await?;
    assert_eq!(refused(bomb).await?, (413, "too-large".to_owned()));
    assert_eq!(place.get("x").await?.status(), 404);
    place.close().await
}

pub(crate) async fn a_long_answer_is_packed_on_request_and_its_tag_serves_as_before(
    place: Place,
) -> Result<()> {
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(20_000));
    let put = place.put("a", &long).await?;
    let tag = header(&put, "etag").to_owned();
    place.put("b", "1").await?.error_for_status()?;
    for number in 0..3 {
        place
            .put(&format!("c~/{number}"), &long)
            .await?
            .error_for_status()?;
    }
    let get = async |path: &str, name: &'static str, value: &str| {
        let get = place
            .call(Method::GET, path)
            .header("accept-encoding", "gzip");
        anyhow::Ok(get.header(name, value).send().await?)
    };
    let any = async |path: &str| get(path, "accept", "*/*").await;
    let answer = any("a").await?;
    assert_eq!(header(&answer, "content-encoding"), "gzip");
    assert_eq!(header(&answer, "vary"), "accept-encoding");
    assert_eq!(header(&answer, "etag"), format!("W/{tag}"));
    let weak = header(&answer, "etag").to_owned();
    let bytes = answer.bytes().await?;
    assert!(bytes.len() < 1_000, "{}", bytes.len());
    assert_eq!(unpacked(&bytes)?, long);
    let head = place
        .call(Method::HEAD, "a")
        .header("accept-encoding", "gzip");
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build()?;
    let url = place.url("content/a");
    let by_http2 = http2.head(url).bearer_auth(place.gateway.token());
    let by_http2 = by_http2.header("accept-encoding", "gzip");
    for head in [head.send().await?, by_http2.send().await?] {
        assert_eq!(
            (header(&head, "etag"), header(&head, "content-encoding")),
            (weak.as_str(), "gzip")
        );
        assert!(head.bytes().await?.is_empty());
    }
    assert_eq!(get("a", "if-none-match", &weak).await?.status(), 304);
    assert_eq!(get("a", "if-none-match", &tag).await?.status(), 304);
    let put = place.call(Method::PUT, "a").header("if-match", &weak);
    assert_eq!(put.body(long.clone()).send().await?.status(), 200);
    assert_eq!(get("a", "if-none-match", &weak).await?.status(), 200);

    let list = any("c~").await?;
    assert_eq!(header(&list, "content-encoding"), "gzip");
    let list: Value = serde_json::from_str(&unpacked(&list.bytes().await?)?)?;
    assert_eq!(list.as_array().map(Vec::len), Some(3));
    let plain = place.get("a").await?;
    assert_eq!(header(&plain, "content-encoding"), "");
    assert_eq!(header(&plain, "vary"), "accept-encoding");
    assert_eq!(plain.text().await?, long);
    assert_eq!(
        header(&any("b").await?, "content-encoding"),
        "",
        "a short answer"
    );

    // The events of a feed do not wait for one another.
    let feed = place
        .client
        .get(place.url("feed"))
        .header("accept-encoding", "gzip");
    let feed = feed.bearer_auth(place.gateway.token()).send().await?;
    assert_eq!(header(&feed, "content-encoding"), "");
    let mut feed = Feed::of(feed).await?;
    place.put("b", "2").await?.error_for_status()?;
    feed.until(r#""path":"b""#).await?;
    drop(feed);
    place.close().await
}

/// The first line of the answer to a head alone, and the answer.
async fn answered(place: &Place, head: &str) -> Result<String> {
    let mut connection = TcpStream::connect(place.gateway.address()).await?;
    let head = format!("{head}Host: gateway\r\nExpect: 100-continue\r\n\r\n");
    connection.write_all(head.as_bytes()).await?;
    let mut lines = BufReader::new(connection).lines();
    let read = async { lines.next_line().await?.context("a line") };
    storage_tests::bounded(&head, read).await
}

/// A client that waits for `100 Continue` sends no body that nobody wants.
pub(crate) async fn a_request_that_fails_by_its_head_is_answered_before_its_body(
    place: Place,
) -> Result<()> {
    let token = format!("Authorization: Bearer {}\r\n", place.gateway.token());
    let too_long = "x".repeat(300);
    for (request, headers, status) in [
        ("PUT /hyper-storage/content/a", "Content-Length: 2\r\n", 401),
        ("PUT /hyper-storage/content/a//b", &token, 400),
        ("PUT /hyper-storage/content/a?x=1", &token, 400),
        (
            "PUT /hyper-storage/content/a",
            &format!("{token}If-Match: a\r\n"),
            400,
        ),
        (
            "PUT /hyper-storage/content/a",
            &format!("{token}Hyper-Storage-Wait: x\r\n"),
            400,
        ),
        (
            "PUT /hyper-storage/content/a",
            &format!("{token}Idempotency-Key: {too_long}\r\n"),
            400,
        ),
        (
            "PUT /hyper-storage/content/a~",
            &format!("{token}Hyper-Storage-TTL: 1\r\n"),
            400,
        ),
        (
            "PUT /hyper-storage/content/a",
            &format!("{token}Content-Encoding: br\r\n"),
            415,
        ),
        (
            "PATCH /hyper-storage/content/a",
            &format!("{token}Content-Type: text/html\r\n"),
            415,
        ),
        ("PATCH /hyper-storage/content/a~", &token, 405),
        ("POST /hyper-storage/content/a~/1", &token, 405),
        (
            "POST /hyper-storage/content/a",
            &format!("{token}Content-Length: 1047553\r\n"),
            413,
        ),
        (
            "PUT /hyper-storage/content/a",
            &format!("{token}Content-Length: 1047553\r\n"),
            413,
        ),
        (
            "PUT /hyper-storage/content/a",
            &format!("{token}Content-Length: 2\r\n"),
            100,
        ),
    ] {
        let length = match headers.contains("Content-Length") {
            true => "",
            false => "Content-Length: 2\r\n",
        };
        let head = format!("{request} HTTP/1.1\r\n{headers}{length}");
        let line = answered(&place, &head).await?;
        assert!(
            line.starts_with(&format!("HTTP/1.1 {status} ")),
            "{head} {line}"
        );
    }
    place.close().await
}

pub(crate) async fn a_body_that_is_too_large_is_told_the_limit(place: Place) -> Result<()> {
    let long = format!("\"{}\"", "x".repeat(BODY_BYTES_MAX - 1));
    let limit = BODY_BYTES_MAX.to_string();
    let sent: [Response; 3] = [
        place.put("a", &long).await?,
        place.put("a", &(long.clone() + &long)).await?,
        // Its length is known only once it is unpacked.
        place
            .call(Method::PUT, "a")
            .header("content-encoding", "gzip")
            .body(packed(&(long.clone() + &long))?)
            .send()
            .await?,
    ];
    for sent in sent {
        let (status, of, detail) = explained(sent).await?;
        assert_eq!((status, of.as_str()), (413, "too-large"));
        assert!(detail.contains(&limit), "{detail}");
    }
    place.close().await
}

/// The status line of the next answer on a connection, whose body is read, too.
async fn next_answer(connection: &mut BufReader<TcpStream>) -> Result<String> {
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        let read = connection.read_line(&mut line).await?;
        anyhow::ensure!(read > 0, "the connection ended after {head:?}");
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("content-length: ") {
            length = bytes.parse()?;
        }
        head.push(line);
    }
    connection.read_exact(&mut vec![0; length]).await?;
    head.into_iter().next().context("a line")
}

/// A client that sends its body at once finds the answer, and not a broken connection.
pub(crate) async fn a_request_with_a_long_body_that_fails_by_its_head_leaves_the_connection(
    place: Place,
) -> Result<()> {
    let connection = TcpStream::connect(place.gateway.address()).await?;
    let mut connection = BufReader::new(connection);
    let token = format!("Authorization: Bearer {}\r\n", place.gateway.token());
    let long = "x".repeat(BODY_BYTES_MAX);
    let too_long = long.clone() + &long;
    for (target, headers, body, status) in [
        ("PUT /hyper-storage/content/a//b", token.clone(), &long, 400),
        (
            "PUT /hyper-storage/content/a",
            format!("{token}If-Match: a\r\n"),
            &long,
            400,
        ),
        (
            "POST /hyper-storage/content/a~/1",
            token.clone(),
            &long,
            405,
        ),
        (
            "PUT /hyper-storage/content/a",
            format!("{token}Content-Encoding: br\r\n"),
            &long,
            415,
        ),
        ("PUT /hyper-storage/content/a", String::new(), &long, 401),
        (
            "PUT /hyper-storage/content/a",
            token.clone(),
            &too_long,
            413,
        ),
    ] {
        let length = body.len();
        let head = format!(
            "{target} HTTP/1.1\r\nHost: gateway\r\n{headers}Content-Length: {length}\r\n\r\n"
        );
        let answer = async {
            connection.get_mut().write_all(head.as_bytes()).await?;
            connection.get_mut().write_all(body.as_bytes()).await?;
            next_answer(&mut connection).await
        };
        let line = storage_tests::bounded(target, answer).await?;
        assert!(
            line.starts_with(&format!("http/1.1 {status} ")),
            "{target} {line}"
        );
    }
    place.close().await
}
