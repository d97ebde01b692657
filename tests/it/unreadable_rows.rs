//! Rows by other writers that no version of this program understands. They fail their own owner and
//! no other.

use anyhow::Result;
use storage_sdk::{ByteOwner, Kind, Outcome, Retry};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Stack, World, rows, stack, until};
use storage_tiers::{Conflict, Difference};

/// Inserts a row whose field is a control character. No field of ours is one.
async fn spoil(stack: &Stack) -> Result<()> {
    sql(
        stack,
        "INSERT INTO landing_rows (app_id, region_id, logic_type, owner_id, field, value, up_version, is_del) \
                VALUES ('game', 'eu', 'player', '7', X'07', '', 1, 0)",
    )
    .await
}

async fn mend(stack: &Stack) -> Result<()> {
    sql(stack, "DELETE FROM landing_rows WHERE field = X'07'").await
}

async fn sql(stack: &Stack, statement: &str) -> Result<()> {
    let database = stack.database.rsplit('/').next().unwrap_or_default();
    stack::mariadb()
        .await?
        .sql(&format!("USE {database}; {statement}"))
        .await
        .map(drop)
}

async fn set(players: &[ByteOwner], gold: &'static str) -> Result<()> {
    for player in players {
        player.update([("gold", gold)]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_with_a_row_that_cannot_be_read_fails_alone_when_it_is_loaded() -> Result<()> {
    let stack = Stack::open().await?;
    let players: Vec<_> = (0..40).map(|id| stack.player(&id.to_string())).collect();
    set(&players, "1").await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    for player in &players {
        player.evict().await?;
    }
    spoil(&stack).await?;
    let storage = stack.storage.world("game", "eu")?.bytes();
    for (id, read) in storage
        .get_many(&players, ["gold"])
        .await
        .into_iter()
        .enumerate()
    {
        match read {
            Ok(record) => assert!(id != 7 && record["gold"].as_deref() == Some(b"1"), "{id}"),
            Err(error) => {
                assert_eq!(
                    (id, error.kind(), error.retry()),
                    (7, Kind::Corrupt, Retry::Never),
                    "{error}"
                );
                assert!(
                    error.to_string().contains("player")
                        && error.to_string().contains("can't be read"),
                    "{error}"
                );
            }
        }
    }
    let owners: Vec<_> = players
        .iter()
        .map(|player| player.owner().clone())
        .collect();
    let compared = stack.storage.tiers().compare(&owners).await?;
    let conflict = Conflict {
        owner: owners[7].clone(),
        field: None,
        difference: Difference::ColdUnreadable,
    };
    assert_eq!((compared.owners, compared.conflicts), (39, vec![conflict]));
    let refused = players[7].incr("gold", 1).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.outcome()),
        (Kind::Corrupt, Outcome::NotApplied),
        "{refused}"
    );
    mend(&stack).await?;
    assert_eq!(players[7].incr("gold", 1).await?.value(), 2);
    Ok(())
}

/// A hash of a Redis that came back older is compared with its rows before it lands (R14).
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_read_holds_up_no_landing_of_other_partitions() -> Result<()> {
    let redis = RedisServer::start(RedisOptions {
        appendonly: false,
        ..RedisOptions::default()
    })
    .await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.landing.connections = 1; // so that all partitions meet in one batch
    let stack = Stack::with(world).await?;
    let players: Vec<_> = (0..40).map(|id| stack.player(&id.to_string())).collect();
    set(&players, "1").await?;
    let worker = stack.worker();
    stack.landed().await?;
    worker.stop().await?;
    set(&players[7..8], "5").await?;
    redis.call(&["SAVE"]).await?;
    let worker = stack.worker();
    set(&players, "2").await?;
    stack.landed().await?;
    worker.stop().await?;
    redis.kill()?;
    redis.restart().await?;
    spoil(&stack).await?;

    let partition = |player: &ByteOwner| player.owner().partition(stack.settings.redis.partitions);
    let bad = partition(&players[7]);
    let others: Vec<_> = players
        .iter()
        .filter(|player| partition(player) != bad)
        .cloned()
        .collect();
    // A write on a connection that broke unnoticed would end unknown. A read notices and is
    // repeated.
    assert!(others[0].exists().await?);
    assert_eq!(
        players[7].get(["gold"]).await.unwrap_err().kind(),
        Kind::Corrupt
    );
    set(&others, "3").await?;
    let worker = stack.worker();
    let landed = async || {
        Ok(rows(&stack.database)
            .await?
            .iter()
            .filter(|row| row.value == b"3")
            .count()
            == others.len())
    };
    until("all others have landed", landed).await?;
    let stats = stack.storage.stats().await?;
    assert!(
        stats.marks > 0 && stats.error_marks == 0,
        "it waits: {stats:?}"
    );
    mend(&stack).await?;
    stack.landed().await?;
    worker.stop().await?;
    assert!(
        rows(&stack.database)
            .await?
            .iter()
            .any(|row| row.name == "player/7/gold" && row.value == b"2")
    );
    Ok(())
}
