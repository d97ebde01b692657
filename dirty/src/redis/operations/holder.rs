//! The processes that hold sessions.

use std::collections::BTreeMap;

use async_trait::async_trait;
use redis::Value;
use storage_model::{Fence, OpId, Owner, Partition, Timestamp};

use crate::redis::connections::transport::Command;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts::{self, LapseStep};
use crate::redis::{RedisStore, hot_errors};
use crate::{Adoption, Asked, Beats, Holders, HotError, Session, mark};

/// The most owners of one call of `lapse.lua`. Each of them is looked up in all maps.
const LAPSE_MAX: usize = 50;
/// The most owners of one call of `forget_lapsed.lua`.
const FORGET_MAX: usize = 200;

#[async_trait]
impl Holders for RedisStore {
    async fn beat(
        &self,
        partitions: &[Partition],
        raise: Option<(OpId, u64)>,
    ) -> Vec<Result<Beats, HotError>> {
        let commands: Vec<Command> = partitions
            .iter()
            .flat_map(|at| scripts::beat(&self.space, *at, raise))
            .collect();
        // ORDER: the beats before the record. So beats of an earlier epoch count at most as new ones of this epoch, and no
        // holder looks silent by them.
        let mut answers = self.router.send(&commands, true).await.into_iter();
        let mut next = || answers.next().unwrap_or(Err(Failure::TimedOut));
        let beats = partitions.iter().map(|_| {
            let [beats, record] = [next(), next()];
            beats_of(record?, beats?, raise)
        });
        hot_errors("beat", true, partitions, beats)
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
        let gone = LostHolder {
            partition,
            holder,
            beat,
            mark: self.router.common.ids.next(),
        };
        // ORDER: the mark before the list. A session that the list misses has taken the mark away.
        if self.lapse_step(&gone, LapseStep::Mark).await? < 0 {
            return Ok(0);
        }
        let sessions = self.held_by(partition, holder).await?;
        let owners: Vec<Owner> = sessions.into_iter().map(|(owner, _)| owner).collect();
        let mut lapsed = 0;
        for chunk in owners.chunks(LAPSE_MAX) {
            match self.lapse_step(&gone, LapseStep::Lapse(chunk)).await? {
                count @ 0.. => lapsed += u32::try_from(count).unwrap_or(u32::MAX),
                _ => return Ok(lapsed),
            }
        }
        self.lapse_step(&gone, LapseStep::End).await?;
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
        for chunk in sessions.chunks(FORGET_MAX) {
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

/// A holder that is declared gone, by its beat.
struct LostHolder {
    partition: Partition,
    holder: OpId,
    beat: u64,
    /// The mark of this declaration.
    mark: OpId,
}

impl RedisStore {
    /// One step of the end of a holder's sessions. Returns how many lapsed, or -1 if the holder is not gone.
    async fn lapse_step(&self, gone: &LostHolder, step: LapseStep<'_>) -> Result<i64, HotError> {
        let command = scripts::lapse(
            &self.space,
            gone.partition,
            (gone.holder, gone.beat),
            (gone.mark, step),
            self.clean_ttl,
        );
        self.one("lapse", Some(gone.partition), command, reply::number::<i64>)
            .await
    }

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
                let session = reply::session(&text).ok().filter(&wanted);
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

/// The beats that were read, with the one that was raised behind them.
fn beats_of(record: Value, beats: Value, raise: Option<(OpId, u64)>) -> Result<Beats, Failure> {
    let [epoch, graced, at] = reply::array(record)?;
    let mut numbers: BTreeMap<OpId, u64> = BTreeMap::new();
    for (name, beat) in reply::pairs(beats)? {
        let holder = std::str::from_utf8(&name)
            .ok()
            .and_then(reply::id)
            .ok_or_else(|| Failure::Nonsense("a beat can't be read".to_owned()))?;
        // A beat may have a mark behind its number.
        let number = beat.split(|byte| *byte == b' ').next().unwrap_or_default();
        numbers.insert(holder, reply::digits(number)?);
    }
    if let Some((holder, number)) = raise {
        let last = numbers.entry(holder).or_insert(number);
        *last = number.max(*last);
    }
    Ok(Beats {
        adoption: Adoption {
            epoch: reply::epoch(&reply::bytes(epoch)?)?,
            at: Timestamp(reply::digits(&reply::bytes(at)?)?),
        },
        graced: &*reply::bytes(graced)? == b"1",
        beats: numbers.into_iter().collect(),
    })
}

/// The requests for the owners of one holder. The value of each owner is "holder version token ask by".
fn asked_of(value: Value, holder: OpId) -> Result<Vec<Asked>, Failure> {
    let mut all = Vec::new();
    for (name, text) in reply::pairs(value)? {
        let nonsense = || Failure::Nonsense("a request for an owner can't be read".to_owned());
        let text = std::str::from_utf8(&text).map_err(|_| nonsense())?;
        let [of, version, token, ask, by] =
            <[&str; 5]>::try_from(text.splitn(5, ' ').collect::<Vec<_>>())
                .map_err(|_| nonsense())?;
        let fence = Fence {
            version: reply::version(version.as_bytes())?,
            token: reply::id(token).ok_or_else(nonsense)?,
        };
        if reply::id(of) == Some(holder) {
            all.push(Asked {
                owner: mark::owner_of(&name).ok_or_else(nonsense)?,
                fence,
                ask: reply::id(ask).ok_or_else(nonsense)?,
                by: by.to_owned(),
            });
        }
    }
    Ok(all)
}
