//! The rules of the game, for one player at a time.

use std::num::ParseIntError;

use storage_sdk::{Error, Kind, Record, Session, SessionOptions, Sessions, Storage};

use crate::bag::{Bags, is_item};
use crate::profile::Profile;

/// The game on one server.
#[derive(Debug)]
pub struct Game {
    server: String,
    profiles: Sessions<Profile>,
    bags: Bags,
}

/// The reason why a line of a player was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The line is none of the commands.
    #[error("there is no such command here")]
    Unknown,
    /// A word of the line must be a number.
    #[error(transparent)]
    Number(#[from] ParseIntError),
    /// A player has not enough gold, or not the item.
    #[error("there is not enough")]
    NotEnough,
    /// The guild has no player with this number.
    #[error("the guild has no such member")]
    NoMember,
    /// The storage failed.
    #[error(transparent)]
    Storage(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error.kind() {
            Kind::OutOfBounds => Self::NotEnough,
            Kind::Conflict => Self::NoMember,
            _ => Self::Storage(error),
        }
    }
}

impl Game {
    /// The game on the server of this name.
    ///
    /// # Errors
    /// The storage is closed.
    pub fn new(storage: &Storage, server: &str) -> Result<Self, Error> {
        let world = storage.world("guilds", "eu-1")?;
        Ok(Self {
            server: server.to_owned(),
            // If another server has the player, the start asks that server for the player. If it is
            // dead, the start waits for the end of its lease.
            profiles: world.sessions(SessionOptions::default()),
            bags: Bags(world),
        })
    }

    /// Carries out the first line of a player, `login PLAYER GUILD`: begins the session. A new player
    /// gets a profile and a filled bag.
    ///
    /// # Errors
    /// The line is no login, another server keeps the player, or the storage fails.
    pub async fn log_in(&self, line: &str) -> Result<Session<Profile>, Refusal> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["login", player, guild] = *words.as_slice() else {
            return Err(Refusal::Unknown);
        };
        let id = player.parse()?;
        let new = || Profile {
            id,
            guild: guild.to_owned(),
            ..Profile::default()
        };
        let profile = self.profiles.start_or(id, new).await?;
        profile.edit(|profile| profile.server.clone_from(&self.server))?;
        // ORDER: the profile with the guild is saved before the bag is filled. Otherwise the server
        // could die in between, and the next login could fill a second bag in another guild.
        profile.save().await?;
        let guild = profile.get().guild.clone();
        self.bags.fill(&guild, id).await?;
        Ok(profile)
    }

    /// Carries out any other line of a player. Returns the answer.
    ///
    /// # Errors
    /// The line is no command, the player can't do this, or the storage fails.
    pub async fn act(&self, profile: &Session<Profile>, line: &str) -> Result<String, Refusal> {
        let (id, guild) = {
            let profile = profile.get();
            (profile.id, profile.guild.clone())
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["quest"] => {
                profile.edit(|profile| profile.xp += 1)?;
                // The player counts on this xp, so it is saved before the answer.
                profile.save().await?;
                Ok(format!("{} xp", profile.get().xp))
            }
            ["walk", x, y] => {
                // The session saves the place by itself, about once a minute.
                let place = (x.parse()?, y.parse()?);
                profile.edit(|profile| profile.place = place)?;
                Ok("walked".to_owned())
            }
            ["pay", to, gold] => {
                let (to, gold) = (to.parse()?, gold.parse()?);
                self.bags.pay(&guild, id, to, gold).await?;
                Ok("paid".to_owned())
            }
            ["trade", item, to, gold] if is_item(item) => {
                let (to, gold) = (to.parse()?, gold.parse()?);
                self.bags.sell(&guild, id, item, to, gold).await?;
                Ok("traded".to_owned())
            }
            ["inventory"] => Ok(items(&self.bags.content(&guild, id).await?)),
            _ => Err(Refusal::Unknown),
        }
    }
}

/// The items of a bag in one line, such as `shield-42 sword-7`.
fn items(bag: &Record) -> String {
    let has = |field: &str| is_item(field) && matches!(bag.int(field), Ok(Some(1..)));
    let names = bag.iter().map(|(field, _)| field.as_str());
    names
        .filter(|field| has(field))
        .collect::<Vec<_>>()
        .join(" ")
}
