//! What a follower has missed, event by event, from both tiers.
//!
//! Many followers come back at the same time. They share the pages of landed events that they read. So
//! memory and reads grow with what was missed, and hardly with the number of followers.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use storage_sdk::feed::{Cursor, Event as Told, Partition, Position};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::feed::{bytes_of, is_of_another_feed};
use crate::{Documents, Result};

/// The most that a follower gets anew.
const MISSED_MAX: usize = 10_000;
const MISSED_BYTES: usize = 16 << 20;
/// The most events of all paths that are read for it.
const READ_MAX: usize = 100_000;
/// The events of a page.
const PAGE: u64 = 16;
/// About how many bytes of pages are kept for other followers.
const KEPT_BYTES: usize = 16 << 20;
/// How many pages are read at a time. Each can have some MiB.
const READS_MAX: usize = 4;
/// How often an event that is in neither tier is looked for, and the pause in between. It lands meanwhile.
const LOOKS: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Events of a partition that have landed, in their order.
type Page = Arc<[Told]>;

/// The pages that followers have read lately.
#[derive(Debug)]
pub(crate) struct Pages {
    kept: Mutex<Kept>,
    reads: Semaphore,
}

#[derive(Debug, Default)]
struct Kept {
    /// By the place before their first event.
    pages: HashMap<(Partition, Position), Page>,
    /// In the order in which they were read.
    order: VecDeque<(Partition, Position)>,
    bytes: usize,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            reads: Semaphore::new(READS_MAX),
        }
    }
}

impl Pages {
    /// The next events that have landed behind a place. Followers of different places meet at the
    /// multiples of a number.
    async fn behind(
        &self,
        documents: &Documents,
        (partition, after): (Partition, Position),
    ) -> Result<Page> {
        if let Some(page) = self.find((partition, after)) {
            return Ok(page);
        }
        // Of followers that read the same page, one asks the database.
        let _read = self.reads.acquire().await;
        if let Some(page) = self.find((partition, after)) {
            return Ok(page);
        }
        let limit = PAGE - after.number % PAGE;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let cold = documents.storage.tiers().cold();
        let events = cold.events(partition, after, limit).await;
        let page: Page = events.map_err(storage_sdk::Error::from)?.into();
        // Another event can land behind a page that is not full.
        if page.len() == limit {
            self.keep((partition, after), &page);
        }
        Ok(page)
    }

    fn find(&self, place: (Partition, Position)) -> Option<Page> {
        self.kept().pages.get(&place).cloned()
    }

