//! The shared methods of all kinds of sessions.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{Durability, Version};

use super::hold::Hold;
use super::save::SaveRequest;
use super::state::{HoldStatus, LossReason, SessionState};
use crate::core::Shared;
use crate::{Ack, Result};

/// The handle of a session. If it is dropped without an end, the session ends in the background.
#[derive(Debug)]
pub(super) struct Handle {
    hold: Arc<Hold>,
    /// A session is a handle of its storage, also when it is the last one.
    _core: Shared,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.hold.abandon();
    }
}

/// A save of a session, which is sent when it is awaited. Saves that are awaited at the same time
/// are sent as one.
///
/// ```
/// # storage_doc::with_bytes(async |bytes| {
/// use std::time::Duration;
/// use storage_sdk::{Durability, Safety, SessionOptions};
/// let room = bytes.owner("room", 7_u64)?.session(SessionOptions::default()).await?;
/// room.set("winner", "ann")?;
/// let landed = Durability::Landed { timeout: Duration::from_secs(10) };
/// let ack = room.save().durability(landed).deadline(Duration::from_secs(2)).await?;
/// assert_eq!((ack.durability(), room.landed()), (Safety::Landed, ack.version()));
/// # Ok(()) });
/// ```
///
/// # Errors
/// - `Fenced`: the session is lost, and nothing was written.
/// - `Invalid`: the object can't be encoded, or exceeds a limit. Nothing was written, and the
///   session goes on. Make the object smaller, and save again.
/// - `Timeout` with the outcome `NotApplied`: the session could not be confirmed in time after the
///   hot tier was replaced. Its edits stay.
/// - Otherwise as [`Write`](crate::Write).
///
/// # Cancel safety
/// A dropped save goes on, and the session learns its outcome.
#[must_use = "a save is sent when it is awaited"]
#[derive(Debug)]
pub struct SaveSession {
    hold: Arc<Hold>,
    wanted: SaveRequest,
}

impl SaveSession {
    /// How safe the save must be before it is acknowledged. Default: the durability of the owner's
    /// logic type; see [`Write::durability`](crate::Write::durability).
    pub fn durability(mut self, durability: Durability) -> Self {
        self.wanted.durability = durability;
        self
    }

    /// The time for retries. Default: `hot.operation_deadline`, 5 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.wanted.within = deadline;
        self
    }
}

impl IntoFuture for SaveSession {
    type Output = Result<Ack>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Ack>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.hold.save(self.wanted).await })
    }
}

impl Handle {
    pub(super) fn new(hold: Arc<Hold>, core: &Shared) -> Self {
        Self {
            hold,
            _core: Arc::clone(core),
        }
    }

    pub(super) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(super) fn save(&self) -> SaveSession {
        let wanted = SaveRequest {
            durability: self.hold.durability,
            within: self.hold.core.deadline,
            ends: false,
        };
        SaveSession {
            hold: Arc::clone(&self.hold),
            wanted,
        }
    }

    pub(super) fn saved(&self) -> Version {
        self.hold.known().acked
    }

    pub(super) fn landed(&self) -> Version {
        self.hold.known().landed
    }

    pub(super) async fn wait_landed(&self, within: Duration) -> Result<Version> {
        let hold = &self.hold;
        let (version, epoch) = hold.look(|known| (known.acked, known.acked_in));
        hold.core.land(&hold.owner, version, epoch, within).await?;
        Ok(hold.change(|known| {
            known.landed = known.landed.max(version);
            known.landed
        }))
    }

    pub(super) fn state(&self) -> SessionState {
        self.hold.state()
    }

