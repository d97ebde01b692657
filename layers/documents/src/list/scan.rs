//! The items of a collection in the order of their ids, from both tiers.

use std::collections::{BTreeMap, BTreeSet};

use storage_sdk::feed::{Content, Position};
use storage_sdk::layer::RowRange;
use storage_sdk::{ByteOwner, Bytes, Field, Timestamp, Version};

use super::query::Query;
use super::{Item, SKIP_MAX};
use crate::collection::{ids_of, item_of};
use crate::event::Event;
use crate::stored::{BODY, ITEM, document_of};
use crate::{Documents, Error, Kind, Place, Result};

/// The most statements of one list.
const STATEMENTS_MAX: usize = 20;
/// The items of the first statement, and of later ones.
const FIRST_ROWS: usize = 128;
const MORE_ROWS: usize = 1_024;
/// About how many bytes one statement reads.
const STATEMENT_BYTES: usize = 8 << 20;
/// The most notes of a partition that a list reads.
const NOTES_MAX: usize = 100_000;

/// A pass over the items of a collection.
pub(super) struct Scan<'a> {
    documents: &'a Documents,
    collection: &'a str,
    generation: u64,
    /// The ids that are still to be read lie between these.
    range: RowRange,
    /// Items with changes that have not landed.
    fresh: BTreeSet<String>,
    /// The owner's id of the last item that was passed.
    place: Option<String>,
    statements: usize,
    is_done: bool,
    now: Timestamp,
}

/// The state of an item in one of the tiers.
type ItemState = Option<(Bytes, Version)>;

impl<'a> Scan<'a> {
    pub(super) async fn begin(
        documents: &'a Documents,
        collection: &'a str,
        generation: u64,
        query: &Query,
    ) -> Result<Self> {
        let (from, before) = ids_of(collection, generation);
        let body = Field::new(BODY).map_err(storage_sdk::Error::from)?;
        let limit = FIRST_ROWS.min(query.size.saturating_add(1)).max(2);
        let mut range = RowRange::new(documents.world.scope().clone(), ITEM, vec![body])
            .between(from, before)
            .limit(limit);
        range.backwards = query.is_backwards();
        let mut scan = Self {
            documents,
            collection,
            generation,
            range,
            fresh: BTreeSet::new(),
            place: None,
            statements: 0,
            is_done: false,
            now: documents.clock.now(),
        };
        scan.narrow(query)?;
        // ORDER: the notes before the rows. A note that has landed in between has its row by then.
        if !query.landed {
            scan.read_notes().await?;
        }
        Ok(scan)
    }

    /// Leaves out ids that the filter rejects, or that earlier pages had.
    fn narrow(&mut self, query: &Query) -> Result<()> {
        let bounds = query.bounds();
        if let Some((lower, inclusive)) = bounds.lower {
            let lower = self.owner_id(&lower);
            self.raise(if inclusive { lower } else { next(&lower) });
        }
        if let Some((upper, inclusive)) = bounds.upper {
            let upper = self.owner_id(&upper);
            self.lower(if inclusive { next(&upper) } else { upper });
        }
        if let Some(cursor) = query.after.as_ref().filter(|_| query.is_by_id()) {
            self.pass(&self.owner_id(&cursor.id));
        }
        Ok(())
    }

    fn owner_id(&self, id: &str) -> String {
        ids_of(self.collection, self.generation).0 + id
    }

    fn raise(&mut self, from: String) {
        if from > self.range.from {
            self.range.from = from;
        }
    }

    fn lower(&mut self, before: String) {
        if before < self.range.before {
            self.range.before = before;
        }
    }

    /// Goes behind an item.
    fn pass(&mut self, owner_id: &str) {
        self.place = Some(owner_id.to_owned());
        if self.range.backwards {
            self.lower(owner_id.to_owned());
        } else {
            self.raise(next(owner_id));
        }
    }

    /// The items of the collection that notes name.
    async fn read_notes(&mut self) -> Result<()> {
        let head = self.documents.head_owner(self.collection)?;
        let (mut after, mut read) = (Position::ZERO, 0_usize);
        loop {
            let notes = self
                .documents
                .storage
                .unlanded(head.partition(), after)
                .await?;
            read = read.saturating_add(notes.events.len());
            for event in &notes.events {
                after = event.position;
                // Notes of single items are those of the head, and a step leaves one at each item.
                let Content::Note(note) = &event.content else {
                    continue;
                };
                if note.owner.group() != head.owner().group() {
                    continue;
                }
                let world = self.documents.world.scope();
                let path = Event::of(event, world).map(|event| event.path.place());
                if let Some(Place::Item { id, .. }) = path {
                    self.fresh.insert(self.owner_id(&id));
                }
            }
            if !notes.more {
                return Ok(());
            }
            if read > NOTES_MAX {
                let message = format!(
                    "more than {NOTES_MAX} changes have not landed yet; try again later, or ask for landed changes alone"
                );
                return Err(Error::new(Kind::QueryLimit, message));
            }
        }
    }

