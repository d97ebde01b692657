//! Answers to what clients send: too large, too long, in odd spellings.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use reqwest::{Method, Response};
use serde_json::Value;
use storage_documents::{Call, Path, Query};
use storage_sdk::{ManualClock, Timestamp};
use storage_tests::World;

use crate::place::{Place, header, json, refused, told};

/// The type of a JSON patch.
const JSON_PATCH: &str = "application/json-patch+json";
/// More items than one list reads.
const ENDED: usize = 20_600;

/// Status, type and text of a problem.
pub(crate) async fn explained(response: Response) -> Result<(u16, String, String)> {
    let status = response.status().as_u16();
    let body = json(response).await?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    let of = text("type").context("no type")?;
    let of = of.trim_start_matches("urn:document-gateway:").to_owned();
    Ok((status, of, text("detail").context("no detail")?))
}

/// The method and the body that the landed feed tells of a revision.
async fn told_of(place: &Place, path: &str, revision: u64) -> Result<(String, Value)> {
    let mut found = None;
    let is_told = async || {
        let page = json(place.look(&format!("_changes?prefix={path}")).await?).await?;
        let changes = page.get("results").and_then(Value::as_array);
        let mut changes = changes.into_iter().flatten();
        let is_it =
            |change: &&Value| change.get("revision").and_then(Value::as_u64) == Some(revision);
        found = changes.find(is_it).cloned();
        Ok(found.is_some())
    };
    storage_tests::until("the change is told", is_told).await?;
    let found = found.context("a change")?;
    let method = found.get("method").and_then(Value::as_str);
    let body = found.get("body").cloned().unwrap_or_default();
    Ok((method.unwrap_or_default().to_owned(), body))
}

/// The members of an object whose names are long.
fn long_names(letter: char, members: usize) -> String {
    let name = |number: usize| format!("\"{}{number}\":1", letter.to_string().repeat(1_000));
    let members: Vec<String> = (0..members).map(name).collect();
    format!("{{{}}}", members.join(","))
}

