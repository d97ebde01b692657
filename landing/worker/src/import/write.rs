//! Writes the owner of one line. The limits divide the fields into calls, and each call is repeated
//! until its outcome is known.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use storage_coalesce::locked;
use storage_model::{Limits, Version};
use storage_sdk::{
    ByteOwner, Bytes, Error, Field, Kind, OpId, Outcome, Owner, Retry, Storage, Write,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::line::Entry;

/// The fate of a line.
#[derive(Debug)]
pub(super) enum LineOutcome {
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
    /// What the import last saw of the back-pressure.
    pub(super) room: Mutex<Room>,
}

/// Whether the hot tier has room for more writes, as the import last saw it.
#[derive(Debug, Default)]
pub(super) struct Room {
    looked: Option<Instant>,
    is_full: bool,
}

/// Why a call has no success.
#[derive(Debug)]
enum Stop {
    NoTime,
    /// Another program has changed the owner.
    Changed,
    Failed(Error),
}

/// The shortest wait before a repeat.
const PAUSE: Duration = Duration::from_millis(200);
/// How often the import reports that it waits.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// How often the import looks at the back-pressure.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Writer {
    /// Writes a line. Its calls follow each other. So a line that is given up is written from its
    /// start up to some field.
    pub(super) async fn write(&self, entry: Entry) -> LineOutcome {
        let name = entry.owner.clone();
        let owner = match self.owner(&name) {
            Ok(owner) => owner,
            Err(error) => return LineOutcome::Bad(error.to_string()),
        };
        let count = entry.fields.len() + entry.removed.len();
        let mut written = 0;
        match self.write_calls(&owner, entry, &mut written).await {
            Ok(()) => LineOutcome::Written(count),
            Err(stop) => stopped(stop, &name, written, count),
        }
    }

    fn owner(&self, name: &Owner) -> storage_sdk::Result<ByteOwner> {
        let world = self.storage.world(name.app(), name.region())?;
        world.bytes().owner(name.logic_type(), name.id())
    }

    async fn write_calls(
        &self,
        owner: &ByteOwner,
        entry: Entry,
        written: &mut usize,
    ) -> Result<(), Stop> {
        let base = entry.base.filter(|_| !self.overwrite);
        let calls = calls(entry, &self.limits);
        let mut seen = None;
        if let Some(base) = base {
            let found = self.patiently(async || owner.version().await).await?;
            if base.is_changed(found) {
                return self.unless_there(owner, &calls).await;
            }
            seen = Some(found);
        }
        let last = calls.len();
        for (number, call) in (1..).zip(&calls) {
            let version = self.call(owner, call, seen).await?;
            *written += call.len();
            // Each call needs the version that the one before it left. So it overwrites nothing that
            // another program changed in between.
            if seen.is_some() {
                seen = version;
                if seen.is_none() && number < last {
                    return Err(Stop::Changed);
                }
            }
        }
        Ok(())
    }

    /// An owner that has changed, but is as the line wants it. An earlier import has written it.
    async fn unless_there(&self, owner: &ByteOwner, calls: &[Call]) -> Result<(), Stop> {
        for call in calls {
            if !self.is_there(owner, call).await? {
                return Err(Stop::Changed);
            }
        }
        Ok(())
    }

    /// Whether the owner holds what a call writes.
    async fn is_there(&self, owner: &ByteOwner, call: &Call) -> Result<bool, Stop> {
        let read = async || match call {
            Call::Set(fields) => {
                owner
                    .get(fields.iter().map(|(field, _)| field.as_str()))
                    .await
            }
            Call::Remove(fields) => owner.get(fields.iter().map(Field::as_str)).await,
        };
        let found = self.patiently(read).await?;
        Ok(match call {
            Call::Set(fields) => {
                let is_same =
                    |(field, value): &(Field, Bytes)| found.get(field.as_str()) == Some(value);
                fields.iter().all(is_same)
            }
            Call::Remove(_) => found.is_empty(),
        })
    }

    /// Repeats one call until its outcome is known, or no time is left. While the outcome is
    /// unknown, the repeat has the same id. Returns the version after it, unless a copy was applied
    /// that gave no answer.
    async fn call(
        &self,
        owner: &ByteOwner,
        call: &Call,
        seen: Option<Version>,
    ) -> Result<Option<Version>, Stop> {
        self.room().await?;
        let mut sent: Option<OpId> = None;
        let mut may_be_there = false;
        loop {
            let left = self
                .until
                .saturating_duration_since(Instant::now())
                .min(self.call);
            if left.is_zero() {
                return Err(Stop::NoTime);
            }
            let id = sent.unwrap_or_else(|| self.storage.next_id());
            let error = match call.of(owner, seen).deadline(left).id(id).await {
                Ok(ack) => return Ok(Some(ack.version())),
                Err(error) => error,
            };
            let wait = match error.retry() {
                _ if error.kind() == Kind::Conflict => {
                    // The version can be that of the copy before.
                    let is_there = may_be_there && self.is_there(owner, call).await?;
                    return if is_there {
                        Ok(None)
                    } else {
                        Err(Stop::Changed)
                    };
                }
                _ if is_hopeless(error.kind()) || error.outcome() == Outcome::Applied => {
                    return Err(Stop::Failed(error));
                }
                Retry::Never => return Err(Stop::Failed(error)),
                Retry::SameId => {
                    sent = Some(id);
                    PAUSE
                }
                // The hot tier has forgotten the id. Setting the same values once more is correct
                // for an import.
                Retry::Reread => {
                    (sent, may_be_there) = (None, true);
                    PAUSE
                }
                Retry::After(wait) => wait.max(PAUSE),
            };
            self.say(&error);
            self.wait(wait).await?;
        }
    }

    /// Repeats a read that failed, and waits as [`Writer::call`] does.
    async fn patiently<T>(
        &self,
        read: impl AsyncFn() -> storage_sdk::Result<T>,
    ) -> Result<T, Stop> {
        loop {
            let error = match read().await {
                Ok(read) => return Ok(read),
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

    /// Waits while writes without an id are rejected. Those of the import have ids, and back-pressure
    /// would only delay them.
    async fn room(&self) -> Result<(), Stop> {
        while self.is_full().await {
            self.say(&"too much waits to be landed");
            self.wait(PAUSE).await?;
        }
        Ok(())
    }

    async fn is_full(&self) -> bool {
        {
            let mut room = locked(&self.room);
            if room.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
                return room.is_full;
            }
            room.looked = Some(Instant::now());
        }
        // Without an answer the write itself meets the failure.
        let stats = self.storage.stats().await;
        let is_full = stats.is_ok_and(|stats| stats.backpressure_percent >= 100);
        locked(&self.room).is_full = is_full;
        is_full
    }

    /// Reports at intervals why the import waits.
    fn say(&self, reason: &impl fmt::Display) {
        let mut said = locked(&self.said);
        if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            *said = Some(Instant::now());
            tracing::warn!("the import waits: {reason}");
        }
    }
}

/// The fate of a line that was stopped behind some of its fields.
fn stopped(stop: Stop, name: &Owner, written: usize, count: usize) -> LineOutcome {
    match stop {
        Stop::NoTime => LineOutcome::Waiting,
        Stop::Changed => LineOutcome::Bad(changed(name, written, count)),
        Stop::Failed(error) if is_hopeless(error.kind()) => LineOutcome::Hopeless(error),
        Stop::Failed(error) if written > 0 => LineOutcome::Bad(format!(
            "{error}: {written} of its {count} fields are written"
        )),
        Stop::Failed(error) => LineOutcome::Bad(error.to_string()),
    }
}

/// The message for an owner that is not overwritten.
fn changed(owner: &Owner, written: usize, count: usize) -> String {
    let stays = match written {
        0 => "so it stays as it is".to_owned(),
        written => format!("so only {written} of {count} fields are written"),
    };
    format!(
        "{owner} has changed since it was exported, {stays}: compare both, and overwrite it with --overwrite if the line is right"
    )
}

/// Whether no line can be written until an operator acts. Waiting does not help then.
fn is_hopeless(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Denied | Kind::UnsafeEviction | Kind::Unpaired | Kind::Closed
    )
}

