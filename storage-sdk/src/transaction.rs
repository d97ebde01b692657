//! Writes of several owners of one group, all in one step.

use std::future::{Future, IntoFuture};
use std::ops::{Bound, RangeBounds};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use storage_model::{
    Change, Condition, Durability, Field, Mutation, OWNERS_MAX, OpId, Owner, Version,
};

use crate::core::Shared;
use crate::write::check_deadline;
use crate::{Ack, ByteOwner, Counters, Error, Kind, Result, Safety, Value};

/// Changes of up to 16 owners of one group. All of them happen, or none. It is sent when it is
/// awaited.
///
/// The ids of the owners begin with the same tag in braces, such as `{guild-7}/bank`. The tag places
/// an owner, so all owners of a group share a partition. The owners keep their group for life, since
/// the tag is part of the id. One owner alone needs no tag.
///
/// A transaction takes one round trip if its owners are hot. A field that it adds to or compares is
/// loaded first if its owner is cold. If the answer is lost, the SDK retries the transaction until
/// its deadline. It is applied at most once.
///
/// The owners that a transaction changes reach the database in one commit. If Redis dies in between,
/// the database holds all of the transaction or nothing. There are two exceptions. If the database
/// rejects a row of one owner, all of them wait in the error map, and after `landing.torn_after`
/// they land apart. Owners also land apart if transactions that have not landed link more than 8,192
/// owners or rows, or 8 MiB of values.
///
/// ```
/// # storage_doc::with_world(async |world| {
/// use storage_sdk::{InGroup, Kind};
///
/// let bank = world.bytes().owner("bank", InGroup("guild-7", "gold"))?; // {guild-7}/gold
/// let ann = world.bytes().owner("member", InGroup("guild-7", 42))?;
/// bank.update([("gold", "100")]).await?;
///
/// let receipt = world
///     .transaction()
///     .owner(&bank, |part| part.add_within("gold", -60, 0..))
///     .owner(&ann, |part| part.add("gold", 60).set("paid by", "guild"))
///     .await?;
/// assert_eq!(receipt.of(&ann).and_then(|ann| ann.get("gold")), Some(60));
///
/// let short = world
///     .transaction()
///     .owner(&bank, |part| part.add_within("gold", -60, 0..))
///     .owner(&ann, |part| part.add("gold", 60))
///     .await
///     .unwrap_err();
/// assert_eq!(short.kind(), Kind::OutOfBounds); // and nothing changed
/// # Ok(()) });
/// ```
///
/// # Limits
/// 1 to 16 owners, each once and with at least one change. Together they have the limits of a
/// [`Write`](crate::Write): 1,000 fields that change or are compared, and 8 MiB of values. A part
/// names a field once.
///
/// # Errors
/// All errors appear when the transaction is awaited. They name the owner whose part failed. Beside
/// those of a [`Write`](crate::Write):
/// - `Invalid`: the owners are of different groups, there are too many, or one occurs twice.
/// - `Conflict`: a condition does not hold.
/// - `OutOfBounds`: a sum is below the floor or above the ceiling.
/// - `Held`: a session holds one of the owners.
///
/// # Cancel safety
/// If the transaction is dropped before it is awaited, nothing happens. If it is dropped while it is
/// awaited, it may or may not be applied, as a whole.
#[must_use = "a transaction is sent when it is awaited"]
#[derive(Debug, Clone)]
pub struct Transaction {
    core: Shared,
    parts: Vec<(Owner, Part)>,
    /// The strongest of the owners' durabilities, unless the caller set one.
    durability: Option<Durability>,
    default: Durability,
    deadline: Duration,
    id: Option<OpId>,
}