    /// Whether a list may read further.
    pub(super) fn may_go_on(&self) -> bool {
        self.is_done || self.statements < STATEMENTS_MAX
    }

    /// The refusal of a list that has to read further, and may not.
    pub(super) fn is_long(&self) -> Error {
        let message = format!(
            "the query takes more than {STATEMENTS_MAX} statements; narrow it by the member id, or sort by id"
        );
        Error::new(Kind::QueryLimit, message)
    }

    /// The id behind which the scan goes on.
    pub(super) fn place(&self) -> Option<&str> {
        item_of(self.place.as_deref()?)
    }

    /// The next items, in order. `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Item>>> {
        if self.is_done {
            return Ok(None);
        }
        self.statements += 1;
        let rows = self.documents.cold.rows(&self.range).await?;
        let is_last = rows.len() < self.range.limit;
        let mut seen: BTreeMap<String, ItemState> = BTreeMap::new();
        let mut bytes = 0_usize;
        for row in rows {
            if let Some(value) = row.cell.live() {
                bytes = bytes.saturating_add(value.len());
                seen.insert(
                    row.owner.id().to_owned(),
                    Some((value.clone(), row.version)),
                );
            }
        }
        self.next_limit(bytes, seen.len());
        self.take(seen, is_last).await.map(Some)
    }

    /// Later statements read more, but not much more than a bound of bytes.
    fn next_limit(&mut self, bytes: usize, rows: usize) {
        let average = bytes.checked_div(rows).unwrap_or(1).max(1);
        let fits = STATEMENT_BYTES.checked_div(average).unwrap_or(1).max(2);
        self.range.limit = MORE_ROWS.min(fits).min(SKIP_MAX);
    }

    /// Lays the fresh items over those of the database, as far as the rows reach.
    async fn take(
        &mut self,
        mut seen: BTreeMap<String, ItemState>,
        is_last: bool,
    ) -> Result<Vec<Item>> {
        let horizon = self.horizon(&seen, is_last);
        let fresh = self.fresh_until(horizon.as_deref());
        for (id, state) in self.read_hot(&fresh).await? {
            seen.insert(id, state);
        }
        let mut items = Vec::new();
        for (owner_id, state) in seen {
            if horizon
                .as_deref()
                .is_some_and(|end| self.is_behind(&owner_id, end))
            {
                continue;
            }
            items.extend(self.item(&owner_id, state)?);
        }
        if self.range.backwards {
            items.reverse();
        }
        match horizon {
            Some(end) => self.pass(&end),
            None => self.is_done = true,
        }
        Ok(items)
    }

    fn is_behind(&self, id: &str, end: &str) -> bool {
        if self.range.backwards {
            id < end
        } else {
            id > end
        }
    }

    /// The last id that this step covers. `None` if it covers all that is left.
    fn horizon(&self, seen: &BTreeMap<String, ItemState>, is_last: bool) -> Option<String> {
        let last = if self.range.backwards {
            seen.first_key_value()
        } else {
            seen.last_key_value()
        };
        let of_rows = last.map(|(id, _)| id.clone()).filter(|_| !is_last);
        // As many fresh items as rows, so that a step reads a bounded number of both.
        let of_fresh = self
            .fresh_until(of_rows.as_deref())
            .into_iter()
            .nth(MORE_ROWS);
        of_fresh.or(of_rows)
    }

    /// The fresh items up to an id, in order.
    fn fresh_until(&self, end: Option<&str>) -> Vec<String> {
        let left = self.range.from.clone()..self.range.before.clone();
        if left.is_empty() {
            return Vec::new();
        }
        let mut ids: Vec<String> = self.fresh.range(left).cloned().collect();
        if self.range.backwards {
            ids.reverse();
        }
        ids.retain(|id| end.is_none_or(|end| !self.is_behind(id, end)));
        ids
    }

    /// The state of these items in the hot tier, or of the database if they are cold by now.
    async fn read_hot(&self, ids: &[String]) -> Result<Vec<(String, ItemState)>> {
        let owner = |id: &String| self.documents.bytes.owner(ITEM, id.as_str());
        let owners: Vec<ByteOwner> = ids.iter().map(owner).collect::<storage_sdk::Result<_>>()?;
        let read = self.documents.bytes.get_many(&owners, [BODY]).await;
        let mut states = Vec::new();
        for (id, record) in ids.iter().zip(read) {
            let record = record?;
            let state = record.get(BODY).cloned();
            states.push((id.clone(), state.map(|value| (value, record.version()))));
        }
        Ok(states)
    }

    /// The item, unless it was removed or has ended.
    fn item(&self, owner_id: &str, state: ItemState) -> Result<Option<Item>> {
        let (Some((value, version)), Some(id)) = (state, item_of(owner_id)) else {
            return Ok(None);
        };
        let document = document_of(&value, 0, version)?;
        let id = id.to_owned();
        Ok((!document.has_ended(self.now)).then_some(Item { id, document }))
    }
}

/// The text behind this one. No text lies between them.
fn next(text: &str) -> String {
    format!("{text}\0")
}
