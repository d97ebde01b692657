//! How a plan is added.

use super::{ClaimToken, DataCentre, Ranges, ServiceName};
use crate::classify::Class;
use crate::engine::{Arg, Exec, Fault, Record, Session, Statement, statement};
use crate::split::{BYTES_MAX, split};

pub(super) static NEWEST: Statement = statement!("claims/newest_plan");
pub(super) static ADD: Statement = statement!("claims/add_plan");

/// A plan that is not added yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewPlan<'a> {
    pub(super) service: &'a ServiceName,
    pub(super) dc: &'a DataCentre,
    pub(super) ranges: &'a Ranges,
    /// The beat of its shards. A plan that was dropped may have had the same number, and ranges of other
    /// lengths. A claim of a shard that was seen there must not take the shard of this plan.
    pub(super) beat: u64,
}

impl NewPlan<'_> {
    /// Adds the plan under the next number. If another call has taken that number, tries the one behind it.
    pub(super) async fn add<S: Session>(&self, exec: &mut Exec<S>) -> Result<u32, Fault> {
        let mut number = self.next_number(exec).await?;
        loop {
            let added = exec
                .transaction(async |exec| self.add_shards(exec, number).await)
                .await;
            let may_be_taken = matches!(&added, Err(fault) if fault.class == Class::Refused);
            let next = if may_be_taken {
                self.next_number(exec).await?
            } else {
                number
            };
            if next == number {
                return added.map(|()| number);
            }
            number = next;
        }
    }

    async fn next_number<S: Session>(&self, exec: &mut Exec<S>) -> Result<u32, Fault> {
        let args = [self.service.as_str().into(), self.dc.as_str().into()];
        let number = |record: &dyn Record| record.number(0);
        let newest = exec.fetch(&NEWEST, 1, &args, number).await?;
        let next = newest.first().map_or(1, |newest| newest.saturating_add(1));
        u32::try_from(next).map_err(|_| {
            Fault::operator(format!(
                "the newest plan of {} in {} has the last number, {}: drop that plan first",
                self.service,
                self.dc,
                u32::MAX
            ))
        })
    }

    async fn add_shards<S: Session>(&self, exec: &mut Exec<S>, number: u32) -> Result<(), Fault> {
        let begins: Vec<[u8; 8]> = self
            .ranges
            .begins()
            .iter()
            .map(|begin| begin.to_be_bytes())
            .collect();
        // ORDER: ascending. Every plan has a shard that begins with 0, so the second of two calls with one
        // number fails at its first row.
        for range in split(&vec![1; begins.len()], BYTES_MAX) {
            let some = begins.get(range).unwrap_or_default();
            let shard = |begin| self.shard(number, begin);
            let args: Vec<Arg<'_>> = some.iter().flat_map(shard).collect();
            exec.execute(&ADD, some.len(), &args).await?;
        }
        Ok(())
    }

    fn shard<'a>(&'a self, number: u32, begin: &'a [u8; 8]) -> [Arg<'a>; 5] {
        [
            self.service.as_str().into(),
            self.dc.as_str().into(),
            Arg::Number(number.into()),
            Arg::Bytes(begin),
            Arg::Number(self.beat),
        ]
    }
}

/// A beat below 2^62, far from the one behind which beats begin anew.
pub(super) fn first_beat(drawn: ClaimToken) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *drawn.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_beat_is_far_below_the_last_one() {
        assert_eq!(first_beat(ClaimToken::new([0xff; 16])), u64::MAX >> 2);
        let other = first_beat(ClaimToken::new([7; 16]));
        assert_ne!(other, first_beat(ClaimToken::new([8; 16])));
    }
}
