//! A layer by the door alone: a table, a read, a hook, and a builder for what landed before the hook.

use std::time::Duration;

use anyhow::{Context as _, Result};
use storage_sdk::feed::{Content, Cursor, Event, Partition, Position};
use storage_sdk::layer::claims::{ClaimStore, ClaimToken, DataCentre, Holder, Ranges, ServiceName};
use storage_sdk::layer::{ColdTier, Follower, Row, RowRange, toy};
use storage_sdk::{ByteOwner, Durability, Field, Kind, RandomIds, Settings, Storage, World};
use storage_tests::{Stack, bounded};

use crate::landing;

const LONG: Duration = Duration::from_secs(30);
/// The rows of one step of the builder.
const STEP: usize = 2;

/// The toy layer of a world.
struct Toy {
    world: World,
    cold: ColdTier,
}

impl Toy {
    fn of(storage: &Storage) -> Result<Self> {
        Ok(Self {
            world: storage.world("game", "eu")?,
            cold: ColdTier::of(storage),
        })
    }

    fn part(&self) -> Result<&dyn toy::ToyStore> {
        let part = self.cold.layers().toy();
        part.context("the database has no toy layer")
    }

    /// Begins the hook, and then enters what landed before it.
    async fn begin(&self) -> Result<()> {
        self.part()?.create().await?;
        self.cold.define(toy::HOOK, true).await?;
        for rows in self.steps().await? {
            self.part()?.build(&rows).await?;
        }
        Ok(())
    }

    /// What the builder reads now, step by step.
    async fn steps(&self) -> Result<Vec<Vec<Row>>> {
        let mut steps = Vec::new();
        let fields = vec![Field::new(toy::FIELD)?];
        let scope = self.world.scope().clone();
        let mut range = RowRange::new(scope, toy::LOGIC_TYPE, fields).limit(STEP);
        loop {
            let rows = self.cold.rows(&range).await?;
            let last = rows.get(STEP - 1).map(|row| row.owner.id().to_owned());
            steps.push(rows);
            let Some(last) = last else {
                return Ok(steps);
            };
            // The least text behind the id.
            range.from = format!("{last}\0");
        }
    }

    async fn score(&self, id: &str, score: u64) -> Result<()> {
        let owner = self.world.bytes().owner(toy::LOGIC_TYPE, id)?;
        let landed = Durability::Landed { timeout: LONG };
        let write = owner.update([(toy::FIELD, score.to_string())]);
        write.durability(landed).await?;
        Ok(())
    }

    async fn best(&self) -> Result<Vec<(String, u64)>> {
        Ok(self.part()?.best(3).await?)
    }
}

async fn plays(storage: &Storage) -> Result<()> {
    let toy = Toy::of(storage)?;
    for (id, score) in [("ann", 3), ("bo", 9), ("cy", 5), ("di", 1), ("ed", 2)] {
        toy.score(id, score).await?;
    }
    toy.begin().await?;
    let best = |of: [(&str, u64); 3]| of.map(|(id, score)| (id.to_owned(), score)).to_vec();
    assert_eq!(toy.best().await?, best([("bo", 9), ("cy", 5), ("ann", 3)]));
    // From now on, each landing enters them.
    let late = toy.steps().await?;
    toy.score("bo", 4).await?;
    toy.score("flo", 7).await?;
    let expected = best([("flo", 7), ("cy", 5), ("bo", 4)]);
    assert_eq!(toy.best().await?, expected);
    // A builder that is late changes nothing.
    for rows in late {
        toy.part()?.build(&rows).await?;
    }
    assert_eq!(toy.best().await?, expected);
    // A score that is removed counts nothing.
    let flo = toy.world.bytes().owner(toy::LOGIC_TYPE, "flo")?;
    let landed = Durability::Landed { timeout: LONG };
    flo.remove([toy::FIELD]).durability(landed).await?;
    assert_eq!(toy.best().await?, best([("cy", 5), ("bo", 4), ("ann", 3)]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_with_a_table_a_read_a_hook_and_a_builder_stands_on_servers() -> Result<()> {
    let stack = Stack::open().await?;
    let worker = stack.worker();
    plays(&stack.storage).await?;
    worker.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_with_a_table_a_read_a_hook_and_a_builder_stands_in_the_embedded_mode() -> Result<()>
{
    let folder = tempfile::tempdir()?;
    let storage = Storage::embedded(folder.path().join("game.db")).await?;
    plays(&storage).await?;
    let report = storage.close(LONG).await;
    assert_eq!(report.unlanded, Some(0));
    let toy = Toy::of(&Storage::embedded(folder.path().join("game.db")).await?)?;
    assert_eq!(toy.best().await?.len(), 3, "the table stays");
    Ok(())
}

/// A service that only reads has the database alone, while the hot tier is used by others.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_opened_alone_reads_what_has_landed_and_writes_nothing() -> Result<()> {
    let stack = Stack::open().await?;
    let worker = stack.worker();
    let toy = Toy::of(&stack.storage)?;
    toy.score("ann", 3).await?;
    let owner = toy.world.bytes().owner(toy::LOGIC_TYPE, "ann")?;
    let write = owner.incr(toy::FIELD, 4).note("up");
    write
        .durability(Durability::Landed { timeout: LONG })
        .await?;
    // The row has landed, and the note follows.
    let mut changes = stack.storage.changes(Cursor::default());
    bounded("the note has landed", async { Ok(changes.next().await?) }).await?;
    worker.stop().await?;

    let mut settings = stack.settings.clone();
    settings.redis.url = "redis://nobody.invalid:1".parse()?;
    // Connections and time limits live on after the runtime of the opener.
    let opener = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async { Ok::<_, anyhow::Error>(ColdTier::open(&settings).await?) })
    });
    let cold = opener
        .join()
        .map_err(|_| anyhow::anyhow!("the opener panicked"))??;
    assert_eq!(cold.partitions(), ColdTier::of(&stack.storage).partitions());
    let rows = cold
        .fields(owner.owner(), &[Field::new(toy::FIELD)?])
        .await?;
    assert_eq!(rows[0].cell.value(), b"7");
    let end = stack.storage.feed_end().await?;
    assert!(cold.has_landed(&end).await?);
    let events = cold.events(owner.partition(), Position::ZERO, 9).await?;
    assert_eq!(events.len(), 1);
    let refused = cold.define(toy::HOOK, true).await.unwrap_err();
    assert!(
        refused.to_string().contains("for reading only"),
        "{refused}"
    );
    Ok(())
}

