//! Reads, from the hash if it knows the answer, and otherwise by a hot-load.

use std::ops::Index;
use std::sync::atomic::Ordering;

use storage_dirty::{Fields, HotError, HotKind, HotRead, Marker, Read};
use storage_model::{Bytes, Cell, Field, Owner, Version, tries};
use storage_tiers::{TierError, is_suspect};
use tokio::time::{Instant, sleep};

use crate::core::{Core, REPEAT_MAX, REPEAT_MIN, patiently};
use crate::value::integer;
use crate::{Error, Kind, Result};

/// The fields of a read with the owner's version, as they were at one moment.
///
/// The index of a field that does not exist, or that the read did not ask for, gives `None`.
///
/// ```
/// # storage_doc::with_player(async |ann| {
/// ann.update([("name", "Ann"), ("gold", "10")]).await?;
/// let some = ann.get(["name", "guild"]).await?;
/// assert_eq!(some["name"].as_deref(), Some(&b"Ann"[..]));
/// assert_eq!((&some["guild"], &some["gold"], some.len()), (&None, &None, 1)); // there is no guild; nobody asked for gold
///
/// let all = ann.get_all().await?;
/// assert_eq!(all.iter().map(|(field, _)| field.as_str()).collect::<Vec<_>>(), ["gold", "name"]);
/// # Ok(()) });
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    version: Version,
    /// Sorted by name.
    fields: Vec<(Field, Option<Bytes>)>,
}

static NOTHING: Option<Bytes> = None;

impl Index<&str> for Record {
    type Output = Option<Bytes>;

    fn index(&self, field: &str) -> &Option<Bytes> {
        self.find(field).unwrap_or(&NOTHING)
    }
}

impl Record {
    fn find(&self, field: &str) -> Option<&Option<Bytes>> {
        let at = self
            .fields
            .binary_search_by(|(name, _)| name.as_str().cmp(field))
            .ok()?;
        self.fields.get(at).map(|(_, value)| value)
    }

    /// The field's value, if it is live.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Bytes> {
        self.find(field)?.as_ref()
    }

    /// The integer in a field, in the form of counters and
    /// [`ByteOwner::incr`](crate::ByteOwner::incr). `None` if the field is not live.
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// use storage_sdk::{Kind, Value};
    /// ann.update([("gold", Value::from(10)), ("name", "Ann".into())]).await?;
    /// let record = ann.get(["gold", "name", "gems"]).await?;
    /// assert_eq!((record.int("gold")?, record.int("gems")?), (Some(10), None));
    /// assert_eq!(record.int("name").unwrap_err().kind(), Kind::NotInteger);
    /// # Ok(()) });
    /// ```
    ///
    /// # Errors
    /// `NotInteger`: the field holds anything else.
    pub fn int(&self, field: &str) -> Result<Option<i64>> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let not_one = || {
            Error::new(
                Kind::NotInteger,
                format!("field {field:?} does not hold a 64-bit integer; read its bytes"),
            )
        };
        integer(value).map(Some).ok_or_else(not_one)
    }

    /// The owner's version at the time of the read, for
    /// [`Write::if_version`](crate::Write::if_version).
    ///
    /// ```
    /// # storage_doc::with_player(async |ann| {
    /// ann.update([("gold", "100")]).await?;
    /// let seen = ann.get(["gold"]).await?;
    /// let half = seen.int("gold")?.unwrap_or_default() / 2;
    /// ann.update([("gold", half)]).if_version(seen.version()).await?; // or somebody else was faster
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The live fields, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Field, &Bytes)> {
        self.fields
            .iter()
            .filter_map(|(field, value)| Some((field, value.as_ref()?)))
    }

    /// The number of live fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether no field is live.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The live fields of a read.
    pub(crate) fn of(read: HotRead) -> Self {
        let live = read
            .cells
            .into_iter()
            .filter_map(|(field, cell)| match cell {
                Cell::Live(value) => Some((field, Some(value))),
                _ => None,
            });
        let mut fields: Vec<_> = live.collect();
        fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Self {
            version: read.header.map(|header| header.version).unwrap_or_default(),
            fields,
        }
    }
}

/// The number of owners that are read at the same time.
pub(crate) const OWNERS_AT_ONCE: usize = 256;

/// Whether the hash alone answers. It must not be suspect, and must be complete or hold every field
/// that was asked for.
fn answers(read: &HotRead, asked: Option<&[Field]>) -> bool {
    let holds_all =
        |complete| complete || asked.is_some_and(|fields| fields.len() == read.cells.len());
    read.header
        .is_some_and(|header| !header.suspect && holds_all(header.complete))
}

