//! A map that can be read page by page while entries come and go.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use crate::Page;

/// A map with numbered entries. An entry keeps the number that it got when it came. So a cursor
/// stays valid while other entries go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbered<K, V> {
    map: BTreeMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
    next: u64,
}

impl<K, V> Default for Numbered<K, V> {
    fn default() -> Self {
        Self {
            map: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 1,
        }
    }
}

/// By keys and values alone. The numbers only order pages.
impl<K: Hash, V: Hash> Hash for Numbered<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.map.len());
        self.map
            .iter()
            .for_each(|(key, (_, value))| (key, value).hash(state));
    }
}

impl<K: Ord + Clone, V> Numbered<K, V> {
    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key).map(|(_, value)| value)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.map.keys()
    }

    /// Puts an entry. An entry that is already there keeps its number. Returns whether it is new.
    pub(super) fn insert(&mut self, key: K, value: V) -> bool {
        if let Some((_, old)) = self.map.get_mut(&key) {
            *old = value;
            return false;
        }
        self.order.insert(self.next, key.clone());
        self.map.insert(key, (self.next, value));
        self.next += 1;
        true
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let (number, value) = self.map.remove(key)?;
        self.order.remove(&number);
        Some(value)
    }

    /// Takes all entries out. The numbers go on, so that an old cursor never skips a new entry.
    pub(super) fn take(&mut self) -> Self {
        let next = self.next;
        std::mem::replace(
            self,
            Self {
                next,
                ..Self::default()
            },
        )
    }

    /// `count` entries from `cursor` on.
    pub(super) fn page<T>(&self, cursor: u64, count: usize, show: impl Fn(&K, &V) -> T) -> Page<T> {
        let mut rest = self.order.range(cursor..);
        let entries = rest
            .by_ref()
            .take(count.max(1))
            .filter_map(|(_, key)| self.get(key).map(|value| show(key, value)));
        Page {
            entries: entries.collect(),
            next: rest.next().map(|(number, _)| *number),
        }
    }
}
