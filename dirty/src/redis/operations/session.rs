//! The sessions of owners.

use async_trait::async_trait;
use redis::Value;
use storage_model::{Fence, OpId, Owner, Partition};

use super::read;
use crate::redis::RedisStore;
use crate::redis::connections::transport::Command;
use crate::redis::error::{Failure, hot_error};
use crate::redis::reply;
use crate::redis::scripts;
use crate::{ClaimSession, Claimed, HotError, Observed, OpenSession, Opened, Session, Sessions};

#[async_trait]
impl Sessions for RedisStore {
    async fn open_session(&self, open: &OpenSession) -> Result<Opened, HotError> {
        // Another owner's load proves nothing about this one.
        let load = open.load.clone().filter(|load| load.owner == open.owner);
        let load = self.written_ahead(load.as_slice()).await.pop().flatten();
        let command = scripts::open_session(
            &self.space,
            &OpenSession {
                load,
                ..open.clone()
            },
            self.absent_ttl,
            self.marker_ttl,
        );
        self.about("open_session", &open.owner, command, |value| {
            opened_of(value, open.token)
        })
        .await
    }

    async fn claim_session(&self, claim: &ClaimSession) -> Result<Claimed, HotError> {
        let command = scripts::claim_session(&self.space, claim);
        self.about("claim_session", &claim.owner, command, claimed_of)
            .await
    }

    async fn close_session(&self, owner: &Owner, fence: Fence) -> Result<bool, HotError> {
        let command = scripts::close_session(&self.space, owner, fence, self.clean_ttl);
        self.about("close_session", owner, command, reply::yes)
            .await
    }

    async fn ask_session(
        &self,
        owner: &Owner,
        fence: Fence,
        ask: OpId,
        by: &str,
    ) -> Result<bool, HotError> {
        let command = scripts::ask_session(&self.space, owner, fence, ask, by);
        self.about("ask_session", owner, command, reply::yes).await
    }

    async fn sessions_of(&self, owners: &[Owner]) -> Vec<Result<Option<Session>, HotError>> {
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
}

impl RedisStore {
    /// Sends one command about the session of an owner and reads its answer.
    async fn about<T>(
        &self,
        operation: &'static str,
        owner: &Owner,
        command: Command,
        decode: impl FnOnce(Value) -> Result<T, Failure>,
    ) -> Result<T, HotError> {
        let partition = self.space.partition(owner);
        let answer = self.send_one_verified(command, partition).await;
        answer
            .and_then(decode)
            .map_err(|failure| hot_error(failure, operation, true, Some(partition)))
    }
}

fn maybe_session(value: Value) -> Result<Option<Session>, Failure> {
    reply::maybe(value)?
        .map(|text| reply::session(&text))
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
            let marker = reply::marker(&reply::bytes(next())?)?;
            let present = &*reply::bytes(next())? == b"1";
            Opened::Load(Observed {
                marker,
                present,
                epoch: reply::epoch(&reply::bytes(next())?)?,
            })
        }
        b"held" => Opened::Held(reply::session(&reply::bytes(next())?)?),
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
                .map(|text| reply::session(&reply::bytes(text)?))
                .transpose()?;
            Ok(Claimed::No(session))
        }
        other => Err(Failure::Nonsense(format!(
            "unknown answer {:?}",
            String::from_utf8_lossy(other)
        ))),
    }
}
