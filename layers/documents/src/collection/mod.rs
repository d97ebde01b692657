//! Collections: a head, and an owner for each item, all in one group.
//!
//! The ids of all owners begin with the path of the collection in braces. So they share a partition,
//! and one step changes an item, the head's revision and the count.
//!
//! The id of an item's owner also has the *generation* of the collection. Deleting a collection
//! raises it. So all items of the former generation are gone in that step, however many they are.

mod head;
mod items;
mod landed;
mod post;
mod step;

pub(crate) use head::{
    COUNT, GENERATION, Generations, Head, collection_of, head_id, ids_of, item_of, path_of,
};
pub(crate) use items::ID;
pub(crate) use landed::LandedGeneration;
pub(crate) use post::{Turns, id_of};
