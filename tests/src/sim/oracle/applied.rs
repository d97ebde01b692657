//! Mutations as the script that applied them saw them.

use super::slot::Change;
use crate::sim::redis::Executed;
use crate::sim::redis::reply::Reply;

/// An applied mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// What stands for its operation id ([`id_key`]).
    pub id: Vec<u8>,
    /// The owner's part of keys and marks.
    pub owner: String,
    /// The version that it gave the owner.
    pub version: u64,
    /// The version that the owner had to have.
    pub wanted: Option<u64>,
    /// The fields that it names, with what it did to each.
    pub changes: Vec<(String, Change)>,
    /// Whether it went without a script: then only its caller knows what was wanted, and what was added.
    pub direct: bool,
}

/// What a caller asks for under an id of its own, so far as a write without a script does not show it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Asked {
    /// Whose write it is.
    pub owner: String,
    /// The version that the owner must have.
    pub wanted: Option<u64>,
    /// What is added to its fields.
    pub step: Option<i64>,
}

impl Asked {
    /// The mutation as it was meant.
    #[must_use]
    pub fn complete(&self, applied: &Applied) -> Applied {
        let meant = |change: &Change| match (change, self.step) {
            (Change::Set(sum), Some(step)) => std::str::from_utf8(sum)
                .ok()
                .and_then(|sum| sum.parse().ok())
                .map_or(change.clone(), |sum| Change::Incr(step, sum)),
            _ => change.clone(),
        };
        let changes = applied.changes.iter().map(|(field, change)| (field.clone(), meant(change))).collect();
        Applied { wanted: self.wanted, changes, ..applied.clone() }
    }
}

