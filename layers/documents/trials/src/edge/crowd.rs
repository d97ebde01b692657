//! All clients that do harm, in a mix that the seed decides.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::args::Args;
use super::kind::Kind;
use super::rogue::{Fared, live, stay};

/// How many clients of a kind came, and how they fared.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// The connections that they asked for.
    pub opened: u32,
    /// Those that they did not get.
    pub refused: u32,
    /// Those that the gateway ended.
    pub ended: u32,
    /// Those that it did not end, although their time was over.
    pub kept: u32,
}

impl Tally {
    fn add(&mut self, fared: Fared) {
        self.opened += 1;
        match fared {
            Fared::Refused => self.refused += 1,
            Fared::Ended => self.ended += 1,
            Fared::Kept => self.kept += 1,
            Fared::Went => {}
        }
    }
}

/// The tallies of all kinds.
pub type Tallies = BTreeMap<Kind, Tally>;

/// Lets clients come until so many came, evenly over the time of the run. A crowd counts as one.
/// Returns when all have gone.
///
/// # Errors
/// A client panics.
pub async fn come(args: &Args, address: SocketAddr) -> Result<Tallies> {
    let mut rng = StdRng::seed_from_u64(args.seed ^ 0xED6E);
    let callers = Arc::new(Semaphore::new(args.callers()));
    let (begun, mut came) = (Instant::now(), 0);
    let mut clients = JoinSet::new();
    while came < args.clients {
        sleep(pause(args, came, begun.elapsed(), &mut rng)).await;
        let kind = Kind::any(&mut rng);
        let count = match kind {
            Kind::Crowd => args.connections + args.connections / 4,
            _ => 1,
        };
        for _ in 0..count {
            let mut rng = StdRng::seed_from_u64(rng.random());
            let place = Arc::clone(&callers).try_acquire_owned();
            match (kind.is_caller(), place) {
                // Callers with a token hold their places by right, so some are left to others.
                (true, Err(_)) => {}
                (is_caller, place) => {
                    let place = place.ok().filter(|_| is_caller);
                    let stay = stay(kind, &mut rng);
                    clients.spawn(async move {
                        let fared = live(address, kind, stay, rng).await;
                        drop(place);
                        (kind, fared)
                    });
                }
            }
        }
        came += 1;
    }
    let mut tallies = Tallies::new();
    while let Some(client) = clients.join_next().await {
        let (kind, fared) = client?;
        tallies.entry(kind).or_default().add(fared);
    }
    Ok(tallies)
}

/// The time until the next client comes, if so many came in this time.
fn pause(args: &Args, came: u32, elapsed: Duration, rng: &mut StdRng) -> Duration {
    let each = args.time() / args.clients.max(1);
    let due = (each * came).saturating_sub(elapsed);
    due.mul_f64(rng.random_range(0.0..2.0))
}
