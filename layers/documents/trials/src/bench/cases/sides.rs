//! Two sides that answer requests for the same time.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use storage_tests::bench::case::{Goal, Judged, Processes, Rig, Sample, Side};
use storage_tests::bench::lander::Landers;
use storage_tests::bench::place::Place;

use crate::bench::requests::Requests;

/// Requests to both sides at one place.
pub(super) struct Sides {
    pub(super) place: Place,
    /// The landing worker, if one is at work.
    pub(super) landers: Option<Landers>,
    pub(super) ours: Requests,
    pub(super) baseline: Requests,
    pub(super) time: Duration,
}

impl Sides {
    fn of(&self, side: Side) -> &Requests {
        match side {
            Side::Ours => &self.ours,
            Side::Baseline => &self.baseline,
        }
    }
}

#[async_trait]
impl Rig for Sides {
    async fn run(&mut self, side: Side) -> Result<Sample> {
        self.of(side).send_for(self.time).await
    }

    fn processes(&self, side: Side) -> Processes {
        Processes {
            gateway: self.of(side).pid(),
            children: self.landers.as_ref().map(Landers::pids).unwrap_or_default(),
            ..self.place.processes()
        }
    }
}

/// The goal of a rate beside that of the baseline.
pub(super) const fn at_least(must: f64, aim: f64) -> Goal {
    Goal {
        judged: Judged::RatioAtLeast,
        must,
        aim,
    }
}
