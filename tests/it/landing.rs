//! The way from a write to a row, and the faults on it.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join;
use storage_dirty::{Lock, Snapshot};
use storage_landing::drained;
use storage_sdk::{Evicted, Kind, Outcome};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_tests::{Proxy, Stack, World, rows, stack, until};
use tokio::time::Instant;

#[tokio::test(flavor = "multi_thread")]
async fn a_write_lands_and_a_cold_read_brings_it_back() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    let ack = ann.update([("gold", "10"), ("name", "Ann")]).await?;
    let worker = stack.worker();
    stack.landed().await?;

    let stored = rows(&stack.database).await?;
    let seen: Vec<_> = stored
        .iter()
        .map(|row| (row.name.as_str(), row.value.as_slice(), row.version))
        .collect();
    let version = ack.version().get();
    assert_eq!(
        seen,
        [
            ("player/ann/gold", &b"10"[..], version),
            ("player/ann/name", b"Ann", version)
        ]
    );

    assert_eq!(ann.evict().await?, Evicted::Gone);
    let cold = ann.get_all().await?;
    assert_eq!(
        (cold["gold"].as_deref(), cold["name"].as_deref()),
        (Some(&b"10"[..]), Some(&b"Ann"[..]))
    );
    assert_eq!(cold.version(), ack.version());
    worker.stop().await
}