pub(crate) async fn a_patch_that_is_longer_than_the_body_is_told_as_a_put(
    place: Place,
) -> Result<()> {
    for path in ["a", "b~/1"] {
        let put = place.put(path, &long_names('x', 900)).await?;
        assert_eq!(told(&put).0, 201, "{path}");
        // The difference names the members that go and those that come.
        let value = long_names('y', 900).replacen('{', r#"{"id":"1","#, 1);
        let body = format!(r#"[{{"op":"replace","path":"","value":{value}}}]"#);
        let patch = place
            .call(Method::PATCH, path)
            .header("content-type", JSON_PATCH);
        assert_eq!(
            told(&patch.body(body).send().await?),
            (200, "2", ""),
            "{path}"
        );
        let (method, body) = told_of(&place, path, 2).await?;
        assert_eq!(
            (method.as_str(), body.to_string().len()),
            ("feed:put", value.len()),
            "{path}"
        );
        // A merge patch, too, can be longer than what is left.
        place.put(path, r#"{"id":"1"}"#).await?.error_for_status()?;
        let nulls = long_names('x', 2).replace(":1", ":null");
        place.patch(path, &nulls).await?.error_for_status()?;
        let (method, body) = told_of(&place, path, 4).await?;
        assert_eq!(
            (method.as_str(), body),
            ("feed:put", serde_json::json!({"id": "1"})),
            "{path}"
        );
        // A short one is told as it was sent.
        place
            .patch(path, r#"{"x":null}"#)
            .await?
            .error_for_status()?;
        assert_eq!(told_of(&place, path, 5).await?.0, "feed:patch", "{path}");
    }
    place.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_the_settings_do_not_allow_is_too_large_and_the_limit_is_named() -> Result<()> {
    let mut world = World::fresh().await?;
    world
        .text
        .push_str("[limits]\nvalue_bytes_max = 16384\ncall_bytes_max = 20000\n");
    let place = Place::on(world).await?;
    let text = |bytes: usize| format!(r#"{{"id":"1","x":"{}"}}"#, "x".repeat(bytes));
    for path in ["a", "b~/1", "kept/a"] {
        let put = place.put(path, &text(4_000)).await?;
        assert_eq!(told(&put).0, 201, "{path}");
        for (bytes, limit) in [
            (16_500, "limits.value_bytes_max"),
            (12_000, "limits.call_bytes_max"),
        ] {
            for method in [Method::PUT, Method::PATCH] {
                let sent = place
                    .call(method.clone(), path)
                    .body(text(bytes))
                    .send()
                    .await?;
                assert_eq!(header(&sent, "retry-after"), "", "{method} {path}");
                let (status, of, detail) = explained(sent).await?;
                assert_eq!(
                    (status, of.as_str()),
                    (413, "too-large"),
                    "{method} {path} {detail}"
                );
                assert!(detail.contains(limit), "{detail}");
            }
        }
    }
    let posted = place.post("b~", &text(16_500)).await?;
    assert_eq!(refused(posted).await?, (413, "too-large".to_owned()));
    place.close().await
}

/// A plain list goes on where the statements of the page before it ended.
pub(crate) async fn a_list_goes_on_behind_any_number_of_items_that_have_ended(
    place: Place,
) -> Result<()> {
    let begin = Timestamp(1_700_000_000_000_000);
    let clock = Arc::new(ManualClock::new(begin));
    let theirs = place.theirs()?.with_clock(clock.clone());
    let ending = Call {
        lives: Some(Duration::from_secs(10)),
        ..Call::default()
    };
    let put = |number: usize| {
        let (theirs, ending) = (&theirs, &ending);
        async move {
            let path = Path::new(&format!("a~/{number:05}"))?;
            theirs.put(&path, b"{}", ending).await
        }
    };
    let mut puts = futures::stream::iter((0..ENDED).map(put)).buffer_unordered(64);
    while let Some(put) = puts.next().await {
        put?;
    }
    let collection = Path::new("a~")?;
    theirs
        .put(&Path::new("a~/z")?, b"{}", &Call::default())
        .await?;
    clock.advance(Duration::from_secs(11));
    for sort in ["", "-id"] {
        let (mut ids, mut pages, mut cursor) = (Vec::new(), 0, None::<String>);
        loop {
            let query = Query::new("", sort)?;
            let query = match &cursor {
                Some(cursor) => query.after(cursor)?,
                None => query,
            };
            let list = theirs.list(&collection, &query).await?.context("a list")?;
            ids.extend(list.items.into_iter().map(|item| item.id));
            pages += 1;
            cursor = list.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!((ids.join(","), pages), ("z".to_owned(), 2), "{sort}");
    }
    place.close().await
}

pub(crate) async fn numbers_that_the_feed_never_has_are_refused(place: Place) -> Result<()> {
    let put = place.put("a", "1").await?.error_for_status()?;
    let id = header(&put, "hyper-storage-transaction").to_owned();
    assert_eq!(
        place.look(&format!("transactions/{id}")).await?.status(),
        200
    );
    let (first, rest) = id.split_once('.').context("an id")?;
    for id in [
        format!("+{id}"),
        format!("0{id}"),
        format!("{first}.+{rest}"),
        format!("{first}.0{rest}"),
        "0.1.9007199254740992".to_owned(),
        "0.1.9007199254740993".to_owned(),
        "0.9007199254740993.1".to_owned(),
        "0.1.18446744073709551615".to_owned(),
        "0.1.18446744073709551616".to_owned(),
    ] {
        let found = place.look(&format!("transactions/{id}")).await?;
        assert_eq!(refused(found).await?, (404, "missing".to_owned()), "{id}");
    }
    for since in [
        "0:1-9007199254740993",
        "0:9007199254740993-1",
        "0:1-18446744073709551615",
        "0:01-1",
        "00:1-1",
        "%2B0:1-1",
        "1:1-1,0:1-1",
    ] {
        for resource in ["feed", "_changes"] {
            let found = place.look(&format!("{resource}?since={since}")).await?;
            let expected = (400, "request".to_owned());
            assert_eq!(refused(found).await?, expected, "{resource} {since}");
        }
    }
    place.close().await
}

/// Without a document, a condition is about nothing. A put makes one, so its condition counts.
pub(crate) async fn a_condition_on_a_missing_document_is_a_missing_document(
    place: Place,
) -> Result<()> {
    for path in ["a", "b~/1", "b~"] {
        for method in [Method::GET, Method::HEAD, Method::PATCH, Method::DELETE] {
            if method == Method::PATCH && path == "b~" {
                continue;
            }
            for tag in ["*", "\"1\""] {
                let sent = place.call(method.clone(), path).header("if-match", tag);
                let sent = sent.body("{}").send().await?;
                assert_eq!(sent.status(), 404, "{method} {path} {tag}");
            }
        }
        let body = if path.ends_with('~') { "" } else { "{}" };
        let put = place.call(Method::PUT, path).header("if-match", "*");
        let put = put.body(body);
        let expected = (412, "condition".to_owned());
        assert_eq!(refused(put.send().await?).await?, expected, "{path}");
    }
    place.close().await
}

pub(crate) async fn a_version_that_was_deleted_is_gone_and_one_that_is_not_kept_is_missing(
    place: Place,
) -> Result<()> {
    for path in ["kept/a", "kept/b~/1"] {
        for number in 1..=2 {
            let body = format!(r#"{{"n":{number}}}"#);
            place.put(path, &body).await?.error_for_status()?;
        }
        place.delete(path).await?.error_for_status()?;
        place.put(path, "{}").await?.error_for_status()?;
        let (status, of, detail) =
            explained(place.get(&format!("{path}?revision=3")).await?).await?;
        assert_eq!((status, of.as_str()), (410, "deleted"), "{path}");
        assert!(detail.contains("deleted at revision 3"), "{detail}");
        for revision in [1, 5] {
            let other = place.get(&format!("{path}?revision={revision}")).await?;
            assert_eq!(refused(other).await?, (404, "missing".to_owned()), "{path}");
        }
    }
    place.close().await
}

pub(crate) async fn each_form_of_a_list_has_a_tag_of_its_own(place: Place) -> Result<()> {
    place.put("a~/1", "{}").await?.error_for_status()?;
    let get = async |accept: &str, tag: &str| {
        let get = place.call(Method::GET, "a~").header("accept", accept);
        anyhow::Ok(get.header("if-none-match", tag).send().await?)
    };
    let (plain, links) = ("application/json", "application/hal+json");
    let tag_of = async |accept| {
        let list = get(accept, "\"1\"").await?;
        assert_eq!(
            (list.status().as_u16(), header(&list, "content-type")),
            (200, accept)
        );
        anyhow::Ok(header(&list, "etag").to_owned())
    };
    let (tag, of_links) = (tag_of(plain).await?, tag_of(links).await?);
    assert_ne!(tag, of_links);
    for (accept, tag, status) in [
        (plain, &tag, 304),
        (plain, &of_links, 200),
        (links, &of_links, 304),
        (links, &tag, 200),
        (plain, &format!("{of_links}, {tag}"), 304),
    ] {
        let answer = get(accept, tag).await?;
        assert_eq!(answer.status(), status, "{accept} {tag}");
    }
    for (accept, expected) in [
        ("application/json, application/hal+json;q=0.1", plain),
        ("application/json;q=0.1, application/hal+json", links),
        ("text/html", plain),
    ] {
        let list = get(accept, "\"1\"").await?;
        assert_eq!(header(&list, "content-type"), expected, "{accept}");
    }
    let none = get("*/*;q=0", "\"1\"").await?;
    assert_eq!(refused(none).await?, (406, "not-acceptable".to_owned()));
    let document = place
        .call(Method::GET, "a~/1")
        .header("accept", "application/json;q=0");
    let document = document.send().await?;
    assert_eq!(refused(document).await?, (406, "not-acceptable".to_owned()));
    // A write names the same state by the tag of each form.
    let delete = place
        .call(Method::DELETE, "a~")
        .header("if-match", of_links);
    assert_eq!(delete.send().await?.status(), 200);
    place.close().await
}

/// A list of landed changes never tells figures that are newer than its items.
pub(crate) async fn a_landed_list_has_the_figures_of_what_it_shows(place: Place) -> Result<()> {
    for number in 1..=20_u64 {
        place
            .put(&format!("a~/{number:02}"), "{}")
            .await?
            .error_for_status()?;
        let list = place
            .call(Method::GET, "a~")
            .header("prefer", "consistency=landed");
        let list = list.send().await?;
        if list.status() == 404 {
            continue;
        }
        assert_eq!(header(&list, "preference-applied"), "consistency=landed");
        let figures = ["revision", "count"].map(|name| header(&list, name).parse::<u64>());
        let items = json(list).await?.as_array().map(Vec::len);
        let items = u64::try_from(items.context("a list")?)?;
        for figure in figures {
            assert!(figure.clone()? <= items, "{figure:?} of {items}");
        }
    }
    let is_landed = async || {
        let list = place
            .call(Method::GET, "a~")
            .header("prefer", "consistency=landed");
        Ok(told(&list.send().await?) == (200, "20", "20"))
    };
    storage_tests::until("all have landed", is_landed).await?;
    place.close().await
}

pub(crate) async fn a_write_answers_with_the_document_or_without_a_body_as_it_is_asked(
    place: Place,
) -> Result<()> {
    let send = |method: Method, path: &str, prefer: &'static str, body: &'static str| {
        let call = place.call(method, path).header("prefer", prefer);
        call.header("content-type", "application/json")
            .body(body)
            .send()
    };
    let whole = "return=representation";
    let put = send(
        Method::PUT,
        "a",
        "respond-async, Return = \"representation\"; wait=5",
        r#"{"n":1,"x":null}"#,
    )
    .await?;
    assert_eq!(told(&put), (201, "1", ""));
    assert_eq!(header(&put, "preference-applied"), whole);
    assert_eq!(header(&put, "content-location"), "/hyper-storage/content/a");
    assert!(!header(&put, "etag").is_empty());
    assert_eq!(put.text().await?, r#"{"n":1}"#);
    let add = (0..16).map(|_| {
        let add = place.call(Method::PATCH, "a").header("prefer", whole);
        let add = add.header(
            "content-type",
            "application/vnd.hyper-storage-increment+json",
        );
        async { json(add.body(r#"{"n":1}"#).send().await?).await }
    });
    let mut sums = Vec::new();
    for answer in futures::future::join_all(add).await {
        sums.push(answer?.get("n").and_then(Value::as_u64).context("a sum")?);
    }
    sums.sort_unstable();
    assert_eq!(
        sums,
        (2..=17).collect::<Vec<_>>(),
        "each answers its own step"
    );
    let posted = send(Method::POST, "b~", whole, r#"{"n":1}"#).await?;
    assert_eq!(told(&posted), (201, "1", "1"));
    assert_eq!(
        header(&posted, "location"),
        header(&posted, "content-location")
    );
    let body = json(posted).await?;
    assert!(
        body.get("id").is_some() && body.get("n").is_some(),
        "{body}"
    );

    let minimal = "return=minimal";
    let put = send(Method::PUT, "c~/1", minimal, "{}").await?;
    assert_eq!(
        (told(&put), header(&put, "preference-applied")),
        ((201, "1", "1"), minimal)
    );
    assert_eq!(put.text().await?, "");
    let patched = send(Method::PATCH, "c~/1", minimal, r#"{"n":1}"#).await?;
    assert_eq!(told(&patched), (204, "2", "1"));
    assert!(!header(&patched, "hyper-storage-transaction").is_empty());
    // What can't be followed is not, and nobody knows other values.
    for prefer in [whole, "return=else"] {
        send(Method::PUT, "d", "", "1").await?.error_for_status()?;
        let deleted = send(Method::DELETE, "d", prefer, "").await?;
        assert_eq!(
            (
                deleted.status().as_u16(),
                header(&deleted, "preference-applied")
            ),
            (200, "")
        );
        assert!(json(deleted).await?.get("revision").is_some());
    }
    place.close().await
}