/// The fields that were asked for, among all fields of a load. `asked` is sorted.
fn chosen(read: &HotRead, asked: Option<&[Field]>) -> HotRead {
    let is_asked = |field: &Field| asked.is_none_or(|asked| asked.binary_search(field).is_ok());
    HotRead {
        header: read.header,
        cells: read
            .cells
            .iter()
            .filter(|(field, _)| is_asked(field))
            .cloned()
            .collect(),
    }
}

impl Core {
    /// Reads all fields (`None`) or the same named fields of many owners. One round trip if the
    /// owners are hot. Cold owners are loaded.
    pub(crate) async fn read_many(
        &self,
        owners: &[Owner],
        fields: Option<&[Field]>,
    ) -> Vec<Result<Record>> {
        if let Err(error) = self.check_open().and_then(|()| self.check_fields(fields)) {
            return owners
                .iter()
                .map(|owner| Err(error.clone().of(owner)))
                .collect();
        }
        let read_of = |owner: &Owner| Read {
            owner: owner.clone(),
            fields: fields.map_or(Fields::All, |fields| Fields::Live(fields.into())),
        };
        let reads: Vec<Read> = owners.iter().map(read_of).collect();
        let until = Instant::now() + self.deadline;
        let first = self.tiers.hot().owners.read(&reads).await;
        let finished = reads.iter().zip(first).map(|(read, first)| async move {
            let hot = self.read_until(read, first, until).await;
            self.read_on(&read.owner, fields, hot, until).await
        });
        futures::future::join_all(finished).await
    }

    /// Reads one owner.
    pub(crate) async fn read(&self, owner: &Owner, fields: Option<Vec<Field>>) -> Result<Record> {
        self.check_open()
            .and_then(|()| self.check_fields(fields.as_deref()))
            .map_err(|error| error.of(owner))?;
        let read = Read {
            owner: owner.clone(),
            fields: fields.map_or(Fields::All, Fields::Live),
        };
        let until = Instant::now() + self.deadline;
        let hot = self.read_hot(&read, until).await;
        let fields = if let Fields::Live(fields) = &read.fields {
            Some(&**fields)
        } else {
            None
        };
        self.read_on(owner, fields, hot, until).await
    }

    /// Reads a whole owner, even while the storage closes.
    pub(crate) async fn read_whole(&self, owner: &Owner) -> Result<Record> {
        let read = Read {
            owner: owner.clone(),
            fields: Fields::All,
        };
        let until = Instant::now() + self.deadline;
        let hot = self.read_hot(&read, until).await;
        self.read_on(owner, None, hot, until).await
    }

    fn check_fields(&self, fields: Option<&[Field]>) -> Result<()> {
        fields.map_or(Ok(()), |fields| {
            Ok(self.limits.check_fields(fields.len())?)
        })
    }

    /// Continues from the answer of the hash.
    async fn read_on(
        &self,
        owner: &Owner,
        fields: Option<&[Field]>,
        hot: Result<HotRead>,
        until: Instant,
    ) -> Result<Record> {
        match hot {
            Ok(read) if answers(&read, fields) => {
                self.hits.fetch_add(1, Ordering::Relaxed);
                self.refreshes.read(owner);
                Ok(Record::of(read))
            }
            Ok(read) => Box::pin(self.read_cold(owner, fields, &read, until))
                .await
                .map(Record::of),
            Err(error) => Err(error),
        }
        .map_err(|error| self.error_for_caller(error).of(owner))
    }

    /// Reads a hash. Prepares its partition if needed, and repeats a read with a lost answer until
    /// the deadline.
    async fn read_hot(&self, read: &Read, until: Instant) -> Result<HotRead> {
        let first = self
            .tiers
            .hot()
            .owners
            .read(std::slice::from_ref(read))
            .await
            .pop()
            .unwrap_or_else(|| Ok(HotRead::default()));
        self.read_until(read, first, until).await
    }

    async fn read_until(
        &self,
        read: &Read,
        first: Result<HotRead, HotError>,
        until: Instant,
    ) -> Result<HotRead> {
        let mut answer = first;
        let mut pause = REPEAT_MIN;
        loop {
            match answer {
                Ok(read) => return Ok(read),
                Err(error) if Instant::now() + pause >= until => return Err(error.into()),
                Err(error) => match error.kind {
                    HotKind::Unprepared(partition) => {
                        let prepared = || Box::pin(self.tiers.prepare_for_call(partition));
                        match patiently(until, prepared).await {
                            // The database can still be read.
                            Err(error) if error.database_takes_no_writes() => {
                                return Ok(HotRead::default());
                            }
                            prepared => prepared.map_err(Error::of_tiers)?,
                        }
                    }
                    HotKind::Interrupted | HotKind::Unavailable | HotKind::NoWrites => {
                        sleep(pause).await;
                        pause = (pause * 2).min(REPEAT_MAX);
                    }
                    _ => return Err(error.into()),
                },
            }
            answer = self
                .tiers
                .hot()
                .owners
                .read(std::slice::from_ref(read))
                .await
                .pop()
                .unwrap_or_else(|| Ok(HotRead::default()));
        }
    }

