//! The live feed and the landed feed.

use std::time::Duration;

use anyhow::{Context as _, Result};
use reqwest::{Method, Response};
use serde_json::Value;

use crate::place::{Place, header, json, problem, refused};

/// The most bytes of a feed that a message shows.
const SHOWN_MAX: usize = 4_000;

/// The lines of a feed, as far as they have come.
pub(crate) struct Feed {
    response: Response,
    text: String,
}

impl Feed {
    pub(crate) async fn open(place: &Place, query: &str) -> Result<Self> {
        let response = place.look(&format!("feed{query}")).await?;
        Self::of(response.error_for_status()?).await
    }

    /// The feed of this answer.
    pub(crate) async fn of(response: Response) -> Result<Self> {
        let text = String::new();
        let mut feed = Self { response, text };
        feed.until("event: begin").await?;
        Ok(feed)
    }

    /// The id of the last event that had one.
    pub(crate) fn last_id(&self) -> &str {
        let id = self
            .text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("id: "));
        id.unwrap_or_default()
    }

    /// The names of the events.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let lines = self.text.lines();
        lines.filter_map(|line| line.strip_prefix("event: "))
    }

    /// The changes that were told.
    pub(crate) fn changes(&self) -> Vec<Value> {
        let lines = self.text.lines();
        let data = lines.filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(|text| serde_json::from_str(text).ok())
            .filter(|data: &Value| data.get("path").is_some())
            .collect()
    }

    /// What came last, for messages.
    fn end(&self) -> &str {
        let from = self.text.len().saturating_sub(SHOWN_MAX);
        self.text.get(from..).unwrap_or_default()
    }

    /// Waits until the feed has this text, for 30 s at most. Comments keep the feed alive meanwhile.
    pub(crate) async fn until(&mut self, text: &str) -> Result<()> {
        let end = tokio::time::Instant::now() + Duration::from_secs(30);
        // A text that is not in what has come ends in what comes.
        let mut looked = 0;
        while !self.text.get(looked..).unwrap_or_default().contains(text) {
            looked = self.text.len().saturating_sub(text.len());
            let chunk = tokio::time::timeout_at(end, self.response.chunk()).await;
            let chunk = chunk.with_context(|| format!("no {text:?} at {:?}", self.end()))??;
            let chunk = chunk.with_context(|| format!("the feed ended after {:?}", self.end()))?;
            self.text.push_str(std::str::from_utf8(&chunk)?);
        }
        Ok(())
    }
}

