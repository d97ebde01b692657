//! The result of a run, as a table and as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::args::Topology;
use super::faults::Fault;
use super::history::{Call, End, Operation};
use super::moment::Micros;
use super::nemesis::Coverage;
use super::oracle::{Flaw, Judgement};

/// Operations by their end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Operations {
    /// All of them.
    pub all: usize,
    /// Writes that were acknowledged.
    pub acknowledged: usize,
    /// Writes that were reported as not applied, conflicts included.
    pub not_applied: usize,
    /// Writes of unknown outcome, including those of killed game servers.
    pub unknown: usize,
    /// Reads that found something or nothing.
    pub reads: usize,
    /// Reads and flushes that failed.
    pub failed: usize,
    /// Flushes that reported all data in the database.
    pub flushed: usize,
    /// The longest time of an operation, in seconds.
    pub longest_seconds: f64,
    /// The longest time without an acknowledgement to any game server, in seconds.
    pub stall_seconds: f64,
}

impl Operations {
    /// Counts.
    #[must_use]
    pub fn of(operations: &[Operation]) -> Self {
        let mut counts = Self {
            all: operations.len(),
            ..Self::default()
        };
        let mut ends: Vec<Micros> = Vec::new();
        let mut longest = 0;
        for operation in operations {
            let is_write = matches!(operation.call, Call::Write { .. } | Call::Append(_));
            match &operation.end {
                End::Acked { .. } | End::Applied(_) | End::Appended { .. } => {
                    counts.acknowledged += 1
                }
                End::NotApplied(_) | End::Conflict if is_write => counts.not_applied += 1,
                End::NotApplied(_) | End::Conflict => counts.failed += 1,
                End::Unknown(_) if is_write => counts.unknown += 1,
                End::Unknown(_) => counts.failed += 1,
                End::Found { .. } => counts.reads += 1,
                End::Flushed(_) => counts.flushed += 1,
                End::Done(_) => {}
            }
            if operation.ended != Micros::MAX && operation.call != Call::Close {
                longest = longest.max(operation.ended - operation.begun);
            }
            if matches!(operation.end, End::Acked { .. } | End::Appended { .. }) {
                ends.push(operation.ended);
            }
        }
        ends.sort_unstable();
        let stall = ends
            .windows(2)
            .map(|pair| {
                if let [one, next] = pair {
                    next - one
                } else {
                    0
                }
            })
            .max();
        counts.longest_seconds = std::time::Duration::from_micros(longest).as_secs_f64();
        counts.stall_seconds = std::time::Duration::from_micros(stall.unwrap_or(0)).as_secs_f64();
        counts
    }
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The seconds for which faults were injected.
    pub seconds: u64,
    /// The topology.
    pub topology: Topology,
    /// Operations by their end.
    pub operations: Operations,
    /// Faults by kind and by phase.
    pub faults: Vec<Coverage>,
    /// The time that everything took to land after the end, in seconds.
    pub drain_seconds: f64,
    /// Keys that Redis let expire or evicted since its servers last started.
    pub dropped: u64,
    /// Fields that were judged.
    pub fields: usize,
    /// Fields with too many unknown outcomes at a time to be judged.
    pub undecided: usize,
    /// Reads of fields that were compared with their possible results.
    pub reads_compared: usize,
    /// The flaws of the storage.
    pub flaws: Vec<Flaw>,
    /// The flaws of the run: planned faults that did not hit.
    pub missed: Vec<String>,
}

impl Report {
    /// Whether there is no flaw.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.flaws.is_empty() && self.missed.is_empty()
    }

    /// The number of cells of fault × work under way that were hit. The work is writes, reads, and
    /// each phase of landing.
    #[must_use]
    pub fn cells(&self) -> usize {
        let of = |line: &Coverage| {
            line.phases.len() + usize::from(line.writes > 0) + usize::from(line.reads > 0)
        };
        self.faults.iter().map(of).sum()
    }

    /// The number of killed processes.
    #[must_use]
    pub fn kills(&self) -> usize {
        let kills = |line: &&Coverage| Fault::named(line.fault).and_then(Fault::kills).is_some();
        self.faults
            .iter()
            .filter(kills)
            .map(|line| line.times)
            .sum()
    }

    /// Takes over the verdict of the oracle.
    pub fn judged(&mut self, judgement: Judgement) {
        self.fields = judgement.fields;
        self.undecided = judgement.undecided;
        self.reads_compared = judgement.reads;
        self.flaws.extend(judgement.flaws);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operations {
            all,
            acknowledged,
            not_applied,
            unknown,
            reads,
            failed,
            flushed,
            longest_seconds,
            stall_seconds,
        } = &self.operations;
        writeln!(
            f,
            "torture --seed {} --seconds {} --topology {:?}",
            self.seed, self.seconds, self.topology
        )?;
        writeln!(f, "operations          {all}")?;
        writeln!(
            f,
            "writes acknowledged {acknowledged}, refused {not_applied}, of unknown outcome {unknown}"
        )?;
        writeln!(
            f,
            "reads               {reads}, flushes {flushed}, others that failed {failed}"
        )?;
        writeln!(
            f,
            "fields judged       {}, undecided {}; reads compared {}",
            self.fields, self.undecided, self.reads_compared
        )?;
        writeln!(
            f,
            "longest operation   {longest_seconds:.1} s; longest without an acknowledgement {stall_seconds:.1} s"
        )?;
        writeln!(
            f,
            "drained after       {:.1} s; keys expired or evicted {}",
            self.drain_seconds, self.dropped
        )?;
        writeln!(
            f,
            "{:<16}{:>6}{:>9}{:>9}  phases of landing",
            "fault", "times", "writes", "reads"
        )?;
        for line in &self.faults {
            let phases: Vec<String> = line
                .phases
                .iter()
                .map(|(phase, times)| format!("{phase:?} {times}"))
                .collect();
            writeln!(
                f,
                "{:<16}{:>6}{:>9}{:>9}  {}",
                line.fault,
                line.times,
                line.writes,
                line.reads,
                phases.join(", ")
            )?;
        }
        writeln!(
            f,
            "{} cells of fault × work under way, {} kills",
            self.cells(),
            self.kills()
        )?;
        for missed in &self.missed {
            writeln!(f, "NOT COVERED: {missed}")?;
        }
        for flaw in &self.flaws {
            writeln!(f, "FLAW {} {}: {}", flaw.check, flaw.name, flaw.detail)?;
            for line in &flaw.history {
                writeln!(f, "    {line}")?;
            }
        }
        let verdict = if self.is_good() {
            "GOOD: nothing acknowledged was lost"
        } else {
            "BAD"
        };
        write!(f, "{verdict} (seed {})", self.seed)
    }
}
