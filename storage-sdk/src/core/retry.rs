//! From the first answer of a mutation to the last. The mutation is repeated while its outcome is
//! unknown and its time is not up.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select, try_join_all};
use storage_dirty::{HotError, HotKind, Load, Mutated, Refusal};
use storage_model::{Applied, Attempt, Epoch, Field, Mutation, Outcome, Partition, tries};
use storage_tiers::{Noted, TierError};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Core, REPEAT_MAX, REPEAT_MIN, no_answer, patiently};
use crate::{Error, Kind, Result};

/// A mutation whose first answer was not final.
pub(super) struct UnfinishedMutation {
    pub(super) mutation: Mutation,
    pub(super) partition: Partition,
    /// The hot tier's generation at the first copy of this call that may have been applied.
    pub(super) generation: Epoch,
    /// The same generation, for an earlier call under the id that was given up or dropped.
    pub(super) earlier: Option<Epoch>,
    /// The time for the hot tier to apply it, counted from the last look at the hot tier's clock.
    pub(super) within: Duration,
    /// The end of the retries.
    pub(super) until: Instant,
    progress: Progress,
    /// The loads for the next copy.
    loads: Vec<Load>,
}

/// The outcomes of the sent copies.
struct Progress {
    /// Whether a copy may have been applied.
    unknown: bool,
    /// Whether the last copy may have been applied. The next copy must then not count as another
    /// write.
    last_unknown: bool,
    /// Whether the hot tier has looked for the id of the write, and did not find it.
    asked: bool,
    /// Whether a deadline that lay too far ahead was already reset.
    timed: bool,
    loads: u32,
    moves: u32,
    /// The pause before the next copy, if the hot tier could not be asked.
    pause: Duration,
}

/// The step before the next copy, or instead of it.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Learn the hot tier's time again, and set the deadline by it.
    Time,
    /// Note the partition's new epoch and generation.
    Moved { epoch: Epoch, generation: Epoch },
    /// Load the owner.
    Load,
    /// Prepare the partition.
    Prepare(Partition),
    /// Pause.
    Wait(HotError),
    /// Send no more copies. Whether one was applied is as unknown as before.
    GiveUp(Error),
    /// Send no more copies. None was applied, and none will be.
    End(Error),
}

impl Progress {
    fn new() -> Self {
        Self {
            unknown: false,
            last_unknown: false,
            asked: false,
            timed: false,
            loads: 0,
            moves: 0,
            pause: REPEAT_MIN,
        }
    }

    /// The next step after an answer. `late` means that the mutation's time is up.
    fn heed(&mut self, answer: Result<Mutated, HotError>, late: bool) -> Result<Applied, Next> {
        self.last_unknown &= answer.is_err();
        self.asked |= match &answer {
            Ok(_) => true,
            Err(error) => matches!(error.kind, HotKind::Backlog | HotKind::Settings),
        };
        match answer {
            Ok(Mutated::Applied(applied)) => Ok(applied),
            Ok(Mutated::Refused(refusal)) => Err(self.refused(&refusal, late)),
            Ok(Mutated::Load(_)) if self.loads < tries::OWNER => {
                self.loads += 1;
                Err(Next::Load)
            }
            Ok(Mutated::Load(_)) => Err(Next::GiveUp(Error::new(
                Kind::Contended,
                format!(
                    "gave up after {} loads: other callers changed the owner each time; retry later",
                    tries::OWNER
                ),
            ))),
            Err(error) => Err(self.failed(error, late)),
        }
    }

    fn refused(&mut self, refusal: &Refusal, late: bool) -> Next {
        match refusal {
            // No copy was applied, so this process has a wrong idea of the hot tier's time. The
            // clock of the hot tier moved.
            Refusal::Expired if !self.unknown && !late => Next::Time,
            // The hot tier applies no earlier copy any more.
            Refusal::Moved { epoch, generation } if self.moves < tries::MOVES => {
                self.moves += 1;
                Next::Moved {
                    epoch: *epoch,
                    generation: *generation,
                }
            }
            Refusal::Moved { epoch, .. } => {
                let text = format!(
                    "gave up after {} copies: its partition was adopted each time, last in epoch {epoch}",
                    tries::MOVES
                );
                Next::GiveUp(Error::new(Kind::Contended, text))
            }
            // Final even after an unknown outcome. This copy did not find the id, so no earlier
            // copy was applied. None will be, because versions never go back. A clock can go back:
            // it leaps ahead, rejects this copy as too late, is corrected, and then accepts an
            // earlier copy that is still under way.
            Refusal::Version(_) => Next::End(Error::refused(refusal)),
            Refusal::Partner {
                refusal: reason, ..
            } if matches!(**reason, Refusal::Version(_)) => Next::End(Error::refused(refusal)),
            _ => Next::GiveUp(Error::refused(refusal)),
        }
    }

