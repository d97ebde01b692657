//! Transactions over owners of one group, and their way to the database (G1).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use storage_sdk::{ByteOwner, Durability, Kind, Outcome, Safety, Storage};
use storage_servers::{RedisOptions, RedisServer};
use storage_tests::{Proxy, Stack, StoredRow, World, bounded, rows, stack, until};

use super::landing::{refuse_rows, sql};

const SOON: Duration = Duration::from_secs(10);

async fn gold(owner: &ByteOwner) -> Result<i64> {
    Ok(owner.get(["gold"]).await?.int("gold")?.unwrap_or_default())
}

/// A check and a payment that are two calls pay more than the purse holds (H92).
#[tokio::test(flavor = "multi_thread")]
async fn of_many_payments_of_all_that_a_purse_holds_exactly_one_succeeds() -> Result<()> {
    let stack = Stack::open().await?;
    let other = Storage::open(stack.settings.clone()).await?;
    stack.player("{g}/ann").update([("gold", "10")]).await?;
    let purses = |storage: &Storage, to: u32| -> Result<_> {
        let bytes = storage.world("game", "eu")?.bytes();
        let to = bytes.owner("player", format!("{{g}}/{to}"))?;
        Ok((bytes.owner("player", "{g}/ann")?, to))
    };
    let mut payments = Vec::new();
    for to in 0..100 {
        let storage = if to % 2 == 0 { &stack.storage } else { &other };
        let (ann, to) = purses(storage, to)?;
        payments.push(async move { ann.pay(&to, "gold", 10).await });
    }
    let results = join_all(payments).await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::OutOfBounds, Outcome::NotApplied),
            "{error}"
        );
        assert!(error.to_string().contains("{g}/ann") && error.to_string().contains("holds 0"));
    }
    let mut sum = gold(&stack.player("{g}/ann")).await?;
    for to in 0..100 {
        sum += gold(&stack.player(&format!("{{g}}/{to}"))).await?;
    }
    assert_eq!(sum, 10);
    Ok(())
}

/// A way of a trade to the database.
#[derive(Debug, Clone, Copy)]
enum Way {
    FlushOfOne,
    FlushOfOther,
    Landed,
    Pass,
    PassBehindAnother,
}

/// An item is never in two places or in none, wherever Redis dies (H91).
#[tokio::test(flavor = "multi_thread")]
async fn a_trade_is_in_the_database_as_a_whole_or_not_at_all_however_it_lands() -> Result<()> {
    let redis = RedisServer::start(RedisOptions::default()).await?;
    for way in [
        Way::FlushOfOne,
        Way::FlushOfOther,
        Way::Landed,
        Way::Pass,
        Way::PassBehindAnother,
    ] {
        let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
        // Each mark comes in a batch of its own.
        world.settings.landing.batch_rows = 1;
        let stack = Stack::with(world).await?;
        let [ann, bob, cay] = ["{g}/ann", "{g}/bob", "{g}/cay"].map(|id| stack.player(id));
        for owner in [&ann, &bob, &cay] {
            owner.update([("gold", "100"), ("age", "1")]).await?;
            owner.flush(SOON).await?;
        }
        ann.pay(&bob, "gold", 60).await?;
        bob.update([("age", "2")]).await?;
        match way {
            Way::FlushOfOne => drop(ann.flush(SOON).await?),
            Way::FlushOfOther => drop(bob.flush(SOON).await?),
            Way::Landed => {
                let landed = Durability::Landed { timeout: SOON };
                let receipt = bob.pay(&cay, "gold", 1).durability(landed).await?;
                assert_eq!(receipt.durability(), Safety::Landed);
            }
            Way::Pass => {
                let worker = stack.worker();
                // Another owner's mark can land first.
                until("a part of the trade has landed", async || {
                    let stored = rows(&stack.database).await?;
                    let ann = value(&stored, "player/{g}/ann/gold");
                    let bob = value(&stored, "player/{g}/bob/gold");
                    Ok(ann.as_deref() == Some("40") || bob.as_deref() == Some("160"))
                })
                .await?;
                worker.kill();
            }
            Way::PassBehindAnother => {
                let worker = stack.worker();
                stack.landed().await?;
                worker.stop().await?;
                ann.pay(&bob, "gold", 1).await?;
                bob.flush(SOON).await?;
            }
        }
        let stored = rows(&stack.database).await?;
        let of = |name: &str| {
            let mut rows = stored.iter();
            let row = rows.find(|row| row.name == format!("player/{{g}}/{name}/gold"));
            let value = row.map(|row| String::from_utf8_lossy(&row.value).into_owned());
            value.and_then(|value| value.parse::<i64>().ok())
        };
        let (ann, bob, cay) = (of("ann"), of("bob"), of("cay"));
        let expected = match way {
            Way::Landed => [40, 159, 101],
            Way::PassBehindAnother => [39, 161, 100],
            _ => [40, 160, 100],
        };
        assert_eq!([ann, bob, cay], expected.map(Some), "{way:?}");
        stack.storage.close(SOON).await;
        redis.call(&["FLUSHALL"]).await?;
    }
    Ok(())
}

