//! The database that the hot tier belongs to.

use redis::Value;
use storage_model::{LAYOUT, Partition, Timestamp, Token};

use crate::redis::RedisStore;
use crate::redis::connections::transport::Command;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{HotError, HotPaired, HotPairing};

impl RedisStore {
    pub(in crate::redis) async fn read_pairing(&self) -> Result<HotPairing, HotError> {
        let (prefix, address) = (self.space.keys.prefix().to_owned(), self.router.address());
        let number = self.router.database_number();
        let decode = |value| {
            let [incarnation, now, token, database, partitions, layout, since] =
                reply::array(value)?;
            let paired = match token {
                Value::Nil => None,
                token => Some(HotPaired {
                    token: token_of(token)?,
                    database: token_of(database)?,
                    partitions: reply::number(partitions)?,
                    layout: reply::number(layout)?,
                    since: Timestamp(reply::number(since)?),
                }),
            };
            Ok(HotPairing {
                incarnation: reply::text(incarnation)?,
                now: Timestamp(reply::number(now)?),
                number,
                prefix,
                address,
                paired,
            })
        };
        self.one("pairing", None, scripts::pairing(&self.space), decode)
            .await
    }

    pub(in crate::redis) async fn write_pairing(
        &self,
        seen: &HotPairing,
        paired: &HotPaired,
    ) -> Result<bool, HotError> {
        self.one(
            "pair",
            None,
            scripts::pair(&self.space, seen, paired),
            reply::yes,
        )
        .await
    }

    /// Leaves layout 1, the only older one.
    pub(in crate::redis) async fn leave_layout_1(
        &self,
        seen: &HotPairing,
    ) -> Result<Vec<Partition>, HotError> {
        let Some(paired) = seen.paired.filter(|paired| paired.layout == 1) else {
            return Ok(Vec::new());
        };
        let partitions: Vec<_> = (0..paired.partitions).map(Partition).collect();
        let marks = |partition: &Partition| {
            let mut cmd = redis::cmd("EXISTS");
            cmd.arg(&self.space.keys.maps_of_layout_1(*partition));
            Command::read("leave_layout", self.space.slot(*partition), cmd)
        };
        let commands = partitions.iter().map(marks).collect();
        let mut marked = Vec::new();
        for (partition, maps) in partitions.iter().zip(
            self.each("leave_layout", &partitions, commands, reply::number::<u32>)
                .await,
        ) {
            marked.extend((maps? > 0).then_some(*partition));
        }
        if marked.is_empty() {
            self.write_pairing(
                seen,
                &HotPaired {
                    layout: LAYOUT,
                    ..paired
                },
            )
            .await?;
        }
        Ok(marked)
    }
}

fn token_of(value: Value) -> Result<Token, Failure> {
    let text = reply::text(value)?;
    Token::parse(&text).ok_or_else(|| {
        Failure::Nonsense("expected a token of 32 hexadecimal digits in the meta key".to_owned())
    })
}