fn numbers(events: &[Event]) -> Vec<u64> {
    let numbers = events.iter().map(|event| event.position.number);
    numbers.collect()
}

/// The numbers of the events up to the end of a round.
async fn round(follower: &mut Follower) -> Result<Vec<u64>> {
    let mut heard = Vec::new();
    loop {
        let step = follower.step().await?;
        heard.extend(numbers(&step.events));
        if step.ends_round {
            return Ok(heard);
        }
    }
}

/// V6: a round has everything that had landed when it began. It may have more.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_hears_each_event_once_and_a_round_has_all_that_had_landed_at_its_begin()
-> Result<()> {
    let stack = Stack::open().await?;
    let worker = stack.worker();
    let ann = stack.player("ann");
    let note = async || {
        ann.incr("gold", 1).note("one").await?;
        stack.landed().await
    };
    note().await?;
    let cold = ColdTier::open(&stack.settings).await?;
    let mut follower = Follower::begin(&cold, [ann.partition()]).await?;
    assert_eq!(round(&mut follower).await?, [0_u64; 0], "it begins behind");
    // More events than a step has.
    for _ in 0..70 {
        ann.incr("gold", 1).note("one").await?;
    }
    stack.landed().await?;
    let first = follower.step().await?;
    assert!(first.begins_round && !first.ends_round);
    let mut heard: Vec<u64> = numbers(&first.events);
    heard.extend(round(&mut follower).await?);
    assert!(heard.len() >= 70, "{heard:?}");
    note().await?;
    heard.extend(round(&mut follower).await?);
    heard.extend(round(&mut follower).await?);
    assert_eq!(heard, (2..=72).collect::<Vec<_>>());
    worker.stop().await
}

/// V8: an older copy of the database was restored, or another database answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_of_a_database_that_went_back_or_is_another_one_says_so() -> Result<()> {
    let stack = Stack::open().await?;
    let worker = stack.worker();
    let ann = stack.player("ann");
    ann.incr("gold", 1).note("one").await?;
    stack.landed().await?;
    worker.stop().await?;
    let cold = ColdTier::open(&stack.settings).await?;
    for change in [
        "UPDATE landing_feed SET number = 0",
        "UPDATE landing_meta SET value = REPEAT('7', 32) WHERE name = 'identity'",
    ] {
        let mut follower = Follower::begin(&cold, [ann.partition()]).await?;
        assert_eq!(round(&mut follower).await?, [0_u64; 0]);
        landing::sql(&stack.database, change.to_owned()).await?;
        is_refused(follower.step().await, Kind::CursorForeign)?;
    }
    Ok(())
}

fn claims(cold: &ColdTier) -> Result<&dyn ClaimStore> {
    cold.layers().claims().context("the database has no claims")
}

/// Adds a plan, and claims its first shard.
async fn serves(cold: &ColdTier) -> Result<()> {
    let (service, dc) = (ServiceName::new("goals-2")?, DataCentre::new("a")?);
    let plan = claims(cold)?
        .add_plan(&service, &dc, &Ranges::even(3)?)
        .await?;
    let shards = claims(cold)?.list(&service, Some(&dc)).await?;
    let mut of_plan = shards.iter().filter(|shard| shard.key.plan == plan);
    let first = of_plan.next().context("the plan has no shard")?;
    assert_eq!(of_plan.count(), 2);
    let (token, holder) = (ClaimToken::draw(&RandomIds), Holder::new("goals-1:7000")?);
    assert!(claims(cold)?.claim(first, token, &holder).await?);
    assert!(claims(cold)?.renew(&first.key, token).await?);
    Ok(())
}

