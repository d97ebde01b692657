//! What the storage takes in one change. Its settings and its database can allow less than this layer.

use crate::edit::Texts;
use crate::{Documents, Error, Kind, Result};

impl Documents {
    /// Checks that the parts of a change fit in the storage. No repeat of a larger one would succeed.
    ///
    /// # Errors
    /// `BodyTooLarge` names the limit.
    pub(crate) fn check_sizes(
        &self,
        texts: &Texts,
        value: Option<&[u8]>,
        note: &[u8],
        kept: Option<&[u8]>,
    ) -> Result<()> {
        let limits = self.storage.limits();
        let values = value.into_iter().chain([note]).chain(kept);
        let values = values.map(<[u8]>::len);
        let (largest, total) = values.fold((0, 0_usize), |(largest, total), bytes| {
            (bytes.max(largest), total.saturating_add(bytes))
        });
        let (bytes, limit, name) = if largest > limits.value_bytes_max {
            (largest, limits.value_bytes_max, "limits.value_bytes_max")
        } else if total > limits.call_bytes_max {
            (total, limits.call_bytes_max, "limits.call_bytes_max")
        } else {
            return Ok(());
        };
        let body = texts.body.as_ref().map_or(0, |body| body.get().len());
        let message = format!(
            "the body has {body} bytes, and {bytes} with what is stored beside it; the storage takes {limit} ({name}, or less if the database takes less), so split it into several documents"
        );
        Err(Error::new(Kind::BodyTooLarge, message))
    }
}
