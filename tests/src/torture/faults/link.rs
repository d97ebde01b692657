//! Faults of the links.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::sleep;

use super::phase::{Phase, reach};
use super::{Fault, Group, pause};
use crate::torture::arena::Arena;
use crate::{Link, Weather};

pub(super) async fn inject(
    fault: Fault,
    arena: &Arena,
    wanted: Phase,
    rng: &mut StdRng,
) -> Result<Option<Phase>> {
    let all = if fault.group() == Group::Hot {
        &arena.links.hot
    } else {
        &arena.links.cold
    };
    let one = all.get(rng.random_range(0..all.len())).context("a link")?;
    let links: Vec<&Link> = if rng.random_range(0..2) == 0 {
        vec![one]
    } else {
        all.iter().collect()
    };
    let weather = match fault {
        Fault::HotDelay | Fault::ColdDelay if rng.random_range(0..2) == 0 => {
            Weather::Delayed(pause(rng, 5..700))
        }
        Fault::HotDelay | Fault::ColdDelay => Weather::LateReplies(pause(rng, 5..1_000)),
        Fault::HotStuck | Fault::ColdStuck => Weather::Stuck,
        Fault::HotSilent | Fault::ColdSilent => Weather::Silent,
        Fault::HotLost | Fault::ColdLost => Weather::Losing(rng.random_range(2..20)),
        Fault::HotThrottle | Fault::ColdThrottle => {
            Weather::Throttled(rng.random_range(1..200), Duration::from_micros(200))
        }
        _ => Weather::Down,
    };
    let phase = reach(arena, wanted).await;
    links.iter().for_each(|link| link.set(weather));
    // Longer than the wait for replies, since nothing else shows that they do not come.
    let shortest = if matches!(weather, Weather::Silent | Weather::Stuck) {
        450
    } else {
        200
    };
    sleep(pause(rng, shortest..2_000)).await;
    // The bytes that were held back arrive late, or never.
    let held_back_is_lost = rng.random_range(0..3) == 0;
    links
        .iter()
        .filter(|_| held_back_is_lost)
        .for_each(|link| link.cut());
    links.iter().for_each(|link| link.set(Weather::Fair));
    Ok(phase)
}