/// How much the database has of a bank, and of the players who deposited it.
async fn deposited(database: &str) -> Result<[i64; 2]> {
    let stored = rows(database).await?;
    let number = |row: &StoredRow| String::from_utf8_lossy(&row.value).parse::<i64>();
    let sum = |field: &str| {
        let rows = stored.iter().filter(|row| row.name.ends_with(field));
        rows.map(number).sum::<Result<i64, _>>()
    };
    Ok([sum("/gold")?, sum("/deposits")?])
}

/// Many players deposit into one bank while a worker lands. At every moment the bank in the database
/// has what its players have deposited, although the links outgrow a mark and go on to grow.
#[tokio::test(flavor = "multi_thread")]
async fn a_bank_with_many_partners_is_in_the_database_as_a_whole_at_every_moment() -> Result<()> {
    const PLAYERS: usize = 200;
    let redis = RedisServer::start(RedisOptions::default()).await?;
    let mut world = World::on(&redis.url(), stack::mariadb().await?).await?;
    world.settings.landing.batch_rows = 2;
    let stack = Stack::with(world).await?;
    let bank = stack.player("{g}/bank");
    let worker = stack.worker();
    let landings = AtomicUsize::new(0);
    let deposit = async |id: usize| {
        let player = stack.player(&format!("{{g}}/{id}"));
        let deposit = bank.transaction(|part| part.add("gold", 1));
        let deposit = deposit.owner(&player, |part| part.add("deposits", 1));
        deposit.await.map(drop)
    };
    let deposits = async {
        while landings.load(Ordering::Relaxed) < 10 {
            for first in (0..PLAYERS).step_by(8) {
                for deposited in join_all((first..first + 8).map(deposit)).await {
                    deposited?;
                }
            }
        }
        anyhow::Ok(())
    };
    let looks = async {
        let mut before = 0;
        loop {
            let [of_bank, of_players] = deposited(&stack.database).await?;
            anyhow::ensure!(of_bank == of_players, "{of_bank} of {of_players}");
            landings.fetch_add(usize::from(of_bank > before), Ordering::Relaxed);
            before = of_bank;
        }
    };
    bounded("the worker to land deposits", async {
        tokio::select! {
            all = deposits => all,
            wrong = looks => wrong,
        }
    })
    .await?;
    stack.landed().await?;
    worker.stop().await?;
    let [of_bank, of_players] = deposited(&stack.database).await?;
    assert_eq!((of_bank, of_players), (gold(&bank).await?, of_bank));
    stack.storage.close(SOON).await;
    Ok(())
}

/// Each batch of their marks would land all of them once more otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn owners_that_landed_together_are_settled_together() -> Result<()> {
    const PLAYERS: u64 = 20;
    let mut world = World::fresh().await?;
    // Each mark comes in a batch of its own.
    world.settings.landing.batch_rows = 1;
    let stack = Stack::with(world).await?;
    let bank = stack.player("{g}/bank");
    for id in 0..PLAYERS {
        let player = stack.player(&format!("{{g}}/{id}"));
        let deposit = bank.transaction(|part| part.add("gold", 1));
        let deposit = deposit.owner(&player, |part| part.add("deposits", 1));
        deposit.await?;
    }
    let worker = stack.worker();
    stack.landed().await?;
    let rows = worker.counts().rows;
    // A page of marks can have several. Those of the same page are read before the first is settled.
    assert!(
        (PLAYERS + 1..=2 * PLAYERS + 1).contains(&rows),
        "{rows} rows"
    );
    worker.stop().await?;
    stack.storage.close(SOON).await;
    Ok(())
}

fn value(stored: &[StoredRow], name: &str) -> Option<String> {
    let row = stored.iter().find(|row| row.name == name)?;
    Some(String::from_utf8_lossy(&row.value).into_owned())
}

