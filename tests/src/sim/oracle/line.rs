//! The states of one field through time.

use super::slot::{Change, Slot};

/// A field's state from an owner's version on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The version of the owner that gave the field this state.
    pub version: u64,
    /// The content of the field.
    pub slot: Slot,
}

/// A field from one moment on.
#[derive(Debug, Clone)]
struct Span {
    /// The version of the owner at its beginning. 0 if it is from the start, or from when a Redis
    /// came back older.
    since: u64,
    /// The state at that moment. There are several possible states if a Redis came back older.
    base: Vec<Slot>,
    states: Vec<State>,
}

/// A field through time.
#[derive(Debug, Clone)]
pub struct Line {
    now: Span,
    /// The earlier spans. A Redis that came back older ended each, or a change with an uncertain
    /// result.
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

/// Keeps each state once, since the same state may be possible after one rewind and after the next.
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
    /// Applies a change. Returns false if no possible state before it agrees with its answer.
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
            // The part of the earlier state that it keeps is as uncertain as that state.
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

    /// The possible contents of the field now.
    #[must_use]
    pub fn now(&self) -> Vec<&Slot> {
        self.now
            .states
            .last()
            .map_or_else(|| self.now.base.iter().collect(), |last| vec![&last.slot])
    }

    /// Whether a read of the owner's `version` may have found this value. If so, the value is
    /// certain from now on.
    #[must_use]
    pub fn reads(&mut self, version: u64, live: Option<&[u8]>) -> bool {
        // The answer to a read may come after a later change whose outcome is as uncertain as the
        // state that the read found.
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

    /// Whether a row of the owner's `version` may hold this content.
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

    /// Redis came back older. The field may have the content that Redis `kept`, the content of
    /// `row`, or one that an open landing may still commit.
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
                break; // no open landing has an earlier state
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
