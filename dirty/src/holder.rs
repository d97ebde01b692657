//! The processes that hold sessions.
//!
//! Each holder has a *beat* in each partition, a number that it raises. No server's clock decides
//! that a holder is gone. A process that sees the same beat for longer than a lease, by its own
//! clock, declares the holder gone ([`Beats`]).

use async_trait::async_trait;
use std::fmt;
use storage_model::{Epoch, Fence, OpId, Owner, Partition, Timestamp};

use crate::HotError;

/// The beats of all holders of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beats {
    /// Each holder's last beat.
    pub beats: Vec<(OpId, u64)>,
    /// The adoption that began the epoch.
    pub adoption: Adoption,
    /// Whether the grace of the epoch has ended.
    pub graced: bool,
}

/// The beginning of an epoch in the hot tier. A late copy of an adoption can begin the same epoch
/// once more, after the hot tier was emptied. Then the moments differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Adoption {
    /// The epoch.
    pub epoch: Epoch,
    /// The moment of the adoption, by the clock of the hot tier.
    pub at: Timestamp,
}

/// A session with an owner that another server asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The owner of the session.
    pub owner: Owner,
    /// The fence of the session.
    pub fence: Fence,
    /// The id of the request.
    pub ask: OpId,
    /// The name of the server that asks.
    pub by: String,
}

/// The holders of sessions: their beats, and the end of holders that are gone. A call changes each
/// session in one atomic step.
///
/// The calls keep the rules of [`Hot`](crate::Hot).
#[async_trait]
pub trait Holders: fmt::Debug + Send + Sync {
    /// Raises a holder's beat in partitions, if `raise` is given. Returns the beats of all holders.
    async fn beat(
        &self,
        partitions: &[Partition],
        raise: Option<(OpId, u64)>,
    ) -> Vec<Result<Beats, HotError>>;

    /// The sessions of a holder that others ask for.
    async fn asked(
        &self,
        partitions: &[Partition],
        holder: OpId,
    ) -> Vec<Result<Vec<Asked>, HotError>>;

    /// The sessions of a holder in a partition that have not lapsed. A session that begins or ends
    /// during the call may be among them or not.
    async fn held_by(
        &self,
        partition: Partition,
        holder: OpId,
    ) -> Result<Vec<(Owner, Fence)>, HotError>;

    /// Declares a holder gone if its beat is still `beat` (S5). Its sessions then lapse. Returns
    /// how many lapsed. The beat is 0 until the holder raises it.
    async fn lapse(&self, partition: Partition, holder: OpId, beat: u64) -> Result<u32, HotError>;

    /// The sessions of a partition that have lapsed and that nobody took since.
    async fn lapsed(&self, partition: Partition) -> Result<Vec<(Owner, Fence)>, HotError>;

    /// Forgets these sessions if they are still lapsed. A holder that comes back has lost such a
    /// session. Returns how many were forgotten.
    async fn forget_lapsed(
        &self,
        partition: Partition,
        sessions: &[(Owner, Fence)],
    ) -> Result<u32, HotError>;

    /// Ends the grace of an epoch. The caller must have seen this adoption for longer than a lease.
    /// Returns whether it is still the last one.
    async fn end_grace(&self, partition: Partition, adoption: Adoption) -> Result<bool, HotError>;
}
