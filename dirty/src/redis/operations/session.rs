//! Sessions.

use std::collections::BTreeMap;

use bytes::Bytes;
use redis::Value;
use storage_model::{Epoch, Fence, OpId, Owner, Partition};

use super::read;
use crate::redis::RedisStore;
use crate::redis::error::{Failure, hot_error};
use crate::redis::reply;
use crate::redis::scripts;
use crate::redis::writes::marker_of;
use crate::{
    Asked, Beats, ClaimSession, Claimed, HotError, Observed, OpenSession, Opened, Session, mark,
};

/// The most owners of one call of `lapse.lua` or `forget_lapsed.lua`.
const CALL_MAX: usize = 200;

impl RedisStore {
    pub(in crate::redis) async fn open_one(&self, open: &OpenSession) -> Result<Opened, HotError> {
        let partition = self.space.partition(&open.owner);
        // Another owner's load proves nothing about this one.
        let load = open.load.clone().filter(|load| load.owner == open.owner);
        let command = scripts::open_session(
            &self.space,
            &OpenSession {
                load,
                ..open.clone()
            },
            self.absent_ttl,
        );
        let answer = self.send_one_verified(command, partition).await;
        answer
            .and_then(|value| opened_of(value, open.token))
            .map_err(|failure| hot_error(failure, "open_session", true, Some(partition)))
    }

    pub(in crate::redis) async fn claim_one(
        &self,
        claim: &ClaimSession,
    ) -> Result<Claimed, HotError> {
        let partition = self.space.partition(&claim.owner);
        let answer = self
            .send_one_verified(scripts::claim_session(&self.space, claim), partition)
            .await;
        answer
            .and_then(claimed_of)
            .map_err(|failure| hot_error(failure, "claim_session", true, Some(partition)))
    }

    pub(in crate::redis) async fn close_one(
        &self,
        owner: &Owner,
        fence: Fence,
    ) -> Result<bool, HotError> {
        let partition = self.space.partition(owner);
        let command = scripts::close_session(&self.space, owner, fence, self.clean_ttl);
        let answer = self.send_one_verified(command, partition).await;
        answer
            .and_then(reply::yes)
            .map_err(|failure| hot_error(failure, "close_session", true, Some(partition)))
    }

    pub(in crate::redis) async fn ask_one(
        &self,
        owner: &Owner,
        fence: Fence,
        by: &str,
    ) -> Result<bool, HotError> {
        let partition = self.space.partition(owner);
        let answer = self
            .send_one_verified(
                scripts::ask_session(&self.space, owner, fence, by),
                partition,
            )
            .await;
        answer
            .and_then(reply::yes)
            .map_err(|failure| hot_error(failure, "ask_session", true, Some(partition)))
    }

    pub(in crate::redis) async fn look_at_sessions(
        &self,
        owners: &[Owner],
    ) -> Vec<Result<Option<Session>, HotError>> {
        let commands = owners
            .iter()
            .flat_map(|owner| scripts::sessions_of(&self.space, owner))
            .collect();
        let partitions: Vec<Partition> = owners
            .iter()
            .flat_map(|owner| [self.space.partition(owner); 2])
            .collect();
        let answers = self.send_verified(commands, &partitions, true).await;
        let decoded: Vec<_> = answers
            .into_iter()
            .map(|answer| answer.and_then(maybe_session))
            .collect();
        let pairs = decoded.as_chunks::<2>().0.iter().zip(owners);
        pairs
            .map(|([held, lapsed], owner)| {
                let either = held.clone().and_then(|held| Ok(held.or(lapsed.clone()?)));
                either.map_err(|failure| {
                    hot_error(
                        failure,
                        "sessions_of",
                        false,
                        Some(self.space.partition(owner)),
                    )
                })
            })
            .collect()
    }

    pub(in crate::redis) async fn beat_all(
        &self,
        partitions: &[Partition],
        raise: Option<(OpId, u64)>,
    ) -> Vec<Result<Beats, HotError>> {
        let commands = partitions
            .iter()
            .map(|partition| scripts::beat(&self.space, *partition, raise))
            .collect();
        self.each("beat", partitions, commands, beats_of).await
    }

    pub(in crate::redis) async fn asked_of(
        &self,
        partitions: &[Partition],
        holder: OpId,
    ) -> Vec<Result<Vec<Asked>, HotError>> {
        let commands = partitions
            .iter()
            .map(|partition| scripts::asked(&self.space, *partition))
            .collect();
        self.each("asked", partitions, commands, move |value| {
            asked_of(value, holder)
        })
        .await
    }

