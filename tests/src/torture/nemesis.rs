//! The order of faults: a plan that the seed decides, then more of them until the time is over.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::args::Args;
use super::faults::{Fault, Group, Phase};
use super::history::{Call, Operation};
use super::moment::{Micros, now};

/// A fault that happened.
#[derive(Debug, Clone)]
pub struct Injection {
    /// The fault.
    pub fault: Fault,
    /// The phase of landing that it hit.
    pub phase: Phase,
    /// The time at which it began.
    pub begun: Micros,
    /// The time at which its damage was repaired.
    pub ended: Micros,
    /// Writes that were under way when it hit, by the histories.
    pub writes: usize,
    /// Reads that were under way.
    pub reads: usize,
}

/// A fault that the seed wants, in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// The fault.
    pub fault: Fault,
    /// The phase that it must hit.
    pub phase: Phase,
}

/// The approximate time of one fault. A run plans as many as fit.
const EACH: Duration = Duration::from_millis(1_700);
/// The longest time beyond its end that a run may take to finish its plan.
const LONGER: Duration = Duration::from_secs(90);
/// The longest pause between two faults of a group, and the longest of every fourth pause, in which
/// some data lands.
const PAUSE_MAX_MS: u64 = 400;
const REST_MAX_MS: u64 = 2_000;
/// The longest pauses if faults of the tiers come seldom, and the part of the run that they take at
/// most.
const SELDOM_HOT_MS: u64 = 7_000;
const SELDOM_COLD_MS: u64 = 14_000;
const SELDOM_PART: u64 = 5;

/// The faults of each group for this time.
#[must_use]
pub fn plan(faults: &[Fault], group: Group, time: Duration, seed: u64) -> Vec<Planned> {
    let of_group = faults.iter().filter(|fault| fault.group() == group);
    let mut all: Vec<Planned> = of_group
        .flat_map(|fault| {
            fault.phases().iter().map(|phase| Planned {
                fault: *fault,
                phase: *phase,
            })
        })
        .collect();
    all.shuffle(&mut rng(seed, group));
    // Each fault comes once before any comes in another phase.
    let earlier = |at: usize, fault| {
        all.iter()
            .take(at)
            .filter(|planned| planned.fault == fault)
            .count()
    };
    let ranks: Vec<usize> = all
        .iter()
        .enumerate()
        .map(|(at, planned)| earlier(at, planned.fault))
        .collect();
    let mut ranked: Vec<(usize, Planned)> = ranks.into_iter().zip(all).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let fitting = usize::try_from(time.as_millis() / EACH.as_millis())
        .unwrap_or(usize::MAX)
        .max(1);
    ranked
        .into_iter()
        .take(fitting)
        .map(|(_, planned)| planned)
        .collect()
}

fn rng(seed: u64, group: Group) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(31) ^ (group as u64 + 1) << 60)
}

/// Injects the planned faults of a group, then more, until the time is over.
///
/// # Errors
/// A fault can't be made, or its damage can't be repaired.
pub async fn torment(
    args: &Args,
    faults: &[Fault],
    group: Group,
    plan: &[Planned],
    mut inject: impl AsyncFnMut(Planned, &mut StdRng) -> Result<Option<Phase>>,
) -> Result<Vec<Injection>> {
    let time = Duration::from_secs(args.seconds);
    let begun = Instant::now();
    let mut rng = rng(!args.seed, group);
    let mut left = plan.to_vec();
    let possible: Vec<Fault> = faults
        .iter()
        .copied()
        .filter(|fault| fault.group() == group)
        .collect();
    let mut injections: Vec<Injection> = Vec::new();
    while !possible.is_empty()
        && (begun.elapsed() < time || (!left.is_empty() && begun.elapsed() < time + LONGER))
    {
        sleep(pause(args, group, &mut rng)).await;
        let next = left
            .first()
            .copied()
            .unwrap_or_else(|| any(&possible, &mut rng));
        let at = now();
        let hit = inject(next, &mut rng).await;
        let phase = hit.with_context(|| format!("the fault {}", next.fault.name()))?;
        if let Some(phase) = phase {
            eprintln!(
                "{:>6.1} s  {} ({phase:?})",
                begun.elapsed().as_secs_f64(),
                next.fault.name()
            );
            injections.push(Injection {
                fault: next.fault,
                phase,
                begun: at,
                ended: now(),
                writes: 0,
                reads: 0,
            });
        }
        if left.first() == Some(&next) {
            left.remove(0);
            // The histories show afterwards whether writes were under way. Whether the fault was
            // made at all is known now.
            let hit =
                phase.is_some_and(|phase| next.phase == Phase::Writing || phase.is(next.phase));
            if !hit {
                left.push(next);
            }
        }
    }
    Ok(injections)
}

