//! The names of keys and of stored fields.
//!
//! Every key of a partition carries the partition's number as its hash tag. So a cluster holds them
//! all in one slot. Parts of names are escaped. So no two owners share a key, and every key can be
//! split into its parts again (R9).

use std::borrow::Cow;

use storage_model::{Field, Owner, Partition};

/// Makes the keys of one prefix.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
        }
    }

    /// The prefix of all keys.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The owner's hash.
    pub(crate) fn data(&self, partition: Partition, owner: &Owner) -> String {
        self.of_owner("data", partition, owner)
    }

    /// The owner's exist marker.
    pub(crate) fn exist(&self, partition: Partition, owner: &Owner) -> String {
        self.of_owner("exist", partition, owner)
    }

    /// The right to load the owner.
    pub(crate) fn lease(&self, partition: Partition, owner: &Owner) -> String {
        self.of_owner("lease", partition, owner)
    }

    fn of_owner(&self, kind: &str, partition: Partition, owner: &Owner) -> String {
        let mut key = self.begun(kind, partition, 1 + OWNER_PART);
        key.push(':');
        push_owner(&mut key, owner);
        key
    }

    /// The keys of a write that belong to its owner. `part` is the [`owner_part`] of that owner.
    pub(crate) fn of_write(&self, partition: Partition, part: &str) -> [String; 2] {
        ["data", "exist"].map(|kind| {
            let mut key = self.begun(kind, partition, 1 + part.len());
            key.push(':');
            key.push_str(part);
            key
        })
    }

    /// The dirty map.
    pub(crate) fn dirty(&self, partition: Partition) -> String {
        self.of_partition("marks", partition, "")
    }

    /// The snapshot.
    pub(crate) fn saving(&self, partition: Partition) -> String {
        self.of_partition("marks", partition, ":saving")
    }

    /// The error map.
    pub(crate) fn error(&self, partition: Partition) -> String {
        self.of_partition("marks", partition, ":error")
    }

    /// Marks on probation.
    pub(crate) fn landed(&self, partition: Partition) -> String {
        self.of_partition("marks", partition, ":landed")
    }

    /// Marks whose probation ends together.
    pub(crate) fn expiring(&self, partition: Partition) -> String {
        self.of_partition("marks", partition, ":expiring")
    }

    /// Links that marks of the dirty map do not name, and those of the snapshot.
    pub(crate) fn links(&self, partition: Partition) -> [String; 2] {
        ["", ":saving"].map(|map| self.of_partition("links", partition, map))
    }

    /// The maps of marks: dirty map, snapshot, error map, marks on probation, marks whose probation
    /// ends.
    pub(crate) fn maps(&self, partition: Partition) -> [String; 5] {
        let [dirty, saving, error] = [
            self.dirty(partition),
            self.saving(partition),
            self.error(partition),
        ];
        [
            dirty,
            saving,
            error,
            self.landed(partition),
            self.expiring(partition),
        ]
    }

    /// Owners to evict once no map names them and no session holds them.
    pub(crate) fn evict(&self, partition: Partition) -> String {
        self.of_partition("evict", partition, "")
    }

    /// Sessions, by owner.
    pub(crate) fn sessions(&self, partition: Partition) -> String {
        self.of_partition("sess", partition, "")
    }

    /// Sessions of holders that are gone.
    pub(crate) fn lapsed(&self, partition: Partition) -> String {
        self.of_partition("sess", partition, ":lapsed")
    }

    /// Owners that somebody asks for.
    pub(crate) fn asked(&self, partition: Partition) -> String {
        self.of_partition("sess", partition, ":asked")
    }

    /// The beats of holders.
    pub(crate) fn beats(&self, partition: Partition) -> String {
        self.of_partition("beats", partition, "")
    }

    /// The lock.
    pub(crate) fn lock(&self, partition: Partition) -> String {
        self.of_partition("lock", partition, "")
    }

    /// Notes on their way to the database.
    pub(crate) fn notes(&self, partition: Partition) -> String {
        self.of_partition("notes", partition, "")
    }

    /// The partition's record.
    pub(crate) fn part(&self, partition: Partition) -> String {
        self.of_partition("part", partition, "")
    }

    /// The operation ids of even (0) or odd (1) windows.
    pub(crate) fn ops(&self, partition: Partition, parity: u8) -> String {
        self.of_partition("ops", partition, if parity == 0 { ":0" } else { ":1" })
    }

    fn of_partition(&self, kind: &str, partition: Partition, rest: &str) -> String {
        let mut key = self.begun(kind, partition, rest.len());
        key.push_str(rest);
        key
    }

    /// A key up to its partition, with room for `more` bytes. Every write needs several keys, and
    /// every row that lands needs two. So a key is allocated once, without the machinery of
    /// `format!`.
    fn begun(&self, kind: &str, partition: Partition, more: usize) -> String {
        let mut digits = itoa::Buffer::new();
        let number = digits.format(partition.0);
        let mut key =
            String::with_capacity(self.prefix.len() + kind.len() + number.len() + 4 + more);
        for text in [&self.prefix, "-", kind, ":{", number, "}"] {
            key.push_str(text);
        }
        key
    }

    /// Written before a WAIT, so that the WAIT covers all earlier writes.
    pub(crate) fn sync(&self, partition: Partition) -> String {
        self.of_partition("sync", partition, "")
    }

    /// The record of the whole hot tier.
    pub(crate) fn meta(&self) -> String {
        format!("{}-meta", self.prefix)
    }

    /// The workers' announcements.
    pub(crate) fn workers(&self) -> String {
        format!("{}-workers", self.prefix)
    }
}

