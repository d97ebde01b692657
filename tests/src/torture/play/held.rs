//! Chains that game servers hold in sessions, one at a time. Each link is an edit that is saved.
//! Sessions wait for each other, ask each other and steal from each other. A lost or late link
//! shows as a fork or a gap.

use std::time::Duration;

use anyhow::Result;
use rand::RngExt as _;
use storage_sdk::{Autosave, Kind, OnConflict, Otherwise, Session, SessionOptions, SessionState};

use super::Player;
use super::shared::{ROOMS, Room};
use crate::torture::history::{Call, End};

/// The largest number of links of one session.
const LINKS_MAX: u32 = 8;
/// The time for which a save is tried before a look whether the session is lost.
const SAVE: Duration = Duration::from_secs(2);

impl Player {
    /// Starts a session of a chain, puts some links at its end, and ends it.
    pub(super) async fn hold(&mut self) -> Result<()> {
        // Other rooms than those of plain writes.
        let id = u64::from(ROOMS + self.hot(ROOMS));
        let asks = |then| OnConflict::Ask {
            after: Duration::from_millis(300),
            then,
        };
        let on_conflict = match self.rng.random_range(0..5) {
            0 => OnConflict::Fail,
            1 => OnConflict::Wait {
                at_most: Duration::from_secs(1),
            },
            2 => asks(Otherwise::Fail),
            3 => asks(Otherwise::Steal),
            _ => OnConflict::Steal,
        };
        let options = SessionOptions::new()
            .on_conflict(on_conflict)
            .autosave(Autosave::Off)
            .within(Duration::from_secs(4));
        let rooms = self.storage.world("game", "eu")?.sessions::<Room>(options);
        let empty = || Room {
            id,
            number: 0,
            token: String::new(),
        };
        let number = self.begin(id, Call::Start)?;
        let session = match rooms.start_or(id, empty).await {
            Ok(session) => session,
            Err(error) => {
                self.ended(number, End::Unknown(error.to_string()))?;
                return Ok(());
            }
        };
        self.ended(number, End::Done(0))?;
        for _ in 0..self.rng.random_range(1..=LINKS_MAX) {
            let is_asked = matches!(session.state(), SessionState::HandOverAsked { .. });
            if is_asked || *self.stop.borrow() || !self.link(&session, id).await? {
                break;
            }
        }
        if self.rng.random_range(0..3) > 0 {
            // The stored data shows whether its failure did harm.
            let _ = session.end().await;
        }
        Ok(())
    }

    fn begin(&self, id: u64, call: Call) -> Result<u64> {
        self.log.begin(self.task, &format!("room/{id}"), &call)
    }

    /// Puts a link at the end of the chain. Returns whether the session goes on.
    async fn link(&mut self, session: &Session<Room>, id: u64) -> Result<bool> {
        let token = self.token();
        let number = self.begin(id, Call::Append(token.clone()))?;
        let edited = session.edit(|room| {
            let behind = std::mem::replace(&mut room.token, token);
            room.number += 1;
            (behind, room.number)
        });
        let (behind, at) = match edited {
            Ok(edited) => edited,
            Err(error) => {
                return self
                    .ended(number, End::NotApplied(error.to_string()))
                    .map(|_| false);
            }
        };
        loop {
            match session.save().deadline(SAVE).await {
                Ok(_) => {
                    return self
                        .ended(number, End::Appended { behind, number: at })
                        .map(|_| true);
                }
                Err(error) if matches!(error.kind(), Kind::Fenced | Kind::Closing) => {
                    return self
                        .ended(number, End::Unknown(error.to_string()))
                        .map(|_| false);
                }
                // The edit is saved when the storage closes, or never. It is a link without an end
                // in the history.
                Err(_) if *self.stop.borrow() => return Ok(false),
                Err(_) => {}
            }
        }
    }
}