    fn failed(&mut self, error: HotError, late: bool) -> Next {
        match error.kind {
            HotKind::Unprepared(partition) if !late => Next::Prepare(partition),
            HotKind::Unprepared(_) => Next::GiveUp(error.into()),
            // The deadline lay too far ahead. The hot tier's clock was set back, or another server
            // took over.
            HotKind::Settings if !self.unknown && !self.timed => {
                self.timed = true;
                Next::Time
            }
            HotKind::NotReached => Next::End(error.into()),
            _ => {
                self.last_unknown |= error.outcome != Outcome::NotApplied;
                self.unknown |= self.last_unknown;
                let passes = matches!(
                    error.kind,
                    HotKind::Interrupted | HotKind::Unavailable | HotKind::NoWrites
                );
                if passes {
                    Next::Wait(error)
                } else {
                    Next::GiveUp(error.into())
                }
            }
        }
    }
}

impl UnfinishedMutation {
    pub(super) fn new(
        mutation: Mutation,
        partition: Partition,
        generation: Epoch,
        within: Duration,
        until: Instant,
    ) -> Self {
        Self {
            mutation,
            partition,
            generation,
            earlier: None,
            within,
            until,
            progress: Progress::new(),
            loads: Vec::new(),
        }
    }

    /// The attempt of the next copy.
    fn next_attempt(&self) -> Attempt {
        match self.mutation.attempt {
            Attempt::First | Attempt::Retry if self.progress.last_unknown => Attempt::Retry,
            Attempt::First | Attempt::Retry => Attempt::First,
            Attempt::Named => Attempt::Named,
        }
    }

    /// Whether any process may have had an earlier copy applied, since the caller keeps the id, and
    /// the hot tier has not looked for it.
    fn may_be_retry(&self) -> bool {
        self.mutation.attempt.is_named() && !self.progress.asked
    }

    /// The hot tier's generation in which a copy may have been applied, if there is one.
    fn maybe_applied(&self) -> Option<Epoch> {
        self.earlier
            .or(self.progress.unknown.then_some(self.generation))
    }
}

impl Core {
    /// Continues from the first answer of a mutation until its answer is final. Also returns the
    /// epoch in which the mutation was found to be applied.
    pub(super) async fn finish(
        &self,
        mut write: UnfinishedMutation,
        first: Result<Mutated, HotError>,
    ) -> Result<(Applied, Epoch)> {
        let mut answer = first;
        loop {
            match write.progress.heed(answer, Instant::now() >= write.until) {
                Ok(applied) => return Ok((applied, write.mutation.epoch.unwrap_or_default())),
                Err(next) => self.make_ready(&mut write, next).await?,
            }
            answer = self.repeat(&mut write).await?;
        }
    }

    /// Takes the step before the next copy. An error if there is no next copy.
    async fn make_ready(&self, write: &mut UnfinishedMutation, next: Next) -> Result<()> {
        let done = match next {
            Next::Time => {
                self.learn_time().await?;
                write.mutation.deadline = self.expiry(write.within);
                return Ok(());
            }
            Next::Moved { epoch, generation } => {
                self.tiers.note(write.partition, epoch, generation);
                return Ok(());
            }
            Next::Load => {
                let load = patiently(write.until, || self.load_for(&write.mutation));
                self.in_time(write.within, load)
                    .await
                    .map(|loads| write.loads = loads)
            }
            Next::Prepare(partition) => {
                let prepare = || Box::pin(self.tiers.prepare_for_call(partition));
                self.in_time(write.within, patiently(write.until, prepare))
                    .await
            }
            Next::Wait(error) if Instant::now() + write.progress.pause >= write.until => {
                Err(error.into())
            }
            Next::Wait(_) => {
                sleep_until(Instant::now() + write.progress.pause).await;
                write.progress.pause = (write.progress.pause * 2).min(REPEAT_MAX);
                return Ok(());
            }
            Next::GiveUp(error) => Err(error),
            Next::End(error) if write.may_be_retry() => return Err(error.before_a_look()),
            Next::End(error) => return Err(error),
        };
        done.map_err(|error| match write.maybe_applied() {
            None if write.may_be_retry() => error.before_a_look(),
            unknown => self.given_up(&write.mutation, unknown, error),
        })
    }

