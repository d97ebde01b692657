//! Several gateways, and servers that are away or lost. On Redis and MariaDB alone.

use anyhow::{Context as _, Result};
use futures::future::join_all;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::mysql::MySqlConnection;
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer};
use storage_tests::{World, stack};

use crate::feeds::Feed;
use crate::place::{Place, header, json as body_of, refused, told};

/// Calls that wait for one another.
const WAITING: usize = 20;

/// K8, K9, D8, D19: what is one step in one gateway is one step in two.
#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_are_as_one() -> Result<()> {
    let place = Place::on_servers().await?;
    let other = place.another().await?;
    let to = |number: usize, method: Method, path: &str| -> RequestBuilder {
        let gateway = if number.is_multiple_of(2) {
            &place.gateway
        } else {
            &other
        };
        let url = format!("http://{}/hyper-storage/content/{path}", gateway.address());
        let request = place.client.request(method, url);
        request.bearer_auth(gateway.token()).body("{}")
    };
    let puts = (0..8).map(|number| {
        let put = to(number, Method::PUT, "a");
        put.header("if-none-match", "*").send()
    });
    let is_made = |put: &reqwest::Result<reqwest::Response>| {
        put.as_ref()
            .is_ok_and(|put| put.status() == StatusCode::CREATED)
    };
    assert_eq!(
        join_all(puts)
            .await
            .iter()
            .filter(|put| is_made(put))
            .count(),
        1
    );

    let mut posts = Vec::new();
    let posted = (0..24).map(|number| to(number, Method::POST, "a~").send());
    for posted in join_all(posted).await {
        let posted = posted?.error_for_status()?;
        let revision: u64 = header(&posted, "revision").parse()?;
        posts.push((revision, header(&posted, "location").to_owned()));
    }
    posts.sort();
    assert!(posts.is_sorted_by(|one, next| one.1 < next.1), "{posts:?}");
    let patches = (0..24).map(|number| to(number, Method::PATCH, "a").send());
    for patched in join_all(patches).await {
        patched?.error_for_status()?;
    }
    assert_eq!(
        told(&place.get("a").await?),
        (200, "25", ""),
        "no revision is lost"
    );
    assert_eq!(told(&place.get("a~").await?), (200, "24", "24"));

    // A follower of one gateway hears of the other's changes.
    let mut feed = Feed::open(&place, "?prefix=b").await?;
    to(1, Method::PUT, "b").send().await?.error_for_status()?;
    feed.until("feed:put").await?;
    other.close().await?;
    place.close().await
}

/// K4, K5, K10, D2: Redis is emptied under open feeds.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_redis_resets_feeds_and_gives_no_tag_again() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    // Nothing lands before Redis is emptied.
    let landing = ("interval = \"20ms\"", "interval = \"1h\"");
    world.text = world.text.replace(landing.0, landing.1);
    world.settings.landing.interval = std::time::Duration::from_hours(1);
    let place = Place::on(world).await?;
    let mut feed = Feed::open(&place, "?prefix=a").await?;
    let first = place.put("a", "1").await?.error_for_status()?;
    let tag = header(&first, "etag").to_owned();
    feed.until(r#""revision":1,"#).await?;
    let id = feed.last_id().to_owned();
    redis.call(&["FLUSHALL"]).await?;
    let again = place.put("a", "2").await?.error_for_status()?;
    assert_ne!(header(&again, "etag"), tag);
    feed.until("event: reset").await?;
    let mut late = Feed::open(&place, &format!("?prefix=a&since={id}")).await?;
    late.until("event: reset").await?;
    let stale = place.call(Method::PUT, "a").header("if-match", tag);
    let stale = stale.body("3").send().await?;
    assert_eq!(refused(stale).await?, (412, "condition".to_owned()));
    drop((feed, late));
    place.close().await
}

/// K4: Redis restarts and has lost nothing, so nobody has to read again.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_restarts_with_all_of_its_data_resets_no_feed() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        appendonly: true,
        ..RedisOptions::default()
    })
    .await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let place = Place::on(world).await?;
    let mut feed = Feed::open(&place, "").await?;
    for number in 0..16 {
        place
            .put(&format!("a/{number}"), "1")
            .await?
            .error_for_status()?;
    }
    redis.kill()?;
    redis.restart().await?;
    let is_back = async || Ok(place.put("b", "1").await?.status().is_success());
    storage_tests::until("the storage is back", is_back).await?;
    for number in 0..16 {
        place
            .put(&format!("a/{number}"), "2")
            .await?
            .error_for_status()?;
        feed.until(&format!("\"path\":\"a/{number}\",\"revision\":2,"))
            .await?;
    }
    assert_eq!(feed.names().filter(|name| *name == "reset").count(), 0);
    drop(feed);
    place.close().await
}

