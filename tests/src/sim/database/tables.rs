//! The committed data.

use std::collections::BTreeMap;

use storage_model::sabotage::broken;
use storage_model::{
    Cell, Content, DatabaseId, Epoch, Event, Field, Lead, Owner, Partition, Position, Row,
    SinkName, Version,
};
use storage_sql::{
    Batch, ColdPairing, Events, Fence, Loaded, Pair, PartitionRecord, Raise, Raised,
};

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
    /// The number of times that the process was started again.
    pub starts: u64,
    /// The hot tier that it belongs to.
    pub pairing: ColdPairing,
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
        } = self.partitions.get(&partition).copied().unwrap_or_default();
        PartitionRecord {
            partition,
            epoch,
            last_version,
            landed_epoch,
            database: self.database(),
        }
    }

    /// Whether a fence matches. No fence matches a partition without a record.
    #[must_use]
    pub fn matches(&self, fence: &Fence) -> bool {
        let record = self.partitions.get(&fence.partition);
        let landed = record.is_some_and(|record| {
            (record.epoch, record.last_version) == (fence.epoch, fence.landed)
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
            let (epoch, last_version) = (fence.epoch, fence.landed.max(fence.reaches));
            self.partitions.insert(
                fence.partition,
                Record {
                    epoch,
                    last_version,
                    landed_epoch: epoch,
                },
            );
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
            && held.hot == seen.hot;
        if fits {
            self.pairing = ColdPairing {
                address: "model".to_owned(),
                identity: Some(pair.identity),
                partitions: Some(pair.partitions),
                layout: Some(pair.layout),
                hot: Some(pair.hot.clone()),
            };
            for partition in (0..pair.partitions)
                .map(Partition)
                .filter(|_| seen.hot.is_some())
            {
                self.partitions.entry(partition).or_default();
            }
            self.partitions
                .values_mut()
                .for_each(|record| record.epoch.0 += 1);
        }
        fits
    }

    /// Raises the epochs of partitions that still have the one seen. If a partition is named twice,
    /// the higher one counts.
    pub fn raise(&mut self, raises: &[Raise]) -> Vec<Raised> {
        let moves = |raise: &Raise| {
            self.record(raise.partition).epoch == raise.seen || broken("R14-raised-blindly")
        };
        let moved: Vec<bool> = raises.iter().map(moves).collect();
        let mut descending = raises.to_vec();
        descending.sort_by_key(|raise| std::cmp::Reverse(raise.seen));
        for raise in descending {
            let record = self.partitions.entry(raise.partition).or_default();
            if record.epoch == raise.seen || broken("R14-raised-blindly") {
                record.epoch = Epoch(raise.seen.max(raise.above).0 + 1);
            }
        }
        let after = raises.iter().map(|raise| self.record(raise.partition));
        after
            .zip(moved)
            .map(|(record, moved)| Raised { record, moved })
            .collect()
    }
}
