//! How far the sinks of the settings are behind.

use serde::Serialize;
use storage_config::Settings;
use storage_model::{Partition, SinkName};
use storage_sql::{Cold, ColdError};

/// How far a sink is behind.
#[derive(Debug, Serialize)]
pub struct Lag {
    sink: String,
    /// The landed events that it has not taken yet.
    behind: u64,
    /// The events that it has refused.
    parked: u64,
}

/// How far each sink of the settings is behind.
///
/// # Errors
/// The database is away.
pub async fn all(settings: &Settings, cold: &Cold, partitions: u32) -> Result<Vec<Lag>, ColdError> {
    let partitions: Vec<Partition> = (0..partitions).map(Partition).collect();
    let mut lags = Vec::new();
    for name in settings.sinks.keys() {
        lags.push(Lag {
            sink: name.to_string(),
            behind: behind(name, cold, &partitions).await?,
            parked: cold.sinks.parked_count(name).await?,
        });
    }
    Ok(lags)
}

/// The numbers of a partition have no gaps, so they count the events between two positions.
async fn behind(name: &SinkName, cold: &Cold, partitions: &[Partition]) -> Result<u64, ColdError> {
    // ORDER: the positions first. So no sink seems to be ahead.
    let positions = cold.sinks.sink_positions(name, partitions).await?;
    let feeds = cold.events.feeds(partitions).await?;
    let mut behind = 0_u64;
    for (ends, position) in feeds.iter().zip(positions) {
        behind = behind.saturating_add(ends.last.number.saturating_sub(position.number));
    }
    Ok(behind)
}

impl Lag {
    /// The sink in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let Self {
            sink,
            behind,
            parked,
        } = self;
        let advice = if *parked > 0 {
            ": landing-worker parked lists them"
        } else {
            ""
        };
        format!("sink {sink}: {behind} events behind, {parked} parked{advice}")
    }
}
