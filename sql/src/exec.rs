//! The only way of a statement to the database. Each statement passes the intercept, if there is
//! one, and has a time limit. A connection that was cut is never used again.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use sqlx::migrate::Migration;
use storage_model::{Broken, Intercept};

use crate::classify::Class;
use crate::fault::Fault;
use crate::session::{Arg, Record, Server, Session, Visit};
use crate::statement::{Names, Statement, Texts, statement};

static BEGIN: Statement = statement!("begin");
static COMMIT: Statement = statement!("commit");
static ROLLBACK: Statement = statement!("rollback");

pub(crate) const STATEMENTS: &[&Statement] = &[&BEGIN, &COMMIT, &ROLLBACK];

/// The state that all connections of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) texts: Texts,
    pub(crate) names: Names,
    /// The hook of tests.
    pub(crate) intercept: Option<Arc<dyn Intercept>>,
    /// The time limit of each statement on this side, because a server that hangs does not keep its
    /// own limits.
    pub(crate) statement_timeout: Duration,
}

/// A connection, and the state of its statement and transaction.
#[derive(Debug)]
pub(crate) struct Exec<S> {
    session: S,
    shared: Arc<Shared>,
    /// A statement was sent and its reply was not read to the end. Stays true if the caller drops
    /// the call here.
    busy: bool,
    /// A transaction has begun and its end is not confirmed.
    open: bool,
    /// After a fault of this class no connection of the same age is trusted.
    lost: bool,
    /// An answer of unknown meaning. Only this connection is not used again.
    doubtful: bool,
}

impl<S: Session> Exec<S> {
    pub(crate) fn new(session: S, shared: Arc<Shared>) -> Self {
        Self {
            session,
            shared,
            busy: false,
            open: false,
            lost: false,
            doubtful: false,
        }
    }

    /// Whether the next caller can have this connection.
    pub(crate) fn is_clean(&self) -> bool {
        !self.busy && !self.open && !self.lost && !self.doubtful
    }

    /// Whether the other connections are probably useless, too.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Whether the end of the last transaction is confirmed.
    pub(crate) fn is_between_transactions(&self) -> bool {
        !self.busy && !self.open && !self.lost
    }

    /// The facts about the server.
    pub(crate) fn server(&self) -> &Server {
        self.session.server()
    }

    /// The most bytes of one statement.
    pub(crate) fn packet_bytes_max(&self) -> usize {
        self.server().packet_bytes_max
    }

