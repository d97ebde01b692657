//! The section `limits`: [`storage_model::Limits`] as settings.

use storage_model::Limits;

use crate::entry::{Entry, Section, between};

impl Section for Limits {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        vec![
            Entry::new(
                "value_bytes_max",
                &mut self.value_bytes_max,
                between(1, 64 << 20),
            ),
            Entry::new("fields_max", &mut self.fields_max, between(1, 1_000)),
            Entry::new(
                "call_bytes_max",
                &mut self.call_bytes_max,
                between(1, 64 << 20),
            ),
        ]
    }
}
