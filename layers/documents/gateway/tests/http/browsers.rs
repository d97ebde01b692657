//! Pages of other origins, and tickets for the live feed. In the embedded mode alone.

use anyhow::{Context as _, Result};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;

use crate::feeds::Feed;
use crate::place::{Place, header, json, refused};

const GAME: &str = "https://game.example";

/// An answer to a page of an origin. Without a token.
async fn from_page(
    place: &Place,
    method: Method,
    resource: &str,
    origin: &str,
) -> Result<Response> {
    let request = place.client.request(method, place.url(resource));
    let request = request.header("origin", origin);
    let request = request.header("access-control-request-method", "PUT");
    let request = request.header("access-control-request-headers", "authorization,if-match");
    Ok(request.send().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_named_origins_may_use_the_gateway() -> Result<()> {
    let place =
        Place::embedded_with(&["--origin", GAME, "--origin", "http://localhost:3000"]).await?;
    for origin in [GAME, "http://localhost:3000"] {
        let preflight = from_page(&place, Method::OPTIONS, "content/a", origin).await?;
        assert!(preflight.status().is_success(), "{}", preflight.status());
        assert_eq!(header(&preflight, "access-control-allow-origin"), origin);
        let methods = header(&preflight, "access-control-allow-methods");
        assert!(
            methods.contains("PATCH") && methods.contains("PUT"),
            "{methods}"
        );
        let headers = header(&preflight, "access-control-allow-headers");
        assert_eq!(headers, "authorization,if-match");
    }
    // A page can read an error, too.
    let problem = from_page(&place, Method::GET, "content/a", GAME).await?;
    assert_eq!(header(&problem, "access-control-allow-origin"), GAME);
    assert!(header(&problem, "vary").to_lowercase().contains("origin"));
    let exposed = header(&problem, "access-control-expose-headers").to_lowercase();
    for name in [
        "etag",
        "revision",
        "count",
        "link",
        "location",
        "retry-after",
        "request-id",
    ] {
        assert!(
            exposed.split(',').any(|one| one == name),
            "{name} in {exposed}"
        );
    }
    assert_eq!(refused(problem).await?, (401, "unauthorized".to_owned()));
    for origin in ["https://other.example", "http://game.example"] {
        let other = from_page(&place, Method::OPTIONS, "content/a", origin).await?;
        assert_eq!(
            header(&other, "access-control-allow-origin"),
            "",
            "{origin}"
        );
    }
    place.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_origin_no_page_of_another_one_may() -> Result<()> {
    let place = Place::embedded().await?;
    let preflight = from_page(&place, Method::OPTIONS, "content/a", GAME).await?;
    assert_eq!(header(&preflight, "access-control-allow-origin"), "");
    assert_eq!(refused(preflight).await?, (401, "unauthorized".to_owned()));
    place.close().await?;
    let place = Place::embedded_with(&["--origin", "*"]).await?;
    let any = from_page(&place, Method::OPTIONS, "content/a", GAME).await?;
    assert_eq!(header(&any, "access-control-allow-origin"), "*");
    place.close().await
}

/// The answer to a wish for a ticket.
async fn wished(place: &Place, body: &str) -> Result<Response> {
    let request = place
        .client
        .post(place.url("tickets"))
        .body(body.to_owned());
    Ok(request.bearer_auth(place.gateway.token()).send().await?)
}

async fn ticket(place: &Place, prefix: impl Into<Value>) -> Result<String> {
    let wish = serde_json::json!({ "prefix": prefix.into() });
    let given = wished(place, &wish.to_string()).await?;
    assert_eq!(header(&given, "cache-control"), "no-store");
    let given = json(given.error_for_status()?).await?;
    assert!(given.get("expires").is_some_and(Value::is_u64), "{given}");
    let ticket = given.get("ticket").and_then(Value::as_str);
    Ok(ticket.context("a ticket")?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_for_whole_names_and_for_several_prefixes() -> Result<()> {
    let place = Place::embedded().await?;
    let ticket = ticket(&place, ["rooms/red", "players/"].as_slice()).await?;
    let ask = async |query: &str| -> Result<Response> {
        let url = place.url(&format!("feed?ticket={ticket}{query}"));
        Ok(place.client.get(url).send().await?)
    };
    let both = ask("&prefix=rooms/red/seats&prefix=players/1").await?;
    drop(Feed::of(both.error_for_status()?).await?);
    // The name of another room begins with that of this one.
    for other in [
        "",
        "&prefix=rooms/reds",
        "&prefix=players",
        "&prefix=rooms/red&prefix=guilds",
    ] {
        let answer = refused(ask(other).await?).await?;
        assert_eq!(answer, (403, "ticket".to_owned()), "{other}");
    }
    let long = vec!["a".repeat(253); 9];
    let long = wished(&place, &serde_json::json!({ "prefix": long }).to_string()).await?;
    assert_eq!(refused(long).await?, (400, "body".to_owned()));
    place.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_the_feed_below_its_prefix_and_nothing_else() -> Result<()> {
    let place = Place::embedded().await?;
    let ticket = ticket(&place, "rooms/").await?;
    let anonymous = async |resource: String| -> Result<Response> {
        Ok(place.client.get(place.url(&resource)).send().await?)
    };
    let opened = anonymous(format!("feed?ticket={ticket}&prefix=rooms/lobby")).await?;
    let mut feed = Feed::of(opened.error_for_status()?).await?;
    place.put("rooms/cellar", "1").await?.error_for_status()?;
    place.put("rooms/lobby", "2").await?.error_for_status()?;
    feed.until(r#""body":2"#).await?;
    // A client that comes back sends the same URL.
    let again = anonymous(format!("feed?ticket={ticket}&prefix=rooms/lobby")).await?;
    drop(Feed::of(again.error_for_status()?).await?);
    for (resource, expected) in [
        (format!("feed?ticket={ticket}"), (403, "ticket")),
        (
            format!("feed?ticket={ticket}&prefix=players/"),
            (403, "ticket"),
        ),
        (
            format!("feed?ticket=x{ticket}&prefix=rooms/"),
            (401, "unauthorized"),
        ),
        (
            format!("content/rooms/lobby?ticket={ticket}"),
            (401, "unauthorized"),
        ),
        (
            format!("_changes?ticket={ticket}&prefix=rooms/"),
            (401, "unauthorized"),
        ),
    ] {
        let answer = refused(anonymous(resource.clone()).await?).await?;
        assert_eq!(answer, (expected.0, expected.1.to_owned()), "{resource}");
    }
    let no_token = place.client.post(place.url("tickets")).send().await?;
    assert_eq!(no_token.status(), StatusCode::UNAUTHORIZED);
    for wrong in [
        "",
        "{}",
        "1",
        r#"{"prefix":1}"#,
        r#"{"prefix":[]}"#,
        r#"{"prefix":["a",null]}"#,
        r#"{"prefix":"a","more":1}"#,
    ] {
        let answer = refused(wished(&place, wrong).await?).await?;
        assert_eq!(answer, (400, "body".to_owned()), "{wrong}");
    }
    drop(feed);
    place.close().await
}