/// D25: writes and feeds go on without the database. A list says why it can't be had.
#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_away_documents_are_served_and_lists_say_why_not() -> Result<()> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let mut world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    let limits = "statement_timeout = \"1s\"\nacquire_timeout = \"1s\"\n[landing]";
    world.text = world.text.replace("[landing]", limits);
    let place = Place::on(world).await?;
    place.put("a~/1", "{}").await?.error_for_status()?;
    let mut feed = Feed::open(&place, "?prefix=a~").await?;
    mariadb.pause()?;
    assert_eq!(place.get("a~/1").await?.status(), StatusCode::OK);
    place
        .patch("a~/1", r#"{"n":1}"#)
        .await?
        .error_for_status()?;
    feed.until("feed:patch").await?;
    let list = place.get("a~").await?;
    assert_eq!(header(&list, "retry-after"), "1");
    assert_eq!(refused(list).await?, (503, "storage".to_owned()));
    mariadb.resume()?;
    let is_back = async || Ok(place.get("a~").await?.status() == StatusCode::OK);
    storage_tests::until("lists are back", is_back).await?;
    drop(feed);
    place.close().await
}

/// B21: too many changes have not landed. What was refused has changed nothing.
#[tokio::test(flavor = "multi_thread")]
async fn changes_beyond_the_limit_of_unlanded_ones_are_refused_with_429() -> Result<()> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let mut world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    let limits = "\n[backpressure]\nsoft_marks = 20\nhard_marks = 60\ndelay_max = \"5ms\"\ninterval = \"10ms\"\n";
    world.text.push_str(limits);
    let place = Place::on(world).await?;
    place.put("a", r#"{"n":0}"#).await?.error_for_status()?;
    mariadb.pause()?;
    let add = async || {
        let patch = place.call(Method::PATCH, "a").body(r#"{"n":1}"#);
        let increment = "application/vnd.hyper-storage-increment+json";
        anyhow::Ok(patch.header("content-type", increment).send().await?)
    };
    let mut made = 0_u64;
    let is_refused = async || {
        let added = add().await?;
        if added.status() == StatusCode::OK {
            made += 1;
            return Ok(false);
        }
        assert_eq!(header(&added, "retry-after"), "1");
        assert_eq!(refused(added).await?, (429, "overloaded".to_owned()));
        Ok(true)
    };
    storage_tests::until("a change is refused", is_refused).await?;
    assert_eq!(place.json("a").await?, json!({"n": made}));
    mariadb.resume()?;
    let is_taken = async || Ok(add().await?.status() == StatusCode::OK);
    storage_tests::until("changes are taken again", is_taken).await?;
    assert_eq!(place.json("a").await?, json!({"n": made + 1}));
    place.close().await
}

/// The statements that a database gets while some requests wait for a change.
async fn statements_of_waits(place: &Place, database: &str, count: usize) -> Result<u64> {
    let mut connection = MySqlConnection::connect(database).await?;
    let mut asked = async || {
        let status = sqlx::query_as("SHOW GLOBAL STATUS LIKE 'Com_stmt_execute'");
        let (_, asked): (String, String) = status.fetch_one(&mut connection).await?;
        anyhow::Ok(asked.parse::<u64>()?)
    };
    let before = asked().await?;
    let waits = (0..count).map(|_| place.look("_changes?since=now&wait=3"));
    for page in join_all(waits).await {
        let page = body_of(page?.error_for_status()?).await?;
        assert_eq!(page.pointer("/results"), Some(&json!([])));
    }
    Ok(asked().await? - before)
}

/// Requests that wait share the looks at the database.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_idle_waits_ask_the_database_hardly_more_than_one() -> Result<()> {
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let world = World::on(&stack::redis().await?.url(), &mariadb).await?;
    let database = world.database.clone();
    let place = Place::on(world).await?;
    let one = statements_of_waits(&place, &database, 1).await?;
    let fifty = statements_of_waits(&place, &database, 50).await?;
    // Each has some statements of its own, at its begin and its end.
    assert!(fifty <= one + 50 * 15, "{fifty} for fifty, {one} for one");
    place.close().await
}

