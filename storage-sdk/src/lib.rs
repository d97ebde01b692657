//! The storage SDK that a game server links: ByteStorage and ObjStorage.

// The derive names items as `::storage_sdk::…`, also within this crate.
extern crate self as storage_sdk;

pub mod codec;
mod save_object;

pub use codec::CodecError;
pub use save_object::{OwnerId, SaveObject};
pub use storage_sdk_derive::SaveObject;
