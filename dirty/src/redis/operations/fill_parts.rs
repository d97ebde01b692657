//! Loads of many rows. Their rows are written ahead, some by each call, so that no script takes long.

use std::time::Duration;

use storage_model::{Cell, Field, Version};

use crate::redis::RedisStore;
use crate::redis::connections::transport::Command;
use crate::redis::error::Failure;
use crate::redis::reply;
use crate::redis::scripts;
use crate::{Load, Marker};

/// Rows that one call takes. It takes Redis some 8 µs for each of them.
const ROWS_MAX: usize = 512;
/// A hash of some rows stays at least for this long, so that the other rows find it.
const TTL_MIN: Duration = Duration::from_secs(60);

/// The answer of `fill_part.lua`.
enum FillAnswer {
    Refused,
    /// The rows must come by one call.
    Whole,
    /// The marker of the hash that holds the rows now.
    Written(Marker),
}

impl RedisStore {
    /// Loads as scripts take them, in the same order. A load of many rows comes without them if they
    /// are in the hash by now. It comes as it was if its rows must come together, or if they could not
    /// be written: then the script that takes it tells why. It is `None` if it does not hold any more.
    pub(in crate::redis) async fn written_ahead(&self, loads: &[Load]) -> Vec<Option<Load>> {
        let each = loads.iter().map(|load| async move {
            if has_few_rows(load) {
                return Some(load.clone());
            }
            match self.write_ahead(load).await {
                Ok(FillAnswer::Written(marker)) => Some(rest_of(load, marker)),
                Ok(FillAnswer::Whole) | Err(_) => Some(load.clone()),
                Ok(FillAnswer::Refused) => None,
            }
        });
        futures::future::join_all(each).await
    }

    /// Writes all rows of a load, which then still has to be told complete.
    async fn write_ahead(&self, load: &Load) -> Result<FillAnswer, Failure> {
        let mut rows = load.rows.clone();
        // A hash that is made of rows has the version of the newest.
        rows.sort_by_key(|(_, _, version)| std::cmp::Reverse(*version));
        let mut parts = rows.chunks(ROWS_MAX);
        let Some(first) = parts.next() else {
            return Ok(FillAnswer::Whole);
        };
        let first = self.part(load, first);
        let made = self.write_parts(&[first]).await?;
        let FillAnswer::Written(marker) = made else {
            return Ok(made);
        };
        // The hash is there now, so the others need not come one after the other.
        let on_it = rest_of(load, marker);
        let others: Vec<_> = parts.map(|rows| self.part(&on_it, rows)).collect();
        match self.write_parts(&others).await? {
            // ORDER: a part that is refused proves nothing of those before it.
            FillAnswer::Refused | FillAnswer::Whole => Ok(FillAnswer::Refused),
            FillAnswer::Written(_) => Ok(FillAnswer::Written(marker)),
        }
    }

    fn part(&self, load: &Load, rows: &[(Field, Cell, Version)]) -> Command {
        let part = Load {
            rows: rows.to_vec(),
            complete: false,
            ..load.clone()
        };
        let ttl = self.clean_ttl.max(TTL_MIN);
        scripts::fill_part(&self.space, &part, ttl, self.marker_ttl)
    }

    /// Sends parts, and answers as the last one, or as the first one that was not written.
    async fn write_parts(&self, parts: &[Command]) -> Result<FillAnswer, Failure> {
        let mut last = FillAnswer::Whole;
        for answer in self.router.send(parts, false).await {
            let mut values = reply::list(answer?)?.into_iter();
            let mut next = || reply::bytes(values.next().unwrap_or_default());
            match &*next()? {
                b"refused" => return Ok(FillAnswer::Refused),
                b"whole" => return Ok(FillAnswer::Whole),
                _ => last = FillAnswer::Written(reply::marker(&next()?)?),
            }
        }
        Ok(last)
    }
}

/// Whether a script may take all rows of the load.
pub(in crate::redis) fn has_few_rows(load: &Load) -> bool {
    load.rows.len() <= ROWS_MAX
}

/// The load without its rows, which the hash with this marker holds.
fn rest_of(load: &Load, marker: Marker) -> Load {
    let mut rest = Load {
        rows: Vec::new(),
        ..load.clone()
    };
    rest.observed.marker = marker;
    rest.observed.present = true;
    rest
}
