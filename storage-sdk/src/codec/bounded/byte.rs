//! The decision whether a sequence is bytes. MessagePack's form for bytes is much smaller, but
//! serde has one type for both.

use std::fmt;

use serde::ser::Impossible;
use serde::{Serialize, Serializer};

/// Whether the items may be a slice or vector of bytes, as far as sizes tell. Then an item is a
/// byte or a reference, and the iterator is a pointer and a length. Sets of bytes and similar types
/// can't be read from bytes.
pub(super) fn may_be_bytes<I: IntoIterator>() -> bool {
    let item = size_of::<I::Item>();
    (item == 1 || item == size_of::<&u8>())
        && size_of::<I::IntoIter>() <= size_of::<std::slice::Iter<'_, u8>>()
}

/// Accepts a `u8` and nothing else.
pub(super) struct OnlyByte;

/// Anything other than a `u8`.
#[derive(Debug)]
pub(super) struct NoByte;

impl fmt::Display for NoByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a byte")
    }
}

impl std::error::Error for NoByte {}

impl serde::ser::Error for NoByte {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Rejects values with these arguments.
macro_rules! refused {
    ($($method:ident($($argument:ty),*) -> $ok:ty;)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<$ok, NoByte> {
            Err(NoByte)
        }
    )*};
}

/// Rejects types that hold a value.
macro_rules! refused_holder {
    ($($method:ident($($argument:ty),*);)*) => {$(
        fn $method<T: Serialize + ?Sized>(self, $(_: $argument,)* _: &T) -> Result<u8, NoByte> {
            Err(NoByte)
        }
    )*};
}

impl Serializer for OnlyByte {
    type Ok = u8;
    type Error = NoByte;
    type SerializeSeq = Impossible<u8, NoByte>;
    type SerializeTuple = Impossible<u8, NoByte>;
    type SerializeTupleStruct = Impossible<u8, NoByte>;
    type SerializeTupleVariant = Impossible<u8, NoByte>;
    type SerializeMap = Impossible<u8, NoByte>;
    type SerializeStruct = Impossible<u8, NoByte>;
    type SerializeStructVariant = Impossible<u8, NoByte>;

    fn serialize_u8(self, byte: u8) -> Result<u8, NoByte> {
        Ok(byte)
    }

    refused! {
        serialize_bool(bool) -> u8;
        serialize_i8(i8) -> u8;
        serialize_i16(i16) -> u8;
        serialize_i32(i32) -> u8;
        serialize_i64(i64) -> u8;
        serialize_i128(i128) -> u8;
        serialize_u16(u16) -> u8;
        serialize_u32(u32) -> u8;
        serialize_u64(u64) -> u8;
        serialize_u128(u128) -> u8;
        serialize_f32(f32) -> u8;
        serialize_f64(f64) -> u8;
        serialize_char(char) -> u8;
        serialize_str(&str) -> u8;
        serialize_bytes(&[u8]) -> u8;
        serialize_none() -> u8;
        serialize_unit() -> u8;
        serialize_unit_struct(&'static str) -> u8;
        serialize_unit_variant(&'static str, u32, &'static str) -> u8;
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }

    refused_holder! {
        serialize_some();
        serialize_newtype_struct(&'static str);
        serialize_newtype_variant(&'static str, u32, &'static str);
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}
