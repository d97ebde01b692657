//! A layer by the door alone: a table, a read, a hook, and a builder for what landed before the hook.

use std::time::Duration;

use anyhow::{Context as _, Result};
use storage_sdk::layer::{ColdTier, RowRange, toy};
use storage_sdk::{Durability, Field, Storage, World};
use storage_tests::Stack;

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
        let part = self.cold.layers().toy.as_deref();
        part.context("the database has no toy layer")
    }

    /// Begins the hook, and then enters what landed before it.
    async fn begin(&self) -> Result<()> {
        self.part()?.create().await?;
        self.cold.define(toy::HOOK, true).await?;
        let mut range = RowRange {
            scope: self.world.scope().clone(),
            logic_type: toy::LOGIC_TYPE.to_owned(),
            fields: vec![Field::new(toy::FIELD)?],
            from: String::new(),
            before: "~".to_owned(),
            removed: false,
            backwards: false,
            limit: STEP,
        };
        loop {
            let rows = self.cold.rows(&range).await?;
            self.part()?.build(&rows).await?;
            let Some(last) = rows.get(STEP - 1) else {
                return Ok(());
            };
            // The least text behind the id.
            range.from = format!("{}\0", last.owner.id());
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
    toy.score("bo", 4).await?;
    toy.score("flo", 7).await?;
    let expected = best([("flo", 7), ("cy", 5), ("bo", 4)]);
    assert_eq!(toy.best().await?, expected);
    // A builder that is late changes nothing.
    toy.begin().await?;
    assert_eq!(toy.best().await?, expected);
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
