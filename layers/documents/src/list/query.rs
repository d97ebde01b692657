//! What a list shows, and in which order.

use std::cmp::Ordering;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::Item;
use crate::collection::ID;
use crate::edit::parsed;
use crate::filter::{Bounds, Filter, Sort};
use crate::json::Json;
use crate::{Error, Kind, Result};

/// The most items of a page.
pub const SIZE_MAX: usize = 1_000;
/// The most items that a query reads beside those of its page.
pub const SKIP_MAX: usize = 10_000;
/// The items of a page, unless a query says otherwise.
const SIZE: usize = 100;

/// The most bytes of a cursor.
const CURSOR_MAX: usize = 6 << 10;

/// A query of a collection.
#[derive(Debug, Clone)]
pub struct Query {
    /// The most items of a page. A page of large items has fewer.
    pub(super) size: usize,
    pub(super) skip_max: usize,
    filter: Option<Filter>,
    sort: Sort,
    /// Filter and sort, as a digest that cursors have.
    digest: String,
    pub(super) after: Option<Cursor>,
    /// Whether only landed changes count.
    pub(super) landed: bool,
}

/// The place behind an item: its sort key and its id.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    pub(super) key: Vec<Json>,
    pub(super) id: String,
}

impl Cursor {
    /// The place behind an id, in an order of ids.
    pub(super) fn at(id: &str) -> Self {
        Self {
            key: Vec::new(),
            id: id.to_owned(),
        }
    }
}

impl Query {
    /// A query with a filter and a sort, each as text. Empty texts select all items by id.
    ///
    /// # Errors
    /// `Query` says what can't be used, and where.
    pub fn new(filter: &str, sort: &str) -> Result<Self> {
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            Error::new(Kind::Query, format!("{what}: {error}"))
        };
        let parsed = match filter.trim() {
            "" => None,
            _ => Some(Filter::parse(filter).map_err(|error| wrong("filter", &error))?),
        };
        let mut hash = Sha256::new();
        for part in [filter.trim(), "\0", sort.trim()] {
            hash.update(part.as_bytes());
        }
        let digest = hash.finalize();
        Ok(Self {
            size: SIZE,
            skip_max: SKIP_MAX,
            filter: parsed,
            sort: Sort::parse(sort).map_err(|error| wrong("sort", &error))?,
            digest: URL_SAFE_NO_PAD.encode(digest.get(..6).unwrap_or_default()),
            after: None,
            landed: false,
        })
    }

    /// The most items of a page: 0 to 1,000. Default: 100.
    ///
    /// # Errors
    /// `Query`: the number is greater.
    pub fn size(self, size: usize) -> Result<Self> {
        check("size", size, SIZE_MAX)?;
        Ok(Self { size, ..self })
    }

    /// The most items that are read beside those of the page: 0 to 10,000. Default: 10,000.
    ///
    /// # Errors
    /// `Query`: the number is greater.
    pub fn skip_max(self, skip_max: usize) -> Result<Self> {
        check("skipMax", skip_max, SKIP_MAX)?;
        Ok(Self { skip_max, ..self })
    }

    /// Begins behind the last page, by the cursor that the page gave.
    ///
    /// # Errors
    /// `Query`: the text is no cursor, or one of another query.
    pub fn after(self, cursor: &str) -> Result<Self> {
        let refused = |why: &str| Error::new(Kind::Query, format!("cursor {why}"));
        let unknown = || refused("can't be read; send it as the page gave it");
        let text = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| unknown())?;
        let Ok(Json::Array(parts)) = parsed(&text) else {
            return Err(unknown());
        };
        let mut parts = parts.into_iter();
        let (Some(Json::Text(digest)), Some(Json::Text(id))) = (parts.next(), parts.next()) else {
            return Err(unknown());
        };
        if digest != self.digest {
            return Err(refused(
                "is one of another filter or sort; begin without a cursor",
            ));
        }
        let key: Vec<Json> = parts.collect();
        if key.len() != self.keys() {
            return Err(unknown());
        }
        let after = Some(Cursor { key, id });
        Ok(Self { after, ..self })
    }

    /// Shows landed changes alone.
    #[must_use]
    pub fn landed(self) -> Self {
        Self {
            landed: true,
            ..self
        }
    }

    /// A cursor as text.
    ///
    /// # Errors
    /// `QueryLimit`: the values of the sort are too long for a link.
    pub(super) fn text_of(&self, cursor: &Cursor) -> Result<String> {
        let text = |text: &str| Json::Text(text.to_owned());
        let mut parts = vec![text(&self.digest), text(&cursor.id)];
        parts.extend_from_slice(&cursor.key);
        let cursor = URL_SAFE_NO_PAD.encode(Json::Array(parts).to_text());
        if cursor.len() > CURSOR_MAX {
            let message = "the values that the list is sorted by are too long for a link to the next page; sort by another member";
            return Err(Error::new(Kind::QueryLimit, message));
        }
        Ok(cursor)
    }

    /// Whether the order is that of the ids, or its reverse.
    pub(super) fn is_by_id(&self) -> bool {
        self.direction().is_some()
    }

    /// Whether the order is by descending ids. `None` if it is no order of ids.
    fn direction(&self) -> Option<bool> {
        match self.sort.fields().first() {
            None => Some(false),
            Some((name, descending)) if *name == [ID] => Some(*descending),
            Some(_) => None,
        }
    }

    /// Whether the scan begins with the greatest id.
    pub(super) fn is_backwards(&self) -> bool {
        self.direction() == Some(true)
    }

    /// The number of values in a key.
    fn keys(&self) -> usize {
        if self.is_by_id() {
            0
        } else {
            self.sort.fields().len()
        }
    }

    /// The ids that the filter leaves.
    pub(super) fn bounds(&self) -> Bounds {
        let filter = self.filter.as_ref();
        filter.map(|filter| filter.bounds(ID)).unwrap_or_default()
    }

    /// The sort key of an item. `None` if the filter leaves it out.
    pub(super) fn key_of(&self, item: &Item) -> Result<Option<Vec<Json>>> {
        if self.filter.is_none() && self.is_by_id() {
            return Ok(Some(Vec::new()));
        }
        let body = parsed(&item.document.body)?;
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| !filter.matches(&body))
        {
            return Ok(None);
        }
        Ok(Some(if self.is_by_id() {
            Vec::new()
        } else {
            self.sort.key(&body)
        }))
    }

    /// The order of two items by sort key and then by id. Ids follow the direction of the last field,
    /// so the order is total.
    pub(super) fn compare(&self, one: ListPlace<'_>, other: ListPlace<'_>) -> Ordering {
        let ids = match self.sort.fields().last() {
            Some((_, true)) => other.id.cmp(one.id),
            _ => one.id.cmp(other.id),
        };
        self.sort.compare(one.key, other.key).then(ids)
    }
}

/// The place of an item in a sorted list.
#[derive(Clone, Copy)]
pub(super) struct ListPlace<'a> {
    pub(super) key: &'a [Json],
    pub(super) id: &'a str,
}

fn check(name: &str, number: usize, most: usize) -> Result<()> {
    if number <= most {
        return Ok(());
    }
    let message = format!("{name} is {number}; the most is {most}");
    Err(Error::new(Kind::Query, message))
}
