//! Rejected values and bytes, and their messages.

use super::*;

#[test]
fn values_that_are_no_objects_are_told_by_how_they_begin() {
    let error = decode::<u8>(b"{\"id\":1}", 1).unwrap_err().to_string();
    assert!(
        error.starts_with("the value is not a stored object: it begins with 7b 22 69 64"),
        "{error}"
    );
    let error = decode::<u8>(b"", 1).unwrap_err().to_string();
    assert!(
        error.starts_with("the value is not a stored object: it is empty"),
        "{error}"
    );
}

#[test]
fn unknown_codecs_and_compressions_are_refused_by_number() {
    for (byte, expected) in [
        (12, CodecError::Codec { found: 9 }),
        (13, CodecError::Compression { found: 9 }),
    ] {
        let mut object = sealed(&[0xc0], 1);
        object[byte] = 9;
        assert_eq!(decode::<()>(&header::seal(object), 1), Err(expected));
    }
}

#[test]
fn bytes_after_the_value_are_counted_and_refused() {
    assert_eq!(decode::<u8>(&sealed(&[7], 1), 1), Ok(7));
    assert_eq!(
        decode::<u8>(&sealed(&[7, 7, 7], 1), 1),
        Err(CodecError::TrailingBytes { bytes: 2 })
    );
}

#[test]
fn nesting_up_to_the_limit_is_stored_and_beyond_it_refused_by_both_directions() {
    let tree = |levels: usize| (0..levels).fold(Tree::Leaf, |tree, _| Tree::Node(Box::new(tree)));
    let deepest = tree(DEPTH_MAX);
    assert_eq!(
        decode::<Tree>(&encode(&deepest, 1).unwrap(), 1).unwrap(),
        deepest
    );
    assert_eq!(
        encode(&tree(DEPTH_MAX + 1), 1),
        Err(CodecError::TooDeep { limit: DEPTH_MAX })
    );
    // A million levels of {"Node": …}: the decoder alone would end the process here.
    let payload = [[0x81, 0xa4].as_slice(), b"Node"]
        .concat()
        .repeat(1_000_000);
    assert_eq!(
        decode::<Tree>(&sealed(&[&payload[..], b"\xa4Leaf"].concat(), 1), 1),
        Err(CodecError::TooDeep { limit: DEPTH_MAX })
    );
}

#[test]
fn a_type_that_refuses_to_be_written_is_an_error_with_its_reason() {
    struct Refuses;
    impl Serialize for Refuses {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no gold"))
        }
    }
    let error = encode(&Refuses, 1).unwrap_err();
    assert!(
        matches!(&error, CodecError::Encode { reason, .. } if reason == "no gold"),
        "{error}"
    );
}

#[test]
fn an_error_tells_what_was_expected_and_no_value() {
    #[derive(Debug, Deserialize)]
    enum Class {
        Mage,
    }
    fn said<T: serde::de::DeserializeOwned + std::fmt::Debug>(value: &impl Serialize) -> String {
        match decode::<T>(&encode(value, 1).unwrap(), 1) {
            Err(CodecError::Decode { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(
        decode::<Class>(&encode("Mage", 1).unwrap(), 1),
        Ok(Class::Mage)
    ));
    let texts = [
        "Ann",
        r#"Ann", expected "Ben"#,
        "a `Ann` b",
        "Ann, expected Ann",
    ];
    for text in texts {
        assert_eq!(
            said::<Vec<u32>>(&text),
            "invalid type: string …, expected a sequence",
            "{text}"
        );
    }
    assert_eq!(said::<Class>(&"Ann"), "unknown variant …, expected `Mage`");
    assert_eq!(
        said::<u8>(&777_u16),
        "invalid value: integer …, expected u8"
    );
    assert_eq!(
        said::<String>(&1.25),
        "invalid type: floating point …, expected a string"
    );
    assert_eq!(said::<u32>(&"Ann"), "wrong msgpack marker FixStr(3)");
}

#[test]
fn a_type_that_lies_about_its_length_is_refused_before_it_is_stored() {
    struct Lies;
    impl Serialize for Lies {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serde::ser::SerializeSeq::end(serializer.serialize_seq(Some(3))?)
        }
    }
    assert!(matches!(encode(&Lies, 1), Err(CodecError::Encode { .. })));

    struct Understates;
    impl Serialize for Understates {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut sequence = serializer.serialize_seq(Some(1))?;
            for text in ["a", "b"] {
                serde::ser::SerializeSeq::serialize_element(&mut sequence, text)?;
            }
            serde::ser::SerializeSeq::end(sequence)
        }
    }
    assert!(matches!(
        encode(&Understates, 1),
        Err(CodecError::Encode { .. })
    ));
}

#[test]
fn a_sequence_that_only_begins_like_bytes_is_stored_as_a_sequence() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(untagged)]
    enum Mixed {
        Number(u8),
        Text(String),
    }
    let mixed = vec![Mixed::Number(1), Mixed::Text("a".into())];
    assert_eq!(
        decode::<Vec<Mixed>>(&encode(&mixed, 1).unwrap(), 1).unwrap(),
        mixed
    );
}

