//! Items and collections.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::place::{Place, header, refused, told};

/// B27, B31 to B35.
pub(crate) async fn items_are_put_patched_and_deleted_and_the_collection_counts(
    place: Place,
) -> Result<()> {
    assert_eq!(
        refused(place.get("a~").await?).await?,
        (404, "missing".to_owned())
    );
    assert_eq!(
        told(&place.put("a~/1", r#"{"x":1}"#).await?),
        (201, "1", "")
    );
    assert_eq!(
        told(&place.put("a~/2", r#"{"x":2}"#).await?),
        (201, "2", "")
    );
    assert_eq!(
        told(&place.put("a~/1", r#"{"x":3,"n":null}"#).await?),
        (200, "3", "")
    );
    assert_eq!(
        told(&place.patch("a~/1", r#"{"y":4}"#).await?),
        (200, "4", "")
    );
    assert_eq!(place.json("a~/1").await?, json!({"id":"1","x":3,"y":4}));
    assert_eq!(told(&place.get("a~").await?), (200, "4", "2"));
    assert_eq!(told(&place.delete("a~/2").await?), (200, "5", ""));
    for method in [Method::DELETE, Method::PATCH, Method::GET] {
        let missing = place.call(method, "a~/2").body("{}").send().await?;
        assert_eq!(refused(missing).await?, (404, "missing".to_owned()));
    }
    assert_eq!(told(&place.get("a~").await?), (200, "5", "1"));
    assert_eq!(told(&place.put("a~/2", "{}").await?), (201, "6", ""));
    let place = place.reopened().await?;
    assert_eq!(told(&place.get("a~").await?), (200, "6", "2"));
    place.close().await
}

/// B36 to B38, F8.
pub(crate) async fn a_collection_is_deleted_in_one_step_and_begins_again(
    place: Place,
) -> Result<()> {
    for id in 1..=5 {
        place
            .put(&format!("a~/{id}"), "{}")
            .await?
            .error_for_status()?;
    }
    assert_eq!(told(&place.delete("a~").await?), (200, "6", ""));
    for path in ["a~", "a~/1"] {
        assert_eq!(
            place.get(path).await?.status(),
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    assert_eq!(place.delete("a~").await?.status(), StatusCode::NOT_FOUND);
    assert_eq!(
        told(&place.put("a~/2", r#"{"new":true}"#).await?),
        (201, "7", "")
    );
    assert_eq!(place.json("a~").await?, json!([{"id":"2","new":true}]));
    assert_eq!(told(&place.get("a~").await?), (200, "7", "1"));

    assert_eq!(told(&place.put("b~", "").await?), (201, "1", ""));
    assert_eq!(told(&place.put("b~", "null").await?), (200, "1", ""));
    assert_eq!(place.json("b~").await?, json!([]));
    let ending = place
        .call(Method::PUT, "b~")
        .header("hyper-storage-ttl", "9");
    assert_eq!(
        refused(ending.send().await?).await?,
        (400, "request".to_owned())
    );
    let full = place.put("b~", "{}").await?;
    assert_eq!(refused(full).await?, (409, "collection".to_owned()));
    let patched = place.patch("b~", "{}").await?;
    assert_eq!(header(&patched, "allow"), "GET, HEAD, PUT, DELETE, POST");
    assert_eq!(refused(patched).await?, (405, "method".to_owned()));
    let place = place.reopened().await?;
    assert_eq!(place.json("a~").await?, json!([{"id":"2","new":true}]));
    place.close().await
}

/// B31, B33.
pub(crate) async fn the_id_of_an_item_is_that_of_its_path(place: Place) -> Result<()> {
    place
        .put("a~/1", r#"{"id":"other","x":1}"#)
        .await?
        .error_for_status()?;
    assert_eq!(place.json("a~/1").await?, json!({"id":"1","x":1}));
    for patch in [r#"{"id":"2"}"#, r#"{"id":null}"#] {
        let refusal = place.patch("a~/1", patch).await?;
        assert_eq!(
            refused(refusal).await?,
            (409, "field-is-protected".to_owned())
        );
    }
    place
        .patch("a~/1", r#"{"id":"1","x":2}"#)
        .await?
        .error_for_status()?;
    let scalar = place.put("a~/2", "7").await?;
    assert_eq!(refused(scalar).await?, (400, "body".to_owned()));
    assert_eq!(told(&place.get("a~").await?), (200, "2", "1"));
    place.close().await
}

/// B17, B39, D8.
pub(crate) async fn posts_get_ids_that_grow_in_the_order_of_their_commits(
    place: Place,
) -> Result<()> {
    let posts = (0..24).map(|number| {
        let place = &place;
        async move { place.post("a~", &format!(r#"{{"n":{number}}}"#)).await }
    });
    let mut made: Vec<(u64, String)> = Vec::new();
    for posted in join_all(posts).await {
        let posted = posted?;
        assert_eq!(posted.status(), StatusCode::CREATED);
        let revision = header(&posted, "revision").parse()?;
        let id = header(&posted, "location")
            .rsplit('/')
            .next()
            .context("an id")?;
        made.push((revision, id.to_owned()));
    }
    made.sort_unstable();
    let ids: Vec<&String> = made.iter().map(|(_, id)| id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{made:?}");
    let listed = place.json("a~").await?;
    let listed = listed.as_array().context("a list")?;
    let listed: Vec<&str> = listed
        .iter()
        .filter_map(|item| item.get("id")?.as_str())
        .collect();
    assert_eq!(listed, ids);
    assert_eq!(told(&place.get("a~").await?), (200, "24", "24"));

    let document = place.post("users", r#"{"name":"ann"}"#).await?;
    assert_eq!(told(&document), (201, "1", ""));
    let path = header(&document, "location").trim_start_matches("/hyper-storage/content/");
    let path = &path.to_owned();
    let told = crate::place::json(document).await?;
    let target = told.pointer("/target/id").and_then(Value::as_str);
    assert_eq!(target, path.rsplit('/').next());
    let body = place.json(path).await?;
    assert_eq!(
        body.get("id").and_then(Value::as_str),
        path.rsplit('/').next()
    );
    place.close().await
}

/// K26: the answer to a post is lost, and the client posts again with its key.
pub(crate) async fn a_post_that_is_repeated_adds_no_second_item(place: Place) -> Result<()> {
    let post = |body: &'static str| {
        let post = place
            .call(Method::POST, "a~")
            .header("idempotency-key", "k");
        post.body(body).send()
    };
    let (first, again) = (post(r#"{"n":1}"#).await?, post(r#"{"n":1}"#).await?);
    assert_eq!(header(&first, "location"), header(&again, "location"));
    assert_eq!(header(&again, "idempotent-replayed"), "true");
    let reused = refused(post(r#"{"n":2}"#).await?).await?;
    assert_eq!(reused, (422, "idempotency-key-reused".to_owned()));
    assert_eq!(told(&place.get("a~").await?), (200, "1", "1"));
    place.close().await
}

/// B27, F10.
pub(crate) async fn conditions_of_items_are_those_of_the_item(place: Place) -> Result<()> {
    let with = |method: Method, path: &'static str, name: &'static str, value: String| {
        place
            .call(method, path)
            .header(name, value)
            .body("{}")
            .send()
    };
    let first = place.put("a~/1", "{}").await?;
    let tag = header(&first, "etag").to_owned();
    place.put("a~/2", "{}").await?.error_for_status()?;
    assert_eq!(
        header(&place.get("a~/1").await?, "etag"),
        tag,
        "neighbours change nothing"
    );
    let absent = with(Method::PUT, "a~/3", "if-match", tag.clone()).await?;
    assert_eq!(refused(absent).await?, (412, "condition".to_owned()));
    let there = with(Method::PUT, "a~/1", "if-none-match", "*".into()).await?;
    assert_eq!(refused(there).await?, (412, "condition".to_owned()));
    let new = with(Method::PUT, "a~/3", "if-none-match", "*".into()).await?;
    assert_eq!(new.status(), StatusCode::CREATED);
    let kept = with(Method::PUT, "a~/1", "if-match", tag.clone()).await?;
    assert_eq!(kept.status(), StatusCode::OK);
    let stale = with(Method::DELETE, "a~/1", "if-match", tag).await?;
    assert_eq!(refused(stale).await?, (412, "condition".to_owned()));

    let list = header(&place.get("a~").await?, "etag").to_owned();
    let same = with(Method::GET, "a~", "if-none-match", list.clone()).await?;
    assert_eq!(same.status(), StatusCode::NOT_MODIFIED);
    let tags: Vec<_> = same.headers().get_all("etag").iter().collect();
    assert_eq!(tags, [list.as_str()], "a 304 has the tag of the list");
    place.put("a~/4", "{}").await?.error_for_status()?;
    let stale = with(Method::DELETE, "a~", "if-match", list).await?;
    assert_eq!(refused(stale).await?, (412, "condition".to_owned()));
    let list = header(&place.get("a~").await?, "etag").to_owned();
    with(Method::DELETE, "a~", "if-match", list)
        .await?
        .error_for_status()?;
    place.close().await
}

/// D13: writers of different items do not wait for each other, and nothing is counted twice.
pub(crate) async fn concurrent_items_are_all_counted(place: Place) -> Result<()> {
    let puts = (0..48).map(|number| {
        let place = &place;
        async move { place.put(&format!("a~/{}", number % 16), "{}").await }
    });
    let mut revisions = BTreeSet::new();
    for put in join_all(puts).await {
        revisions.insert(header(&put?.error_for_status()?, "revision").parse::<u64>()?);
    }
    assert_eq!(revisions, (1..=48).collect());
    assert_eq!(told(&place.get("a~").await?), (200, "48", "16"));
    place.close().await
}

/// D14: a put that meets the end of its collection is one of the collection after it.
pub(crate) async fn items_that_meet_a_deletion_are_those_after_it(place: Place) -> Result<()> {
    place.put("a~/0", "{}").await?.error_for_status()?;
    let puts = (1..=40).map(|id| {
        let place = &place;
        async move {
            let put = place
                .put(&format!("a~/{id:02}"), "{}")
                .await?
                .error_for_status()?;
            anyhow::Ok((header(&put, "revision").parse::<u64>()?, format!("{id:02}")))
        }
    });
    let deletes = async {
        let mut last = 0;
        for _ in 0..4 {
            let gone = place.delete("a~").await?;
            if gone.status().is_success() {
                last = header(&gone, "revision").parse::<u64>()?;
            }
        }
        anyhow::Ok(last)
    };
    let (made, last) = futures::future::join(join_all(puts), deletes).await;
    place.put("a~/99", "{}").await?.error_for_status()?;
    let (made, last) = (made.into_iter().collect::<Result<Vec<_>>>()?, last?);
    let later = made.into_iter().filter(|(at, _)| *at > last);
    let mut later: Vec<String> = later.map(|(_, id)| id).collect();
    later.push("99".into());
    later.sort();
    let list = place.get("a~").await?;
    assert_eq!(header(&list, "count"), later.len().to_string());
    let list = place.json("a~").await?;
    let ids = list.as_array().into_iter().flatten();
    let ids: Vec<&str> = ids.filter_map(|item| item.get("id")?.as_str()).collect();
    assert_eq!(ids, later);
    place.close().await
}

/// K8: the conditions of a post are those of its collection.
pub(crate) async fn a_post_has_conditions_and_a_key_of_a_deletion_serves_once(
    place: Place,
) -> Result<()> {
    place.put("a~/1", "{}").await?.error_for_status()?;
    let tag = header(&place.get("a~").await?, "etag").to_owned();
    let post = |tag: String| {
        let post = place.call(Method::POST, "a~").header("if-match", tag);
        post.body("{}").send()
    };
    assert_eq!(post(tag.clone()).await?.status(), StatusCode::CREATED);
    assert_eq!(
        refused(post(tag).await?).await?,
        (412, "condition".to_owned())
    );
    let delete = || {
        place
            .call(Method::DELETE, "a~")
            .header("idempotency-key", "k")
            .send()
    };
    delete().await?.error_for_status()?;
    place.put("a~/2", "{}").await?.error_for_status()?;
    let again = delete().await?.error_for_status()?;
    assert_eq!(header(&again, "idempotent-replayed"), "true");
    assert_eq!(place.json("a~").await?, json!([{"id":"2"}]));
    place.close().await
}
