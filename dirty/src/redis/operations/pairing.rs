//! The database that the hot tier belongs to.

use redis::Value;
use storage_model::{Timestamp, Token};

use crate::redis::RedisStore;
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
}

fn token_of(value: Value) -> Result<Token, Failure> {
    let text = reply::text(value)?;
    Token::parse(&text).ok_or_else(|| {
        Failure::Nonsense("expected a token of 32 hexadecimal digits in the meta key".to_owned())
    })
}
