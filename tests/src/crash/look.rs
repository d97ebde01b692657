//! Redis at one moment, and the conditions that hold at every moment.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use storage_model::Cell;
use storage_servers::Reply;

use crate::rows::StoredRow;

/// The separator between the fields of a mark, and after the field of an error mark.
const SEPARATOR: char = '\u{1f}';
/// The number of digits of a mark's version, before its fields.
const VERSION: usize = 14;

/// The keys of Redis under one prefix.
#[derive(Debug, Default)]
pub struct Look {
    keys: Vec<String>,
    /// Owner hashes, by `logic_type/owner_id`.
    hashes: BTreeMap<String, Hash>,
    /// The marks of dirty maps, snapshots, error maps: an owner's name and changed fields.
    marks: [Vec<(String, Vec<String>)>; 3],
    /// How many notes are in streams.
    notes: usize,
    /// Locks, leases, announcements, and evictions that wait.
    passing: Vec<String>,
    /// The holder of each owner in a session.
    sessions: BTreeMap<String, Holder>,
    /// Owners whose holder was gone.
    lapsed: BTreeSet<String>,
    /// Owners that a process asks for.
    asked: BTreeSet<String>,
    /// The holders that beat.
    beats: BTreeSet<Holder>,
}

/// A partition, and a process that holds owners in it.
type Holder = (String, String);

#[derive(Debug, Default)]
struct Hash {
    version: u64,
    /// Milliseconds. None if the key stays.
    ttl: Option<i64>,
    cells: BTreeMap<String, Cell>,
}

impl Look {
    /// Reads the reply of `look.lua`.
    pub(super) fn of(reply: Reply, prefix: &str) -> Result<Self> {
        let mut look = Self::default();
        for key in array(reply)? {
            let [name, ttl, content] = <[Reply; 3]>::try_from(array(key)?)
                .ok()
                .context("a key without content")?;
            let (name, Reply::Integer(ttl)) = (name.text()?.to_owned(), ttl) else {
                bail!("no time to live")
            };
            look.add(&name, prefix, ttl, &pairs(content)?)?;
            look.keys.push(name);
        }
        Ok(look)
    }

