//! The arguments of a play.

use std::time::Duration;

use crate::game::Plan;

/// The arguments that every stage has.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Players, shared evenly by the simulated game servers
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    players: u32,
    /// The length of the play, in seconds
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Determines the actions of the players. Default: a random seed, which is printed
    #[arg(long)]
    seed: Option<u64>,
}

impl Args {
    /// The players and their seed. Without a seed, each call draws another one.
    #[must_use]
    pub fn plan(&self) -> Plan {
        Plan {
            players: self.players,
            seed: self.seed.unwrap_or_else(|| rand::random::<u32>().into()),
        }
    }

    /// The length of the play.
    #[must_use]
    pub fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}
