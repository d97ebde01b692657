//! Rules that show only during landing, or in the way the database is written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use futures::future::try_join;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection as _, Row as _};
use storage_dirty::{Lock, Snapshot};
use storage_sdk::ByteOwner;
use storage_servers::Reply;
use storage_tests::{Stack, World, rows, stack, until};

use crate::landing::poison;

#[tokio::test(flavor = "multi_thread")]
async fn a_row_carries_the_owners_version_and_not_its_marks() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "10")]).await?;
    leave_over(&stack, &ann).await?;
    let last = ann.update([("bag", "sword")]).await?.version().get();
    land(&stack).await?;
    let versions: Vec<u64> = rows(&stack.database)
        .await?
        .iter()
        .map(|row| row.version)
        .collect();
    assert_eq!(
        versions,
        [last, last],
        "the first field was marked at an earlier version, but is read at this one"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_row_ever_holds_a_value_under_the_version_of_another_write() -> Result<()> {
    const LANDINGS: usize = 20;
    let mut world = World::fresh().await?;
    world.settings.landing.interval = Duration::from_millis(10);
    let stack = Stack::with(world).await?;
    let ann = stack.player("ann");
    let worker = stack.worker();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let write = async {
        let mut written = BTreeMap::new();
        while !*stopped.borrow() {
            let value = written.len().to_string();
            let version = ann.update([("gold", value.clone())]).await?.version().get();
            written.insert(value.into_bytes(), version);
        }
        anyhow::Ok(written)
    };
    let look = async {
        let mut seen = BTreeMap::new();
        let looked = until("rows have come and gone", async || {
            seen.extend(
                rows(&stack.database)
                    .await?
                    .into_iter()
                    .map(|row| (row.value, row.version)),
            );
            Ok(seen.len() >= LANDINGS)
        });
        let looked = looked.await;
        stop.send_replace(true);
        looked.map(|()| seen)
    };
    let (written, seen) = try_join(write, look).await?;
    for (value, version) in seen {
        assert_eq!(
            written.get(&value),
            Some(&version),
            "value {}",
            String::from_utf8_lossy(&value)
        );
    }
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_vanished_is_not_proved_by_a_row_as_new_as_its_mark() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.update([("bag", "empty")]).await?;
    ann.update([("gold", "10")]).await?;
    ann.flush(Duration::from_secs(5)).await?;
    ann.update([("gold", "20")]).await?;
    delete(&stack, &ann).await?;
    land(&stack).await?;
    assert_eq!(
        vanished(&stack, &ann).await?,
        ["bag", "gold"],
        "the mark does not show which write changed which of its fields"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_of_a_hash_that_was_deleted_are_reported_though_a_read_brought_the_fields_back()
-> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "10"), ("bag", "empty")]).await?;
    land(&stack).await?;
    ann.update([("gold", "20")]).await?;
    ann.update([("bag", "full")]).await?;
    delete(&stack, &ann).await?;
    assert_eq!(
        ann.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"10"[..]),
        "as it landed last"
    );
    land(&stack).await?;
    assert_eq!(
        vanished(&stack, &ann).await?,
        ["bag", "gold"],
        "neither value nor version is that of the write"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_of_a_hash_that_was_deleted_are_reported_though_a_write_made_it_anew() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "10")]).await?;
    land(&stack).await?;
    ann.update([("gold", "20")]).await?;
    delete(&stack, &ann).await?;
    ann.update([("bag", "full")]).await?;
    assert_eq!(
        ann.get(["gold"]).await?["gold"].as_deref(),
        Some(&b"10"[..]),
        "as it landed last, in a hash that is newer"
    );
    land(&stack).await?;
    assert_eq!(vanished(&stack, &ann).await?, ["gold"]);
    Ok(())
}

