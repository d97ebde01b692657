//! The bags of the players: gold and items.
//!
//! A bag is an owner of its own, and no session ever holds it. So a transaction can change the bags
//! of two players, even if the players are on different servers. All bags of a guild are in one
//! group.

use storage_sdk::{ByteOwner, InGroup, Record, Result, World};

/// The logic type of a bag.
pub const BAG: &str = "bag";
/// The field with the gold.
pub const GOLD: &str = "gold";
/// The field that marks a bag as filled. Every other field is the number of one item.
pub const FILLED: &str = "filled";
/// The gold of a new player.
pub const START_GOLD: i64 = 100;

/// The items of a new player. Each of them exists once.
#[must_use]
pub fn start_items(player: u64) -> [String; 2] {
    [format!("sword-{player}"), format!("shield-{player}")]
}

/// Whether a field of a bag is the number of an item.
#[must_use]
pub fn is_item(field: &str) -> bool {
    field != GOLD && field != FILLED
}

/// The bags of all guilds.
#[derive(Debug, Clone)]
pub struct Bags(pub World);

impl Bags {
    /// The owner has the id `{guild-7}/42`. The tag in braces is its group.
    fn of(&self, guild: &str, player: u64) -> Result<ByteOwner> {
        self.0.bytes().owner(BAG, InGroup(guild, player))
    }

    /// Gives a new player gold and items. Does nothing if the bag was filled before.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn fill(&self, guild: &str, player: u64) -> Result<()> {
        let [sword, shield] = start_items(player);
        let filled = self.of(guild, player)?.transaction(|bag| {
            let bag = bag.if_missing(FILLED).set(FILLED, 1);
            bag.add(GOLD, START_GOLD).add(&sword, 1).add(&shield, 1)
        });
        match filled.await {
            Err(error) if !error.is_conflict() => Err(error),
            _ => Ok(()),
        }
    }

    /// Pays gold to a member of the guild. The condition protects the gold from a wrong number.
    ///
    /// # Errors
    /// `OutOfBounds`: there is not enough gold. `Conflict`: the guild has no such member. Otherwise
    /// the storage fails.
    pub async fn pay(&self, guild: &str, from: u64, to: u64, gold: u32) -> Result<()> {
        let (from, to, gold) = (self.of(guild, from)?, self.of(guild, to)?, i64::from(gold));
        self.0
            .transaction()
            .owner(&from, |bag| bag.add_within(GOLD, -gold, 0..))
            .owner(&to, |bag| bag.if_equal(FILLED, 1).add(GOLD, gold))
            .await?;
        Ok(())
    }

    /// Sells one item to a member of the guild.
    ///
    /// # Errors
    /// `OutOfBounds`: the seller has no such item, or the buyer has not enough gold. Otherwise the
    /// storage fails.
    pub async fn sell(&self, guild: &str, from: u64, item: &str, to: u64, gold: u32) -> Result<()> {
        let (seller, buyer) = (self.of(guild, from)?, self.of(guild, to)?);
        let price = [(GOLD, i64::from(gold))];
        seller.trade(&buyer, [(item, 1)], price).await?;
        Ok(())
    }

    /// All fields of a bag.
    ///
    /// # Errors
    /// The storage fails.
    pub async fn content(&self, guild: &str, player: u64) -> Result<Record> {
        self.of(guild, player)?.get_all().await
    }
}
