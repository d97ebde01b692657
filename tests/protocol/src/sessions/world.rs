//! The state: the hot tier and the database, the servers, and the rest of the bounds.

use std::collections::BTreeSet;
use std::sync::Arc;

use storage_dirty::memory::{PartState, Present, fill, observe, partition, read, writes};
use storage_dirty::{ClaimSession, Fields, HotRead, Load, Mutated};
use storage_model::{
    Attempt, Bytes, Cell, Change, Epoch, Fence, Field, Mutation, OpId, Timestamp, Version,
};

use super::Sessions;
use super::network::Call;
use crate::names::{PARTITION, PRESENT, fields, owner};

/// A session, as its server knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Known {
    pub(super) fence: Fence,
    /// The epoch in which it was opened or last confirmed.
    pub(super) epoch: Epoch,
    /// The greatest version that it knows.
    pub(super) acked: Version,
    pub(super) value: u8,
    pub(super) claims: bool,
}

impl Known {
    pub(super) fn claim(&self, server: usize) -> ClaimSession {
        let (owner, name) = (owner(), String::new());
        ClaimSession {
            owner,
            fence: self.fence,
            holder: holder(server),
            name,
            epoch: self.epoch,
            acked: self.acked,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum At {
    Idle,
    /// Its call is under way, or its answer is.
    Opening {
        token: OpId,
        takes: Option<Fence>,
        answer: Option<Known>,
    },
    Open(Known),
    /// By the hot tier, another session has the owner.
    Lost,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) at: At,
    /// The last session that it saw when it wanted the owner.
    pub(super) seen: Option<Fence>,
    pub(super) paused: bool,
    /// Whether it was paused when a grace ended.
    pub(super) missed: bool,
    /// The epoch that it sends in.
    pub(super) epoch: Epoch,
}

/// The conditions that this history of the hot tier must fulfil.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Truth {
    /// The fence of the last session that was opened.
    pub(super) last: Option<Fence>,
    /// The epoch in which it was ended, if it never saved. In the next epoch it counts as if it had
    /// never been.
    pub(super) undone: Option<Epoch>,
    /// The last value that was written.
    pub(super) value: u8,
    /// The epoch of that write and the token of its session, if any.
    pub(super) wrote: Option<(Epoch, Option<OpId>)>,
}

impl Truth {
    /// Whether the last writer in this epoch was another than this session, and the session never
    /// saw that write.
    pub(super) fn is_news_to(&self, known: &Known, epoch: Epoch) -> bool {
        let is_of_another = |(wrote_in, by)| wrote_in == epoch && by != Some(known.fence.token);
        self.wrote.is_some_and(is_of_another) && self.value != known.value
    }
}

/// The hot tier, and the conditions on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hot {
    pub(super) part: Arc<PartState>,
    pub(super) truth: Truth,
}

/// The whole state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) hot: Hot,
    pub(super) copy: Option<Hot>,
    pub(super) row: Option<(Version, u8)>,
    pub(super) last_version: Version,
    pub(super) epoch: Epoch,
    pub(super) servers: Vec<Server>,
    /// Calls that the network may carry out later, or once more.
    pub(super) calls: Vec<Call>,
    /// The tokens of sessions that have saved, including those that the hot tier forgot since.
    pub(super) wrote: BTreeSet<OpId>,
    pub(super) next_value: u8,
    pub(super) next_token: u8,
    pub(super) replaced: u8,
    pub(super) adopted: bool,
    /// The rest of the bounds. Bounds that nothing uses up are not looked at.
    pub(super) left: Sessions,
}

pub(super) const DEADLINE: Timestamp = Timestamp(1_000_000);

pub(super) fn field() -> Field {
    fields(1).remove(0)
}

fn change(value: u8) -> Vec<(Field, Change)> {
    vec![(field(), Change::Set(Bytes::from(value.to_string())))]
}

pub(super) fn holder(server: usize) -> OpId {
    OpId::new([u8::try_from(server).unwrap_or(u8::MAX); 16])
}

pub(super) fn number_of(cell: &Cell) -> Option<u8> {
    std::str::from_utf8(cell.live()?).ok()?.parse().ok()
}