#[test]
fn a_type_that_cannot_read_what_it_writes_is_refused_when_checked() {
    #[derive(Serialize, Deserialize)]
    struct Skips {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        bag: Vec<u32>,
    }
    let error = encode_checked(&Skips { bag: vec![] }, 1).unwrap_err();
    assert!(
        matches!(&error, CodecError::Unreadable { reason, .. } if reason == "missing field `bag`"),
        "{error}"
    );
    let message = error.to_string();
    assert!(
        message.contains("needs #[serde(default)]") && !message.contains("byte vector"),
        "{message}"
    );
}

#[test]
fn bytes_and_large_integers_that_serde_cannot_read_below_its_containers_are_refused_when_checked() {
    #[derive(Serialize, Deserialize)]
    struct Inner<T> {
        value: T,
    }
    #[derive(Serialize, Deserialize)]
    struct Flat<T> {
        #[serde(flatten)]
        inner: Inner<T>,
    }
    #[derive(Serialize, Deserialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        Bag(Inner<Vec<u8>>),
    }
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Bag(Inner<Vec<u8>>),
    }
    fn refused<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> bool {
        matches!(encode_checked(value, 1), Err(CodecError::Unreadable { .. }))
    }
    fn told<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> String {
        encode_checked(value, 1).unwrap_err().to_string()
    }
    let bytes = || Inner {
        value: vec![1_u8, 2],
    };
    assert!(
        refused(&Flat { inner: bytes() })
            && refused(&Flat {
                inner: Inner { value: 1_u128 }
            })
    );
    assert!(refused(&Tagged::Bag(bytes())) && refused(&Untagged::Bag(bytes())));
    assert!(!refused(&Flat {
        inner: Inner { value: vec![1_u32] }
    }));
    assert!(
        !refused(&Tagged::Bag(Inner { value: vec![] })),
        "an empty byte vector is written as an empty list"
    );
    for message in [
        told(&Tagged::Bag(bytes())),
        told(&Untagged::Bag(bytes())),
        told(&Flat {
            inner: Inner { value: 1_u128 },
        }),
    ] {
        assert!(
            message.contains("byte vector") && message.contains("128-bit integer"),
            "{message}"
        );
    }
}

#[test]
fn the_advice_names_byte_vectors_only_where_they_are_at_fault() {
    #[derive(Serialize)]
    struct Two {
        level: u8,
        #[serde(rename = "level")]
        again: u8,
    }
    #[derive(Deserialize)]
    struct One {
        #[expect(dead_code, reason = "only its name matters")]
        level: u8,
    }
    struct Twice;
    impl Serialize for Twice {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            Two { level: 1, again: 2 }.serialize(serializer)
        }
    }
    impl<'de> Deserialize<'de> for Twice {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            One::deserialize(deserializer).map(|_| Self)
        }
    }
    let message = encode_checked(&Twice, 1).unwrap_err().to_string();
    assert!(
        message.contains("duplicate field `level`; change the type")
            && !message.contains("byte vector"),
        "{message}"
    );
}

#[test]
fn an_option_within_an_option_comes_back_as_none() {
    let object = encode(&(Some(None::<u8>), Some(())), 1).unwrap();
    assert_eq!(
        decode::<(Option<Option<u8>>, Option<()>)>(&object, 1).unwrap(),
        (None, None)
    );
}

#[test]
fn errors_quote_at_most_some_hundred_characters_of_a_value() {
    let object = encode(&"名".repeat(100_000), 1).unwrap();
    let error = decode::<Item>(&object, 1).unwrap_err().to_string();
    assert!(
        error.contains('…') && error.chars().count() < 500,
        "{error}"
    );
}
