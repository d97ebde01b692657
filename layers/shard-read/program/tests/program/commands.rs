//! Commands, their output and their exit codes.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use storage_metrics::names;
use storage_tests::until;

use crate::place::{Place, run};

pub(crate) async fn owners_are_planned_served_shown_and_read(place: Place) -> Result<()> {
    place.write(0..2).await?;
    assert_eq!(
        place.run(&["status"]).await?.status.code(),
        Some(1),
        "without a plan"
    );
    let added = place
        .ok(&["plan", "--dc", "a", "--shards", "2", "--json"])
        .await?;
    let added: Value = serde_json::from_str(&added)?;
    let expected = json!({ "service": "storage-owners-1", "dc": "a", "plan": 1 });
    assert_eq!(added, expected);
    let unserved = place.run(&["status"]).await?;
    assert_eq!(unserved.status.code(), Some(1));
    let text = String::from_utf8(unserved.stdout)?;
    assert_eq!(text.matches("without a server").count(), 2, "{text}");

    let (first, second) = (place.serve("a", &[]).await?, place.serve("a", &[]).await?);
    let text = place.served().await?;
    assert_eq!(text.matches("serving").count(), 2, "{text}");
    for server in [&first, &second] {
        assert!(text.contains(&server.address), "{text}");
    }
    let status: Value = serde_json::from_str(&place.ok(&["status", "--json"]).await?)?;
    assert_eq!(status["is_complete"], true);
    assert_eq!(status["shards"][0]["begin"], "0000000000000000");
    assert_eq!(status["shards"][0]["end"], "8000000000000000");
    assert_eq!(status["shards"][1]["end"], Value::Null);

    let hosts = format!("{},{}", first.address, second.address);
    let owners = [
        "game/eu/player/0",
        "game/eu/player/1",
        "game/eu/player/none",
    ];
    let read = run(&[&["get", "--json", "--hosts", &hosts][..], &owners].concat()).await?;
    assert_eq!(read.status.code(), Some(0), "{read:?}");
    let lines = String::from_utf8(read.stdout)?;
    let lines: Vec<Value> = lines
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    assert_eq!(lines[0]["fields"], json!({ "gold": "0" }));
    assert_eq!(lines[1]["owner"], "game/eu/player/1");
    assert_eq!(lines[2]["fields"], Value::Null);
    Ok(())
}

pub(crate) async fn a_server_asks_for_its_token_and_never_serves_other_machines_without_one(
    place: Place,
) -> Result<()> {
    place.write(0..1).await?;
    place.ok(&["plan", "--dc", "a", "--shards", "1"]).await?;
    let file = place.file("token", "open sesame\n")?;
    let file = file.to_str().context("a path")?;
    let server = place.serve("a", &["--token-file", file]).await?;
    place
        .ok(&["status", "--wait", "--token-file", file])
        .await?;
    let status = String::from_utf8(place.run(&["status"]).await?.stdout)?;
    assert!(
        status.contains("silent (") && status.contains("token"),
        "{status}"
    );
    let get = ["get", "--hosts", &server.address, "game/eu/player/0"];
    let denied = run(&get).await?;
    assert_eq!(denied.status.code(), Some(3), "{denied:?}");
    let read = run(&[&get[..], &["--token-file", file]].concat()).await?;
    assert_eq!(read.status.code(), Some(0), "{read:?}");

    let open = [
        "serve",
        "--dc",
        "a",
        "--listen",
        "0.0.0.0:0",
        "--name",
        "a:1",
    ];
    let refused = place.run(&open).await?;
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr)?;
    assert!(said.contains("--token-file"), "{said}");
    Ok(())
}

pub(crate) async fn a_wrong_argument_is_named_and_changes_nothing(place: Place) -> Result<()> {
    for (args, name) in [
        (&["plan", "--dc", "a", "--shards", "0"][..], "0"),
        (&["plan", "--dc", "a", "--shards", "many"], "many"),
        (&["plan", "--dc", "", "--shards", "1"], "--dc"),
        (&["retire", "--dc", "a", "--plan", "-1"], "-1"),
        (&["serve", "--dc", "a", "--period", "1ms"], "10ms"),
        (&["serve", "--dc", "a", "--name", "ann"], "HOST:PORT"),
        (&["serve", "--dc", "a", "--listen", "nowhere"], "nowhere"),
        (
            &["serve", "--dc", "a", "--token-file", "no/such/file"],
            "no/such/file",
        ),
    ] {
        let output = place.run(args).await?;
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        let said = String::from_utf8(output.stderr)?;
        assert!(said.contains(name), "{args:?}: {said}");
    }
    let get = run(&["get", "--hosts", "127.0.0.1:1", "ann"]).await?;
    assert_eq!(get.status.code(), Some(2), "{get:?}");
    let silent = run(&[
        "get",
        "--hosts",
        "127.0.0.1:1",
        "--deadline",
        "200ms",
        "game/eu/player/0",
    ])
    .await?;
    assert_eq!(silent.status.code(), Some(4), "{silent:?}");
    let said = String::from_utf8(silent.stderr)?;
    assert!(said.contains("127.0.0.1:1 said"), "{said}");
    assert_eq!(
        place.run(&["status"]).await?.status.code(),
        Some(1),
        "no plan is there"
    );
    Ok(())
}

pub(crate) async fn figures_tell_what_a_server_does(place: Place) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    place.write(0..1).await?;
    place.ok(&["plan", "--dc", "a", "--shards", "1"]).await?;
    let server = place
        .serve("a", &["--http", "127.0.0.1:0", "--json"])
        .await?;
    let begun: Value = serde_json::from_str(&server.address)?;
    let (address, http) = (begun["address"].as_str(), begun["http"].as_str());
    let (address, http) = (address.context("an address")?, http.context("a page")?);
    place.served().await?;
    let read = run(&["get", "--hosts", address, "game/eu/player/0"]).await?;
    assert_eq!(read.status.code(), Some(0), "{read:?}");
    until("the call is counted", async || {
        let page = reqwest::get(format!("http://{http}/metrics"))
            .await?
            .text()
            .await?;
        let has = |line: &str| page.lines().any(|found| found == line);
        Ok(has("storage_shard_keys_total 1") && has("storage_shard_serving 1.0"))
    })
    .await?;
    let page = reqwest::get(format!("http://{http}/metrics")).await?;
    let page = page.text().await?;
    let mut ours = names::ALL
        .iter()
        .filter(|name| name.name.starts_with("shard_"));
    assert!(
        ours.all(|name| page.contains(&format!("storage_{}", name.name))),
        "{page}"
    );
    let ready = reqwest::get(format!("http://{http}/readyz")).await?;
    assert_eq!(ready.status().as_u16(), 200);
    Ok(())
}
