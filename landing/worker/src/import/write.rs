//! Writes the owner of one line. The limits divide the fields into calls, and each call is repeated
//! until its outcome is known.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use storage_model::{Limits, Version};
use storage_sdk::{ByteOwner, Bytes, Error, Field, Kind, OpId, Outcome, Owner, Retry, Storage};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::line::Entry;

/// The fate of a line.
#[derive(Debug)]
pub(super) enum Ended {
    /// All of its fields are written. The number of fields.
    Written(usize),
    /// It may not be written, because no time is left.
    Waiting,
    /// It will never be written. The reason.
    Bad(String),
    /// No line can be written until an operator acts.
    Hopeless(Error),
}

/// The state that all writes of an import share.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) storage: Storage,
    pub(super) limits: Limits,
    /// The longest time of one call.
    pub(super) call: Duration,
    /// Whether owners that changed since they were exported are overwritten.
    pub(super) overwrite: bool,
    /// The deadline of the import.
    pub(super) until: Instant,
    /// Whether waiting writes must give up.
    pub(super) hurry: watch::Receiver<bool>,
    /// When the import last reported that it waits.
    pub(super) said: Mutex<Option<Instant>>,
}

/// Why a call has no success.
enum Stop {
    NoTime,
    Failed(Error),
}

/// The shortest wait before a repeat.
const PAUSE: Duration = Duration::from_millis(200);
/// How often the import reports that it waits.
const SAY_EVERY: Duration = Duration::from_secs(5);

impl Writer {
    /// Writes a line. Its calls follow each other. So a line that is given up is written from its
    /// start up to some field.
    pub(super) async fn write(&self, entry: Entry) -> Ended {
        let Entry {
            owner: name,
            fields,
            base,
        } = entry;
        let scope = match self.storage.world(name.app(), name.region()) {
            Ok(scope) => scope,
            Err(error) => return Ended::Bad(error.to_string()),
        };
        let owner = match scope.bytes().owner(name.logic_type(), name.id()) {
            Ok(owner) => owner,
            Err(error) => return Ended::Bad(error.to_string()),
        };
        let mut seen = None;
        if let Some(base) = base.filter(|_| !self.overwrite) {
            let found = match self.version(&owner).await {
                Ok(version) => version,
                Err(Stop::NoTime) => return Ended::Waiting,
                Err(Stop::Failed(error)) if is_hopeless(error.kind()) => {
                    return Ended::Hopeless(error);
                }
                Err(Stop::Failed(error)) => return Ended::Bad(error.to_string()),
            };
            // Changes up to `landed` are part of the exported owner, too.
            if found > base.landed && found != base.version {
                return Ended::Bad(changed(&name));
            }
            seen = Some(found);
        }
        let (count, mut written) = (fields.len(), 0);
        for call in calls(fields, &self.limits) {
            // The first call changes the version itself.
            match self.call(&owner, &call, seen.take()).await {
                Err(Stop::Failed(error)) if error.kind() == Kind::Conflict => {
                    return Ended::Bad(changed(&name));
                }
                Ok(()) => written += call.len(),
                Err(Stop::NoTime) => return Ended::Waiting,
                Err(Stop::Failed(error)) if is_hopeless(error.kind()) => {
                    return Ended::Hopeless(error);
                }
                Err(Stop::Failed(error)) if written > 0 => {
                    return Ended::Bad(format!(
                        "{error}: {written} of its {count} fields are written"
                    ));
                }
                Err(Stop::Failed(error)) => return Ended::Bad(error.to_string()),
            }
        }
        Ended::Written(count)
    }