    /// A step that needs the database, for at most the whole time of the call. A database that hangs can
    /// take longer. The time is that of home, since the clock of a caller may be paused, and leap.
    pub(super) async fn in_time<T>(
        &self,
        within: Duration,
        step: impl Future<Output = std::result::Result<T, TierError>>,
    ) -> Result<T> {
        let late = self.tiers.home().run(async move { sleep(within).await });
        match select(pin!(step), pin!(late)).await {
            Either::Left((done, _)) => done.map_err(Error::of_tiers),
            Either::Right((Ok(()), _)) => Err(Error::new(
                Kind::Timeout,
                "the call first needs data of the database, which has not answered in the time of the call; retry later",
            )),
            Either::Right((Err(_), step)) => step.await.map_err(Error::of_tiers),
        }
    }

    /// Sends the next copy.
    async fn repeat(&self, write: &mut UnfinishedMutation) -> Result<Result<Mutated, HotError>> {
        let Noted { epoch, generation } = self.tiers.noted(write.partition);
        write.mutation.epoch = Some(epoch);
        write.mutation.attempt = write.next_attempt();
        match write.maybe_applied() {
            None => write.generation = generation,
            Some(applied_in) if applied_in != generation => {
                return Err(self.forgotten(&write.mutation, applied_in));
            }
            Some(_) => {}
        }
        let copy = [(write.mutation.clone(), std::mem::take(&mut write.loads))];
        match self.tiers.hot().owners.mutate(&copy).await.pop() {
            Some(answer) => Ok(answer),
            None => no_answer(),
        }
    }

    /// The hot tier has lost ids but serves landed data. A retry could be applied on top of the row
    /// that the first copy made.
    pub(super) fn forgotten(&self, mutation: &Mutation, generation: Epoch) -> Error {
        self.given_up(mutation, Some(generation), Error::forgotten())
            .reread()
    }

    /// Loads the owners of a mutation.
    async fn load_for(&self, mutation: &Mutation) -> Result<Vec<Load>, TierError> {
        try_join_all(mutation.parts().map(|part| self.load_part(part))).await
    }

    async fn load_part(&self, part: &Mutation) -> Result<Load, TierError> {
        if let Some(full) = self.tiers.load(&part.owner).await? {
            return Ok(full.load.clone());
        }
        self.tiers.reconcile(&part.owner).await?;
        let changed = part.changes.iter().map(|(field, _)| field);
        let expected = part.expected.iter().map(|(field, _)| field);
        let fields: Vec<Field> = changed.chain(expected).cloned().collect();
        Ok(self.tiers.load_fields(&part.owner, &fields).await?.load)
    }
}

#[cfg(test)]
mod tests {
    use storage_model::Version;

    use super::*;

    fn refused(refusal: Refusal) -> Result<Mutated, HotError> {
        Ok(Mutated::Refused(refusal))
    }

    fn lost() -> Result<Mutated, HotError> {
        Err(HotError {
            outcome: Outcome::Unknown,
            ..HotError::not_applied(HotKind::Interrupted, "update", "no answer")
        })
    }

    #[test]
    fn a_clock_that_moved_is_asked_only_while_no_copy_may_have_been_applied_and_there_is_time() {
        let mut progress = Progress::new();
        assert_eq!(
            progress.heed(refused(Refusal::Expired), false),
            Err(Next::Time)
        );
        assert!(matches!(
            progress.heed(refused(Refusal::Expired), true),
            Err(Next::GiveUp(_))
        ));
        assert!(matches!(progress.heed(lost(), false), Err(Next::Wait(_))));
        assert!(matches!(
            progress.heed(refused(Refusal::Expired), false),
            Err(Next::GiveUp(_))
        ));
    }

    #[test]
    fn another_version_is_final_also_after_a_lost_answer_and_any_other_refusal_is_not() {
        let mut progress = Progress::new();
        assert!(matches!(progress.heed(lost(), false), Err(Next::Wait(_))));
        assert!(matches!(
            progress.heed(refused(Refusal::Version(Version::default())), false),
            Err(Next::End(_))
        ));
        assert!(matches!(
            progress.heed(refused(Refusal::NotLanded), false),
            Err(Next::GiveUp(_))
        ));
        assert!(progress.unknown);
    }

    #[test]
    fn loads_and_adoptions_without_end_are_given_up() {
        let mut progress = Progress::new();
        let moved = || {
            refused(Refusal::Moved {
                epoch: Epoch(2),
                generation: Epoch(1),
            })
        };
        for _ in 0..tries::MOVES {
            assert_eq!(
                progress.heed(moved(), false),
                Err(Next::Moved {
                    epoch: Epoch(2),
                    generation: Epoch(1)
                })
            );
        }
        assert!(matches!(
            progress.heed(moved(), false),
            Err(Next::GiveUp(_))
        ));
    }
}