    fn keep(&self, place: (Partition, Position), page: &Page) {
        let mut kept = self.kept();
        if kept.pages.insert(place, Arc::clone(page)).is_some() {
            return;
        }
        kept.order.push_back(place);
        kept.bytes = kept.bytes.saturating_add(size_of_page(page));
        while kept.bytes > KEPT_BYTES {
            let Some(oldest) = kept.order.pop_front() else {
                break;
            };
            let left = kept.pages.remove(&oldest);
            let freed = left.as_ref().map_or(0, size_of_page);
            kept.bytes = kept.bytes.saturating_sub(freed);
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// About how many bytes a page takes.
fn size_of_page(page: &Page) -> usize {
    let frames = page.len().saturating_mul(std::mem::size_of::<Told>());
    page.iter()
        .map(bytes_of)
        .fold(frames, usize::saturating_add)
}

/// What a follower has missed of the changes below a prefix.
#[derive(Debug)]
pub struct Missed {
    documents: Documents,
    prefix: String,
    /// Behind the events that were returned, or that do not concern the follower.
    at: Cursor,
    /// The partitions that are still to be read, and where that ends.
    left: VecDeque<(Partition, Position)>,
    /// Events that are read and not returned, and the next of them.
    page: Page,
    next: usize,
    looks: usize,
    read: usize,
    events: usize,
    bytes: usize,
}

/// A step of [`Missed`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// The next event.
    Event(Told),
    /// Nothing is missed any more behind these places.
    End(Cursor),
    /// Events can't be had any more, or are too many. The follower begins anew.
    Lost,
}

impl Documents {
    /// The changes below a prefix between two places of the feed, from both tiers: up to 10,000 events
    /// and 16 MiB. `None` if the first place is none of this feed, or not any more.
    ///
    /// # Errors
    /// `Storage`: a tier can't be read.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn missed(
        &self,
        (since, until): (&Cursor, &Cursor),
        prefix: &str,
    ) -> Result<Option<Missed>> {
        let mut reader = self.storage.changes(since.clone());
        let at = match reader.begin().await {
            Err(error) if is_of_another_feed(&error) => return Ok(None),
            begun => begun?.clone(),
        };
        for (partition, end) in until.positions() {
            let from = at.of(partition).unwrap_or_default();
            if from > end && !self.was_written(partition, from).await? {
                return Ok(None);
            }
        }
        Ok(Some(Missed {
            documents: self.clone(),
            prefix: prefix.to_owned(),
            at,
            left: until.positions().collect(),
            page: Page::default(),
            next: 0,
            looks: 0,
            read: 0,
            events: 0,
            bytes: 0,
        }))
    }

    /// Whether the hot tier has reached a place. Another gateway can have told of it first.
    async fn was_written(&self, partition: Partition, place: Position) -> Result<bool> {
        let notes = self.storage.unlanded(partition, place).await?;
        Ok(notes.last >= place)
    }
}

impl Missed {
    /// The next event.
    ///
    /// # Errors
    /// `Storage`: a tier can't be read. The next call tries again.
    ///
    /// # Cancel safety
    /// A dropped call loses no event.
    pub async fn next(&mut self) -> Result<Step> {
        loop {
            if let Some(event) = self.page.get(self.next).cloned() {
                (self.next, self.read) = (self.next + 1, self.read + 1);
                let follows = event.follows(self.at.of(event.partition).unwrap_or_default());
                if !follows || self.read > READ_MAX {
                    return Ok(Step::Lost);
                }
                self.at.move_to(event.partition, event.position);
                if self.concerns(&event) {
                    return Ok(self.counted(event));
                }
                continue;
            }
            let Some((partition, end)) = self.left.front().copied() else {
                return Ok(Step::End(self.at.clone()));
            };
            if self.is_whole(partition, end).await? {
                self.left.pop_front();
                self.looks = 0;
            } else if !self.read(partition).await? {
                self.looks += 1;
                if self.looks >= LOOKS {
                    return Ok(Step::Lost);
                }
                sleep(LOOK_EVERY).await;
            }
        }
    }

    fn concerns(&self, event: &Told) -> bool {
        let change = self.documents.change_of(event);
        change.is_some_and(|change| change.concerns(&self.prefix))
    }

    fn counted(&mut self, event: Told) -> Step {
        self.events = self.events.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes_of(&event));
        if self.events > MISSED_MAX || self.bytes > MISSED_BYTES {
            return Step::Lost;
        }
        Step::Event(event)
    }

    /// Whether all of a partition was read.
    async fn is_whole(&self, partition: Partition, end: Position) -> Result<bool> {
        let at = self.at.of(partition).unwrap_or_default();
        if at >= end || at.number != end.number {
            return Ok(at >= end);
        }
        // A change of the epoch moves the end without a note. Then the last note, if there is one, has
        // landed.
        if at.number == 0 {
            return Ok(true);
        }
        let landed = self.documents.storage.feed_end().await?;
        Ok(landed.of(partition).unwrap_or_default() == at)
    }

    /// Reads the next events of a partition. False if neither tier has them at this moment.
    async fn read(&mut self, partition: Partition) -> Result<bool> {
        let at = self.at.of(partition).unwrap_or_default();
        let pages = &self.documents.pages;
        let mut page = pages.behind(&self.documents, (partition, at)).await?;
        if page.is_empty() {
            let notes = self.documents.storage.unlanded(partition, at).await?;
            // One that does not follow has others before it that have landed by now.
            let follows = notes.events.first().is_some_and(|first| first.follows(at));
            page = notes.events.into_iter().filter(|_| follows).collect();
        }
        (self.page, self.next) = (page, 0);
        Ok(!self.page.is_empty())
    }
}