/// The partition of a change, by the answer to it.
fn partition_of(answer: &Response) -> Result<u32> {
    let id = header(answer, "hyper-storage-transaction");
    Ok(id.split('.').next().context("an id")?.parse()?)
}

/// The revisions of a path in the landed feed behind a cursor, which goes to the end.
async fn landed_revisions(place: &Place, cursor: &mut String, path: &str) -> Result<Vec<u64>> {
    let page = place.look(&format!("_changes?since={cursor}")).await?;
    let page = body_of(page.error_for_status()?).await?;
    let last = page.get("last_seq").and_then(Value::as_str);
    last.context("last_seq")?.clone_into(cursor);
    let changes = page.get("results").and_then(Value::as_array);
    let changes = changes.context("results")?.iter();
    let ours = changes.filter(|change| change.get("path") == Some(&Value::from(path)));
    Ok(ours
        .filter_map(|change| change.get("revision")?.as_u64())
        .collect())
}

/// K3: somebody holds the record of one partition, whose changes land after later ones of another.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_partition_that_lands_late_are_in_the_landed_feed() -> Result<()> {
    let world = World::fresh().await?;
    let database = world.database.clone();
    let place = Place::on(world).await?;
    let put = async |path: &str, wait: &'static str| {
        let put = place.call(Method::PUT, path).body("1");
        let put = put.header("hyper-storage-wait", wait).send().await?;
        anyhow::Ok(put.error_for_status()?)
    };
    let late = partition_of(&put("late", "landed").await?)?;
    let mut number = 0;
    let other = loop {
        number += 1;
        let other = format!("other{number}");
        if partition_of(&put(&other, "landed").await?)? != late {
            break other;
        }
    };
    let mut holder = MySqlConnection::connect(&database).await?;
    let mut held = holder.begin().await?;
    let record = "SELECT epoch FROM landing_partition WHERE partition_id = ? FOR UPDATE";
    let record = sqlx::query(record).bind(late);
    record.fetch_one(&mut *held).await?;
    let mut cursor = String::new();
    let mut seen = Vec::new();
    for _ in 0..2 {
        put("late", "cached").await?;
        put(&other, "landed").await?;
        seen.extend(landed_revisions(&place, &mut cursor, "late").await?);
    }
    assert_eq!(seen, [1], "the partition is held up");
    held.rollback().await?;
    let is_told = async || {
        seen.extend(landed_revisions(&place, &mut cursor, "late").await?);
        Ok(seen.len() >= 3)
    };
    storage_tests::until("the late changes are told", is_told).await?;
    assert_eq!(seen, [1, 2, 3]);
    assert_eq!(
        landed_revisions(&place, &mut String::new(), &other).await?,
        [1, 2, 3]
    );
    place.close().await
}

/// Those that wait in a line are answered within their own time, and not one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_one_another_are_all_answered_while_redis_is_away() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let place = Place::on(world).await?;
    place.post("a~", "{}").await?.error_for_status()?;
    redis.pause()?;
    let posts = (0..WAITING).map(|_| place.post("a~", "{}"));
    let feeds = (0..WAITING).map(|_| place.look("feed"));
    let all = async {
        let (posts, feeds) = futures::join!(join_all(posts), join_all(feeds));
        anyhow::Ok((posts, feeds))
    };
    let (posts, feeds) = storage_tests::bounded("all are answered", all).await?;
    for answer in posts.into_iter().chain(feeds) {
        assert_eq!(answer?.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    for path in ["a", "a~", "kept/a?revision=1"] {
        let failed = body_of(place.get(path).await?).await?;
        assert_eq!(failed.get("status"), Some(&json!(503)), "{path}");
        assert_eq!(
            failed.get("outcome"),
            None,
            "{path}: a read changes nothing"
        );
    }
    redis.resume()?;
    let is_back = async || Ok(place.post("a~", "{}").await?.status() == StatusCode::CREATED);
    storage_tests::until("posts are back", is_back).await?;
    Feed::open(&place, "").await?;
    place.close().await
}
