//! Single documents.

use anyhow::Result;
use reqwest::{Method, Response, StatusCode};
use serde_json::json;

use crate::place::{Place, header, problem, refused, told};

pub(crate) async fn a_document_is_put_patched_deleted_and_put_again(place: Place) -> Result<()> {
    let put = place
        .put("guilds/red", r#"{"name":"Red","seats":3,"x":null}"#)
        .await?;
    assert_eq!(
        (put.status(), header(&put, "revision")),
        (StatusCode::CREATED, "1")
    );
    let got = place.get("guilds/red").await?;
    assert_eq!(header(&got, "etag"), header(&put, "etag"));
    assert_eq!(header(&got, "revision"), "1");
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
    place.close().await
}

/// K8, K11 of the research: a tag from before a deletion does not match after it.
pub(crate) async fn conditions_are_checked_against_the_state_that_is_written(
    place: Place,
) -> Result<()> {
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
    place.close().await
}

/// Writers without a condition wait for one another, and no revision is lost or given twice.
pub(crate) async fn concurrent_patches_are_all_made_and_counted(place: Place) -> Result<()> {
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
    place.close().await
}

pub(crate) async fn bad_requests_are_problems_and_change_nothing(place: Place) -> Result<()> {
    let anonymous = place.client.get(place.url("content/a")).send().await?;
    assert_eq!(anonymous.status(), StatusCode::UNAUTHORIZED);
    for tokens in [["x", place.gateway.token()], [place.gateway.token(), "x"]] {
        let two = place.client.get(place.url("content/a"));
        let two = two.header("authorization", format!("Bearer {}", tokens[0]));
        let two = two.header("authorization", format!("Bearer {}", tokens[1]));
        assert_eq!(two.send().await?.status(), StatusCode::UNAUTHORIZED);
    }
    assert_eq!(header(&anonymous, "www-authenticate"), "Bearer");
    for (path, body, expected) in [
        ("a//b", "1", "path"),
        ("a~/b~", "1", "path"),
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
    let post = place.post("a~/b", "{}").await?;
    assert_eq!(
        (post.status(), header(&post, "allow")),
        (
            StatusCode::METHOD_NOT_ALLOWED,
            "GET, HEAD, PUT, PATCH, DELETE"
        )
    );
    // A parameter makes no difference.
    for (method, path) in [(Method::POST, "a~/b?size=1"), (Method::PATCH, "a~?size=1")] {
        let wrong = place.call(method, path).body("{}").send().await?;
        assert_eq!(wrong.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
    let unknown = place.get("a?size=1").await?;
    assert_eq!(refused(unknown).await?, (400, "request".to_owned()));
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
    place.close().await
}

/// B12, and RFC 6902 beside RFC 7396.
pub(crate) async fn patches_of_three_kinds(place: Place) -> Result<()> {
    place.put("a", r#"{"a":10,"b":8,"x":"hello"}"#).await?;
    let patch = |of: &'static str, body: &'static str| {
        let patch = place.call(Method::PATCH, "a").header("content-type", of);
        patch.body(body).send()
    };
    let increment = "application/vnd.hyper-storage-increment+json";
    let added = patch(increment, r#"{"a":3,"b":-2,"c":0.5}"#).await?;
    assert_eq!(told(&added), (200, "2", ""));
    let body = json!({"a":13,"b":6,"x":"hello","c":0.5});
    assert_eq!(place.json("a").await?, body);
    let wrong = patch(increment, r#"{"x":1}"#).await?;
    assert_eq!(refused(wrong).await?, (409, "unfit".to_owned()));

    let six902 = "application/json-patch+json";
    let moved = patch(
        six902,
        r#"[{"op":"test","path":"/a","value":13.0},{"op":"move","from":"/x","path":"/y"}]"#,
    )
    .await?;
    assert_eq!(told(&moved), (200, "3", ""));
    let body = json!({"a":13,"b":6,"c":0.5,"y":"hello"});
    assert_eq!(place.json("a").await?, body);
    let failed = patch(six902, r#"[{"op":"test","path":"/a","value":1}]"#).await?;
    assert_eq!(refused(failed).await?, (409, "unfit".to_owned()));
    let malformed = patch(six902, r#"[{"op":"frob"}]"#).await?;
    assert_eq!(refused(malformed).await?, (400, "body".to_owned()));
    let list = patch("application/merge-patch+json", "[1]").await?;
    assert_eq!(refused(list).await?, (400, "body".to_owned()));
    assert_eq!(place.json("a").await?, body);
    place.close().await
}

/// K26: an answer is lost, and the client sends the request again.
pub(crate) async fn a_call_with_a_key_is_carried_out_once(place: Place) -> Result<()> {
    let put = |body: &'static str| {
        let put = place
            .call(Method::PUT, "a")
            .header("idempotency-key", "\"k-1\"");
        put.body(body).send()
    };
    let first = put("1").await?;
    assert_eq!(told(&first), (201, "1", ""));
    place.put("a", "2").await?.error_for_status()?;
    let again = put("1").await?;
    assert_eq!(told(&again), (201, "1", ""));
    assert_eq!(header(&again, "idempotent-replayed"), "true");
    assert_eq!(
        place.json("a").await?,
        json!(2),
        "nothing was written again"
    );
    let reused = refused(put("3").await?).await?;
    assert_eq!(reused, (422, "idempotency-key-reused".to_owned()));
    let place = place.reopened().await?;
    let put = place
        .call(Method::PUT, "a")
        .header("idempotency-key", "k-1");
    let again = put.body("1").send().await?;
    assert_eq!(header(&again, "idempotent-replayed"), "true");
    place.close().await
}

pub(crate) async fn a_document_with_a_time_to_live_ends(place: Place) -> Result<()> {
    let put = |seconds: &'static str| {
        let put = place
            .call(Method::PUT, "a")
            .header("hyper-storage-ttl", seconds);
        put.body("1").send()
    };
    put("3600").await?.error_for_status()?;
    assert_eq!(place.json("a").await?, json!(1));
    put("1").await?.error_for_status()?;
    place.put("a~/2", "{}").await?.error_for_status()?;
    let item = place.call(Method::PUT, "a~/1");
    let item = item.header("hyper-storage-ttl", "1").body("{}");
    item.send().await?.error_for_status()?;
    let is_gone = async || Ok(place.get("a").await?.status() == StatusCode::NOT_FOUND);
    storage_tests::until("the document has ended", is_gone).await?;
    // The sweeper comes: the revision goes on, and the collection counts the item no more (B30).
    let is_swept = async || Ok(told(&place.get("a~").await?) == (200, "3", "1"));
    storage_tests::until("the item was swept", is_swept).await?;
    let deleted = r#""method":"feed:delete","path":"a~/1","revision":3,"count":1,"#;
    let is_told = async || {
        let changes = place.look("_changes?prefix=a~").await?;
        Ok(changes.text().await?.contains(deleted))
    };
    storage_tests::until("the end was told", is_told).await?;
    assert_eq!(place.put("a", "2").await?.status(), StatusCode::CREATED);
    assert_eq!(
        refused(put("soon").await?).await?,
        (400, "request".to_owned())
    );
    place.close().await
}

pub(crate) async fn what_was_acknowledged_is_there_after_a_restart(place: Place) -> Result<()> {
    let put = place
        .call(Method::PUT, "a")
        .header("hyper-storage-wait", "landed");
    put.body("[1.50,null]").send().await?.error_for_status()?;
    place.put("b", "2").await?.error_for_status()?;
    let place = place.reopened().await?;
    assert_eq!(place.get("a").await?.text().await?, "[1.50,null]");
    assert_eq!(told(&place.put("b", "3").await?), (200, "2", ""));
    place.close().await
}

/// A version is kept with its change, for the paths that the gateway was told.
pub(crate) async fn earlier_versions_are_kept(place: Place) -> Result<()> {
    for body in ["1", "2", "3"] {
        place.put("kept/a", body).await?.error_for_status()?;
    }
    place.delete("kept/a").await?.error_for_status()?;
    place.put("kept/a", "5").await?.error_for_status()?;
    let at = async |path: &str, revision: u64| {
        let found = place.get(&format!("{path}?revision={revision}")).await?;
        let status = found.status().as_u16();
        anyhow::Ok((status, found.text().await?))
    };
    assert_eq!(at("kept/a", 5).await?, (200, "5".to_owned()));
    assert_eq!(at("kept/a", 3).await?, (200, "3".to_owned()));
    assert_eq!(at("kept/a", 4).await?.0, 410, "it was deleted");
    for gone in [1, 2, 6] {
        assert_eq!(at("kept/a", gone).await?.0, 404, "{gone}");
    }
    place
        .put("kept/b~/x", r#"{"n":1}"#)
        .await?
        .error_for_status()?;
    place.put("kept/b~/y", "{}").await?.error_for_status()?;
    place
        .patch("kept/b~/x", r#"{"n":3}"#)
        .await?
        .error_for_status()?;
    place.put("kept/b~/y", "{}").await?.error_for_status()?;
    for (revision, n) in [(1, 1), (2, 1), (3, 3), (4, 3)] {
        let found = at("kept/b~/x", revision).await?;
        assert_eq!(
            found,
            (200, format!(r#"{{"id":"x","n":{n}}}"#)),
            "{revision}"
        );
    }
    assert_eq!(at("kept/b~/y", 1).await?.0, 404);
    let none = place.get("other/x?revision=1").await?;
    assert_eq!(refused(none).await?, (400, "query".to_owned()));
    let no_tag = place
        .call(Method::GET, "kept/a?revision=5")
        .header("if-match", "G");
    assert_eq!(
        refused(no_tag.send().await?).await?,
        (400, "request".to_owned())
    );
    place.close().await
}

/// B28, K23, K24, D23: reads with conditions, and paths in many spellings.
pub(crate) async fn one_path_has_one_document_however_it_is_written(place: Place) -> Result<()> {
    place.put("a~/1", "{}").await?.error_for_status()?;
    for path in ["a~/1", "a%7E/1", "a%7e%2F1", "%61~/%31"] {
        assert_eq!(place.get(path).await?.status(), StatusCode::OK, "{path}");
    }
    for path in ["a~%2F", "a%257E/1", "a~%00", "a~/1%2f%2f2", "%ff"] {
        assert_eq!(
            place.get(path).await?.status(),
            StatusCode::BAD_REQUEST,
            "{path}"
        );
    }
    for method in [Method::PUT, Method::POST, Method::DELETE] {
        let wrong = place.call(method, "a~?size=1").body("{}").send().await?;
        assert_eq!(refused(wrong).await?, (400, "request".to_owned()));
    }
    let posted = place.post("x%5B1%5D~", "{}").await?.error_for_status()?;
    let url = header(&posted, "location");
    assert!(
        url.starts_with("/hyper-storage/content/x%5B1%5D~/"),
        "{url}"
    );
    let tag = header(&place.put("a", "1").await?, "etag").to_owned();
    let get = |tag: String| place.call(Method::GET, "a").header("if-match", tag).send();
    assert_eq!(get(tag.clone()).await?.status(), StatusCode::OK);
    place.put("a", r#"{"x":1}"#).await?.error_for_status()?;
    place.put("a", r#"{"y":2}"#).await?.error_for_status()?;
    assert_eq!(place.json("a").await?, json!({"y":2}), "the old members go");
    place.put("a", r#""Hello""#).await?.error_for_status()?;
    assert_eq!(
        refused(get(tag).await?).await?,
        (412, "condition".to_owned())
    );
    assert_eq!(place.json("a").await?, json!("Hello"));
    place.close().await
}

/// A patch leaves the time to live as it is, whatever it makes of the body.
pub(crate) async fn a_patch_leaves_the_time_to_live(place: Place) -> Result<()> {
    let put = place
        .call(Method::PUT, "a")
        .header("hyper-storage-ttl", "3600");
    put.body("[1]").send().await?.error_for_status()?;
    let ends = async || {
        let line = place.look("_export?prefix=a").await?.text().await?;
        let line: serde_json::Value = serde_json::from_str(&line)?;
        anyhow::Ok(line.get("ends").and_then(serde_json::Value::as_u64))
    };
    let before = ends().await?;
    assert!(before.is_some());
    let patch = place
        .call(Method::PATCH, "a")
        .header("content-type", "application/json-patch+json");
    let patch = patch.body(r#"[{"op":"add","path":"/-","value":2}]"#);
    assert_eq!(told(&patch.send().await?), (200, "2", ""));
    assert_eq!(ends().await?, before);
    place.put("a", "1").await?.error_for_status()?;
    assert_eq!(ends().await?, None, "a put sets it anew");
    place.close().await
}

/// The headers that tell something of the content.
const OF_CONTENT: [&str; 9] = [
    "cache-control",
    "content-length",
    "content-type",
    "count",
    "etag",
    "link",
    "revision",
    "transfer-encoding",
    "vary",
];

/// A HEAD has the status and the headers of the GET, and no body.
pub(crate) async fn a_head_is_a_get_without_its_body(place: Place) -> Result<()> {
    for id in 1..=3 {
        let put = place.put(&format!("a~/{id}"), r#"{"n":1}"#).await?;
        put.error_for_status()?;
    }
    let put = place.call(Method::PUT, "a");
    let put = put.header("hyper-storage-wait", "landed").body("[1]");
    let put = put.send().await?.error_for_status()?;
    let transaction = header(&put, "hyper-storage-transaction");
    let http2 = reqwest::Client::builder().http2_prior_knowledge().build()?;
    for resource in [
        "content/a",
        "content/a~/1",
        "content/a~?size=2",
        "content/nothing",
        "content/a//b",
        "_changes?prefix=a",
        &format!("transactions/{transaction}"),
        "openapi.json",
        "nothing",
    ] {
        for client in [&place.client, &http2] {
            let send = async |method: Method| {
                let request = client.request(method, place.url(resource));
                let request = request.bearer_auth(place.gateway.token());
                anyhow::Ok(request.send().await?)
            };
            let (get, head) = (send(Method::GET).await?, send(Method::HEAD).await?);
            assert_eq!(head.status(), get.status(), "{resource}");
            for name in OF_CONTENT {
                assert_eq!(header(&head, name), header(&get, name), "{name} {resource}");
            }
            let length = get.bytes().await?.len().to_string();
            assert_eq!(header(&head, "content-length"), length, "{resource}");
            assert!(head.bytes().await?.is_empty(), "{resource}");
        }
    }
    place.close().await
}
