//! What breaks storages of this kind, done to this one on purpose. `book/src/hazards.md` lists all of
//! it.

mod clocks;
mod links;
mod older;
mod panics;
mod pauses;
mod slots;
mod stops;
mod tables;
