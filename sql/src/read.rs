//! Reading rows and versions from the database.

use std::collections::{BTreeMap, HashMap};

use storage_model::{Bytes, Cell, Field, Owner, Row, Scope, Version};

use crate::Loaded;
use crate::engine::{Arg, Exec, Fault, MANY_MAX, Record, Session, Statement, padded, statement};

static LOAD: Statement = statement!("load").through("PRIMARY");
static LOAD_ONE: Statement = statement!("load_one").in_order_of("PRIMARY");
static LOAD_FIELDS: Statement = statement!("load_fields").through("PRIMARY");
static LOAD_NEWEST: Statement = statement!("load_newest").through("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[&LOAD, &LOAD_ONE, &LOAD_FIELDS, &LOAD_NEWEST];

/// All rows of each owner, in the owners' order.
pub(crate) async fn load<S: Session>(
    exec: &mut Exec<S>,
    owners: &[Owner],
    rows_max: usize,
) -> Result<Vec<Loaded>, Fault> {
    if let [owner] = owners {
        return Ok(vec![load_one(exec, owner, rows_max).await?]);
    }
    let mut loaded: HashMap<&Owner, Loaded> = owners
        .iter()
        .map(|owner| {
            (
                owner,
                Loaded {
                    complete: true,
                    ..Loaded::default()
                },
            )
        })
        .collect();
    for ((app, region, logic_type), owners) in by_logic_type(owners) {
        for chunk in owners.chunks(MANY_MAX) {
            let ids = padded(chunk);
            let mut args = vec![Arg::from(app), region.into(), logic_type.into()];
            args.extend(ids.iter().map(|owner| Arg::from(owner.id())));
            let by_id: HashMap<&[u8], &Owner> = chunk
                .iter()
                .map(|&owner| (owner.id().as_bytes(), owner))
                .collect();
            let mut keep = |record: &dyn Record| match by_id.get(record.bytes(0)?) {
                Some(&owner) => collect(loaded.entry(owner).or_default(), owner, record, rows_max),
                None => Ok(()),
            };
            exec.visit(&LOAD, ids.len(), &args, &mut keep).await?;
        }
    }
    // Cloned, not taken, because an owner can be requested twice.
    Ok(owners
        .iter()
        .map(|owner| loaded.get(owner).cloned().unwrap_or_default())
        .collect())
}

async fn load_one<S: Session>(
    exec: &mut Exec<S>,
    owner: &Owner,
    rows_max: usize,
) -> Result<Loaded, Fault> {
    let limit = u64::try_from(rows_max.saturating_add(1))
        .unwrap_or(u64::MAX)
        .min(i64::MAX.unsigned_abs());
    let mut args = owner_args(owner);
    args.push(Arg::Number(limit));
    let mut loaded = Loaded {
        complete: true,
        ..Loaded::default()
    };
    let mut keep = |record: &dyn Record| collect(&mut loaded, owner, record, rows_max);
    exec.visit(&LOAD_ONE, 1, &args, &mut keep).await?;
    Ok(loaded)
}

/// The rows of these fields. Fields without a row are left out.
pub(crate) async fn load_fields<S: Session>(
    exec: &mut Exec<S>,
    owner: &Owner,
    fields: &[Field],
) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    let mut ascending: Vec<&Field> = fields.iter().collect();
    ascending.sort_unstable();
    ascending.dedup();
    for chunk in ascending.chunks(MANY_MAX) {
        let names = padded(chunk);
        let mut args = owner_args(owner);
        args.extend(names.iter().map(|field| Arg::from(field.as_str())));
        let read = |record: &dyn Record| row(owner, record);
        rows.extend(exec.fetch(&LOAD_FIELDS, names.len(), &args, read).await?);
    }
    Ok(rows)
}

/// The owner's newest row, if it has any.
pub(crate) async fn load_newest<S: Session>(
    exec: &mut Exec<S>,
    owner: &Owner,
) -> Result<Option<Row>, Fault> {
    let read = |record: &dyn Record| row(owner, record);
    Ok(exec
        .fetch(&LOAD_NEWEST, 1, &owner_args(owner), read)
        .await?
        .pop())
}

/// The owner in the first four columns.
pub(crate) fn owner(record: &dyn Record) -> Result<Owner, Fault> {
    let part = |column| text(record.bytes(column)?);
    Owner::new(part(0)?, part(1)?, part(2)?, part(3)?)
        .map_err(|error| Fault::unreadable(format!("a row's key: {error}")))
}

fn owner_args(owner: &Owner) -> Vec<Arg<'_>> {
    vec![
        owner.app().into(),
        owner.region().into(),
        owner.logic_type().into(),
        owner.id().into(),
    ]
}

/// The owners by app, region and logic type. Each owner comes once, in key order.
fn by_logic_type(owners: &[Owner]) -> BTreeMap<(&str, &str, &str), Vec<&Owner>> {
    let mut groups: BTreeMap<_, Vec<&Owner>> = BTreeMap::new();
    for owner in owners {
        groups
            .entry((owner.app(), owner.region(), owner.logic_type()))
            .or_default()
            .push(owner);
    }
    for group in groups.values_mut() {
        group.sort_unstable();
        group.dedup();
    }
    groups
}

/// Adds a row of an owner. If the owner has more rows than `rows_max`, drops all of them.
fn collect(
    loaded: &mut Loaded,
    owner: &Owner,
    record: &dyn Record,
    rows_max: usize,
) -> Result<(), Fault> {
    if loaded.complete && loaded.rows.len() < rows_max {
        loaded.rows.push(row(owner, record)?);
    } else {
        *loaded = Loaded {
            rows: Vec::new(),
            complete: false,
        };
    }
    Ok(())
}

/// A row of an owner of this world and logic type. The columns are those of [`row`].
pub(crate) fn row_in(scope: &Scope, logic_type: &str, record: &dyn Record) -> Result<Row, Fault> {
    let owner = Owner::new(
        scope.app(),
        scope.region(),
        logic_type,
        text(record.bytes(0)?)?,
    )
    .map_err(|error| Fault::unreadable(format!("a row's key: {error}")))?;
    row(&owner, record)
}

/// A row of a result with the columns owner_id, field, value, up_version, is_del.
fn row(owner: &Owner, record: &dyn Record) -> Result<Row, Fault> {
    let is_del = u8::try_from(record.number(4)?).unwrap_or(u8::MAX);
    let of_owner = |fault: Fault| {
        Fault::unreadable(format!(
            "{owner} has a row that can't be read: {}",
            fault.message
        ))
    };
    let field = text(record.bytes(1)?)
        .and_then(|name| Field::new(name).map_err(|error| Fault::unreadable(error.to_string())));
    Ok(Row {
        owner: owner.clone(),
        field: field.map_err(of_owner)?,
        cell: Cell::from_row(is_del, Bytes::copy_from_slice(record.bytes(2)?)),
        version: version(record.number(3)?).map_err(of_owner)?,
    })
}

/// A version of a row or a record.
pub(crate) fn version(number: u64) -> Result<Version, Fault> {
    let too_large = || {
        Fault::operator(format!(
            "version {number} in the database is above {}",
            Version::MAX
        ))
    };
    Version::new(number).ok_or_else(too_large)
}

fn text(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes)
        .map_err(|error| Fault::unreadable(format!("a row's key is not UTF-8: {error}")))
}
