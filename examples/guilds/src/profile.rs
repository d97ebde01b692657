//! The profile of a player.

use serde::{Deserialize, Serialize};
use storage_sdk::SaveObject;

/// The part of a player that only the player's own server changes. A session holds it in memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "profile")]
pub struct Profile {
    /// The player.
    #[save_object(owner_id)]
    pub id: u64,
    /// The guild. It places the player's bag.
    pub guild: String,
    /// The experience.
    pub xp: u64,
    /// The place on the map.
    pub place: (i32, i32),
    /// The last game server.
    pub server: String,
}
