//! The content of the model of a Redis server: keys, their values and their ends.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

/// A hash's fields.
pub type Hash = BTreeMap<Vec<u8>, Vec<u8>>;

/// The entries of a stream: names and values by id.
pub type Stream = BTreeMap<(u64, u64), Vec<Vec<u8>>>;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Stored {
    /// A string.
    Text(Vec<u8>),
    /// A hash. It is never empty.
    Hash(Hash),
    /// A sorted set. It is never empty.
    Sorted(BTreeMap<Vec<u8>, f64>),
    /// A stream.
    Stream(Stream),
}

#[derive(Debug, Clone)]
struct Entry {
    stored: Stored,
    /// In milliseconds since 1970.
    ends: Option<i64>,
}

/// The key has another kind of value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongType;

/// All keys. A key that has ended does not exist, whether or not it was removed yet.
#[derive(Debug, Clone)]
pub struct Keyspace {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// The time by which keys end, in milliseconds since 1970.
    now: i64,
    /// No key ends before this.
    soonest: i64,
}

impl Default for Keyspace {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            now: 0,
            soonest: i64::MAX,
        }
    }
}

/// A field of a hash and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

impl Keyspace {
    /// Sets the time. Keys that end by then are gone for good, even if the time is set back.
    pub fn set_now(&mut self, now: i64) {
        self.now = now;
        if now >= self.soonest {
            self.entries
                .retain(|_, entry| entry.ends.is_none_or(|ends| ends > now));
            self.soonest = self
                .entries
                .values()
                .filter_map(|entry| entry.ends)
                .min()
                .unwrap_or(i64::MAX);
        }
    }

    /// The value at a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Stored> {
        self.entries.get(key).map(|entry| &entry.stored)
    }

    /// The string at a key.
    pub fn text(&self, key: &[u8]) -> Result<Option<&Vec<u8>>, WrongType> {
        match self.get(key) {
            None => Ok(None),
            Some(Stored::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WrongType),
        }
    }

    /// The hash at a key.
    pub fn hash(&self, key: &[u8]) -> Result<Option<&Hash>, WrongType> {
        match self.get(key) {
            None => Ok(None),
            Some(Stored::Hash(hash)) => Ok(Some(hash)),
            Some(_) => Err(WrongType),
        }
    }

    /// Changes the hash at a key. A hash that is empty before does not exist, and a hash that is
    /// empty after ends.
    pub fn change_hash<T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut Hash) -> T,
    ) -> Result<T, WrongType> {
        self.hash(key)?;
        let fresh = || Entry {
            stored: Stored::Hash(Hash::new()),
            ends: None,
        };
        let entry = self.entries.entry(key.to_vec()).or_insert_with(fresh);
        let Stored::Hash(hash) = &mut entry.stored else {
            return Err(WrongType);
        };
        let changed = change(hash);
        if hash.is_empty() {
            self.entries.remove(key);
        }
        Ok(changed)
    }

    /// Changes the sorted set at a key, like [`Keyspace::change_hash`].
    pub fn change_sorted<T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut BTreeMap<Vec<u8>, f64>) -> T,
    ) -> Result<T, WrongType> {
        if !matches!(self.get(key), None | Some(Stored::Sorted(_))) {
            return Err(WrongType);
        }
        let fresh = || Entry {
            stored: Stored::Sorted(BTreeMap::new()),
            ends: None,
        };
        let entry = self.entries.entry(key.to_vec()).or_insert_with(fresh);
        let Stored::Sorted(set) = &mut entry.stored else {
            return Err(WrongType);
        };
        let changed = change(set);
        if set.is_empty() {
            self.entries.remove(key);
        }
        Ok(changed)
    }

    /// The stream at a key.
    pub fn stream(&self, key: &[u8]) -> Result<Option<&Stream>, WrongType> {
        match self.get(key) {
            None => Ok(None),
            Some(Stored::Stream(stream)) => Ok(Some(stream)),
            Some(_) => Err(WrongType),
        }
    }

    /// Changes the stream at a key, and makes it if there is none.
    pub fn change_stream<T>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut Stream) -> T,
    ) -> Result<T, WrongType> {
        self.stream(key)?;
        let fresh = || Entry {
            stored: Stored::Stream(Stream::new()),
            ends: None,
        };
        let entry = self.entries.entry(key.to_vec()).or_insert_with(fresh);
        match &mut entry.stored {
            Stored::Stream(stream) => Ok(change(stream)),
            _ => Err(WrongType),
        }
    }

    /// Puts a string in place of any value that is there. It ends after this number of
    /// milliseconds, if any.
    pub fn set(&mut self, key: &[u8], text: Vec<u8>, ttl: Option<i64>) {
        let ends = self.end(ttl);
        self.entries.insert(
            key.to_vec(),
            Entry {
                stored: Stored::Text(text),
                ends,
            },
        );
    }

    /// Removes a key. Returns whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> bool {
        self.entries.remove(key).is_some()
    }

    /// Moves a value, with its end, in place of any value at the other key. Returns whether it was
    /// there.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> bool {
        let Some(entry) = self.entries.remove(from) else {
            return false;
        };
        self.entries.insert(to.to_vec(), entry);
        true
    }

    /// The number of milliseconds that a key has left. None without the key, `Some(None)` without
    /// an end.
    #[must_use]
    pub fn left(&self, key: &[u8]) -> Option<Option<i64>> {
        self.entries
            .get(key)
            .map(|entry| entry.ends.map(|ends| ends - self.now))
    }

    /// Gives a key this number of milliseconds, or no end. Returns whether it is there.
    pub fn expire(&mut self, key: &[u8], ttl: Option<i64>) -> bool {
        let ends = self.end(ttl);
        let found = self
            .entries
            .get_mut(key)
            .map(|entry| entry.ends = ends)
            .is_some();
        if ttl.is_some_and(|ttl| ttl <= 0) {
            self.entries.remove(key);
        }
        found
    }

    fn end(&mut self, ttl: Option<i64>) -> Option<i64> {
        let ends = self.now.saturating_add(ttl?);
        self.soonest = self.soonest.min(ends);
        Some(ends)
    }

    /// The keys with an end, which a policy of `volatile-*` may evict.
    pub fn volatile(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.entries
            .iter()
            .filter(|(_, entry)| entry.ends.is_some())
            .map(|(key, _)| key)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.entries.keys()
    }

    /// About `count` fields of a hash from a cursor on, and the next cursor, which is 0 at the end.
    /// A scan finds every field that exists all the time, even if others come and go. It visits
    /// fields in the order of their hashes, and the cursor counts in that order.
    pub fn scan(
        &self,
        key: &[u8],
        cursor: u64,
        count: usize,
    ) -> Result<(u64, Vec<Pair>), WrongType> {
        let order = |name: &[u8]| (xxh3_64(name) >> 1) + 1;
        let hash = self.hash(key)?.into_iter().flatten();
        let mut rest: Vec<_> = hash
            .map(|(name, value)| (order(name), name, value))
            .filter(|(at, ..)| *at >= cursor)
            .collect();
        rest.sort_unstable();
        let next = rest.get(count.max(1)).map_or(0, |(at, ..)| *at);
        rest.truncate(count.max(1));
        Ok((
            next,
            rest.into_iter()
                .map(|(_, name, value)| (name.clone(), value.clone()))
                .collect(),
        ))
    }
}