/// The owner's names as they stand in keys and marks: escaped, with ':' between them.
pub(crate) fn owner_part(owner: &Owner) -> String {
    let mut part = String::with_capacity(OWNER_PART);
    push_owner(&mut part, owner);
    part
}

/// The room that most owners' parts fit in.
const OWNER_PART: usize = 64;

fn push_owner(text: &mut String, owner: &Owner) {
    for (at, name) in [owner.app(), owner.region(), owner.logic_type(), owner.id()]
        .into_iter()
        .enumerate()
    {
        text.push_str(if at > 0 { ":" } else { "" });
        text.push_str(&escape(name));
    }
}

/// The owner of a part that [`owner_part`] made. `None` for any other text.
pub(crate) fn owner_of(part: &str) -> Option<Owner> {
    let mut parts = part.split(':').map(unescape);
    let (app, region, logic_type, id) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let owner = Owner::new(&app, &region, &logic_type, &id).ok()?;
    // Without a '%' nothing was escaped.
    (!part.contains('%') || owner_part(&owner) == part).then_some(owner)
}

fn escape(part: &str) -> Cow<'_, str> {
    if part.contains([':', '%']) {
        Cow::Owned(part.replace('%', "%25").replace(':', "%3A"))
    } else {
        Cow::Borrowed(part)
    }
}

// A sequence that `escape` never makes becomes some other text here. `owner_of` detects it by
// escaping the result again.
fn unescape(part: &str) -> Cow<'_, str> {
    if part.contains('%') {
        Cow::Owned(part.replace("%3A", ":").replace("%25", "%"))
    } else {
        Cow::Borrowed(part)
    }
}

// The names that the hot tier keeps for itself in its hashes. This file alone spells them out.
// `redis/scripts/tests/names.rs` compares `RESERVED` with the scripts.

/// In the hash of an owner: version, generation and flag. Every read asks for it.
pub(crate) const HEAD: &str = ":v";
/// In the hash of an owner: when it was made, if a map named the owner then. A worker's reads ask
/// for it, too.
pub(crate) const BORN: &str = ":b";
/// In the hash of an owner: the place of its last note. A worker's reads ask for it, too.
pub(crate) const NOTED: &str = ":n";
/// In the hash of an owner: the prefix of the names of tombstones.
pub(crate) const TOMBSTONE: &str = ":d:";
/// In the record of a partition: the incarnation under which it was made.
pub(crate) const INCARNATION: &str = "inc";
/// In the record of a partition.
pub(crate) const EPOCH: &str = "epoch";
/// In the record of a partition.
pub(crate) const GENERATION: &str = "gen";
/// In the record of a partition: the version source.
pub(crate) const SOURCE: &str = "src";
/// In the record of a partition: the prefix of the names of stores. Each has the store's last call.
pub(crate) const STORE: &str = "w:";

/// All reserved names, each with its meaning.
#[cfg(test)]
pub(crate) const RESERVED: [(&str, &str); 36] = [
    // In the hash of an owner.
    (HEAD, "version, generation and flag"),
    (
        BORN,
        "when the hash was made, if a map named the owner then",
    ),
    (NOTED, "the place of the owner's last note"),
    (":t", "there may be tombstones"),
    (TOMBSTONE, "the prefix of tombstones"),
    // In the ids of operations.
    (":w", "the window of the ids"),
    (":j", "how often the clock may have leapt"),
    // In a dirty map, inside of a script alone.
    (":", "a long value that makes Redis keep the map as a table"),
    // In the record of a partition.
    (INCARNATION, "the incarnation under which it was made"),
    (EPOCH, "the epoch"),
    (GENERATION, "the generation"),
    (SOURCE, "where versions begin"),
    ("begun", "where versions of the epoch began"),
    ("adopted", "when the epoch was adopted"),
    ("stamp", "the stamp of the raise to the epoch"),
    ("landed", "how far landings reach"),
    ("collected", "how far collections reach"),
    ("db", "the database that landings go to"),
    ("first", "since when the dirty map has marks"),
    ("first_saving", "since when the snapshot has marks"),
    ("snap", "the number of the snapshot"),
    ("linked", "marks of the dirty map may have partners"),
    ("linked_saving", "marks of the other maps may have partners"),
    ("window", "the number of the window that leaves probation"),
    ("requeue", "marks on probation must become live again"),
    ("graced", "the last epoch with an ended grace"),
    ("note", "the place of the last note"),
    ("noted", "how far notes have landed"),
    (
        "older",
        "the place of the gap that tells the notes of an older hot tier",
    ),
    ("resynced", "the epoch in which lost leads were looked for"),
    (STORE, "the prefix of stores, each with its last call"),
    // In the record of the whole hot tier.
    ("token", "the token of the hot tier"),
    ("database", "the identity of the database"),
    ("partitions", "the number of partitions"),
    ("layout", "the number of the layout"),
    ("since", "when the hot tier took over"),
];

