//! The alternative without the storage: the same upserts straight to the database.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::task::JoinSet;

use super::case::Sample;
use super::place::Place;

/// The storage's own table and upsert.
const TABLES: &str = include_str!("../../../sql/migrations/mysql/0001_tables.sql");
const UPSERT: &str = include_str!("../../../sql/query/mysql/upsert.sql");

/// A row of one field. Its other columns are those of the storage's owners.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlainRow {
    /// The owner's id.
    pub owner_id: String,
    /// The value.
    pub value: Vec<u8>,
    /// The version.
    pub version: u64,
}

/// Some connections that upsert rows. A statement has this number of rows and is its own
/// transaction.
#[derive(Debug)]
pub struct Straight {
    connections: Vec<MySqlConnection>,
    rows_at_once: usize,
}

impl Straight {
    /// Makes a table `plain_rows` like the storage's in the place's database, if there is none, and
    /// opens the connections.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn open(place: &Place, connections: usize, rows_at_once: usize) -> Result<Self> {
        let mut straight = Self {
            connections: Vec::new(),
            rows_at_once,
        };
        for _ in 0..connections {
            straight
                .connections
                .push(MySqlConnection::connect(&place.database).await?);
        }
        let tables = TABLES
            .replace("{table}", "plain_rows")
            .replace("{stem}", "plain");
        let first = straight.connections.first_mut().context("no connection")?;
        sqlx::raw_sql(AssertSqlSafe(tables)).execute(first).await?;
        Ok(straight)
    }

    /// Upserts the rows in the given order, an even share on each connection. A call is a
    /// statement.
    ///
    /// # Errors
    /// The database rejects a statement.
    pub async fn upsert(&mut self, rows: &Arc<Vec<PlainRow>>) -> Result<Sample> {
        let begun = Instant::now();
        let share = rows.len().div_ceil(self.connections.len().max(1)).max(1);
        let mut running = JoinSet::new();
        for (number, mut connection) in std::mem::take(&mut self.connections)
            .into_iter()
            .enumerate()
        {
            let (rows, rows_at_once) = (Arc::clone(rows), self.rows_at_once);
            running.spawn(async move {
                let (mut latencies, full) = (Vec::new(), text(rows_at_once)?);
                for chunk in rows
                    .chunks(share)
                    .nth(number)
                    .unwrap_or_default()
                    .chunks(rows_at_once)
                {
                    let begun = Instant::now();
                    let text = if chunk.len() == rows_at_once {
                        Arc::clone(&full)
                    } else {
                        text(chunk.len())?
                    };
                    statement(&mut connection, text, chunk).await?;
                    latencies.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
                }
                anyhow::Ok((connection, latencies))
            });
        }
        let mut sample = Sample {
            operations: u64::try_from(rows.len())?,
            ..Sample::default()
        };
        while let Some(ended) = running.join_next().await {
            let (connection, latencies) = ended??;
            self.connections.push(connection);
            sample.latencies.extend(latencies);
        }
        sample.seconds = begun.elapsed().as_secs_f64();
        Ok(sample)
    }
}

/// The text of an upsert of this number of rows. It is the storage's upsert for another table.
fn text(rows: usize) -> Result<Arc<str>> {
    let text: Vec<&str> = UPSERT
        .lines()
        .filter(|line| !line.starts_with("--"))
        .collect();
    let text = text.join("\n").replace("{table}", "plain_rows");
    let (before, rest) = text.split_once("{each ").context("no list in the upsert")?;
    let (item, after) = rest.split_once('}').context("no end of the list")?;
    Ok(Arc::from(format!(
        "{before}{}{after}",
        vec![item; rows].join(", ")
    )))
}

/// One prepared statement. The driver keeps it by its text.
async fn statement(
    connection: &mut MySqlConnection,
    text: Arc<str>,
    rows: &[PlainRow],
) -> Result<()> {
    let mut query = sqlx::query(AssertSqlSafe(text));
    for row in rows {
        query = query
            .bind(&b"game"[..])
            .bind(&b"eu"[..])
            .bind(&b"player"[..])
            .bind(row.owner_id.as_bytes());
        query = query
            .bind(&b"field0"[..])
            .bind(row.value.as_slice())
            .bind(row.version)
            .bind(0_u8);
    }
    query.execute(connection).await?;
    Ok(())
}
