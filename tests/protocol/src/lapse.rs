//! The end of the sessions of a holder that is gone: every interleaving of the calls of observers, of openings that
//! arrive late, of beats, and of observers that die.
//!
//! An observer needs several calls. It marks the holder's beat, lists the sessions page by page, lets the found ones
//! lapse, and takes the beat away. In every state, a holder with a session has a beat. Otherwise nobody misses the holder, and
//! the session never ends.
//!
//! The rules: the mark is the observer's own, and the list begins after it. A session that begins or goes on takes the mark
//! away. So does a beat. The beat goes only with the mark of the observer that takes it away.
//!
//! The model has no time. An observer may call the holder gone at any moment. A list sees all sessions that were there while
//! it was read, and may miss others.

#![expect(
    clippy::indexing_slicing,
    reason = "sessions and observers are numbered below the arrays' lengths"
)]

use crate::search::{Model, Step};

/// The owners of which the holder may have sessions.
const OWNERS: usize = 2;

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The beat goes if its number is the one that was seen.
    Unmarked,
    /// The marks of all observers are alike.
    Alike,
    /// A session that begins leaves the mark.
    Kept,
    /// The list begins before the mark.
    Early,
}

/// The end of a holder's sessions within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Lapse {
    /// How many observers call the holder gone.
    pub observers: usize,
    /// How often one of them does.
    pub calls: u8,
    /// How many sessions begin or go on.
    pub openings: u8,
    /// How often the holder beats.
    pub beats: u8,
    /// How many observers die.
    pub deaths: u8,
    /// The broken rule.
    pub broken: Option<Broken>,
}

/// A beat: its number, and the mark of an observer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Beat {
    number: u8,
    mark: Option<u8>,
}

/// What an observer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Idle,
    Lists {
        number: u8,
        mark: u8,
        page: usize,
        found: [bool; OWNERS],
    },
    /// Only with [`Broken::Early`].
    Marks {
        number: u8,
        found: [bool; OWNERS],
    },
    Lapses {
        number: u8,
        mark: u8,
        found: [bool; OWNERS],
    },
    Ends {
        number: u8,
        mark: u8,
    },
    Dead,
}

/// The state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    beat: Option<Beat>,
    sessions: [bool; OWNERS],
    observers: Vec<At>,
    /// The last number that the holder has sent.
    sent: u8,
    next_mark: u8,
    calls: u8,
    openings: u8,
    deaths: u8,
}

type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

fn step(who: &'static str, number: usize, what: &'static str) -> Step {
    Step { who, number, what }
}

impl Lapse {
    fn holder(&self, world: &World, take: Take<'_>) {
        if world.sent < self.beats {
            let mut next = world.clone();
            next.sent += 1;
            if world.beat.is_none_or(|beat| beat.number < next.sent) {
                next.beat = Some(Beat {
                    number: next.sent,
                    mark: None,
                });
            }
            take(step("holder", 0, "beats"), Ok(next));
        }
        for at in 0..OWNERS {
            if world.openings > 0 {
                let mut next = world.clone();
                next.openings -= 1;
                next.sessions[at] = true;
                let beat = next.beat.get_or_insert(Beat {
                    number: 0,
                    mark: None,
                });
                if self.broken != Some(Broken::Kept) {
                    beat.mark = None;
                }
                take(step("session", at, "begins"), Ok(next));
            }
            if world.sessions[at] {
                let mut next = world.clone();
                next.sessions[at] = false;
                take(step("session", at, "ends in order"), Ok(next));
            }
        }
    }

    fn observer(&self, world: &World, at: usize, take: Take<'_>) {
        let mut next = world.clone();
        let what = match world.observers[at] {
            At::Idle => {
                let Some(beat) = world.beat.filter(|_| world.calls > 0) else {
                    return;
                };
                next.calls -= 1;
                if self.broken == Some(Broken::Early) {
                    let (number, found) = (beat.number, [false; OWNERS]);
                    next.observers[at] = At::Lists {
                        number,
                        mark: 0,
                        page: 0,
                        found,
                    };
                    "begins"
                } else {
                    let mark = self.mark(&mut next, beat.number);
                    let (number, found) = (beat.number, [false; OWNERS]);
                    next.observers[at] = At::Lists {
                        number,
                        mark,
                        page: 0,
                        found,
                    };
                    "marks the beat"
                }
            }
            At::Marks { number, found } => {
                next.observers[at] = At::Idle;
                if world.beat.is_some_and(|beat| beat.number == number) {
                    let mark = self.mark(&mut next, number);
                    next.observers[at] = At::Lapses {
                        number,
                        mark,
                        found,
                    };
                }
                "marks the beat"
            }
            At::Lists {
                number,
                mark,
                page,
                mut found,
            } => {
                found[page] = world.sessions[page];
                let page = page + 1;
                next.observers[at] = if page < OWNERS {
                    At::Lists {
                        number,
                        mark,
                        page,
                        found,
                    }
                } else if self.broken == Some(Broken::Early) {
                    At::Marks { number, found }
                } else {
                    At::Lapses {
                        number,
                        mark,
                        found,
                    }
                };
                "lists a page"
            }
            At::Lapses {
                number,
                mark,
                found,
            } => {
                next.observers[at] = At::Idle;
                if world.beat.map_or(0, |beat| beat.number) == number {
                    for (session, found) in next.sessions.iter_mut().zip(found) {
                        *session &= !found;
                    }
                    next.observers[at] = At::Ends { number, mark };
                }
                "lets sessions lapse"
            }
            At::Ends { number, mark } => {
                next.observers[at] = At::Idle;
                let mark = (self.broken != Some(Broken::Unmarked)).then_some(mark);
                let goes =
                    |beat: Beat| beat.number == number && (mark.is_none() || beat.mark == mark);
                if world.beat.is_some_and(goes) {
                    next.beat = None;
                }
                "takes the beat away"
            }
            At::Dead => return,
        };
        take(step("observer", at, what), Ok(next));
        if world.deaths > 0 && world.observers[at] != At::Idle {
            let mut next = world.clone();
            next.deaths -= 1;
            next.observers[at] = At::Dead;
            take(step("observer", at, "dies"), Ok(next));
        }
    }

    /// Marks the beat. Returns the mark.
    fn mark(&self, world: &mut World, number: u8) -> u8 {
        if self.broken != Some(Broken::Alike) {
            world.next_mark += 1;
        }
        let mark = world.next_mark;
        world.beat = Some(Beat {
            number,
            mark: Some(mark),
        });
        mark
    }
}

impl Model for Lapse {
    type State = World;

    fn start(&self) -> World {
        World {
            beat: Some(Beat {
                number: 0,
                mark: None,
            }),
            sessions: [true; OWNERS],
            observers: vec![At::Idle; self.observers],
            sent: 0,
            next_mark: 0,
            calls: self.calls,
            openings: self.openings,
            deaths: self.deaths,
        }
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        self.holder(world, take);
        for at in 0..world.observers.len() {
            self.observer(world, at, take);
        }
    }

    fn violation(&self, world: &World) -> Option<String> {
        let is_held = world.sessions.contains(&true);
        (is_held && world.beat.is_none())
            .then(|| "a holder with a session has no beat, so nobody misses it".to_owned())
    }
}