    /// Repeats one call until its outcome is known, or no time is left. While the outcome is
    /// unknown, the repeat has the same id.
    async fn call(
        &self,
        owner: &ByteOwner,
        call: &[(Field, Bytes)],
        seen: Option<Version>,
    ) -> Result<(), Stop> {
        let mut sent: Option<OpId> = None;
        loop {
            let left = self
                .until
                .saturating_duration_since(Instant::now())
                .min(self.call);
            if left.is_zero() {
                return Err(Stop::NoTime);
            }
            let write = owner
                .update(
                    call.iter()
                        .map(|(field, value)| (field.as_str(), value.clone())),
                )
                .deadline(left);
            let write = match seen {
                Some(version) => write.if_version(version),
                None => write,
            };
            let id = sent.unwrap_or_else(|| self.storage.next_id());
            let write = if sent.is_some() {
                write.retry_of(id)
            } else {
                write.id(id)
            };
            let Err(error) = write.await else {
                return Ok(());
            };
            let wait = match error.retry() {
                _ if is_hopeless(error.kind()) || error.outcome() == Outcome::Applied => {
                    return Err(Stop::Failed(error));
                }
                Retry::Never => return Err(Stop::Failed(error)),
                _ if error.kind() == Kind::Conflict => return Err(Stop::Failed(error)),
                Retry::SameId => {
                    sent = Some(id);
                    PAUSE
                }
                // The hot tier has forgotten the id. Setting the same values once more is correct
                // for an import.
                Retry::Reread => {
                    sent = None;
                    PAUSE
                }
                Retry::After(wait) => wait.max(PAUSE),
            };
            self.say(&error);
            self.wait(wait).await?;
        }
    }

    /// The version of an owner. Waits as [`Writer::call`] does.
    async fn version(&self, owner: &ByteOwner) -> Result<Version, Stop> {
        loop {
            let error = match owner.version().await {
                Ok(version) => return Ok(version),
                Err(error) => error,
            };
            let Retry::After(wait) = error.retry() else {
                return Err(Stop::Failed(error));
            };
            if is_hopeless(error.kind()) || Instant::now() >= self.until {
                return Err(Stop::Failed(error));
            }
            self.say(&error);
            self.wait(wait.max(PAUSE)).await?;
        }
    }

    async fn wait(&self, wait: Duration) -> Result<(), Stop> {
        let mut hurry = self.hurry.clone();
        let left = self.until.saturating_duration_since(Instant::now());
        tokio::select! {
            biased;
            _ = hurry.wait_for(|hurry| *hurry) => Err(Stop::NoTime),
            () = sleep(wait.min(left)) => Ok(()),
        }
    }

    /// Reports at intervals why the import waits.
    fn say(&self, error: &Error) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            *said = Some(Instant::now());
            tracing::warn!("the import waits: {error}");
        }
    }
}

/// The message for an owner that is not overwritten.
fn changed(owner: &Owner) -> String {
    format!(
        "{owner} has changed since it was exported, so it stays as it is: compare both, and overwrite it with --overwrite if the line is right"
    )
}

/// Whether no line can be written until an operator acts. Waiting does not help then.
fn is_hopeless(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Denied | Kind::UnsafeEviction | Kind::Unpaired | Kind::Closed
    )
}

/// Divides the fields of one owner, in their order, by the limits of a call.
fn calls(fields: Vec<(Field, Bytes)>, limits: &Limits) -> Vec<Vec<(Field, Bytes)>> {
    let mut calls: Vec<Vec<(Field, Bytes)>> = Vec::new();
    let mut bytes = 0_usize;
    for (name, value) in fields {
        let with = bytes.saturating_add(value.len());
        match calls
            .last_mut()
            .filter(|call| call.len() < limits.fields_max && with <= limits.call_bytes_max)
        {
            Some(call) => {
                bytes = with;
                call.push((name, value));
            }
            None => {
                bytes = value.len();
                calls.push(vec![(name, value)]);
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_divided_by_both_limits_of_a_call() {
        let sizes = |bytes: &[usize], fields_max, call_bytes_max| -> Vec<Vec<usize>> {
            let limits = Limits {
                value_bytes_max: 8,
                fields_max,
                call_bytes_max,
            };
            let field = |(at, bytes): (usize, &usize)| {
                (Field::new(&at.to_string()).unwrap(), vec![0; *bytes].into())
            };
            let fields = bytes.iter().enumerate().map(field);
            calls(fields.collect(), &limits)
                .iter()
                .map(|call| call.iter().map(|(_, value)| value.len()).collect())
                .collect()
        };
        assert_eq!(
            sizes(&[1, 1, 1, 1, 1], 2, 10),
            [vec![1, 1], vec![1, 1], vec![1]]
        );
        assert_eq!(sizes(&[4, 4, 2, 1, 0], 9, 10), [vec![4, 4, 2], vec![1, 0]]);
        assert_eq!(sizes(&[1, 11, 1], 9, 10), [vec![1], vec![11], vec![1]]);
        assert!(sizes(&[], 9, 10).is_empty());
    }
}
