//! A mutation as the script that applied it saw it.

use super::slot::Change;
use crate::sim::redis::Executed;
use crate::sim::redis::reply::Reply;

/// An applied mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Its operation id.
    pub id: Vec<u8>,
    /// The owner's part of keys and marks.
    pub owner: String,
    /// The version that it gave the owner.
    pub version: u64,
    /// The version that the owner had to have.
    pub wanted: Option<u64>,
    /// The fields that it names, with what it did to each.
    pub changes: Vec<(String, Change)>,
}

impl Applied {
    /// Reads a script that ran; none if it changed nothing of an owner.
    pub fn read(executed: &Executed<'_>) -> Option<Self> {
        let Executed { name, keys, argv, writes, reply, .. } = executed;
        let Reply::Bulk(reply) = reply else { return None };
        if *writes == 0 || !matches!(*name, "update" | "mutate") {
            return None;
        }
        let mut answer = text(reply)?.split(' ');
        let version = answer.next()?.parse().ok()?;
        if answer.next()? == "0" {
            return None; // only its id is remembered
        }
        let counters: Vec<i64> = answer.map(str::parse).collect::<Result<_, _>>().ok()?;
        let owner = text(keys.first()?)?.split_once("}:")?.1.to_owned();
        let changes = if *name == "update" { sets(argv)? } else { changes(argv, &counters)? };
        let wanted = if *name == "mutate" { text(argv.get(5)?)?.parse().ok() } else { None };
        Some(Self { id: argv.first()?.clone(), owner, version, wanted, changes })
    }
}

/// The changes of `update.lua`.
fn sets(argv: &[Vec<u8>]) -> Option<Vec<(String, Change)>> {
    let set = |pair: &[Vec<u8>]| Some((text(pair.first()?)?.to_owned(), Change::Set(pair.get(1)?.clone())));
    argv.get(5..)?.chunks(2).map(set).collect()
}

/// The changes of `mutate.lua`.
fn changes(argv: &[Vec<u8>], counters: &[i64]) -> Option<Vec<(String, Change)>> {
    let count: usize = text(argv.get(6)?)?.parse().ok()?;
    let mut counters = counters.iter();
    let mut change = |change: &[Vec<u8>]| {
        let [field, operation, argument] = change else { return None };
        let change = match operation.as_slice() {
            b"set" => Change::Set(argument.clone()),
            b"incr" => Change::Incr(text(argument)?.parse().ok()?, *counters.next()?),
            b"remove" => Change::Remove,
            b"restore" => Change::Restore,
            b"purge" => Change::Purge,
            _ => return None,
        };
        Some((text(field)?.to_owned(), change))
    };
    argv.get(7..)?.chunks_exact(3).take(count).map(&mut change).collect()
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
