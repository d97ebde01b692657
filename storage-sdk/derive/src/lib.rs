//! The SaveObject derive of the storage SDK.