    /// Reads an owner after its hash gave no answer. The read bypasses the hot tier where nothing
    /// can or may be written.
    async fn read_cold(
        &self,
        owner: &Owner,
        fields: Option<&[Field]>,
        hot: &HotRead,
        until: Instant,
    ) -> Result<HotRead> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        if !self.tiers.is_read_only() {
            let loaded = patiently(until, || self.load_cold(owner, fields, hot)).await;
            match loaded.map_err(Error::of_tiers) {
                Err(error) if error.kind() == Kind::Denied => {
                    tracing::debug!(%error, "an owner is read past the hot tier")
                }
                loaded => return loaded,
            }
        }
        let seen = self.tiers.glance(owner).await.map_err(Error::of_tiers)?;
        Ok(chosen(&seen, fields))
    }

    /// Hot-loads an owner. If the owner has too many rows, loads only the fields that were asked
    /// for.
    async fn load_cold(
        &self,
        owner: &Owner,
        fields: Option<&[Field]>,
        hot: &HotRead,
    ) -> Result<HotRead, TierError> {
        if is_suspect(hot) {
            self.tiers.reconcile(owner).await?;
        }
        if self.trust_absent && self.marker(owner).await?.is_unknown() {
            return Ok(HotRead::default());
        }
        if let Some(full) = self.tiers.load(owner).await? {
            return Ok(chosen(&full.read, fields));
        }
        Ok(match fields {
            None => self.tiers.load_large(owner).await?,
            Some(asked) => match self.tiers.load_fields(owner, asked).await {
                Err(TierError::TooLarge { .. }) => {
                    chosen(&self.tiers.load_large(owner).await?, fields)
                }
                loaded => chosen(&loaded?.read, fields),
            },
        })
    }

    async fn marker(&self, owner: &Owner) -> Result<Marker, TierError> {
        let partition = owner.partition(self.tiers.hot().partitions.partition_count());
        for _ in 0..tries::OWNER {
            match self
                .tiers
                .hot()
                .owners
                .observe(std::slice::from_ref(owner))
                .await
                .pop()
            {
                Some(Ok(observed)) => return Ok(observed.marker),
                Some(Err(error)) => self.tiers.prepare_after(error).await?,
                None => break,
            }
        }
        Err(TierError::Contended {
            what: format!("prepare partition {partition}"),
            tries: tries::OWNER,
        })
    }

    /// Brings owners into the hot tier, some at a time. Returns their versions in the same order.
    pub(crate) async fn versions(&self, owners: &[Owner]) -> Vec<Result<Version>> {
        let mut versions = Vec::with_capacity(owners.len());
        for some in owners.chunks(OWNERS_AT_ONCE) {
            for names in futures::future::join_all(some.iter().map(|owner| self.names(owner))).await
            {
                versions.push(names.map(|names| names.version()));
            }
        }
        versions
    }

    /// Whether an owner has a live field. One with live fields in the hot tier is not loaded for that.
    pub(crate) async fn has_fields(&self, owner: &Owner) -> Result<bool> {
        let read = Read {
            owner: owner.clone(),
            fields: Fields::Names,
        };
        let until = Instant::now() + self.deadline;
        let hot = self.while_open(self.read_hot(&read, until)).await?;
        let is_live = |(_, cell): &(Field, Cell)| cell.live().is_some();
        if !is_suspect(&hot) && hot.cells.iter().any(is_live) {
            return Ok(true);
        }
        Ok(!self.names(owner).await?.is_empty())
    }

    /// The names of an owner's live fields, and its version. A cold owner is hot-loaded.
    pub(crate) async fn names(&self, owner: &Owner) -> Result<Record> {
        self.while_open(async {
            let read = Read {
                owner: owner.clone(),
                fields: Fields::Names,
            };
            let until = Instant::now() + self.deadline;
            let hot = self.read_hot(&read, until).await?;
            let read = if answers(&hot, None) {
                hot
            } else {
                self.read_cold(owner, None, &hot, until).await?
            };
            Ok(Record::of(read))
        })
        .await
    }
}