/// Then they land apart, so that the others are not kept out for ever.
#[tokio::test(flavor = "multi_thread")]
async fn owners_wait_for_a_partner_that_is_rejected_until_they_are_torn() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.landing.error_retry_max = Duration::from_millis(200);
    world.settings.landing.torn_after = Duration::from_secs(3_600);
    let settings = world.settings.clone();
    let stack = Stack::with(world).await?;
    let poison = "ALTER TABLE landing_rows ADD CONSTRAINT poison CHECK (owner_id <> '{g}/bad' OR field <> 'v' OR value <> '1')";
    sql(&stack.database, poison.to_owned()).await?;
    let (good, bad, alone) = (
        stack.player("{g}/good"),
        stack.player("{g}/bad"),
        stack.player("{g}/alone"),
    );
    let both = |value: &'static str| {
        good.transaction(|part| part.set("w", value))
            .owner(&bad, |part| part.set("v", "1").set("w", value))
    };
    both("first").await?;
    alone.update([("w", "first")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    let stored = rows(&stack.database).await?;
    let names: Vec<_> = stored.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["player/{g}/alone/w"]);
    let error = good.flush(SOON).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Rejected, "{error}");
    assert!(error.to_string().contains("poison"), "{error}");

    // A later transaction with another owner waits, too.
    good.pay(&alone, "gold", 1).await.unwrap_err();
    good.update([("gold", "5")]).await?;
    good.pay(&alone, "gold", 1).await?;
    stack.landed().await?;
    assert_eq!(rows(&stack.database).await?.len(), 1);

    // A repair lets all of them land together.
    sql(
        &stack.database,
        "ALTER TABLE landing_rows DROP CONSTRAINT poison".to_owned(),
    )
    .await?;
    until("the error marks are gone", async || {
        Ok(stack.storage.stats().await?.error_marks == 0)
    })
    .await?;
    let stored = rows(&stack.database).await?;
    for (name, wanted) in [
        ("good/w", "first"),
        ("good/gold", "4"),
        ("bad/v", "1"),
        ("alone/gold", "1"),
    ] {
        let name = format!("player/{{g}}/{name}");
        assert_eq!(value(&stored, &name).as_deref(), Some(wanted), "{name}");
    }
    worker.stop().await?;

    // A worker that tears at once leaves only the culprit behind.
    sql(
        &stack.database,
        "ALTER TABLE landing_rows ADD CONSTRAINT again CHECK (value <> '2')".to_owned(),
    )
    .await?;
    let mut tears = settings;
    tears.landing.torn_after = Duration::ZERO;
    let stack = Stack {
        storage: Storage::open(tears.clone()).await?,
        settings: tears,
        database: stack.database,
    };
    let (good, bad) = (stack.player("{g}/good"), stack.player("{g}/bad"));
    good.transaction(|part| part.set("w", "second"))
        .owner(&bad, |part| part.set("v", "2"))
        .await?;
    let worker = stack.worker();
    until("the partner has landed", async || {
        let stored = rows(&stack.database).await?;
        Ok(value(&stored, "player/{g}/good/w").as_deref() == Some("second"))
    })
    .await?;
    until("the torn owners are counted", async || {
        Ok(worker.counts().torn > 0)
    })
    .await?;
    assert_eq!(
        value(&rows(&stack.database).await?, "player/{g}/bad/v").as_deref(),
        Some("1")
    );
    worker.stop().await
}