impl Applied {
    /// Reads a script that ran: what it changed of owners, and what it says of changes that it or another copy made before. `named` knows
    /// the owner of each write that its caller named.
    pub fn all(executed: &Executed<'_>, named: &dyn Fn(&[u8]) -> Option<String>) -> Vec<Self> {
        match (executed.name, executed.reply) {
            ("update", Reply::Array(replies)) => updates(executed, replies),
            ("direct", Reply::Array(_)) => direct(executed.commands, named),
            ("mutate", Reply::Bulk(reply)) => mutated(executed, reply).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// The changes of `update.lua`: six arguments, an id and a mark for each write, and then the writes themselves.
fn updates(executed: &Executed<'_>, replies: &[Reply]) -> Vec<Applied> {
    let mut applied = Vec::new();
    let (ids, owners) = (executed.argv.get(6..).unwrap_or_default(), executed.keys.get(4..).unwrap_or_default().chunks(2));
    let mut rest = ids.get(2 * owners.len()..).unwrap_or_default();
    for ((reply, id), keys) in replies.iter().zip(ids).zip(owners) {
        let Some((count, kind)) = rest.first().and_then(|head| count_and_kind(text(head)?)) else { break };
        let Some((update, after)) = rest.split_at_checked(1 + 2 * count) else { break };
        rest = after;
        if let Reply::Bulk(reply) = reply {
            applied.extend(updated(id, kind, update.get(1..).unwrap_or_default(), keys, reply));
        }
    }
    applied
}

/// The changes of a transaction. A write that its caller named has an entry of its own among the ids; the others were given theirs by the
/// entry of their round.
fn direct(commands: &[Vec<Vec<u8>>], named: &dyn Fn(&[u8]) -> Option<String>) -> Vec<Applied> {
    let of = |kind: &'static str| {
        commands.iter().filter_map(move |command| {
            let [_, key, rest @ ..] = command.as_slice() else { return None };
            let (partition, owner) = text(key)?.strip_prefix(kind)?.split_once('}')?;
            Some((partition, owner.get(1..)?, rest))
        })
    };
    let id = |partition: &str, owner: &str, version: u64| {
        let ids = of("slug-ops:").filter(|(of, ..)| *of == partition).flat_map(|(.., pairs)| pairs.chunks_exact(2));
        let mut round = None;
        for pair in ids {
            let [name, value] = pair else { continue };
            let mut numbers = text(value)?.split(' ').map(str::parse::<u64>);
            let number = numbers.next()?.ok()?;
            if name.len() == 8 {
                round = Some(given_key(owner, name, &version.to_be_bytes()));
            } else if number == version && named(name).as_deref() == Some(owner) {
                return Some(name.clone());
            }
        }
        round
    };
    let one = |(partition, owner, command): (&str, &str, &[Vec<u8>])| {
        let [_, head, pairs @ ..] = command else { return None };
        let version = text(head)?.split(' ').next()?.parse().ok()?;
        let set = |pair: &[Vec<u8>]| Some((text(pair.first()?)?.to_owned(), Change::Set(pair.get(1)?.clone())));
        let changes = pairs.chunks_exact(2).map(set).collect::<Option<_>>()?;
        let (id, owner) = (id(partition, owner, version)?, owner.to_owned());
        Some(Applied { id, owner, version, wanted: None, changes, direct: true })
    };
    of("slug-data:").filter_map(one).collect()
}

/// "N", "N=VERSION" or "N+": how many fields, and what is done to them under which condition.
fn count_and_kind(head: &str) -> Option<(usize, &str)> {
    let (count, kind) = head.split_at(head.find(['=', '+']).unwrap_or(head.len()));
    Some((count.parse().ok()?, kind))
}

fn updated(id: &[u8], kind: &str, pairs: &[Vec<u8>], keys: &[Vec<u8>], reply: &[u8]) -> Option<Applied> {
    let mut answer = text(reply)?.split(' ');
    let version = answer.next()?.parse().ok()?;
    let mut counters = answer.skip(1);
    let mut change = |pair: &[Vec<u8>]| {
        let [field, argument] = pair else { return None };
        let change = match kind {
            "+" => Change::Incr(text(argument)?.parse().ok()?, counters.next()?.parse().ok()?),
            _ => Change::Set(argument.clone()),
        };
        Some((text(field)?.to_owned(), change))
    };
    let changes = pairs.chunks(2).map(&mut change).collect::<Option<_>>()?;
    let wanted = kind.strip_prefix('=').and_then(|version| version.parse().ok());
    Some(Applied { id: id.to_vec(), owner: owner(keys)?, version, wanted, changes, direct: false })
}

/// The change of `mutate.lua`. A reply without a count of changes was remembered, or told from the id.
fn mutated(executed: &Executed<'_>, reply: &[u8]) -> Option<Applied> {
    let Executed { keys, argv, .. } = executed;
    let mut answer = text(reply)?.split(' ');
    let version = answer.next()?.parse().ok()?;
    if answer.next()? == "0" {
        return None; // only its id is remembered
    }
    let counters: Vec<i64> = answer.map(str::parse).collect::<Result<_, _>>().ok()?;
    let changes = changes(argv, &counters)?;
    let owner = owner(keys)?;
    let id = id_key(&owner, argv.first()?);
    Some(Applied { id, owner, version, wanted: text(argv.get(5)?)?.parse().ok(), changes, direct: false })
}

/// The owner, id and version of a mutation of which `mutate.lua` says that it was applied before, and nothing more.
pub fn said_to_be_applied(executed: &Executed<'_>) -> Option<(String, Vec<u8>, u64)> {
    let ("mutate", Reply::Bulk(reply)) = (executed.name, executed.reply) else { return None };
    let owner = owner(executed.keys)?;
    let id = id_key(&owner, executed.argv.first()?);
    Some((owner, id, text(reply)?.parse().ok()?))
}

/// What stands for a write of an owner under this id. One that a round gave is told by its writer and version: which of the round's writes
/// it is, its commands do not say.
#[must_use]
pub fn id_key(owner: &str, id: &[u8]) -> Vec<u8> {
    let given = id.split_first_chunk::<8>().and_then(|(writer, rest)| Some((writer, rest.split_first_chunk::<8>()?.1)));
    match given {
        Some((writer, version)) if version.len() == 8 => given_key(owner, writer, version),
        _ => id.to_vec(),
    }
}

fn given_key(owner: &str, writer: &[u8], version: &[u8]) -> Vec<u8> {
    [owner.as_bytes(), b"#", writer, version].concat()
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