pub(crate) async fn the_feed_tells_each_change_below_a_prefix_and_ends_with_the_gateway(
    place: Place,
) -> Result<()> {
    let mut feed = Feed::open(&place, "?prefix=guilds%2F").await?;
    place
        .put("guilds/red", r#"{"name":"Red","x":null}"#)
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
    for body in ["[1,null]", "1.50", "\"x\"", "false"] {
        place.put("guilds/b", body).await?.error_for_status()?;
        feed.until(&format!("\"body\":{body}}}")).await?;
    }
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
    let unknown = place.look("feed?only=x").await?;
    assert_eq!(problem(unknown).await?, "request");
    // Open feeds do not hold up the end.
    place.close().await?;
    assert!(feed.until("nothing more").await.is_err());
    Ok(())
}

pub(crate) async fn a_feed_tells_what_lies_below_any_of_several_prefixes(
    place: Place,
) -> Result<()> {
    const ASKED: &str = "prefix=rooms/red&prefix=rooms%2Fblue&prefix=players/";
    let mut feed = Feed::open(&place, &format!("?{ASKED}")).await?;
    let since = feed.last_id().to_owned();
    for path in [
        "rooms/red",
        "rooms/reds",
        "guilds/1",
        "rooms/blue/seats",
        "players/1",
    ] {
        place.put(path, "1").await?.error_for_status()?;
    }
    let expected = ["players/1", "rooms/blue/seats", "rooms/red"];
    let all_are_told = async |feed: &mut Feed| {
        for path in expected {
            feed.until(&format!("\"path\":\"{path}\"")).await?;
        }
        let told = feed.changes();
        let mut told: Vec<&str> = told.iter().filter_map(path_of).collect();
        told.sort_unstable();
        assert_eq!(told, expected);
        anyhow::Ok(())
    };
    all_are_told(&mut feed).await?;
    // So is a client that comes back, and one that reads what has landed.
    let mut feed = Feed::open(&place, &format!("?{ASKED}&since={since}")).await?;
    all_are_told(&mut feed).await?;
    drop(feed);
    let all_have_landed = async || {
        let page = json(place.look(&format!("_changes?{ASKED}")).await?).await?;
        let results = page.get("results").and_then(Value::as_array);
        let results = results.context("results")?;
        let mut landed: Vec<&str> = results.iter().filter_map(path_of).collect();
        landed.sort_unstable();
        assert!(landed.iter().all(|path| expected.contains(path)), "{page}");
        anyhow::Ok(landed == expected)
    };
    storage_tests::until("all have landed", all_have_landed).await?;
    let many = "&prefix=a".repeat(33);
    for feed in ["feed", "_changes"] {
        let many = place.look(&format!("{feed}?{many}")).await?;
        assert_eq!(refused(many).await?, (400, "query".to_owned()), "{feed}");
    }
    place.close().await
}

fn path_of(change: &Value) -> Option<&str> {
    change.get("path").and_then(Value::as_str)
}

/// Otherwise its id would be so old one day that it is reset.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_told_nothing_gets_newer_ids() -> Result<()> {
    let place = Place::embedded().await?;
    let mut feed = Feed::open(&place, "?prefix=quiet").await?;
    let begun = feed.last_id().to_owned();
    place.put("loud", "1").await?.error_for_status()?;
    feed.until("\n: \nid: ").await?;
    place.put("quiet", "1").await?.error_for_status()?;
    feed.until("\"path\":\"quiet\"").await?;
    let line = feed.text.split("\n: \nid: ").nth(1).context("a line")?;
    let id = line.lines().next().unwrap_or_default().to_owned();
    assert_ne!(id, begun);
    let mut feed = Feed::open(&place, &format!("?prefix=quiet&since={id}")).await?;
    feed.until("\"path\":\"quiet\"").await?;
    drop(feed);
    place.close().await
}

