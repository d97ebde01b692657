//! The parts of a store that tests replace.

use std::sync::Arc;

use storage_model::{Ids, RandomIds};

use super::{Dial, Gate};

/// The parts of a store that tests replace. `Default` gives the parts of a real store.
#[derive(Clone)]
pub struct Hooks {
    /// The source of the store's name, by which the server knows its calls. Default: at random.
    pub ids: Arc<dyn Ids>,
    /// The hook that every pipeline passes. Default: none.
    pub gate: Option<Arc<dyn Gate>>,
    /// The hook that opens connections. Default: none, the network does.
    pub dial: Option<Arc<dyn Dial>>,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            ids: Arc::new(RandomIds),
            gate: None,
            dial: None,
        }
    }
}

impl Hooks {
    /// The parts of a real store behind a gate.
    #[must_use]
    pub fn gate(gate: Arc<dyn Gate>) -> Self {
        Self {
            gate: Some(gate),
            ..Self::default()
        }
    }
}