/// One owner's part of a [`Transaction`]: its changes and its conditions.
///
/// ```
/// # storage_doc::with_player(async |ann| {
/// use storage_sdk::Part;
/// let lot = ann; // of an auction, with its highest bid
/// lot.update([("bid", "100"), ("by", "bo")]).await?;
/// let bid = |seen: i64, bid: i64| {
///     let part = move |lot: Part| lot.if_missing("sold").if_equal("bid", seen);
///     lot.transaction(move |lot| part(lot).set("bid", bid).set("by", "cy"))
/// };
/// bid(100, 120).await?;
/// assert!(bid(100, 110).await.unwrap_err().is_conflict()); // somebody has bid meanwhile
/// # Ok(()) });
/// ```
#[must_use = "a part is returned to its transaction"]
#[derive(Debug, Clone, Default)]
pub struct Part {
    changes: Vec<(Field, Change)>,
    expected: Vec<(Field, Option<storage_model::Bytes>)>,
    condition: Condition,
    note: Option<storage_model::Bytes>,
    error: Option<Error>,
}

impl Part {
    fn change(mut self, field: &str, change: Change) -> Self {
        match Field::new(field) {
            Ok(field) if self.changes.iter().any(|(named, _)| *named == field) => {
                let message = format!(
                    "the transaction changes field {:?} twice; change it once",
                    field.as_str()
                );
                self.failed(Error::new(Kind::Invalid, message))
            }
            Ok(field) => {
                self.changes.push((field, change));
                self
            }
            Err(error) => self.failed(error.into()),
        }
    }

    fn expect(mut self, field: &str, value: Option<storage_model::Bytes>) -> Self {
        match Field::new(field) {
            Ok(field) => {
                self.expected.push((field, value));
                self
            }
            Err(error) => self.failed(error.into()),
        }
    }

    fn failed(mut self, error: Error) -> Self {
        self.error.get_or_insert(error);
        self
    }

    /// Sets a field to text, bytes or an integer.
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// ann.transaction(|part| part.set("name", "Ann").set("level", 7).set("avatar", vec![0x89, 0x50])).await?;
    /// assert_eq!(ann.get(["level"]).await?.int("level")?, Some(7));
    /// # Ok(()) });
    /// ```
    pub fn set(self, field: &str, value: impl Into<Value>) -> Self {
        self.change(field, Change::Set(value.into().into_bytes()))
    }

    /// Adds to the integer in a field, as [`ByteOwner::incr`].
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// let receipt = ann.transaction(|part| part.add("gold", 50).add("quests", 1).set("quest", "done")).await?;
    /// assert_eq!(receipt.of(&ann).and_then(|ann| ann.get("quests")), Some(1));
    /// # Ok(()) });
    /// ```
    pub fn add(self, field: &str, by: i64) -> Self {
        self.change(field, Change::Incr(by))
    }

    /// Adds to the integer in a field. The transaction fails as `OutOfBounds` if the sum is outside
    /// of the range, such as `0..` for a purse that can't be overdrawn.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use storage_sdk::Kind;
    /// ann.update([("stamina", 20)]).await?;
    /// let run = || ann.transaction(|part| part.add_within("stamina", -15, 0..=100));
    /// assert_eq!(run().await?.of(&ann).map(|ann| ann.value()), Some(5));
    /// assert_eq!(run().await.unwrap_err().kind(), Kind::OutOfBounds); // too tired
    /// # Ok(()) });
    /// ```
    pub fn add_within(self, field: &str, by: i64, range: impl RangeBounds<i64>) -> Self {
        match (floor_of(range.start_bound()), ceiling_of(range.end_bound())) {
            (Some(floor), Some(ceiling)) if floor <= ceiling => {
                self.change(field, Change::Add { by, floor, ceiling })
            }
            _ => {
                let message = format!("the range for the sum in field {field:?} is empty");
                self.failed(Error::new(Kind::Invalid, message))
            }
        }
    }

