//! Owners that the hot tier can't hand over: each read of one breaks the connection, for example because it is larger than a limit
//! of the server or of a proxy. The other owners of its batch land without it.

use storage_tiers::{BREAKS, TierError};

use crate::marks::{self, Faults, LandingPart, Rows};
use crate::transaction::{Source, reject};
use crate::worker::Worker;

/// What the error map says of such an owner.
const REASON: &str = "unreadable: the connection breaks whenever this owner is read, perhaps at client-output-buffer-limit of the server or a limit of a proxy: raise it, then call landing-worker errors --retry";

impl Worker {
    /// Whether a read broke its connection although the hot tier answers.
    pub(crate) async fn is_broken_by_reading(
        &self,
        error: &TierError,
        parts: &[LandingPart],
    ) -> bool {
        if !error.is_cut_off() {
            return false;
        }
        let partitions: Vec<_> = parts.iter().map(|part| part.partition).collect();
        self.tiers.answers(&partitions).await
    }

    /// Lands parts in halves until the owners stand alone that can't be read. Those move to the error
    /// map. Notes wait, since they land in their order.
    ///
    /// # Errors
    /// A part could not land for another reason, or had notes.
    pub(crate) async fn land_in_halves(&self, parts: &[LandingPart]) -> Result<(), TierError> {
        let marked = parts.iter().filter(|part| !part.entries.is_empty());
        let mut waiting: Vec<LandingPart> = marked.map(LandingPart::without_notes).collect();
        let mut tries = 0;
        while let Some(part) = waiting.pop() {
            let parts = std::slice::from_ref(&part);
            match self.attempt(parts).await {
                Err(error) if self.is_broken_by_reading(&error, parts).await => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    tries = 0;
                    continue;
                }
            }
            if let Some(halves) = marks::halves(&part) {
                waiting.extend(halves);
                continue;
            }
            tries += 1;
            if tries < BREAKS {
                waiting.push(part);
            } else {
                tries = 0;
                self.set_aside(&part).await?;
            }
        }
        match parts.iter().find(|part| part.notes.is_some()) {
            Some(part) => Err(TierError::Contended {
                what: format!(
                    "land the notes of partition {} beside an owner that can't be read",
                    part.partition
                ),
                tries: BREAKS,
            }),
            None => Ok(()),
        }
    }

    /// Moves the marks of a part to the error map.
    async fn set_aside(&self, part: &LandingPart) -> Result<(), TierError> {
        let nothing_read = self
            .tiers
            .hot()
            .marks
            .collect(part.partition, &[], None)
            .await?;
        let mut faults = Faults::new();
        for (owner, fields) in part.wanted() {
            for field in fields {
                faults.insert((owner.clone(), field), (0, REASON.to_owned()));
            }
        }
        let verdict = marks::judge(part, &Rows::default(), &faults, false);
        let source = Source {
            partition: part.partition,
            epoch: nothing_read.epoch,
            snapshot: part.snapshot,
        };
        Ok(reject(self, source, verdict.reject).await?)
    }
}
