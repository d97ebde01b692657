//! Types with stored objects, and the place of these objects.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use storage_model::Durability;

/// A type with stored objects, one for each owner.
///
/// Derive it:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use storage_sdk::SaveObject;
///
/// #[derive(Serialize, Deserialize, SaveObject)]
/// #[save_object(logic_type = "player", schema_version = 2)]
/// struct Player {
///     #[save_object(owner_id)]
///     id: u64,
///     level: u32,
///     #[serde(default)] // added in version 2: objects of version 1 are read as None
///     guild: Option<String>,
/// }
///
/// assert_eq!((Player::LOGIC_TYPE, Player::FIELD, Player::SCHEMA_VERSION), ("player", "data", 2));
/// assert_eq!(Player { id: 42, level: 1, guild: None }.owner_id(), &42);
/// ```
///
/// The derive takes:
/// - `logic_type = "…"`: the kind of entity, 1 to 64 bytes. Required.
/// - `field = "…"`: the owner's field that holds the object, 1 to 255 bytes. Default: "data". Types
///   that share a logic type need different fields.
/// - `schema_version = N`: the version of the stored form, from 1. Default: 1. Raise it when
///   programs that know only the older form must not touch the newer one.
/// - `durability = EXPRESSION`: the [`Durability`] of saves, unless the save or the settings set
///   another one.
/// - `owner_id` on exactly one field: the id of the owner. It is stored with the object.
///
/// Names hold any UTF-8 except control characters. The derive checks them at compile time. The
/// names of a hand-written implementation are checked on use.
///
/// [`codec`](crate::codec) describes the stored bytes, and the ways in which a type may change.
pub trait SaveObject: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The kind of entity, such as "player": a part of the owner's name, 1 to 64 bytes. A new value
    /// loses sight of the stored objects.
    const LOGIC_TYPE: &'static str;

    /// The owner's field that holds the object, 1 to 255 bytes. Default: "data". A new value loses
    /// sight of the stored objects.
    const FIELD: &'static str = "data";

    /// The version of the type's stored form. Default: 1. Objects of a greater version are
    /// rejected, and objects of a smaller version are read.
    const SCHEMA_VERSION: u32 = 1;

    /// The durability of saves and removals, unless the call or the settings of the logic type set
    /// another one. Default: the durability of all writes.
    const DURABILITY: Option<Durability> = None;

    /// The type of the owner's id.
    type OwnerId: OwnerId;

    /// The id of the object's owner. It must not change while the object is stored, because another
    /// id is another owner.
    fn owner_id(&self) -> &Self::OwnerId;
}

/// The id of an owner: a string, an integer, a UUID, or a reference to one of them.
///
/// The stored name is a text, the same on every machine and in every release. A string is stored as
/// it is, an integer in decimal, and a UUID in lower case with hyphens. Equal texts name the same
/// owner, even from different types (`42_u64`, `42_i8` and `"42"`). Different texts name different
/// owners (`"42"` and `"042"`). The length (1 to 255 bytes) and the characters are checked on use.
///
/// An id type of the game forwards to one of these:
///
/// ```
/// use std::borrow::Cow;
/// use storage_sdk::OwnerId;
///
/// struct PlayerId(u64);
///
/// impl OwnerId for PlayerId {
///     fn to_owner_id(&self) -> Cow<'_, str> {
///         self.0.to_owner_id()
///     }
/// }
///
/// assert_eq!(PlayerId(42).to_owner_id(), "42");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot name an owner",
    label = "not an owner id",
    note = "strings, integers and `Uuid` can; implement `storage_sdk::OwnerId` for a type that wraps one"
)]
pub trait OwnerId {
    /// The text that names the owner. Equal ids must always give equal texts.
    fn to_owner_id(&self) -> Cow<'_, str>;
}

impl OwnerId for str {
    fn to_owner_id(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl OwnerId for String {
    fn to_owner_id(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl OwnerId for Cow<'_, str> {
    fn to_owner_id(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl OwnerId for uuid::Uuid {
    fn to_owner_id(&self) -> Cow<'_, str> {
        Cow::Owned(self.hyphenated().to_string())
    }
}

macro_rules! decimal {
    ($($integer:ty),*) => {$(
        impl OwnerId for $integer {
            fn to_owner_id(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        }
    )*};
}

decimal!(
    u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize
);

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<T: OwnerId + ?Sized> OwnerId for $pointer {
            fn to_owner_id(&self) -> Cow<'_, str> {
                (**self).to_owner_id()
            }
        }
    )*};
}

forward!(&T, Box<T>, Arc<T>, Rc<T>);

/// The id of an owner of a group: `InGroup("guild-7", 42)` is stored as `{guild-7}/42`.
///
/// Owners of one group share a partition, so one [`Transaction`](crate::Transaction) can change
/// several of them. An object of a group has its id in a field of this type. The owner keeps its
/// group for life, because the tag is part of its name. The tag must not hold a `}`.
///
/// ```
/// use storage_sdk::{InGroup, OwnerId};
///
/// assert_eq!(InGroup("guild-7", 42).to_owner_id(), "{guild-7}/42");
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct InGroup<G, I>(pub G, pub I);

impl<G: OwnerId, I: OwnerId> OwnerId for InGroup<G, I> {
    fn to_owner_id(&self) -> Cow<'_, str> {
        let Self(group, id) = self;
        Cow::Owned(format!("{{{}}}/{}", group.to_owner_id(), id.to_owner_id()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: impl OwnerId) -> String {
        id.to_owner_id().into_owned()
    }

    #[test]
    fn integers_of_every_width_name_owners_in_decimal() {
        assert_eq!(
            (text(0_u8), text(u16::MAX), text(7_u32), text(u64::MAX)),
            (
                "0".into(),
                "65535".into(),
                "7".into(),
                "18446744073709551615".into()
            )
        );
        assert_eq!(
            (text(-1_i8), text(i16::MIN), text(-0_i32), text(i64::MIN)),
            (
                "-1".into(),
                "-32768".into(),
                "0".into(),
                "-9223372036854775808".into()
            )
        );
        assert_eq!(text(u128::MAX), "340282366920938463463374607431768211455");
        assert_eq!(text(i128::MIN), "-170141183460469231731687303715884105728");
        assert_eq!(
            (text(42_usize), text(-42_isize)),
            ("42".into(), "-42".into())
        );
    }

    #[test]
    fn strings_name_owners_as_they_are_and_are_not_copied() {
        let name = "名前:{a} 042".to_owned();
        assert!(matches!(name.to_owner_id(), Cow::Borrowed(text) if text == name));
        assert!(matches!(name.as_str().to_owner_id(), Cow::Borrowed(text) if text == name));
        assert_eq!(text(Cow::Borrowed(name.as_str())), name);
        assert_eq!(text(Arc::<str>::from(name.as_str())), name);
        assert_eq!(text(Rc::<str>::from(name.as_str())), name);
        assert_eq!(text(Box::<str>::from(name.as_str())), name);
        let reference: &&str = &name.as_str();
        assert_eq!(text(reference), name);
    }

    #[test]
    fn uuids_name_owners_in_lower_case_with_hyphens() {
        let id = uuid::Uuid::from_u128(0x67E5_5044_10B1_426F_9247_BB68_0E5F_E0C8);
        assert_eq!(text(id), "67e55044-10b1-426f-9247-bb680e5fe0c8");
        assert_eq!(
            text(uuid::Uuid::nil()),
            "00000000-0000-0000-0000-000000000000"
        );
    }
}
