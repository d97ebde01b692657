//! The statements of the layer *documents*.

use async_trait::async_trait;
use storage_model::{Field, Row, Scope};

use crate::engine::{Arg, Database, Engine, Exec, Fault, Record, Session, Statement, statement};
use crate::{ColdError, read};

static READ_ITEMS: Statement = statement!("documents/read_items").in_order_of("PRIMARY");
static READ_ITEMS_BACK: Statement = statement!("documents/read_items_back").in_order_of("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[&READ_ITEMS, &READ_ITEMS_BACK];

/// A page of the items of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemPage {
    /// The world.
    pub scope: Scope,
    /// The logic type of items.
    pub logic_type: String,
    /// The field of their bodies.
    pub field: Field,
    /// The least id of the page.
    pub from: String,
    /// The text behind the last id. It is no id of the page itself.
    pub before: String,
    /// Whether the page has removed fields in place of live ones, except those that are purged.
    pub removed: bool,
    /// Whether the page begins with the greatest id.
    pub backwards: bool,
    /// The most items.
    pub limit: usize,
}

/// Reads of the layer *documents*.
///
/// # Cancel safety
/// As [`ColdStore`](crate::ColdStore).
#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// The fields of a page, in the order of the ids or against it. An item without the field
    /// is left out.
    async fn items(&self, page: &ItemPage) -> Result<Vec<Row>, ColdError>;
}

#[async_trait]
impl<E: Engine> DocumentStore for Database<E> {
    async fn items(&self, page: &ItemPage) -> Result<Vec<Row>, ColdError> {
        self.read("items", async |exec| items(exec, page).await)
            .await
    }
}

async fn items<S: Session>(exec: &mut Exec<S>, page: &ItemPage) -> Result<Vec<Row>, Fault> {
    let (scope, logic_type) = (&page.scope, &page.logic_type);
    let limit = u64::try_from(page.limit).unwrap_or(u64::MAX);
    let args = [
        scope.app().into(),
        scope.region().into(),
        logic_type.as_str().into(),
        page.from.as_str().into(),
        page.before.as_str().into(),
        page.field.as_str().into(),
        Arg::Number(page.removed.into()),
        Arg::Number(limit.min(i64::MAX.unsigned_abs())),
    ];
    let statement = if page.backwards {
        &READ_ITEMS_BACK
    } else {
        &READ_ITEMS
    };
    let read = |record: &dyn Record| read::row_in(scope, logic_type, record);
    exec.fetch(statement, 1, &args, read).await
}
