//! From a mutation's first answer to its last: it is repeated while its outcome is unknown, until
//! its time is up.

use std::time::Duration;

use storage_dirty::{HotError, HotKind, Load, Mutated, Refusal};
use storage_model::sabotage::broken;
use storage_model::{Applied, Attempt, Epoch, Field, Mutation, Outcome, Partition};
use storage_tiers::TierError;
use tokio::time::{Instant, sleep_until};

use super::{Core, REPEAT_MAX, REPEAT_MIN, no_answer};
use crate::{Error, Kind, Result};

/// Adoptions that one mutation meets, of which there is one at a time.
const MOVES_MAX: u32 = 16;
/// Loads for one mutation; each but the first is needed only if the owner changed during the one
/// before.
const LOADS_MAX: u32 = 64;

/// A mutation whose first answer was not its last.
pub(super) struct Unfinished {
    pub(super) mutation: Mutation,
    pub(super) partition: Partition,
    /// That of the hot tier when the first copy of this call was sent that may have been applied.
    pub(super) generation: Epoch,
    /// The same of an earlier call under the id, which was given up or dropped.
    pub(super) earlier: Option<Epoch>,
    /// How long the hot tier may take it, from when its time is asked for.
    pub(super) within: Duration,
    /// Until when it is repeated.
    pub(super) until: Instant,
    progress: Progress,
    /// What the next copy builds on.
    load: Option<Load>,
}

/// What became of the copies that were sent.
struct Progress {
    /// Whether one of them may have been applied.
    unknown: bool,
    /// Whether the last of them may have been applied: the next one must not be taken for another
    /// write.
    last_unknown: bool,
    /// Whether a deadline that lay too far ahead was set anew.
    timed: bool,
    loads: u32,
    moves: u32,
    /// The wait before the next copy, if the hot tier could not be asked.
    pause: Duration,
}

/// What comes before the next copy, or instead of it.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// The hot tier's time is learned anew, and the deadline set by it.
    Time,
    /// The partition's epoch and generation are known by now.
    Moved { epoch: Epoch, generation: Epoch },
    /// What it builds on is loaded.
    Load,
    /// The partition is prepared.
    Prepare(Partition),
    /// A pause.
    Wait(HotError),
    /// No copy any more: whether one was applied is as unknown as before.
    GiveUp(Error),
    /// No copy any more: none was applied, or will be.
    End(Error),
}

impl Progress {
    fn new() -> Self {
        Self {
            unknown: false,
            last_unknown: false,
            timed: false,
            loads: 0,
            moves: 0,
            pause: REPEAT_MIN,
        }
    }

    /// What an answer calls for; `late` if the mutation's time is up.
    fn heed(&mut self, answer: Result<Mutated, HotError>, late: bool) -> Result<Applied, Next> {
        self.last_unknown &= answer.is_err();
        match answer {
            Ok(Mutated::Applied(applied)) => Ok(applied),
            Ok(Mutated::Refused(refusal)) => Err(self.refused(&refusal, late)),
            Ok(Mutated::Load(_)) if self.loads < LOADS_MAX => {
                self.loads += 1;
                Err(Next::Load)
            }
            Ok(Mutated::Load(_)) => Err(Next::GiveUp(Error::new(
                Kind::Contended,
                "others changed the owner each time it was loaded",
            ))),
            Err(error) => Err(self.failed(error, late)),
        }
    }

    fn refused(&mut self, refusal: &Refusal, late: bool) -> Next {
        match refusal {
            // Nothing of it was applied, so our idea of the hot tier's time is wrong: its clock
            // moved.
            Refusal::Expired if !self.unknown && !late => Next::Time,
            // No copy from before will be applied any more.
            Refusal::Moved { epoch, generation } if self.moves < MOVES_MAX => {
                self.moves += 1;
                Next::Moved {
                    epoch: *epoch,
                    generation: *generation,
                }
            }
            Refusal::Moved { epoch, .. } => {
                let text = format!(
                    "its partition was adopted each time it was sent, last in epoch {epoch}"
                );
                Next::GiveUp(Error::new(Kind::Contended, text))
            }
            // Final also after an unknown outcome: this copy did not find the id, so no earlier one
            // was applied, and none will be, since versions don't go back. A clock may: one that
            // leapt ahead refuses this copy as too late, is set right, and takes an earlier one
            // that is still on its way.
            Refusal::Version(_) => Next::End(Error::refused(refusal)),
            _ => Next::GiveUp(Error::refused(refusal)),
        }
    }