    fn add(
        &mut self,
        name: &str,
        prefix: &str,
        ttl: i64,
        content: &[(Bytes, Bytes)],
    ) -> Result<()> {
        let rest = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_prefix('-'))
            .context("another's key")?;
        let (kind, rest) = rest.split_once(':').unwrap_or((rest, ""));
        let [dirty, saving, error] = &mut self.marks;
        match (kind, rest.split_once("}:").map(|(_, rest)| rest)) {
            ("data", Some(owner)) => {
                self.hashes.insert(place(owner)?, hash(ttl, content)?);
            }
            ("marks", None) => dirty.extend(marks(content)?),
            ("marks", Some("saving")) => saving.extend(marks(content)?),
            ("marks", Some("error")) => error.extend(refused(content)?),
            ("notes", None) => {
                for (_, length) in content {
                    self.notes += std::str::from_utf8(length)?.parse::<usize>()?;
                }
            }
            ("lock" | "workers" | "evict", None) | ("lease", Some(_)) => {
                self.passing.push(name.to_owned())
            }
            ("sess", None) => {
                let held = |(owner, text): &(Bytes, Bytes)| {
                    Ok((owner_in(owner)?, (rest.to_owned(), holder_in(text)?)))
                };
                self.sessions
                    .extend(content.iter().map(held).collect::<Result<Vec<_>>>()?);
            }
            ("sess", Some("lapsed")) => self.lapsed.extend(owners(content)?),
            ("sess", Some("asked")) => self.asked.extend(owners(content)?),
            ("beats", None) => {
                let beats = |(holder, _): &(Bytes, Bytes)| {
                    Ok((rest.to_owned(), std::str::from_utf8(holder)?.to_owned()))
                };
                self.beats
                    .extend(content.iter().map(beats).collect::<Result<Vec<_>>>()?);
            }
            ("exist", Some(_)) | ("part" | "meta", None) | ("ops", Some(_)) => {}
            // Links without marks lead nowhere.
            ("links", None | Some("saving")) => {}
            _ => bail!("the storage writes no key {name:?}"),
        }
        Ok(())
    }

    /// The names of all keys.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The number of marks and notes that wait to land.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let [dirty, saving, _] = &self.marks;
        dirty.len() + saving.len() + self.notes
    }

    /// The number of rejected marks.
    #[must_use]
    pub fn refused(&self) -> usize {
        let [_, _, error] = &self.marks;
        error.len()
    }

    /// The ids of owners that are held in sessions.
    #[must_use]
    pub fn held(&self) -> Vec<String> {
        self.sessions
            .keys()
            .filter_map(|owner| owner.split('/').nth(1))
            .map(str::to_owned)
            .collect()
    }

    /// Checks the conditions of every moment: a marked hash stays, and a field that differs from an
    /// older row has a mark.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn check(&self, rows: &[StoredRow]) -> Result<()> {
        let mut rows_of: BTreeMap<&str, BTreeMap<&str, &StoredRow>> = BTreeMap::new();
        for row in rows {
            let (owner, field) = row.name.rsplit_once('/').context("a row's name")?;
            rows_of.entry(owner).or_default().insert(field, row);
        }
        for (owner, hash) in &self.hashes {
            let named = self.marks_of(owner)?;
            ensure!(
                named.is_empty() || hash.ttl.is_none(),
                "{owner} has marks of {named:?} and {:?} ms to live",
                hash.ttl
            );
            for (field, cell) in &hash.cells {
                let row = rows_of
                    .get(owner.as_str())
                    .and_then(|rows| rows.get(field.as_str()));
                let landed =
                    row.is_some_and(|row| row.version >= hash.version || cell_of(row) == *cell);
                let marked = named.contains(&field.as_str());
                ensure!(
                    landed || marked,
                    "{owner}/{field} is {cell:?} at {}, its row is {row:?}, and it has no mark",
                    hash.version
                );
            }
        }
        self.check_sessions()
    }

    /// Checks the conditions on sessions of every moment: the hash of a held owner stays, and its
    /// holder beats, so that its death is noticed.
    fn check_sessions(&self) -> Result<()> {
        for (owner, holder) in &self.sessions {
            let ttl = self.hashes.get(owner).and_then(|hash| hash.ttl);
            ensure!(ttl.is_none(), "{owner} is held and has {ttl:?} ms to live");
            ensure!(
                self.beats.contains(holder),
                "{owner} is held by {holder:?}, and only {:?} beat",
                self.beats
            );
            ensure!(
                !self.lapsed.contains(owner),
                "{owner} is held, and its session has lapsed"
            );
        }
        for owner in &self.asked {
            ensure!(
                self.sessions.contains_key(owner),
                "{owner} is asked for, and has no holder"
            );
        }
        Ok(())
    }

    /// Checks the conditions after everything has landed and no process works.
    ///
    /// # Errors
    /// The condition that does not hold.
    pub fn check_quiet(&self) -> Result<()> {
        ensure!(
            self.marks.iter().all(Vec::is_empty),
            "marks are left: {:?}",
            self.marks
        );
        ensure!(
            self.passing.is_empty(),
            "locks, leases, announcements or evictions are left: {:?}",
            self.passing
        );
        let held = (&self.sessions, &self.lapsed, &self.asked);
        ensure!(
            held.0.is_empty() && held.1.is_empty() && held.2.is_empty(),
            "sessions are left: {held:?}"
        );
        let lasting: Vec<_> = self
            .hashes
            .iter()
            .filter(|(_, hash)| hash.ttl.is_none())
            .map(|(owner, _)| owner)
            .collect();
        ensure!(
            lasting.is_empty(),
            "landed, but never to expire: {lasting:?}"
        );
        Ok(())
    }

    /// The fields that marks name of an owner.
    fn marks_of(&self, owner: &str) -> Result<Vec<&str>> {
        let mut found = Vec::new();
        for (name, fields) in self.marks.iter().flatten() {
            if place(name)? == owner {
                found.extend(fields.iter().map(String::as_str));
            }
        }
        Ok(found)
    }
}