impl World {
    pub(super) fn new(bounds: &Sessions) -> Self {
        let server = Server {
            at: At::Idle,
            seen: None,
            paused: false,
            missed: false,
            epoch: Epoch(0),
        };
        let row = bounds
            .stored
            .then(|| (Version::new(50).unwrap_or_default(), 50));
        let truth = Truth {
            value: row.map(|(_, value)| value).unwrap_or_default(),
            ..Truth::default()
        };
        let mut world = Self {
            hot: Hot {
                part: Arc::new(PartState::new("0".into())),
                truth,
            },
            copy: None,
            row,
            last_version: row.map(|(version, _)| version).unwrap_or_default(),
            epoch: Epoch(0),
            servers: vec![server; usize::from(bounds.servers)],
            calls: Vec::new(),
            wrote: BTreeSet::new(),
            next_value: 0,
            next_token: 0,
            replaced: 0,
            adopted: false,
            left: *bounds,
        };
        world.adopt();
        world
    }

    pub(super) fn part(&mut self) -> &mut PartState {
        Arc::make_mut(&mut self.hot.part)
    }

    pub(super) fn present(&self) -> Present {
        let moves = 100 * u64::from(self.replaced);
        let now = if self.left.sets_back {
            1_000 - moves
        } else {
            moves
        };
        Present {
            now: Timestamp(now),
            ..PRESENT
        }
    }

    /// The result of a load: the owner's row, with a proof.
    pub(super) fn load(&mut self) -> Option<Load> {
        let present = self.present();
        let observed = observe::observe(self.part(), &present, PARTITION, &owner()).ok()?;
        let rows = self.row.iter().map(|(version, value)| {
            (
                field(),
                Cell::Live(Bytes::from(value.to_string())),
                *version,
            )
        });
        Some(Load {
            owner: owner(),
            observed,
            rows: rows.collect(),
            complete: true,
        })
    }

    /// The owner by the hot tier, or by the row if that is newer or the hot tier has nothing.
    pub(super) fn stored(&self) -> (Version, Option<u8>) {
        let (mut copy, present) = (self.clone(), self.present());
        let filled = copy
            .load()
            .map(|load| fill::fill(copy.part(), &present, PARTITION, &load));
        let read: HotRead = match filled {
            Some(Ok(storage_dirty::Filled::Accepted(read))) => read,
            _ => read::read(&self.hot.part, &owner(), &Fields::All),
        };
        let version = read.header.map(|header| header.version).unwrap_or_default();
        (
            version,
            read.cells.iter().find_map(|(_, cell)| number_of(cell)),
        )
    }

    pub(super) fn is_ready(&self) -> bool {
        self.adopted && observe::epoch(&self.hot.part, PARTITION).is_ok()
    }

    pub(super) fn mutate(&mut self, mutation: &Mutation) -> Option<Mutated> {
        let present = self.present();
        let answer = writes::mutate(self.part(), &present, PARTITION, mutation, &[]).ok()?;
        match answer {
            Mutated::Load(_) => {
                let load = self.load()?;
                writes::mutate(
                    self.part(),
                    &present,
                    PARTITION,
                    mutation,
                    std::slice::from_ref(&load),
                )
                .ok()
            }
            other => Some(other),
        }
    }

    pub(super) fn mutation(&self, value: u8, epoch: Epoch) -> Mutation {
        let mutation = Mutation::new(owner(), change(value), OpId::new([value; 16]), DEADLINE);
        mutation.as_attempt(Attempt::First).sent_in(epoch)
    }

    /// The epoch of the hot tier's record.
    pub(super) fn hot_epoch(&self) -> Epoch {
        partition::partition_state(&self.hot.part)
            .record
            .map(|record| record.epoch)
            .unwrap_or_default()
    }

    /// The version that the hot tier has by itself.
    pub(super) fn stored_hot(&self) -> Version {
        read::read(&self.hot.part, &owner(), &Fields::All)
            .header
            .map(|header| header.version)
            .unwrap_or_default()
    }

    pub(super) fn set(&mut self, at: usize, to: At) {
        if let Some(server) = self.servers.get_mut(at) {
            server.at = to;
        }
    }
}
