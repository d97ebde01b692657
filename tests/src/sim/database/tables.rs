//! The committed data.

use std::collections::{BTreeMap, BTreeSet};

use storage_model::sabotage::broken;
use storage_model::{
    Cell, Content, DatabaseId, Epoch, Event, Field, HotId, Lead, Owner, Partition, Position, Row,
    SinkName, Stamp, Version,
};
use storage_sql::{
    Batch, ColdPairing, Events, Fence, HotTier, Loaded, Pair, PartitionRecord, Raise, Raised,
};
use tokio::time::Instant;

use super::shards::Shards;

/// A field's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its value, live or not.
    pub cell: Cell,
    /// Its version.
    pub version: Version,
}

/// A partition's record.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    epoch: Epoch,
    last_version: Version,
    landed_epoch: Epoch,
    stamp: Stamp,
    hot: HotId,
}

/// The rows and the partitions' records.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    rows: BTreeMap<Owner, BTreeMap<Field, Kept>>,
    partitions: BTreeMap<Partition, Record>,
    /// The events of each partition, and how far its feed reaches.
    events: BTreeMap<Partition, Vec<Event>>,
    ends: BTreeMap<Partition, Position>,
    leads: BTreeMap<(Partition, Owner, Epoch), Position>,
    /// How far each sink has got.
    pub sinks: BTreeMap<(SinkName, Partition), Position>,
    /// The events that sinks refused, with the reasons.
    pub parked: BTreeMap<(SinkName, Partition, Position), String>,
    /// The shards of services that answer from shards.
    pub shards: Shards,
    /// The number of times that the process was started again.
    pub starts: u64,
    /// The hot tier that it belongs to.
    pub pairing: ColdPairing,
    /// The hot tiers: address, since when each is known, and when it was last used.
    hot_tiers: BTreeMap<HotId, (String, Instant, Instant)>,
}

impl Tables {
    /// The rows of an owner.
    #[must_use]
    pub fn owner(&self, owner: &Owner) -> Option<&BTreeMap<Field, Kept>> {
        self.rows.get(owner)
    }

    /// A field's row.
    #[must_use]
    pub fn row(&self, owner: &Owner, field: &Field) -> Option<&Kept> {
        self.rows.get(owner)?.get(field)
    }

    /// An owner as a load finds it.
    #[must_use]
    pub fn loaded(&self, owner: &Owner, rows_max: usize) -> Loaded {
        let none = BTreeMap::new();
        let rows = self.rows.get(owner).unwrap_or(&none);
        if rows.len() > rows_max {
            return Loaded {
                rows: Vec::new(),
                complete: false,
            };
        }
        let row = |(field, kept): (&Field, &Kept)| Row {
            owner: owner.clone(),
            field: field.clone(),
            cell: kept.cell.clone(),
            version: kept.version,
        };
        Loaded {
            rows: rows.iter().map(row).collect(),
            complete: true,
        }
    }

    /// Owners with a live row, in key order.
    pub fn living(&self) -> impl Iterator<Item = &Owner> {
        let lives = |rows: &BTreeMap<Field, Kept>| {
            rows.values().any(|kept| matches!(kept.cell, Cell::Live(_)))
        };
        self.rows
            .iter()
            .filter(move |(_, rows)| lives(rows))
            .map(|(owner, _)| owner)
    }

    /// A partition's record. It has epoch 0 if there is none.
    #[must_use]
    pub fn record(&self, partition: Partition) -> PartitionRecord {
        let Record {
            epoch,
            last_version,
            landed_epoch,
            stamp,
            hot,
        } = self.partitions.get(&partition).copied().unwrap_or_default();
        PartitionRecord {
            partition,
            epoch,
            last_version,
            landed_epoch,
            stamp,
            hot,
            database: self.database(),
        }
    }

