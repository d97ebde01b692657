//! Several requests in one: one by one, and in one step.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use document_gateway::serve::Gateway;
use futures::future::{join_all, try_join_all};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::feeds::Feed;
use crate::place::{Place, header, json, refused, told};

const INCREMENT: &str = "application/vnd.hyper-storage-increment+json";

/// What a member that is not there is.
static NULL: Value = Value::Null;

/// A part of a JSON, by its pointer.
fn part<'a>(json: &'a Value, pointer: &str) -> &'a Value {
    json.pointer(pointer).unwrap_or(&NULL)
}

/// A text in a JSON.
fn text_at<'a>(json: &'a Value, pointer: &str) -> &'a str {
    part(json, pointer).as_str().unwrap_or_default()
}

/// One of several answers or changes.
fn nth(all: &[Value], at: usize) -> &Value {
    all.get(at).unwrap_or(&NULL)
}

/// A request of a batch.
fn request(method: &str, path: &str, body: Value) -> Value {
    let path = format!("/hyper-storage/content/{path}");
    match body {
        Value::Null => json!({"method": method, "path": path, "headers": {}}),
        body => json!({"method": method, "path": path, "headers": {}, "body": body}),
    }
}

/// The same request, with a header.
fn with(mut request: Value, name: &str, value: &str) -> Value {
    let headers = request.get_mut("headers").and_then(Value::as_object_mut);
    if let Some(headers) = headers {
        headers.insert(name.to_owned(), json!(value));
    }
    request
}

/// Adds to the number of an item.
fn add(path: &str, n: i64) -> Value {
    with(
        request("PATCH", path, json!({ "n": n })),
        "content-type",
        INCREMENT,
    )
}

async fn send_to(gateway: &Gateway, batch: &Value, headers: &[(&str, &str)]) -> Result<Response> {
    let call = Client::new().post(format!("{}/batch", gateway.url()));
    let mut call = call.bearer_auth(gateway.token());
    for (name, value) in headers {
        call = call.header(*name, *value);
    }
    Ok(call.body(batch.to_string()).send().await?)
}

/// Sends requests one by one.
async fn batch(place: &Place, requests: &[Value]) -> Result<Response> {
    send_to(&place.gateway, &json!({ "requests": requests }), &[]).await
}

/// Sends requests in one step.
async fn step(place: &Place, requests: &[Value], headers: &[(&str, &str)]) -> Result<Response> {
    let batch = json!({"atomic": true, "requests": requests});
    send_to(&place.gateway, &batch, headers).await
}

/// The answers of a batch that was carried out.
async fn answers(response: Response) -> Result<Vec<Value>> {
    let status = response.status();
    let body = json(response).await?;
    assert_eq!(status, StatusCode::OK, "{body}");
    let answers = body.get("responses").and_then(Value::as_array);
    answers.cloned().context("responses")
}

fn number(answer: &Value, name: &str) -> u64 {
    text(answer, name).parse().unwrap_or_default()
}

/// A header of an answer.
fn text<'a>(answer: &'a Value, name: &str) -> &'a str {
    text_at(answer, &format!("/headers/{name}"))
}

/// An answer without what differs between two requests of the same kind.
#[derive(Debug, PartialEq)]
struct Same {
    status: u64,
    headers: BTreeMap<String, String>,
    body: Value,
}

impl Same {
    /// `place` is the segment by which the paths of both differ.
    fn of(
        status: u64,
        headers: BTreeMap<String, String>,
        body: &Value,
        place: &str,
    ) -> Result<Self> {
        let marked = |text: &str| text.replace(&format!("{place}/"), "x/");
        let mut same = Self {
            status,
            headers,
            body: serde_json::from_str(&marked(&body.to_string()))?,
        };
        for (name, value) in &mut same.headers {
            *value = marked(value);
            // Versions, events, and ids that the gateway gives.
            if ["etag", "hyper-storage-transaction", "location"].contains(&name.as_str()) {
                "*".clone_into(value);
            }
        }
        let is_post = same.headers.contains_key("location");
        for (name, is_own) in [
            ("transaction_id", true),
            ("request_id", true),
            // Its words name the tag.
            ("detail", status == 412),
            ("path", is_post),
            ("target", is_post),
        ] {
            if let Some(own) = same.body.get_mut(name).filter(|_| is_own) {
                *own = json!("*");
            }
        }
        Ok(same)
    }
}

