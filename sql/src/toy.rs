//! A layer that is as small as a layer can be: the best scores of all players.
//!
//! It shows what a layer with statements of its own adds to the core: this file and its statements, lines in
//! `registry`, and the re-export of its part in `storage_sdk::layer`. It has a table, a read,
//! a hook that enters each score as it lands, and a step of a builder for scores that landed before the hook.
//! In no release.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use storage_model::Row;

use crate::ColdError;
use crate::engine::{
    Arg, Database, Engine, Exec, Fault, MANY_MAX, Record, Session, Statement, statement,
};
use crate::hooks::Derive;
use crate::writer::Writer;

static CREATE: Statement = statement!("toy/create");
static ENTER: Statement = statement!("toy/enter");
static BEST: Statement = statement!("toy/best");

pub(crate) const STATEMENTS: &[&Statement] = &[&CREATE, &ENTER, &BEST];

/// The name of the hook.
pub const HOOK: &str = "toy";
/// The logic type of owners with a score.
pub const LOGIC_TYPE: &str = "toy";
/// The field of the score, as text.
pub const FIELD: &str = "score";

/// The best scores.
///
/// # Cancel safety
/// As [`Cold`](crate::Cold). Repeating a call is harmless.
#[async_trait]
pub trait ToyStore: fmt::Debug + Send + Sync {
    /// Makes the table. [`HookStore::define`](crate::HookStore::define) then begins the hook.
    async fn create(&self) -> Result<(), ColdError>;

    /// A step of the builder: enters the scores of rows that landed before the hook. A newer score stays.
    async fn build(&self, rows: &[Row]) -> Result<(), ColdError>;

    /// The ids of the owners with the greatest scores, the greatest first.
    async fn best(&self, limit: u32) -> Result<Vec<(String, u64)>, ColdError>;
}

#[async_trait]
impl<E: Engine> ToyStore for Database<E> {
    async fn create(&self) -> Result<(), ColdError> {
        let create = async |exec: &mut Exec<_>| exec.execute(&CREATE, 1, &[]).await.map(drop);
        self.write("toy", create).await
    }

    async fn build(&self, rows: &[Row]) -> Result<(), ColdError> {
        let rows: Vec<&Row> = rows.iter().collect();
        self.write("toy", async |exec| enter(exec, &rows).await)
            .await
    }

    async fn best(&self, limit: u32) -> Result<Vec<(String, u64)>, ColdError> {
        let read = |record: &dyn Record| {
            let id = String::from_utf8_lossy(record.bytes(0)?).into_owned();
            Ok((id, record.number(1)?))
        };
        let args = [Arg::Number(limit.into())];
        self.read("toy", async |exec| exec.fetch(&BEST, 1, &args, read).await)
            .await
    }
}

/// Enters each score in the transaction of its landing.
#[derive(Debug)]
pub(crate) struct Scores;

#[async_trait]
impl<S: Session> Derive<S> for Scores {
    fn name(&self) -> &'static str {
        HOOK
    }

    async fn writer(&self, _: &mut Exec<S>) -> Result<Arc<dyn Writer<S>>, Fault> {
        Ok(Arc::new(Self))
    }
}

#[async_trait]
impl<S: Session> Writer<S> for Scores {
    async fn write(&self, exec: &mut Exec<S>, rows: &[&Row]) -> Result<(), Fault> {
        enter(exec, rows).await
    }
}

async fn enter<S: Session>(exec: &mut Exec<S>, rows: &[&Row]) -> Result<(), Fault> {
    let is_score =
        |row: &&&Row| row.owner.logic_type() == LOGIC_TYPE && row.field.as_str() == FIELD;
    let scores: Vec<&Row> = rows.iter().filter(is_score).copied().collect();
    for some in scores.chunks(MANY_MAX) {
        let args: Vec<Arg<'_>> = some.iter().flat_map(|row| entry(row)).collect();
        exec.execute(&ENTER, some.len(), &args).await?;
    }
    Ok(())
}

/// The entry of a row. One without a number has the score 0, and so has a removed one, whose row keeps its
/// value.
fn entry(row: &Row) -> [Arg<'_>; 3] {
    let value = Some(row.cell.value()).filter(|_| row.cell.is_del() == 0);
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    let score = text.and_then(|text| text.parse().ok());
    [
        row.owner.id().into(),
        Arg::Number(score.unwrap_or_default()),
        Arg::Number(row.version.get()),
    ]
}
