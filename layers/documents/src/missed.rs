//! What a follower has missed, event by event, from both tiers.
//!
//! Many followers come back at the same time. They share the pages of landed events that they read. So
//! reads grow with what was missed, and hardly with the number of followers. All pages together have a
//! bound: a follower whose page was dropped meanwhile reads it again.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use storage_coalesce::locked;
use storage_sdk::feed::{Cursor, Event as Told, Partition, Position};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::feed::{bytes_of, is_of_another_feed};
use crate::{Documents, Prefixes, Result};

/// The most that a follower gets anew.
const MISSED_MAX: usize = 10_000;
const MISSED_BYTES: usize = 16 << 20;
/// The most events of all paths that are read for it.
const READ_MAX: usize = 100_000;
/// The most events of a page. One that has so many bytes is full, too.
const PAGE: u64 = 16;
const PAGE_BYTES: usize = 1 << 20;
/// About how many bytes of pages are kept for all followers.
const KEPT_BYTES: usize = 16 << 20;
/// How many pages are read at a time. Each can have some MiB.
const READS_MAX: usize = 4;
/// How often an event that is in neither tier is looked for, and the pause in between. It lands meanwhile.
const LOOKS: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Events of a partition, in their order.
type Page = Arc<Vec<Told>>;

/// The pages that followers have read lately. Nobody else keeps them.
#[derive(Debug)]
pub(crate) struct Pages {
    kept: Mutex<KeptPages>,
    bytes_max: usize,
    reads: Semaphore,
}

#[derive(Debug, Default)]
struct KeptPages {
    /// In the order in which they were read, with the place before their first event.
    pages: VecDeque<((Partition, Position), Page)>,
    /// Those to which no event can be added, by their place.
    full: HashMap<(Partition, Position), Page>,
    bytes: usize,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            bytes_max: KEPT_BYTES,
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
        // Most followers that wait here find the page that they wait for.
        let _read = self.reads.acquire().await;
        if let Some(page) = self.find((partition, after)) {
            return Ok(page);
        }
        let limit = room_behind(after);
        let events = documents.cold.events(partition, after, limit).await?;
        Ok(self.keep_all((partition, after), events))
    }

    fn find(&self, place: (Partition, Position)) -> Option<Page> {
        self.kept().full.get(&place).cloned()
    }

    /// Keeps a page for a while. Returns the one that others have read meanwhile, if there is one.
    fn keep(&self, place: (Partition, Position), page: Page) -> Page {
        let mut kept = self.kept();
        // Another event can come behind a page that is not full.
        if is_full(&page, place.1) {
            if let Some(there) = kept.full.get(&place) {
                return Arc::clone(there);
            }
            kept.full.insert(place, Arc::clone(&page));
        }
        kept.pages.push_back((place, Arc::clone(&page)));
        kept.bytes = kept.bytes.saturating_add(size_of_page(&page));
        kept.drop_oldest(self.bytes_max);
        page
    }

    /// Keeps events behind a place, page by page. Returns the first page.
    fn keep_all(&self, (partition, after): (Partition, Position), mut events: Vec<Told>) -> Page {
        let (mut first, mut after) = (None, after);
        while let Some(last) = page_of(&events, after).last().map(|last| last.position) {
            let rest = events.split_off(page_of(&events, after).len());
            let page = self.keep((partition, after), Arc::new(events));
            first.get_or_insert(page);
            (events, after) = (rest, last);
        }
        first.unwrap_or_default()
    }

    fn kept(&self) -> MutexGuard<'_, KeptPages> {
        locked(&self.kept)
    }
}

impl KeptPages {
    fn drop_oldest(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some((place, oldest)) = self.pages.pop_front() else {
                break;
            };
            let known = self.full.get(&place);
            if known.is_some_and(|known| Arc::ptr_eq(known, &oldest)) {
                self.full.remove(&place);
            }
            self.bytes = self.bytes.saturating_sub(size_of_page(&oldest));
        }
    }
}

/// The events of the page behind a place, of those that follow it.
fn page_of(events: &[Told], after: Position) -> &[Told] {
    let (mut count, mut bytes) = (0, 0_usize);
    for event in events.iter().take(room_behind(after)) {
        if bytes >= PAGE_BYTES {
            break;
        }
        (count, bytes) = (count + 1, bytes.saturating_add(bytes_of(event)));
    }
    events.get(..count).unwrap_or_default()
}

/// Whether no event can be added to a page.
fn is_full(page: &[Told], after: Position) -> bool {
    page.len() == room_behind(after) || page.iter().map(bytes_of).sum::<usize>() >= PAGE_BYTES
}

/// The most events of a page behind a place.
fn room_behind(after: Position) -> usize {
    usize::try_from(PAGE - after.number % PAGE).unwrap_or(usize::MAX)
}

/// About how many bytes a page takes.
fn size_of_page(page: &Page) -> usize {
    let frames = page.len().saturating_mul(std::mem::size_of::<Told>());
    page.iter()
        .map(bytes_of)
        .fold(frames, usize::saturating_add)
}

