//! Sinks of a settings file: `run`, `status` and `parked`.

use std::process::Stdio;

use anyhow::Result;
use axum::http::StatusCode;
use storage_tests::{Stack, World, until};
use tokio::process::{Child, Command};

use super::{program, text};
use crate::sinks::{Service, caught_up, texts_of, write};

/// The program `landing-worker run`, killed when it is dropped.
fn run(config: &std::path::Path) -> Result<Child> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command.arg("run").arg("--config").arg(config);
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    Ok(command.kill_on_drop(true).spawn()?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_serves_its_sinks_and_sends_parked_events_again() -> Result<()> {
    let world = World::fresh().await?;
    let (service, address) = Service::start().await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    let sinks = format!(
        "[sinks.files]\nkind = \"file\"\ndir = {:?}\n\
         [sinks.web]\nkind = \"webhook\"\nurl = \"http://{address}/in\"\n",
        folder.path().join("events").to_string_lossy()
    );
    std::fs::write(&config, format!("{}\n{sinks}", world.text))?;
    let stack = Stack::with(world).await?;
    service.refuse(Some("2"));
    service.answer(Some((StatusCode::SERVICE_UNAVAILABLE, Vec::new())));
    let mut worker = run(&config)?;
    write(&stack, &["ann"], 0..5).await?;
    caught_up(&stack, "files").await?;
    let json = program(&config, &["status", "--json"]).await?;
    let status: serde_json::Value = serde_json::from_slice(&json.stdout)?;
    let expected = serde_json::json!([
        { "sink": "files", "behind": 0, "parked": 0 },
        { "sink": "web", "behind": 5, "parked": 0 },
    ]);
    assert_eq!(status["sinks"], expected);
    worker.kill().await?;
    service.answer(None);
    let _worker = run(&config)?;
    caught_up(&stack, "web").await?;
    assert_eq!(texts_of(&service), ["0", "1", "3", "4"]);
    let table = text(&program(&config, &["status"]).await?.stdout);
    let line = "sink web: 0 events behind, 1 parked: landing-worker parked lists them";
    assert!(table.contains(line), "{table}");

    let listed = program(&config, &["parked"]).await?;
    let said = text(&listed.stdout);
    assert_eq!(listed.status.code(), Some(0), "{said}");
    assert!(said.starts_with("web partition "), "{said}");
    assert!(
        said.contains(" position 1-3: 422 Unprocessable Entity\n1 parked events\n"),
        "{said}"
    );
    let unknown = program(&config, &["parked", "--sink", "other"]).await?;
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("no sink other; they have: files, web"));
    let refused = program(&config, &["parked", "--retry"]).await?;
    assert_eq!(refused.status.code(), Some(1));
    service.refuse(None);
    let sent = program(&config, &["parked", "--retry", "--sink", "web"]).await?;
    assert_eq!(
        (sent.status.code(), text(&sent.stdout)),
        (Some(0), "0 parked events\n".to_owned())
    );
    assert_eq!(texts_of(&service), ["0", "1", "3", "4", "2"]);

    service.refuse(Some("5"));
    write(&stack, &["ann"], 5..7).await?;
    until("it is parked", async || {
        let listed = program(&config, &["parked"]).await?;
        Ok(text(&listed.stdout).contains("1 parked events"))
    })
    .await?;
    let dropped = program(&config, &["parked", "--drop"]).await?;
    assert!(
        text(&dropped.stdout).starts_with("given up: web partition"),
        "{dropped:?}"
    );
    assert!(
        text(&dropped.stdout).ends_with("\n0 parked events\n"),
        "{dropped:?}"
    );
    Ok(())
}

/// A proxy of the environment would take the events and answer for the receiver.
#[tokio::test(flavor = "multi_thread")]
async fn events_go_past_a_proxy_of_the_environment_and_through_the_one_of_the_settings()
-> Result<()> {
    for named in [false, true] {
        let world = World::fresh().await?;
        let (service, address) = Service::start().await?;
        let (proxy, proxy_address) = Service::start().await?;
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("storage.toml");
        let mut sink = format!("[sinks.web]\nkind = \"webhook\"\nurl = \"http://{address}/in\"\n");
        if named {
            sink += &format!("proxy = \"http://{proxy_address}\"\n");
        }
        std::fs::write(&config, format!("{}\n{sink}", world.text))?;
        let stack = Stack::with(world).await?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
        command.args(["run", "--config"]).arg(&config);
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env(name, format!("http://{proxy_address}"));
        }
        let _worker = command
            .env_remove("no_proxy")
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        write(&stack, &["ann"], 0..3).await?;
        caught_up(&stack, "web").await?;
        let (taken, other) = if named {
            (proxy, service)
        } else {
            (service, proxy)
        };
        assert_eq!(texts_of(&taken), ["0", "1", "2"]);
        assert!(other.calls().is_empty());
        for call in taken.calls() {
            assert!(call.agent.starts_with("landing-worker/"), "{}", call.agent);
            let parts: Vec<&str> = call.key.split(':').collect();
            assert_eq!((parts.len(), parts[1]), (4, "web"), "{}", call.key);
        }
    }
    Ok(())
}
