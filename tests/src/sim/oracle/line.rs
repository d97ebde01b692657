//! The states that one field went through.

use super::slot::{Change, Slot};

/// A field's state from an owner's version on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The version of the owner that made it so.
    pub version: u64,
    /// What the field holds.
    pub slot: Slot,
}

/// A field from one moment on.
#[derive(Debug, Clone)]
struct Span {
    /// The version of the owner that it began with; 0 if it is from the beginning, or from when a
    /// Redis came back older.
    since: u64,
    /// What it was at that moment: one state, or one of several if a Redis came back older.
    base: Vec<Slot>,
    states: Vec<State>,
}

/// A field through time.
#[derive(Debug, Clone)]
pub struct Line {
    now: Span,
    /// What a Redis that came back older ended.
    past: Vec<Span>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            now: Span {
                since: 0,
                base: vec![Slot::Never],
                states: Vec::new(),
            },
            past: Vec::new(),
        }
    }
}

impl Span {
    fn at(&self, version: u64) -> Option<&State> {
        self.states
            .iter()
            .rev()
            .find(|state| state.version <= version)
    }

    fn may_be(&self, version: u64, slot: &Slot) -> bool {
        self.at(version)
            .map_or_else(|| self.base.contains(slot), |state| state.slot == *slot)
    }
}

/// Each state once, since what may be after one rewind may be after the next.
fn distinct(slots: &mut Vec<Slot>) {
    let mut seen: Vec<Slot> = Vec::new();
    for slot in slots.drain(..) {
        if !seen.contains(&slot) {
            seen.push(slot);
        }
    }
    *slots = seen;
}

impl Line {
    /// Applies a change; false if no state that it may have found agrees with its answer.
    #[must_use]
    pub fn apply(&mut self, version: u64, change: &Change) -> bool {
        let before = self.now();
        let mut after: Vec<Slot> = before
            .iter()
            .filter_map(|slot| change.after(slot))
            .collect();
        if !matches!(change, Change::Set(_) | Change::Incr(..)) && after.iter().eq(before) {
            return true;
        }
        distinct(&mut after);
        match after.as_slice() {
            [] => return false,
            [certain] => {
                if self.now.states.is_empty() {
                    self.now.base.retain(|slot| change.after(slot).is_some());
                }
                self.now.states.push(State {
                    version,
                    slot: certain.clone(),
                });
            }
            // What it keeps of the state before is as uncertain as that was.
            _ => self.past.push(std::mem::replace(
                &mut self.now,
                Span {
                    since: version,
                    base: after,
                    states: Vec::new(),
                },
            )),
        }
        true
    }

    /// What the field may hold now.
    #[must_use]
    pub fn now(&self) -> Vec<&Slot> {
        self.now
            .states
            .last()
            .map_or_else(|| self.now.base.iter().collect(), |last| vec![&last.slot])
    }

    /// Whether a read of the owner's `version` may have found this value; then that is certain from
    /// now on.
    #[must_use]
    pub fn reads(&mut self, version: u64, live: Option<&[u8]>) -> bool {
        // The answer to one may come after a later change whose outcome is as uncertain as what it
        // found.
        let Some(span) = std::iter::once(&mut self.now)
            .chain(self.past.iter_mut().rev())
            .find(|span| span.since <= version)
        else {
            return false;
        };
        if let Some(state) = span.at(version) {
            return state.slot.live() == live;
        }
        let found = span.base.iter().any(|slot| slot.live() == live);
        if found {
            span.base.retain(|slot| slot.live() == live);
        }
        found
    }

    /// Whether a row of the owner's `version` may hold this.
    #[must_use]
    pub fn lands(&self, version: u64, slot: &Slot) -> bool {
        self.now.may_be(version, slot) || self.past.iter().any(|span| span.may_be(version, slot))
    }

    /// The last state at or below the owner's `version`, if that is certain.
    #[must_use]
    pub fn at(&self, version: u64) -> Option<&State> {
        self.now.at(version)
    }

    /// Whether the field ever held this value.
    #[must_use]
    pub fn ever(&self, live: Option<&[u8]>) -> bool {
        let has = |span: &Span| {
            span.base
                .iter()
                .chain(span.states.iter().map(|state| &state.slot))
                .any(|slot| slot.live() == live)
        };
        live.is_none() || has(&self.now) || self.past.iter().any(has)
    }

    /// Redis came back older: the field is what Redis `kept`, unless its row is newer than that; or
    /// it is `row`; or it is what a landing that was under way may still commit.
    pub fn rewind(&mut self, kept: Option<&[Slot]>, row: Option<&State>) {
        let mut base: Vec<Slot> = kept.unwrap_or_default().to_vec();
        base.extend(row.map(|row| row.slot.clone()));
        let landed = row.map_or(0, |row| row.version);
        let mut until = u64::MAX;
        for span in std::iter::once(&self.now).chain(self.past.iter().rev()) {
            base.extend(
                span.states
                    .iter()
                    .filter(|state| state.version > landed)
                    .map(|state| state.slot.clone()),
            );
            if span.states.first().map_or(until, |state| state.version) > landed {
                base.extend(span.base.iter().cloned());
            }
            if span.since == 0 {
                break; // what was before, no landing is under way with
            }
            until = span.since;
        }
        distinct(&mut base);
        self.past.push(std::mem::replace(
            &mut self.now,
            Span {
                since: 0,
                base,
                states: Vec::new(),
            },
        ));
    }
}