/// The cell of a row.
pub(super) fn cell_of(row: &StoredRow) -> Cell {
    Cell::from_row(row.is_del, Bytes::from(row.value.clone()))
}

/// `logic_type/owner_id`, of the names in keys and marks: app, region, logic type, owner id.
fn place(owner: &str) -> Result<String> {
    let mut parts = owner.split(':').skip(2);
    let (Some(logic_type), Some(id)) = (parts.next(), parts.next()) else {
        bail!("no owner: {owner:?}")
    };
    Ok(format!("{logic_type}/{id}"))
}

/// `logic_type/owner_id`, of a name in the maps.
fn owner_in(name: &Bytes) -> Result<String> {
    place(std::str::from_utf8(name)?)
}

fn owners(content: &[(Bytes, Bytes)]) -> Result<Vec<String>> {
    content.iter().map(|(owner, _)| owner_in(owner)).collect()
}

/// The holder in a session: version and token of the fence, epoch, holder, the asking process, the
/// holder's name.
fn holder_in(session: &Bytes) -> Result<String> {
    Ok(std::str::from_utf8(session)?
        .split(' ')
        .nth(3)
        .context("a session without a holder")?
        .to_owned())
}

fn hash(ttl: i64, content: &[(Bytes, Bytes)]) -> Result<Hash> {
    let mut hash = Hash {
        ttl: (ttl >= 0).then_some(ttl),
        ..Hash::default()
    };
    for (name, value) in content {
        let (name, text) = (std::str::from_utf8(name)?, || {
            anyhow::Ok(std::str::from_utf8(value)?)
        });
        match name.strip_prefix(':') {
            None => drop(
                hash.cells
                    .insert(name.to_owned(), Cell::Live(value.clone())),
            ),
            Some("v") => hash.version = text()?.split(' ').next().unwrap_or_default().parse()?,
            Some(reserved) => {
                if let Some(field) = reserved.strip_prefix("d:") {
                    let cell = if value.starts_with(b"r") {
                        Cell::Removed(value.slice(1..))
                    } else {
                        Cell::Purged
                    };
                    hash.cells.insert(field.to_owned(), cell);
                }
            }
        }
    }
    Ok(hash)
}

/// A version, and then the fields.
fn marks(content: &[(Bytes, Bytes)]) -> Result<Vec<(String, Vec<String>)>> {
    let mark = |(name, value): &(Bytes, Bytes)| {
        let fields = std::str::from_utf8(value)?
            .get(VERSION..)
            .context("a mark without fields")?;
        Ok((
            std::str::from_utf8(name)?.to_owned(),
            fields.split(SEPARATOR).map(str::to_owned).collect(),
        ))
    };
    content.iter().map(mark).collect()
}

/// A line for each field.
fn refused(content: &[(Bytes, Bytes)]) -> Result<Vec<(String, Vec<String>)>> {
    let entry = |(name, value): &(Bytes, Bytes)| {
        let field = |line: &str| line.split(SEPARATOR).next().unwrap_or_default().to_owned();
        Ok((
            std::str::from_utf8(name)?.to_owned(),
            std::str::from_utf8(value)?.lines().map(field).collect(),
        ))
    };
    content.iter().map(entry).collect()
}

fn array(reply: Reply) -> Result<Vec<Reply>> {
    match reply {
        Reply::Array(items) => Ok(items),
        other => bail!("not an array: {other:?}"),
    }
}

fn pairs(reply: Reply) -> Result<Vec<(Bytes, Bytes)>> {
    let mut items = array(reply)?.into_iter();
    let mut pairs = Vec::new();
    while let (Some(Reply::Bytes(name)), Some(Reply::Bytes(value))) = (items.next(), items.next()) {
        pairs.push((Bytes::from(name), Bytes::from(value)));
    }
    Ok(pairs)
}
