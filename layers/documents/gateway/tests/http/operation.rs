//! Metrics, export and import, the end, and the calls of the book.

use std::time::Duration;

use anyhow::{Context as _, Result};
use reqwest::StatusCode;
use serde_json::{Value, json};
use storage_metrics::names;

use crate::feeds::Feed;
use crate::place::{Place, header, json as body_of};

pub(crate) async fn figures_of_the_gateway_and_the_storage_are_on_one_page(
    place: Place,
) -> Result<()> {
    let feed = Feed::open(&place, "").await?;
    place.put("a", "1").await?.error_for_status()?;
    place.put("a", "{").await?;
    let page = place.look("_metrics").await?;
    assert!(header(&page, "content-type").starts_with("application/openmetrics-text"));
    let page = page.text().await?;
    for line in [
        "storage_document_requests_total 3",
        "storage_document_refusals_total 1",
        "storage_document_failures_total 0",
        "storage_document_feeds 1.0",
        "storage_backpressure_percent 0.0",
    ] {
        assert!(page.lines().any(|have| have == line), "{line} in {page}");
    }
    let of_gateways = names::ALL
        .iter()
        .filter(|name| name.name.starts_with("document_"));
    for name in of_gateways {
        let line = format!("# TYPE storage_{} ", name.name);
        assert!(page.contains(&line), "nobody measures {}", name.name);
    }
    let anonymous = place.client.get(place.url("_metrics")).send().await?;
    assert_eq!(anonymous.status(), StatusCode::UNAUTHORIZED);
    drop(feed);
    place.close().await
}

/// What was acknowledged before an export is in it, whether it had landed or not.
pub(crate) async fn an_export_is_imported_elsewhere(place: Place) -> Result<()> {
    for number in 0..300 {
        place
            .put(&format!("a~/{number:03}"), r#"{"n":1.50}"#)
            .await?
            .error_for_status()?;
    }
    place.put("b", "[1,null]").await?.error_for_status()?;
    place.put("gone", "1").await?.error_for_status()?;
    place.delete("gone").await?.error_for_status()?;
    place.put("c~/1", "{}").await?.error_for_status()?;
    place.delete("c~").await?.error_for_status()?;
    place.put("c~/2", "{}").await?.error_for_status()?;
    let export = place.look("_export").await?.error_for_status()?;
    assert_eq!(header(&export, "content-type"), "application/x-ndjson");
    let lines = export.text().await?;
    assert_eq!(lines.lines().count(), 302, "{lines}");
    let below = place.look("_export?prefix=c~").await?.text().await?;
    assert_eq!(below, "{\"path\":\"c~/2\",\"body\":{\"id\":\"2\"}}\n");

    let other = Place::embedded().await?;
    let import = async |body: String| {
        let request = other.client.post(other.url("_import"));
        let request = request.bearer_auth(other.gateway.token()).body(body);
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        anyhow::Ok((status, body_of(answer).await?))
    };
    let (status, report) = import(lines.clone()).await?;
    assert_eq!(
        (status, report.get("put")),
        (200, Some(&json!(302))),
        "{report}"
    );
    assert_eq!(other.look("_export").await?.text().await?, lines);
    let (status, report) =
        import("{\"path\":\"a\",\"body\":1}\nnonsense\n{\"path\":\"x y\",\"body\":1}".into())
            .await?;
    assert_eq!(
        (status, report.get("put"), report.get("failed")),
        (422, Some(&json!(1)), Some(&json!(2)))
    );
    let failed = report
        .get("lines")
        .and_then(Value::as_array)
        .context("lines")?;
    let numbers: Vec<Option<u64>> = failed
        .iter()
        .map(|line| line.get("line")?.as_u64())
        .collect();
    assert_eq!(numbers, [Some(2), Some(3)]);
    other.close().await?;
    place.close().await
}

/// K25: the end with 100 open feeds.
pub(crate) async fn a_hundred_open_feeds_do_not_hold_up_the_end(place: Place) -> Result<()> {
    let mut feeds = Vec::new();
    for _ in 0..100 {
        feeds.push(Feed::open(&place, "?prefix=a").await?);
    }
    place.put("a", "1").await?.error_for_status()?;
    for feed in &mut feeds {
        feed.until("feed:put").await?;
    }
    place.close().await?;
    for feed in &mut feeds {
        assert!(feed.until("nothing more").await.is_err());
    }
    Ok(())
}

/// The calls of the book, as they stand there.
pub(crate) async fn the_calls_of_the_book_do_what_it_says(place: Place) -> Result<()> {
    let chapter = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../book/src/layer-documents.md"
    );
    let chapter = std::fs::read_to_string(chapter)?;
    let (_, calls) = chapter
        .split_once("<!-- curl -->\n```sh\n")
        .context("the calls")?;
    let (calls, _) = calls.split_once("```").context("their end")?;
    let mut answers = Vec::new();
    for call in calls.lines() {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", &call.replacen("curl", "curl -sS --fail-with-body", 1)]);
        command.env("URL", place.url("").trim_end_matches('/'));
        command.env("TOKEN", place.gateway.token());
        let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await??;
        let text = String::from_utf8(output.stdout)?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(output.status.success(), "{call}: {text} {errors}");
        answers.push(text);
    }
    assert_eq!(answers.len(), 10);
    for (number, part) in [
        (0, r#""revision":1"#),
        (1, r#"{"name":"Red","seats":3}"#),
        (3, r#""revision":3"#),
        (5, r#""count":2"#),
        (7, r#"[{"id":"ann","name":"Ann","level":7}]"#),
        (8, r#""path":"members~/ann""#),
        (9, r#""revision":3"#),
    ] {
        let answer = answers.get(number).context("an answer")?;
        assert!(answer.contains(part), "{number}: {answer}");
    }
    let listed: Value = serde_json::from_str(answers.get(6).context("a list")?)?;
    let names = listed.as_array().into_iter().flatten();
    let names: Vec<&str> = names
        .filter_map(|item| item.get("name")?.as_str())
        .collect();
    assert_eq!(names, ["Ann", "Bob"]);
    place.close().await
}
