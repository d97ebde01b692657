//! The names of data. A name is checked once, when it is made. Code that holds a name can rely on
//! the check.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;
use xxhash_rust::xxh3::xxh3_64;

/// The most bytes of an app id, a region id or a logic type. The table's columns hold as many.
pub const SCOPE_BYTES_MAX: usize = 64;
/// The most bytes of an owner id or a field name. The table's columns hold as many.
pub const ID_BYTES_MAX: usize = 255;

/// An invalid name. Nothing was read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name has no characters.
    #[error("{part} is empty; it needs 1 to {limit} bytes")]
    Empty {
        /// Which name, such as "app", "owner id" or "field name".
        part: &'static str,
        /// The most bytes this name may have.
        limit: usize,
    },
    /// The name is longer than its column.
    #[error("{part} {name:?} has {bytes} bytes; the limit is {limit}, so shorten it")]
    TooLong {
        /// Which name.
        part: &'static str,
        /// The first characters of the name.
        name: String,
        /// Its length in bytes.
        bytes: usize,
        /// The most bytes this name may have.
        limit: usize,
    },
    /// The name holds a control character (U+0000 to U+001F, U+007F to U+009F).
    #[error(
        "{part} {name:?} holds the control character {character:?}; names may hold any other UTF-8"
    )]
    Control {
        /// Which name.
        part: &'static str,
        /// The first characters of the name.
        name: String,
        /// The control character.
        character: char,
    },
}

/// Checks a name of 1 to `limit` bytes. `part` says in an error which name it is.
///
/// ```
/// use storage_model::name::check;
/// assert!(check("room", "lobby", 64).is_ok());
/// let error = check("room", "", 64).unwrap_err();
/// assert_eq!(error.to_string(), "room is empty; it needs 1 to 64 bytes");
/// ```
///
/// # Errors
/// The name is empty, longer than `limit` bytes, or holds a control character.
pub fn check(part: &'static str, name: &str, limit: usize) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { part, limit });
    }
    let shown = || name.chars().take(40).collect::<String>();
    if name.len() > limit {
        return Err(NameError::TooLong {
            part,
            name: shown(),
            bytes: name.len(),
            limit,
        });
    }
    // Almost all names are plain ASCII, for which this check is fast.
    if name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Ok(());
    }
    match name.chars().find(|c| c.is_control()) {
        Some(character) => Err(NameError::Control {
            part,
            name: shown(),
            character,
        }),
        None => Ok(()),
    }
}

/// Stands between the parts of a joined name. It occurs in no part and sorts before every character
/// of a part. So joined names sort like their parts, and no two are equal.
const SEPARATOR: &str = "\0";

/// The length of a part in bytes. The part was checked to have at most [`SCOPE_BYTES_MAX`].
fn length(part: &str) -> u8 {
    u8::try_from(part.len()).unwrap_or(u8::MAX)
}

/// The part of a joined name between two positions.
fn part(text: &str, start: usize, end: usize) -> &str {
    text.get(start..end).unwrap_or_default()
}

/// An app and a region: the world that owners live in. Cheap to clone.
///
/// ```
/// let world = storage_model::Scope::new("mygame", "eu-1")?;
/// assert_eq!(world.owner("player", "42")?.to_string(), "mygame/eu-1/player/42");
/// # Ok::<(), storage_model::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    /// App and region, joined.
    text: Arc<str>,
    app: u8,
}

impl Scope {
    /// Checks both names.
    ///
    /// # Errors
    /// A name is empty, longer than [`SCOPE_BYTES_MAX`] bytes, or holds a control character.
    pub fn new(app: &str, region: &str) -> Result<Self, NameError> {
        check("app", app, SCOPE_BYTES_MAX)?;
        check("region", region, SCOPE_BYTES_MAX)?;
        Ok(Self {
            text: [app, region].join(SEPARATOR).into(),
            app: length(app),
        })
    }

    /// The app id.
    #[must_use]
    pub fn app(&self) -> &str {
        part(&self.text, 0, self.app.into())
    }

    /// The region id.
    #[must_use]
    pub fn region(&self) -> &str {
        part(&self.text, usize::from(self.app) + 1, self.text.len())
    }

    /// An owner of this world.
    ///
    /// # Errors
    /// The logic type or the id is empty, too long ([`SCOPE_BYTES_MAX`], [`ID_BYTES_MAX`] bytes),
    /// or holds a control character.
    pub fn owner(&self, logic_type: &str, id: &str) -> Result<Owner, NameError> {
        Owner::new(self.app(), self.region(), logic_type, id)
    }
}

