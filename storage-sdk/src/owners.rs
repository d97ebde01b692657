//! The list of owners in key order, with the unlanded ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use storage_dirty::Map;
use storage_model::{Owner, Partition, Scope};

use crate::Result;
use crate::core::{Core, Shared};
use crate::read::OWNERS_AT_ONCE;

/// The number of owners in one page of the database.
const PAGE: usize = 1_000;
/// The number of marks in one page of the hot tier.
const MARKS: usize = 1_000;
/// The maps that are searched for marks, in this order.
const MAPS: [Map; 7] = [
    Map::Landed,
    Map::Expiring,
    Map::Dirty,
    Map::Snapshot,
    Map::Error,
    Map::Landed,
    Map::Expiring,
];

/// Owners in key order, page by page.
///
/// The list follows the way of a write: dirty map, snapshot, error map, the two maps of probation,
/// and then the database. It also reads the two maps of probation first, because a mark can go back
/// from them. By this order an owner that existed before the list began, and still exists, is in
/// the list.
///
/// ```
/// # storage_doc::with_bytes(async |bytes| {
/// for id in ["bo", "ann"] {
///     bytes.owner("player", id)?.update([("level", "1")]).await?;
/// }
/// let (mut pages, mut ids) = (bytes.owners("player").await?, Vec::new());
/// while let Some(page) = pages.next().await? {
///     ids.extend(page.iter().map(|owner| owner.id().to_owned()));
/// }
/// assert_eq!(ids, ["ann", "bo"]);
/// # Ok(()) });
/// ```
#[derive(Debug)]
pub struct OwnerPages {
    core: Shared,
    only: Option<(Scope, String)>,
    /// Marked owners that are not listed yet.
    marked: BTreeSet<Owner>,
    after: Option<Owner>,
    ended: bool,
}

impl OwnerPages {
    pub(crate) async fn open(core: &Shared, only: Option<(Scope, String)>) -> Result<Self> {
        core.while_open(Self::begin(core, only)).await
    }

    async fn begin(core: &Shared, only: Option<(Scope, String)>) -> Result<Self> {
        let wanted = |owner: &Owner| {
            only.as_ref().is_none_or(|(scope, logic_type)| {
                owner.scope() == *scope && owner.logic_type() == logic_type
            })
        };
        let mut marked = BTreeSet::new();
        let hot = core.tiers.hot();
        for partition in (0..hot.partitions.partition_count()).map(Partition) {
            for map in MAPS {
                let mut cursor = Some(0);
                while let Some(from) = cursor {
                    let page = hot.marks.scan(partition, map, from, MARKS).await?;
                    cursor = page.next;
                    let owners = page
                        .entries
                        .into_iter()
                        .filter_map(|entry| Some(entry.mark?.owner));
                    marked.extend(owners.filter(wanted));
                }
            }
        }
        Ok(Self {
            core: Arc::clone(core),
            only,
            marked,
            after: None,
            ended: false,
        })
    }

    /// The next owners, in key order. A page has at most 1,000 owners of the database, with the
    /// unlanded owners among them. Returns `None` at the end.
    ///
    /// # Errors
    /// A tier is away. The same call can be repeated. `Closed`: the storage was closed after the
    /// list began.
    ///
    /// # Cancel safety
    /// No owner is skipped.
    pub async fn next(&mut self) -> Result<Option<Vec<Owner>>> {
        let core = Arc::clone(&self.core);
        core.while_open(self.page()).await
    }

    async fn page(&mut self) -> Result<Option<Vec<Owner>>> {
        while !self.ended {
            let cold = self.core.tiers.cold();
            let rows = match &self.only {
                Some((scope, logic_type)) => {
                    cold.rows
                        .owners(scope, logic_type, self.after.as_ref(), PAGE)
                        .await?
                }
                None => cold.rows.all_owners(self.after.as_ref(), PAGE).await?,
            };
            let last = rows.last().filter(|_| rows.len() == PAGE).cloned();
            let marked = self.marked_until(last.as_ref());
            // The rows of a marked owner may be out of date. The owner may be removed, or new.
            let mut page: BTreeSet<Owner> = self.core.exist(&marked).await?.into_iter().collect();
            page.extend(rows.into_iter().filter(|owner| !marked.contains(owner)));
            // ORDER: nothing is dropped before the page is complete, so that a failed call can be
            // repeated.
            self.marked.retain(|owner| !marked.contains(owner));
            self.ended = last.is_none();
            self.after = last;
            if !page.is_empty() {
                return Ok(Some(page.into_iter().collect()));
            }
        }
        Ok(None)
    }

    /// The marked owners up to the end of a page, or all of them.
    fn marked_until(&self, last: Option<&Owner>) -> BTreeSet<Owner> {
        self.marked
            .iter()
            .take_while(|owner| last.is_none_or(|last| *owner <= last))
            .cloned()
            .collect()
    }
}

impl Core {
    /// The owners that have a live field.
    async fn exist(&self, owners: &BTreeSet<Owner>) -> Result<Vec<Owner>> {
        let owners: Vec<&Owner> = owners.iter().collect();
        let mut live = Vec::new();
        for some in owners.chunks(OWNERS_AT_ONCE) {
            let looks = some.iter().map(|owner| self.has_fields(owner));
            let found = futures::future::join_all(looks).await;
            for (owner, is_live) in some.iter().zip(found) {
                if is_live? {
                    live.push((*owner).clone());
                }
            }
        }
        Ok(live)
    }
}