/// Checks that a call failed, and why.
fn is_refused<T>(call: storage_sdk::Result<T>, kind: Kind) -> Result<()> {
    let error = call.err().context("the call was not refused")?;
    assert_eq!(error.kind(), kind, "{error}");
    Ok(())
}

/// A service that has a table of its own runs before, beside and without a game.
async fn runs_alone(settings: &Settings, without_tables: Kind) -> Result<()> {
    is_refused(ColdTier::open_for_layers(settings).await, without_tables)?;
    storage_sql::migrate(&settings.sql).await?;
    is_refused(ColdTier::open(settings).await, Kind::Unpaired)?;

    let early = ColdTier::open_for_layers(settings).await?;
    assert_eq!(early.partitions(), 0);
    serves(&early).await?;
    is_refused(early.ends(&[Partition(0)]).await, Kind::Unpaired)?;
    assert!(early.has_landed(&Cursor::default()).await?);
    is_refused(early.define(toy::HOOK, false).await, Kind::Denied)?;

    let storage = Storage::open(settings.clone()).await?;
    let beside = ColdTier::open_for_layers(settings).await?;
    let of_game = ColdTier::of(&storage);
    assert_eq!(beside.partitions(), of_game.partitions());
    assert_eq!(beside.ends(&[Partition(0)]).await?.len(), 1);
    serves(&beside).await?;
    serves(&of_game).await?;
    serves(&early).await?;
    let ann = storage.world("game", "eu")?.bytes().owner("hero", "ann")?;
    ann.update([("level", "7")]).await?;
    ann.flush(LONG).await?;
    let fields = [Field::new("level")?];
    assert_eq!(beside.fields(ann.owner(), &fields).await?.len(), 1);
    beside.define(toy::HOOK, false).await?;
    storage.close(LONG).await;

    serves(&beside).await?;
    let service = ServiceName::new("goals-2")?;
    let closed = claims(&of_game)?.list(&service, None).await;
    assert!(closed.is_err(), "it ends with its storage");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_opened_for_layers_takes_their_writes_and_needs_no_hot_tier()
-> Result<()> {
    let world = storage_tests::World::fresh().await?;
    runs_alone(&world.settings, Kind::Invalid).await?;

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("game.db");
    let missing = ColdTier::open_for_layers(&Settings::embedded(&path)).await;
    assert_eq!(missing.unwrap_err().kind(), Kind::Denied);
    assert!(!path.exists(), "no file was made");
    runs_alone(&Settings::embedded(&path), Kind::Denied).await?;

    let none = ColdTier::open_for_layers(&Settings::in_memory()).await;
    assert_eq!(none.unwrap_err().kind(), Kind::Invalid);
    Ok(())
}

/// Readers of chosen partitions share the feed.
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_chosen_partitions_get_each_event_once_together() -> Result<()> {
    let storage = Storage::in_memory().await?;
    let toy = Toy::of(&storage)?;
    let (mut told, mut owners, mut before) = (Vec::new(), Vec::new(), 0);
    for number in 0..40 {
        let id = format!("player-{number}");
        let owner = toy.world.bytes().owner(toy::LOGIC_TYPE, &id)?;
        owner.update([(toy::FIELD, "1")]).note("up").await?;
        owners.push(owner);
    }
    let count = toy.cold.partitions();
    for odd in [0, 1] {
        let chosen = (0..count)
            .filter(|partition| partition % 2 == odd)
            .map(Partition);
        let mut changes = storage.changes(Cursor::default()).of(chosen);
        let is_chosen = |owner: &&ByteOwner| owner.partition().0 % 2 == odd;
        let most = owners.iter().filter(is_chosen).count();
        while told.len() < before + most {
            let events = bounded("events", async { Ok(changes.next().await?) }).await?;
            for event in events {
                assert_eq!(event.partition.0 % 2, odd);
                if let Content::Note(note) = &event.content {
                    told.push(note.owner.id().to_owned());
                }
            }
        }
        before = told.len();
    }
    let mut expected: Vec<&str> = owners.iter().map(|owner| owner.owner().id()).collect();
    expected.sort_unstable();
    told.sort();
    assert_eq!(told, expected);
    let mut beyond = storage.changes(Cursor::default()).of([Partition(count)]);
    let refused = beyond.try_next().await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid);
    assert!(
        refused.to_string().contains(&format!("there are {count}")),
        "{refused}"
    );
    let cold = ColdTier::of(&storage);
    let ends = cold.ends(&[Partition(0), Partition(count)]).await;
    assert_eq!(ends.unwrap_err().kind(), Kind::Invalid);
    let events = cold.events(Partition(count), Position::ZERO, 1).await;
    assert_eq!(events.unwrap_err().kind(), Kind::Invalid);
    Ok(())
}
