//! One Redis that is killed, stands still, forgets its scripts, runs out of memory, or has a clock
//! that steps.

use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::sleep;

use super::phase::{Phase, reach};
use super::{Fault, pause};
use crate::torture::arena::Arena;

/// The widest step of the clock, in seconds.
const STEP_MAX: i64 = 3;

pub(super) async fn inject(
    fault: Fault,
    arena: &Arena,
    wanted: Phase,
    rng: &mut StdRng,
) -> Result<Option<Phase>> {
    let phase = reach(arena, wanted).await;
    match fault {
        Fault::RedisKill => {
            let redis = arena.hot.single()?;
            redis.kill()?;
            sleep(pause(rng, 0..1_200)).await;
            redis.restart().await?;
        }
        Fault::RedisPause => {
            let redis = arena.hot.single()?;
            redis.pause()?;
            sleep(pause(rng, 200..2_500)).await;
            redis.resume()?;
        }
        Fault::ScriptFlush => {
            for node in arena.hot.nodes() {
                node.call(&["SCRIPT", "FLUSH"]).await?;
            }
        }
        Fault::Memory => squeeze(arena, rng).await?,
        _ => turn_clock(arena, rng).await?,
    }
    Ok(phase)
}

/// Sets the memory limit below the present use. Redis then evicts clean hashes and afterwards
/// rejects writes.
async fn squeeze(arena: &Arena, rng: &mut StdRng) -> Result<()> {
    for node in arena.hot.nodes() {
        let info = node.call(&["INFO", "memory"]).await?;
        let used = info
            .text()?
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"))
            .context("INFO names no used_memory")?;
        let limit = used.trim().parse::<u64>()? * rng.random_range(70..100) / 100;
        node.call(&["CONFIG", "SET", "maxmemory", &limit.to_string()])
            .await?;
    }
    sleep(pause(rng, 200..1_200)).await;
    for node in arena.hot.nodes() {
        node.call(&["CONFIG", "SET", "maxmemory", "0"]).await?;
    }
    Ok(())
}

/// Some steps of the clock in both directions, and the right time at the end.
async fn turn_clock(arena: &Arena, rng: &mut StdRng) -> Result<()> {
    let steps: Vec<i64> = (0..rng.random_range(1..4))
        .map(|_| rng.random_range(-STEP_MAX..=STEP_MAX))
        .collect();
    let mut before = 0;
    for step in steps.into_iter().chain([0]) {
        arena.turned_back.fetch_add(
            u64::try_from((before - step) * 1_000_000).unwrap_or(0),
            Ordering::Relaxed,
        );
        arena
            .hot
            .nodes()
            .into_iter()
            .try_for_each(|node| node.skew(step))?;
        before = step;
        sleep(pause(rng, 100..600)).await;
    }
    Ok(())
}