    /// Removes a field, as [`ByteOwner::remove`].
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("guild", "red")]).await?;
    /// ann.transaction(|part| part.if_equal("guild", "red").remove("guild")).await?;
    /// assert_eq!(ann.get(["guild"]).await?["guild"], None);
    /// # Ok(()) });
    /// ```
    pub fn remove(self, field: &str) -> Self {
        self.change(field, Change::Remove)
    }

    /// Brings a removed field back, as [`ByteOwner::restore`].
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("guild", "red")]).await?;
    /// ann.remove(["guild"]).await?;
    /// ann.transaction(|part| part.restore("guild").add("returns", 1)).await?;
    /// assert_eq!(ann.get(["guild"]).await?["guild"].as_deref(), Some(&b"red"[..]));
    /// # Ok(()) });
    /// ```
    pub fn restore(self, field: &str) -> Self {
        self.change(field, Change::Restore)
    }

    /// The owner must have this version. 0 is the version of an owner that was never written.
    /// Replaces [`Part::if_absent`].
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// ann.update([("offer", "sword")]).await?;
    /// let seen = ann.get(["offer"]).await?.version();
    /// ann.update([("offer", "stick")]).await?; // behind bo's back
    /// let deal = ann
    ///     .transaction(|ann| ann.if_version(seen).remove("offer"))
    ///     .owner(&bo, |bo| bo.set("bag", "sword"));
    /// assert!(deal.await.unwrap_err().is_conflict());
    /// assert!(!bo.exists().await?);
    /// # Ok(()) });
    /// ```
    pub fn if_version(mut self, version: Version) -> Self {
        self.condition = Condition::Version(version);
        self
    }

    /// None of the fields that this part changes may be live. Replaces [`Part::if_version`].
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// ann.update([("seeds", 5)]).await?;
    /// let plants = || {
    ///     let seed = ann.transaction(|ann| ann.add_within("seeds", -1, 0..));
    ///     seed.owner(&bo, |garden| garden.set("plot 7", "rose").if_absent())
    /// };
    /// plants().await?;
    /// assert!(plants().await.unwrap_err().is_conflict()); // a rose grows there
    /// assert_eq!(ann.get(["seeds"]).await?.int("seeds")?, Some(4));
    /// # Ok(()) });
    /// ```
    pub fn if_absent(mut self) -> Self {
        self.condition = Condition::Absent;
        self
    }

    /// Leaves a note of this owner in the [feed](crate::feed), as [`Write::note`](crate::Write::note).
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// ann.update([("gold", 100)]).await?;
    /// let gift = ann
    ///     .transaction(|ann| ann.add_within("gold", -10, 0..))
    ///     .owner(&bo, |bo| bo.add("gold", 10).note("from ann"));
    /// let place = gift.await?.of(&bo).and_then(|bo| bo.ack().position());
    /// assert!(place.is_some()); // where the client of bo finds the note
    /// # Ok(()) });
    /// ```
    pub fn note(mut self, body: impl Into<Value>) -> Self {
        self.note = Some(body.into().into_bytes());
        self
    }

    /// The field must have this value. The part can change the field as well.
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// let lot = ann; // of an auction
    /// lot.update([("state", "open")]).await?;
    /// let buys = || {
    ///     let sale = lot.transaction(|lot| lot.if_equal("state", "open").set("state", "sold"));
    ///     sale.owner(&bo, |bo| bo.add("swords", 1))
    /// };
    /// buys().await?;
    /// assert!(buys().await.unwrap_err().is_conflict());
    /// assert_eq!(bo.get(["swords"]).await?.int("swords")?, Some(1));
    /// # Ok(()) });
    /// ```
    pub fn if_equal(self, field: &str, value: impl Into<Value>) -> Self {
        self.expect(field, Some(value.into().into_bytes()))
    }

    /// The field must not be live. The part can change the field as well.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// let claims = || {
    ///     ann.transaction(|part| part.if_missing("gift of day 7").set("gift of day 7", 1).add("gems", 5))
    /// };
    /// claims().await?;
    /// assert!(claims().await.unwrap_err().is_conflict()); // once a day
    /// assert_eq!(ann.get(["gems"]).await?.int("gems")?, Some(5));
    /// # Ok(()) });
    /// ```
    pub fn if_missing(self, field: &str) -> Self {
        self.expect(field, None)
    }
}

/// The least sum of a range. `None` if there is none.
fn floor_of(start: Bound<&i64>) -> Option<i64> {
    match start {
        Bound::Included(floor) => Some(*floor),
        Bound::Excluded(below) => below.checked_add(1),
        Bound::Unbounded => Some(i64::MIN),
    }
}