    /// Whether a fence matches. No fence matches a partition without a record.
    #[must_use]
    pub fn matches(&self, fence: &Fence) -> bool {
        let record = self.partitions.get(&fence.partition);
        let landed = record.is_some_and(|record| {
            let same = (record.epoch, record.last_version) == (fence.epoch, fence.landed);
            same && record.stamp == fence.stamp
        }) || broken("R14-fence");
        landed
            && (fence
                .database
                .is_none_or(|database| database == self.database())
                || broken("H33-moved"))
    }

    /// The partition count of the hot tier. Before the first pairing there are no rows.
    #[must_use]
    pub fn partition_count(&self) -> u32 {
        self.pairing.partitions.unwrap_or(1)
    }

    /// Stores a hot tier that is used now, or its present address.
    pub fn introduce(&mut self, hot: HotId, address: &str) {
        let now = Instant::now();
        let known = self.hot_tiers.entry(hot);
        let known = known.or_insert((String::new(), now, now));
        (known.0, known.2) = (address.to_owned(), now);
    }

    /// Stores that a hot tier is used now.
    pub fn touch(&mut self, hot: HotId) {
        if let Some((_, _, seen)) = self.hot_tiers.get_mut(&hot) {
            *seen = Instant::now();
        }
    }

    /// The hot tiers.
    #[must_use]
    pub fn hot_tiers(&self) -> Vec<HotTier> {
        let partitions = |hot: &HotId| {
            let records = self.partitions.values();
            records.map(|record| u64::from(record.hot == *hot)).sum()
        };
        let tiers = self.hot_tiers.iter();
        tiers
            .map(|(id, (address, since, seen))| HotTier {
                id: *id,
                address: address.clone(),
                known_for: since.elapsed(),
                seen_ago: seen.elapsed(),
                partitions: partitions(id),
            })
            .collect()
    }

    /// The events of a partition, in their order.
    #[must_use]
    pub fn events(&self, partition: Partition) -> &[Event] {
        self.events.get(&partition).map_or(&[], Vec::as_slice)
    }

    /// The events of all partitions.
    pub fn all_events(&self) -> impl Iterator<Item = &Event> {
        self.events.values().flatten()
    }

    /// How far the feed of a partition reaches.
    #[must_use]
    pub fn feed_end(&self, partition: Partition) -> Position {
        self.ends.get(&partition).copied().unwrap_or_default()
    }

    /// The owners of a partition whose rows are ahead of their notes.
    pub fn leads(&self, partition: Partition) -> impl Iterator<Item = Lead> {
        let leads = self.leads.iter();
        let leads = leads.filter(move |((at, ..), _)| *at == partition);
        leads.map(|((_, owner, _), position)| Lead {
            owner: owner.clone(),
            position: *position,
        })
    }

    /// The rows that are ahead of their notes.
    #[must_use]
    pub fn all_leads(&self) -> &BTreeMap<(Partition, Owner, Epoch), Position> {
        &self.leads
    }

    /// Takes the events of a batch, and the leads of its rows.
    fn take_events(&mut self, batch: &Batch) {
        for Events {
            partition, events, ..
        } in &batch.events
        {
            self.events
                .entry(*partition)
                .or_default()
                .extend_from_slice(events);
            for event in events {
                self.ends.insert(*partition, event.position);
                self.end_leads(event);
            }
        }
        for (partition, Lead { owner, position }) in &batch.leads {
            if *position > self.feed_end(*partition) {
                let held = self
                    .leads
                    .entry((*partition, owner.clone(), position.epoch));
                let held = held.or_default();
                *held = (*held).max(*position);
            }
        }
    }

    /// Ends the leads that an event tells.
    fn end_leads(&mut self, event: &Event) {
        let owner = match &event.content {
            Content::Note(note) => Some(&note.owner),
            Content::Resync { owner } => Some(owner),
            _ => None,
        };
        let is_note = matches!(event.content, Content::Note(_));
        self.leads.retain(|(partition, ahead, epoch), position| {
            let of_epoch = !is_note || *epoch == event.position.epoch;
            let is_told = of_epoch && owner.is_none_or(|owner| owner == ahead);
            *partition != event.partition || *position > event.position || !is_told
        });
    }

