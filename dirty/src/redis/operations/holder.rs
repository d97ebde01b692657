//! The processes that hold sessions.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;
use storage_model::{Fence, OpId, Owner, Partition, Timestamp};

use super::session::{id_of, session_of};
use crate::redis::RedisStore;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{Adoption, Asked, Beats, Holders, HotError, Session, mark};

/// The most owners of one call of `lapse.lua` or `forget_lapsed.lua`.
const CALL_MAX: usize = 200;

#[async_trait]
impl Holders for RedisStore {
    async fn beat(
        &self,
        partitions: &[Partition],
        raise: Option<(OpId, u64)>,
    ) -> Vec<Result<Beats, HotError>> {
        self.each_partition(
            "beat",
            partitions,
            |at| scripts::beat(&self.space, at, raise),
            beats_of,
        )
        .await
    }

    async fn asked(
        &self,
        partitions: &[Partition],
        holder: OpId,
    ) -> Vec<Result<Vec<Asked>, HotError>> {
        self.each_partition(
            "asked",
            partitions,
            |at| scripts::asked(&self.space, at),
            move |value| asked_of(value, holder),
        )
        .await
    }

    async fn held_by(
        &self,
        partition: Partition,
        holder: OpId,
    ) -> Result<Vec<(Owner, Fence)>, HotError> {
        self.sessions_in(partition, false, |session| session.holder == holder)
            .await
    }

    async fn lapse(&self, partition: Partition, holder: OpId, beat: u64) -> Result<u32, HotError> {
        let sessions = self
            .sessions_in(partition, false, |session| session.holder == holder)
            .await?;
        let owners: Vec<Owner> = sessions.into_iter().map(|(owner, _)| owner).collect();
        let mut lapsed = 0;
        let chunks = owners
            .chunks(CALL_MAX)
            .map(|chunk| (chunk, false))
            .chain([(&[][..], true)]);
        for (chunk, last) in chunks {
            let command = scripts::lapse(
                &self.space,
                partition,
                holder,
                beat,
                chunk,
                (self.clean_ttl, last),
            );
            match self
                .one("lapse", Some(partition), command, reply::number::<i64>)
                .await?
            {
                count @ 0.. => lapsed += u32::try_from(count).unwrap_or(u32::MAX),
                _ => break,
            }
        }
        Ok(lapsed)
    }

    async fn lapsed(&self, partition: Partition) -> Result<Vec<(Owner, Fence)>, HotError> {
        self.sessions_in(partition, true, |_| true).await
    }

    async fn forget_lapsed(
        &self,
        partition: Partition,
        sessions: &[(Owner, Fence)],
    ) -> Result<u32, HotError> {
        let mut forgotten = 0;
        for chunk in sessions.chunks(CALL_MAX) {
            let command = scripts::forget_lapsed(&self.space, partition, chunk);
            forgotten += self
                .one(
                    "forget_lapsed",
                    Some(partition),
                    command,
                    reply::number::<u32>,
                )
                .await?;
        }
        Ok(forgotten)
    }

    async fn end_grace(&self, partition: Partition, adoption: Adoption) -> Result<bool, HotError> {
        self.one(
            "end_grace",
            Some(partition),
            scripts::end_grace(&self.space, partition, adoption),
            reply::yes,
        )
        .await
    }
}

impl RedisStore {
    /// The wanted sessions of a partition, from the lapsed ones or from the others.
    async fn sessions_in(
        &self,
        partition: Partition,
        lapsed: bool,
        wanted: impl Fn(&Session) -> bool,
    ) -> Result<Vec<(Owner, Fence)>, HotError> {
        let (mut sessions, mut cursor) = (BTreeMap::new(), 0);
        loop {
            let command = scripts::scan_sessions(&self.space, partition, lapsed, cursor);
            let decode = |value| {
                let [next, pairs] = reply::array(value)?;
                Ok((reply::number::<u64>(next)?, reply::pairs(pairs)?))
            };
            let (next, pairs) = self
                .one("scan_sessions", Some(partition), command, decode)
                .await?;
            for (name, text) in pairs {
                let session = session_of(&text).ok().filter(&wanted);
                if let (Some(owner), Some(session)) = (mark::owner_of(&name), session) {
                    sessions.insert(owner, session.fence);
                }
            }
            if next == 0 {
                return Ok(sessions.into_iter().collect());
            }
            cursor = next;
        }
    }
}

fn beats_of(value: Value) -> Result<Beats, Failure> {
    let [epoch, graced, at, beats] = reply::array(value)?;
    let beat = |(holder, beat): (Bytes, Bytes)| {
        let holder = std::str::from_utf8(&holder).ok().and_then(id_of);
        let holder = holder.ok_or_else(|| Failure::Nonsense("a beat can't be read".to_owned()))?;
        Ok((holder, reply::digits(&beat)?))
    };
    Ok(Beats {
        adoption: Adoption {
            epoch: reply::epoch(&reply::bytes(epoch)?)?,
            at: Timestamp(reply::digits(&reply::bytes(at)?)?),
        },
        graced: &*reply::bytes(graced)? == b"1",
        beats: reply::pairs(beats)?
            .into_iter()
            .map(beat)
            .collect::<Result<_, Failure>>()?,
    })
}

/// The requests for the owners of one holder. The value of each owner is "holder version token by".
fn asked_of(value: Value, holder: OpId) -> Result<Vec<Asked>, Failure> {
    let mut all = Vec::new();
    for (name, text) in reply::pairs(value)? {
        let nonsense = || Failure::Nonsense("a request for an owner can't be read".to_owned());
        let text = std::str::from_utf8(&text).map_err(|_| nonsense())?;
        let [of, version, token, by] =
            <[&str; 4]>::try_from(text.splitn(4, ' ').collect::<Vec<_>>())
                .map_err(|_| nonsense())?;
        let fence = Fence {
            version: reply::version(version.as_bytes())?,
            token: id_of(token).ok_or_else(nonsense)?,
        };
        if id_of(of) == Some(holder) {
            all.push(Asked {
                owner: mark::owner_of(&name).ok_or_else(nonsense)?,
                fence,
                by: by.to_owned(),
            });
        }
    }
    Ok(all)
}
