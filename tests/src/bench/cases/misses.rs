//! Many misses of one owner in several processes, and the number of requests to the database.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::future::try_join_all;
use storage_sdk::ByteOwner;

use super::cold::cold_owners;
use crate::bench::case::{
    Case, Figure, Goal, Judged, Plan, Processes, Repetitions, Rig, Sample, Side,
};
use crate::bench::place::{Arena, Place};
use crate::bench::reader::Reader;

const PROCESSES: usize = 4;
const EACH: usize = 250;

struct Misses;

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![Box::new(Misses)]
}

struct MissesRig {
    place: Place,
    readers: Vec<Reader>,
    /// A cold owner for each repetition.
    owners: Vec<ByteOwner>,
}

#[async_trait]
impl Case for Misses {
    fn plan(&self) -> Plan {
        Plan {
            name: "misses-of-one-owner".to_owned(),
            ours: "times that the database is asked for one cold owner, which 4 processes read 250 times each at once".to_owned(),
            baseline: "once for each miss".to_owned(),
            figure: Figure::Counted,
            unit: "loads",
            goal: Some(Goal { judged: Judged::OursAtMost, must: 4.0, aim: 1.0 }),
            repetitions: Repetitions::Many,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena.place().await?;
        let owners = cold_owners(&place, 32).await?;
        let readers = try_join_all((0..PROCESSES).map(|_| Reader::start(&place))).await?;
        Ok(Box::new(MissesRig {
            place,
            readers,
            owners,
        }))
    }
}

#[async_trait]
impl Rig for MissesRig {
    #[expect(clippy::cast_precision_loss, reason = "a thousand")]
    async fn run(&mut self, side: Side) -> Result<Sample> {
        let misses = PROCESSES * EACH;
        let operations = u64::try_from(misses)?;
        if side == Side::Baseline {
            return Ok(Sample::counted(operations, misses as f64));
        }
        let owner = self.owners.pop().context("each owner is cold once")?;
        let id = owner.owner().id();
        let loads =
            try_join_all(self.readers.iter_mut().map(|reader| reader.read(id, EACH))).await?;
        Ok(Sample::counted(operations, loads.iter().sum()))
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.readers.iter().filter_map(Reader::pid).collect(),
            ..self.place.processes()
        }
    }
}
