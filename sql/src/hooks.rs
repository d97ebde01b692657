//! Hooks: rows that follow from landed rows and are written in the same transaction, such as the
//! entries of an index.
//!
//! The database names the hooks that its landings need, each with the number of its definitions.
//! The fence of a landing compares the sum of these numbers. So no landing commits without a hook,
//! or by earlier definitions than those of the database.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use storage_coalesce::locked;
use storage_model::Partition;

use crate::engine::{Arg, Database, Engine, Exec, Fault, Record, Session, Statement, statement};
use crate::upsert::VersionedRows;
use crate::writer::Writer;
use crate::{ColdError, Hook, HookStore, pairing, partition};

static READ_HOOKS: Statement = statement!("hooks/read_hooks");
static DEFINE: Statement = statement!("hooks/define");
static MOVE_REACHES: Statement = statement!("hooks/move_reaches");

pub(crate) const STATEMENTS: &[&Statement] = &[&READ_HOOKS, &DEFINE, &MOVE_REACHES];

/// The longest name of a hook, in bytes.
const NAME_MAX: usize = 64;

/// The code of a hook.
///
/// The definitions are the database's, for example a table of indexes. Whoever changes them calls
/// [`define`] in the same transaction. Rows that landed before get their own rows from a builder
/// afterwards, which leaves newer ones as they are.
#[async_trait]
pub(crate) trait Derive<S: Session>: Send + Sync {
    /// The hook's name in the database.
    fn name(&self) -> &'static str;

    /// Reads the definitions, and returns the writer of the rows that follow by them. Several reads
    /// can overlap, so each has a writer of its own.
    ///
    /// # Errors
    /// A statement failed.
    async fn writer(&self, exec: &mut Exec<S>) -> Result<Arc<dyn Writer<S>>, Fault>;
}

/// The hooks of this program, and those that the database needs.
pub(crate) struct Hooks<S: Session> {
    built_in: Vec<Arc<dyn Derive<S>>>,
    // A plain mutex: held for a copy only, never across an await.
    known: Mutex<Option<NeededHooks<S>>>,
}

/// The hooks that the database needs.
pub(crate) struct NeededHooks<S: Session> {
    /// The sum of the numbers of their definitions.
    pub(crate) definitions: u64,
    needed: Vec<Arc<dyn Writer<S>>>,
}

impl<S: Session> Clone for NeededHooks<S> {
    fn clone(&self) -> Self {
        Self {
            definitions: self.definitions,
            needed: self.needed.clone(),
        }
    }
}

impl<S: Session> NeededHooks<S> {
    /// The writers of a landing.
    pub(crate) fn writers(&self) -> Vec<&dyn Writer<S>> {
        let mut writers: Vec<&dyn Writer<S>> = vec![&VersionedRows];
        for writer in &self.needed {
            writers.push(writer.as_ref());
        }
        writers
    }
}

impl<S: Session> Hooks<S> {
    pub(crate) fn new(built_in: Vec<Arc<dyn Derive<S>>>) -> Self {
        let known = Mutex::default();
        Self { built_in, known }
    }

    /// The hooks that the database needs. Reads them before the first landing, and after
    /// [`Hooks::forget`].
    pub(crate) async fn known(&self, exec: &mut Exec<S>) -> Result<NeededHooks<S>, Fault> {
        if let Some(known) = self.slot().clone() {
            return Ok(known);
        }
        let known = self.read(exec).await?;
        *self.slot() = Some(known.clone());
        Ok(known)
    }

    async fn read(&self, exec: &mut Exec<S>) -> Result<NeededHooks<S>, Fault> {
        // ORDER: the number before the definitions. If they change in between, the number is too
        // low and no fence matches it. The other way round, earlier definitions would land.
        let hooks = read(exec).await?;
        let definitions = hooks.iter().map(|hook| hook.definitions).sum();
        let mut needed = Vec::new();
        for hook in hooks.iter().filter(|hook| hook.is_needed) {
            let Some(built_in) = self.built_in(&hook.name) else {
                return Err(Fault::operator(hook.missing()));
            };
            needed.push(built_in.writer(exec).await?);
        }
        Ok(NeededHooks {
            definitions,
            needed,
        })
    }

    /// A fence did not match. Perhaps the definitions have changed.
    pub(crate) fn forget(&self) {
        *self.slot() = None;
    }

    fn slot(&self) -> MutexGuard<'_, Option<NeededHooks<S>>> {
        locked(&self.known)
    }

    fn built_in(&self, name: &str) -> Option<&Arc<dyn Derive<S>>> {
        self.built_in.iter().find(|hook| hook.name() == name)
    }
}

impl<S: Session> fmt::Debug for Hooks<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.built_in.iter().map(|hook| hook.name());
        f.debug_list().entries(names).finish()
    }
}

#[async_trait]
impl<E: Engine> HookStore for Database<E> {
    async fn hooks(&self) -> Result<Vec<Hook>, ColdError> {
        let mut hooks = self.read("hooks", async |exec| read(exec).await).await?;
        for hook in &mut hooks {
            hook.is_lacked = hook.is_needed && self.hooks().built_in(&hook.name).is_none();
        }
        Ok(hooks)
    }

    async fn define(&self, name: &str, is_needed: bool) -> Result<(), ColdError> {
        if name.is_empty() || name.len() > NAME_MAX {
            let bytes = name.len();
            return Err(ColdError::settings(format!(
                "the name of a hook has {bytes} bytes: a name has 1 to {NAME_MAX}"
            )));
        }
        self.write("define", async |exec| {
            let pairing = pairing::read(exec, self.connections().place()).await?;
            let Some(partitions) = pairing.partitions else {
                return Err(Fault::operator(
                    "the database belongs to no hot tier yet: start a worker or a game server first",
                ));
            };
            exec.transaction(async |exec| define(exec, partitions, name, is_needed).await)
                .await
        })
        .await
    }
}

/// Counts a change of a hook's definitions, in the transaction that makes it. From its commit on,
/// no landing commits that knows only earlier ones.
///
/// A landing locks the record of its partition, so this waits for landings under way. Landings that
/// wait meanwhile have compared the earlier number. Their fences find that the records have moved.
pub(crate) async fn define<S: Session>(
    exec: &mut Exec<S>,
    partitions: u32,
    name: &str,
    is_needed: bool,
) -> Result<(), Fault> {
    // ORDER: records first, in ascending order like the fences of landings. A partition without a
    // record gets one, since a landing could create it meanwhile.
    let all: Vec<Partition> = (0..partitions).map(Partition).collect();
    partition::lock(exec, &all).await?;
    exec.execute(&MOVE_REACHES, 1, &[]).await?;
    let args = [name.into(), Arg::Number(u64::from(is_needed))];
    exec.execute(&DEFINE, 1, &args).await.map(drop)
}

async fn read<S: Session>(exec: &mut Exec<S>) -> Result<Vec<Hook>, Fault> {
    let hook = |record: &dyn Record| {
        Ok(Hook {
            name: String::from_utf8_lossy(record.bytes(0)?).into_owned(),
            definitions: record.number(1)?,
            is_needed: record.number(2)? != 0,
            is_lacked: false,
        })
    };
    exec.fetch(&READ_HOOKS, 1, &[], hook).await
}
