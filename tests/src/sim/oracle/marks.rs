//! R1, R2 and the exist marker (R7) in the keys of the model of Redis, at any moment between two
//! scripts.

use std::collections::BTreeMap;

use storage_model::Field;

use super::history::owner_of;
use super::slot::Slot;
use crate::sim::database::tables::Tables;
use crate::sim::redis::data::Data;

/// The separator after the field of an error mark.
const SEPARATOR: char = '\u{1f}';

/// Whether the marker of an owner with a hash may stand beside this version source.
fn fits(marker: &[u8], source: u64) -> bool {
    let text = std::str::from_utf8(marker).unwrap_or_default();
    let number = text.strip_prefix('?').unwrap_or(text).parse::<u64>();
    number.is_ok_and(|number| number <= source)
}

/// The violation by marks and times to live, if any: its owner, and its description. With `rows`,
/// hashes whose changes have all landed are also compared with their rows. They may differ only
/// after Redis came back older.
#[must_use]
pub fn check(data: &Data, rows: Option<&Tables>) -> Option<(String, String)> {
    let marks = marks(data);
    for key in data.keys.keys() {
        let Some((partition, owner)) = owner_key(key) else {
            continue;
        };
        let Ok(Some(hash)) = data.keys.hash(key) else {
            return wrong(owner, "V5: the key holds no hash");
        };
        // The first word of the version's field.
        let first = |text: &Vec<u8>| {
            std::str::from_utf8(text)
                .ok()?
                .split(' ')
                .next()?
                .parse::<u64>()
                .ok()
        };
        let number = |name: &str| hash.get(name.as_bytes()).and_then(first);
        let Some(version) = number(":v") else {
            return wrong(owner, "V5: it has no version");
        };
        let marker = data
            .keys
            .text(format!("slug-exist:{{{partition}}}:{owner}").as_bytes())
            .ok()
            .flatten();
        // A script that makes a hash gives it a number. A marker may vanish, and an observation sets
        // another one.
        let source = data
            .keys
            .hash(format!("slug-part:{{{partition}}}").as_bytes())
            .ok()
            .flatten();
        let source = source
            .and_then(|part| part.get(b"src".as_slice()).and_then(first))
            .unwrap_or_default();
        if version > source || !marker.is_none_or(|text| fits(text, source)) {
            let marker = marker.map(|marker| String::from_utf8_lossy(marker).into_owned());
            return wrong(
                owner,
                &format!(
                    "R7: versions have come to {source}, but it has {version}, and its marker is {marker:?}"
                ),
            );
        }
        if let Some(born) = number(":b") {
            return wrong(
                owner,
                &format!("R6: it was born at {born}, so the hash before it was lost"),
            );
        }
        let named = marks
            .get(&(partition, owner))
            .map(Vec::as_slice)
            .unwrap_or_default();
        if let Some(ahead) = named.iter().find(|mark| **mark > version) {
            return wrong(
                owner,
                &format!("V5: it has version {version}, and a mark of {ahead}"),
            );
        }
        let lasts = data.keys.left(key) == Some(None);
        let held = data
            .keys
            .hash(format!("slug-sess:{{{partition}}}").as_bytes())
            .ok()
            .flatten();
        let held = held.is_some_and(|held| held.contains_key(owner.as_bytes()));
        if lasts != (held || !named.is_empty()) {
            let how = if lasts { "lasts" } else { "ends" };
            return wrong(
                owner,
                &format!("V5: with the marks {named:?} it {how}; a session holds it: {held}"),
            );
        }
        if let Some(different) = rows
            .filter(|_| named.is_empty())
            .and_then(|rows| different(owner, hash, rows))
        {
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
    std::str::from_utf8(key)
        .ok()?
        .strip_prefix("slug-data:{")?
        .split_once("}:")
}

/// The versions of all marks that name an owner.
fn marks(data: &Data) -> BTreeMap<(&str, &str), Vec<u64>> {
    let mut marks: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for key in data.keys.keys() {
        let map = std::str::from_utf8(key)
            .ok()
            .and_then(|key| key.strip_prefix("slug-marks:{")?.split_once('}'));
        let Some((partition, "" | ":saving" | ":error" | ":landed" | ":expiring")) = map else {
            continue;
        };
        for (name, value) in data.keys.hash(key).ok().flatten().into_iter().flatten() {
            if let (Ok(owner), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value))
            {
                marks
                    .entry((partition, owner))
                    .or_default()
                    .extend(versions_of(value));
            }
        }
    }
    marks
}

/// The versions of marks. For a mark, the 14 hexadecimal digits before its fields. For error marks,
/// the first word of each line after the field.
fn versions_of(value: &str) -> Vec<u64> {
    let mark = value
        .get(..14)
        .and_then(|version| u64::from_str_radix(version, 16).ok());
    let refused = |line: &str| {
        line.split_once(SEPARATOR)?
            .1
            .split(' ')
            .next()?
            .parse()
            .ok()
    };
    mark.map_or_else(
        || value.lines().filter_map(refused).collect(),
        |version| vec![version],
    )
}

/// The difference between a hash without marks and its rows.
fn different(
    owner: &str,
    hash: &super::super::redis::keyspace::Hash,
    rows: &Tables,
) -> Option<String> {
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
            return Some(format!(
                "V5: {field} is {slot:?} without a mark, but its row is {row:?}"
            ));
        }
    }
    None
}
