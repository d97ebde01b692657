//! Sinks: receivers of the feed's landed events.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use storage_model::{Event, Partition};

/// A receiver of the feed: a file, a stream, another service.
///
/// A worker gives a sink every landed event of a partition, in order and at least once. How far the
/// sink has got is stored in the database after each call. Every worker that lands a partition also
/// serves its sinks, so all workers need the same sinks.
///
/// - **At least once.** A call comes again if its worker died before the position was stored, or if
///   the database was restored. Two workers can overlap for a moment while a partition moves from one
///   to the other.
///   A position of a partition names one event, as long as neither tier goes back in time. So a
///   receiver recognises an event that it has by partition and position.
/// - **In order.** The events of a call have ascending positions. A later call has later ones,
///   except for a repeat. Calls of one partition follow each other in a worker. Events of different
///   partitions have no order.
/// - **A gap is told.** If events were dropped for their age before the sink took them, it gets
///   a [`Content::Gap`](storage_model::Content::Gap) in their place.
/// - **A sink holds up nothing.** Landing does not wait for it.
///
/// ```
/// # mod storage_sdk {
/// #     pub mod feed {
/// #         pub use {async_trait::async_trait, storage_landing::*, storage_model::*};
/// #     }
/// # }
/// use std::sync::Mutex;
/// use storage_sdk::feed::{Content, Event, Partition, Sink, SinkError, async_trait};
///
/// /// Counts the notes of each kind of owner.
/// #[derive(Debug, Default)]
/// struct Tally(Mutex<std::collections::BTreeMap<String, u64>>);
///
/// #[async_trait]
/// impl Sink for Tally {
///     async fn send(&self, _partition: Partition, events: &[Event]) -> Result<(), SinkError> {
///         let poisoned = |_| SinkError::unavailable("the tally is broken");
///         let mut tally = self.0.lock().map_err(poisoned)?;
///         for event in events {
///             if let Content::Note(note) = &event.content {
///                 *tally.entry(note.owner.logic_type().to_owned()).or_default() += 1;
///             }
///         }
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Sink: Send + Sync + fmt::Debug {
    /// Takes some events of a partition: at least one, in their order, and together about 1 MiB. An
    /// event that is larger comes alone.
    ///
    /// `Ok` means that all of them are safe at the receiver. They are not sent again then, so a sink
    /// that buffers must write the buffer out first. The call should end by itself within some
    /// seconds.
    ///
    /// # Errors
    /// [`SinkError::Unavailable`]: the whole sink waits, and the same events come again later.
    /// [`SinkError::Rejected`]: the worker sends ever smaller parts of them, until the culprit stands
    /// alone.
    ///
    /// # Cancel safety
    /// A worker that stops drops a call that takes too long. The same events come again, from this
    /// worker or another.
    async fn send(&self, partition: Partition, events: &[Event]) -> Result<(), SinkError>;
}

/// Why a sink did not take events. The kind tells the worker's reaction.
///
/// The text goes into logs and into the database. So it must hold neither a password nor the body
/// of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// The receiver is away, overloaded or wrongly set up. The worker waits and sends the same
    /// events again, without limit.
    #[error("{message}")]
    Unavailable {
        /// The reason.
        message: String,
        /// How long the receiver wants to be left alone. `None` for the worker's own back-off.
        retry_after: Option<Duration>,
    },
    /// The receiver refuses an event for its content. The worker parks that event with the reason,
    /// and goes on with the next one.
    #[error("{message}")]
    Rejected {
        /// The reason.
        message: String,
    },
}

impl SinkError {
    /// The receiver can't take events now.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable {
            message: message.into(),
            retry_after: None,
        }
    }

    /// The receiver refuses an event for its content.
    #[must_use]
    pub fn rejected(message: impl Into<String>) -> Self {
        Self::Rejected {
            message: message.into(),
        }
    }
}
