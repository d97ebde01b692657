//! What all requests of a gateway share.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use storage_documents::Documents;
use storage_sdk::Ids;
use tokio::sync::Semaphore;

use crate::feed::Hub;
use crate::figures::Figures;
use crate::landed::LandedEnd;
use crate::proxies::PublicUrl;
use crate::tickets::Tickets;

/// The most calls with a key at the same time.
pub const KEYED_MAX: u16 = 4_096;

/// The parts that all requests share. Each request makes several copies, so a copy is one counter.
#[derive(Debug, Clone)]
pub struct Shared(Arc<Parts>);

impl Shared {
    /// Shares these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for Shared {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// The parts of a gateway.
#[derive(Debug)]
pub struct Parts {
    /// The documents.
    pub documents: Documents,
    /// The live feed.
    pub hub: Hub,
    /// The end of the landed feed.
    pub landed: LandedEnd,
    /// The token of callers.
    pub token: Arc<str>,
    /// The counters of the gateway.
    pub figures: Figures,
    /// The items of a page, unless a request says otherwise.
    pub page_size: usize,
    /// The tickets for the live feed.
    pub tickets: Tickets,
    /// Where callers reach the gateway.
    pub public_url: PublicUrl,
    /// The places of calls with a key. The end of the gateway waits for all of them.
    pub keyed: Arc<Semaphore>,
    /// The source of ids of requests.
    pub ids: Arc<dyn Ids>,
    /// Whether the gateway is to end soon, and asks for no more requests.
    pub is_leaving: AtomicBool,
}