/// K6: nothing is lost between two connections, however much of it has landed meanwhile.
pub(crate) async fn a_client_that_comes_back_gets_what_it_missed(place: Place) -> Result<()> {
    let mut feed = Feed::open(&place, "?prefix=a").await?;
    place.put("a", "1").await?.error_for_status()?;
    feed.until(r#""revision":1,"#).await?;
    let id = feed.last_id().to_owned();
    drop(feed);
    place.put("a", "2").await?.error_for_status()?;
    let landed = place
        .call(Method::PUT, "a")
        .header("hyper-storage-wait", "landed");
    landed.body("3").send().await?.error_for_status()?;
    place.put("b", "1").await?.error_for_status()?;
    place.put("a", "4").await?.error_for_status()?;
    let request = place.client.get(place.url("feed?prefix=a"));
    let request = request.bearer_auth(place.gateway.token());
    let response = request.header("last-event-id", id).send().await?;
    let mut feed = Feed {
        response: response.error_for_status()?,
        text: String::new(),
    };
    place.put("a", "5").await?.error_for_status()?;
    feed.until(r#""revision":5,"#).await?;
    let changes = feed.changes();
    let revisions = changes.iter().filter_map(|change| change.get("revision"));
    let revisions: Vec<u64> = revisions.filter_map(Value::as_u64).collect();
    assert_eq!(revisions, [2, 3, 4, 5], "{}", feed.text);
    let wrong = place.look("feed?since=yesterday").await?;
    assert_eq!(refused(wrong).await?, (400, "request".to_owned()));
    drop(feed);
    place.close().await
}

/// The id that an `EventSource` sends after these lines: that of the last event that it dispatched.
fn id_after(lines: &[&str], before: &str) -> String {
    let (mut next, mut last) = (before.to_owned(), before.to_owned());
    for line in lines {
        match line.strip_prefix("id: ") {
            Some(id) => id.clone_into(&mut next),
            None if line.is_empty() => next.clone_into(&mut last),
            None => {}
        }
    }
    last
}

/// The paths of the changes in these lines.
fn told_in(lines: &[&str]) -> Vec<String> {
    let data = lines.iter().filter_map(|line| line.strip_prefix("data: "));
    let data = data.filter_map(|text| serde_json::from_str(text).ok());
    let path = |data: Value| Some(data.get("path")?.as_str()?.to_owned());
    data.filter_map(path).collect()
}

/// K6: the union of all that it was told is all.
async fn breaks_at_any_line(place: &Place) -> Result<()> {
    let paths: Vec<String> = (0..5).map(|number| format!("a/{number}")).collect();
    let before = Feed::open(place, "?prefix=a").await?;
    let since = before.last_id().to_owned();
    drop(before);
    for path in &paths {
        place.put(path, "1").await?.error_for_status()?;
    }
    // What a client is told from its return on, until it knows all.
    let returned = async |since: &str, known: &[String]| {
        let mut feed = Feed::open(place, &format!("?prefix=a&since={since}")).await?;
        for path in paths.iter().filter(|path| !known.contains(path)) {
            let told = feed.until(&format!("\"path\":\"{path}\",")).await;
            told.with_context(|| format!("{path} is missing behind {since}"))?;
        }
        feed.until("\n\n").await?;
        anyhow::Ok(feed.text)
    };
    let text = returned(&since, &[]).await?;
    let lines: Vec<&str> = text.lines().collect();
    for count in 0..=lines.len() {
        let seen = lines.get(..count).context("lines")?;
        let again = returned(&id_after(seen, &since), &told_in(seen)).await?;
        assert!(!again.contains("event: reset"), "{again}");
    }
    Ok(())
}

pub(crate) async fn a_client_that_breaks_at_any_line_and_comes_back_misses_nothing(
    place: Place,
) -> Result<()> {
    breaks_at_any_line(&place).await?;
    place.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_one_or_of_64_partitions_misses_nothing_after_a_break() -> Result<()> {
    for count in [1, 64] {
        let place = Place::with_partitions(count).await?;
        breaks_at_any_line(&place).await?;
        place.close().await?;
    }
    Ok(())
}

/// K6: they share what they read.
pub(crate) async fn many_clients_that_come_back_at_once_get_all_that_they_missed(
    place: Place,
) -> Result<()> {
    let since = Feed::open(&place, "?prefix=a").await?.last_id().to_owned();
    for number in 0..100 {
        place
            .put(&format!("a/{}", number % 7), &number.to_string())
            .await?
            .error_for_status()?;
    }
    let clients = (0..40).map(|_| async {
        let mut feed = Feed::open(&place, &format!("?prefix=a&since={since}")).await?;
        // The last change of each path.
        for body in 93..100 {
            feed.until(&format!("\"body\":{body}}}")).await?;
        }
        anyhow::Ok(feed.changes().len())
    });
    for told in futures::future::try_join_all(clients).await? {
        assert_eq!(told, 100);
    }
    place.close().await
}

/// K4: a restart in order loses nothing, so nobody has to read again.
pub(crate) async fn a_client_goes_on_after_a_restart_of_the_gateway(place: Place) -> Result<()> {
    let mut feed = Feed::open(&place, "?prefix=a").await?;
    place.put("a/1", "1").await?.error_for_status()?;
    feed.until("\"body\":1}").await?;
    feed.until("\n\n").await?;
    let since = feed.last_id().to_owned();
    drop(feed);
    place.put("a/2", "2").await?.error_for_status()?;
    let place = place.reopened().await?;
    place.put("a/1", "3").await?.error_for_status()?;
    let mut feed = Feed::open(&place, &format!("?prefix=a&since={since}")).await?;
    feed.until("\"body\":2}").await?;
    feed.until("\"body\":3}").await?;
    assert!(!feed.text.contains("reset"), "{}", feed.text);
    drop(feed);
    // Ids from before any change of the new run.
    let place = place.reopened().await?;
    let since = Feed::open(&place, "?prefix=a").await?.last_id().to_owned();
    let page = place.look(&format!("_changes?since={since}")).await?;
    assert_eq!(page.status(), 200);
    let mut feed = Feed::open(&place, &format!("?prefix=a&since={since}")).await?;
    place.put("a/1", "4").await?.error_for_status()?;
    feed.until("\"body\":4}").await?;
    assert!(!feed.text.contains("reset"), "{}", feed.text);
    drop(feed);
    place.close().await
}

/// K6: the cursor of a page that ends early has a place in each partition.
pub(crate) async fn a_page_of_the_landed_feed_leads_into_the_live_feed(place: Place) -> Result<()> {
    let paths: Vec<String> = (0..5).map(|number| format!("a/{number}")).collect();
    for path in &paths {
        let landed = place
            .call(Method::PUT, path)
            .header("hyper-storage-wait", "landed");
        landed.body("1").send().await?.error_for_status()?;
    }
    let page = json(place.look("_changes?prefix=a&limit=1").await?).await?;
    let text = page.to_string();
    let since = page
        .get("last_seq")
        .and_then(Value::as_str)
        .context("last_seq")?;
    let mut feed = Feed::open(&place, &format!("?prefix=a&since={since}")).await?;
    for path in paths
        .iter()
        .filter(|path| !text.contains(&format!("\"{path}\"")))
    {
        feed.until(&format!("\"path\":\"{path}\",")).await?;
    }
    assert_eq!(feed.names().filter(|name| *name == "reset").count(), 0);
    drop(feed);
    place.close().await
}

/// K4, K5: a copy of the database that is older than the cursor, or another database.
pub(crate) async fn a_cursor_of_another_state_of_the_database_is_gone(place: Place) -> Result<()> {
    let landed = place
        .call(Method::PUT, "a")
        .header("hyper-storage-wait", "landed");
    landed.body("1").send().await?.error_for_status()?;
    let page = json(place.look("_changes").await?).await?;
    let since = page
        .get("last_seq")
        .and_then(Value::as_str)
        .context("last_seq")?;
    let (database, places) = since.split_once('/').context("a database")?;
    let (partition, at) = places
        .split(',')
        .filter_map(|place| place.split_once(':'))
        .find(|(_, at)| !at.ends_with("-0"))
        .context("a place")?;
    let (epoch, number) = at.split_once('-').context("a position")?;
    let (later, next) = (epoch.parse::<u64>()? + 1, number.parse::<u64>()? + 1);
    let other: String = database.chars().rev().collect();
    for gone in [
        format!("{partition}:999999-{number}"),
        format!("{partition}:{later}-{number}"),
        format!("{partition}:{epoch}-{next}"),
        format!("{database}/{partition}:{later}-{number}"),
        format!("{other}/{places}"),
        "999999:1-1".to_owned(),
    ] {
        let gone = place.look(&format!("_changes?since={gone}")).await?;
        assert_eq!(refused(gone).await?, (410, "cursor-too-old".to_owned()));
    }
    let here = place.look(&format!("_changes?since={since}")).await?;
    assert_eq!(here.status(), 200);
    place.close().await
}

/// K7: an item that no longer matches the filter of a client is told.
pub(crate) async fn an_item_that_leaves_a_filter_is_told(place: Place) -> Result<()> {
    let mut feed = Feed::open(&place, "?prefix=a~&filter=n%20%3E%205").await?;
    for (id, body) in [("1", r#"{"n":7}"#), ("2", r#"{"n":1}"#)] {
        place
            .put(&format!("a~/{id}"), body)
            .await?
            .error_for_status()?;
    }
    place
        .patch("a~/1", r#"{"n":9}"#)
        .await?
        .error_for_status()?;
    place
        .patch("a~/1", r#"{"n":2}"#)
        .await?
        .error_for_status()?;
    place
        .patch("a~/1", r#"{"n":3}"#)
        .await?
        .error_for_status()?;
    place.delete("a~/1").await?.error_for_status()?;
    place.put("a~/3", r#"{"n":8}"#).await?.error_for_status()?;
    feed.until("a~/3").await?;
    feed.until("\n\n").await?;
    let names: Vec<&str> = feed.names().collect();
    // The patch that was read with a later one may have left the filter by then.
    let expected = [
        "begin",
        "feed:put",
        "leave",
        "feed:patch",
        "leave",
        "feed:put",
    ];
    let early = ["begin", "feed:put", "leave", "leave", "feed:put"];
    assert!(names == expected || names == early, "{}", feed.text);
    place.close().await
}

pub(crate) async fn landed_changes_come_by_pages_each_once(place: Place) -> Result<()> {
    for number in 0..7 {
        place
            .put(&format!("a~/{number}"), "{}")
            .await?
            .error_for_status()?;
        place
            .put(&format!("b/{number}"), "1")
            .await?
            .error_for_status()?;
    }
    let (mut since, mut paths) = (String::new(), Vec::new());
    while paths.len() < 7 {
        let page = place
            .look(&format!("_changes?prefix=a~&limit=3&wait=20&since={since}"))
            .await?;
        let page = json(page.error_for_status()?).await?;
        let results = page.get("results").and_then(Value::as_array);
        for change in results.context("results")? {
            let part = |name| change.get(name).and_then(Value::as_str).unwrap_or_default();
            assert_eq!(part("method"), "feed:put");
            paths.push(part("path").to_owned());
        }
        since = page
            .get("last_seq")
            .and_then(Value::as_str)
            .context("last_seq")?
            .to_owned();
    }
    let expected: Vec<String> = (0..7).map(|number| format!("a~/{number}")).collect();
    assert_eq!(paths, expected);
    let end = json(
        place
            .look(&format!("_changes?prefix=a~&since={since}"))
            .await?,
    )
    .await?;
    assert_eq!(
        end.get("results").and_then(Value::as_array).map(Vec::len),
        Some(0)
    );
    let now = place.look("_changes?since=now").await?;
    assert!(now.status().is_success());
    let wrong = place.look("_changes?since=x").await?;
    assert_eq!(refused(wrong).await?, (400, "request".to_owned()));
    for ahead in ["1:1-99999", "7:0-20026", "999999:1-1"] {
        let wrong = place.look(&format!("_changes?since={ahead}")).await?;
        assert_eq!(
            refused(wrong).await?,
            (410, "cursor-too-old".to_owned()),
            "{ahead}"
        );
    }
    place.close().await
}

pub(crate) async fn a_transaction_is_accepted_and_then_landed(place: Place) -> Result<()> {
    let put = place.put("a", "1").await?;
    let id = header(&put, "hyper-storage-transaction").to_owned();
    let state = async || {
        let found = place.look(&format!("transactions/{id}")).await?;
        let found = json(found.error_for_status()?).await?;
        let state = found.get("state").and_then(Value::as_str);
        Ok::<_, anyhow::Error>(state.unwrap_or_default().to_owned())
    };
    assert!(["accepted", "landed"].contains(&state().await?.as_str()));
    let landed = async || Ok(state().await? == "landed");
    storage_tests::until("it has landed", landed).await?;
    let landed = place
        .call(Method::PUT, "a")
        .header("hyper-storage-wait", "landed");
    let landed = landed.body("2").send().await?.error_for_status()?;
    let id = header(&landed, "hyper-storage-transaction");
    let found = json(place.look(&format!("transactions/{id}")).await?).await?;
    assert_eq!(found.get("state").and_then(Value::as_str), Some("landed"));
    for unknown in ["0.1.999999", "x", "99999.1.1", "0.1.0"] {
        let found = place.look(&format!("transactions/{unknown}")).await?;
        assert_eq!(
            refused(found).await?,
            (404, "missing".to_owned()),
            "{unknown}"
        );
    }
    place.close().await
}

pub(crate) async fn a_deleted_collection_is_told_to_followers_of_its_items(
    place: Place,
) -> Result<()> {
    place.put("a~/1", "{}").await?.error_for_status()?;
    let mut feed = Feed::open(&place, "?prefix=a~%2F1").await?;
    place.put("a~/2", "{}").await?.error_for_status()?;
    place.delete("a~").await?.error_for_status()?;
    feed.until("feed:delete").await?;
    feed.until(r#""path":"a~","revision":3,"#).await?;
    assert!(!feed.text.contains("a~/2"), "{}", feed.text);
    place.close().await
}

/// F11, B46, D2: the events of an item are a chain beside those of its neighbours.
pub(crate) async fn the_events_of_an_item_are_a_chain(place: Place) -> Result<()> {
    let mut tags = vec![Value::Null];
    for round in 0..3 {
        let put = place.put("a~/1", &format!(r#"{{"n":{round}}}"#)).await?;
        tags.push(header(&put.error_for_status()?, "etag").into());
        for _ in 0..2 {
            place.put("a~/2", "{}").await?.error_for_status()?;
        }
    }
    let gone = place.delete("a~/1").await?.error_for_status()?;
    tags.push(header(&gone, "etag").into());
    let chain = async || {
        let page = json(place.look("_changes?prefix=a~%2F1").await?).await?;
        let events = page
            .get("results")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let of = |event: &Value, name| event.get(name).cloned().unwrap_or_default();
        let links = events
            .iter()
            .map(|event| [of(event, "prev"), of(event, "etag"), of(event, "count")]);
        anyhow::Ok(links.collect::<Vec<_>>())
    };
    storage_tests::until("all are told", async || Ok(chain().await?.len() == 4)).await?;
    let counts = [1, 2, 2, 1].map(Value::from);
    let links = tags.windows(2).zip(counts);
    let expected: Vec<[Value; 3]> = links
        .filter_map(|(pair, count)| Some([pair.first()?.clone(), pair.last()?.clone(), count]))
        .collect();
    assert_eq!(chain().await?, expected);
    place.close().await
}

/// A gateway of another world on the same storage tells nothing of this one.
pub(crate) async fn feeds_tell_the_documents_of_their_world_alone(place: Place) -> Result<()> {
    let theirs = place.theirs()?;
    let mut feed = Feed::open(&place, "").await?;
    let path = storage_documents::Path::new("x")?;
    theirs
        .put(&path, b"1", &storage_documents::Call::default())
        .await?;
    place.put("y", "2").await?.error_for_status()?;
    feed.until(r#""path":"y""#).await?;
    assert!(!feed.text.contains(r#""path":"x""#), "{}", feed.text);
    let page = place.look("_changes?wait=20").await?.text().await?;
    assert!(!page.contains(r#""path":"x""#), "{page}");
    place.close().await
}

/// B39: the event of an item or document that was posted.
pub(crate) async fn the_event_of_a_post_is_a_put_with_the_id(place: Place) -> Result<()> {
    for path in ["a~", "b"] {
        let mut feed = Feed::open(&place, &format!("?prefix={path}")).await?;
        let posted = place.post(path, r#"{"n":1,"x":null}"#).await?;
        let posted = json(posted.error_for_status()?).await?;
        let target = posted.pointer("/target/id").cloned();
        let revision = r#""revision":1,"#;
        feed.until(revision).await?;
        feed.until("\n\n").await?;
        let is_told = async || {
            let landed = place.look(&format!("_changes?prefix={path}")).await?;
            let landed = json(landed).await?;
            let landed = landed.pointer("/results/0").cloned();
            Ok(landed.is_some() && landed == feed.changes().pop())
        };
        storage_tests::until("both feeds tell the same", is_told).await?;
        let told = feed.changes().pop().context("a change")?;
        assert_eq!(told.get("method"), Some(&Value::from("feed:put")));
        assert_eq!(told.get("path"), posted.get("path"));
        assert_eq!(told.pointer("/body/id"), target.as_ref());
        assert_eq!(told.pointer("/body/n"), Some(&Value::from(1)));
        assert_eq!(told.pointer("/body/x"), None);
    }
    place.close().await
}
