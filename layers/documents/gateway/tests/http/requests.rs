//! Ids of requests, and the words of failures.

use std::sync::Mutex;

use anyhow::{Context as _, Result, anyhow};
use reqwest::Method;
use serde_json::Value;
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{World, stack};

use crate::place::{Place, header, json};

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_has_the_id_of_its_request() -> Result<()> {
    let place = Place::embedded().await?;
    let drawn = place.put("a", "1").await?;
    let other = place.put("a", "1").await?;
    let id = header(&drawn, "request-id");
    assert_eq!(id.len(), 32, "{id}");
    assert_ne!(id, header(&other, "request-id"));
    for (name, given, taken) in [
        ("request-id", "mine-1", true),
        ("x-request-id", "theirs", true),
        ("request-id", "two words", false),
    ] {
        let request = place.call(Method::GET, "none").header(name, given);
        let answer = request.send().await?;
        let id = header(&answer, "request-id").to_owned();
        assert_eq!(id == given, taken, "{given}");
        let problem = json(answer).await?;
        assert_eq!(
            problem.get("request_id").and_then(Value::as_str),
            Some(&*id)
        );
    }
    let ready = format!("http://{}/ready", place.gateway.address());
    let ready = place.client.get(ready).send().await?;
    assert_ne!(header(&ready, "request-id"), "");
    place.close().await
}

/// Redis is away. The words name no address and no key, and a read has no outcome. The log has it all.
#[tokio::test(flavor = "multi_thread")]
async fn failures_are_told_in_words_for_callers() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let writer = Mutex::new(std::fs::File::create(&log)?);
    let subscriber = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_ansi(false);
    subscriber.try_init().map_err(|error| anyhow!("{error}"))?;
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let url = redis.url();
    let world = World::on(&url, stack::mariadb().await?).await?;
    let place = Place::on(world).await?;
    place.put("a", "1").await?.error_for_status()?;
    let address = url
        .split(['/', '@'])
        .find(|part| part.contains(':') && !part.ends_with(':'));
    let address = address.context("an address")?.to_owned();
    drop(redis);
    for method in [Method::PUT, Method::GET] {
        let id = format!("the-{method}");
        let request = place.call(method.clone(), "a").body("2");
        let request = request.header("request-id", &id);
        let answer = request.send().await?;
        assert_eq!(answer.status(), 503, "{method}");
        let problem = json(answer).await?;
        let detail = problem.get("detail").and_then(Value::as_str);
        let detail = detail.context("a detail")?;
        assert!(
            !detail.contains(&address) && !detail.contains("documents/"),
            "{detail}"
        );
        if method == Method::GET {
            assert_eq!(problem.get("outcome"), None, "{problem}");
        }
        let log = std::fs::read_to_string(&log)?;
        let line = log.lines().find(|line| line.contains(&id));
        let line = line.context("a line of the log")?;
        let path = r#"path="/hyper-storage/content/a""#;
        for part in [&format!("method={method}"), path, "status=503", &address] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
    Ok(())
}