    pub(in crate::redis) async fn lapse_holder(
        &self,
        partition: Partition,
        holder: OpId,
        beat: u64,
    ) -> Result<u32, HotError> {
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

    /// The wanted sessions of a partition, from the lapsed ones or from the others.
    pub(in crate::redis) async fn sessions_in(
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

    pub(in crate::redis) async fn forget_sessions(
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

    pub(in crate::redis) async fn grace_ends(
        &self,
        partition: Partition,
        epoch: Epoch,
    ) -> Result<bool, HotError> {
        self.one(
            "end_grace",
            Some(partition),
            scripts::end_grace(&self.space, partition, epoch),
            reply::yes,
        )
        .await
    }
}

/// Reads "version token epoch holder asked name".
pub(in crate::redis) fn session_of(text: &[u8]) -> Result<Session, Failure> {
    let wrong = || Failure::Nonsense("a session can't be read".to_owned());
    let text = std::str::from_utf8(text).map_err(|_| wrong())?;
    let mut words = text.splitn(6, ' ');
    let mut next = || words.next().ok_or_else(wrong);
    let version = reply::version(next()?.as_bytes())?;
    let token = id_of(next()?).ok_or_else(wrong)?;
    let epoch = reply::epoch(next()?.as_bytes())?;
    let holder = id_of(next()?).ok_or_else(wrong)?;
    let asked = Some(next()?.to_owned()).filter(|by| by != "-");
    let name = next()?.to_owned();
    Ok(Session {
        fence: Fence { version, token },
        holder,
        name,
        epoch,
        asked,
    })
}

fn id_of(text: &str) -> Option<OpId> {
    let digits = text.as_bytes().as_chunks::<2>().0;
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = digits.iter().map(byte).collect();
    OpId::from_bytes(&bytes?)
}

fn maybe_session(value: Value) -> Result<Option<Session>, Failure> {
    reply::maybe(value)?
        .map(|text| session_of(&text))
        .transpose()
}

fn opened_of(value: Value, token: OpId) -> Result<Opened, Failure> {
    let mut values = reply::list(value)?.into_iter();
    let mut next = || values.next().unwrap_or(Value::Nil);
    Ok(match &*reply::bytes(next())? {
        b"open" => {
            let (version, epoch, generation) = (
                reply::bytes(next())?,
                reply::bytes(next())?,
                reply::bytes(next())?,
            );
            let fence = Fence {
                version: reply::version(&version)?,
                token,
            };
            let read = read::judged(
                read::whole(reply::pairs(next())?)?,
                reply::epoch(&generation)?,
            );
            Opened::Open {
                fence,
                epoch: reply::epoch(&epoch)?,
                read,
            }
        }
        b"load" => {
            let marker = marker_of(&reply::bytes(next())?)?;
            let present = &*reply::bytes(next())? == b"1";
            Opened::Load(Observed {
                marker,
                present,
                epoch: reply::epoch(&reply::bytes(next())?)?,
            })
        }
        b"held" => Opened::Held(session_of(&reply::bytes(next())?)?),
        b"grace" => Opened::Grace(reply::epoch(&reply::bytes(next())?)?),
        b"expired" => Opened::Expired,
        other => {
            return Err(Failure::Nonsense(format!(
                "unknown answer {:?}",
                String::from_utf8_lossy(other)
            )));
        }
    })
}

fn claimed_of(value: Value) -> Result<Claimed, Failure> {
    let mut values = reply::list(value)?.into_iter();
    let mut next = || values.next();
    let word = reply::bytes(next().unwrap_or(Value::Nil))?;
    match &*word {
        b"yes" => {
            let epoch = reply::epoch(&reply::bytes(next().unwrap_or(Value::Nil))?)?;
            let graced = &*reply::bytes(next().unwrap_or(Value::Nil))? == b"1";
            let begun = reply::version(&reply::bytes(next().unwrap_or(Value::Nil))?)?;
            Ok(Claimed::Yes {
                epoch,
                graced,
                begun,
            })
        }
        b"no" => {
            let session = next()
                .map(|text| session_of(&reply::bytes(text)?))
                .transpose()?;
            Ok(Claimed::No(session))
        }
        other => Err(Failure::Nonsense(format!(
            "unknown answer {:?}",
            String::from_utf8_lossy(other)
        ))),
    }
}

fn beats_of(value: Value) -> Result<Beats, Failure> {
    let [epoch, graced, beats] = reply::array(value)?;
    let beat = |(holder, beat): (Bytes, Bytes)| {
        let holder = std::str::from_utf8(&holder).ok().and_then(id_of);
        let holder = holder.ok_or_else(|| Failure::Nonsense("a beat can't be read".to_owned()))?;
        Ok((holder, reply::digits(&beat)?))
    };
    Ok(Beats {
        epoch: reply::epoch(&reply::bytes(epoch)?)?,
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