    pub(super) async fn lost(&self) -> LossReason {
        let lost = |standing: &HoldStatus| {
            if let HoldStatus::Lost(why) = standing {
                Some(why.clone())
            } else {
                None
            }
        };
        match lost(
            &self
                .hold
                .until(|known| lost(&known.standing).is_some())
                .await
                .standing,
        ) {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn asked(&self) -> String {
        match self.hold.until(|known| known.asked.is_some()).await.asked {
            Some(by) => by,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn end(&self, within: Duration) -> Result<Ack> {
        self.hold.end(within).await
    }
}

/// Defines the methods that all kinds of sessions share.
macro_rules! shared_by_sessions {
    ($session:ty $(where $($bound:tt)+)?) => {
        impl $(<$($bound)+>)? $session {
            /// Saves all edits, if there are any. The save includes the last edit before the call.
            ///
            /// ```
            /// # storage_doc::with_bytes(async |bytes| {
            /// let room = bytes.owner("room", 7_u64)?;
            /// let session = room.session(Default::default()).await?;
            /// session.set("topic", "raid at nine")?;
            /// assert!(!room.exists().await?); // the edit is in memory
            /// session.save().await?;
            /// assert!(room.exists().await?);
            /// # Ok(()) });
            /// ```
            ///
            /// # Errors
            /// As [`SaveSession`](super::SaveSession).
            ///
            /// # Cancel safety
            /// As [`SaveSession`](super::SaveSession).
            pub fn save(&self) -> super::SaveSession {
                self.handle.save()
            }

            /// The version of the last acknowledged save. Before the first save, the owner's
            /// version at the start.
            #[must_use]
            pub fn saved(&self) -> Version {
                self.handle.saved()
            }

            /// The greatest version that this session knows to be in the database. It learns the
            /// version from a save that waited for the database, or from `wait_landed`. Confirm a
            /// purchase when the version with the purchase has landed.
            #[must_use]
            pub fn landed(&self) -> Version {
                self.handle.landed()
            }

            /// Waits until the saved edits are in the database, and returns their version. They
            /// also land without this call, but later.
            ///
            /// ```
            /// # storage_doc::with_bytes(async |bytes| {
            /// use std::time::Duration;
            /// let shop = bytes.owner("shop", 7_u64)?.session(Default::default()).await?;
            /// shop.set("sold", "a sword for real money")?;
            /// let saved = shop.save().await?.version();
            /// assert!(shop.wait_landed(Duration::from_secs(10)).await? >= saved); // now tell the player
            /// # Ok(()) });
            /// ```
            ///
            /// # Errors
            /// As [`ByteOwner::flush`](crate::ByteOwner::flush). The outcome is `Unknown` if the
            /// hot tier was replaced since the save. Save again, and wait again.
            ///
            /// # Cancel safety
            /// As [`ByteOwner::flush`](crate::ByteOwner::flush).
            pub async fn wait_landed(&self, within: Duration) -> Result<Version> {
                self.handle.wait_landed(within).await
            }

            /// The identity of this session among all sessions of the owner.
            #[doc(hidden)]
            #[must_use]
            pub fn fence(&self) -> storage_model::Fence {
                self.handle.hold().fence
            }

            /// The state of the session, as this process knows it. The call sends nothing.
            #[must_use]
            pub fn state(&self) -> SessionState {
                self.handle.state()
            }

            /// Ready once the session is lost. Never ready if the session ends well.
            ///
            /// ```
            /// # storage_doc::with_bytes(async |bytes| {
            /// let room = bytes.owner("room", 7_u64)?.session(Default::default()).await?;
            /// tokio::select! {
            ///     why = room.lost() => panic!("close the room: {why}"),
            ///     () = async { /* the game */ } => {}
            /// }
            /// room.end().await?;
            /// # Ok(()) });
            /// ```
            ///
            /// # Cancel safety
            /// The call only waits.
            pub async fn lost(&self) -> LossReason {
                self.handle.lost().await
            }

            /// Ready once another server asks for the owner. Returns the name of that server. The
            /// session saves its edits at once, and the game should end the session. If the game
            /// does not, [`OnConflict::Ask`](super::OnConflict::Ask) decides.
            ///
            /// ```
            /// # storage_doc::with_bytes(async |bytes| {
            /// let room = bytes.owner("room", 7_u64)?;
            /// let here = room.session(Default::default()).await?;
            /// let there = tokio::spawn(async move { room.session(Default::default()).await }); // another server
            /// let by = here.asked().await; // so this one sends its players there
            /// here.end().await?;
            /// assert!(!by.is_empty() && there.await?.is_ok());
            /// # Ok(()) });
            /// ```
            ///
            /// # Cancel safety
            /// The call only waits.
            pub async fn asked(&self) -> String {
                self.handle.asked().await
            }

            /// Saves the remaining edits and ends the session in the same step. The next session of
            /// the owner finds the last edit. From the moment of the call on, edits fail. The SDK
            /// retries for `hot.operation_deadline`. A call that fails can be repeated. After an
            /// error of the kind `Invalid`, edits work again.
            ///
            /// ```
            /// # storage_doc::with_bytes(async |bytes| {
            /// use storage_sdk::Kind;
            /// let room = bytes.owner("room", 7_u64)?;
            /// let session = room.session(Default::default()).await?;
            /// session.set("topic", "raid at nine")?;
            /// session.end().await?; // saves the topic, and the room is free
            /// assert_eq!(session.set("topic", "cats").unwrap_err().kind(), Kind::Closing);
            /// assert!(room.held_by().await?.is_none() && room.exists().await?);
            /// # Ok(()) });
            /// ```
            ///
            /// # Errors
            /// As [`SaveSession`](super::SaveSession). `Closing`: the session had already ended.
            ///
            /// # Cancel safety
            /// A dropped call goes on.
            pub async fn end(&self) -> Result<Ack> {
                self.handle.end(self.handle.hold().core.deadline).await
            }
        }
    };
}

pub(super) use shared_by_sessions;
