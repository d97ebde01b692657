//! What a case is: two sides of one comparison, and the goal.

use anyhow::Result;
use async_trait::async_trait;
use serde::Serialize;

use super::place::Arena;
use super::scale::Scale;

/// Which side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The storage.
    Ours,
    /// Its limit, or what one would do instead.
    Baseline,
}

/// What a repetition's figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Operations a second.
    Rate,
    /// Redis' CPU time for an operation, in microseconds.
    RedisMicros,
    /// The CPU time of all processes, servers included, for an operation, in microseconds.
    AllMicros,
    /// What the case itself counted.
    Counted,
}

/// What is compared with a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Judged {
    /// Ours by the baseline's, which should be great.
    RatioAtLeast,
    /// Ours by the baseline's, which should be small.
    RatioAtMost,
    /// Our own figure, which should be small.
    OursAtMost,
    /// By how much ours is above the baseline's, which should be small.
    ExcessAtMost,
}

/// What is to be reached.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Goal {
    /// What it is about.
    pub judged: Judged,
    /// What must be reached.
    pub must: f64,
    /// What would be better still.
    pub aim: f64,
}

/// How often a case is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetitions {
    /// At least 7 times, for what varies; in a full run again, if others disturbed it.
    Many,
    /// Three times in a full run, once in a quick one: what hardly varies, or takes long.
    Few,
    /// Once in any run: what takes minutes and hardly varies.
    Once,
    /// As [`Repetitions::Few`], after a warm-up: a point of a chart.
    Point,
}

impl Repetitions {
    /// Repetitions of each side.
    #[must_use]
    pub fn count(self, scale: Scale) -> usize {
        match self {
            Self::Many => scale.pick(1, 7, 7),
            Self::Few | Self::Point => scale.pick(1, 1, 3),
            Self::Once => 1,
        }
    }

    /// Whether each side runs once before it is measured.
    #[must_use]
    pub fn warms_up(self) -> bool {
        matches!(self, Self::Many | Self::Point)
    }

    /// How often the case is measured until the machine is quiet.
    #[must_use]
    pub fn rounds_max(self, scale: Scale) -> usize {
        if self == Self::Many {
            scale.pick(1, 1, 3)
        } else {
            1
        }
    }
}

/// What a case measures.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What ours does, exactly.
    pub ours: String,
    /// What the baseline does, exactly.
    pub baseline: String,
    /// What a repetition's figure is.
    pub figure: Figure,
    /// The figure's unit.
    pub unit: &'static str,
    /// What is to be reached.
    pub goal: Goal,
    /// How often it is repeated.
    pub repetitions: Repetitions,
}

/// What one repetition of one side did.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// Operations that were done.
    pub operations: u64,
    /// How long all of them took together.
    pub seconds: f64,
    /// How long each call took, in nanoseconds; none where single calls say nothing.
    pub latencies: Vec<u32>,
    /// What the case counted, for [`Figure::Counted`].
    pub counted: f64,
}

impl Sample {
    /// A sample of something that was counted.
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
    /// What it measures.
    fn plan(&self) -> Plan;

    /// Starts what both sides need.
    ///
    /// # Errors
    /// A server does not start or does not answer.
    async fn open(&self, arena: &Arena) -> Result<Box<dyn Rig>>;
}

/// The two sides of a case, ready to run.
#[async_trait]
pub trait Rig: Send {
    /// Puts in place what the next repetition of a side needs. It is not measured.
    ///
    /// # Errors
    /// A server does not answer.
    async fn prepare(&mut self, _: Side) -> Result<()> {
        Ok(())
    }

    /// One repetition of a side.
    ///
    /// # Errors
    /// An operation failed.
    async fn run(&mut self, side: Side) -> Result<Sample>;

    /// The processes whose CPU time counts. Asked before and after a repetition; one that may die
    /// in it is none of them.
    fn processes(&self, side: Side) -> Processes;
}

/// Processes whose CPU time counts, besides this one.
#[derive(Debug, Clone, Default)]
pub struct Processes {
    /// The Redis server.
    pub redis: Option<u32>,
    /// The database server.
    pub mariadb: Option<u32>,
    /// Landing workers and game servers.
    pub children: Vec<u32>,
}
