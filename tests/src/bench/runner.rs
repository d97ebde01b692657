//! Runs the two sides of a case in turn.

use std::time::Instant;

use anyhow::{Context as _, Result};

use super::case::{Case, Plan, Rig, Side};
use super::cpu::Cpu;
use super::measured::{Measured, Repetition};
use super::place::Arena;

/// Measures a case. In a full run it repeats the case until nothing disturbed it, and of the
/// disturbed rounds the least disturbed counts. A figure that hardly varies is measured once in any
/// run. All rounds share what the case opened.
///
/// # Errors
/// A server does not start, or an operation fails.
pub async fn measure(case: &dyn Case, arena: &Arena) -> Result<Measured> {
    let plan = case.plan();
    rounds(case, &plan, arena)
        .await
        .with_context(|| plan.name.clone())
}

async fn rounds(case: &dyn Case, plan: &Plan, arena: &Arena) -> Result<Measured> {
    let mut rig = case.open(arena).await?;
    if plan.repetitions.warms_up() {
        for side in [Side::Ours, Side::Baseline] {
            repeat(rig.as_mut(), side).await.context("to warm up")?;
        }
    }
    let count = plan.repetitions.count(arena.scale);
    let mut best = round_of(rig.as_mut(), plan, count, 1).await?;
    for round in 2..=plan.repetitions.rounds_max(arena.scale) {
        if best.disturbed().is_none() || !arena.may_repeat() {
            break;
        }
        let begun = Instant::now();
        let measured = round_of(rig.as_mut(), plan, count, round).await?;
        best = if measured.disturbed().is_none() || measured.foreign < best.foreign {
            measured
        } else {
            Measured {
                rounds: round,
                ..best
            }
        };
        arena.repeated(begun.elapsed());
    }
    Ok(best)
}

async fn round_of(rig: &mut dyn Rig, plan: &Plan, count: usize, round: usize) -> Result<Measured> {
    let (mut ours, mut baseline) = (Vec::new(), Vec::new());
    for number in 0..count {
        // A B, B A: neither side always finds the leftovers of the other.
        let order = if number % 2 == 0 {
            [Side::Ours, Side::Baseline]
        } else {
            [Side::Baseline, Side::Ours]
        };
        for side in order {
            let repetition = repeat(rig, side).await?;
            match side {
                Side::Ours => ours.push(repetition),
                Side::Baseline => baseline.push(repetition),
            }
        }
    }
    Ok(Measured::of(plan, &ours, &baseline, round))
}

#[expect(clippy::cast_precision_loss, reason = "a few cores")]
async fn repeat(rig: &mut dyn Rig, side: Side) -> Result<Repetition> {
    rig.prepare(side).await?;
    let (before, begun) = (Cpu::now(&rig.processes(side))?, Instant::now());
    let sample = rig.run(side).await?;
    // Asked again, since a server may have been started in between. All its CPU time belongs to the
    // case.
    let cpu = Cpu::now(&rig.processes(side))?.since(&before);
    let cores = std::thread::available_parallelism()?.get();
    Ok(Repetition {
        sample,
        cpu,
        capacity: begun.elapsed().as_secs_f64() * 1e6 * cores as f64,
    })
}
