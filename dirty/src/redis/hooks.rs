//! The parts of a store that tests replace.

use std::sync::Arc;

use storage_model::{Ids, Intercept, RandomIds};

use super::Dial;

/// The parts of a store that tests replace. `Default` gives the parts of a real store.
#[derive(Clone)]
pub struct Hooks {
    /// The source of the store's name, by which the server knows its calls. Default: at random.
    pub ids: Arc<dyn Ids>,
    /// The hook that every pipeline passes. Default: none.
    pub intercept: Option<Arc<dyn Intercept>>,
    /// The hook that opens connections. Default: none, the network does.
    pub dial: Option<Arc<dyn Dial>>,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            ids: Arc::new(RandomIds),
            intercept: None,
            dial: None,
        }
    }
}

impl Hooks {
    /// The parts of a real store behind an intercept.
    #[must_use]
    pub fn intercept(intercept: Arc<dyn Intercept>) -> Self {
        Self {
            intercept: Some(intercept),
            ..Self::default()
        }
    }
}
