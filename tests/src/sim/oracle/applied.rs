//! Mutations as the script that applied them saw them.

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
    /// Reads a script that ran: what it changed of owners, and what it says of changes that it or another copy made before.
    pub fn all(executed: &Executed<'_>) -> Vec<Self> {
        match (executed.name, executed.reply) {
            ("update", Reply::Array(replies)) => updates(executed, replies),
            ("mutate", Reply::Bulk(reply)) => mutated(executed, reply).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// The changes of `update.lua`: its arguments are the window, an id and a mark for each update, and then the updates themselves.
fn updates(executed: &Executed<'_>, replies: &[Reply]) -> Vec<Applied> {
    let mut applied = Vec::new();
    let (ids, owners) = (executed.argv.get(1..).unwrap_or_default(), executed.keys.get(4..).unwrap_or_default().chunks(2));
    let mut rest = ids.get(2 * replies.len()..).unwrap_or_default();
    for ((reply, id), keys) in replies.iter().zip(ids).zip(owners) {
        let Some(count) = rest.get(2).and_then(|count| text(count)?.parse::<usize>().ok()) else { break };
        let Some((update, after)) = rest.split_at_checked(3 + 2 * count) else { break };
        rest = after;
        if let Reply::Bulk(reply) = reply {
            applied.extend(updated(id, update, keys, reply));
        }
    }
    applied
}

fn updated(id: &[u8], update: &[Vec<u8>], keys: &[Vec<u8>], reply: &[u8]) -> Option<Applied> {
    let set = |pair: &[Vec<u8>]| Some((text(pair.first()?)?.to_owned(), Change::Set(pair.get(1)?.clone())));
    Some(Applied {
        id: id.to_vec(),
        owner: owner(keys)?,
        version: text(reply)?.split(' ').next()?.parse().ok()?,
        wanted: None,
        changes: update.get(3..)?.chunks(2).map(set).collect::<Option<_>>()?,
    })
}

/// The change of `mutate.lua`.
fn mutated(executed: &Executed<'_>, reply: &[u8]) -> Option<Applied> {
    let Executed { keys, argv, .. } = executed;
    let mut answer = text(reply)?.split(' ');
    let version = answer.next()?.parse().ok()?;
    if answer.next()? == "0" {
        return None; // only its id is remembered
    }
    let counters: Vec<i64> = answer.map(str::parse).collect::<Result<_, _>>().ok()?;
    let changes = changes(argv, &counters)?;
    Some(Applied { id: argv.first()?.clone(), owner: owner(keys)?, version, wanted: text(argv.get(5)?)?.parse().ok(), changes })
}

fn owner(keys: &[Vec<u8>]) -> Option<String> {
    Some(text(keys.first()?)?.split_once("}:")?.1.to_owned())
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
