//! `import` and `export`: owners as JSON lines.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::json;
use storage_dirty::{Fields, Read};
use storage_model::Owner;
use storage_sdk::{Evicted, Storage};
use storage_tests::stack::bounded;
use storage_tests::{Stack, rows, stack};

use super::{config, program, text};

fn lines(path: &Path) -> Result<Vec<serde_json::Value>> {
    Ok(std::fs::read_to_string(path)?
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}

fn sorted(path: &Path) -> Result<Vec<serde_json::Value>> {
    let mut lines = lines(path)?;
    lines.sort_by_key(|line| {
        ["app", "region", "logic_type", "owner_id"]
            .map(|key| line[key].as_str().unwrap_or_default().to_owned())
    });
    Ok(lines)
}

/// The owners of which Redis holds anything.
async fn hot(storage: &Storage) -> Result<Vec<Owner>> {
    let (mut pages, mut hot) = (storage.owners().await?, Vec::new());
    while let Some(owners) = pages.next().await? {
        let reads: Vec<_> = owners
            .iter()
            .map(|owner| Read {
                owner: owner.clone(),
                fields: Fields::Names,
            })
            .collect();
        for (owner, read) in owners
            .into_iter()
            .zip(storage.tiers().hot().owners.read(&reads).await)
        {
            hot.extend(read?.header.map(|_| owner));
        }
    }
    Ok(hot)
}

async fn evict_all(storage: &Storage) -> Result<()> {
    for evicted in storage
        .tiers()
        .hot()
        .owners
        .evict(&hot(storage).await?)
        .await
    {
        assert_eq!(evicted?, Evicted::Gone);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn real_entities_come_out_as_they_went_in_unlanded_and_cold() -> Result<()> {
    let (folder, config, world) = config().await?;
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/entities.jsonl");
    let wanted = sorted(&fixture)?;

    let import = program(&config, &["import", fixture.to_str().unwrap_or_default()]).await?;
    ensure!(import.status.success(), "{}", text(&import.stderr));
    let export = async |name: &str| -> Result<Vec<serde_json::Value>> {
        let out = folder.path().join(name);
        let export = program(
            &config,
            &["export", "--output", out.to_str().unwrap_or_default()],
        )
        .await?;
        ensure!(export.status.success(), "{}", text(&export.stderr));
        lines(&out)
    };
    assert_eq!(
        export("unlanded").await?,
        wanted,
        "in key order, before anything has landed"
    );

    let drain = program(&config, &["drain"]).await?;
    ensure!(
        drain.status.success(),
        "{}{}",
        text(&drain.stdout),
        text(&drain.stderr)
    );
    let fields: usize = wanted
        .iter()
        .map(|line| line["fields"].as_object().map_or(0, serde_json::Map::len))
        .sum();
    assert_eq!(rows(&world.database).await?.len(), fields);

    let stack = Stack::with(world).await?;
    evict_all(&stack.storage).await?;
    assert_eq!(export("cold").await?, wanted);
    assert_eq!(hot(&stack.storage).await?, [], "and cold they stay");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_shows_what_is_hot_and_leaves_what_is_cold_where_it_is() -> Result<()> {
    let (_folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    let [cold, part, whole] = ["cold", "part", "whole"].map(|id| stack.player(id));
    for player in [&cold, &part, &whole] {
        player
            .update([("bag", "1"), ("gold", "1"), ("hat", "1")])
            .await?;
    }
    let drain = program(&config, &["drain"]).await?;
    ensure!(
        drain.status.success(),
        "{}{}",
        text(&drain.stdout),
        text(&drain.stderr)
    );
    evict_all(&stack.storage).await?;
    // Two hashes that are newer than their rows: one lacks fields, and one has all.
    part.update([("gold", "2")]).await?;
    part.remove(["hat"]).await?;
    whole.get_all().await?;
    whole.update([("gold", "3")]).await?;

    let export = program(&config, &["export"]).await?;
    ensure!(export.status.success(), "{}", text(&export.stderr));
    let line = |id: &str, fields| json!({"app": "game", "region": "eu", "logic_type": "player", "owner_id": id, "fields": fields});
    let exported: Vec<serde_json::Value> = text(&export.stdout)
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let wanted = [
        line("cold", json!({"bag": "1", "gold": "1", "hat": "1"})),
        line("part", json!({"bag": "1", "gold": "2"})),
        line("whole", json!({"bag": "1", "gold": "3", "hat": "1"})),
    ];
    assert_eq!(exported, wanted);
    assert_eq!(
        hot(&stack.storage).await?,
        [part.owner().clone(), whole.owner().clone()]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_readable_on_demand_and_import_refuses_what_is_only_to_be_read() -> Result<()> {
    let (folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    let object = storage_sdk::codec::encode(&json!({"hp": 7, "bag": ["sword"]}), 3)?;
    stack
        .player("ann")
        .update([("hero", object), ("raw", vec![0xff_u8, 0].into())])
        .await?;
    let plain = text(&program(&config, &["export"]).await?.stdout);
    assert!(
        plain.contains("{\"base64\":") && !plain.contains("sword"),
        "{plain}"
    );
    let out = folder.path().join("out");
    let path = out.to_str().unwrap_or_default();
    let export = program(&config, &["export", "--decode", "--output", path]).await?;
    ensure!(export.status.success(), "{}", text(&export.stderr));
    let fields = &lines(&out)?[0]["fields"];
    assert_eq!(
        fields["hero"],
        json!({"object": {"hp": 7, "bag": ["sword"]}, "schema_version": 3})
    );
    assert_eq!(fields["raw"], json!({"base64": "/wA="}));
    let import = program(&config, &["import", path]).await?;
    assert_eq!(import.status.code(), Some(1));
    assert!(
        text(&import.stderr).contains("field \"hero\"")
            && text(&import.stderr).contains("--decode"),
        "{}",
        text(&import.stderr)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_fails_leaves_the_file_as_it_was() -> Result<()> {
    let (folder, config, world) = config().await?;
    let stack = Stack::with(world).await?;
    for id in ["ann", "bob"] {
        stack.player(id).update([("v", "1")]).await?;
    }
    // With this, the list of owners does not look at their contents.
    let drain = program(&config, &["drain"]).await?;
    ensure!(
        drain.status.success(),
        "{}{}",
        text(&drain.stdout),
        text(&drain.stderr)
    );
    let files = folder.path().join("files");
    std::fs::create_dir(&files)?;
    let (file, link) = (files.join("lines"), folder.path().join("link"));
    std::fs::write(&file, "old")?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640))?;
    std::os::unix::fs::symlink(&file, &link)?;
    let export = async |config: &Path| {
        program(
            config,
            &["export", "--output", link.to_str().unwrap_or_default()],
        )
        .await
    };
    let alone = || -> Result<()> {
        assert_eq!(
            std::fs::read_dir(&files)?.count(),
            1,
            "and nothing is left beside it"
        );
        Ok(())
    };

    let away = folder.path().join("away.toml");
    std::fs::write(
        &away,
        "[redis]\nurl = \"redis://127.0.0.1:1/0\"\n[sql]\nurl = \"mysql://game@127.0.0.1:1/game\"\n",
    )?;
    assert_eq!(export(&away).await?.status.code(), Some(4));
    assert_eq!(
        std::fs::read_to_string(&file)?,
        "old",
        "the storage does not open"
    );

    // The import fails after its first line, because the key of the second owner holds no hash.
    let bob = stack.player("bob");
    let (prefix, partition) = (&stack.settings.redis.prefix, bob.owner().partition(8));
    let key = format!("{prefix}-data:{{{partition}}}:game:eu:player:bob");
    let redis = stack::redis().await?;
    redis.call(&["RENAME", &key, "kept"]).await?;
    redis.call(&["SET", &key, "no hash"]).await?;
    let failed = export(&config).await?;
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed.stderr));
    assert!(
        text(&failed.stderr).contains("bob") && text(&failed.stderr).contains("link"),
        "{}",
        text(&failed.stderr)
    );
    assert_eq!(std::fs::read_to_string(&file)?, "old", "half way");
    alone()?;

    redis.call(&["RENAME", "kept", &key]).await?;
    let fine = export(&config).await?;
    ensure!(fine.status.success(), "{}", text(&fine.stderr));
    assert_eq!(lines(&file)?.len(), 2, "behind the link");
    assert_eq!(
        std::fs::metadata(&file)?.permissions().mode() & 0o777,
        0o640
    );
    alone()
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_lines_are_named_by_number_and_the_others_go_on() -> Result<()> {
    let (folder, config, _world) = config().await?;
    let file = folder.path().join("lines");
    let good = r#"{"app":"a","region":"r","logic_type":"t","owner_id":"1","fields":{"x":"1"}}"#;
    let bad_name = good.replace("\"t\"", "\"\"");
    let text_lines = format!(
        "{good}\nnot json\n\n{bad_name}\n{}\r\n",
        good.replace("\"1\",", "\"2\",")
    );
    std::fs::write(
        &file,
        [text_lines.as_bytes(), b"{\"app\":\"\xff\"}\n"].concat(),
    )?;
    let import = program(&config, &["import", file.to_str().unwrap_or_default()]).await?;
    assert_eq!(import.status.code(), Some(1));
    let errors = text(&import.stderr);
    assert!(
        errors.contains("lines:2:")
            && errors.contains("lines:4:")
            && errors.contains("logic type is empty"),
        "{errors}"
    );
    assert!(errors.contains("lines:6: byte 9 is not UTF-8"), "{errors}");
    assert_eq!(
        text(&import.stdout),
        "2 lines written (2 fields), 0 waiting, 3 bad\n"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_ends_at_what_can_not_be_read_and_names_it() -> Result<()> {
    let (folder, config, _world) = config().await?;
    let path = folder.path().to_str().unwrap_or_default();
    let import = bounded(
        "an import of a folder ends",
        program(&config, &["import", path]),
    )
    .await?;
    assert_eq!(import.status.code(), Some(2));
    let nothing = "0 lines written (0 fields), 0 waiting, 0 bad\nno line is known to be written; go on with --from-line 1\n";
    assert_eq!(text(&import.stdout), nothing);
    assert!(
        text(&import.stderr).contains(&format!("error: {path}: Is a directory")),
        "{}",
        text(&import.stderr)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_divides_owners_by_the_limits_of_the_settings() -> Result<()> {
    let (folder, config, world) = config().await?;
    std::fs::write(
        &config,
        format!(
            "{}[limits]\nvalue_bytes_max = 900\nfields_max = 7\ncall_bytes_max = 1000\n",
            world.text
        ),
    )?;
    let owner = |id: &str, fields: usize, bytes: usize| {
        let fields: serde_json::Map<_, _> = (0..fields)
            .map(|at| (format!("f{at:02}"), json!("x".repeat(bytes))))
            .collect();
        json!({"app": "a", "region": "r", "logic_type": "t", "owner_id": id, "fields": fields})
    };
    let owners = [owner("large", 20, 800), owner("many", 50, 1)];
    let (file, out) = (folder.path().join("lines"), folder.path().join("out"));
    std::fs::write(
        &file,
        owners
            .iter()
            .map(|owner| format!("{owner}\n"))
            .collect::<String>(),
    )?;
    let import = program(&config, &["import", file.to_str().unwrap_or_default()]).await?;
    ensure!(import.status.success(), "{}", text(&import.stderr));
    assert_eq!(
        text(&import.stdout),
        "2 lines written (70 fields), 0 waiting, 0 bad\n"
    );
    let export = program(
        &config,
        &["export", "--output", out.to_str().unwrap_or_default()],
    )
    .await?;
    ensure!(export.status.success(), "{}", text(&export.stderr));
    assert_eq!(lines(&out)?, owners);

    std::fs::write(&file, format!("{}\n", owner("huge", 1, 901)))?;
    let import = program(&config, &["import", file.to_str().unwrap_or_default()]).await?;
    assert_eq!(import.status.code(), Some(1));
    assert!(
        text(&import.stderr).contains("limits.value_bytes_max is 900"),
        "{}",
        text(&import.stderr)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_in_the_embedded_mode_fails_if_the_database_refuses_something() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [config, file, database] =
        ["storage.toml", "lines", "game.db"].map(|name| folder.path().join(name));
    let url = format!("sqlite:{}", database.display());
    std::fs::write(
        &config,
        format!("[redis]\nurl = \"memory:\"\n[sql]\nurl = {url:?}\n"),
    )?;
    let migrate = program(&config, &["migrate"]).await?;
    ensure!(migrate.status.success(), "{}", text(&migrate.stderr));
    let mut connection = <sqlx::SqliteConnection as sqlx::Connection>::connect(&url).await?;
    let refuse = "CREATE TRIGGER poison BEFORE INSERT ON landing_rows WHEN NEW.owner_id = CAST('bad' AS BLOB) \
                  BEGIN SELECT RAISE(ABORT, 'poison'); END";
    sqlx::raw_sql(refuse).execute(&mut connection).await?;
    sqlx::Connection::close(connection).await?;

    let line = |id: &str| json!({"app": "a", "region": "r", "logic_type": "t", "owner_id": id, "fields": {"v": "1"}});
    std::fs::write(&file, format!("{}\n{}\n", line("good"), line("bad")))?;
    let import = program(&config, &["import", file.to_str().unwrap_or_default()]).await?;
    assert_eq!(
        text(&import.stdout),
        "2 lines written (2 fields), 0 waiting, 0 bad\n"
    );
    assert_eq!(
        import.status.code(),
        Some(1),
        "the process had the only copy of the rejected data"
    );
    assert!(
        text(&import.stderr).contains("1 owners have rejected rows"),
        "{}",
        text(&import.stderr)
    );
    Ok(())
}
