//! Lists of the items of a collection.
//!
//! A list shows every acknowledged write of its collection. It reads the notes that have not landed
//! first, and then the database. A change that landed in between is in the database by then. The
//! items that the notes name are read from the hot tier.

mod budget;
mod landed;
mod query;
mod scan;

pub use query::{Query, SIZE_MAX, SKIP_MAX};
use storage_sdk::Version;

pub(crate) use self::budget::Budget;
use self::budget::Share;
use self::query::{Cursor, ListPlace};
use self::scan::Scan;
use crate::collection::Head;
use crate::json::Json;
use crate::{Document, Documents, Error, Kind, Path, Result, Tag};

/// About how many bytes of bodies a page has at most. A longer page ends earlier.
const PAGE_BYTES: usize = 8 << 20;
/// The most bytes of bodies that a sort keeps.
const SORT_BYTES: usize = 64 << 20;

/// An item of a list.
#[derive(Debug, Clone)]
pub struct Item {
    /// The id.
    pub id: String,
    /// The item.
    pub document: Document,
}

/// A page of a collection.
#[derive(Debug, Clone)]
pub struct List {
    /// The items.
    pub items: Vec<Item>,
    /// The cursor of the next page. `None` at the end.
    pub next: Option<String>,
    /// The revision of the collection.
    pub revision: u64,
    /// The number of items of the collection.
    pub count: u64,
    /// The version of the collection.
    pub version: Version,
}

impl List {
    /// The entity tag of the collection.
    #[must_use]
    pub fn tag(&self) -> Tag {
        Tag::of(self.version)
    }
}

/// The items of a page, and the place where the next one begins.
#[derive(Default)]
struct Page {
    items: Vec<Item>,
    next: Option<Cursor>,
}

impl Documents {
    /// A page of a collection. `None` if there is no collection.
    ///
    /// # Errors
    /// `Collection`: the path names no collection. `Query`: the cursor is one of another query.
    /// `QueryLimit`: the query has to read too many rows. `Busy`: the sorts that run now keep too much.
    /// `Storage`: a tier can't be read.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn list(&self, path: &Path, query: &Query) -> Result<Option<List>> {
        if path.place() != crate::Place::Collection {
            let message = format!("{path} is no collection");
            return Err(Error::new(Kind::Collection, message));
        }
        // ORDER: the head before the notes and the rows. Its revision is not above what they show.
        let head = match query.landed {
            true => self.landed_head(path.as_str()).await?,
            false => self.head(path.as_str()).await?,
        };
        let Some(count) = head.count else {
            return Ok(None);
        };
        let page = match query.size {
            0 => Page::default(),
            _ => self.page(path.as_str(), &head, query).await?,
        };
        let next = page.next.map(|cursor| query.text_of(&cursor)).transpose()?;
        Ok(Some(List {
            next,
            items: page.items,
            revision: head.revision,
            count,
            version: head.version,
        }))
    }

    async fn page(&self, collection: &str, head: &Head, query: &Query) -> Result<Page> {
        let scan = Scan::begin(self, collection, head.present(), query).await?;
        if query.is_by_id() {
            first(scan, query).await
        } else {
            sorted(scan, query, self.sorts.share()).await
        }
    }
}

/// The first items in the order of their ids. After as many statements as a list has, the page ends
/// where they have come to: items that have ended, or that others removed, can lie before the next one.
async fn first(mut scan: Scan<'_>, query: &Query) -> Result<Page> {
    let (mut page, mut bytes, mut rejected) = (Page::default(), 0_usize, 0);
    while scan.may_go_on() {
        let Some(found) = scan.next().await? else {
            return Ok(page);
        };
        for item in found {
            if query.key_of(&item)?.is_none() {
                rejected += 1;
                check_rows(rejected, query)?;
                continue;
            }
            if page.items.len() >= query.size || bytes > PAGE_BYTES {
                page.next = page.items.last().map(|item| Cursor::at(&item.id));
                return Ok(page);
            }
            bytes = bytes.saturating_add(item.document.body.len());
            page.items.push(item);
        }
    }
    page.next = scan.place().map(Cursor::at);
    Ok(page)
}

/// The first items in another order. All items are read.
async fn sorted(mut scan: Scan<'_>, query: &Query, mut share: Share<'_>) -> Result<Page> {
    let (mut items, mut read) = (Vec::new(), 0_usize);
    while let Some(found) = scan.next().await? {
        if !scan.may_go_on() {
            return Err(scan.is_long());
        }
        for item in found {
            read += 1;
            check_rows(read.saturating_sub(query.size), query)?;
            if let Some(key) = query.key_of(&item)? {
                share.add(item.document.body.len())?;
                items.push((key, item));
            }
        }
        if share.bytes() > SORT_BYTES {
            let message = format!(
                "the query sorts more than {SORT_BYTES} bytes of items; narrow its filter, or sort by id"
            );
            return Err(Error::new(Kind::QueryLimit, message));
        }
    }
    items.sort_by(|a, b| query.compare(place_of(a), place_of(b)));
    if let Some(Cursor { key, id }) = &query.after {
        let end = ListPlace { key, id };
        items.retain(|item| query.compare(place_of(item), end).is_gt());
    }
    let mut kept = 0_usize;
    let fits = items.iter().take(query.size).take_while(|(_, item)| {
        let before = kept;
        kept = kept.saturating_add(item.document.body.len());
        before <= PAGE_BYTES
    });
    let length = fits.count();
    let more = items.len() > length;
    items.truncate(length);
    let last = items.last().filter(|_| more);
    Ok(Page {
        next: last.map(|(key, item)| Cursor {
            key: key.clone(),
            id: item.id.clone(),
        }),
        items: items.into_iter().map(|(_, item)| item).collect(),
    })
}

fn place_of((key, item): &(Vec<Json>, Item)) -> ListPlace<'_> {
    ListPlace { key, id: &item.id }
}

fn check_rows(rows: usize, query: &Query) -> Result<()> {
    if rows <= query.skip_max {
        return Ok(());
    }
    let message = format!(
        "the query reads more than {} items that its page does not have; narrow it by the member id, or raise skipMax up to {SKIP_MAX}",
        query.skip_max
    );
    Err(Error::new(Kind::QueryLimit, message))
}