/// This happens when an operator restores a key from a copy.
#[tokio::test(flavor = "multi_thread")]
async fn marks_are_reported_whose_hash_was_replaced_by_an_older_one() -> Result<()> {
    let stack = Stack::open().await?;
    let ann = stack.player("ann");
    ann.update([("gold", "10")]).await?;
    land(&stack).await?;
    let (redis, hash, copy) = (
        stack::redis().await?,
        hash_key(&stack, &ann),
        format!("{}-copy", stack.settings.redis.prefix),
    );
    assert_eq!(
        redis.call(&["COPY", &hash, &copy]).await?,
        Reply::Integer(1)
    );
    ann.update([("gold", "20")]).await?;
    redis.call(&["RENAME", &copy, &hash]).await?;
    land(&stack).await?;
    assert_eq!(
        vanished(&stack, &ann).await?,
        ["gold"],
        "the hash is older than the mark"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_mark_has_the_version_of_the_write_that_was_refused() -> Result<()> {
    let stack = Stack::open().await?;
    poison(stack.database.clone(), "player/bad").await?;
    let bad = stack.player("bad");
    bad.update([("v", "1")]).await?;
    leave_over(&stack, &bad).await?;
    let refused = bad.update([("w", "1")]).await?.version();
    let worker = stack.worker();
    let (hot, partition) = (stack.storage.tiers().hot(), bad.owner().partition(8));
    until("both fields are rejected", async || {
        Ok(hot.marks.errors(partition, 0, 10).await?.entries.len() == 2)
    })
    .await?;
    worker.stop().await?;
    let errors = hot.marks.errors(partition, 0, 10).await?.entries;
    assert_eq!(
        errors.iter().map(|error| error.version).collect::<Vec<_>>(),
        [refused; 2],
        "not that of the write that made its mark"
    );
    Ok(())
}

/// Lets a worker land all marks.
async fn land(stack: &Stack) -> Result<()> {
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await
}

/// Leaves a snapshot of the owner's marks, like a worker that dies. A later write gets another
/// mark.
async fn leave_over(stack: &Stack, player: &ByteOwner) -> Result<()> {
    let (hot, partition) = (stack.storage.tiers().hot(), player.owner().partition(8));
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
    Ok(hot.partitions.unlock(&[partition], &lock).await.remove(0)?)
}

/// The fields of an owner that are reported as vanished.
async fn vanished(stack: &Stack, player: &ByteOwner) -> Result<Vec<String>> {
    let errors = stack
        .storage
        .tiers()
        .hot()
        .marks
        .errors(player.owner().partition(8), 0, 10)
        .await?
        .entries;
    assert!(
        errors
            .iter()
            .all(|error| error.message.starts_with("vanished")),
        "{errors:?}"
    );
    let mut fields: Vec<String> = errors
        .into_iter()
        .filter_map(|error| Some(error.target?.1.to_string()))
        .collect();
    fields.sort();
    Ok(fields)
}

/// Deletes an owner's hash by hand.
async fn delete(stack: &Stack, player: &ByteOwner) -> Result<()> {
    assert_eq!(
        stack::redis()
            .await?
            .call(&["DEL", &hash_key(stack, player)])
            .await?,
        Reply::Integer(1)
    );
    Ok(())
}

fn hash_key(stack: &Stack, player: &ByteOwner) -> String {
    let owner = player.owner();
    format!(
        "{}-data:{{{}}}:game:eu:player:{}",
        stack.settings.redis.prefix,
        owner.partition(8),
        owner.id()
    )
}

/// An owner has one mark, but one error mark for each rejected field.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_collected_whole_lands_in_one_transaction() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.landing.error_retry_max = Duration::from_millis(100);
    let stack = Stack::with(world).await?;
    note_transactions(&stack.database).await?;
    sql(
        &stack.database,
        "ALTER TABLE landing_rows ADD CONSTRAINT later CHECK (value <> 'later')",
    )
    .await?;
    // The worker collects both together, and its first batch has about 64 rows. If both had 50
    // rows, the first batch would end within the second owner.
    let (players, fields) = (neighbours(&stack), [40, 60]);
    for (player, fields) in players.iter().zip(fields) {
        player
            .update((0..fields).map(|field| (format!("f{field}"), "later")))
            .await?;
    }
    land(&stack).await?;
    assert_eq!(stack.storage.stats().await?.error_marks, 2);
    sql(
        &stack.database,
        "ALTER TABLE landing_rows DROP CONSTRAINT later",
    )
    .await?;
    let (hot, partition) = (stack.storage.tiers().hot(), players[0].owner().partition(8));
    let errors = hot.marks.errors(partition, 0, 10).await?.entries;
    assert_eq!(errors.len(), 100);
    let due = errors.iter().map(|error| error.next).max();
    until("all are due", async || {
        Ok(Some(hot.tier.time().await?) >= due)
    })
    .await?;
    let worker = stack.worker();
    until("all have landed", async || {
        Ok(stack.storage.stats().await?.error_marks == 0)
    })
    .await?;
    worker.stop().await?;
    let landed = transactions(&stack.database).await?;
    let counts: Vec<_> = landed
        .values()
        .map(|(rows, transactions)| (*rows, transactions.len()))
        .collect();
    assert_eq!(counts, fields.map(|fields| (fields, 1)), "{landed:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_lands_in_one_transaction_though_another_owner_is_refused() -> Result<()> {
    let stack = Stack::open().await?;
    note_transactions(&stack.database).await?;
    let [first, second] = neighbours(&stack);
    poison(stack.database.clone(), second.owner().id()).await?;
    for field in 0..6 {
        first.update([(format!("f{field}"), "1")]).await?;
    }
    second.update([("v", "1")]).await?;
    land(&stack).await?;
    assert_eq!(stack.storage.stats().await?.error_marks, 1);
    let landed = transactions(&stack.database).await?;
    let (rows, transactions) = &landed[first.owner().id()];
    assert_eq!(
        (*rows, transactions.len(), landed.len()),
        (6, 1, 1),
        "{landed:?}"
    );
    Ok(())
}

/// R16: the mark of the snapshot names `gold` alone, and its value belongs to a later write of both.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_behind_the_snapshot_lands_with_all_of_its_fields() -> Result<()> {
    let stack = Stack::open().await?;
    note_transactions(&stack.database).await?;
    let ann = stack.player("ann");
    ann.update([("gold", "105")]).await?;
    leave_over(&stack, &ann).await?;
    ann.update([("gold", "5"), ("bank", "100")]).await?;
    land(&stack).await?;
    let landed = transactions(&stack.database).await?;
    let (rows, transactions) = &landed["ann"];
    assert_eq!((*rows, transactions.len()), (2, 1), "{landed:?}");
    Ok(())
}

/// Two players of one partition, so that their marks come in one batch, in key order.
#[expect(
    clippy::expect_used,
    reason = "some id of infinitely many is in the partition"
)]
fn neighbours(stack: &Stack) -> [ByteOwner; 2] {
    let first = stack.player("100");
    let partition = first.owner().partition(8);
    let second = (101..)
        .map(|id| stack.player(&id.to_string()))
        .find(|player| player.owner().partition(8) == partition);
    [first, second.expect("another of the same partition")]
}