    /// The identity of the process that holds them.
    #[must_use]
    pub fn database(&self) -> DatabaseId {
        DatabaseId(self.starts + 1)
    }

    /// Takes a batch whose fences match: the newer rows, and how far each partition has landed.
    pub fn take(&mut self, batch: &Batch) {
        for fence in &batch.fences {
            let record = self.partitions.entry(fence.partition).or_default();
            record.epoch = fence.epoch;
            record.last_version = fence.landed.max(fence.reaches);
            record.landed_epoch = fence.epoch;
        }
        self.take_events(batch);
        for row in &batch.rows {
            let held = self.rows.entry(row.owner.clone()).or_default();
            if held
                .get(&row.field)
                .is_none_or(|kept| kept.version < row.version || broken("R3-unguarded"))
            {
                held.insert(
                    row.field.clone(),
                    Kept {
                        cell: row.cell.clone(),
                        version: row.version,
                    },
                );
            }
        }
    }

    /// Makes a hot tier the current one, if the one before it is the one seen. Returns whether it
    /// did.
    pub fn pair(&mut self, seen: &ColdPairing, pair: &Pair) -> bool {
        let held = &self.pairing;
        let fits = held
            .identity
            .is_none_or(|identity| identity == pair.identity)
            && held
                .partitions
                .is_none_or(|partitions| partitions == pair.partitions)
            && held.layout.is_none_or(|layout| layout == pair.layout)
            && held.hot == seen.hot
            && pair.if_silent.is_none_or(|within| {
                let mut known = self.hot_tiers().into_iter();
                !known.any(|hot| hot.id != pair.by && hot.is_heard(within))
            });
        if fits {
            self.pairing = ColdPairing {
                address: "model".to_owned(),
                identity: Some(pair.identity),
                partitions: Some(pair.partitions),
                layout: Some(pair.layout),
                hot: Some(pair.hot.clone()),
                last_raise: pair.stamp,
            };
            self.introduce(pair.by, &pair.hot.address);
            self.touch(pair.by);
            for partition in (0..pair.partitions)
                .map(Partition)
                .filter(|_| seen.hot.is_some())
            {
                self.partitions.entry(partition).or_default();
            }
            for record in self.partitions.values_mut() {
                record.epoch.0 += 1;
                (record.stamp, record.hot) = (pair.stamp, pair.by);
            }
        }
        fits
    }

    /// Raises the epochs of partitions that still have the record seen.
    pub fn raise(&mut self, raises: &[Raise]) -> Vec<Raised> {
        let fits = |raise: &Raise| {
            let before = self.record(raise.partition);
            let same = (before.epoch, before.stamp) == (raise.seen, raise.seen_stamp)
                && raise.reach.is_none_or(|reach| reach == before.last_version)
                && raise.if_silent.is_none_or(|within| {
                    let mut known = self.hot_tiers().into_iter();
                    !known.any(|hot| {
                        hot.id == before.hot && hot.id != raise.by && hot.is_heard(within)
                    })
                });
            same || broken("R14-raised-blindly")
        };
        // Those with a reach are made together or not at all.
        let mut reaching = raises.iter().filter(|raise| raise.reach.is_some());
        let all = reaching.all(fits) || broken("R14-whole");
        let moves = |raise: &Raise| fits(raise) && (raise.reach.is_none() || all);
        let moved: Vec<bool> = raises.iter().map(moves).collect();
        let mut named = BTreeSet::new();
        for (raise, moves) in raises.iter().zip(&moved) {
            // A partition that is named twice is raised once.
            if *moves && named.insert(raise.partition) {
                let record = self.partitions.entry(raise.partition).or_default();
                record.epoch = Epoch(raise.seen.max(raise.above).0 + 1);
                (record.stamp, record.hot) = (raise.stamp, raise.by);
                self.pairing.last_raise = raise.stamp;
                self.touch(raise.by);
            }
        }
        let after = raises.iter().map(|raise| self.record(raise.partition));
        after
            .zip(moved)
            .map(|(record, moved)| Raised { record, moved })
            .collect()
    }
}