/// The greatest sum of a range. `None` if there is none.
fn ceiling_of(end: Bound<&i64>) -> Option<i64> {
    match end {
        Bound::Included(ceiling) => Some(*ceiling),
        Bound::Excluded(above) => above.checked_sub(1),
        Bound::Unbounded => Some(i64::MAX),
    }
}

/// The acknowledgement of a [`Transaction`].
///
/// ```
/// # storage_doc::with_two(async |ann, bo| {
/// ann.update([("gold", 100)]).await?;
/// let receipt = ann.pay(&bo, "gold", 30).await?;
/// let left = receipt.of(&ann).and_then(|ann| ann.get("gold"));
/// assert_eq!((left, receipt.changed()), (Some(70), 2));
/// assert_eq!(receipt.version(), bo.version().await?);
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    owners: Vec<(Owner, Counters)>,
}

impl Receipt {
    /// The parts are owners and their counters, in the order of the mutation.
    fn new(parts: Vec<(Owner, Vec<Field>)>, ack: Ack) -> Self {
        let Ack {
            mut applied,
            safety,
        } = ack;
        let also = std::mem::take(&mut applied.also);
        let applied = std::iter::once(applied).chain(also);
        let owners = parts
            .into_iter()
            .zip(applied)
            .map(|((owner, fields), applied)| {
                let ack = Ack { applied, safety };
                (owner, Counters { ack, fields })
            });
        Self {
            owners: owners.collect(),
        }
    }

    /// The acknowledgement of one owner's part, with the new values of its counters. `None` if the
    /// owner is not in the transaction.
    #[must_use]
    pub fn of(&self, owner: &ByteOwner) -> Option<&Counters> {
        let mut owners = self.owners.iter();
        let (_, counters) = owners.find(|(of, _)| of == owner.owner())?;
        Some(counters)
    }

    /// The version of all owners that the transaction has changed. It is greater than every earlier
    /// version of the partition.
    #[must_use]
    pub fn version(&self) -> Version {
        let versions = self.owners.iter().map(|(_, counters)| counters.version());
        versions.max().unwrap_or_default()
    }

    /// The number of changed fields of all owners.
    #[must_use]
    pub fn changed(&self) -> u32 {
        let changed = self.owners.iter().map(|(_, one)| one.ack().changed());
        changed.fold(0, u32::saturating_add)
    }

    /// The safety of the transaction at its acknowledgement.
    #[must_use]
    pub fn durability(&self) -> Safety {
        let first = self.owners.first();
        first.map_or(Safety::Cached, |(_, counters)| counters.ack().durability())
    }
}

impl Transaction {
    pub(crate) fn new(core: &Shared) -> Self {
        Self {
            core: Arc::clone(core),
            parts: Vec::new(),
            durability: None,
            default: Durability::Cached,
            deadline: core.deadline,
            id: None,
        }
    }

    /// Adds an owner, with its changes and conditions.
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// let oath = ann
    ///     .transaction(|ann| ann.set("married to", "bo"))
    ///     .owner(&bo, |bo| bo.set("married to", "ann"));
    /// assert_eq!(oath.await?.changed(), 2);
    /// # Ok(()) });
    /// ```
    pub fn owner(mut self, owner: &ByteOwner, part: impl FnOnce(Part) -> Part) -> Self {
        if rank(owner.default_durability()) > rank(self.default) {
            self.default = owner.default_durability();
        }
        self.parts
            .push((owner.owner().clone(), part(Part::default())));
        self
    }

