//! An owner as a writer knows it, and what such owners have alike.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use storage_model::sabotage::broken;
use storage_model::{Change, Condition, Field, Mutation, Version};

/// The most texts or lists that are kept as alike.
const ALIKE_MAX: usize = 256;

/// An owner as its writer knows it.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) version: Version,
    /// What stands behind the version in the hash.
    pub(super) flags: Arc<str>,
    /// Its hash's key.
    pub(super) hash: String,
    /// The fields of the mark that was made last, which stands in the dirty map or the snapshot.
    pub(super) mark: Arc<[Field]>,
    /// Those of its other marks that do.
    pub(super) others: Vec<Arc<[Field]>>,
    /// What those of its fields hold that were added to last.
    pub(super) counters: Vec<(Field, i64)>,
}

/// Texts and lists that many owners share.
#[derive(Debug, Default)]
pub(super) struct Alike {
    flags: HashSet<Arc<str>>,
    fields: HashSet<Arc<[Field]>>,
}

impl Alike {
    pub(super) fn flags(&mut self, flags: &str) -> Arc<str> {
        self.flags.get(flags).cloned().unwrap_or_else(|| keep(&mut self.flags, Arc::from(flags)))
    }

    pub(super) fn fields(&mut self, mutation: &Mutation) -> Arc<[Field]> {
        let fields: Vec<Field> = mutation.changes.iter().map(|(field, _)| field.clone()).collect();
        self.fields.get(&*fields).cloned().unwrap_or_else(|| keep(&mut self.fields, Arc::from(fields)))
    }
}

/// Keeps one of what is alike; where much is not, not all of it.
fn keep<T: ?Sized + Eq + Hash>(known: &mut HashSet<Arc<T>>, new: Arc<T>) -> Arc<T> {
    if known.len() >= ALIKE_MAX {
        known.clear();
    }
    known.insert(Arc::clone(&new));
    new
}

impl Grant {
    /// Whether a mark stands for the write.
    pub(super) fn has_mark(&self, mutation: &Mutation) -> bool {
        let is_its = |fields: &Arc<[Field]>| fields.iter().eq(mutation.changes.iter().map(|(field, _)| field));
        is_its(&self.mark) || self.others.iter().any(is_its)
    }

    pub(super) fn satisfies(&self, condition: Condition) -> bool {
        match condition {
            Condition::None => true,
            Condition::Version(wanted) => wanted == self.version || broken("R17-condition"),
            Condition::Absent => false,
        }
    }

    /// What a write that adds comes to, and nothing for one that sets; none if a counter is not known, or the sum is too large for one.
    pub(super) fn sums(&self, mutation: &Mutation) -> Option<Vec<i64>> {
        let mut sums = Vec::new();
        for (field, change) in mutation.changes.iter() {
            match change {
                Change::Set(_) => {}
                Change::Incr(step) => {
                    let (_, known) = self.counters.iter().find(|(known, _)| known == field)?;
                    sums.push(known.checked_add(*step)?);
                }
                Change::Remove | Change::Restore | Change::Purge => return None,
            }
        }
        Some(sums)
    }

    /// Takes note of what a write did to the owner's counters.
    pub(super) fn wrote(&mut self, mutation: &Mutation, sums: &[i64]) {
        if self.counters.is_empty() && sums.is_empty() || broken("R17-counter") && sums.is_empty() {
            return;
        }
        if sums.is_empty() {
            self.counters.retain(|(known, _)| mutation.changes.iter().all(|(field, _)| field != known));
        }
        for ((field, _), sum) in mutation.changes.iter().zip(sums) {
            match self.counters.iter_mut().find(|(known, _)| known == field) {
                Some((_, known)) => *known = *sum,
                None => self.counters.push((field.clone(), *sum)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use storage_model::{Bytes, OpId, Owner, Timestamp};

    use super::*;

    #[test]
    fn what_is_alike_is_kept_once_and_what_is_not_without_end() {
        let mutation = |owner: &str, field: &str| {
            let owner = Owner::new("a", "r", "t", owner).unwrap();
            let changes = vec![(Field::new(field).unwrap(), Change::Set(Bytes::new()))];
            Mutation::new(owner, changes, OpId::new([0; 16]), Timestamp(0))
        };
        let mut alike = Alike::default();
        let [one, other] = ["ann", "bob"].map(|owner| (alike.fields(&mutation(owner, "gold")), alike.flags(" 1p")));
        assert!(Arc::ptr_eq(&one.0, &other.0) && Arc::ptr_eq(&one.1, &other.1));
        for number in 0..3 * ALIKE_MAX {
            assert_eq!(alike.fields(&mutation("ann", &number.to_string()))[0].as_str(), number.to_string());
            assert!(alike.fields.len() <= ALIKE_MAX);
        }
    }
}