fn pause(args: &Args, group: Group, rng: &mut StdRng) -> Duration {
    let part = (args.seconds * 1_000 / SELDOM_PART).max(1);
    let longest = match (args.seldom, group) {
        (true, Group::Process) => PAUSE_MAX_MS,
        (true, Group::Hot) => SELDOM_HOT_MS.min(part),
        (true, Group::Cold) => SELDOM_COLD_MS.min(part),
        (false, _) if rng.random_range(0..4) == 0 => REST_MAX_MS,
        (false, _) => PAUSE_MAX_MS,
    };
    Duration::from_millis(rng.random_range(0..longest))
}

fn any(possible: &[Fault], rng: &mut StdRng) -> Planned {
    let at = rng.random_range(0..possible.len());
    let fault = possible.get(at).copied().unwrap_or(Fault::WorkerKill);
    let phases = fault.phases();
    let phase = phases
        .get(rng.random_range(0..phases.len()))
        .copied()
        .unwrap_or(Phase::Writing);
    Planned { fault, phase }
}

/// Finds in the histories the operations that were under way when each fault hit.
pub fn count_operations(injections: &mut [Injection], operations: &[Operation]) {
    for injection in injections {
        let during = operations.iter().filter(|operation| {
            operation.begun < injection.ended && operation.ended > injection.begun
        });
        for operation in during {
            match operation.call {
                Call::Write { .. } | Call::Append(_) => injection.writes += 1,
                Call::Read(_) => injection.reads += 1,
                _ => {}
            }
        }
    }
}

/// A line of the report.
#[derive(Debug, Clone, Serialize)]
pub struct Coverage {
    /// The fault.
    pub fault: &'static str,
    /// The number of times that it happened.
    pub times: usize,
    /// The phases of landing that it hit, with their counts.
    pub phases: Vec<(Phase, usize)>,
    /// Writes that were under way at the time.
    pub writes: usize,
    /// Reads that were under way at the time.
    pub reads: usize,
}

/// The counts of each fault and of its phases.
#[must_use]
pub fn coverage(faults: &[Fault], injections: &[Injection]) -> Vec<Coverage> {
    let of = |fault: &Fault| {
        let all: Vec<&Injection> = injections
            .iter()
            .filter(|injection| injection.fault == *fault)
            .collect();
        let mut phases: Vec<(Phase, usize)> = Vec::new();
        for injection in &all {
            match phases
                .iter_mut()
                .find(|(phase, _)| *phase == injection.phase)
            {
                Some((_, times)) => *times += 1,
                None => phases.push((injection.phase, 1)),
            }
        }
        phases.sort();
        Coverage {
            fault: fault.name(),
            times: all.len(),
            phases,
            writes: all.iter().map(|injection| injection.writes).sum(),
            reads: all.iter().map(|injection| injection.reads).sum(),
        }
    };
    faults.iter().map(of).collect()
}

/// The planned faults that never hit.
#[must_use]
pub fn missed(plan: &[Planned], injections: &[Injection]) -> Vec<String> {
    let hit = |planned: &Planned| {
        let of_fault = injections
            .iter()
            .filter(|injection| injection.fault == planned.fault);
        of_fault.into_iter().any(|injection| match planned.phase {
            Phase::Writing => injection.writes > 0,
            phase => injection.phase.is(phase),
        })
    };
    let text = |planned: &Planned| {
        format!(
            "{} was planned for the phase {:?} and never hit it",
            planned.fault.name(),
            planned.phase
        )
    };
    plan.iter()
        .filter(|planned| !hit(planned))
        .map(text)
        .collect()
}