    /// How safe the transaction must be before it is acknowledged. Default: the strongest of its
    /// owners' defaults. With [`Durability::Landed`], the owners are in the database then, in one
    /// commit.
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// use std::time::Duration;
    /// use storage_sdk::{Durability, Safety};
    /// ann.update([("gems", 100)]).await?;
    /// let landed = Durability::Landed { timeout: Duration::from_secs(10) };
    /// let receipt = ann.pay(&bo, "gems", 30).durability(landed).await?;
    /// assert_eq!(receipt.durability(), Safety::Landed); // both owners, by one commit
    /// # Ok(()) });
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// The time for retries while the answer is lost, as [`Write::deadline`](crate::Write::deadline).
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// use std::time::Duration;
    /// ann.update([("gold", 100)]).await?;
    /// ann.pay(&bo, "gold", 30).deadline(Duration::from_secs(2)).await?; // both players wait for it
    /// # Ok(()) });
    /// ```
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sends the transaction under this id, which the caller keeps; see
    /// [`Write::id`](crate::Write::id).
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// use storage_sdk::{Ids, RandomIds};
    /// ann.update([("gold", 100)]).await?;
    /// let id = RandomIds.next(); // or `Storage::next_id`
    /// let first = ann.pay(&bo, "gold", 70).id(id).await?;
    /// let again = ann.pay(&bo, "gold", 70).id(id).await?; // as if the first answer had been lost
    /// assert_eq!((again == first, bo.get(["gold"]).await?.int("gold")?), (true, Some(70)));
    /// # Ok(()) });
    /// ```
    pub fn id(mut self, id: OpId) -> Self {
        self.id = Some(id);
        self
    }

    fn check(&self) -> Result<()> {
        check_deadline(self.deadline)?;
        let (first, _) = self.parts.first().ok_or_else(no_owner)?;
        if self.parts.len() > OWNERS_MAX {
            let message = format!(
                "the transaction names {} owners; the limit is {OWNERS_MAX}, so split it",
                self.parts.len()
            );
            return Err(Error::new(Kind::Invalid, message));
        }
        for (at, (owner, part)) in self.parts.iter().enumerate() {
            let before = self.parts.get(..at).unwrap_or_default();
            let checked = match &part.error {
                Some(error) => Err(error.clone()),
                None => check_owner(first, before, owner),
            };
            checked.map_err(|error| error.of(owner))?;
        }
        Ok(())
    }

    async fn send(self) -> Result<Receipt> {
        self.check()?;
        let core = Arc::clone(&self.core);
        let left = core.admit(self.deadline, self.id).await?;
        let Some(mutation) = self.mutation(left) else {
            return Err(no_owner());
        };
        let named = |part: &Mutation| (part.owner.clone(), counters_of(part));
        let parts = mutation.parts().map(named).collect();
        let ack = core.write(mutation, left).await?;
        Ok(Receipt::new(parts, ack))
    }

    /// The mutation to send. `None` without owners.
    fn mutation(self, left: Duration) -> Option<Mutation> {
        let (id, attempt) = self.core.id_and_attempt(self.id);
        let deadline = self.core.expiry(left);
        let durability = self.durability.unwrap_or(self.default);
        let mut parts = self.parts.into_iter().map(|(owner, part)| {
            let mut mutation = Mutation::new(owner, part.changes, id, deadline)
                .when(part.condition)
                .expecting(part.expected)
                .as_attempt(attempt)
                .as_safe_as(durability);
            mutation.note = part.note;
            mutation
        });
        let first = parts.next()?;
        Some(first.with(parts.collect()))
    }
}

impl ByteOwner {
    /// Changes this owner alone, with the conditions and bounds that a [`Part`] offers.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("gold", 100)]).await?;
    /// ann.transaction(|part| part.add_within("gold", -90, 0..).set("sword", "of dawn")).await?;
    /// let poor = ann.transaction(|part| part.add_within("gold", -90, 0..).set("shield", "of dusk")).await;
    /// assert_eq!(poor.unwrap_err().kind(), storage_sdk::Kind::OutOfBounds);
    /// assert_eq!(ann.get(["shield"]).await?["shield"], None);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Transaction`].
    ///
    /// # Cancel safety
    /// As [`Transaction`].
    pub fn transaction(&self, part: impl FnOnce(Part) -> Part) -> Transaction {
        Transaction::new(self.core()).owner(self, part)
    }

