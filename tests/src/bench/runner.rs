//! Runs the two sides of a case in turn.

use std::time::Instant;

use anyhow::{Context as _, Result};

use super::case::{Case, Plan, Repetitions, Rig, Side};
use super::cpu::Cpu;
use super::measured::{Measured, Repetition};
use super::place::Arena;
use super::scale::Scale;

/// How often a full run measures a case until the machine is quiet.
const ROUNDS_MAX: usize = 3;

/// Measures a case: once, or in a full run until nothing disturbed it; of the rounds that others disturbed, the least disturbed counts.
/// What hardly varies is measured once in any case.
///
/// # Errors
/// A server does not start, or an operation failed.
pub async fn measure(case: &dyn Case, arena: &Arena) -> Result<Measured> {
    let plan = case.plan();
    let rounds_max = if plan.repetitions == Repetitions::Few { 1 } else { arena.scale.pick(1, 1, ROUNDS_MAX) };
    let mut best: Option<Measured> = None;
    for round in 1..=rounds_max {
        let mut measured = round_of(case, &plan, arena, round).await.with_context(|| plan.name.clone())?;
        if measured.disturbed().is_none() {
            return Ok(measured);
        }
        if let Some(before) = best.take().filter(|before| before.foreign < measured.foreign) {
            measured = Measured { rounds: round, ..before };
        }
        best = Some(measured);
    }
    best.context("no round was run")
}

async fn round_of(case: &dyn Case, plan: &Plan, arena: &Arena, round: usize) -> Result<Measured> {
    let mut rig = case.open(arena).await?;
    let count = repetitions(plan, arena.scale);
    if plan.repetitions == Repetitions::Many {
        for side in [Side::Ours, Side::Baseline] {
            repeat(rig.as_mut(), side).await.context("to warm up")?;
        }
    }
    let (mut ours, mut baseline) = (Vec::new(), Vec::new());
    for number in 0..count {
        // A B, B A: neither side is always the one that finds what the other left behind.
        let order = if number % 2 == 0 { [Side::Ours, Side::Baseline] } else { [Side::Baseline, Side::Ours] };
        for side in order {
            let repetition = repeat(rig.as_mut(), side).await?;
            match side {
                Side::Ours => ours.push(repetition),
                Side::Baseline => baseline.push(repetition),
            }
        }
    }
    Ok(Measured::of(plan, &ours, &baseline, round))
}

fn repetitions(plan: &Plan, scale: Scale) -> usize {
    match plan.repetitions {
        Repetitions::Many => scale.pick(1, 7, 9),
        Repetitions::Few => scale.pick(1, 1, 3),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few cores")]
async fn repeat(rig: &mut dyn Rig, side: Side) -> Result<Repetition> {
    rig.prepare(side).await?;
    let (before, begun) = (Cpu::now(&rig.processes(side))?, Instant::now());
    let sample = rig.run(side).await?;
    // Asked anew, since a server may have been started meanwhile: all that it used is the case's own.
    let cpu = Cpu::now(&rig.processes(side))?.since(&before);
    let cores = std::thread::available_parallelism()?.get();
    Ok(Repetition { sample, cpu, capacity: begun.elapsed().as_secs_f64() * 1e6 * cores as f64 })
}