/// Whether a name of an owner's hash is no field.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name.starts_with(b":")
}

/// The field's name in the owner's hash. Reserved names begin with ':'. So a name that begins with
/// ':' or '%' gets a '%' before it.
pub(crate) fn stored(field: &Field) -> Cow<'_, str> {
    let name = field.as_str();
    if name.starts_with([':', '%']) {
        Cow::Owned(format!("%{name}"))
    } else {
        Cow::Borrowed(name)
    }
}

/// The name of the field's tombstone in the owner's hash.
pub(crate) fn tombstone(field: &Field) -> String {
    format!("{TOMBSTONE}{}", stored(field))
}

/// The field of a name that [`stored`] made. `None` for any other text.
pub(crate) fn field_of(name: &str) -> Option<Field> {
    let plain = name.strip_prefix('%').unwrap_or(name);
    let field = Field::new(plain).ok()?;
    (stored(&field) == name).then_some(field)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NAMES: [&str; 14] = [
        "a", "b", "a:b", "b:c", "%", "%3A", "%25", ":", "::", "%3A:", "a%", "{1}", "名前", " ",
    ];

    fn owners() -> impl Iterator<Item = Owner> {
        NAMES.iter().flat_map(|app| {
            NAMES.iter().flat_map(move |region| {
                NAMES.iter().flat_map(move |logic| {
                    NAMES
                        .iter()
                        .filter_map(move |id| Owner::new(app, region, logic, id).ok())
                })
            })
        })
    }

    #[test]
    fn no_two_owners_share_a_key_and_every_key_can_be_split_again() {
        let keys = Keys::new("slug");
        let mut seen = BTreeSet::new();
        for owner in owners() {
            assert_eq!(
                owner_of(&owner_part(&owner)),
                Some(owner.clone()),
                "{owner}"
            );
            assert!(
                seen.insert(keys.data(Partition(7), &owner)),
                "{owner} shares a key"
            );
        }
        assert_eq!(seen.len(), NAMES.len().pow(4));
    }

    #[test]
    fn no_field_reaches_a_reserved_name_and_every_field_comes_back() {
        let mut seen = BTreeSet::new();
        for name in [":v", ":d:x", "%:v", "%", ":", "%%", "gold", "x:y", "%3A"] {
            let field = Field::new(name).unwrap();
            let stored = stored(&field).into_owned();
            assert!(!stored.starts_with(':'), "{stored}");
            assert_eq!(field_of(&stored), Some(field));
            assert!(seen.insert(stored));
        }
    }

    #[test]
    fn text_that_somebody_else_wrote_is_no_owner_and_no_field() {
        for text in [
            "",
            "a",
            "a:b:c",
            "a:b:c:",
            "a:b:c:d:e",
            "a:b:c:%",
            "a:b:c:%41",
            "a:b:c:\n",
            ":::",
        ] {
            assert_eq!(owner_of(text), None, "{text:?}");
        }
        for text in ["", "%", "%a", ":v", "a\u{1f}"] {
            assert_eq!(field_of(text), None, "{text:?}");
        }
    }

    #[test]
    fn keys_never_change_between_releases() {
        // A fixture: stored data is found by these names.
        let (keys, owner) = (
            Keys::new("slug"),
            Owner::new("a:b", "eu", "player", "50%").unwrap(),
        );
        assert_eq!(
            keys.data(Partition(3), &owner),
            "slug-data:{3}:a%3Ab:eu:player:50%25"
        );
        assert_eq!(
            keys.exist(Partition(3), &owner),
            "slug-exist:{3}:a%3Ab:eu:player:50%25"
        );
        assert_eq!(keys.saving(Partition(3)), "slug-marks:{3}:saving");
        assert_eq!(keys.landed(Partition(3)), "slug-marks:{3}:landed");
        assert_eq!(keys.expiring(Partition(3)), "slug-marks:{3}:expiring");
        assert_eq!(keys.ops(Partition(3), 1), "slug-ops:{3}:1");
        assert_eq!(
            keys.links(Partition(3)),
            ["slug-links:{3}", "slug-links:{3}:saving"]
        );
    }
}
