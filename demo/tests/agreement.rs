//! The demo reports no difference where the sources agree, and one difference for one altered row.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use storage_demo::game::{self, Plan, Played};
use storage_demo::rows;
use storage_demo::table::{Run, Table};
use storage_demo::verify;
use storage_sdk::{Settings, Storage};

const PLAN: Plan = Plan {
    players: 24,
    seed: 7,
};

/// An embedded storage after players have played and all their data has landed.
struct Stage {
    folder: tempfile::TempDir,
    storage: Storage,
    played: Played,
}

impl Stage {
    async fn played() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let storage = Storage::open(Settings::embedded(folder.path().join("game.db"))).await?;
        let over = async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            Ok(())
        };
        let (played, ()) = game::play(&storage, PLAN, over, |_| {}).await?;
        verify::landed(&storage, &ProgressBar::hidden()).await?;
        Ok(Self {
            folder,
            storage,
            played,
        })
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("game.db")
    }

    async fn compare(&self) -> Result<verify::Comparison> {
        let rows = rows::of_file(&self.file()).await?;
        verify::compare(&self.storage, &self.played, &rows).await
    }

    /// Changes the database without the storage. Returns the number of changed rows.
    async fn alter(&self, statement: &'static str) -> Result<u64> {
        let mut connection = SqliteConnectOptions::new()
            .filename(self.file())
            .connect()
            .await?;
        let altered = connection.execute(statement).await?.rows_affected();
        connection.close().await?;
        Ok(altered)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn players_rows_and_hot_loads_agree_and_every_player_is_loaded() {
    let stage = Stage::played().await.unwrap();
    let compared = stage.compare().await.unwrap();
    assert_eq!(compared.differences, []);
    assert_eq!(compared.hot_loads, u64::from(PLAN.players));
    assert!(
        compared.fields > 24 * 5,
        "each player has a profile, counters and a bag: {}",
        compared.fields
    );
    let removed = stage
        .played
        .log
        .values()
        .filter(|cell| cell.live().is_none())
        .count();
    assert!(removed > 0, "players have lost things");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_altered_row_is_one_difference() {
    let stage = Stage::played().await.unwrap();
    let one = "UPDATE landing_rows SET value = x'00' \
               WHERE (owner_id, field) IN (SELECT owner_id, field FROM landing_rows WHERE is_del = 0 LIMIT 1)";
    assert_eq!(stage.alter(one).await.unwrap(), 1);
    let compared = stage.compare().await.unwrap();
    let [difference] = compared.differences.as_slice() else {
        panic!("{:?}", compared.differences)
    };
    let ways: Vec<_> = difference.found.iter().map(|(way, _)| *way).collect();
    assert_eq!(ways, ["rows by SQL", "hot-load"]);

    let run = Run {
        rows_landed: 1,
        loads_in_play: 0,
        more: Vec::new(),
        end: Vec::new(),
    };
    let table = Table::new(PLAN, &stage.played, &compared, run);
    assert!(!table.agrees(), "the program fails");
    let text = table.to_string();
    assert_eq!(line(&text, "differences").unwrap(), "1");
    assert!(
        text.ends_with(&format!("  {difference}\n")),
        "the difference is listed:\n{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_row_and_a_tombstone_that_came_back_to_life_are_two_differences() {
    let stage = Stage::played().await.unwrap();
    let lost = "DELETE FROM landing_rows WHERE owner_id = CAST('1' AS BLOB) AND field = CAST('profile' AS BLOB)";
    assert_eq!(stage.alter(lost).await.unwrap(), 1);
    let risen = "UPDATE landing_rows SET is_del = 0 \
                 WHERE (owner_id, field) IN (SELECT owner_id, field FROM landing_rows WHERE is_del = 1 LIMIT 1)";
    assert_eq!(stage.alter(risen).await.unwrap(), 1);
    assert_eq!(stage.compare().await.unwrap().differences.len(), 2);
}

fn demo(args: &[&str]) -> Result<Output> {
    let program = Path::new(env!("CARGO_BIN_EXE_demo"));
    Ok(Command::new(program).args(args).output()?)
}

/// The value of a line of the table.
fn line<'a>(table: &'a str, name: &str) -> Result<&'a str> {
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    Ok(line
        .with_context(|| format!("no {name} in:\n{table}"))?
        .trim())
}

#[test]
fn the_program_prints_a_table_without_differences_and_exits_with_0() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("demo.db").display().to_string();
    let output = demo(&[
        "--players",
        "20",
        "--seconds",
        "1",
        "--seed",
        "3",
        "--database",
        &file,
    ])
    .unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{table}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(line(&table, "differences").unwrap(), "0");
    assert_eq!(line(&table, "database file").unwrap(), file);
    assert!(
        line(&table, "players").unwrap().ends_with("seed 3"),
        "{table}"
    );
    assert!(
        line(&table, "hot loads")
            .unwrap()
            .starts_with("20 after the eviction"),
        "{table}"
    );

    let again = demo(&["--database", &file]).unwrap();
    assert_eq!(again.status.code(), Some(1));
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(error.contains("demo.db exists"), "{error}");
}
