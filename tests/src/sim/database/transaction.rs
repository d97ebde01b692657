//! Statements and transactions of one process, and their faults.

use std::sync::Arc;
use std::time::Duration;

use storage_sql::{ColdError, ColdKind};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::server::{Database, Held, Lockable};
use crate::sim::chance::Chance;
use crate::sim::fault::Fault;
use crate::sim::process::Process;

/// The time after which a transaction gives up waiting for a lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// The way of one process to the database.
#[derive(Debug, Clone)]
pub struct Way {
    /// The database.
    pub database: Arc<Database>,
    /// The source of faults.
    pub chance: Arc<Chance>,
    /// The process.
    pub process: Arc<Process>,
}

/// A transaction under way. Dropping it rolls it back.
#[derive(Debug)]
pub struct Transaction {
    life: u64,
    held: Vec<Held>,
}

impl Transaction {
    /// The value of [`Database::lives`] when it began.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.life
    }
}

/// The error of a database that is not well.
#[must_use]
pub fn unwell(operation: &'static str, message: &str) -> ColdError {
    ColdError {
        kind: ColdKind::Unwell,
        operation,
        message: message.to_owned(),
    }
}

impl Way {
    /// Begins a transaction that writes.
    pub async fn begin(&self) -> Result<Transaction, ColdError> {
        self.process.runs().await;
        let life = self.database.lives();
        self.statement("begin", Some(life)).await?;
        Ok(Transaction {
            life,
            held: Vec::new(),
        })
    }

    /// Sends a statement. It is ready when the statement is carried out. `life` belongs to the
    /// transaction, if there is one. A transaction ends with the server's process.
    pub async fn statement(&self, point: &'static str, life: Option<u64>) -> Result<(), ColdError> {
        tokio::select! {
            biased;
            () = self.process.killed(), if life.is_some() => Err(unwell(point, "the process is gone")),
            sent = self.send(point, life) => sent,
        }
    }

    async fn send(&self, point: &'static str, life: Option<u64>) -> Result<(), ColdError> {
        const READING: &[Fault] = &[Fault::StatementLost, Fault::DatabaseSlow];
        const WRITING: &[Fault] = &[Fault::StatementLost, Fault::DatabaseSlow, Fault::Deadlock];
        self.process.runs().await;
        let _under_way = self.chance.begin(point);
        let begun = self.database.lives();
        let fault = self
            .chance
            .fault(point, if life.is_some() { WRITING } else { READING });
        self.chance.delay(point, self.process.slowness()).await;
        match fault {
            Some(Fault::DatabaseSlow) => sleep(self.chance.millis(500, 12_000)).await,
            Some(Fault::Deadlock) => return Err(unwell(point, "error 1213: deadlock found")),
            Some(_) => return Err(unwell(point, "error 2013: lost connection during query")),
            None => {}
        }
        self.process.runs().await;
        let ails = self.database.ails();
        if ails.away || self.database.lives() != life.unwrap_or(begun) {
            return Err(unwell(point, "error 2006: server has gone away"));
        }
        if life.is_some() && ails.read_only {
            return Err(unwell(point, "error 1290: running with --read-only"));
        }
        Ok(())
    }

    /// Brings an answer.
    pub async fn answer(&self, point: &'static str) {
        match self.chance.fault(point, &[Fault::RowsLate]) {
            Some(_) => sleep(self.chance.millis(200, 6_000)).await,
            None => self.chance.delay(point, self.process.slowness()).await,
        }
        self.process.runs().await;
    }

    /// Locks something for the rest of a transaction.
    pub async fn lock(
        &self,
        transaction: &mut Transaction,
        what: Lockable,
    ) -> Result<(), ColdError> {
        match timeout(LOCK_WAIT, self.database.lock(what)).await {
            Ok(held) => transaction.held.push(held),
            Err(_) => return Err(unwell("lock", "error 1205: lock wait timeout exceeded")),
        }
        Ok(())
    }

    /// Commits. A commit that was sent goes on without its sender.
    pub async fn commit<T: Send + 'static>(
        &self,
        transaction: Transaction,
        apply: impl FnOnce(&Database) -> T + Send + 'static,
    ) -> Result<T, ColdError> {
        self.statement("commit", Some(transaction.life)).await?;
        let way = self.clone();
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let _under_way = way.chance.begin("commit");
            let unknown = way
                .chance
                .fault("commit", &[Fault::CommitUnknown])
                .is_some();
            let lost = unknown && way.chance.below(2) == 0;
            way.chance.delay("commit", way.process.slowness()).await;
            let Way { database, .. } = &way;
            let life = transaction.life;
            let broken = || database.ails().away || database.lives() != life;
            if lost || broken() || database.ails().read_only {
                return;
            }
            let applied = apply(database);
            drop(transaction);
            way.chance.delay("commit", way.process.slowness()).await;
            if !unknown && !broken() {
                let _ = answer.send(applied);
            }
        });
        let answered = answered
            .await
            .map_err(|_| unwell("commit", "error 2013: lost connection during query"));
        self.process.runs().await;
        answered
    }
}
