//! The sink of kind "stream": a stream of Redis for each partition.

use std::time::Duration;

use async_trait::async_trait;
use storage_config::HotUrl;
use storage_dirty::{EventStream, HotError};
use storage_landing::{Sink, SinkError};
use storage_model::{Event, Partition, Token};

/// Streams of Redis. An event's position is the id of its entry.
#[derive(Debug)]
pub struct StreamSink(EventStream);

impl StreamSink {
    /// Streams as [`EventStream::new`] makes them.
    ///
    /// # Errors
    /// As [`EventStream::new`].
    pub fn new(
        url: &HotUrl,
        key_prefix: &str,
        keep: u32,
        timeout: Duration,
        feed: Token,
    ) -> Result<Self, HotError> {
        EventStream::new(url, key_prefix, keep, timeout, feed).map(Self)
    }
}

#[async_trait]
impl Sink for StreamSink {
    /// Redis refuses no event for its content. So each failure concerns the whole sink.
    async fn send(&self, partition: Partition, events: &[Event]) -> Result<(), SinkError> {
        let appended = self.0.append(partition, events).await;
        appended.map_err(|error| SinkError::unavailable(error.to_string()))
    }
}
