//! One batch on its way to a sink.

use storage_model::{Event, Partition, Position};
use storage_tiers::TierError;

use super::{Away, Relay};
use crate::SinkError;
use crate::worker::Worker;

impl Relay {
    /// Sends a batch and stores how far the sink has got. If the sink refuses the batch, sends ever
    /// smaller parts of it, parks the events that are refused alone, and goes on with the rest.
    ///
    /// An event is parked only beside an event that the sink takes. A sink that refuses every event
    /// blames none of them: it waits, and gets all of them in their order later.
    ///
    /// Returns why the sink can't take events now. The position then stands behind the events that
    /// it has taken.
    pub(super) async fn deliver(
        &self,
        worker: &Worker,
        partition: Partition,
        events: &[Event],
    ) -> Result<Option<Away>, TierError> {
        let mut parts = vec![events];
        // Refused alone, and behind the last event that the sink took.
        let mut refused: Vec<(&Event, String)> = Vec::new();
        let mut took = false;
        while let Some(part) = parts.pop() {
            let Some(last) = part.last() else {
                continue;
            };
            match self.sink.send(partition, part).await {
                Ok(()) => {
                    worker.metrics.sent(part.len());
                    self.refusals.taken(part.len());
                    took = true;
                }
                Err(SinkError::Unavailable {
                    message,
                    retry_after,
                }) => {
                    return Ok(Some(Away {
                        partition,
                        message,
                        retry_after,
                    }));
                }
                Err(SinkError::Rejected { message }) => {
                    let [event] = part else {
                        let (first, rest) = part.split_at(part.len() / 2);
                        parts.extend([rest, first]);
                        continue;
                    };
                    if !self.refusals.is_proven(partition, event.position) {
                        refused.push((event, message));
                        if !took && refused.len() >= self.refusals.tries() {
                            return Ok(self.refuses_all(partition, &refused));
                        }
                        continue;
                    }
                    self.park(worker, event, &message).await?;
                }
            }
            // ORDER: the position moves after the sink has the events, or they are parked.
            // Otherwise a crash here loses them.
            for (event, message) in refused.drain(..) {
                self.park(worker, event, &message).await?;
            }
            self.advance(worker, partition, last.position).await?;
        }
        match refused.as_slice() {
            [] => Ok(None),
            // The event before it was taken a moment ago.
            [(event, message)] if took => {
                self.park(worker, event, message).await?;
                self.advance(worker, partition, event.position).await?;
                Ok(None)
            }
            _ => Ok(self.refuses_all(partition, &refused)),
        }
    }

    /// Remembers the first of the refused events. An event that is taken meanwhile proves that the
    /// event itself is at fault.
    fn refuses_all(&self, partition: Partition, refused: &[(&Event, String)]) -> Option<Away> {
        let (event, message) = refused.first()?;
        self.refusals.suspect(partition, event.position);
        Some(Away {
            partition,
            message: format!(
                "every event is refused, so none of them is at fault alone: {message}"
            ),
            retry_after: None,
        })
    }

    /// Stores how far the sink has got.
    async fn advance(
        &self,
        worker: &Worker,
        partition: Partition,
        position: Position,
    ) -> Result<(), TierError> {
        let cold = worker.tiers.cold();
        cold.sinks
            .advance_sink(&self.name, partition, position)
            .await?;
        Ok(())
    }

    /// Keeps an event that the sink refuses, with the reason.
    async fn park(&self, worker: &Worker, event: &Event, message: &str) -> Result<(), TierError> {
        let Event {
            partition,
            position,
            ..
        } = event;
        let cold = worker.tiers.cold();
        cold.sinks
            .park(&self.name, *partition, *position, message)
            .await?;
        worker.metrics.parked();
        tracing::warn!(
            sink = %self.name, partition = partition.0, %position, error = %message,
            "the sink refuses an event: it is parked, and the next ones go on"
        );
        Ok(())
    }
}
