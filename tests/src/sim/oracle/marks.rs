//! R1, R2 and the exist marker (R7) in the keys of the model of Redis, at any moment between two scripts.

use std::collections::BTreeMap;

use storage_model::Field;

use super::history::owner_of;
use super::slot::Slot;
use crate::sim::database::tables::Tables;
use crate::sim::redis::data::Data;

const SEPARATOR: u8 = 0x1F;

/// What is wrong with marks and times to live, if anything is: of which owner, and what. With `rows`, hashes whose changes have all landed
/// are compared with their rows too; they may differ only after Redis came back older.
#[must_use]
pub fn check(data: &Data, rows: Option<&Tables>) -> Option<(String, String)> {
    let marks = marks(data);
    for key in data.keys.keys() {
        let Some((partition, owner)) = owner_key(key) else { continue };
        let Ok(Some(hash)) = data.keys.hash(key) else { return wrong(owner, "V5: what is there is no hash") };
        // Of the version's field the first word.
        let first = |text: &Vec<u8>| std::str::from_utf8(text).ok()?.split(' ').next()?.parse::<u64>().ok();
        let number = |name: &str| hash.get(name.as_bytes()).and_then(first);
        let Some(version) = number(":v") else { return wrong(owner, "V5: it has no version") };
        // A clean hash has neither.
        let (born, count) = match (number(":b"), number(":n")) {
            (None, None) => (version, 0),
            (Some(born), Some(count)) if count > 0 => (born, count),
            other => return wrong(owner, &format!("V5: birth and count are {other:?}")),
        };
        let marker = data.keys.text(format!("slug-exist:{{{partition}}}:{owner}").as_bytes()).ok().flatten();
        // Raised by each write of a clean owner, so while it is marked it is younger than its birth.
        if marker.and_then(first).is_none_or(|marker| marker > version || (count > 0 && marker <= born)) {
            let marker = marker.map(|marker| String::from_utf8_lossy(marker).into_owned());
            return wrong(owner, &format!("R7: it was born at {born} and has version {version}, but its marker is {marker:?}"));
        }
        let named = marks.get(&(partition, owner)).map(Vec::as_slice).unwrap_or_default();
        let outstanding = named.iter().filter(|version| **version > born).count();
        if u64::try_from(outstanding) != Ok(count) {
            return wrong(owner, &format!("V5: it counts {count} marks, but {outstanding} of {named:?} are there since {born}"));
        }
        let lasts = data.keys.left(key) == Some(None);
        if lasts != (count > 0) {
            return wrong(owner, &format!("V5: with {count} marks it {}", if lasts { "lasts" } else { "ends" }));
        }
        if let Some(different) = rows.filter(|_| count == 0).and_then(|rows| different(owner, hash, rows)) {
            return wrong(owner, &different);
        }
    }
    None
}

fn wrong(owner: &str, what: &str) -> Option<(String, String)> {
    Some((owner.to_owned(), what.to_owned()))
}

/// Partition and owner of an owner hash's key.
fn owner_key(key: &[u8]) -> Option<(&str, &str)> {
    std::str::from_utf8(key).ok()?.strip_prefix("slug-data:{")?.split_once("}:")
}

/// The version that a load of an owner must have observed to be believed.
pub fn born(data: &Data, owner: &str) -> Option<u64> {
    let key = data.keys.keys().find(|key| owner_key(key).is_some_and(|(_, of)| of == owner))?;
    let hash = data.keys.hash(key).ok()??;
    let text = hash.get(b":b".as_slice()).or_else(|| hash.get(b":v".as_slice()))?;
    std::str::from_utf8(text).ok()?.split(' ').next()?.parse().ok()
}

/// The versions of all marks that name an owner.
fn marks(data: &Data) -> BTreeMap<(&str, &str), Vec<u64>> {
    let mut marks: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for key in data.keys.keys() {
        let map = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix("slug-dirty:{")?.split_once('}'));
        let Some((partition, "" | ":saving" | ":error" | ":landed" | ":leaving")) = map else { continue };
        for (mark, value) in data.keys.hash(key).ok().flatten().into_iter().flatten() {
            let owner = mark.split(|byte| *byte == SEPARATOR).next().and_then(|owner| std::str::from_utf8(owner).ok());
            if let (Some(owner), Some(version)) = (owner, version_of(value)) {
                marks.entry((partition, owner)).or_default().push(version);
            }
        }
    }
    marks
}

/// Of a mark, 14 hexadecimal digits; of an error mark, its first word.
fn version_of(value: &[u8]) -> Option<u64> {
    let value = std::str::from_utf8(value).ok()?;
    match value.split_once(' ') {
        Some((first, _)) => first.parse().ok(),
        None => u64::from_str_radix(value, 16).ok(),
    }
}

/// How a hash without marks differs from its rows.
fn different(owner: &str, hash: &super::super::redis::keyspace::Hash, rows: &Tables) -> Option<String> {
    let of = owner_of(owner)?;
    for (name, value) in hash {
        let (field, slot) = match name.strip_prefix(b":d:") {
            Some(field) if value.first() == Some(&b'p') => (field, Slot::Purged),
            Some(field) => (field, Slot::Removed(value.get(1..)?.to_vec())),
            None if name.first() == Some(&b':') => continue,
            None => (name.as_slice(), Slot::Live(value.clone())),
        };
        let field = Field::new(std::str::from_utf8(field).ok()?).ok()?;
        let row = rows.row(&of, &field).map(|kept| Slot::of(&kept.cell));
        if row.as_ref() != Some(&slot) {
            return Some(format!("V5: {field} is {slot:?} without a mark, but its row is {row:?}"));
        }
    }
    None
}