/// R16: marks do not keep writes apart, so a rejected field keeps all others of its owner back.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_waits_as_a_whole_for_a_rejected_field_until_it_is_torn() -> Result<()> {
    let mut world = World::fresh().await?;
    world.settings.landing.error_retry_max = Duration::from_millis(200);
    let settings = world.settings.clone();
    let stack = Stack::with(world).await?;
    let poison =
        "ALTER TABLE landing_rows ADD CONSTRAINT poison CHECK (field <> 'name' OR value <> 'bad')";
    sql(&stack.database, poison.to_owned()).await?;
    let (ann, bob) = (stack.player("ann"), stack.player("bob"));
    ann.update([("gold", "1"), ("name", "bad")]).await?;
    bob.update([("gold", "2")]).await?;
    let worker = stack.worker();
    stack.landed().await?;
    ann.update([("level", "3")]).await?;
    stack.landed().await?;
    let names = async || {
        let stored = rows(&stack.database).await?;
        anyhow::Ok(stored.into_iter().map(|row| row.name).collect::<Vec<_>>())
    };
    assert_eq!(names().await?, ["player/bob/gold"]);
    let error = ann.flush(SOON).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Rejected, "{error}");
    assert!(error.to_string().contains("poison"), "{error}");
    let partition = ann.owner().partition(8);
    let errors = stack
        .storage
        .tiers()
        .hot()
        .marks
        .errors(partition, 0, 10)
        .await?;
    let mut reasons: Vec<_> = errors
        .entries
        .into_iter()
        .map(|error| {
            let (_, field) = error.target.unwrap();
            (
                field.to_string(),
                error.message.starts_with("waits for name of "),
            )
        })
        .collect();
    reasons.sort();
    let expected = [("gold", true), ("level", true), ("name", false)];
    assert_eq!(
        reasons,
        expected.map(|(field, waits)| (field.to_owned(), waits))
    );

    // A good value heals the owner at once, without a retry of the others.
    ann.update([("name", "Ann")]).await?;
    stack.landed().await?;
    let all = [
        "player/ann/gold",
        "player/ann/level",
        "player/ann/name",
        "player/bob/gold",
    ];
    assert_eq!(names().await?, all);
    assert_eq!(stack.storage.stats().await?.error_marks, 0);
    worker.stop().await?;

    // A worker that tears at once leaves only the culprit behind.
    let mut tears = settings;
    tears.landing.torn_after = Duration::ZERO;
    let stack = Stack {
        storage: Storage::open(tears.clone()).await?,
        settings: tears,
        database: stack.database,
    };
    let cay = stack.player("cay");
    cay.update([("gold", "4"), ("name", "bad")]).await?;
    let worker = stack.worker();
    until("the others have landed", async || {
        let stored = rows(&stack.database).await?;
        Ok(value(&stored, "player/cay/gold").is_some())
    })
    .await?;
    until("the torn owner is counted", async || {
        Ok(worker.counts().torn > 0)
    })
    .await?;
    assert_eq!(stack.storage.stats().await?.error_marks, 1);
    worker.stop().await
}

/// H38: no number proves that a row of them is at fault, until the database takes another row.
#[tokio::test(flavor = "multi_thread")]
async fn linked_owners_are_not_rejected_while_the_database_takes_no_row() -> Result<()> {
    let stack = Stack::open().await?;
    let refuse = async |what: &str| refuse_rows(&stack.database, what).await;
    refuse("TRUE").await?;
    let [ann, bob] = ["{g}/ann", "{g}/bob"].map(|id| stack.player(id));
    ann.update([("gold", "10")]).await?;
    ann.pay(&bob, "gold", 4).await?;
    let worker = stack.worker();
    until("it was tried", async || Ok(worker.counts().failures > 3)).await?;
    assert_eq!(stack.storage.stats().await?.error_marks, 0);
    refuse("NEW.owner_id = '{g}/bob'").await?;
    until("both are rejected", async || {
        Ok(stack.storage.stats().await?.error_marks == 2)
    })
    .await?;
    let error = ann.flush(SOON).await.unwrap_err();
    assert!(error.to_string().contains("{g}/bob"), "{error}");
    assert!(rows(&stack.database).await?.is_empty());
    worker.stop().await
}

/// R11, for several owners at once.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_applied_once_although_replies_are_lost() -> Result<()> {
    let redis = stack::redis().await?;
    let proxy = Proxy::start(redis.port()).await?;
    let direct = World::fresh().await?;
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let world = World::with_urls(&url, &direct.database, &direct.settings.redis.prefix)?;
    let stack = Stack::with(world).await?;
    let purses: Vec<_> = (0..4)
        .map(|id| stack.player(&format!("{{g}}/{id}")))
        .collect();
    for purse in &purses {
        purse.update([("gold", "1000")]).await?;
    }
    proxy.lose_every(5);
    // Answers to concurrent calls can come in one piece, which counts once.
    let mut round = 0;
    while proxy.lost() < 10 {
        round += 1;
        assert!(round < 1_000, "only {} replies were lost", proxy.lost());
        let payments = (0..4).map(|from| {
            let (from, to) = (&purses[from], &purses[(from + 1) % 4]);
            async move { from.pay(to, "gold", round % 100 + 1).await }
        });
        for paid in join_all(payments).await {
            paid?;
        }
    }
    proxy.lose_every(0);
    for purse in &purses {
        assert_eq!(gold(purse).await?, 1_000);
    }
    Ok(())
}

