//! Calls with an idempotency key, and their repeats.

use anyhow::{Context as _, Result};
use futures::future::join_all;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use storage_tests::{World, stack};

use crate::place::{Place, header, refused};

const INCREMENT: &str = "application/vnd.hyper-storage-increment+json";

/// A call with a key.
async fn keyed(
    place: &Place,
    (method, path): (Method, &str),
    key: &str,
    body: &str,
) -> Result<Response> {
    let call = place.call(method, path).header("idempotency-key", key);
    let call = call.header("content-type", if body.is_empty() { "" } else { INCREMENT });
    Ok(call.body(body.to_owned()).send().await?)
}

/// All that an answer says: status, headers of the change, and body.
async fn answer(response: Response) -> Result<(StatusCode, Vec<String>, String)> {
    let names = [
        "etag",
        "revision",
        "count",
        "location",
        "hyper-storage-transaction",
    ];
    let headers = names.map(|name| header(&response, name).to_owned());
    Ok((response.status(), headers.to_vec(), response.text().await?))
}

/// K26: many others call with keys of their own before the repeat comes.
pub(crate) async fn a_key_holds_whatever_others_send(place: Place) -> Result<()> {
    place.put("a", r#"{"n":0}"#).await?.error_for_status()?;
    let add = |key: String| {
        let place = &place;
        async move {
            keyed(place, (Method::PATCH, "a"), &key, r#"{"n":1}"#)
                .await?
                .error_for_status()
                .map_err(anyhow::Error::from)
        }
    };
    let post = |key: String| {
        let place = &place;
        async move {
            keyed(place, (Method::POST, "a~"), &key, "{}")
                .await?
                .error_for_status()
                .map_err(anyhow::Error::from)
        }
    };
    let keys = 0..70;
    for key in keys.clone() {
        add(key.to_string()).await?;
        post(key.to_string()).await?;
    }
    for key in keys {
        for again in [add(key.to_string()).await?, post(key.to_string()).await?] {
            assert_eq!(header(&again, "idempotent-replayed"), "true", "{key}");
        }
    }
    assert_eq!(place.json("a").await?, json!({"n": 70}));
    assert_eq!(header(&place.get("a~?size=0").await?, "count"), "70");
    place.close().await
}

/// K26: copies of one call that meet.
pub(crate) async fn of_copies_that_meet_one_is_carried_out(place: Place) -> Result<()> {
    place.put("a", r#"{"n":0}"#).await?.error_for_status()?;
    for (method, path, body) in [
        (Method::PATCH, "a", r#"{"n":1}"#),
        (Method::PUT, "b~/1", "{}"),
        (Method::POST, "c~", "{}"),
        (Method::POST, "d", "{}"),
    ] {
        let copies = (0..8).map(|_| keyed(&place, (method.clone(), path), "k", body));
        let mut first = 0;
        for copy in join_all(copies).await {
            let copy = copy?.error_for_status()?;
            first += usize::from(header(&copy, "idempotent-replayed").is_empty());
        }
        assert_eq!(first, 1, "{path}");
    }
    assert_eq!(place.json("a").await?, json!({"n": 1}));
    for collection in ["b~", "c~"] {
        assert_eq!(header(&place.get(collection).await?, "revision"), "1");
    }
    place.close().await
}

pub(crate) async fn a_repeat_has_the_answer_of_the_first_call(place: Place) -> Result<()> {
    let calls = [
        (Method::PUT, "a", r#"{"n":1}"#),
        (Method::PATCH, "a", r#"{"n":1}"#),
        (Method::DELETE, "a", ""),
        (Method::PUT, "b~", ""),
        (Method::PUT, "b~/1", r#"{"n":1}"#),
        (Method::PATCH, "b~/1", r#"{"n":1}"#),
        (Method::POST, "b~", "{}"),
        (Method::DELETE, "b~/1", ""),
        (Method::DELETE, "b~", ""),
        (Method::POST, "c", "{}"),
    ];
    let mut first = Vec::new();
    for (at, (method, path, body)) in calls.iter().enumerate() {
        let made = keyed(&place, (method.clone(), path), &at.to_string(), body).await?;
        first.push(answer(made.error_for_status()?).await?);
    }
    // Whatever comes in between.
    place.put("a", "5").await?.error_for_status()?;
    place.put("b~/1", "{}").await?.error_for_status()?;
    let place = place.reopened().await?;
    for ((at, (method, path, body)), first) in calls.iter().enumerate().zip(first) {
        let again = keyed(&place, (method.clone(), path), &at.to_string(), body).await?;
        assert_eq!(
            header(&again, "idempotent-replayed"),
            "true",
            "{method} {path}"
        );
        assert_eq!(answer(again).await?, first, "{method} {path}");
    }
    assert_eq!(place.json("a").await?, json!(5));
    place.close().await
}

/// A document below a path gets an id that its key gives, so a repeat finds it.
pub(crate) async fn a_document_is_posted_once_with_a_key(place: Place) -> Result<()> {
    let post = async |key: &str, body: &str| keyed(&place, (Method::POST, "a"), key, body).await;
    let first = post("k", r#"{"n":1}"#).await?.error_for_status()?;
    let location = header(&first, "location").to_owned();
    let again = post("k", r#"{"n":1}"#).await?.error_for_status()?;
    assert_eq!(header(&again, "location"), location);
    assert_eq!(header(&again, "idempotent-replayed"), "true");
    let other = post("l", r#"{"n":1}"#).await?.error_for_status()?;
    assert_ne!(header(&other, "location"), location);
    let reused = post("k", r#"{"n":2}"#).await?;
    assert_eq!(
        refused(reused).await?,
        (422, "idempotency-key-reused".to_owned())
    );
    // Its end does not make the key forgotten.
    let path = location.split_once("/content/").context("a path")?.1;
    place.delete(path).await?.error_for_status()?;
    let again = post("k", r#"{"n":1}"#).await?.error_for_status()?;
    assert_eq!(header(&again, "idempotent-replayed"), "true");
    assert_eq!(place.get(path).await?.status(), StatusCode::NOT_FOUND);
    place.close().await
}

/// A change that asks to be in the database, while that is away. Its repeat waits as long.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_answered_once_the_change_is_as_safe_as_it_asks() -> Result<()> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let mut world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    let limits = "statement_timeout = \"1s\"\nacquire_timeout = \"1s\"\n[landing]";
    world.text = world.text.replace("[landing]", limits);
    let place = Place::on(world).await?;
    // Owner, collection and key are known to Redis, so that no call has to ask the database.
    for path in ["a", "b~/1"] {
        place.put(path, r#"{"n":0}"#).await?.error_for_status()?;
    }
    let put = async |path: &str, wait: &'static str, key: Option<&str>| {
        let put = place
            .call(Method::PUT, path)
            .body(if path == "b~" { "" } else { r#"{"n":1}"# });
        let put = put
            .header("hyper-storage-wait", wait)
            .header("prefer", "wait=1");
        let put = match key {
            Some(key) => put.header("idempotency-key", key),
            None => put,
        };
        anyhow::Ok(put.send().await?)
    };
    let is_unsafe = async |answer: Response| -> Result<bool> {
        let status = answer.status();
        let problem: Value = serde_json::from_str(&answer.text().await?)?;
        let told = |name: &str| {
            problem
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let is_earlier = told("detail").starts_with("an earlier call has made the change");
        let is_unavailable = status == StatusCode::SERVICE_UNAVAILABLE;
        Ok(is_unavailable && told("outcome") == "applied" && is_earlier)
    };
    for (path, key) in [("a", "k"), ("b~/1", "k")] {
        // The first call is carried out, and its answer is lost.
        put(path, "cached", Some(key)).await?.error_for_status()?;
    }
    mariadb.pause()?;
    place.put("a", "3").await?.error_for_status()?;
    for (path, key) in [("a", Some("k")), ("b~/1", Some("k")), ("b~", None)] {
        place.put("b~/1", r#"{"n":2}"#).await?.error_for_status()?;
        let again = put(path, "landed", key).await?;
        assert!(is_unsafe(again).await?, "{path}");
        let cached = put(path, "cached", key).await?;
        assert_eq!(cached.status(), StatusCode::OK, "{path}");
    }
    mariadb.resume()?;
    for (path, key) in [("a", Some("k")), ("b~/1", Some("k")), ("b~", None)] {
        let is_safe = async || Ok(put(path, "landed", key).await?.status() == StatusCode::OK);
        storage_tests::until("the repeat is answered", is_safe).await?;
    }
    place.close().await
}

/// A note can be lost with Redis although its change has landed. The feed tells a reset then.
#[tokio::test(flavor = "multi_thread")]
async fn a_landed_change_is_answered_although_its_event_is_lost() -> Result<()> {
    let mariadb = stack::mariadb().await?;
    let world = World::on(&stack::redis().await?.url(), mariadb).await?;
    let database = world.database.rsplit('/').next().context("a name")?;
    let forget = format!("DELETE FROM `{database}`.landing_event");
    let place = Place::on(world).await?;
    let put = async || {
        let put = place.call(Method::PUT, "a").body("1");
        let put = put.header("idempotency-key", "k");
        let put = put.header("hyper-storage-wait", "landed").send().await?;
        anyhow::Ok(put.error_for_status()?)
    };
    let known = header(&put().await?, "hyper-storage-transaction").to_owned();
    assert!(!known.is_empty());
    assert_eq!(header(&put().await?, "hyper-storage-transaction"), known);
    mariadb.sql(&forget).await?;
    let again = put().await?;
    assert_eq!(header(&again, "idempotent-replayed"), "true");
    assert_eq!(header(&again, "hyper-storage-transaction"), "");
    place.close().await
}

/// A world whose database can be paused. Owner and key are known to Redis, so that no call has to ask it.
async fn with_a_key_that_is_known(mariadb: &MariaDbServer, redis: &str) -> Result<Place> {
    let mut world = World::on(redis, mariadb).await?;
    let limits = "statement_timeout = \"1s\"\nacquire_timeout = \"1s\"\n[landing]";
    world.text = world.text.replace("[landing]", limits);
    let place = Place::on(world).await?;
    place.put("a", "0").await?.error_for_status()?;
    let refused = place.call(Method::PUT, "a").body("1");
    let refused = refused.header("idempotency-key", "k");
    let refused = refused.header("if-match", "\"x\"").send().await?;
    assert_eq!(refused.status(), StatusCode::PRECONDITION_FAILED);
    Ok(place)
}

fn put_once(place: &Place, wait: &'static str) -> reqwest::RequestBuilder {
    let put = place.call(Method::PUT, "a").body("1");
    let put = put.header("idempotency-key", "k");
    put.header("hyper-storage-wait", wait)
}

/// The caller goes away while its change waits for the database.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_has_the_whole_answer_although_the_first_caller_went() -> Result<()> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let place = with_a_key_that_is_known(&mariadb, &stack::redis().await?.url()).await?;
    mariadb.pause()?;
    let is_made = async || Ok(place.get("a").await?.text().await? == "1");
    tokio::select! {
        first = put_once(&place, "landed").send() => anyhow::bail!("{first:?} without the database"),
        made = storage_tests::until("the change is made", is_made) => made?,
    }
    mariadb.resume()?;
    let is_whole = async || {
        let again = put_once(&place, "cached").send().await?;
        let again = again.error_for_status()?;
        assert_eq!(header(&again, "idempotent-replayed"), "true");
        anyhow::Ok(!header(&again, "hyper-storage-transaction").is_empty())
    };
    storage_tests::until("the answer is kept", is_whole).await?;
    place.close().await
}

/// Redis loses the change while its repeat waits for the database. Nothing is left then that could land.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_lost_while_its_repeat_waits_is_made_anew() -> Result<()> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let place = with_a_key_that_is_known(&mariadb, &redis.url()).await?;
    mariadb.pause()?;
    put_once(&place, "cached")
        .send()
        .await?
        .error_for_status()?;
    let again = put_once(&place, "landed").header("prefer", "wait=30");
    let loses = async {
        // Reads of the same gateway give the repeat the time to find its key. If it has not, it is a first
        // call, which is made as well.
        for _ in 0..50 {
            place.get("a").await?;
        }
        redis.kill()?;
        redis.restart().await?;
        mariadb.resume()?;
        anyhow::Ok(())
    };
    let (again, lost) = tokio::join!(again.send(), loses);
    lost?;
    if !again.is_ok_and(|again| again.status() == StatusCode::OK) {
        let is_made = async || {
            let again = put_once(&place, "landed").send().await?;
            Ok(again.status() == StatusCode::OK)
        };
        storage_tests::until("the repeat is answered", is_made).await?;
    }
    assert_eq!(place.get("a").await?.text().await?, "1");
    place.close().await
}
