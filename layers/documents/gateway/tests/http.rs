//! The gateway as a client of HTTP sees it, on the embedded mode.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use document_gateway::args::Args;
use document_gateway::serve::Gateway;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use tempfile::TempDir;

/// A gateway on a file of its own, and a client with its token.
struct Place {
    folder: TempDir,
    gateway: Gateway,
    client: Client,
}

impl Place {
    async fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        Self::of(folder).await
    }

    async fn of(folder: TempDir) -> Result<Self> {
        let args = Args {
            embedded: Some(folder.path().join("data.db")),
            config: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            token_file: None,
            app: "documents".into(),
            region: "main".into(),
        };
        // Another test of this process may have named it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            folder,
            gateway: Gateway::open(&args).await?,
            client: Client::new(),
        })
    }

    fn url(&self, rest: &str) -> String {
        format!("http://{}/hyper-storage/{rest}", self.gateway.address())
    }

    fn call(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self
            .client
            .request(method, self.url(&format!("content/{path}")));
        request.bearer_auth(self.gateway.token())
    }

    async fn put(&self, path: &str, body: &str) -> Result<Response> {
        Ok(self
            .call(Method::PUT, path)
            .body(body.to_owned())
            .send()
            .await?)
    }

    async fn get(&self, path: &str) -> Result<Response> {
        Ok(self.call(Method::GET, path).send().await?)
    }
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    let value = response.headers().get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// The type of a problem, behind its prefix.
async fn problem(response: Response) -> Result<String> {
    assert_eq!(
        header(&response, "content-type"),
        "application/problem+json"
    );
    let body: serde_json::Value = serde_json::from_str(&response.text().await?)?;
    let of = body.get("type").and_then(serde_json::Value::as_str);
    let of = of.context("no type")?;
    Ok(of.trim_start_matches("urn:document-gateway:").to_owned())
}

