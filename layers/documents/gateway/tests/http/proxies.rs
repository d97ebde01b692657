//! What proxies and caches on the way are told. In the embedded mode alone.

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::Value;

use crate::place::{Place, header, json};

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_one_moment_are_not_stored_and_feeds_not_held_back() -> Result<()> {
    let place = Place::embedded().await?;
    let put = place.put("a", "1").await?.error_for_status()?;
    let transaction = format!("transactions/{}", header(&put, "hyper-storage-transaction"));
    for resource in [
        "feed",
        "_changes",
        "_export",
        "_metrics",
        &transaction,
        "content/none",
        "none",
    ] {
        let answer = place.look(resource).await?;
        assert_eq!(header(&answer, "cache-control"), "no-store", "{resource}");
        let is_feed = resource == "feed";
        let buffering = header(&answer, "x-accel-buffering");
        assert_eq!(buffering == "no", is_feed, "{resource}");
    }
    assert_eq!(header(&place.get("a").await?, "cache-control"), "no-cache");
    place.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn links_lead_to_the_public_url() -> Result<()> {
    let place = Place::embedded_with(&["--public-url", "https://game.example/storage/"]).await?;
    let public = "https://game.example/storage/hyper-storage/content/";
    for _ in 0..2 {
        let post = place.post("a~", "{}").await?.error_for_status()?;
        let location = header(&post, "location");
        assert!(location.starts_with(&format!("{public}a~/")), "{location}");
    }
    let page = place.get("a~?size=1").await?;
    let link = header(&page, "link");
    assert!(link.starts_with(&format!("<{public}a~?")), "{link}");
    let hal = place.call(Method::GET, "a~?size=1");
    let hal = json(hal.header("accept", "application/hal+json").send().await?).await?;
    for name in ["self", "next"] {
        let href = hal
            .pointer(&format!("/_links/{name}/href"))
            .and_then(Value::as_str);
        assert!(href.context("a link")?.starts_with(public), "{hal}");
    }
    let description = json(place.look("openapi.json").await?).await?;
    let server = description
        .pointer("/servers/0/url")
        .and_then(Value::as_str);
    assert_eq!(server, Some("https://game.example/storage"));
    place.close().await
}
