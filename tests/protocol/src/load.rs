//! A hot-load, in the steps of `Tiers::load` and `Tiers::reconcile`.

use std::sync::Arc;

use storage_dirty::memory::{fill, observe};
use storage_dirty::{Filled, Load, Marker, Observed};
use storage_model::sabotage::broken;
use storage_model::{Field, Row};

use crate::names::{PARTITION, owner};
use crate::world::World;

/// The progress of a load.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Loading {
    Observe,
    /// The epoch and the marker are known. Next it looks at the hash.
    Note(Noted),
    /// The owner may have come back since.
    Look(Observed),
    Load(Observed),
    Fill(Arc<Load>),
}

/// The data that was read before the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Noted {
    observed: Observed,
    /// The number of the server.
    server: u8,
    /// Whether the owner had no field then. An answer may be as old as that moment, since the
    /// caller asked then.
    absent: bool,
}

/// The result of a step of a load.
pub(super) enum Went {
    On(Loading),
    /// The owner's rows with their proof. The hash was right together with them.
    Brought(Arc<Load>),
    /// The partition must be prepared first.
    Waits,
}

/// The rows that a load asks for: all, or those of one field.
pub(super) type Asked = Option<Field>;

impl Loading {
    /// Makes the next step.
    pub(super) fn step(
        &self,
        world: &mut World,
        asked: &Asked,
    ) -> Result<(&'static str, Went), String> {
        Ok(match self {
            Self::Observe => ("reads the marker", note(world)),
            Self::Note(noted) => ("observes the hash", observe(world, asked, *noted)?),
            Self::Look(observed) => ("looks at the hash", look(world, *observed)),
            Self::Load(observed) => {
                let rows = world
                    .cold
                    .rows()
                    .into_iter()
                    .filter(|row| asked.as_ref().is_none_or(|field| *field == row.field));
                let load = load_of(*observed, rows.collect(), asked.is_none());
                ("loads the rows", Went::On(Self::Fill(Arc::new(load))))
            }
            Self::Fill(load) => ("fills", filled(world, load, asked)?),
        })
    }
}

fn note(world: &mut World) -> Went {
    let present = world.present();
    let Ok(observed) = observe::note(world.hot(), &present, PARTITION, &owner()) else {
        return Went::Waits;
    };
    let absent = world.truth.fields().all(|(_, truth)| truth.is_none());
    Went::On(Loading::Note(Noted {
        observed,
        server: world.replaced,
        absent,
    }))
}

fn observe(world: &World, asked: &Asked, noted: Noted) -> Result<Went, String> {
    if noted.server != world.replaced {
        return Ok(Went::On(Loading::Observe)); // the connection broke
    }
    let mut seen = observe::with_hash(&world.hot, &owner(), noted.observed);
    if let Marker::Unknown(number) = seen.marker
        && broken("R8-trusted")
    {
        seen.marker = Marker::Absent(number);
    }
    if asked.is_some() {
        return Ok(Went::On(Loading::Load(seen)));
    }
    match world
        .truth
        .fields()
        .find(|(_, truth)| seen.marker.is_absent() && !noted.absent && truth.is_some())
    {
        Some((field, _)) => Err(format!("the owner is said to be absent, and has {field}")),
        None => Ok(Went::On(Loading::Look(seen))),
    }
}

fn look(world: &World, observed: Observed) -> Went {
    if !world.is_ready() {
        return Went::Waits;
    }
    if observed.marker.is_absent() {
        return Went::Brought(Arc::new(load_of(observed, Vec::new(), true)));
    }
    let read = world.read();
    // The observation counts, and not the earlier knowledge of the process.
    let believed = |suspect: bool| !suspect || broken("R14-untold");
    match read
        .header
        .filter(|header| header.complete && believed(header.suspect))
    {
        Some(header) => {
            let rows = read
                .cells
                .into_iter()
                .map(|(field, cell)| (field, cell, header.version))
                .collect();
            Went::Brought(Arc::new(Load {
                owner: owner(),
                observed,
                rows,
                complete: true,
            }))
        }
        None => Went::On(Loading::Load(observed)),
    }
}

fn filled(world: &mut World, load: &Arc<Load>, asked: &Asked) -> Result<Went, String> {
    let present = world.present();
    Ok(match fill::fill(world.hot(), &present, PARTITION, load) {
        Ok(Filled::Accepted(read)) => match world.wrong(&read, load.complete, asked) {
            Some(wrong) => return Err(format!("a load was believed and {wrong}")),
            None => Went::Brought(Arc::clone(load)),
        },
        // The partition has moved in between, or must be prepared first.
        Ok(Filled::Refused) | Err(_) => Went::On(Loading::Observe),
    })
}

fn load_of(observed: Observed, rows: Vec<Row>, complete: bool) -> Load {
    let rows = rows
        .into_iter()
        .map(|row| (row.field, row.cell, row.version))
        .collect();
    Load {
        owner: owner(),
        observed,
        rows,
        complete,
    }
}