/// One entity: app, region, logic type and owner id. It is one hash in the hot tier and some
/// adjacent rows in the cold tier.
///
/// Owners sort as the table's primary key sorts them: byte by byte, part by part. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// All four names, joined: one allocation, compared and hashed in one step.
    text: Arc<str>,
    app: u8,
    region: u8,
    logic_type: u8,
}

impl Owner {
    /// Checks all four names.
    ///
    /// # Errors
    /// A name is empty, too long, or holds a control character.
    pub fn new(app: &str, region: &str, logic_type: &str, id: &str) -> Result<Self, NameError> {
        check("app", app, SCOPE_BYTES_MAX)?;
        check("region", region, SCOPE_BYTES_MAX)?;
        check("logic type", logic_type, SCOPE_BYTES_MAX)?;
        check("owner id", id, ID_BYTES_MAX)?;
        let text = [app, region, logic_type, id].join(SEPARATOR).into();
        Ok(Self {
            text,
            app: length(app),
            region: length(region),
            logic_type: length(logic_type),
        })
    }

    /// The positions where the region, the logic type and the id begin.
    fn starts(&self) -> [usize; 3] {
        let region = usize::from(self.app) + 1;
        let logic_type = region + usize::from(self.region) + 1;
        [
            region,
            logic_type,
            logic_type + usize::from(self.logic_type) + 1,
        ]
    }

    /// The app and the region.
    #[must_use]
    pub fn scope(&self) -> Scope {
        let [_, logic_type, _] = self.starts();
        Scope {
            text: part(&self.text, 0, logic_type - 1).into(),
            app: self.app,
        }
    }

    /// The app id.
    #[must_use]
    pub fn app(&self) -> &str {
        part(&self.text, 0, self.app.into())
    }

    /// The region id.
    #[must_use]
    pub fn region(&self) -> &str {
        let [region, logic_type, _] = self.starts();
        part(&self.text, region, logic_type - 1)
    }

    /// The kind of entity, such as "player".
    #[must_use]
    pub fn logic_type(&self) -> &str {
        let [_, logic_type, id] = self.starts();
        part(&self.text, logic_type, id - 1)
    }

    /// The entity's own id.
    #[must_use]
    pub fn id(&self) -> &str {
        let [_, _, id] = self.starts();
        part(&self.text, id, self.text.len())
    }

    /// A number that depends on the names alone, in each process:
    /// `xxh3_64(app \0 region \0 logic type \0 id)`.
    ///
    /// The hash is XXH3 (64 bits, seed 0) as specified by the xxHash project. No name holds a NUL,
    /// so the input is unambiguous.
    #[must_use]
    pub fn digest(&self) -> u64 {
        xxh3_64(self.text.as_bytes())
    }

    /// The tag of the owner's group: the text between braces at the beginning of the id. `None` if
    /// the id has none, or if the tag is empty.
    ///
    /// Owners of an app and a region with the same tag share a partition, whatever their logic
    /// types. So one transaction can change several of them. The tag is part of the id, so an owner
    /// keeps its group for life.
    ///
    /// ```
    /// # use storage_model as storage_sdk;
    /// use storage_sdk::Owner;
    ///
    /// let bank = Owner::new("mygame", "eu-1", "bank", "{guild-7}")?;
    /// let member = Owner::new("mygame", "eu-1", "member", "{guild-7}/42")?;
    /// assert_eq!((bank.group(), member.group()), (Some("guild-7"), Some("guild-7")));
    /// assert_eq!(bank.partition(256), member.partition(256));
    /// # Ok::<(), storage_model::NameError>(())
    /// ```
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        let (tag, _) = self.id().strip_prefix('{')?.split_once('}')?;
        (!tag.is_empty()).then_some(tag)
    }

    /// The number that places the owner: [`Owner::digest`], or `xxh3_64(app \0 region \0 tag)` for
    /// an owner of a [group](Owner::group). The [partition](Owner::partition) is its remainder.
    ///
    /// ```
    /// # mod storage_sdk { pub use storage_model::*; }
    /// use storage_sdk::Owner;
    /// let ann = Owner::new("mygame", "eu-1", "player", "42")?;
    /// assert_eq!(u64::from(ann.partition(256).0), ann.placement() % 256);
    /// # Ok::<(), storage_model::NameError>(())
    /// ```
    #[must_use]
    pub fn placement(&self) -> u64 {
        match self.group() {
            Some(tag) => xxh3_64([self.app(), self.region(), tag].join(SEPARATOR).as_bytes()),
            None => self.digest(),
        }
    }

    /// The partition of this owner among `count`: [`Owner::digest`]` % count`. The partition of an
    /// owner of a [group](Owner::group) is `xxh3_64(app \0 region \0 tag) % count`.
    #[must_use]
    pub fn partition(&self, count: u32) -> Partition {
        let index = self.placement() % u64::from(count.max(1));
        Partition(u32::try_from(index).unwrap_or_default())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}/{}/{}/{}",
            self.app(),
            self.region(),
            self.logic_type(),
            self.id()
        )
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("app", &self.app())
            .field("region", &self.region())
            .finish()
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

