//! Answers in words that hold for any engine. Each engine gives other versions, so the words name
//! the write that gave a version.

use std::collections::BTreeMap;

use storage_dirty::{HotRead, Marker, Observed};
use storage_model::{Owner, Version};

/// The step that gave an owner each version.
#[derive(Debug, Default)]
pub(super) struct Words(BTreeMap<(Owner, Version), usize>);

impl Words {
    /// Remembers that a step gave this version, unless an earlier step did.
    pub(super) fn gave(&mut self, owner: &Owner, version: Version, step: usize) {
        self.0.entry((owner.clone(), version)).or_insert(step);
    }

    /// The greatest version of all.
    pub(super) fn newest(&self) -> Version {
        self.0
            .keys()
            .map(|(_, version)| *version)
            .max()
            .unwrap_or_default()
    }

    /// The step that gave this version, or would have given the next one.
    pub(super) fn version(&self, owner: &Owner, version: Version) -> String {
        let of = |version: u64| self.0.get(&(owner.clone(), Version::new(version)?));
        match (version, of(version.get()), of(version.get() + 1)) {
            (Version::ZERO, ..) => "never".to_owned(),
            (_, Some(step), _) => format!("step {step}"),
            (_, None, Some(step)) => format!("before step {step}"),
            _ => "between".to_owned(),
        }
    }

    pub(super) fn read(&self, owner: &Owner, read: &HotRead) -> String {
        let header = read.header.map(|header| {
            let version = self.version(owner, header.version);
            (version, header.complete, header.generation, header.suspect)
        });
        format!("{header:?} {:?}", read.cells)
    }

    pub(super) fn observed(&self, owner: &Owner, observed: Observed) -> String {
        let marker = match observed.marker {
            Marker::At(version) => self.version(owner, version),
            Marker::Unknown(_) => "unknown".to_owned(),
            Marker::Absent(_) => "absent".to_owned(),
            Marker::Missing(_) => "missing".to_owned(),
        };
        format!(
            "{marker}, {} under {}",
            if observed.present { "present" } else { "gone" },
            observed.epoch
        )
    }
}
