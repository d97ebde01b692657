//! Notes and their events: F1 to F5.

use std::collections::{BTreeMap, BTreeSet};

use storage_model::{Content, Event, Note, Partition, Position};

use super::book::part;
use super::history::owner_of;
use crate::sim::database::tables::Tables;

/// A noted write: its owner and the version that it gave.
type Noted = (String, u64);

/// The noted writes, as the scripts applied them.
#[derive(Debug, Clone, Default)]
pub(super) struct Feed {
    /// All noted writes that were ever applied, with their places.
    ever: BTreeMap<Noted, Position>,
    /// Those that Redis still has, by the ids of their mutations.
    alive: BTreeMap<Vec<u8>, Noted>,
    /// Those whose changes have landed, or were overwritten by what landed.
    landed: BTreeSet<Noted>,
    /// Those that had landed when a gap told readers to read all owners of the partition.
    told: BTreeSet<Noted>,
    /// The gaps that were told.
    gaps: BTreeSet<(Partition, Position)>,
    /// The number of times that Redis came back with earlier data.
    rewinds: usize,
}

impl Feed {
    /// A noted write was applied.
    pub(super) fn applied(&mut self, id: &[u8], owner: &str, version: u64, place: Position) {
        let noted = (owner.to_owned(), version);
        self.ever.insert(noted.clone(), place);
        self.alive.insert(id.to_vec(), noted);
    }

    /// Redis came back with these mutations.
    pub(super) fn rewind(&mut self, kept: &BTreeMap<Vec<u8>, u64>) {
        self.alive.retain(|id, _| kept.contains_key(id));
        self.rewinds += 1;
    }

    /// The database has forgotten commits, perhaps also of rows.
    pub(super) fn forget(&mut self) {
        self.landed.clear();
        self.told.clear();
    }

    /// Rows of an owner have landed at this version.
    pub(super) fn committed(&mut self, owner: &str, version: u64) {
        let alive = self.alive.values();
        let reached = alive.filter(|(of, at)| of == owner && *at <= version);
        self.landed.extend(reached.cloned());
    }

    /// The first wrong event of a feed.
    ///
    /// A gap tells all that has landed before it in its partition. Nobody deletes notes here. So a
    /// gap is due only after Redis came back older than the feed: from before an epoch that the feed
    /// has events of.
    pub(super) fn check(&mut self, partition: Partition, tables: &Tables) -> Option<String> {
        let (mut last, mut seen) = (Position::ZERO, BTreeSet::new());
        for event in tables.events(partition) {
            if event.position <= last {
                return Some(format!("F2: {event:?} comes after {last}"));
            }
            let is_next = event.position.number == last.number + 1;
            let is_gap = event.content == Content::Gap;
            if is_gap && self.gaps.insert((partition, event.position)) {
                let count = tables.partition_count();
                let landed = self.landed.iter();
                let of_gap = |(owner, _): &&Noted| {
                    owner_of(owner).is_some_and(|owner| owner.partition(count) == partition)
                };
                self.told.extend(landed.filter(of_gap).cloned());
            }
            if is_gap && self.rewinds == 0 || !is_gap && !is_next {
                return Some(format!(
                    "F5: {event:?} comes after {last}, and no note was deleted"
                ));
            }
            last = event.position;
            if let Content::Note(note) = &event.content {
                let noted = (part(&note.owner), note.version.get());
                if self.ever.get(&noted) != Some(&event.position) {
                    return Some(format!("F1: no write has left {event:?}"));
                }
                if !seen.insert(noted) {
                    return Some(format!("F2: {event:?} is told twice"));
                }
            }
        }
        None
    }

    /// A change that has landed and that no event tells.
    pub(super) fn untold(&self, tables: &Tables) -> Option<(String, String)> {
        let events: Vec<&Event> = tables.all_events().collect();
        let tells = |(owner, version): &&Noted| {
            events.iter().any(|event| match &event.content {
                Content::Note(Note {
                    owner: of,
                    version: at,
                    ..
                }) => part(of) == *owner && at.get() == *version,
                Content::Resync { owner: of } => part(of) == *owner,
                _ => false,
            })
        };
        let mut landed = self.landed.difference(&self.told);
        let (owner, version) = landed.find(|noted| !tells(noted))?;
        let what = format!("F4: no event tells the change at version {version}, which has landed");
        Some((owner.clone(), what))
    }
}