/// The name of one value of an owner: any UTF-8 of 1 to [`ID_BYTES_MAX`] bytes without control
/// characters. Cheap to clone. A name of up to 23 bytes needs no allocation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field(SmolStr);

impl Field {
    /// Checks the name.
    ///
    /// # Errors
    /// The name is empty, longer than [`ID_BYTES_MAX`] bytes, or holds a control character.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check("field name", name, ID_BYTES_MAX)?;
        Ok(Self(SmolStr::new(name)))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One of the P parts that owners are hashed into. Each has its own dirty map, lock and version
/// source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(pub u32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_table_cannot_hold_are_refused_by_name_and_limit() {
        assert_eq!(
            Field::new("").unwrap_err().to_string(),
            "field name is empty; it needs 1 to 255 bytes"
        );
        let long = "x".repeat(65);
        let error = Scope::new(&long, "eu").unwrap_err().to_string();
        assert!(error.contains("has 65 bytes; the limit is 64"), "{error}");
        assert!(
            Field::new("a\u{7f}b").is_err()
                && Field::new("a\nb").is_err()
                && Field::new("a\u{85}").is_err()
        );
        for good in [":x", "{a}", "%", "a&b", "'\"`", "名前", &"y".repeat(255)] {
            assert_eq!(Field::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn partitions_do_not_depend_on_how_name_parts_are_cut() {
        let one = Owner::new("ab", "c", "d", "e").unwrap();
        let other = Owner::new("a", "bc", "d", "e").unwrap();
        assert_ne!(one.partition(1 << 30), other.partition(1 << 30));
        let spread: std::collections::BTreeSet<_> = (0..2_000)
            .map(|i| {
                Owner::new("a", "b", "c", &i.to_string())
                    .unwrap()
                    .partition(64)
            })
            .collect();
        assert_eq!(spread.len(), 64);
    }

    #[test]
    fn owners_are_in_the_order_of_their_parts_and_give_each_back() {
        let names = ["a", "a b", "ab", "b", "é", "~"];
        let mut owners = Vec::new();
        for (at, logic_type) in names.into_iter().enumerate() {
            let pairs = names.into_iter().map(|id| {
                (
                    Owner::new("a", names[at], logic_type, id).unwrap(),
                    ["a", names[at], logic_type, id],
                )
            });
            owners.extend(pairs);
        }
        for (owner, parts) in &owners {
            assert_eq!(
                [owner.app(), owner.region(), owner.logic_type(), owner.id()],
                *parts
            );
            assert_eq!(owner.scope(), Scope::new(parts[0], parts[1]).unwrap());
            assert_eq!(owner.scope().owner(parts[2], parts[3]).unwrap(), *owner);
            for (other, others) in &owners {
                assert_eq!(
                    owner.cmp(other),
                    parts.cmp(others),
                    "{owner:?} and {other:?}"
                );
            }
        }
    }

    #[test]
    fn the_partition_of_an_owner_never_changes_between_releases() {
        // A fixture: stored data is found by this number.
        assert_eq!(
            Owner::new("mygame", "eu-1", "player", "42")
                .unwrap()
                .partition(256),
            Partition(93)
        );
        assert_eq!(
            Owner::new("mygame", "eu-1", "bank", "{guild-7}/gold")
                .unwrap()
                .partition(256),
            Partition(67)
        );
    }

    #[test]
    fn owners_with_the_same_tag_share_a_partition_and_no_other_ids_have_a_tag() {
        let of = |logic_type: &str, id: &str| Owner::new("a", "b", logic_type, id).unwrap();
        let one = of("bank", "{7}");
        for id in ["{7}", "{7}/1", "{7}}", "{7}{8}"] {
            assert_eq!(of("member", id).group(), Some("7"));
            assert_eq!(of("member", id).partition(1 << 30), one.partition(1 << 30));
        }
        for id in ["{}", "{}7", "{7", "7}", "x{7}", "7"] {
            assert_eq!(of("bank", id).group(), None, "{id}");
        }
        let elsewhere = Owner::new("a", "c", "bank", "{7}").unwrap();
        assert_ne!(elsewhere.partition(1 << 30), one.partition(1 << 30));
    }
}
