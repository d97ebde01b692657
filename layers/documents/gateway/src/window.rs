//! The events that wait for slow clients.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use storage_documents::feed::bytes_of;
use storage_sdk::feed::Event as Told;

/// The most events that wait. A client that falls further behind gets `reset`.
pub(crate) const EVENTS_MAX: usize = 4_096;
/// The most bytes of their bodies, for all clients together.
const BYTES_MAX: usize = 32 << 20;

/// The newest events, which all clients share. The queues of the clients hold no event by themselves,
/// so an event that leaves the window is gone for the clients that have not read it yet.
#[derive(Debug, Default)]
pub(crate) struct Window {
    events: VecDeque<Arc<Told>>,
    bytes: usize,
}

impl Window {
    /// Adds an event. The oldest ones leave until the others are within both limits.
    pub(crate) fn add(&mut self, told: Told) -> Weak<Told> {
        let told = Arc::new(told);
        let weak = Arc::downgrade(&told);
        self.bytes = self.bytes.saturating_add(bytes_of(&told));
        self.events.push_back(told);
        while self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(bytes_of(&oldest));
        }
        weak
    }
}
