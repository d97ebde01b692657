//! Rows of the owners between two ids.

use async_trait::async_trait;
use storage_model::{Field, Row, Scope};

use crate::engine::{
    Arg, Database, Engine, Exec, Fault, MANY_MAX, Record, Session, Statement, padded, statement,
};
use crate::{ColdError, read};

static ROWS_BETWEEN: Statement = statement!("rows_between").in_order_of("PRIMARY");
static ROWS_BETWEEN_BACK: Statement = statement!("rows_between_back").in_order_of("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[&ROWS_BETWEEN, &ROWS_BETWEEN_BACK];

/// Rows of one logic type, of the owners between two ids.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowRange {
    /// The world.
    pub scope: Scope,
    /// The logic type of the owners.
    pub logic_type: String,
    /// The fields, 1 to 512 of them.
    pub fields: Vec<Field>,
    /// The least id. Default: the first one.
    pub from: String,
    /// The text behind the last id. It is no id of the range itself. Default:
    /// U+10FFFF, behind all ids that do not begin with it.
    pub before: String,
    /// Whether removed fields are read in place of live ones, except those that are purged.
    pub removed: bool,
    /// Whether the greatest id comes first.
    pub backwards: bool,
    /// The most rows. Default: 1,000.
    pub limit: usize,
}

impl RowRange {
    /// All owners of a logic type, in the order of their ids.
    #[must_use]
    pub fn new(scope: Scope, logic_type: impl Into<String>, fields: Vec<Field>) -> Self {
        Self {
            scope,
            logic_type: logic_type.into(),
            fields,
            from: String::new(),
            before: char::MAX.to_string(),
            removed: false,
            backwards: false,
            limit: 1_000,
        }
    }

    /// The owners from one id on, and before another text.
    #[must_use]
    pub fn between(mut self, from: impl Into<String>, before: impl Into<String>) -> Self {
        self.from = from.into();
        self.before = before.into();
        self
    }

    /// Reads removed fields in place of live ones.
    #[must_use]
    pub fn removed(mut self) -> Self {
        self.removed = true;
        self
    }

    /// Reads the greatest id first.
    #[must_use]
    pub fn backwards(mut self) -> Self {
        self.backwards = true;
        self
    }

    /// Reads at most so many rows.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

/// Reads of ranges of owners.
///
/// # Cancel safety
/// As [`Cold`](crate::Cold).
#[async_trait]
pub trait RangeStore: std::fmt::Debug + Send + Sync {
    /// The rows of a range, in the order of the ids or against it. Fields without a row are left out. Of
    /// several fields, the last owner of a full answer may have further rows: read on from its id, with a
    /// limit of more rows than there are fields, and pass over those that are known.
    async fn between(&self, range: &RowRange) -> Result<Vec<Row>, ColdError>;
}

#[async_trait]
impl<E: Engine> RangeStore for Database<E> {
    async fn between(&self, range: &RowRange) -> Result<Vec<Row>, ColdError> {
        let fields = range.fields.len();
        if !(1..=MANY_MAX).contains(&fields) {
            return Err(ColdError::settings(format!(
                "the range has {fields} fields: name 1 to {MANY_MAX}"
            )));
        }
        self.read("between", async |exec| between(exec, range).await)
            .await
    }
}

async fn between<S: Session>(exec: &mut Exec<S>, range: &RowRange) -> Result<Vec<Row>, Fault> {
    let (scope, logic_type) = (&range.scope, &range.logic_type);
    let fields: Vec<&Field> = range.fields.iter().collect();
    let fields = padded(&fields);
    let limit = u64::try_from(range.limit).unwrap_or(u64::MAX);
    let mut args = vec![
        scope.app().into(),
        scope.region().into(),
        logic_type.as_str().into(),
        range.from.as_str().into(),
        range.before.as_str().into(),
        Arg::Number(range.removed.into()),
    ];
    args.extend(fields.iter().map(|field| Arg::from(field.as_str())));
    args.push(Arg::Number(limit.min(i64::MAX.unsigned_abs())));
    let statement = if range.backwards {
        &ROWS_BETWEEN_BACK
    } else {
        &ROWS_BETWEEN
    };
    let read = |record: &dyn Record| read::row_in(scope, logic_type, record);
    exec.fetch(statement, fields.len(), &args, read).await
}
