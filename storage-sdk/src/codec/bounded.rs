//! Writes a value as MessagePack and counts its depth. A value that is too deep gives an error
//! before the thread's stack ends.

mod byte;

use std::cell::Cell;

use rmp_serde::encode::Error as Refusal;
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};
use serde::{Serialize, Serializer};

use self::byte::OnlyByte;
use super::DEPTH_MAX;

/// The most layers around one value that recurse but leave no trace in MessagePack: `Some` and
/// newtypes.
const LAYERS_MAX: usize = 4 * DEPTH_MAX;

/// The reason why a value was not written.
pub(super) enum WriteFailure {
    /// The value nests deeper than the limit.
    TooDeep,
    /// The type refused.
    Refused(Refusal),
}

/// Appends a value to the buffer. With `bytes`, sequences of only `u8` are written as bytes.
pub(super) fn write<T: Serialize + ?Sized>(
    value: &T,
    buffer: &mut Vec<u8>,
    bytes: bool,
) -> Result<(), WriteFailure> {
    let too_deep = Cell::new(false);
    let room = Room {
        levels: DEPTH_MAX,
        layers: LAYERS_MAX,
        bytes,
        too_deep: &too_deep,
    };
    let written =
        Within { value, room }.serialize(&mut rmp_serde::Serializer::new(buffer).with_struct_map());
    match written {
        _ if too_deep.get() => Err(WriteFailure::TooDeep),
        written => written.map_err(WriteFailure::Refused),
    }
}

/// The remaining depth of a value.
#[derive(Clone, Copy)]
struct Room<'a> {
    levels: usize,
    layers: usize,
    bytes: bool,
    /// Set by the value that goes too deep. The error itself passes through the type, which may
    /// replace it.
    too_deep: &'a Cell<bool>,
}

impl Room<'_> {
    /// The remaining depth inside one more sequence or map.
    fn level<E: serde::ser::Error>(self) -> Result<Self, E> {
        self.levels
            .checked_sub(1)
            .map(|levels| Self { levels, ..self })
            .ok_or_else(|| self.refuse())
    }

    /// The remaining depth inside one more layer.
    fn layer<E: serde::ser::Error>(self) -> Result<Self, E> {
        self.layers
            .checked_sub(1)
            .map(|layers| Self { layers, ..self })
            .ok_or_else(|| self.refuse())
    }

    #[cold]
    fn refuse<E: serde::ser::Error>(self) -> E {
        self.too_deep.set(true);
        E::custom("the value nests too deep")
    }
}

/// A value with its remaining depth.
struct Within<'a, T: ?Sized> {
    value: &'a T,
    room: Room<'a>,
}

impl<T: Serialize + ?Sized> Serialize for Within<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Bounded {
            inner: serializer,
            room: self.room,
        })
    }
}

/// A serializer, or a part of one, that passes the remaining depth on to its values.
struct Bounded<'a, S> {
    inner: S,
    room: Room<'a>,
}

/// Passes simple values on.
macro_rules! simple {
    ($($method:ident($value:ty))*) => {$(
        fn $method(self, value: $value) -> Result<S::Ok, S::Error> {
            self.inner.$method(value)
        }
    )*};
}

impl<'a, S: Serializer> Serializer for Bounded<'a, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Bounded<'a, S::SerializeSeq>;
    type SerializeTuple = Bounded<'a, S::SerializeTuple>;
    type SerializeTupleStruct = Bounded<'a, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Bounded<'a, S::SerializeTupleVariant>;
    type SerializeMap = Bounded<'a, S::SerializeMap>;
    type SerializeStruct = Bounded<'a, S::SerializeStruct>;
    type SerializeStructVariant = Bounded<'a, S::SerializeStructVariant>;

    simple! {
        serialize_bool(bool) serialize_char(char) serialize_str(&str) serialize_bytes(&[u8]) serialize_unit_struct(&'static str)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64) serialize_i128(i128)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_u128(u128)
        serialize_f32(f32) serialize_f64(f64)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.serialize_some(&Within {
            value,
            room: self.room.layer()?,
        })
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_newtype_struct(
            name,
            &Within {
                value,
                room: self.room.layer()?,
            },
        )
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_newtype_variant(
            name,
            index,
            variant,
            &Within {
                value,
                room: self.room.level()?,
            },
        )
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        Ok(Bounded {
            room: self.room.level()?,
            inner: self.inner.serialize_seq(length)?,
        })
    }

    fn serialize_tuple(self, length: usize) -> Result<Self::SerializeTuple, S::Error> {
        Ok(Bounded {
            room: self.room.level()?,
            inner: self.inner.serialize_tuple(length)?,
        })
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        Ok(Bounded {
            room: self.room.level()?,
            inner: self.inner.serialize_tuple_struct(name, length)?,
        })
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let room = self.room.level()?.level()?; // a map from the variant to a sequence
        Ok(Bounded {
            room,
            inner: self
                .inner
                .serialize_tuple_variant(name, index, variant, length)?,
        })
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        Ok(Bounded {
            room: self.room.level()?,
            inner: self.inner.serialize_map(length)?,
        })
    }

    fn serialize_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        Ok(Bounded {
            room: self.room.level()?,
            inner: self.inner.serialize_struct(name, length)?,
        })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let room = self.room.level()?.level()?; // a map from the variant to a map
        Ok(Bounded {
            room,
            inner: self
                .inner
                .serialize_struct_variant(name, index, variant, length)?,
        })
    }

    fn collect_seq<I: IntoIterator<Item: Serialize>>(self, items: I) -> Result<S::Ok, S::Error> {
        let items = items.into_iter();
        let length = Some(items.size_hint())
            .filter(|(least, most)| Some(*least) == *most)
            .map(|(length, _)| length);
        let mut items = items.peekable();
        let may_be_bytes = self.room.bytes && length.is_some() && byte::may_be_bytes::<I>();
        if may_be_bytes
            && items
                .peek()
                .is_some_and(|first| first.serialize(OnlyByte).is_ok())
        {
            let bytes: Result<Vec<u8>, _> = items.map(|item| item.serialize(OnlyByte)).collect();
            return self.inner.serialize_bytes(
                &bytes.map_err(|_| S::Error::custom("the sequence begins like bytes"))?,
            );
        }
        let mut sequence = self.serialize_seq(length)?;
        items.try_for_each(|item| sequence.serialize_element(&item))?;
        sequence.end()
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// The parts of a serializer that take one value after another.
macro_rules! compound {
    ($($part:ident: $method:ident($($key:ident: $type:ty)?))*) => {$(
        impl<S: $part> $part for Bounded<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, $($key: $type,)? value: &T) -> Result<(), S::Error> {
                self.inner.$method($($key,)? &Within { value, room: self.room })
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        }
    )*};
}

compound! {
    SerializeSeq: serialize_element()
    SerializeTuple: serialize_element()
    SerializeTupleStruct: serialize_field()
    SerializeTupleVariant: serialize_field()
    SerializeStruct: serialize_field(key: &'static str)
    SerializeStructVariant: serialize_field(key: &'static str)
}

impl<S: SerializeMap> SerializeMap for Bounded<'_, S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.inner.serialize_key(&Within {
            value,
            room: self.room,
        })
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        self.inner.serialize_value(&Within {
            value,
            room: self.room,
        })
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}