#[tokio::test]
async fn a_document_is_put_patched_deleted_and_put_again() -> Result<()> {
    let place = Place::new().await?;
    let put = place
        .put("guilds/red", r#"{"name":"Red","seats":3,"x":null}"#)
        .await?;
    assert_eq!(
        (put.status(), header(&put, "revision")),
        (StatusCode::CREATED, "1")
    );
    let got = place.get("guilds/red").await?;
    assert_eq!(header(&got, "etag"), header(&put, "etag"));
    assert_eq!(got.text().await?, r#"{"name":"Red","seats":3}"#);

    let patch = place
        .call(Method::PATCH, "guilds/red")
        .body(r#"{"seats":null,"open":true}"#);
    let patched = patch.send().await?;
    assert_eq!(
        (patched.status(), header(&patched, "revision")),
        (StatusCode::OK, "2")
    );
    assert_eq!(
        place.get("guilds%2Fred").await?.text().await?,
        r#"{"name":"Red","open":true}"#
    );

    let deleted = place.call(Method::DELETE, "guilds/red").send().await?;
    assert_eq!(
        (deleted.status(), header(&deleted, "revision")),
        (StatusCode::OK, "3")
    );
    assert_eq!(
        place.get("guilds/red").await?.status(),
        StatusCode::NOT_FOUND
    );
    for method in [Method::DELETE, Method::PATCH] {
        let missing = place.call(method, "guilds/red").body("{}").send().await?;
        assert_eq!(problem(missing).await?, "missing");
    }
    let again = place.put("guilds/red", "7").await?;
    assert_eq!(
        (again.status(), header(&again, "revision")),
        (StatusCode::CREATED, "4")
    );
    place.gateway.close().await
}

/// K8, K11 of the research: a tag from before a deletion does not match after it.
#[tokio::test]
async fn conditions_are_checked_against_the_state_that_is_written() -> Result<()> {
    let place = Place::new().await?;
    let first = place.put("a", "1").await?;
    let tag = header(&first, "etag").to_owned();
    let with = |method: Method, name: &'static str, value: String| {
        place.call(method, "a").header(name, value).body("2").send()
    };
    let taken = with(Method::PUT, "if-none-match", "*".into()).await?;
    assert_eq!(taken.status(), StatusCode::PRECONDITION_FAILED);
    assert_eq!(header(&taken, "etag"), tag);
    assert_eq!(problem(taken).await?, "condition");

    let puts = (0..8).map(|_| with(Method::PUT, "if-match", format!("W/{tag}")));
    let results = futures::future::join_all(puts).await;
    let is_ok = |result: &reqwest::Result<Response>| {
        result
            .as_ref()
            .is_ok_and(|response| response.status() == StatusCode::OK)
    };
    assert_eq!(results.iter().filter(|result| is_ok(result)).count(), 1);

    let present = header(&place.get("a").await?, "etag").to_owned();
    let unchanged = with(Method::GET, "if-none-match", present.clone()).await?;
    assert_eq!(unchanged.status(), StatusCode::NOT_MODIFIED);
    assert_eq!(
        with(Method::GET, "if-none-match", tag).await?.status(),
        StatusCode::OK
    );
    with(Method::DELETE, "if-match", present.clone())
        .await?
        .error_for_status()?;
    let late = with(Method::PUT, "if-match", present).await?;
    assert_eq!(late.status(), StatusCode::PRECONDITION_FAILED);
    let anew = with(Method::PUT, "if-none-match", "*".into()).await?;
    assert_eq!(anew.status(), StatusCode::CREATED);
    place.gateway.close().await
}

/// Writers without a condition wait for one another, and no revision is lost or given twice.
#[tokio::test]
async fn concurrent_patches_are_all_made_and_counted() -> Result<()> {
    let place = Place::new().await?;
    place.put("a", "{}").await?.error_for_status()?;
    let patches = (0..32).map(|number| {
        let patch = place
            .call(Method::PATCH, "a")
            .body(format!(r#"{{"n{number}":1}}"#));
        async { anyhow::Ok(patch.send().await?.error_for_status()?) }
    });
    let mut revisions = Vec::new();
    for patched in futures::future::join_all(patches).await {
        revisions.push(header(&patched?, "revision").parse::<u64>()?);
    }
    revisions.sort_unstable();
    assert_eq!(revisions, (2..=33).collect::<Vec<_>>());
    let body: serde_json::Value = serde_json::from_str(&place.get("a").await?.text().await?)?;
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(32));
    place.gateway.close().await
}

#[tokio::test]
async fn bad_requests_are_problems_and_change_nothing() -> Result<()> {
    let place = Place::new().await?;
    let anonymous = place.client.get(place.url("content/a")).send().await?;
    assert_eq!(anonymous.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(header(&anonymous, "www-authenticate"), "Bearer");
    for (path, body, expected) in [
        ("a//b", "1", "path"),
        ("a~", "1", "path"),
        ("a%7Bb", "1", "path"),
        ("a", "{", "body"),
        ("a", "null", "body"),
        ("a", r#"{"x":1,"x":2}"#, "body"),
    ] {
        let refused = place.put(path, body).await?;
        assert_eq!(
            (refused.status(), problem(refused).await?.as_str()),
            (StatusCode::BAD_REQUEST, expected),
            "{path} {body}"
        );
    }
    let long = place.put(&"a".repeat(254), "1").await?;
    assert_eq!(
        (long.status(), problem(long).await?.as_str()),
        (StatusCode::URI_TOO_LONG, "path-too-long")
    );
    let large = place
        .put("a", &format!("\"{}\"", "x".repeat(1 << 20)))
        .await?;
    assert_eq!(
        (large.status(), problem(large).await?.as_str()),
        (StatusCode::PAYLOAD_TOO_LARGE, "too-large")
    );
    let post = place.call(Method::POST, "a").send().await?;
    assert_eq!(
        (post.status(), header(&post, "allow")),
        (StatusCode::METHOD_NOT_ALLOWED, "GET,HEAD,PUT,PATCH,DELETE")
    );
    for (name, value, expected) in [
        ("if-match", "abc", "request"),
        ("hyper-storage-wait", "soon", "request"),
    ] {
        let refused = place
            .call(Method::PUT, "a")
            .header(name, value)
            .body("1")
            .send()
            .await?;
        assert_eq!(problem(refused).await?, expected);
    }
    let patch = place
        .call(Method::PATCH, "a")
        .header("content-type", "text/plain")
        .body("{}");
    assert_eq!(problem(patch.send().await?).await?, "media-type");
    assert_eq!(problem(place.get("a").await?).await?, "missing");
    place.gateway.close().await
}

/// The lines of a feed, as far as they have come.
struct Feed {
    response: Response,
    text: String,
}

impl Feed {
    async fn open(place: &Place, query: &str) -> Result<Self> {
        let request = place.client.get(place.url(&format!("feed{query}")));
        let response = request.bearer_auth(place.gateway.token()).send().await?;
        let mut feed = Self {
            response: response.error_for_status()?,
            text: String::new(),
        };
        feed.until("event: open").await?;
        Ok(feed)
    }

    async fn until(&mut self, text: &str) -> Result<()> {
        while !self.text.contains(text) {
            let chunk =
                tokio::time::timeout(Duration::from_secs(30), self.response.chunk()).await??;
            let chunk = chunk.with_context(|| format!("the feed ended after {:?}", self.text))?;
            self.text.push_str(std::str::from_utf8(&chunk)?);
        }
        Ok(())
    }
}

#[tokio::test]
async fn the_feed_tells_each_change_below_a_prefix_and_ends_with_the_gateway() -> Result<()> {
    let place = Place::new().await?;
    let mut feed = Feed::open(&place, "?prefix=guilds%2F").await?;
    place
        .put("guilds/red", r#"{"name":"Red"}"#)
        .await?
        .error_for_status()?;
    place.put("players/1", "1").await?.error_for_status()?;
    place
        .call(Method::PATCH, "guilds/red")
        .body(r#"{"name":null}"#)
        .send()
        .await?
        .error_for_status()?;
    place
        .call(Method::DELETE, "guilds/red")
        .send()
        .await?
        .error_for_status()?;
    feed.until("event: feed:delete").await?;
    assert!(!feed.text.contains("players"), "{}", feed.text);
    for part in [
        r#""path":"guilds/red","revision":1,"#,
        r#""prev":null,"#,
        r#""body":{"name":"Red"}"#,
        r#""body":{"name":null}"#,
    ] {
        feed.until(part).await?;
    }
    let unknown = place
        .client
        .get(place.url("feed?filter=x"))
        .bearer_auth(place.gateway.token());
    assert_eq!(problem(unknown.send().await?).await?, "request");
    // Open feeds do not hold up the end.
    place.gateway.close().await?;
    assert!(feed.until("nothing more").await.is_err());
    Ok(())
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart() -> Result<()> {
    let place = Place::new().await?;
    let put = place
        .call(Method::PUT, "a")
        .header("hyper-storage-wait", "landed")
        .body("[1.50,null]");
    put.send().await?.error_for_status()?;
    place.put("b", "2").await?.error_for_status()?;
    let Place {
        folder, gateway, ..
    } = place;
    gateway.close().await?;
    let place = Place::of(folder).await?;
    assert_eq!(place.get("a").await?.text().await?, "[1.50,null]");
    let next = place.put("b", "3").await?;
    assert_eq!(
        (next.status(), header(&next, "revision")),
        (StatusCode::OK, "2")
    );
    place.gateway.close().await
}
