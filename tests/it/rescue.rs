//! Rescue is always possible: data in danger can be landed, counted and exported. A command that
//! only reads writes nothing (H77, H78).

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::Result;
use storage_sdk::{Kind, Settings, Storage};
use storage_servers::{MariaDbOptions, MariaDbServer, RedisOptions, RedisServer, Reply};
use storage_tests::no_room::NoRoom;
use storage_tests::{Stack, World, rows, stack, until};
use tokio::process::Command;

/// Commands that only read.
const READING: [&str; 4] = ["status", "errors", "verify", "export"];

struct Config {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn config(text: &str) -> Result<Config> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("storage.toml");
    std::fs::write(&path, text)?;
    Ok(Config {
        _folder: folder,
        path,
    })
}

async fn program(config: &Path, command: &str) -> Result<Output> {
    Ok(Command::new(env!("CARGO_BIN_EXE_worker"))
        .arg(command)
        .arg("--config")
        .arg(config)
        .output()
        .await?)
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

async fn own_redis() -> Result<RedisServer> {
    RedisServer::start(RedisOptions::default()).await
}

/// All lasting keys of a Redis, with their values.
async fn everything(redis: &RedisServer) -> Result<Vec<(Vec<u8>, String)>> {
    let Reply::Array(keys) = redis.call(&["KEYS", "*"]).await? else {
        anyhow::bail!("no list of keys")
    };
    let mut held = Vec::new();
    for key in keys {
        let Reply::Bytes(key) = key else {
            anyhow::bail!("a key is no text")
        };
        // Keys that end by themselves within a minute: leases, grants, announcements.
        let Reply::Integer(millis) = redis.call(&[b"PTTL".as_slice(), &key]).await? else {
            anyhow::bail!("no time to live")
        };
        if (0..60_000).contains(&millis) {
            continue;
        }
        // The fields of a hash come in any order.
        let value = match redis.call(&[b"HGETALL".as_slice(), &key]).await {
            Ok(Reply::Array(parts)) => {
                let mut pairs: Vec<String> =
                    parts.chunks(2).map(|pair| format!("{pair:?}")).collect();
                pairs.sort_unstable();
                pairs.concat()
            }
            _ => format!("{:?}", redis.call(&[b"DUMP".as_slice(), &key]).await?),
        };
        held.push((key, value));
    }
    held.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(held)
}

async fn sql(database: &str, statement: &str) -> Result<Vec<String>> {
    let mut connection =
        <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(database).await?;
    Ok(
        sqlx::query_scalar(sqlx::AssertSqlSafe(statement.to_owned()))
            .fetch_all(&mut connection)
            .await?,
    )
}

/// Makes Redis reject writes, because it can't save.
async fn no_more_saves(redis: &RedisServer) -> Result<()> {
    redis.call(&["CONFIG", "SET", "save", "3600 1"]).await?;
    // A folder takes the place of the file, so Redis can't write the file.
    std::fs::create_dir(redis.folder().join("dump.rdb"))?;
    redis.call(&["BGSAVE"]).await?;
    until("Redis refuses writes", async || {
        Ok(redis.call(&["SET", "x", "1"]).await.is_err())
    })
    .await
}

const RECORDS: &str = "SELECT CONCAT_WS(' ', partition_id, epoch, last_version, landed_epoch) FROM landing_partition ORDER BY partition_id";

#[tokio::test(flavor = "multi_thread")]
async fn under_a_policy_that_may_evict_unlanded_data_it_is_counted_exported_and_landed()
-> Result<()> {
    let redis = own_redis().await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let config = config(&world.text)?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "1")]).await?;
    redis
        .call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
        .await?;
    for command in READING {
        let looked = program(&config.path, command).await?;
        assert_eq!(
            looked.status.code(),
            Some(0),
            "{command}: {}",
            said(&looked)
        );
        assert!(
            said(&looked).contains("allkeys-lru"),
            "{command} does not warn: {}",
            said(&looked)
        );
    }
    assert!(said(&program(&config.path, "export").await?).contains("\"gold\":\"1\""));
    until("the game server refuses writes", async || {
        let written = stack.player("bob").update([("gold", "2")]).await;
        Ok(written.is_err_and(|error| error.kind() == Kind::UnsafeEviction))
    })
    .await?;
    assert_eq!(
        stack.player("ann").get(["gold"]).await?["gold"].as_deref(),
        Some(&b"1"[..]),
        "reads go on"
    );
    let drained = program(&config.path, "drain").await?;
    assert_eq!(drained.status.code(), Some(0), "{}", said(&drained));
    assert!(
        rows(&stack.database)
            .await?
            .iter()
            .any(|row| row.name == "player/ann/gold"),
        "ann has landed"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_can_not_save_is_looked_at_exported_and_landed() -> Result<()> {
    let redis = own_redis().await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let config = config(&world.text)?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "1")]).await?;
    no_more_saves(&redis).await?;
    let error = stack
        .player("ann")
        .update([("gold", "2")])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("MISCONF"), "{error}");
    assert_eq!(
        stack.player("ann").get(["gold"]).await?["gold"].as_deref(),
        Some(&b"1"[..]),
        "reads go on"
    );
    for command in READING {
        let looked = program(&config.path, command).await?;
        assert_eq!(
            looked.status.code(),
            Some(0),
            "{command}: {}",
            said(&looked)
        );
    }
    assert!(said(&program(&config.path, "export").await?).contains("\"gold\":\"1\""));
    // Redis gives no lock either. The rows land all the same.
    let drained = program(&config.path, "drain").await?;
    assert_eq!(drained.status.code(), Some(0), "{}", said(&drained));
    assert!(
        said(&drained).contains("Redis takes no writes"),
        "{}",
        said(&drained)
    );
    assert_eq!(rows(&stack.database).await?.len(), 1);
    redis
        .call(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"])
        .await?;
    stack.player("ann").update([("gold", "2")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(rows(&stack.database).await?.len(), 1);
    Ok(())
}

/// A mark that can't land is counted and reported. It keeps nothing else from landing.
#[tokio::test(flavor = "multi_thread")]
async fn a_rescue_lands_all_that_can_land_and_says_what_can_not() -> Result<()> {
    let redis = own_redis().await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let config = config(&world.text)?;
    let stack = Stack::with(world).await?;
    crate::landing::poison(stack.database.clone(), "player/bad").await?;
    stack.player("bad").update([("v", "1"), ("w", "2")]).await?;
    let spoilt = stack.player("spoilt");
    spoilt.update([("gold", "1")]).await?;
    for id in 0..40 {
        stack
            .player(&id.to_string())
            .update([("gold", "1")])
            .await?;
    }
    let (prefix, partition) = (
        &stack.settings.redis.prefix,
        spoilt.owner().partition(stack.settings.redis.partitions),
    );
    let key = format!("{prefix}-data:{{{partition}}}:game:eu:player:spoilt");
    redis.call(&["SET", &key, "no hash"]).await?;
    no_more_saves(&redis).await?;
    let drained = program(&config.path, "drain").await?;
    assert_eq!(drained.status.code(), Some(1), "{}", said(&drained));
    assert!(
        said(&drained).contains("but for 3 marked fields that can't be landed"),
        "{}",
        said(&drained)
    );
    assert_eq!(
        rows(&stack.database).await?.len(),
        40,
        "the bad player waits as a whole"
    );
    Ok(())
}

/// A rescue also lands a hash from before Redis came back older. A newer row wins.
#[tokio::test(flavor = "multi_thread")]
async fn a_rescue_lands_what_an_older_redis_still_holds() -> Result<()> {
    let redis = own_redis().await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let config = config(&world.text)?;
    let stack = Stack::with(world).await?;
    let (ann, bob) = (stack.player("ann"), stack.player("bob"));
    ann.update([("gold", "1"), ("bag", "full")]).await?;
    bob.update([("gold", "1")]).await?;
    redis.call(&["SAVE"]).await?;
    ann.update([("gold", "2")]).await?;
    ann.flush(Duration::from_secs(5)).await?;
    redis.kill()?;
    redis.restart().await?;
    // A reader adopts the partitions. Owners are compared one by one.
    until("both partitions are adopted", async || {
        Ok(bob.get(["gold"]).await.is_ok() && ann.version().await.is_ok())
    })
    .await?;
    std::fs::remove_file(redis.folder().join("dump.rdb"))?;
    no_more_saves(&redis).await?;
    let drained = program(&config.path, "drain").await?;
    assert_eq!(drained.status.code(), Some(0), "{}", said(&drained));
    let stored = rows(&stack.database).await?;
    let value = |name: &str| {
        stored
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.value.clone())
    };
    assert_eq!(
        value("player/ann/gold").as_deref(),
        Some(&b"2"[..]),
        "a newer row wins"
    );
    assert_eq!(value("player/bob/gold").as_deref(), Some(&b"1"[..]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_only_look_write_nothing_into_either_tier() -> Result<()> {
    let redis = own_redis().await?;
    let world = World::on(&redis.url(), stack::mariadb().await?).await?;
    let config = config(&world.text)?;
    let database = world.database.clone();
    // No table and no key exists yet, and the command makes none.
    for command in ["status", "errors"] {
        let looked = program(&config.path, command).await?;
        assert_eq!(
            looked.status.code(),
            Some(0),
            "{command}: {}",
            said(&looked)
        );
    }
    for command in ["verify", "export"] {
        let looked = program(&config.path, command).await?;
        assert_eq!(
            looked.status.code(),
            Some(6),
            "{command}: {}",
            said(&looked)
        );
        assert!(
            said(&looked).contains("holds no tables of this storage"),
            "{command}: {}",
            said(&looked)
        );
    }
    assert_eq!(everything(&redis).await?, []);
    assert_eq!(sql(&database, "SHOW TABLES").await?, [""; 0]);

    let stack = Stack::with(world).await?;
    stack.player("landed").update([("gold", "1")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    stack.player("hot").update([("gold", "2")]).await?;
    stack.storage.close(Duration::from_secs(5)).await;
    let records = sql(&database, RECORDS).await?;
    // As it is, then as another server process with the same data that no program has taken over,
    // then wiped.
    for state in ["as it is", "restarted with its data", "wiped"] {
        match state {
            "restarted with its data" => {
                redis.call(&["SAVE"]).await?;
                redis.kill()?;
                redis.restart().await?;
            }
            "wiped" => {
                redis.call(&["FLUSHALL"]).await?;
                // No program has used this server process. It looks like one beside the process before.
                until("nobody uses the process before", async || {
                    let looked = program(&config.path, "status").await?;
                    Ok(looked.status.success())
                })
                .await?;
            }
            _ => {}
        }
        let before = everything(&redis).await?;
        for command in READING {
            let looked = program(&config.path, command).await?;
            assert_eq!(
                looked.status.code(),
                Some(0),
                "{state}, {command}: {}",
                said(&looked)
            );
            assert_eq!(
                everything(&redis).await?,
                before,
                "{state}: {command} wrote into Redis"
            );
            assert_eq!(
                sql(&database, RECORDS).await?,
                records,
                "{state}: {command} wrote into the database"
            );
        }
        let exported = said(&program(&config.path, "export").await?);
        assert!(
            exported.contains("\"owner_id\":\"landed\""),
            "{state}: {exported}"
        );
        assert_eq!(
            exported.contains("\"owner_id\":\"hot\""),
            state != "wiped",
            "{state}: {exported}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_only_look_need_no_right_to_write_and_work_on_a_read_only_server()
-> Result<()> {
    let server = MariaDbServer::start(MariaDbOptions::default()).await?;
    let redis = own_redis().await?;
    let world = World::on(&redis.url(), &server).await?;
    let (text, database) = (world.text.clone(), world.database.clone());
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "1")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    let name = database.rsplit('/').next().unwrap_or_default();
    server
        .sql(&format!(
            "CREATE USER looker@'%' IDENTIFIED BY 'l'; GRANT SELECT ON {name}.* TO looker@'%'"
        ))
        .await?;
    server.sql("SET GLOBAL read_only = 1").await?;
    let place = database.rsplit('@').next().unwrap_or_default();
    let text = text.replace(&database, &format!("mysql://looker:l@{place}"));
    let all = config(&text)?;
    // The line that `grants` prints for commands that only read, as an administrator pastes it.
    let grants = said(&program(&all.path, "grants").await?);
    let line = grants
        .lines()
        .find(|line| line.contains("_reader reset"))
        .unwrap_or_default()
        .replace("PASSWORD", "r3ader");
    let words: Vec<&str> = line.split(' ').collect();
    redis.call(&words).await?;
    let login = format!("redis://{}:r3ader@", words.get(2).unwrap_or(&""));
    let config = config(&text.replace("redis://", &login))?;
    for command in READING {
        let looked = program(&config.path, command).await?;
        assert_eq!(
            looked.status.code(),
            Some(0),
            "{command}: {}",
            said(&looked)
        );
    }
    assert!(said(&program(&config.path, "export").await?).contains("\"owner_id\":\"ann\""));
    let storage = Storage::builder(Settings::load(&config.path)?)
        .read_only()
        .open()
        .await?;
    let ann = storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "ann")?;
    assert_eq!(ann.get(["gold"]).await?["gold"].as_deref(), Some(&b"1"[..]));
    let refused = ann.update([("gold", "2")]).await.unwrap_err();
    assert!(
        refused.kind() == Kind::Invalid && refused.to_string().contains("for reading only"),
        "{refused}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_name_tiers_that_do_not_belong_together_and_adopt_pairs_them() -> Result<()> {
    let world = World::fresh().await?;
    let stack = Stack::with(world.clone()).await?;
    stack.player("ann").update([("gold", "1")]).await?;
    let other = World::fresh().await?;
    let wrong = config(&world.text.replace(&world.database, &other.database))?;
    for command in [
        "status", "errors", "verify", "export", "run", "drain", "import",
    ] {
        let mut started = Command::new(env!("CARGO_BIN_EXE_worker"));
        started.arg(command).arg("--config").arg(&wrong.path);
        if command == "import" {
            started.arg(&wrong.path);
        }
        let refused = started.output().await?;
        assert_eq!(
            refused.status.code(),
            Some(6),
            "{command}: {}",
            said(&refused)
        );
        assert!(
            said(&refused).contains("belongs to database") && said(&refused).contains("adopt"),
            "{}",
            said(&refused)
        );
    }
    assert_eq!(sql(&other.database, "SHOW TABLES").await?, [""; 0]);
    let dry = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["adopt", "--dry-run", "--config"])
        .arg(&wrong.path)
        .output()
        .await?;
    assert_eq!(dry.status.code(), Some(1), "{}", said(&dry));
    assert!(
        said(&dry).contains("1 unlanded marks") && said(&dry).contains("nothing was changed"),
        "{}",
        said(&dry)
    );
    assert_eq!(sql(&other.database, "SHOW TABLES").await?, [""; 0]);

    let adopted = program(&wrong.path, "adopt").await?;
    assert_eq!(adopted.status.code(), Some(0), "{}", said(&adopted));
    let drained = program(&wrong.path, "drain").await?;
    assert_eq!(drained.status.code(), Some(0), "{}", said(&drained));
    assert_eq!(
        (
            rows(&other.database).await?.len(),
            rows(&stack.database).await?.len()
        ),
        (1, 0)
    );
    // A program with a blank Redis would take over, once nobody uses the other one. A command that
    // only reads does not.
    let blank = own_redis().await?;
    let text =
        std::fs::read_to_string(&wrong.path)?.replace(&stack::redis().await?.url(), &blank.url());
    let blank_config = config(&text)?;
    let dry = Command::new(env!("CARGO_BIN_EXE_worker"))
        .args(["adopt", "--dry-run", "--config"])
        .arg(&blank_config.path)
        .output()
        .await?;
    assert_eq!(dry.status.code(), Some(1), "{}", said(&dry));
    let is_told = |word: &str| said(&dry).contains(word);
    assert!(
        is_told("is blank, and the database belongs to") || is_told("would take over"),
        "{}",
        said(&dry)
    );
    let again = program(&wrong.path, "adopt").await?;
    assert!(
        again.status.success() && said(&again).contains("there is nothing to adopt"),
        "{}",
        said(&again)
    );
    Ok(())
}

/// An embedded storage. The test can fill its disk.
async fn embedded(path: &Path) -> Result<(std::sync::Arc<NoRoom>, Settings)> {
    let settings = Settings::embedded(path);
    let cold = storage_sql::Opening::new(&settings.sql)
        .for_pairing()
        .open()
        .await?;
    Ok((NoRoom::new(cold), settings))
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_the_embedded_storage_opens_reads_and_refuses_writes_until_there_is_room()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("game.db");
    let storage = Storage::embedded(&path).await?;
    storage
        .world("game", "eu")?
        .bytes()
        .owner("player", "ann")?
        .update([("gold", "1")])
        .await?;
    assert_eq!(
        storage.close(Duration::from_secs(20)).await.unlanded,
        Some(0)
    );

    let (cold, settings) = embedded(&path).await?;
    cold.fill(true);
    let storage = Storage::builder(settings).cold(cold.cold()).open().await?;
    let bytes = storage.world("game", "eu")?.bytes();
    let ann = bytes.owner("player", "ann")?;
    assert_eq!(
        ann.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"1"[..]),
        "one field"
    );
    assert_eq!(ann.get_all().await?.iter().count(), 1, "the whole owner");
    assert!(bytes.owner("player", "nobody")?.get_all().await?.is_empty());
    let refused = ann.update([("gold", "2")]).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Denied);
    assert!(refused.to_string().contains("disk is full"), "{refused}");
    cold.fill(false);
    until("writes go on", async || {
        Ok(ann.update([("gold", "3")]).await.is_ok())
    })
    .await?;

    // The disk fills up while the storage runs. The storage soon stops acknowledging writes that
    // can't land.
    cold.fill(true);
    until("writes are refused", async || {
        Ok(ann
            .incr("kills", 1)
            .await
            .is_err_and(|error| error.kind() == Kind::Denied))
    })
    .await?;
    assert_eq!(
        ann.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"3"[..]),
        "reads go on"
    );
    cold.fill(false);
    until("writes go on again", async || {
        Ok(ann.update([("gold", "4")]).await.is_ok())
    })
    .await?;
    assert_eq!(
        storage.close(Duration::from_secs(20)).await.unlanded,
        Some(0)
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_on_one_file_takes_over_and_the_first_one_stops_acknowledging()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("game.db");
    let first = Storage::embedded(&path).await?;
    let takes = Storage::builder(Settings::embedded(&path)).take_over();
    let second = takes.open().await?;
    let player = |storage: &Storage| storage.world("game", "eu")?.bytes().owner("player", "ann");
    until("the first one refuses writes", async || {
        Ok(player(&first)?
            .update([("gold", "1")])
            .await
            .is_err_and(|error| error.kind() == Kind::Unpaired))
    })
    .await?;
    player(&second)?.update([("gold", "2")]).await?;
    assert_eq!(
        second.close(Duration::from_secs(20)).await.unlanded,
        Some(0)
    );
    Ok(())
}
