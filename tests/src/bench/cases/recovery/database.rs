//! A database server dies while marks wait, and is started again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use storage_servers::{MariaDbOptions, MariaDbServer};
use tokio::time::sleep;

use super::{LOOK, MARKS, plan, sample, within};
use crate::bench::case::{Case, Plan, Processes, Rig, Sample, Side};
use crate::bench::fill::fill;
use crate::bench::lander::{HELD, Landers};
use crate::bench::place::{Arena, Place};
use crate::bench::plain::fields;

/// The number of failed attempts of the worker before the server is started again. By then its
/// pauses have grown as in any outage of about a second.
const TRIES: usize = 4;

pub(super) struct Database;

struct DatabaseRig {
    place: Place,
    /// A server of its own, since all other cases share the arena's.
    mariadb: Arc<MariaDbServer>,
    landers: Landers,
    round: u64,
}

#[async_trait]
impl Case for Database {
    fn plan(&self) -> Plan {
        plan(
            "database",
            "from the first answer of a database server that was killed (SIGKILL) while 1,000 marks waited, and is started again when \
             the worker has tried 4 times, until the first batch is committed; interval 50 ms, default back-off",
            "the first pause of the back-off",
            2_000.0,
            1_000.0,
        )
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let mariadb = Arc::new(MariaDbServer::start(MariaDbOptions::default()).await?);
        let place = arena.place_on(&mariadb, HELD).await?;
        let landers = Landers::start(&place, 1).await?;
        // With this, the partitions are known and the worker has its connections.
        fill(&place, &series(0), MARKS, &fields(1, 64, 0)).await?;
        Ok(Box::new(DatabaseRig {
            place,
            mariadb,
            landers,
            round: 0,
        }))
    }
}

/// Each round has other owners, so that its rows can be told from the earlier ones.
fn series(round: u64) -> String {
    format!("r{round}-")
}

impl DatabaseRig {
    /// Waits until the worker has waited `TRIES` times more than `before`.
    async fn tried(&self, before: usize) -> Result<()> {
        while self.landers.waits()? < before + TRIES {
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// The time from the server's first answer to the first committed row.
    async fn first_batch(&self) -> Result<Duration> {
        let mut plain = self.answering().await;
        let answered = Instant::now();
        let rows = format!(
            "SELECT EXISTS (SELECT 1 FROM {} WHERE owner_id LIKE ?)",
            self.place.settings.sql.table
        );
        let series = format!("{}%", series(self.round));
        loop {
            let found = sqlx::query_scalar::<_, i64>(AssertSqlSafe(rows.as_str()))
                .bind(&series)
                .fetch_one(&mut plain)
                .await?;
            if found > 0 {
                return Ok(answered.elapsed());
            }
            sleep(LOOK).await;
        }
    }

    /// A plain connection that has answered, opened as soon as possible.
    async fn answering(&self) -> MySqlConnection {
        loop {
            if let Ok(mut connection) = MySqlConnection::connect(&self.place.database).await
                && connection.execute("SELECT 1").await.is_ok()
            {
                return connection;
            }
            sleep(LOOK).await;
        }
    }
}

#[async_trait]
impl Rig for DatabaseRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        if side == Side::Baseline {
            return Ok(());
        }
        within("all earlier writes land", self.landers.hold()).await?;
        self.round += 1;
        fill(
            &self.place,
            &series(self.round),
            MARKS,
            &fields(1, 64, self.round),
        )
        .await?;
        self.mariadb.kill()?;
        let before = self.landers.waits()?;
        self.landers.let_go()?;
        within("the worker tries", self.tried(before)).await
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        if side == Side::Baseline {
            return Ok(sample(self.place.settings.landing.backoff_min()));
        }
        let recovered = async { tokio::try_join!(self.mariadb.restart(), self.first_batch()) };
        Ok(sample(
            within("the first batch is committed", recovered).await?.1,
        ))
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.landers.pids(),
            ..self.place.processes()
        }
    }
}
