//! Faults that break storages of this kind, caused on purpose. `book/src/hazards.md` lists them
//! all.

mod clocks;
mod links;
mod older;
mod panics;
mod pauses;
mod slots;
mod stops;
mod tables;
