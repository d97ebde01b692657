//! Lists of collections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use reqwest::Method;
use serde_json::{Value, json};
use storage_documents::{Call, Kind, Path, Query};
use storage_sdk::{Clock, Durability, Timestamp};

use crate::place::{Place, header, json as body_of, refused, told};

/// The ids of a list.
fn ids(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let ids = items.filter_map(|item| item.get("id")?.as_str().map(str::to_owned));
    ids.collect()
}

/// The ids of the list at a path.
async fn listed(place: &Place, path: &str) -> Result<String> {
    Ok(ids(&place.json(path).await?).join(","))
}

/// B40, D7: some items have landed, some have not, and some have landed in another state.
pub(crate) async fn a_list_shows_unlanded_and_landed_items_in_order(place: Place) -> Result<()> {
    for id in ["d", "b", "a"] {
        let put = place.call(Method::PUT, &format!("a~/{id}"));
        let put = put
            .header("hyper-storage-wait", "landed")
            .body(r#"{"n":1}"#);
        put.send().await?.error_for_status()?;
        place.put("other~/x", "{}").await?.error_for_status()?;
    }
    for round in 0..20 {
        place.put("a~/c", "{}").await?.error_for_status()?;
        assert_eq!(listed(&place, "a~").await?, "a,b,c,d", "{round}");
        place
            .patch("a~/b", &format!(r#"{{"n":{round}}}"#))
            .await?
            .error_for_status()?;
        let list = place.json("a~").await?;
        assert_eq!(
            list.get(1).and_then(|item| item.get("n")),
            Some(&json!(round))
        );
        place.delete("a~/c").await?.error_for_status()?;
        assert_eq!(listed(&place, "a~").await?, "a,b,d", "{round}");
    }
    let empty = place.get("a~?size=0").await?;
    assert_eq!(told(&empty), (200, "63", "3"));
    assert_eq!(body_of(empty).await?, json!([]));
    place.close().await
}

/// The path behind the prefix of a link to the next page.
fn next_of(response: &reqwest::Response) -> Option<String> {
    let link = header(response, "link").strip_prefix("</hyper-storage/content/")?;
    Some(link.strip_suffix(">; rel=\"next\"")?.to_owned())
}

/// B42, K18, K19, D11.
pub(crate) async fn pages_follow_each_other_whatever_changes_in_between(
    place: Place,
) -> Result<()> {
    for number in 0..9 {
        let body = format!(r#"{{"group":{}}}"#, number % 2);
        place
            .put(&format!("a~/{number}"), &body)
            .await?
            .error_for_status()?;
    }
    for (query, expected) in [
        ("size=2", "0,1,2,3,4,5,6,7,8"),
        ("size=3&sort=-id", "8,7,6,5,4,3,2,1,0"),
        ("size=4&sort=group", "0,2,4,6,8,1,3,5,7"),
        ("size=1&sort=-group,id", "1,3,5,7,0,2,4,6,8"),
        ("size=2&filter=group%20%3D%201", "1,3,5,7"),
        ("size=9", "0,1,2,3,4,5,6,7,8"),
    ] {
        let (mut seen, mut next) = (Vec::new(), Some(format!("a~?{query}")));
        while let Some(path) = next {
            let page = place.get(&path).await?.error_for_status()?;
            next = next_of(&page);
            seen.extend(ids(&body_of(page).await?));
        }
        assert_eq!(seen.join(","), expected, "{query}");
    }
    // The item of the cursor goes, and others come before and behind it.
    let page = place.get("a~?size=3").await?;
    let next = next_of(&page).context("a link")?;
    place.delete("a~/2").await?.error_for_status()?;
    for id in ["11", "21", "9"] {
        place
            .put(&format!("a~/{id}"), "{}")
            .await?
            .error_for_status()?;
    }
    assert_eq!(listed(&place, &next).await?, "21,3,4");
    assert_eq!(
        listed(&place, &next).await?,
        "21,3,4",
        "a link can be followed twice"
    );
    place.close().await
}

/// B41, B45.
pub(crate) async fn filters_and_sorts_of_lists(place: Place) -> Result<()> {
    for (id, body) in [
        ("1", r#"{"b":-5,"t":"x"}"#),
        ("2", r#"{"b":0}"#),
        ("3", r#"{"b":100500,"t":""}"#),
        ("4", r#"{"t":"y"}"#),
        ("5", r#"{"b":12,"tags":["red","vip"]}"#),
    ] {
        place
            .put(&format!("a~/{id}"), body)
            .await?
            .error_for_status()?;
    }
    for (query, expected) in [
        ("filter=id%20%3E%20%223%22", "4,5"),
        ("filter=id%20%3C%3D%20%222%22&sort=-id", "2,1"),
        ("filter=%223%22%20%3D%20id", "3"),
        ("filter=b%20%3E%20-6", "1,2,3,5"),
        ("filter=b%20%3D%20null", "4"),
        ("filter=tags%20has%20%22vip%22", "5"),
        ("filter=t%20like%20%22%5E%5Bxy%5D%24%22", "1,4"),
        // A missing member counts as null, which comes before all else (K16, F4, F5).
        ("sort=b", "4,1,2,5,3"),
        ("sort=-b", "3,5,2,1,4"),
        ("sort_by=%2Bt,-id&per_page=3", "5,2,3"),
    ] {
        assert_eq!(
            listed(&place, &format!("a~?{query}")).await?,
            expected,
            "{query}"
        );
    }
    place.close().await
}

/// B44, K23, F14.
pub(crate) async fn bad_queries_are_problems(place: Place) -> Result<()> {
    for number in 0..5 {
        place
            .put(&format!("a~/{number}"), "{}")
            .await?
            .error_for_status()?;
    }
    let deep = format!("a~?filter={}", "(".repeat(4_000));
    for (path, status, of) in [
        ("a~?filter=id%20%3E", 400, "query"),
        (&deep, 400, "query"),
        ("a~?sort=a%20b", 400, "query"),
        ("a~?size=1001", 400, "query"),
        ("a~?size=x", 400, "request"),
        ("a~?size=1&size=2", 400, "request"),
        ("a~?cursor=zzz", 400, "query"),
        ("a~?offset=3", 400, "request"),
        ("a~?sort=x&size=1&skipMax=2", 422, "query-limit"),
        ("a~?filter=x%20%3D%201&size=1&skipMax=4", 422, "query-limit"),
    ] {
        let refusal = place.get(path).await?;
        assert_eq!(refused(refusal).await?, (status, of.to_owned()), "{path}");
    }
    let cursor = place.get("a~?size=1&sort=-id").await?;
    let cursor = next_of(&cursor)
        .context("a link")?
        .replace("sort=%2Did", "sort=id");
    assert_eq!(
        refused(place.get(&cursor).await?).await?,
        (400, "query".to_owned())
    );
    place.close().await
}

pub(crate) async fn a_list_with_links(place: Place) -> Result<()> {
    for number in 0..3 {
        place
            .put(&format!("a~/{number}"), "{}")
            .await?
            .error_for_status()?;
    }
    let page = place.call(Method::GET, "a~?size=2");
    let page = page.header("accept", "application/hal+json").send().await?;
    assert_eq!(header(&page, "content-type"), "application/hal+json");
    let plain = place.call(Method::GET, "a~?size=2");
    let plain = plain.header("accept", "application/json, application/hal+json;q=0");
    let plain = plain.send().await?;
    assert_eq!(header(&plain, "content-type"), "application/json");
    assert_eq!(header(&plain, "cache-control"), "no-cache");
    let page = body_of(page).await?;
    let els = page.pointer("/_embedded/els").context("items")?;
    assert_eq!(els, &json!([{"id":"0"},{"id":"1"}]));
    let next = page.pointer("/_links/next/href").and_then(Value::as_str);
    let next = next
        .context("a link")?
        .trim_start_matches("/hyper-storage/content/");
    assert_eq!(listed(&place, next).await?, "2");
    assert_eq!(
        (page.get("count"), page.get("revision")),
        (Some(&json!(3)), Some(&json!(3)))
    );
    place.close().await
}

/// K18, B42, D11: pages over missing and mixed keys, and items that move meanwhile.
pub(crate) async fn pages_of_mixed_keys_and_moving_items(place: Place) -> Result<()> {
    for (id, body) in [
        ("1", "{}"),
        ("2", r#"{"k":null}"#),
        ("3", r#"{"k":5}"#),
        ("4", r#"{"k":"5"}"#),
        ("5", "{}"),
        ("6", r#"{"k":[5.0]}"#),
    ] {
        place
            .put(&format!("m~/{id}"), body)
            .await?
            .error_for_status()?;
    }
    for size in 1..=7 {
        for (sort, expected) in [("k", "1,2,5,3,4,6"), ("-k", "6,4,3,5,2,1")] {
            let first = format!("m~?sort={sort}&size={size}");
            let (mut seen, mut next) = (Vec::new(), Some(first));
            while let Some(path) = next {
                let page = place.get(&path).await?.error_for_status()?;
                next = next_of(&page);
                seen.extend(ids(&body_of(page).await?));
            }
            assert_eq!(seen.join(","), expected, "{sort} {size}");
        }
    }
    assert!(next_of(&place.get("m~?size=6").await?).is_none());
    for id in 1..=9 {
        place
            .put(&format!("a~/{id}"), &format!(r#"{{"n":{id}}}"#))
            .await?
            .error_for_status()?;
    }
    let page = place.get("a~?size=3&sort=n").await?;
    let next = next_of(&page).context("a link")?;
    let mut seen = ids(&body_of(page).await?);
    // From before the cursor to behind it, and the other way.
    place
        .patch("a~/1", r#"{"n":99}"#)
        .await?
        .error_for_status()?;
    place
        .patch("a~/9", r#"{"n":0}"#)
        .await?
        .error_for_status()?;
    seen.extend(ids(&place
        .json(&next.replace("size=3", "size=100"))
        .await?));
    assert_eq!(seen.join(","), "1,2,3,4,5,6,7,8,1");
    place.close().await
}

/// K23: no text of a caller becomes a part of a statement.
pub(crate) async fn names_with_quotes_are_names(place: Place) -> Result<()> {
    place
        .put("q'--~/it's", r#"{"a'--":1}"#)
        .await?
        .error_for_status()?;
    for query in [
        "",
        "?sort=%60a'--%60",
        "?filter=id%20%3E%20%22'%20OR%201%3D1%20--%22",
        "?filter=id%20%3D%20%22it's%22",
    ] {
        assert_eq!(
            listed(&place, &format!("q'--~{query}")).await?,
            "it's",
            "{query}"
        );
    }
    for query in ["?sort=a'--", "?filter=%00"] {
        let refusal = place.get(&format!("q'--~{query}")).await?;
        assert_eq!(
            refused(refusal).await?,
            (400, "query".to_owned()),
            "{query}"
        );
    }
    place.close().await
}

/// B40: the default size of a page.
pub(crate) async fn a_page_has_100_items_unless_it_is_told(place: Place) -> Result<()> {
    let line = |number| format!("{{\"path\":\"a~/{number}\",\"body\":{{}}}}\n");
    let lines: String = (100..201).map(line).collect();
    let import = place.client.post(place.url("_import"));
    let import = import.bearer_auth(place.gateway.token()).body(lines);
    import.send().await?.error_for_status()?;
    let page = place.get("a~").await?.error_for_status()?;
    let next = next_of(&page).context("a link")?;
    let expected: Vec<String> = (100..200).map(|number| number.to_string()).collect();
    assert_eq!(ids(&body_of(page).await?), expected);
    assert_eq!(listed(&place, &next).await?, "200");
    place.close().await
}

/// A clock that stands until it is set.
#[derive(Debug)]
struct Still(AtomicU64);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// B30: between the end of its time to live and the sweep. No gateway serves the other world, so
/// nothing is swept there.
pub(crate) async fn an_item_that_has_ended_is_not_listed_although_it_still_counts(
    place: Place,
) -> Result<()> {
    let clock = Arc::new(Still(AtomicU64::new(1_700_000_000_000_000)));
    let theirs = place.theirs()?.with_clock(clock.clone());
    let timeout = Duration::from_secs(30);
    for (collection, durability) in [
        ("a~", Durability::Cached),
        ("b~", Durability::Landed { timeout }),
    ] {
        let collection = Path::new(collection)?;
        for (id, lives) in [("1", Some(Duration::from_secs(10))), ("2", None)] {
            let call = Call {
                lives,
                durability,
                ..Call::default()
            };
            let path = Path::item(collection.as_str(), id)?;
            theirs.put(&path, b"{}", &call).await?;
        }
        let listed = async |sort: &str| {
            let list = theirs.list(&collection, &Query::new("", sort)?).await?;
            let list = list.context("a list")?;
            let ids: Vec<String> = list.items.into_iter().map(|item| item.id).collect();
            anyhow::Ok((ids.join(","), list.count))
        };
        assert_eq!(listed("").await?, ("1,2".to_owned(), 2));
        clock.0.fetch_add(11_000_000, Ordering::SeqCst);
        for sort in ["", "-id", "n"] {
            assert_eq!(listed(sort).await?, ("2".to_owned(), 2), "{sort}");
        }
    }
    place.close().await
}

pub(crate) async fn sorts_keep_no_more_together_than_they_may(place: Place) -> Result<()> {
    let theirs = place.theirs()?.with_sort_bytes(1_000);
    let (collection, call) = (Path::new("a~")?, Call::default());
    for id in ["1", "2", "3"] {
        let body = format!(r#"{{"n":{id},"x":"{}"}}"#, "x".repeat(400));
        let path = Path::item(collection.as_str(), id)?;
        theirs.put(&path, body.as_bytes(), &call).await?;
    }
    let list = async |filter: &str, sort: &str| {
        let list = theirs.list(&collection, &Query::new(filter, sort)?).await;
        list.map(|list| list.map_or(0, |list| list.items.len()))
    };
    for _ in 0..2 {
        let refused = list("", "n").await.err().context("too much")?;
        assert_eq!(refused.kind(), &Kind::Busy);
        assert_eq!(
            list("n < 3", "-n").await?,
            2,
            "what was refused keeps nothing"
        );
        assert_eq!(list("", "-id").await?, 3, "by id nothing is kept");
    }
    place.close().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_of_a_page_is_an_option() -> Result<()> {
    let place = Place::with(|args| args.page_size = 2).await?;
    for id in 1..=5 {
        place
            .put(&format!("a~/{id}"), "{}")
            .await?
            .error_for_status()?;
    }
    let page = place.get("a~").await?;
    let next = next_of(&page).context("a link")?;
    assert_eq!(ids(&body_of(page).await?), ["1", "2"]);
    assert_eq!(listed(&place, &next).await?, "3,4");
    assert_eq!(listed(&place, "a~?size=4").await?, "1,2,3,4");
    place.close().await
}