    /// Moves an amount from the integer in a field of this owner to the same field of another owner
    /// of its group. The field of this owner does not fall below 0.
    ///
    /// ```
    /// # storage_doc::with_bytes(async |bytes| {
    /// use storage_sdk::{InGroup, Kind};
    ///
    /// let [ann, bo] = [bytes.owner("purse", InGroup("red", 1))?, bytes.owner("purse", InGroup("red", 2))?];
    /// ann.update([("gold", "100")]).await?;
    /// ann.pay(&bo, "gold", 70).await?;
    /// assert_eq!(ann.pay(&bo, "gold", 70).await.unwrap_err().kind(), Kind::OutOfBounds);
    /// assert_eq!((ann.get(["gold"]).await?.int("gold")?, bo.get(["gold"]).await?.int("gold")?), (Some(30), Some(70)));
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`Transaction`]. `Invalid`: the amount is not above 0. `OutOfBounds`: this owner holds
    /// less.
    ///
    /// # Cancel safety
    /// As [`Transaction`].
    pub fn pay(&self, to: &Self, field: &str, amount: i64) -> Transaction {
        self.trade(to, [(field, amount)], [])
    }

    /// Exchanges amounts with another owner of the group: this owner gives the first ones and gets
    /// the others. No field falls below 0. A field can't be both given and got.
    ///
    /// ```
    /// # storage_doc::with_two(async |ann, bo| {
    /// ann.update([("swords", 1)]).await?;
    /// bo.update([("gold", 90)]).await?;
    /// ann.trade(&bo, [("swords", 1)], [("gold", 90)]).await?;
    /// assert_eq!(ann.get(["gold"]).await?.int("gold")?, Some(90));
    /// assert!(ann.trade(&bo, [("swords", 1)], [("gold", 90)]).await.is_err()); // neither has it any more
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// As [`ByteOwner::pay`], for either owner.
    ///
    /// # Cancel safety
    /// As [`Transaction`].
    pub fn trade<'a>(
        &self,
        with: &Self,
        gives: impl IntoIterator<Item = (&'a str, i64)>,
        gets: impl IntoIterator<Item = (&'a str, i64)>,
    ) -> Transaction {
        let (mut mine, mut others) = (Part::default(), Part::default());
        for (field, amount) in gives {
            (mine, others) = moved(mine, others, field, amount);
        }
        for (field, amount) in gets {
            (others, mine) = moved(others, mine, field, amount);
        }
        Transaction::new(self.core())
            .owner(self, |_| mine)
            .owner(with, |_| others)
    }
}

/// The parts of both owners, after an amount has moved from one to the other.
fn moved(from: Part, to: Part, field: &str, amount: i64) -> (Part, Part) {
    if amount <= 0 {
        let message = format!("the amount of {field:?} is {amount}; it must be more than 0");
        return (from.failed(Error::new(Kind::Invalid, message)), to);
    }
    (from.add_within(field, -amount, 0..), to.add(field, amount))
}

fn no_owner() -> Error {
    let message = "the transaction names no owner; add at least one";
    Error::new(Kind::Invalid, message)
}

/// Rejects an owner that is named before, or is not of the group of the first one.
fn check_owner(first: &Owner, before: &[(Owner, Part)], owner: &Owner) -> Result<()> {
    if before.iter().any(|(named, _)| named == owner) {
        let message = "the transaction names the owner twice; put its changes in one part";
        return Err(Error::new(Kind::Invalid, message));
    }
    if !before.is_empty() && !is_of_one_group(first, owner) {
        let message = format!(
            "the owner is not of the group of {first}; both ids must begin with the same tag in braces, such as {{guild-7}}/42"
        );
        return Err(Error::new(Kind::Invalid, message));
    }
    Ok(())
}

/// Whether both owners are of one group of one world.
fn is_of_one_group(one: &Owner, other: &Owner) -> bool {
    one.scope() == other.scope() && one.group().is_some() && one.group() == other.group()
}

fn counters_of(part: &Mutation) -> Vec<Field> {
    let counters = part
        .changes
        .iter()
        .filter(|(_, change)| change.is_counter());
    counters.map(|(field, _)| field.clone()).collect()
}

/// Orders durabilities by their safety.
fn rank(durability: Durability) -> u8 {
    match durability {
        Durability::Landed { .. } => 3,
        Durability::Fsynced { .. } => 2,
        Durability::Replicated { .. } => 1,
        _ => 0,
    }
}

impl IntoFuture for Transaction {
    type Output = Result<Receipt>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Receipt>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