async fn alone(place: &Place, request: &Value) -> Result<Same> {
    let path = text_at(request, "/path").trim_start_matches("/hyper-storage/");
    let method = text_at(request, "/method").parse()?;
    let call = place.client.request(method, place.url(path));
    let mut call = call.bearer_auth(place.gateway.token());
    for (name, value) in part(request, "/headers").as_object().into_iter().flatten() {
        call = call.header(name, value.as_str().unwrap_or_default());
    }
    if let Some(body) = request.get("body") {
        call = call.body(body.to_string());
    }
    let response = call.send().await?;
    let (status, headers) = (response.status().as_u16(), of_resource(response.headers()));
    let body = response.text().await?;
    let body = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&body)?
    };
    Same::of(status.into(), headers, &body, "alone")
}

/// The headers that are not of the connection, nor of the request as a whole.
fn of_resource(headers: &HeaderMap) -> BTreeMap<String, String> {
    let of_call = [
        "cache-control",
        "content-length",
        "date",
        "request-id",
        "vary",
    ];
    let headers = headers
        .iter()
        .filter(|(name, _)| !of_call.contains(&name.as_str()));
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    headers
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

/// Requests of all methods, with all headers, of which some fail.
fn of_all_kinds(place: &str) -> Vec<Value> {
    let request =
        |method: &str, path: &str, body: Value| request(method, &format!("{place}/{path}"), body);
    let n = |n: i64| json!({ "n": n });
    vec![
        request("PUT", "a", n(1)),
        with(request("PUT", "a", n(2)), "If-None-Match", "*"),
        with(request("PUT", "a", n(2)), "if-match", "\"1\""),
        with(
            with(request("PATCH", "a", n(1)), "Idempotency-Key", place),
            "content-type",
            INCREMENT,
        ),
        with(
            with(request("PATCH", "a", n(1)), "Idempotency-Key", place),
            "content-type",
            INCREMENT,
        ),
        with(
            with(request("PATCH", "a", n(2)), "Idempotency-Key", place),
            "content-type",
            INCREMENT,
        ),
        request("GET", "a", Value::Null),
        request("HEAD", "a", Value::Null),
        with(request("GET", "a", Value::Null), "if-none-match", "*"),
        with(request("PUT", "a", n(3)), "prefer", "return=representation"),
        with(request("PUT", "a", n(4)), "prefer", "return=minimal"),
        with(request("PUT", "a", n(5)), "hyper-storage-wait", "landed"),
        with(request("PUT", "a", n(6)), "hyper-storage-wait", "somewhere"),
        with(request("PUT", "a", n(7)), "hyper-storage-ttl", "600"),
        with(request("PATCH", "a", n(8)), "content-type", "text/plain"),
        request("PUT", "a", Value::Null),
        request("PUT", "c~", Value::Null),
        request("PUT", "c~/1", n(1)),
        with(
            request(
                "PATCH",
                "c~/1",
                json!([{"op": "add", "path": "/m", "value": 1.50}]),
            ),
            "content-type",
            "application/json-patch+json",
        ),
        request("PATCH", "c~/1", json!({"id": "2"})),
        request("POST", "c~", n(2)),
        request("POST", "c~/1", n(2)),
        request("PATCH", "c~", n(2)),
        request("GET", "c~?size=0", Value::Null),
        request("GET", "c~?filter=n%20%3D%201", Value::Null),
        with(
            request("GET", "c~?size=1", Value::Null),
            "accept",
            "text/plain;q=1, */*;q=0",
        ),
        request("GET", "c~/1?revision=1", Value::Null),
        request("GET", "c~?size=many", Value::Null),
        request("DELETE", "c~/1", Value::Null),
        request("DELETE", "c~/1", Value::Null),
        request("DELETE", "c~", Value::Null),
        request("GET", "c~", Value::Null),
        request("POST", "d", n(1)),
        request("PUT", "a//b", n(1)),
        request("GET", "", Value::Null),
    ]
}

pub(crate) async fn each_answer_of_a_batch_is_that_of_the_request_alone(
    place: Place,
) -> Result<()> {
    let together = batch(&place, &of_all_kinds("batch")).await?;
    let id = header(&together, "request-id").to_owned();
    let together = answers(together).await?;
    for problem in together
        .iter()
        .filter_map(|answer| answer.pointer("/body/request_id"))
    {
        assert_eq!(*problem, json!(id));
    }
    let sent = of_all_kinds("alone");
    assert_eq!(together.len(), sent.len());
    for (request, answer) in sent.iter().zip(&together) {
        let path = text_at(request, "/path").replace("alone/", "batch/");
        assert_eq!(text_at(answer, "/path"), path);
        let headers = serde_json::from_value(part(answer, "/headers").clone())?;
        let status = part(answer, "/status").as_u64().context("a status")?;
        let answer = Same::of(status, headers, part(answer, "/body"), "batch")?;
        assert_eq!(answer, alone(&place, request).await?, "{request}");
    }
    place.close().await
}

pub(crate) async fn a_batch_with_a_request_that_can_not_be_sent_changes_nothing(
    place: Place,
) -> Result<()> {
    let put = request("PUT", "a", json!(1));
    for wrong in [
        json!({"method": "GET", "path": "/hyper-storage/feed"}),
        json!({"method": "POST", "path": "/hyper-storage/batch", "body": {}}),
        json!({"method": "GET", "path": "/content/a", "more": 1}),
        json!({"method": "QUERY", "path": "/content/a"}),
        with(
            request("GET", "a", Value::Null),
            "authorization",
            "Bearer x",
        ),
    ] {
        for is_atomic in [false, true] {
            let sent = json!({"atomic": is_atomic, "requests": [put, wrong]});
            let answer = send_to(&place.gateway, &sent, &[]).await?;
            assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
            let problem = json(answer).await?;
            let detail = text_at(&problem, "/detail");
            assert!(detail.starts_with("requests/1: "), "{problem}");
        }
    }
    for name in [
        "if-match",
        "if-none-match",
        "idempotency-key",
        "hyper-storage-wait",
        "hyper-storage-ttl",
    ] {
        let sent = json!({ "requests": [put] });
        let answer = send_to(&place.gateway, &sent, &[(name, "1")]).await?;
        assert_eq!(
            refused(answer).await?,
            (400, "request".to_owned()),
            "{name}"
        );
    }
    let anonymous = place
        .client
        .post(place.url("batch"))
        .body("{}")
        .send()
        .await?;
    assert_eq!(anonymous.status(), StatusCode::UNAUTHORIZED);
    let large = format!(r#"{{"requests":[]}}{}"#, " ".repeat(8 << 20));
    let large = place
        .client
        .post(place.url("batch"))
        .bearer_auth(place.gateway.token())
        .body(large);
    assert_eq!(
        refused(large.send().await?).await?,
        (413, "too-large".to_owned())
    );
    assert_eq!(place.get("a").await?.status(), StatusCode::NOT_FOUND);
    place.close().await
}

pub(crate) async fn a_batch_of_large_answers_ends_early_and_says_so(place: Place) -> Result<()> {
    let large = json!("x".repeat(1_000_000));
    place
        .put("a", &large.to_string())
        .await?
        .error_for_status()?;
    let mut requests = vec![request("GET", "a", Value::Null); 12];
    requests.push(request("PUT", "b", json!(1)));
    let answers = answers(batch(&place, &requests).await?).await?;
    assert_eq!(answers.len(), requests.len());
    let is_whole = |answer: &&Value| *part(answer, "/status") == 200;
    let whole = answers.iter().take_while(is_whole).count();
    assert!((8..12).contains(&whole), "{whole}");
    for answer in answers.iter().skip(whole) {
        assert_eq!(
            text_at(answer, "/body/type"),
            "urn:document-gateway:unfinished"
        );
        assert_eq!(text(answer, "retry-after"), "1");
    }
    assert_eq!(place.get("b").await?.status(), StatusCode::NOT_FOUND);
    place.close().await
}

/// The collection and its items as they are.
async fn state(place: &Place, collection: &str) -> Result<(String, Value)> {
    let list = place.get(collection).await?.error_for_status()?;
    let head = ["etag", "revision", "count"].map(|name| header(&list, name).to_owned());
    Ok((head.join(" "), json(list).await?))
}

/// The changes below a prefix, once all of them have landed.
async fn landed(place: &Place, prefix: &str, last: &str) -> Result<Vec<Value>> {
    let (mut since, mut changes) = (String::new(), Vec::new());
    loop {
        let page = format!("_changes?prefix={prefix}&limit=2&wait=20&since={since}");
        let page = place.look(&page);
        let page = json(page.await?.error_for_status()?).await?;
        changes.extend(
            part(&page, "/results")
                .as_array()
                .context("results")?
                .iter()
                .cloned(),
        );
        text_at(&page, "/last_seq").clone_into(&mut since);
        if changes
            .iter()
            .any(|change| text_at(change, "/path") == last)
        {
            return Ok(changes);
        }
    }
}

fn revisions(changes: &[Value]) -> Vec<u64> {
    let revisions = changes
        .iter()
        .filter_map(|change| part(change, "/revision").as_u64());
    revisions.collect()
}

pub(crate) async fn a_step_of_which_one_change_fails_changes_nothing(place: Place) -> Result<()> {
    for id in ["1", "2", "3"] {
        place
            .put(&format!("a~/{id}"), r#"{"n":1}"#)
            .await?
            .error_for_status()?;
    }
    let before = state(&place, "a~").await?;
    let (first, third) = (add("a~/1", 1), request("DELETE", "a~/3", Value::Null));
    let put = |path: &str| request("PUT", path, json!({"n": 2}));
    for (second, status, of) in [
        (with(put("a~/2"), "if-match", "\"1\""), 412, "condition"),
        (with(put("a~/2"), "if-none-match", "*"), 412, "condition"),
        (
            with(request("POST", "a~", json!({})), "if-match", "\"1\""),
            412,
            "condition",
        ),
        (add("a~/4", 1), 404, "missing"),
        (request("DELETE", "a~/4", Value::Null), 404, "missing"),
        (
            with(
                request("PATCH", "a~/2", json!({"id": 1})),
                "content-type",
                INCREMENT,
            ),
            409,
            "unfit",
        ),
        (
            request("PATCH", "a~/2", json!({"id": "3"})),
            409,
            "field-is-protected",
        ),
        (request("PATCH", "a~/2", json!([])), 400, "body"),
        (request("PUT", "a~/2", json!([])), 400, "body"),
        (
            with(
                request("PATCH", "a~/2", json!({})),
                "content-type",
                "text/plain",
            ),
            415,
            "media-type",
        ),
        (put("a~/1"), 422, "step"),
        (put("b~/1"), 422, "step"),
        (put("b"), 422, "step"),
        (request("PUT", "a~", Value::Null), 422, "step"),
        (request("DELETE", "a~", Value::Null), 422, "step"),
        (request("GET", "a~/2", Value::Null), 422, "step"),
        (request("PATCH", "a~", json!({})), 405, "method"),
        (request("POST", "a~/2", json!({})), 405, "method"),
        (put("a~//2"), 400, "path"),
        (with(put("a~/2"), "idempotency-key", "k"), 400, "request"),
        (
            with(put("a~/2"), "hyper-storage-wait", "cached"),
            400,
            "request",
        ),
        (put("a~/2?x=1"), 400, "request"),
    ] {
        let answer = step(&place, &[first.clone(), second.clone(), third.clone()], &[]).await?;
        let tag = header(&answer, "etag").to_owned();
        assert_eq!(answer.status().as_u16(), status, "{second}");
        let problem = json(answer).await?;
        assert_eq!(
            text_at(&problem, "/type"),
            format!("urn:document-gateway:{of}"),
            "{second}"
        );
        let detail = text_at(&problem, "/detail");
        assert!(detail.starts_with("requests/1: "), "{detail}");
        assert!(problem.get("outcome").is_none(), "{problem}");
        if text_at(&second, "/path") == "/hyper-storage/content/a~/2" && of == "condition" {
            assert_eq!(tag, header(&place.get("a~/2").await?, "etag"));
        }
        assert_eq!(state(&place, "a~").await?, before, "{second}");
    }
    // The whole step is about a state of the collection, too.
    let late = step(
        &place,
        std::slice::from_ref(&first),
        &[("if-match", "\"1\"")],
    )
    .await?;
    assert_eq!(refused(late).await?, (412, "condition".to_owned()));
    assert_eq!(state(&place, "a~").await?, before);
    assert_eq!(place.get("b~").await?.status(), StatusCode::NOT_FOUND);
    place.put("a~/last", "{}").await?.error_for_status()?;
    assert_eq!(
        revisions(&landed(&place, "a~", "a~/last").await?),
        [1, 2, 3, 4]
    );
    place.close().await
}

pub(crate) async fn a_feed_tells_the_changes_of_a_step_in_the_order_of_their_revisions(
    place: Place,
) -> Result<()> {
    let put = place.put("a~/1", r#"{"n":1}"#).await?.error_for_status()?;
    let tag = header(&put, "etag").to_owned();
    place.put("a~/2", r#"{"n":1}"#).await?.error_for_status()?;
    let mut feed = Feed::open(&place, "?prefix=a~").await?;
    let requests = [
        request("PUT", "a~/3", json!({"n": 3})),
        with(add("a~/1", 4), "prefer", "return=representation"),
        request("DELETE", "a~/2", Value::Null),
        request("POST", "a~", json!({"n": 5})),
        request("POST", "a~", json!({"n": 6})),
    ];
    let sent = step(&place, &requests, &[("hyper-storage-wait", "landed")]).await?;
    let made = answers(sent).await?;
    let statuses: Vec<u64> = made
        .iter()
        .filter_map(|answer| part(answer, "/status").as_u64())
        .collect();
    assert_eq!(statuses, [201, 200, 200, 201, 201]);
    let counted: Vec<_> = made
        .iter()
        .map(|answer| number(answer, "revision"))
        .collect();
    assert_eq!(counted, [3, 4, 5, 6, 7]);
    let added = nth(&made, 1);
    assert_eq!(*part(added, "/body"), json!({"id": "1", "n": 5}));
    assert_eq!(text(added, "count"), "3");
    assert_eq!(*part(nth(&made, 2), "/body/count"), 2);
    for answer in &made {
        let id = text(answer, "hyper-storage-transaction");
        let change = json(place.look(&format!("transactions/{id}")).await?).await?;
        assert_eq!(text_at(&change, "/state"), "landed", "{change}");
    }
    place.put("a~/last", "{}").await?.error_for_status()?;
    feed.until("\"path\":\"a~/last\"").await?;
    feed.until("\n\n").await?;
    let live = feed.changes();
    assert_eq!(revisions(&live), [3, 4, 5, 6, 7, 8]);
    let posted = |at: usize| text(nth(&made, at), "location").rsplit('/').next();
    let posted = [3, 4].map(|at| posted(at).unwrap_or_default());
    assert!(posted.is_sorted_by(|one, next| one < next), "{posted:?}");
    let [fourth, fifth] = posted;
    let paths = ["3", "1", "2", fourth, fifth, "last"].map(|id| format!("a~/{id}"));
    let told_of = |name: &str| {
        live.iter()
            .map(|change| text_at(change, name))
            .collect::<Vec<_>>()
    };
    assert_eq!(told_of("/path"), paths);
    let methods = ["put", "patch", "delete", "put", "put", "put"];
    assert_eq!(
        told_of("/method"),
        methods.map(|name| format!("feed:{name}"))
    );
    let counts: Vec<&Value> = live.iter().map(|change| part(change, "/count")).collect();
    assert_eq!(
        counts,
        [3, 3, 2, 3, 4, 5]
            .map(Value::from)
            .iter()
            .collect::<Vec<_>>()
    );
    assert!(part(nth(&live, 0), "/prev").is_null());
    assert_eq!(text_at(nth(&live, 1), "/prev"), tag);
    assert_eq!(*part(nth(&live, 1), "/body"), json!({"n": 5}));
    for (answer, change) in made.iter().zip(&live) {
        assert_eq!(text_at(change, "/etag"), text(answer, "etag"));
        assert_eq!(
            text_at(change, "/id"),
            text(answer, "hyper-storage-transaction")
        );
    }
    // A client that breaks within the step gets the rest of it.
    let (partition, at) = text(added, "hyper-storage-transaction")
        .split_once('.')
        .context("a place")?;
    let since = format!("{partition}:{}", at.replace('.', "-"));
    let mut again = Feed::open(&place, &format!("?prefix=a~&since={since}")).await?;
    again.until("\"path\":\"a~/last\"").await?;
    again.until("\n\n").await?;
    assert_eq!(revisions(&again.changes()), [5, 6, 7, 8]);
    drop((feed, again));
    let landed = landed(&place, "a~", "a~/last").await?;
    assert_eq!(landed.get(2..), Some(&*live));
    let head = place.get("a~?size=0").await?;
    assert_eq!(told(&head), (200, "8", "5"));
    place.close().await
}

/// Steps of these gateways add to the same items, in another order each. Single calls add to one of these
/// and to a neighbour.
async fn steps_meet(place: &Place, gateways: &[&Gateway]) -> Result<()> {
    let ids = ["1", "2", "3"];
    for id in ids.iter().chain(&["neighbour"]) {
        place
            .put(&format!("a~/{id}"), r#"{"n":0}"#)
            .await?
            .error_for_status()?;
    }
    let turned = |turn: usize| {
        let mut order = ids;
        order.rotate_left(turn % ids.len());
        order
    };
    let steps = gateways.iter().flat_map(|gateway| {
        (0..12).map(move |turn| async move {
            let requests = turned(turn).map(|id| add(&format!("a~/{id}"), 1));
            let batch = json!({"atomic": true, "requests": requests});
            let made = answers(send_to(gateway, &batch, &[]).await?).await?;
            let revisions = made.iter().map(|answer| number(answer, "revision"));
            anyhow::Ok(revisions.collect::<Vec<u64>>())
        })
    });
    let singles = (0..48_usize).map(async |turn| {
        let id = if turn < 12 { "1" } else { "neighbour" };
        let add = place.call(Method::PATCH, &format!("a~/{id}"));
        let add = add.header("content-type", INCREMENT).body(r#"{"n":1}"#);
        let made = add.send().await?.error_for_status()?;
        anyhow::Ok(vec![header(&made, "revision").parse::<u64>()?])
    });
    let (steps, singles) = tokio::join!(try_join_all(steps), try_join_all(singles));
    let mut given: Vec<u64> = steps?.into_iter().chain(singles?).flatten().collect();
    given.sort_unstable();
    let each = 12 * u64::try_from(gateways.len())?;
    assert_eq!(given, (5..=4 + 3 * each + 48).collect::<Vec<_>>());
    let sums = [
        ("1", each + 12),
        ("2", each),
        ("3", each),
        ("neighbour", 36),
    ];
    for (id, sum) in sums {
        let item = place.json(&format!("a~/{id}")).await?;
        assert_eq!(item.get("n"), Some(&json!(sum)), "{id}");
    }
    Ok(())
}

pub(crate) async fn steps_that_meet_lose_nothing(place: Place) -> Result<()> {
    steps_meet(&place, &[&place.gateway]).await?;
    place.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn steps_of_two_gateways_that_meet_lose_nothing() -> Result<()> {
    let place = Place::on_servers().await?;
    let other = place.another().await?;
    steps_meet(&place, &[&place.gateway, &other]).await?;
    other.close().await?;
    place.close().await
}

pub(crate) async fn a_step_that_is_repeated_changes_nothing(place: Place) -> Result<()> {
    place.put("a~/1", r#"{"n":1}"#).await?.error_for_status()?;
    place.put("a~/2", r#"{"n":1}"#).await?.error_for_status()?;
    let requests = [
        add("a~/1", 1),
        request("POST", "a~", json!({"n": 2})),
        request("PUT", "a~/4", json!({"n": 4})),
        request("DELETE", "a~/2", Value::Null),
    ];
    let key = [("idempotency-key", "k")];
    let first = answers(step(&place, &requests, &key).await?).await?;
    let after = state(&place, "a~").await?;
    // The marks of repeats, and the answers without them.
    let same = |mut answers: Vec<Value>| {
        let headers = answers
            .iter_mut()
            .filter_map(|answer| answer.get_mut("headers")?.as_object_mut());
        let marks: Vec<Option<Value>> = headers
            .map(|headers| headers.remove("idempotent-replayed"))
            .collect();
        (marks, answers)
    };
    let again = answers(step(&place, &requests, &key).await?).await?;
    let (marks, again) = same(again);
    assert!(
        marks.iter().all(|mark| *mark == Some(json!("true"))),
        "{marks:?}"
    );
    assert_eq!(again, first);
    assert_eq!(state(&place, "a~").await?, after);
    let other = step(&place, &[add("a~/1", 1)], &key).await?;
    assert_eq!(
        refused(other).await?,
        (422, "idempotency-key-reused".to_owned())
    );
    let place = place.reopened().await?;
    let (_, again) = same(answers(step(&place, &requests, &key).await?).await?);
    assert_eq!(again, first);
    assert_eq!(state(&place, "a~").await?, after);
    place.close().await
}

/// Copies that wait until they land do not wait for each other before.
pub(crate) async fn of_copies_of_a_step_that_meet_one_is_carried_out(place: Place) -> Result<()> {
    place.put("a~/1", r#"{"n":0}"#).await?.error_for_status()?;
    let rounds = 6;
    for round in 0..rounds {
        let gone = format!("a~/gone{round}");
        place.put(&gone, "{}").await?.error_for_status()?;
        let requests = [
            request("DELETE", &gone, Value::Null),
            add("a~/1", 1),
            request("POST", "a~", json!({})),
        ];
        let key = round.to_string();
        let headers = [
            ("idempotency-key", key.as_str()),
            ("hyper-storage-wait", "landed"),
        ];
        let copies = (0..8).map(|_| step(&place, &requests, &headers));
        let mut first = 0;
        for copy in join_all(copies).await {
            let made = answers(copy?).await?;
            let marks = made
                .iter()
                .map(|answer| text(answer, "idempotent-replayed"));
            first += usize::from(marks.collect::<Vec<_>>() == ["", "", ""]);
        }
        assert_eq!(first, 1, "{round}");
    }
    assert_eq!(place.json("a~/1").await?.get("n"), Some(&json!(rounds)));
    let head = place.get("a~?size=0").await?;
    let (revision, count) = ((1 + 4 * rounds).to_string(), (1 + rounds).to_string());
    assert_eq!(told(&head), (200, revision.as_str(), count.as_str()));
    place.close().await
}

pub(crate) async fn a_step_keeps_the_versions_of_its_items(place: Place) -> Result<()> {
    let put = |id: &str, n: u64| request("PUT", &format!("kept/a~/{id}"), json!({ "n": n }));
    for n in [1, 2] {
        let made = answers(step(&place, &[put("1", n), put("2", n)], &[]).await?).await?;
        assert_eq!(number(nth(&made, 1), "revision"), 2 * n);
    }
    for (id, revision, n) in [
        ("1", 1, 1),
        ("1", 2, 1),
        ("2", 2, 1),
        ("1", 3, 2),
        ("2", 3, 1),
        ("2", 4, 2),
    ] {
        let kept = place
            .json(&format!("kept/a~/{id}?revision={revision}"))
            .await?;
        assert_eq!(kept.get("n"), Some(&json!(n)), "{id} at {revision}");
    }
    place.close().await
}

pub(crate) async fn a_step_that_is_too_large_is_told_the_limit(place: Place) -> Result<()> {
    let puts = |collection: &str, count: usize, body: &Value| {
        let put = |id| request("PUT", &format!("{collection}/{id}"), body.clone());
        (0..count).map(put).collect::<Vec<_>>()
    };
    let (short, key) = (json!({"n": 1}), [("idempotency-key", "k")]);
    let large = json!({"text": "x".repeat(1_000_000)});
    for (requests, headers, status, limit) in [
        (
            puts("a~", 16, &short),
            &[] as &[(&str, &str)],
            422,
            "1 to 15",
        ),
        (puts("a~", 15, &short), &key, 422, "room for 15"),
        (puts("kept/a~", 8, &short), &[], 422, "room for 15"),
        (puts("a~", 5, &large), &[], 413, "8388608"),
    ] {
        let refused = step(&place, &requests, headers).await?;
        assert_eq!(refused.status().as_u16(), status, "{limit}");
        let problem = json(refused).await?;
        let detail = text_at(&problem, "/detail");
        assert!(detail.contains(limit), "{detail}");
        for collection in ["a~", "kept/a~"] {
            assert_eq!(place.get(collection).await?.status(), StatusCode::NOT_FOUND);
        }
    }
    for (requests, headers, count) in [
        (puts("a~", 15, &short), &[] as &[(&str, &str)], 15),
        (puts("b~", 14, &short), &key, 14),
        (puts("kept/a~", 7, &short), &[], 7),
        (puts("c~", 3, &large), &[], 3),
    ] {
        let made = answers(step(&place, &requests, headers).await?).await?;
        let last = made.last().context("an answer")?;
        assert_eq!(*part(last, "/body/count"), json!(count));
    }
    place.close().await
}

pub(crate) async fn a_step_begins_a_collection_again_after_its_end(place: Place) -> Result<()> {
    let requests = [
        request("PUT", "a~/1", json!({})),
        request("POST", "a~", json!({})),
        with(request("PUT", "a~/2", json!({})), "if-none-match", "*"),
    ];
    for revision in [3, 7] {
        let made = answers(step(&place, &requests, &[]).await?).await?;
        assert!(
            made.iter().all(|answer| *part(answer, "/status") == 201),
            "{made:?}"
        );
        let head = place.get("a~?size=0").await?;
        assert_eq!(told(&head), (200, &*revision.to_string(), "3"));
        place.delete("a~").await?.error_for_status()?;
    }
    place.close().await
}