/// What one mark names lands as a whole, however much it is. What several maps name is read again in
/// one step, which has a bound. Behind it the values land all the same, and the operator sees it.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_owner_lands_whole_from_one_mark_and_in_parts_that_are_counted_from_several()
-> Result<()> {
    for (half, value) in [(4_097, vec![b'1']), (5, vec![b'1'; 1 << 20])] {
        let stack = Stack::open().await?;
        let fill = async |id: &str, fields: Range<usize>| {
            let names: Vec<_> = fields.map(|n| format!("f{n:04}")).collect();
            // As much as one call takes.
            for names in names.chunks(if value.len() > 1 { 5 } else { 1_000 }) {
                stack
                    .player(id)
                    .update(names.iter().map(|name| (name, &value)))
                    .await?;
            }
            anyhow::Ok(())
        };
        fill("whole", 0..2 * half).await?;
        let worker = stack.worker();
        stack.landed().await?;
        assert_eq!(worker.counts().torn, 0);
        worker.stop().await?;
        assert_eq!(rows(&stack.database).await?.len(), 2 * half);

        fill("parts", 0..half).await?;
        let hot = stack.storage.tiers().hot();
        let partition = stack
            .player("parts")
            .owner()
            .partition(hot.partitions.partition_count());
        let lock = Lock {
            holder: "dead".into(),
            token: "t".into(),
        };
        let taken = hot
            .partitions
            .lock(&[partition], &lock, Duration::from_secs(30))
            .await;
        assert_eq!(taken, [Ok(true)]);
        let snapshot = hot.marks.snapshot(partition, &lock).await?;
        assert!(matches!(snapshot, Snapshot::Taken(_)));
        assert_eq!(hot.partitions.unlock(&[partition], &lock).await, [Ok(())]);
        fill("parts", half..2 * half).await?;
        let worker = stack.worker();
        stack.landed().await?;
        assert!(worker.counts().torn > 0);
        worker.stop().await?;
        let stored = rows(&stack.database).await?;
        assert_eq!(stored.len(), 4 * half);
        assert!(stored.iter().all(|row| row.value == value));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_die_again_and_again_lose_nothing() -> Result<()> {
    let stack = Stack::open().await?.with_short_locks();
    for round in 0..20 {
        for id in 0..50 {
            stack
                .player(&id.to_string())
                .update([("round", round.to_string()), ("id", id.to_string())])
                .await?;
        }
        let worker = stack.worker();
        until(
            "something has landed",
            async || Ok(worker.counts().rows > 0),
        )
        .await?;
        worker.kill();
    }
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    let stored = rows(&stack.database).await?;
    assert_eq!(stored.len(), 100);
    for row in stored.iter().filter(|row| row.name.ends_with("round")) {
        assert_eq!(row.value, b"19", "{}", row.name);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_the_partitions_and_one_takes_over_what_the_other_leaves() -> Result<()> {
    let stack = Stack::open().await?;
    let (one, other) = (stack.worker(), stack.worker());
    let holders = async || -> Result<Vec<String>> {
        Ok(stack
            .backlog()
            .await?
            .partitions
            .into_iter()
            .filter_map(|(_, peek)| peek.holder)
            .collect())
    };
    until("each holds half", async || {
        let mut held = holders().await?;
        held.sort();
        let first = held
            .iter()
            .filter(|holder| Some(*holder) == held.first())
            .count();
        Ok(held.len() == 8 && first == 4)
    })
    .await?;
    one.stop().await?;
    until("the other holds all", async || {
        let held = holders().await?;
        Ok(held.len() == 8 && held.iter().all(|holder| Some(holder) == held.first()))
    })
    .await?;
    other.stop().await?;
    assert!(holders().await?.is_empty(), "locks are given back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_row_is_rejected_and_hurts_nobody_else() -> Result<()> {
    let stack = Stack::open().await?;
    let worker = stack.worker();
    poison(stack.database.clone(), "player/bad").await?;
    for id in 0..200 {
        stack.player(&id.to_string()).update([("v", "1")]).await?;
    }
    stack.player("bad").update([("v", "1"), ("w", "1")]).await?;
    stack.landed().await?;
    let stored = rows(&stack.database).await?;
    assert_eq!(
        stored.len(),
        200,
        "all but the owner of the poison field, which waits as a whole"
    );
    assert_eq!(stack.storage.stats().await?.error_marks, 1);

    let error = stack
        .player("bad")
        .flush(Duration::from_secs(5))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("\"v\"") && error.to_string().contains("poison"),
        "{error}"
    );
    assert_eq!(
        stack.player("bad").get(["v"]).await?["v"].as_deref(),
        Some(&b"1"[..]),
        "the value stays"
    );
    assert_eq!(
        stack.player("bad").evict().await?,
        Evicted::WhenLanded,
        "and can't be evicted"
    );

    // A newer value that the database takes clears the error mark.
    stack.player("bad").update([("v", "healthy")]).await?;
    until("the error mark is gone", async || {
        Ok(stack.storage.stats().await?.error_marks == 0)
    })
    .await?;
    let stored = rows(&stack.database).await?;
    let has = |name: &str, value: &[u8]| {
        let mut rows = stored.iter();
        rows.any(|row| row.name == name && row.value == value)
    };
    assert!(has("player/bad/v", b"healthy") && has("player/bad/w", b"1"));
    worker.stop().await
}

/// A game's own trigger can reject a row with SIGNAL. Its error number is in no table.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_refused_by_a_number_that_nobody_knows_is_rejected_while_the_database_takes_others()
-> Result<()> {
    let stack = Stack::open().await?;
    let refuse = async |what: &str| refuse_rows(&stack.database, what).await;
    // All rows are rejected, so the fault is the database's.
    refuse("TRUE").await?;
    let worker = stack.worker();
    for id in 0..200 {
        stack.player(&id.to_string()).update([("v", "1")]).await?;
    }
    until("it was tried", async || Ok(worker.counts().failures > 3)).await?;
    let stats = stack.storage.stats().await?;
    assert_eq!((stats.marks, stats.error_marks), (200, 0));
    // One field.
    refuse("NEW.owner_id = 'bad' AND NEW.field = 'v'").await?;
    stack.player("bad").update([("v", "1"), ("w", "1")]).await?;
    stack.landed().await?;
    stack.player("late").update([("v", "1")]).await?;
    stack.landed().await?;
    assert_eq!(rows(&stack.database).await?.len(), 201);
    assert_eq!(stack.storage.stats().await?.error_marks, 1);
    let error = stack
        .player("bad")
        .flush(Duration::from_secs(5))
        .await
        .unwrap_err();
    assert!(
        error.kind() == Kind::Rejected && error.to_string().contains("not today"),
        "{error}"
    );
    worker.stop().await
}

/// A proxy that drops too large or forbidden packets causes this.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_on_which_the_connection_breaks_each_time_is_rejected_and_hurts_nobody_else()
-> Result<()> {
    let mariadb = stack::mariadb().await?;
    let World {
        database, settings, ..
    } = World::fresh().await?;
    let proxy = Proxy::start(mariadb.port()).await?;
    let through = database.replace(
        &format!(":{}/", mariadb.port()),
        &format!(":{}/", proxy.port()),
    );
    anyhow::ensure!(through != database, "the URL names no port");
    let stack = Stack::with(World::with_urls(
        &stack::redis().await?.url(),
        &through,
        &settings.redis.prefix,
    )?)
    .await?;
    proxy.lose_every_reply_to(1, b"forbidden");
    for id in 0..200 {
        stack.player(&id.to_string()).update([("v", "1")]).await?;
    }
    stack
        .player("bad")
        .update([("v", "forbidden"), ("w", "1")])
        .await?;
    let worker = stack.worker();
    stack.landed().await?;
    assert_eq!(rows(&database).await?.len(), 200);
    assert_eq!(stack.storage.stats().await?.error_marks, 1);
    let error = stack
        .player("bad")
        .flush(Duration::from_secs(5))
        .await
        .unwrap_err();
    assert!(
        error.kind() == Kind::Rejected && error.to_string().contains("cut 3 times"),
        "{error}"
    );

    // No row is blamed while the canary row does not get through either.
    proxy.lose_every_reply_to(1, b"canary");
    let failures = worker.counts().failures;
    stack.player("canary").update([("v", "1")]).await?;
    until("it was tried", async || {
        Ok(worker.counts().failures > failures + 3)
    })
    .await?;
    assert_eq!(stack.storage.stats().await?.error_marks, 1);
    proxy.lose_every_reply_to(0, b"");
    stack.player("bad").update([("v", "1")]).await?;
    stack.landed().await?;
    assert_eq!(
        (
            stack.storage.stats().await?.error_marks,
            rows(&database).await?.len()
        ),
        (0, 203)
    );
    worker.stop().await
}

/// A trigger that waits for an event that never comes causes this.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_takes_too_long_each_time_is_rejected_and_hurts_nobody_else() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.sql.statement_timeout = Duration::from_secs(1);
    let stack = Stack::with(world).await?;
    let slow = "CREATE TRIGGER slow BEFORE INSERT ON landing_rows FOR EACH ROW IF NEW.owner_id = 'bad' THEN DO SLEEP(60); END IF";
    sql(&stack.database, slow.to_owned()).await?;
    for id in ["ann", "bad", "bo"] {
        stack.player(id).update([("v", "1")]).await?;
    }
    let worker = stack.worker();
    stack.landed().await?;
    let names: Vec<_> = rows(&stack.database)
        .await?
        .into_iter()
        .map(|row| row.name)
        .collect();
    assert_eq!(names, ["player/ann/v", "player/bo/v"]);
    assert_eq!(stack.storage.stats().await?.error_marks, 1);
    worker.stop().await
}

/// Lets the database refuse all rows of which this holds, by an error number that is in no table.
pub(crate) async fn refuse_rows(url: &str, what: &str) -> Result<()> {
    let trigger = format!(
        "CREATE OR REPLACE TRIGGER no BEFORE INSERT ON landing_rows FOR EACH ROW \
         IF {what} THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 31999, MESSAGE_TEXT = 'not today'; END IF"
    );
    sql(url, trigger).await
}

pub(crate) async fn sql(url: &str, text: String) -> Result<()> {
    use sqlx::Connection as _;
    let mut connection = sqlx::mysql::MySqlConnection::connect(url).await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(text))
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

/// Makes the database reject the value "1" in field "v" of one owner.
pub(crate) async fn poison(url: String, owner: &str) -> Result<()> {
    let id = owner.rsplit('/').next().unwrap_or_default();
    let check = format!(
        "ALTER TABLE landing_rows ADD CONSTRAINT poison CHECK (owner_id <> '{id}' OR field <> 'v' OR value <> '1')"
    );
    sql(&url, check).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_that_the_database_refuses_whole_claims_nothing_landed() -> Result<()> {
    let stack = Stack::open().await?;
    poison(stack.database.clone(), "player/bad").await?;
    let bad = stack.player("bad");
    bad.update([("v", "1")]).await?;
    bad.flush(Duration::from_secs(5)).await.unwrap_err();
    let (tiers, partition) = (stack.storage.tiers(), bad.owner().partition(8));
    let hot = tiers
        .hot()
        .partitions
        .partition_states(&[partition])
        .await
        .remove(0)?
        .record
        .unwrap();
    let cold = tiers
        .cold()
        .partitions
        .partitions(&[partition])
        .await?
        .remove(0);
    assert_eq!((hot.epoch, hot.landed), (cold.epoch, cold.last_version));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_rows_are_tried_again_by_themselves() -> Result<()> {
    let mut world = World::fresh().await?;
    // The first wait is 100 ms.
    world.settings.landing.error_retry_max = Duration::from_secs(10);
    let stack = Stack::with(world).await?;
    let url = stack.database.clone();
    poison(url.clone(), "player/bad").await?;
    let worker = stack.worker();
    stack.player("bad").update([("v", "1")]).await?;
    until("it is rejected", async || {
        Ok(stack.storage.stats().await?.error_marks == 1)
    })
    .await?;
    until("it was tried again", async || {
        Ok(worker.counts().rejected >= 3)
    })
    .await?;
    let mut connection = <sqlx::mysql::MySqlConnection as sqlx::Connection>::connect(&url).await?;
    sqlx::raw_sql("ALTER TABLE landing_rows DROP CONSTRAINT poison")
        .execute(&mut connection)
        .await?;
    until("it has landed", async || {
        Ok(stack.storage.stats().await?.error_marks == 0)
    })
    .await?;
    assert_eq!(rows(&url).await?.len(), 1);
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_marked_value_that_vanished_is_reported_loudly_and_never_settled_silently() -> Result<()>
{
    let stack = Stack::open().await?;
    stack.player("ann").update([("gold", "10")]).await?;
    let prefix = stack.settings.redis.prefix.clone();
    let partition = stack.player("ann").owner().partition(8);
    let key = format!("{prefix}-data:{{{partition}}}:game:eu:player:ann");
    assert_eq!(
        stack::redis().await?.call(&["DEL", &key]).await?,
        storage_servers::Reply::Integer(1)
    );
    let worker = stack.worker();
    until("it is rejected", async || {
        Ok(stack.storage.stats().await?.error_marks == 1)
    })
    .await?;
    worker.stop().await?;
    let page = stack
        .storage
        .tiers()
        .hot()
        .marks
        .errors(partition, 0, 10)
        .await?;
    let entry = page.entries.first().expect("an error mark");
    assert!(entry.message.contains("vanished"), "{}", entry.message);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_away_nothing_is_given_up_and_all_lands_when_it_is_back() -> Result<()>
{
    let mariadb = MariaDbServer::start(MariaDbOptions::default()).await?;
    let stack = Stack::with(World::on(&stack::redis().await?.url(), &mariadb).await?).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "1")]).await?;
    let mut worker = None;
    // First the worker begins while the database is away. Then the database goes away after the
    // worker has compared the tiers. The worker goes on to land.
    for last in [99, 199] {
        mariadb.kill()?;
        let worker = worker.get_or_insert_with(|| stack.worker());
        let failures = worker.counts().failures;
        for gold in last - 97..=last {
            ann.update([("gold", gold.to_string())]).await?;
        }
        until("the worker has noticed", async || {
            Ok(worker.counts().failures > failures + 1)
        })
        .await?;
        let error = ann.flush(Duration::from_millis(300)).await.unwrap_err();
        assert!(error.outcome() == Outcome::NotApplied, "{error}");
        let stats = stack.storage.stats().await?;
        assert_eq!(stats.error_marks, 0);
        assert!(
            (1..=2).contains(&stats.marks),
            "one in the snapshot, one in the dirty map: {}",
            stats.marks
        );
        mariadb.restart().await?;
        stack.landed().await?;
        let stored = rows(&stack.database).await?;
        assert_eq!(
            stored
                .iter()
                .map(|row| row.value.clone())
                .collect::<Vec<_>>(),
            [last.to_string().into_bytes()]
        );
    }
    worker.context("a worker")?.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_a_snapshot_that_was_left_over() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "10")]).await?;
    let hot = stack.storage.tiers().hot();
    let partition = ann.owner().partition(hot.partitions.partition_count());
    let lock = Lock {
        holder: "dead".into(),
        token: "t".into(),
    };
    assert_eq!(
        hot.partitions
            .lock(&[partition], &lock, Duration::from_secs(30))
            .await,
        [Ok(true)]
    );
    assert!(matches!(
        hot.marks.snapshot(partition, &lock).await?,
        Snapshot::Taken(_)
    ));
    let left = drained(hot, Instant::now(), |_| {}).await?;
    assert_eq!(
        left.iter()
            .map(|(partition, _)| *partition)
            .collect::<Vec<_>>(),
        [partition]
    );
    Ok(())
}

/// The owner's mark stays, and each landing finds the newer write.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_written_all_the_time_lands_each_time() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    let worker = stack.worker();
    for round in 0..20 {
        let value = round.to_string();
        // The third write needs no script, so the mark stays.
        for _ in 0..3 {
            ann.update([("gold", value.clone())]).await?;
        }
        let is_there = async || {
            Ok(rows(&stack.database)
                .await?
                .pop()
                .is_some_and(|row| row.value == value.as_bytes()))
        };
        until("the row has the last value", is_there).await?;
    }
    stack.landed().await?;
    assert_eq!(ann.evict().await?, Evicted::Gone);
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn flush_answers_when_the_rows_are_there_and_leaves_the_marks_to_the_worker() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    let ack = ann.update([("gold", "10"), ("bag", "sword")]).await?;
    let flushed = ann.flush(Duration::from_secs(10)).await?;
    assert_eq!((flushed.version, flushed.rows), (ack.version(), 2));
    assert_eq!(rows(&stack.database).await?.len(), 2);
    assert_eq!(stack.storage.stats().await?.marks, 1);
    let worker = stack.worker();
    stack.landed().await?;
    assert_eq!(ann.flush(Duration::from_secs(10)).await?.rows, 0);
    worker.stop().await
}

/// No worker runs, so the row shows the write that the flush waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_claims_no_version_that_came_while_it_looked() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "0")]).await?;
    for round in 1..=20 {
        let worker = stack.worker();
        stack.landed().await?;
        worker.stop().await?;
        let write = async { anyhow::Ok(ann.update([("gold", round.to_string())]).await?) };
        let (flushed, _) = try_join(
            async { anyhow::Ok(ann.flush(Duration::from_secs(10)).await?) },
            write,
        )
        .await?;
        let row = rows(&stack.database).await?.pop().context("a row")?;
        assert!(
            row.version >= flushed.version.get(),
            "{} is not in the database, but {}",
            flushed.version,
            row.version
        );
    }
    Ok(())
}