/// One write.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    Set(Vec<(Field, Bytes)>),
    Remove(Vec<Field>),
}

impl Call {
    fn len(&self) -> usize {
        match self {
            Self::Set(fields) => fields.len(),
            Self::Remove(fields) => fields.len(),
        }
    }

    /// The write of an owner, if it still has the seen version.
    fn of(&self, owner: &ByteOwner, seen: Option<Version>) -> Write {
        let write = match self {
            Self::Set(fields) => owner.update(
                fields
                    .iter()
                    .map(|(field, value)| (field.as_str(), value.clone())),
            ),
            Self::Remove(fields) => owner.remove(fields.iter().map(Field::as_str)),
        };
        match seen {
            Some(version) => write.if_version(version),
            None => write,
        }
    }
}

/// The writes of a line. Removed fields follow the others.
fn calls(entry: Entry, limits: &Limits) -> Vec<Call> {
    let sets = divided(entry.fields, limits).into_iter().map(Call::Set);
    let removals = entry
        .removed
        .chunks(limits.fields_max.max(1))
        .map(|fields| Call::Remove(fields.to_vec()));
    sets.chain(removals).collect()
}

/// Divides the fields of one owner, in their order, by the limits of a call.
fn divided(fields: Vec<(Field, Bytes)>, limits: &Limits) -> Vec<Vec<(Field, Bytes)>> {
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
    use super::super::line::Base;
    use super::*;

    #[test]
    fn an_owner_is_divided_by_both_limits_of_a_call() {
        let sizes = |bytes: &[usize], fields_max, call_bytes_max| -> Vec<Vec<usize>> {
            let mut limits = Limits::default();
            limits.value_bytes_max = 8;
            limits.fields_max = fields_max;
            limits.call_bytes_max = call_bytes_max;
            let field = |(at, bytes): (usize, &usize)| {
                (Field::new(&at.to_string()).unwrap(), vec![0; *bytes].into())
            };
            let fields = bytes.iter().enumerate().map(field);
            divided(fields.collect(), &limits)
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

    const MANY: usize = 500;

    fn entry(fields: Vec<(Field, Bytes)>, version: Version) -> Entry {
        Entry {
            owner: Owner::new("a", "r", "t", "1").unwrap(),
            fields,
            removed: Vec::new(),
            base: Some(Base {
                version,
                landed: Version::ZERO,
            }),
        }
    }

    /// A line of so many fields, for an owner of this version.
    fn long(version: Version) -> Entry {
        let field = |at: usize| (Field::new(&format!("f{at}")).unwrap(), "new".into());
        Entry {
            removed: vec![Field::new("gone").unwrap()],
            ..entry((0..MANY).map(field).collect(), version)
        }
    }

    /// Writes one field in a call.
    async fn writer(folder: &tempfile::TempDir) -> (Writer, ByteOwner, watch::Sender<bool>) {
        let storage = Storage::embedded(folder.path().join("game.db")).await;
        let (hurry, hurried) = watch::channel(false);
        let mut limits = Limits::default();
        limits.fields_max = 1;
        let writer = Writer {
            storage: storage.unwrap(),
            limits,
            call: Duration::from_secs(5),
            overwrite: false,
            until: Instant::now() + Duration::from_secs(60),
            hurry: hurried,
            said: Mutex::default(),
            room: Mutex::default(),
        };
        let owner = writer.owner(&entry(Vec::new(), Version::ZERO).owner);
        (writer, owner.unwrap(), hurry)
    }

    #[tokio::test]
    async fn a_line_that_was_written_before_is_not_reported_as_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, owner, _hurry) = writer(&folder).await;
        let version = owner.update([("gone", "1")]).await.unwrap().version();
        for _ in 0..2 {
            let ended = writer.write(long(version)).await;
            assert!(
                matches!(ended, LineOutcome::Written(fields) if fields == MANY + 1),
                "{ended:?}"
            );
            assert_eq!(owner.get(["gone", "f0"]).await.unwrap().len(), 1);
        }
        owner.update([("f7", "other")]).await.unwrap();
        let ended = writer.write(long(version)).await;
        assert!(
            matches!(&ended, LineOutcome::Bad(why) if why.contains("stays as it is")),
            "{ended:?}"
        );
    }

    /// Changes the owner between two calls. Returns whether the last call was still to come.
    async fn interfere(owner: ByteOwner) -> bool {
        while owner.get(["f0"]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        owner.update([("theirs", "1")]).await.unwrap();
        let last = format!("f{}", MANY - 1);
        owner.get([last.as_str()]).await.unwrap().is_empty()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_change_of_another_program_between_two_calls_of_a_line_is_kept() {
        loop {
            let folder = tempfile::tempdir().unwrap();
            let (writer, owner, _hurry) = writer(&folder).await;
            let version = owner.update([("gone", "1")]).await.unwrap().version();
            let other = tokio::spawn(interfere(owner));
            let ended = writer.write(long(version)).await;
            let is_told =
                |why: &str| why.contains("has changed") && why.contains("fields are written");
            match other.await.unwrap() {
                // It came too late.
                false if matches!(ended, LineOutcome::Written(_)) => {}
                _ => {
                    let is_bad = matches!(&ended, LineOutcome::Bad(why) if is_told(why));
                    return assert!(is_bad, "{ended:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_call_that_is_there_is_known_by_its_fields() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, owner, _hurry) = writer(&folder).await;
        owner.update([("f", "1")]).await.unwrap();
        let field = |name: &str| Field::new(name).unwrap();
        for (call, there) in [
            (Call::Set(vec![(field("f"), "1".into())]), true),
            (Call::Set(vec![(field("f"), "2".into())]), false),
            (Call::Set(vec![(field("g"), "1".into())]), false),
            (Call::Remove(vec![field("g")]), true),
            (Call::Remove(vec![field("f")]), false),
        ] {
            assert_eq!(
                writer.is_there(&owner, &call).await.unwrap(),
                there,
                "{call:?}"
            );
        }
    }
}
