//! Landing, from a full dirty map to an empty one, against upserts without a hot tier.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use async_trait::async_trait;

use super::at_least;
use crate::bench::case::{Case, Figure, Goal, Plan, Processes, Repetitions, Rig, Sample, Side};
use crate::bench::fill::fill;
use crate::bench::lander::{HELD, Landers};
use crate::bench::place::{Arena, Place, owner_id, value};
use crate::bench::plain::fields;
use crate::bench::straight::{PlainRow, Straight};

/// Landing of one field of each owner, with values of this number of bytes.
#[derive(Debug, Clone)]
pub struct Landing {
    name: String,
    bytes: usize,
    inserts: bool,
    without: Without,
    workers: usize,
    /// More settings, such as the size of a batch.
    settings: String,
    goal: Option<Goal>,
    repetitions: Repetitions,
}

/// The alternative without a hot tier.
#[derive(Debug, Clone, Copy)]
enum Without {
    /// Each row in its own statement and transaction, in order of arrival, over 16 connections.
    Single,
    /// 1,000 rows in a statement, in key order, over 2 connections: the least possible cost of
    /// landing.
    Batches,
}

impl Landing {
    /// Updates of 64 B against single upserts, without a goal.
    #[must_use]
    pub fn point(workers: usize, batch_rows: usize) -> Self {
        let name = format!("landing-{workers}x{batch_rows}");
        let settings = format!("batch_rows = {batch_rows}\n");
        let landing = Self::new(&name, 64, false, Without::Single, None);
        Self {
            workers,
            settings,
            repetitions: Repetitions::Point,
            ..landing
        }
    }

    fn new(
        name: &str,
        bytes: usize,
        inserts: bool,
        without: Without,
        goal: impl Into<Option<Goal>>,
    ) -> Self {
        let (name, settings, repetitions) = (name.to_owned(), String::new(), Repetitions::Many);
        Self {
            name,
            bytes,
            inserts,
            without,
            workers: 1,
            settings,
            goal: goal.into(),
            repetitions,
        }
    }
}

pub(super) fn cases() -> Vec<Box<dyn Case>> {
    vec![
        Box::new(Landing::new(
            "landing-insert",
            64,
            true,
            Without::Single,
            at_least(8.0, 13.0),
        )),
        Box::new(Landing::new(
            "landing-update",
            64,
            false,
            Without::Single,
            at_least(6.0, 10.0),
        )),
        Box::new(Landing::new(
            "landing-update-1k",
            1_024,
            false,
            Without::Single,
            at_least(3.5, 6.0),
        )),
        Box::new(Landing::new(
            "landing-end-to-end",
            64,
            false,
            Without::Batches,
            at_least(0.36, 0.5),
        )),
    ]
}

struct LandingRig {
    place: Place,
    landers: Landers,
    straight: Straight,
    landing: Landing,
    owners: usize,
    round: u64,
    rows: Arc<Vec<PlainRow>>,
}

#[async_trait]
impl Case for Landing {
    fn plan(&self) -> Plan {
        let Self {
            name,
            bytes,
            inserts,
            without,
            workers,
            settings,
            goal,
            repetitions,
        } = self;
        let kind = if *inserts { "new rows" } else { "known rows" };
        let baseline = match without {
            Without::Single => {
                "prepared upserts of one row each, flushed at each commit, as they come, 16 connections"
            }
            Without::Batches => "prepared upserts of 1,000 rows each in key order, 2 connections",
        };
        let settings = settings.trim();
        Plan {
            name: name.clone(),
            ours: format!(
                "{workers} worker(s) {settings}: from marks of 1 field of {bytes} B each, {kind}, until all are committed and settled"
            ),
            baseline: format!("{baseline}, of the same rows"),
            figure: Figure::Rate,
            unit: "rows/s",
            goal: *goal,
            repetitions: *repetitions,
        }
    }

    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>> {
        let place = arena
            .place_with(&HELD.replacen("[landing]\n", &format!("[landing]\n{}", self.settings), 1))
            .await?;
        let landers = Landers::start(&place, self.workers).await?;
        let straight = match self.without {
            Without::Single => Straight::open(&place, 16, 1).await?,
            Without::Batches => Straight::open(&place, 2, 1_000).await?,
        };
        let owners = arena.scale.pick(200, 6_000, 30_000);
        Ok(Box::new(LandingRig {
            place,
            landers,
            straight,
            landing: self.clone(),
            owners,
            round: 0,
            rows: Arc::default(),
        }))
    }
}

#[async_trait]
impl Rig for LandingRig {
    async fn prepare(&mut self, side: Side) -> Result<()> {
        self.landers.hold().await?;
        self.round += 1;
        let (round, bytes) = (self.round, self.landing.bytes);
        let series = if self.landing.inserts {
            format!("n{round}-")
        } else {
            "o".to_owned()
        };
        match side {
            Side::Ours => {
                fill(&self.place, &series, self.owners, &fields(1, bytes, round)).await?;
                self.landers.rested().await;
            }
            Side::Baseline => {
                let row = |number| PlainRow {
                    owner_id: owner_id(&series, number),
                    value: value(bytes, round),
                    version: round,
                };
                let mut rows: Vec<PlainRow> = (0..self.owners).map(row).collect();
                if matches!(self.landing.without, Without::Batches) {
                    rows.sort();
                }
                self.rows = Arc::new(rows);
            }
        }
        Ok(())
    }

    async fn run(&mut self, side: Side) -> Result<Sample> {
        match side {
            Side::Ours => {
                let begun = Instant::now();
                self.landers.let_go()?;
                self.landers.landed().await?;
                let seconds = begun.elapsed().as_secs_f64();
                Ok(Sample {
                    operations: u64::try_from(self.owners)?,
                    seconds,
                    ..Sample::default()
                })
            }
            Side::Baseline => self.straight.upsert(&self.rows).await,
        }
    }

    fn processes(&self, _: Side) -> Processes {
        Processes {
            children: self.landers.pids(),
            ..self.place.processes()
        }
    }
}
