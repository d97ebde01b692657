//! How old an answer may be: every interleaving of landings of one owner, a server that follows the
//! feed, its cache and its loads, a call, and time, which passes at any point. The database may be
//! replaced once by an older copy.
//!
//! The server reads the feed in rounds. A round asks for the end of the feed, and then takes the events
//! up to that end. An event removes its owner from the cache. The *mark* of the server is a moment. All
//! that was committed before it has been heard. The age of an answer is the time since the mark.
//!
//! The rules:
//! - V5: the server knows an end of the feed before it reads the first row.
//! - V6: an answer reflects each event that was committed before its mark. The mark is the moment
//!   before a round asked for the end, and moves once the round has taken all events. A call takes the
//!   mark before it reads a value.
//! - V7: an answer to a call that names a position of the feed reflects all events up to it. Such a
//!   call waits until the server has heard them.
//! - V8: a load that was under way when an event of its owner was taken is *void*. Its row is not kept,
//!   and no later call joins it. The calls that wait for it get the row, since they began before.
//! - V8: a round that finds another database, or an end of the feed before the cursor, takes nothing.
//!   All entries go, a load under way is void, and the cursor and the mark begin anew: at the end that
//!   the round found, and at its beginning. A round that meets another database between its end and
//!   its events ends without a mark.
//! - V8: a row counts only if it is of the database of the cursor. Otherwise it is not kept, and the
//!   calls that wait for it begin again. A position counts only for values of its own database.
//!
//! # The identity of a database
//!
//! An identity is a number that comes with each answer of a database, in the same transaction as the
//! data. Each round, each load and each position has one. The model assumes that no two databases have
//! the same identity, and that a copy gets another one before it answers for the first time. The
//! process of a database server is such an identity. A name that is stored in the tables is none,
//! because the copy has it, too, which is [`Broken::Identity`]. [`Broken::Number`] shows that the end
//! of the feed alone is not enough. Events of the copy get numbers that were heard before, and the feed
//! can be at the cursor again, or beyond it, before the next round.
//!
//! Of the two databases, the former one answers at most loads after the replacement, over connections
//! that are left. Rounds reach the present one. A server whose rounds all reach a database that was
//! replaced can't know it.
//!
//! # What a value reflects after a replacement
//!
//! The copy has the first events of the former feed, and a version of the row that is not behind them.
//! The history of the present database is that of the copy and all that landed in it since. The later
//! versions of the former database are lost, and count as versions of another history. Their events are
//! owed to nobody. But the replacement itself is a change. An answer with a mark after it must not have
//! a lost version.
//!
//! A position belongs to the history of its database. An answer to a call that names a position of the
//! former one has the named version, even if it is lost, or there is no answer.
//!
//! The model has one owner in detail, events of others, one load and one call at a time. One version at
//! most is ahead of its event.
//!
//! | module | concept |
//! | --- | --- |
//! | `world` | the state, and the oracle |
//! | `database` | landings, and the replacement |
//! | `follower` | rounds |
//! | `reader` | loads and calls |

use super::step;
use crate::search::{Model, Step};

mod database;
mod follower;
mod reader;
mod world;

pub use world::World;

/// A rule of freshness that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A load begins before the server knows an end of the feed.
    Cursor,
    /// A void load is kept.
    Touched,
    /// The mark is the moment at which a round ends.
    Received,
    /// The mark moves with each event of a round.
    Partial,
    /// A call takes the mark after it has read a value.
    Age,
    /// A call joins a void load.
    Join,
    /// A call that names a position does not wait.
    Place,
    /// The server goes on with its cursor and its entries when the database was replaced.
    Back,
    /// A round compares the number of the end with its cursor, and not the database.
    Number,
    /// A round takes the events of another database than that of its end.
    Events,
    /// The entries stay when the cursor begins anew.
    Entries,
    /// A load under way is not void when the cursor begins anew.
    Load,
    /// A row counts, whichever database it is of.
    Row,
    /// A position counts for the feed of each database.
    Position,
    /// A copy has the identity of the database that it replaces.
    Identity,
}

/// Freshness within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Freshness {
    /// How often time passes.
    pub ticks: u8,
    /// How many versions land in each database, beside the first one.
    pub versions: u8,
    /// How many events of other owners a feed has at most.
    pub others: usize,
    /// Whether an older copy may replace the database, once.
    pub replacement: bool,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// Takes a step and its result.
type Take<'a> = &'a mut dyn FnMut(Step, Result<World, String>);

impl Freshness {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}

impl Model for Freshness {
    type State = World;

    fn start(&self) -> World {
        World::new()
    }

    fn steps(&self, world: &World, take: Take<'_>) {
        if world.now < self.ticks {
            let mut next = world.clone();
            next.now += 1;
            take(step("time", 0, "passes"), Ok(next));
        }
        database::steps(self, world, take);
        follower::steps(self, world, take);
        reader::steps(self, world, take);
    }

    /// The steps show the violations: only an answer can be wrong.
    fn violation(&self, _: &World) -> Option<String> {
        None
    }
}