async fn sql(url: &str, statement: &'static str) -> Result<()> {
    let mut connection = MySqlConnection::connect(url).await?;
    sqlx::raw_sql(statement).execute(&mut connection).await?;
    Ok(connection.close().await?)
}

/// Makes the database note the transaction that inserts a row. Each transaction begins with its
/// fences, which give it a number.
async fn note_transactions(url: &str) -> Result<()> {
    let mut connection = MySqlConnection::connect(url).await?;
    for statement in [
        "CREATE TABLE noted (owner_id VARBINARY(255), trx BIGINT UNSIGNED)",
        "CREATE TRIGGER number_it AFTER UPDATE ON landing_partition FOR EACH ROW SET @trx = UUID_SHORT()",
        "CREATE TRIGGER note_it AFTER INSERT ON landing_rows FOR EACH ROW INSERT INTO noted VALUES (NEW.owner_id, @trx)",
    ] {
        sqlx::raw_sql(statement).execute(&mut connection).await?;
    }
    Ok(connection.close().await?)
}

/// The number of inserted rows of each owner, and the transactions that inserted them.
async fn transactions(url: &str) -> Result<BTreeMap<String, (usize, BTreeSet<u64>)>> {
    let mut connection = MySqlConnection::connect(url).await?;
    let noted = sqlx::query("SELECT owner_id, trx FROM noted")
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    let mut owners: BTreeMap<String, (usize, BTreeSet<u64>)> = BTreeMap::new();
    for row in noted {
        let (rows, transactions) = owners
            .entry(String::from_utf8(row.try_get(0)?)?)
            .or_default();
        *rows += 1;
        transactions.insert(row.try_get(1)?);
    }
    Ok(owners)
}