/// Nothing is written, and the message names the owner and the way out.
#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_transaction_says_why_and_changes_nothing() -> Result<()> {
    let stack = Stack::open().await?;
    let [ann, bob] = ["{g}/ann", "{g}/bob"].map(|id| stack.player(id));
    let world = stack.storage.world("game", "eu")?;
    let elsewhere = stack.storage.world("game", "us")?;
    let stranger = elsewhere.bytes().owner("player", "{g}/ann")?;
    let set = |part: storage_sdk::Part| part.set("gold", 1);
    let many = (0..17).fold(world.transaction(), |all, id| {
        all.owner(&stack.player(&format!("{{g}}/{id}")), set)
    });
    let cases = [
        (world.transaction(), "names no owner"),
        (many, "17 owners; the limit is 16"),
        (
            ann.transaction(set).owner(&ann, set),
            "names the owner twice",
        ),
        (
            ann.transaction(set).owner(&stack.player("{h}/x"), set),
            "the same tag in braces",
        ),
        (
            ann.transaction(set).owner(&stack.player("x"), set),
            "the same tag in braces",
        ),
        (
            ann.transaction(set).owner(&stranger, set),
            "the same tag in braces",
        ),
        (
            stack
                .player("x")
                .transaction(set)
                .owner(&stack.player("y"), set),
            "the same tag in braces",
        ),
        (ann.transaction(|part| part), "names no field"),
        (
            ann.transaction(|part| set(set(part))),
            "changes field \"gold\" twice",
        ),
        (
            ann.transaction(|part| part.add_within("gold", 1, 5..5)),
            "range for the sum",
        ),
        (
            ann.transaction(|part| part.set("a\n", 1)),
            "control character",
        ),
        (ann.pay(&bob, "gold", 0), "must be more than 0"),
        (ann.pay(&bob, "gold", -5), "must be more than 0"),
        (ann.pay(&ann, "gold", 5), "names the owner twice"),
        (
            ann.transaction(set).deadline(Duration::ZERO),
            "deadline is 0ns",
        ),
    ];
    for (transaction, words) in cases {
        let error = transaction.await.unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Invalid, Outcome::NotApplied),
            "{error}"
        );
        assert!(error.to_string().contains(words), "{error} lacks {words:?}");
    }
    assert_eq!(stack.backlog().await?.marks(), 0);

    ann.update([("gold", "1")]).await?;
    bob.update([("gold", "none")]).await?;
    let error = ann.pay(&bob, "gold", 1).await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotInteger);
    assert!(error.to_string().contains("{g}/bob"), "{error}");
    assert_eq!(gold(&ann).await?, 1);
    Ok(())
}

/// A cold owner is loaded, and a part can build on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_cold_owners_loads_them_and_answers_for_each() -> Result<()> {
    let stack = Stack::open().await?;
    let worker = stack.worker();
    let [ann, bob] = ["{g}/ann", "{g}/bob"].map(|id| stack.player(id));
    ann.update([("gold", "100"), ("rank", "chief")]).await?;
    let before = bob.update([("gold", "5")]).await?.version();
    stack.landed().await?;
    for owner in [&ann, &bob] {
        owner.evict().await?;
    }
    let receipt = stack
        .storage
        .world("game", "eu")?
        .transaction()
        .owner(&ann, |part| {
            part.add_within("gold", -100, 0..).if_equal("rank", "chief")
        })
        .owner(&bob, |part| {
            part.add("gold", 100).if_version(before).if_missing("rank")
        })
        .await?;
    let (of_ann, of_bob) = (receipt.of(&ann).unwrap(), receipt.of(&bob).unwrap());
    assert_eq!(
        (of_ann.get("gold"), of_bob.get("gold")),
        (Some(0), Some(105))
    );
    assert_eq!(of_ann.version(), of_bob.version());
    assert_eq!(
        (receipt.version(), receipt.changed()),
        (of_ann.version(), 2)
    );
    let stale = ann
        .transaction(|part| part.set("rank", "none"))
        .owner(&bob, |part| part.set("rank", "chief").if_version(before))
        .await
        .unwrap_err();
    assert!(
        stale.is_conflict() && stale.to_string().contains("{g}/bob"),
        "{stale}"
    );
    assert_eq!(
        ann.get(["rank"]).await?["rank"].as_deref(),
        Some(&b"chief"[..])
    );
    worker.stop().await
}