    fn failed(&mut self, error: HotError, late: bool) -> Next {
        match error.kind {
            HotKind::Unprepared(partition) if !late => Next::Prepare(partition),
            HotKind::Unprepared(_) => Next::GiveUp(error.into()),
            // The deadline lay too far ahead: the hot tier's clock was set back, or another server
            // has taken over.
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

impl Unfinished {
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
            load: None,
        }
    }

    /// What the next copy is.
    fn next_attempt(&self) -> Attempt {
        match self.mutation.attempt {
            Attempt::First | Attempt::Retry if self.progress.last_unknown => Attempt::Retry,
            Attempt::First | Attempt::Retry => Attempt::First,
            Attempt::FirstNamed | Attempt::RetryNamed => Attempt::RetryNamed,
        }
    }

    /// The generation of the hot tier in which a copy may have been applied, if one may have been.
    fn maybe_applied(&self) -> Option<Epoch> {
        self.earlier
            .or(self.progress.unknown.then_some(self.generation))
    }
}

impl Core {
    /// Goes on from a mutation's first answer until it is final. Answers in which epoch it was
    /// found to be applied, too.
    pub(super) async fn finish(
        &self,
        mut write: Unfinished,
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

    /// Does what comes before the next copy. An error if there is none.
    async fn make_ready(&self, write: &mut Unfinished, next: Next) -> Result<()> {
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
            Next::Load => self
                .load_for(&write.mutation)
                .await
                .map(|load| write.load = Some(load))
                .map_err(Error::from),
            Next::Prepare(partition) => Box::pin(self.tiers.prepare_for_call(partition))
                .await
                .map_err(Error::from),
            Next::Wait(error) if Instant::now() + write.progress.pause >= write.until => {
                Err(error.into())
            }
            Next::Wait(_) => {
                sleep_until(Instant::now() + write.progress.pause).await;
                write.progress.pause = (write.progress.pause * 2).min(REPEAT_MAX);
                return Ok(());
            }
            Next::GiveUp(error) => Err(error),
            Next::End(error) => return Err(error),
        };
        done.map_err(|error| self.given_up(&write.mutation, write.maybe_applied(), error))
    }

    /// Sends the next copy.
    async fn repeat(&self, write: &mut Unfinished) -> Result<Result<Mutated, HotError>> {
        write.mutation.epoch = Some(self.tiers.epoch(write.partition));
        write.mutation.attempt = write.next_attempt();
        let generation = self.tiers.generation(write.partition);
        match write.maybe_applied() {
            None => write.generation = generation,
            Some(applied_in) if applied_in != generation && !broken("R11-forgotten") => {
                return Err(self.forgotten(&write.mutation, applied_in));
            }
            Some(_) => {}
        }
        if broken("R11-new-id") {
            (write.mutation.id, write.mutation.attempt) = (self.ids.next(), Attempt::First);
        }
        let copy = [(write.mutation.clone(), write.load.take())];
        match self.tiers.hot().mutate(&copy).await.pop() {
            Some(answer) => Ok(answer),
            None => no_answer(),
        }
    }

    /// With what landed, the hot tier has forgotten ids: a repeat could be applied on top of the
    /// row that the first made.
    pub(super) fn forgotten(&self, mutation: &Mutation, generation: Epoch) -> Error {
        self.given_up(mutation, Some(generation), Error::forgotten())
            .reread()
    }

    /// Loads what a mutation builds on.
    async fn load_for(&self, mutation: &Mutation) -> Result<Load, TierError> {
        match self.tiers.load(&mutation.owner).await? {
            Some(full) => Ok(full.load.clone()),
            None => {
                self.tiers.heal(&mutation.owner).await?;
                let fields: Vec<Field> = mutation
                    .changes
                    .iter()
                    .map(|(field, _)| field.clone())
                    .collect();
                Ok(self.tiers.load_fields(&mutation.owner, &fields).await?.load)
            }
        }
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
        for _ in 0..MOVES_MAX {
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
