//! What the storage takes in one change. Its settings and its database can allow less than this layer.

use crate::edit::Texts;
use crate::{Documents, Error, Kind, Result};

/// The bytes of a step beside those of its items: the fields of the head, and the entry of a key.
const FRAME: usize = 16 << 10;

impl Documents {
    /// Checks that the parts of a step fit in the storage together.
    ///
    /// # Errors
    /// `BodyTooLarge` names the limit.
    pub(crate) fn check_step(&self, bytes: usize) -> Result<()> {
        let (bytes, limit) = (
            bytes.saturating_add(FRAME),
            self.storage.limits().call_bytes_max,
        );
        if bytes <= limit {
            return Ok(());
        }
        let message = format!(
            "the step has {bytes} bytes with what is stored beside its bodies; the storage takes {limit} (limits.call_bytes_max), so \
             change fewer items in one step"
        );
        Err(Error::new(Kind::BodyTooLarge, message))
    }

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
        let sizes = values.map(<[u8]>::len);
        let (largest, total) = sizes.fold((0, 0_usize), |(largest, total), bytes| {
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
