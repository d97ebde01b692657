//! A case: two sides of one comparison, and the goal.

use anyhow::Result;
use async_trait::async_trait;
use serde::Serialize;

use super::place::Arena;
use super::scale::Scale;

/// A side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The storage.
    Ours,
    /// Its limit, or the alternative without the storage.
    Baseline,
}

/// The kind of a repetition's figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Operations a second.
    Rate,
    /// Redis' CPU time for an operation, in microseconds.
    RedisMicros,
    /// The CPU time of all processes, servers included, for an operation, in microseconds.
    AllMicros,
    /// A count by the case itself.
    Counted,
}

/// The value that is compared with a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Judged {
    /// Ours divided by the baseline's. It should be great.
    RatioAtLeast,
    /// Ours divided by the baseline's. It should be small.
    RatioAtMost,
    /// Our own figure. It should be small.
    OursAtMost,
    /// The excess of ours over the baseline's. It should be small.
    ExcessAtMost,
}

/// The goal of a case.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Goal {
    /// The compared value.
    pub judged: Judged,
    /// The value that must be reached.
    pub must: f64,
    /// The value that would be better still.
    pub aim: f64,
}

/// The number of repetitions of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetitions {
    /// At least 7 times, for figures that vary. In a full run again, if other processes disturbed
    /// it.
    Many,
    /// Three times in a full run, once in a quick one. For figures that hardly vary, or that take
    /// long.
    Few,
    /// Once in any run. For figures that take minutes and hardly vary.
    Once,
    /// Like [`Repetitions::Few`], after a warm-up. A point of a chart.
    Point,
}

impl Repetitions {
    /// The number of repetitions of each side.
    #[must_use]
    pub fn count(self, scale: Scale) -> usize {
        match self {
            Self::Many => scale.pick(1, 7, 7),
            Self::Few | Self::Point => scale.pick(1, 1, 3),
            Self::Once => 1,
        }
    }

    /// Whether each side runs once before the measurement.
    #[must_use]
    pub fn warms_up(self) -> bool {
        matches!(self, Self::Many | Self::Point)
    }

    /// The largest number of rounds until the machine is quiet.
    #[must_use]
    pub fn rounds_max(self, scale: Scale) -> usize {
        if self == Self::Many {
            scale.pick(1, 1, 3)
        } else {
            1
        }
    }
}

/// The plan of a case.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// The exact work of our side.
    pub ours: String,
    /// The exact work of the baseline.
    pub baseline: String,
    /// The kind of a repetition's figure.
    pub figure: Figure,
    /// The figure's unit.
    pub unit: &'static str,
    /// The goal, if the case has one.
    pub goal: Option<Goal>,
    /// The number of repetitions.
    pub repetitions: Repetitions,
}

/// The result of one repetition of one side.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The number of operations.
    pub operations: u64,
    /// The time for all of them together.
    pub seconds: f64,
    /// The time of each call, in nanoseconds. Empty if single calls say nothing.
    pub latencies: Vec<u32>,
    /// The count of the case, for [`Figure::Counted`].
    pub counted: f64,
}

impl Sample {
    /// A sample with a count.
    #[must_use]
    pub fn counted(operations: u64, counted: f64) -> Self {
        Self {
            operations,
            counted,
            ..Self::default()
        }
    }
}

/// A comparison.
#[async_trait]
pub trait Case: Send + Sync {
    /// Its plan.
    fn plan(&self) -> Plan;

    /// Starts the servers and processes of both sides.
    ///
    /// # Errors
    /// A server does not start or does not answer.
    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>>;
}

/// The two sides of a case, ready to run.
#[async_trait]
pub trait Rig: Send {
    /// Prepares the next repetition of a side. The preparation is not measured.
    ///
    /// # Errors
    /// A server does not answer.
    async fn prepare(&mut self, _: Side) -> Result<()> {
        Ok(())
    }

    /// One repetition of a side.
    ///
    /// # Errors
    /// An operation fails.
    async fn run(&mut self, side: Side) -> Result<Sample>;

    /// The processes whose CPU time counts. The runner asks before and after a repetition. A
    /// process that may die in between is none of them.
    fn processes(&self, side: Side) -> Processes;
}

/// Processes whose CPU time counts, besides this one.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    /// The Redis server.
    pub redis: Option<u32>,
    /// The database server.
    pub mariadb: Option<u32>,
    /// The gateway between the client and the servers, or the alternative to it.
    pub gateway: Option<u32>,
    /// Landing workers and game servers.
    pub children: Vec<u32>,
}
