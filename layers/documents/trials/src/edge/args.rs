//! The arguments of a run.

use std::time::Duration;

/// Lets slow, silent and vanishing clients loose on a gateway, and checks that honest ones are served.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Decides the mix of clients
    #[arg(long)]
    pub seed: u64,
    /// The seconds for which they come
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// The number of clients that do harm. A crowd counts as one
    #[arg(long, default_value_t = 6_000)]
    pub clients: u32,
    /// The connections that the gateway serves at once
    #[arg(long, default_value_t = 1_000)]
    pub connections: u32,
    /// The most memory of the gateway in MiB
    #[arg(long, default_value_t = 1_024)]
    pub memory: u64,
}

/// How long the gateway keeps a connection without a request. It is less than the time that the gateway
/// gives to any first request, so that it alone decides.
pub const IDLE: Duration = Duration::from_secs(1);

impl Args {
    /// The time for which clients come.
    #[must_use]
    pub fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// The connections that callers with a token hold at once, so that they leave some to others.
    #[must_use]
    pub fn callers(&self) -> usize {
        usize::try_from(self.connections / 2).unwrap_or(usize::MAX)
    }
}