    /// Runs a statement that takes `size` rows. Returns the number of matched rows.
    pub(crate) async fn execute(
        &mut self,
        statement: &Statement,
        size: usize,
        args: &[Arg<'_>],
    ) -> Result<u64, Fault> {
        let text = self.text(statement, size)?;
        let shared = Arc::clone(&self.shared);
        self.busy = true;
        let result = through(&shared, statement, self.session.execute(text, args)).await;
        self.settle(result)
    }

    /// Runs a statement that takes `size` rows. Makes a value of each row of the result.
    pub(crate) async fn fetch<T: Send>(
        &mut self,
        statement: &Statement,
        size: usize,
        args: &[Arg<'_>],
        read: impl Fn(&dyn Record) -> Result<T, Fault> + Send + Sync,
    ) -> Result<Vec<T>, Fault> {
        let mut values = Vec::new();
        let mut push = |record: &dyn Record| read(record).map(|value| values.push(value));
        self.visit(statement, size, args, &mut push).await?;
        Ok(values)
    }

    /// Runs a statement that takes `size` rows. Visits each row of the result.
    pub(crate) async fn visit(
        &mut self,
        statement: &Statement,
        size: usize,
        args: &[Arg<'_>],
        visit: Visit<'_>,
    ) -> Result<(), Fault> {
        let text = self.text(statement, size)?;
        let shared = Arc::clone(&self.shared);
        self.busy = true;
        let result = through(&shared, statement, self.session.fetch(text, args, visit)).await;
        self.settle(result)
    }

    /// Runs some work in one transaction. Commits it if the work succeeded, and rolls it back
    /// otherwise.
    ///
    /// # Errors
    /// The work failed, and nothing was written. Or the transaction could not begin. Or the COMMIT
    /// failed, and its outcome may be unknown.
    pub(crate) async fn transaction<T, E: From<Fault>>(
        &mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        self.begin().await?;
        let done = work(self).await;
        self.end(done).await
    }

    /// Begins a transaction. [`Exec::end`] must end it.
    async fn begin(&mut self) -> Result<(), Fault> {
        self.open = true;
        self.execute(&BEGIN, 1, &[]).await.map(drop)
    }

    /// Commits a transaction if its work succeeded. Rolls it back after any failure. A lock wait
    /// that times out undoes only one statement, so a COMMIT after it would keep half of the work.
    async fn end<T, E: From<Fault>>(&mut self, work: Result<T, E>) -> Result<T, E> {
        match work {
            Ok(value) => {
                self.execute(&COMMIT, 1, &[])
                    .await
                    .map_err(Fault::of_commit)?;
                self.open = false;
                Ok(value)
            }
            Err(error) => {
                // A connection that does not confirm the ROLLBACK stays `open` and is thrown away.
                // The server then rolls back.
                if !self.busy && !self.lost && self.execute(&ROLLBACK, 1, &[]).await.is_ok() {
                    self.open = false;
                }
                Err(error)
            }
        }
    }

    /// The tables' names.
    pub(crate) fn names(&self) -> &Names {
        &self.shared.names
    }

    /// Applies the missing migrations, without a time limit. The connection is not used again,
    /// because its limits were lifted.
    pub(crate) async fn migrate(&mut self, migrations: &[Migration]) -> Result<(), Fault> {
        let shared = Arc::clone(&self.shared);
        self.busy = true;
        self.session.migrate(migrations, &shared.names).await
    }

    /// Whether the connection works, within `limit`.
    pub(crate) async fn answers(&mut self, limit: Duration) -> bool {
        self.busy = true;
        let answered = matches!(
            tokio::time::timeout(limit, self.session.ping()).await,
            Ok(Ok(()))
        );
        self.busy = !answered;
        answered
    }

    /// Closes the connection in order.
    pub(crate) async fn close(self) {
        self.session.close().await;
    }

    fn text(&self, statement: &Statement, size: usize) -> Result<Arc<str>, Fault> {
        let text = self.shared.texts.get(statement, size);
        text.ok_or_else(|| {
            let name = statement.name;
            Fault::operator(format!("there is no text of {name} for {size} rows"))
        })
    }

    /// Records the state of the connection after a reply. Only a complete reply makes it usable
    /// again.
    fn settle<T>(&mut self, result: Result<T, Fault>) -> Result<T, Fault> {
        match result.as_ref().map_err(|fault| fault.class) {
            Ok(_)
            | Err(
                Class::Retry
                | Class::TooLong
                | Class::Operator
                | Class::Settings
                | Class::Refused
                | Class::Unreadable,
            ) => self.busy = false,
            Err(Class::Unknown) => (self.busy, self.doubtful) = (false, true),
            Err(Class::Reconnect | Class::Resolve) => self.lost = true,
        }
        result
    }
}

/// Passes the statement and its reply through the intercept, and limits the time in between.
async fn through<T>(
    shared: &Shared,
    statement: &Statement,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let Some(intercept) = &shared.intercept else {
        return limited(shared.statement_timeout, work).await;
    };
    let names = [statement.name];
    intercept
        .before(&names)
        .await
        .map_err(|Broken| Fault::lost("an intercept kept the statement back"))?;
    let value = limited(shared.statement_timeout, work).await?;
    intercept
        .after(&names)
        .await
        .map_err(|Broken| Fault::lost("an intercept lost the reply"))?;
    Ok(value)
}

/// Ends a statement that takes too long.
async fn limited<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    // If the driver panics over a malformed reply, only the connection is lost.
    let caught = AssertUnwindSafe(work).catch_unwind();
    match tokio::time::timeout(limit, caught).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(Fault::lost(
            "the driver could not understand the server's reply",
        )),
        Err(_) => Err(Fault::lost(format!("no reply within {limit:?}"))),
    }
}
