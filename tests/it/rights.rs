//! The rights that the users of both tiers need, and the errors without them.

use std::time::Duration;

use anyhow::Result;
use storage_model::Partition;
use storage_sdk::{Error, Kind, Outcome, Retry, Storage};
use storage_servers::{RedisOptions, RedisServer, Reply};
use storage_tests::{Stack, World, rows, stack, until};

/// A fresh world whose database user has only these rights to it.
async fn world_with(name: &str, rights: &str) -> Result<World> {
    let mariadb = stack::mariadb().await?;
    let database = mariadb.fresh_database(name).await?;
    mariadb.sql(&format!("CREATE USER '{name}'@'%' IDENTIFIED BY 'few'; GRANT {rights} ON `{name}`.* TO '{name}'@'%';")).await?;
    let (_, server) = database.split_once('@').unwrap_or_default();
    World::with_urls(
        &stack::redis().await?.url(),
        &format!("mysql://{name}:few@{server}"),
        name,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_create_select_insert_and_update_is_all_that_is_needed() -> Result<()> {
    let stack =
        Stack::with(world_with("fewrights", "CREATE, SELECT, INSERT, UPDATE").await?).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1"), ("name", "Ann")]).await?;
    ann.remove(["name"]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    assert_eq!(rows(&stack.database).await?.len(), 2);
    // The next start creates nothing.
    stack::mariadb()
        .await?
        .sql("REVOKE CREATE ON `fewrights`.* FROM 'fewrights'@'%'")
        .await?;
    let again = Storage::open(stack.settings.clone()).await?;
    let cold = again.world("game", "eu")?.bytes().owner("player", "bob")?;
    cold.update([("gold", "2")]).await?;
    stack.landed().await?;
    worker.stop().await?;
    assert_eq!(rows(&stack.database).await?.len(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_right_that_is_missing_is_named_as_something_for_an_operator() -> Result<()> {
    const NEEDED: [&str; 4] = ["CREATE", "SELECT", "INSERT", "UPDATE"];
    for missing in NEEDED {
        let others: Vec<&str> = NEEDED
            .into_iter()
            .filter(|right| *right != missing)
            .collect();
        let world = world_with(
            &format!("no_{}", missing.to_lowercase()),
            &others.join(", "),
        )
        .await?;
        let use_it = async {
            let storage = Storage::open(world.settings.clone()).await?;
            let ann = storage
                .world("game", "eu")?
                .bytes()
                .owner("player", "ann")?;
            ann.update([("gold", "1")]).await?;
            ann.flush(Duration::from_secs(10)).await
        };
        let error = use_it.await.unwrap_err();
        assert_eq!(error.kind(), Kind::Denied, "{missing}: {error}");
        assert!(
            error.to_string().contains(missing) && !error.to_string().contains(":few"),
            "{missing}: {error}"
        );
    }
    Ok(())
}

/// What waits can't land before an operator acts, so a command with a deadline does not wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_without_the_right_to_insert_ends_at_once_and_says_so() -> Result<()> {
    let world = world_with("noinsert", "CREATE, SELECT, INSERT, UPDATE").await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("storage.toml");
    std::fs::write(&config, &world.text)?;
    let stack = Stack::with(world).await?;
    stack.player("ann").update([("gold", "1")]).await?;
    stack::mariadb()
        .await?
        .sql("REVOKE INSERT ON `noinsert`.* FROM 'noinsert'@'%'")
        .await?;
    let drain = async {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_worker"));
        Ok(command
            .args(["drain", "--config"])
            .arg(&config)
            .output()
            .await?)
    };
    let ended = stack::bounded("it does not wait for its deadline of 5 minutes", drain).await?;
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(3), "{said}");
    assert!(
        said.contains("until an operator mends this") && said.contains("INSERT"),
        "{said}"
    );
    assert_eq!(stack.backlog().await?.marks(), 1, "nothing is given up");
    Ok(())
}

/// Each command that a script calls.
const OF_SCRIPTS: &str = "TIME INFO DEL EXISTS GET HDEL HGET HGETALL HLEN HMGET HSET PERSIST PEXPIRE RENAME SET \
                          UNLINK ZADD ZRANGE ZRANGEBYSCORE ZREMRANGEBYSCORE";

/// The commands that a write may need.
const OF_WRITES: &str = "TIME INFO EXISTS GET HDEL HGET HLEN HMGET HSET PERSIST SET UNLINK";

/// A Redis of its own with a user "game", and a world whose programs log in as that user.
async fn world_of_user() -> Result<(RedisServer, World)> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    may(&redis, "+@all").await?;
    let url = format!("redis://game:few@127.0.0.1:{}", redis.port());
    let mut world = World::on(&url, stack::mariadb().await?).await?;
    world.settings.hot.policy_check_interval = Duration::from_secs(1);
    Ok((redis, world))
}

async fn may(redis: &RedisServer, rights: &str) -> Result<()> {
    let words = format!("ACL SETUSER game reset on >few ~* {rights}");
    redis
        .call(&words.split(' ').collect::<Vec<_>>())
        .await
        .map(drop)
}

fn names(error: &Error, command: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), Kind::Denied, "{command}: {text}");
    assert!(
        text.to_uppercase().contains(command) && text.contains("landing-worker grants"),
        "{command}: {text}"
    );
    let is_hash =
        |word: &str| word.len() >= 40 && word.chars().all(|letter| letter.is_ascii_hexdigit());
    assert!(
        !text
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .any(is_hash),
        "a script's hash: {text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_redis_user_may_not_run_is_named_at_the_start_and_nothing_is_written()
-> Result<()> {
    let (redis, world) = world_of_user().await?;
    for command in OF_SCRIPTS.split(' ') {
        may(&redis, &format!("+@all -{command}")).await?;
        let error = Storage::open(world.settings.clone()).await.unwrap_err();
        names(&error, command);
        assert!(matches!(error.retry(), Retry::After(_)), "{error}");
    }
    may(&redis, "+@all -hset -rename").await?;
    let error = Storage::open(world.settings.clone())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("HSET, RENAME"), "{error}");
    redis
        .call(
            &"ACL SETUSER game reset on >few ~other* +@all"
                .split(' ')
                .collect::<Vec<_>>(),
        )
        .await?;
    let error = Storage::open(world.settings.clone()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    assert!(error.to_string().contains("key"), "{error}");
    assert_eq!(redis.call(&["DBSIZE"]).await?, Reply::Integer(0));
    may(&redis, "+@all").await?;
    Storage::open(world.settings).await?;
    Ok(())
}

/// A right is taken away while a game server writes. Each write ends as denied with a true outcome.
/// With the right back, each requested write is applied once.
#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_later_stops_writes_loses_none_and_doubles_none() -> Result<()> {
    let (redis, world) = world_of_user().await?;
    let stack = Stack::with(world).await?;
    let (ann, worker) = (stack.player("ann"), stack.worker());
    let mut sum = 0;
    for command in OF_WRITES.split(' ') {
        // Clean, so that the next write takes the time to live from the hash.
        stack.landed().await?;
        may(&redis, &format!("+@all -{command}")).await?;
        let mut denied = Vec::new();
        for _ in 0..3 {
            let id = stack.storage.next_id();
            match ann.incr("gold", 1).id(id).await {
                Ok(_) => sum += 1,
                Err(error) => {
                    names(&error, command);
                    denied.push((id, error.outcome()));
                }
            }
        }
        if ["TIME", "INFO", "HMGET", "HSET"].contains(&command) {
            assert_eq!(denied.len(), 3, "{command}");
        }
        // Redis has looked for none of the ids, and each could be that of an earlier call.
        assert!(
            denied
                .iter()
                .all(|(_, outcome)| *outcome == Outcome::Unknown),
            "{command}: {denied:?}"
        );
        // The check of the server looks once more and finds the lack by itself.
        until("it is found", async || {
            Ok(stack.player("bo").update([("gold", "1")]).await.is_err())
        })
        .await?;
        may(&redis, "+@all").await?;
        until("writes are accepted", async || {
            Ok(stack.player("bo").update([("gold", "1")]).await.is_ok())
        })
        .await?;
        for (id, _) in denied {
            ann.incr("gold", 1).id(id).await?;
            sum += 1;
        }
        assert_eq!(
            ann.get(["gold"]).await?.int("gold")?.unwrap_or_default(),
            sum,
            "{command}"
        );
        stack.landed().await?;
        let landed = rows(&stack.database).await?;
        let gold = landed
            .iter()
            .find(|row| row.name == "player/ann/gold")
            .map(|row| row.value.clone())
            .unwrap_or_else(|| b"0".to_vec());
        assert_eq!(String::from_utf8(gold)?, sum.to_string(), "{command}");
    }
    worker.stop().await?;
    let hot = stack.storage.tiers().hot();
    for partition in (0..hot.partitions.partition_count()).map(Partition) {
        assert_eq!(
            hot.marks.errors(partition, 0, 10).await?.entries,
            [],
            "no mark is left that nothing belongs to"
        );
    }
    Ok(())
}