/// What a follower has missed of the changes below some prefixes.
#[derive(Debug)]
pub struct Missed {
    documents: Documents,
    prefixes: Prefixes,
    /// Behind the events that were returned, or that do not concern the follower.
    at: Cursor,
    /// The partitions that are still to be read, and where that ends.
    left: VecDeque<(Partition, Position)>,
    /// The page that was read last, and the next event of it. A slow follower keeps no page alive.
    page: Weak<Vec<Told>>,
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
    /// The changes below some prefixes between two places of the feed, from both tiers: up to 10,000 events
    /// and 16 MiB. `None` if the first place is none of this feed, or not any more.
    ///
    /// # Errors
    /// `Storage`: a tier can't be read.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn missed(
        &self,
        since: &Cursor,
        until: &Cursor,
        prefixes: &Prefixes,
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
            prefixes: prefixes.clone(),
            at,
            left: until.positions().collect(),
            page: Weak::new(),
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
        // The page lives until its first event is returned, whatever others read.
        let mut fresh: Option<Page> = None;
        loop {
            if let Some(event) = self.page_event() {
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
            drop(fresh.take());
            let Some((partition, end)) = self.left.front().copied() else {
                return Ok(Step::End(self.at.clone()));
            };
            // Boxed, so that a follower keeps no room for reads while it waits.
            if Box::pin(self.is_whole(partition, end)).await? {
                self.left.pop_front();
                self.looks = 0;
            } else {
                let page = Box::pin(self.read(partition)).await?;
                if page.is_empty() {
                    self.looks += 1;
                    if self.looks >= LOOKS {
                        return Ok(Step::Lost);
                    }
                    sleep(LOOK_EVERY).await;
                } else {
                    self.looks = 0;
                }
                (self.page, self.next) = (Arc::downgrade(&page), 0);
                fresh = Some(page);
            }
        }
    }

    /// The next event of the page. `None` if it is over, or was dropped.
    fn page_event(&self) -> Option<Told> {
        self.page.upgrade()?.get(self.next).cloned()
    }

    fn concerns(&self, event: &Told) -> bool {
        let change = self.documents.change_of(event);
        change.is_some_and(|change| self.prefixes.concern(&change))
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

    /// Reads the next events of a partition. Empty if neither tier has them at this moment.
    async fn read(&self, partition: Partition) -> Result<Page> {
        let at = self.at.of(partition).unwrap_or_default();
        let pages = &self.documents.pages;
        let page = pages.behind(&self.documents, (partition, at)).await?;
        if !page.is_empty() {
            return Ok(page);
        }
        let notes = self.documents.storage.unlanded(partition, at).await?;
        // One that does not follow has others before it that have landed by now.
        let follows = notes.events.first().is_some_and(|first| first.follows(at));
        let notes = if follows { notes.events } else { Vec::new() };
        Ok(pages.keep_all((partition, at), notes))
    }
}

#[cfg(test)]
mod tests {
    use storage_sdk::feed::Content;

    use super::*;

    const AT: Partition = Partition(3);
    /// The bytes of a few pages.
    const BYTES_MAX: usize = 16 << 10;

    /// Events behind a number.
    fn events(behind: u64, count: u64) -> Vec<Told> {
        let event = |number| Told {
            partition: AT,
            position: Position::new(1, number),
            content: Content::Gap,
        };
        (behind + 1..=behind + count).map(event).collect()
    }

    fn place(number: u64) -> (Partition, Position) {
        (AT, Position::new(1, number))
    }

    fn pages(bytes_max: usize) -> Pages {
        Pages {
            bytes_max,
            ..Pages::default()
        }
    }

    #[test]
    fn notes_are_kept_by_pages_that_end_at_the_same_numbers() {
        let pages = pages(1 << 20);
        let first = pages.keep_all(place(10), events(10, 30));
        assert_eq!(first.len(), 6);
        let lengths = [10, 16, 32].map(|at| pages.find(place(at)).map(|page| page.len()));
        // An event can come behind the last page.
        assert_eq!(lengths, [Some(6), Some(16), None]);
        assert!(pages.keep_all(place(10), Vec::new()).is_empty());
    }

    #[test]
    fn pages_that_are_dropped_leave_nothing_behind() {
        let pages = pages(BYTES_MAX);
        let mut followers = Vec::new();
        for at in (0..64).map(|page| page * PAGE) {
            // Two followers read the same page, and one has read it before it was full.
            pages.keep(place(at), Arc::new(events(at, 3)));
            let one = pages.keep(place(at), Arc::new(events(at, PAGE)));
            let other = pages.keep(place(at), Arc::new(events(at, PAGE)));
            assert!(Arc::ptr_eq(&one, &other));
            followers.push(Arc::downgrade(&one));
        }
        let kept = pages.kept();
        assert!(kept.bytes <= BYTES_MAX, "{}", kept.bytes);
        let sizes = kept.pages.iter().map(|(_, page)| size_of_page(page));
        assert_eq!(kept.bytes, sizes.sum::<usize>());
        for (place, page) in &kept.full {
            let is_it = |(at, other): &(_, Page)| at == place && Arc::ptr_eq(page, other);
            assert!(kept.pages.iter().any(is_it), "{place:?}");
        }
        let alive = followers.iter().filter(|page| page.upgrade().is_some());
        assert_eq!(alive.count(), kept.full.len());
    }
}
