//! The SaveObject derive of the storage SDK.

mod attribute;
mod expand;

use proc_macro::TokenStream;

/// Implements `storage_sdk::SaveObject` for a struct with named fields and without generic
/// parameters.
///
/// | attribute | where | meaning |
/// | --- | --- | --- |
/// | `#[save_object(logic_type = "…")]` | struct | the kind of entity, 1 to 64 bytes. Required |
/// | `#[save_object(field = "…")]` | struct | the field that holds the object, 1 to 255 bytes. Default: "data" |
/// | `#[save_object(schema_version = N)]` | struct | the version of the stored form, from 1. Default: 1 |
/// | `#[save_object(durability = EXPRESSION)]` | struct | the durability of saves, unless a save or the settings set another one. Default: that of all writes |
/// | `#[save_object(owner_id)]` | one field | the id of the owner |
///
/// An attribute that is missing, repeated, unknown or out of bounds is a compile error at its
/// place.
///
/// ```
/// use std::time::Duration;
/// use serde::{Deserialize, Serialize};
/// use storage_sdk::{Durability, InGroup, SaveObject};
///
/// #[derive(Serialize, Deserialize, SaveObject)]
/// #[save_object(logic_type = "bank", durability = Durability::Landed { timeout: Duration::from_secs(10) })]
/// struct Bank {
///     #[save_object(owner_id)]
///     id: InGroup<String, u32>, // the guild, and the number of the account
///     gold: u64,
/// }
/// assert_eq!((Bank::LOGIC_TYPE, Bank::FIELD, Bank::SCHEMA_VERSION), ("bank", "data", 1));
/// ```
#[proc_macro_derive(SaveObject, attributes(save_object))]
pub fn derive_save_object(input: TokenStream) -> TokenStream {
    expand::expand(input.into())
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
