//! Mutations, as the script that applied them saw them.

use storage_model::Position;

use super::sessions::{Fence, fence_of};
use super::slot::Change;
use crate::sim::redis::Executed;
use crate::sim::redis::reply::Reply;

/// An applied mutation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// Its operation id, or a name for it.
    pub id: Vec<u8>,
    /// The owner's part of keys and marks.
    pub owner: String,
    /// The version that it gave the owner.
    pub version: u64,
    /// The version that the owner had to have.
    pub wanted: Option<u64>,
    /// The session, if the mutation is a save.
    pub fence: Option<Fence>,
    /// Whether the session ended with it.
    pub closes: bool,
    /// The place of its note.
    pub place: Option<Position>,
    /// The fields that it names, with its effect on each.
    pub changes: Vec<(String, Change)>,
}

impl Applied {
    /// Reads a script that ran: its changes of owners, and its answers about changes of earlier
    /// copies.
    pub fn all(executed: &Executed<'_>) -> Vec<Self> {
        match (executed.name, executed.reply) {
            ("update", Reply::Bulk(reply)) => updates(executed, reply),
            ("mutate", Reply::Bulk(reply)) => mutated(executed, reply),
            ("transact", Reply::Bulk(reply)) => transacted(executed, reply),
            _ => Vec::new(),
        }
    }
}

/// The changes of `update.lua`: eight arguments, an owner for each write, and then the writes
/// themselves. A write has no id. The name of its store, its partition, the number of its call and
/// its place in the call stand for it.
fn updates(executed: &Executed<'_>, reply: &[u8]) -> Vec<Applied> {
    let mut applied = Vec::new();
    let (Some([store, number]), Some(record)) = (executed.argv.get(5..7), executed.keys.get(1))
    else {
        return applied;
    };
    let owners = executed.keys.get(8..).unwrap_or_default().chunks(2);
    let mut rest = executed.argv.get(8 + owners.len()..).unwrap_or_default();
    for (place, (reply, keys)) in reply.split(|byte| *byte == b'\n').zip(owners).enumerate() {
        let Some(head) = rest.first().and_then(|head| text(head)) else {
            break;
        };
        let (head, body) = match head.strip_suffix('!') {
            Some(head) => (head, 1),
            None => (head, 0),
        };
        let Some((count, kind)) = count_and_kind(head) else {
            break;
        };
        // If there are several fields, their names come first.
        let pairs_at = if count == 1 { 1 } else { 2 };
        let Some((update, after)) = rest.split_at_checked(pairs_at + 2 * count) else {
            break;
        };
        rest = after.get(body..).unwrap_or_default();
        if reply.first().is_some_and(u8::is_ascii_digit) {
            let id = [
                store,
                record.as_slice(),
                number,
                b"/",
                place.to_string().as_bytes(),
            ]
            .concat();
            applied.extend(updated(
                &id,
                kind,
                update.get(pairs_at..).unwrap_or_default(),
                keys,
                reply,
            ));
        }
    }
    applied
}

/// "N", "N=VERSION", "N@FENCE" or "N+": the number of fields, the operation on them, and its
/// condition.
fn count_and_kind(head: &str) -> Option<(usize, &str)> {
    let (count, kind) = head.split_at(head.find(['=', '+', '@']).unwrap_or(head.len()));
    Some((count.parse().ok()?, kind))
}

fn updated(
    id: &[u8],
    kind: &str,
    pairs: &[Vec<u8>],
    keys: &[Vec<u8>],
    reply: &[u8],
) -> Option<Applied> {
    let (answer, place) = placed(text(reply)?);
    let mut answer = answer.split(' ');
    let version = answer.next()?.parse().ok()?;
    let mut counters = answer.skip(1);
    let mut change = |pair: &[Vec<u8>]| {
        let [field, argument] = pair else { return None };
        let change = match kind {
            "+" => Change::Incr(
                text(argument)?.parse().ok()?,
                counters.next()?.parse().ok()?,
            ),
            _ => Change::Set(argument.clone()),
        };
        Some((text(field)?.to_owned(), change))
    };
    let changes = pairs.chunks(2).map(&mut change).collect::<Option<_>>()?;
    let wanted = kind
        .strip_prefix('=')
        .and_then(|version| version.parse().ok());
    let fence = kind.strip_prefix('@').and_then(fence_of);
    Some(Applied {
        id: id.to_vec(),
        owner: owner(keys)?,
        version,
        wanted,
        fence,
        closes: false,
        place,
        changes,
    })
}

/// The keys of `mutate.lua` before those of its owners.
const KEYS: usize = 14;
/// Its arguments before those of its owners, and those of an owner before its changes.
const HEAD: usize = 5;
const PART: usize = 8;

/// The changes of `mutate.lua`, of each of its owners.
fn mutated(executed: &Executed<'_>, reply: &[u8]) -> Vec<Applied> {
    let id = executed.argv.first().cloned().unwrap_or_default();
    let keys = executed.keys.get(KEYS..).unwrap_or_default();
    let mut argv = executed.argv.get(HEAD..).unwrap_or_default();
    changes_of(&id, &mut argv, keys, reply)
}

/// The changes of one write: of each of its owners. A reply without a count of changes is a
/// remembered one. The first owner's changes have the write's id, those of a further owner its place
/// behind that. The arguments of the owners are taken off `argv`.
fn changes_of(id: &[u8], argv: &mut &[Vec<u8>], keys: &[Vec<u8>], reply: &[u8]) -> Vec<Applied> {
    let mut applied = Vec::new();
    let mut lines = reply.split(|byte| *byte == b'\n');
    for (place, keys) in keys.chunks(2).enumerate() {
        let Some((part, rest)) = argv.split_at_checked(PART) else {
            break;
        };
        let Some([count, expected, load]) = sizes(part) else {
            break;
        };
        let mut id = id.to_vec();
        if place > 0 {
            id.extend(format!("/{place}").bytes());
        }
        let changes = rest.get(..3 * count).unwrap_or_default();
        if let Some(line) = lines.next() {
            applied.extend(changed(&id, part, changes, keys, line));
        }
        *argv = rest
            .get(3 * count + 2 * expected + load..)
            .unwrap_or_default();
    }
    applied
}

/// The keys of `transact.lua` before those of its owners, and its arguments before those of its
/// writes.
const TRANSACT_KEYS: usize = 12;
const TRANSACT_HEAD: usize = 7;

/// The changes of `transact.lua`, of each owner of each write. As in `updates`, the call and the
/// place in it stand for a write's id.
fn transacted(executed: &Executed<'_>, reply: &[u8]) -> Vec<Applied> {
    let mut applied = Vec::new();
    let (Some([store, number]), Some(record)) = (executed.argv.get(4..6), executed.keys.first())
    else {
        return applied;
    };
    let mut keys = executed.keys.get(TRANSACT_KEYS..).unwrap_or_default();
    let mut argv = executed.argv.get(TRANSACT_HEAD..).unwrap_or_default();
    let mut answers = Answers(reply.get(1..).unwrap_or_default());
    let mut place = 0;
    while let Some((owners, rest)) = argv.split_first() {
        let Some(count) = text(owners).and_then(|count| count.parse::<usize>().ok()) else {
            break;
        };
        let Some((own, others)) = keys.split_at_checked(2 * count) else {
            break;
        };
        (argv, keys) = (rest, others);
        let number_in_call = place.to_string();
        let id = [
            store,
            record.as_slice(),
            number,
            b"/",
            number_in_call.as_bytes(),
        ];
        let answer = answers.next().unwrap_or_default();
        applied.extend(changes_of(&id.concat(), &mut argv, own, answer));
        place += 1;
    }
    applied
}

/// The answers that `transact.lua` keeps, without those that refuse.
struct Answers<'a>(&'a [u8]);

impl<'a> Answers<'a> {
    /// The next text. Empty if the write was refused.
    fn next(&mut self) -> Option<&'a [u8]> {
        let words = self.number(b' ')?;
        if words == 0 {
            return self.word();
        }
        for _ in 0..words {
            self.word()?;
        }
        Some(b"")
    }

    fn word(&mut self) -> Option<&'a [u8]> {
        let length = self.number(b':')?;
        let (word, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(word)
    }

    fn number(&mut self, end: u8) -> Option<usize> {
        let at = self.0.iter().position(|byte| *byte == end)?;
        let (number, rest) = self.0.split_at_checked(at)?;
        self.0 = rest.get(1..)?;
        text(number)?.parse().ok()
    }
}

/// The number of changes, of expected fields, and of arguments of the load.
fn sizes(part: &[Vec<u8>]) -> Option<[usize; 3]> {
    let size = |at: usize| text(part.get(at)?)?.parse().ok();
    Some([size(5)?, size(6)?, size(7)?])
}

/// The changes of one owner. None if there are none, or if the reply is a remembered one.
fn changed(
    id: &[u8],
    part: &[Vec<u8>],
    named: &[Vec<u8>],
    keys: &[Vec<u8>],
    line: &[u8],
) -> Option<Applied> {
    let (answer, place) = placed(text(line)?);
    let mut answer = answer.split(' ');
    let version = answer.next()?.parse().ok()?;
    if answer.next()? == "0" {
        return None; // only its id is remembered
    }
    let counters: Vec<i64> = answer.map(str::parse).collect::<Result<_, _>>().ok()?;
    let changes = changes(named, &counters)?;
    Some(Applied {
        id: id.to_vec(),
        owner: owner(keys)?,
        version,
        wanted: text(part.get(1)?)?.parse().ok(),
        fence: fence_of(text(part.get(2)?)?),
        closes: part.get(3)? == b"1",
        place,
        changes,
    })
}

/// An answer without the place of its note, and that place.
fn placed(line: &str) -> (&str, Option<Position>) {
    match line.split_once(" @") {
        Some((answer, place)) => (answer, place.parse().ok()),
        None => (line, None),
    }
}

/// The owner, id and version of a mutation if `mutate.lua` only says that it was applied before.
pub fn said_to_be_applied(executed: &Executed<'_>) -> Option<(String, Vec<u8>, u64)> {
    let ("mutate", Reply::Bulk(reply)) = (executed.name, executed.reply) else {
        return None;
    };
    let owner = owner(executed.keys.get(KEYS..)?)?;
    let id = executed.argv.first()?.clone();
    Some((owner, id, text(reply)?.parse().ok()?))
}

fn owner(keys: &[Vec<u8>]) -> Option<String> {
    Some(text(keys.first()?)?.split_once("}:")?.1.to_owned())
}

/// The changes of one owner: field, operation and argument of each.
fn changes(named: &[Vec<u8>], counters: &[i64]) -> Option<Vec<(String, Change)>> {
    let mut counters = counters.iter();
    let mut change = |change: &[Vec<u8>]| {
        let [field, operation, argument] = change else {
            return None;
        };
        let change = match operation.as_slice() {
            b"set" => Change::Set(argument.clone()),
            b"incr" => Change::Incr(text(argument)?.parse().ok()?, *counters.next()?),
            b"add" => {
                let step = text(argument)?.split(' ').next()?;
                Change::Incr(step.parse().ok()?, *counters.next()?)
            }
            b"remove" => Change::Remove,
            b"restore" => Change::Restore,
            b"purge" => Change::Purge,
            _ => return None,
        };
        Some((text(field)?.to_owned(), change))
    };
    named.chunks_exact(3).map(&mut change).collect()
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
