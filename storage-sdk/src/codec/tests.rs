//! Old formats and types that change.

mod deep;
mod hostile;
mod refusals;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::*;

/// A value with every shape of serde.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sample {
    id: u64,
    name: String,
    level: i32,
    ratio: f32,
    exact: f64,
    alive: bool,
    mark: char,
    guild: Option<String>,
    bag: Vec<u8>,
    items: BTreeMap<String, Item>,
    place: (i16, u8, [u8; 3]),
    big: (u128, i128),
    tree: Tree,
    unit: (),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Item {
    Nothing,
    Coins(u32),
    Pair(u8, String),
    Sword { damage: u16, names: Vec<String> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Tree {
    Leaf,
    Node(Box<Tree>),
}

fn sample() -> Sample {
    let sword = Item::Sword {
        damage: 300,
        names: vec!["Sting".into()],
    };
    let items = [
        ("a", Item::Nothing),
        ("b", Item::Coins(70_000)),
        ("c", Item::Pair(1, "x".into())),
        ("d", sword),
    ];
    Sample {
        id: u64::MAX,
        name: "Ann 名".into(),
        level: -5,
        ratio: 0.5,
        exact: -1e300,
        alive: true,
        mark: 'é',
        guild: None,
        bag: vec![0, 127, 128, 255],
        items: items.map(|(key, item)| (key.to_owned(), item)).into(),
        place: (-300, 7, [1, 2, 200]),
        big: (u128::MAX, i128::MIN),
        tree: Tree::Node(Box::new(Tree::Leaf)),
        unit: (),
    }
}

/// A valid header around any payload. Hostile payloads pass the checksum with it.
fn sealed(payload: &[u8], schema_version: u32) -> Vec<u8> {
    let mut object = header::begin(schema_version);
    object.extend_from_slice(payload);
    header::seal(object)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn every_shape_of_value_comes_back_as_it_was() {
    let object = encode_checked(&sample(), 3).unwrap();
    assert_eq!(decode::<Sample>(&object, 3).unwrap(), sample());
}

#[test]
fn byte_vectors_are_stored_as_bytes_and_fields_by_name() {
    let payload = |object: Bytes| object.slice(header::LEN..);
    assert_eq!(
        payload(encode(&vec![200_u8; 1_000], 1).unwrap()).len(),
        1_003
    );
    assert!(
        encode(&sample(), 1)
            .unwrap()
            .windows(5)
            .any(|window| window == b"level")
    );
}

/// Objects of released programs. A change that breaks one of them breaks the stored data of
/// players.
mod fixtures {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Player {
        id: u64,
        level: u32,
        guild: Option<String>,
        bag: Vec<u8>,
    }

    fn player() -> Player {
        Player {
            id: 42,
            level: 1_000,
            guild: Some("Ents".into()),
            bag: vec![1, 200],
        }
    }

    const FORMAT_1: &str = "c1534f 01 5766d1dba9d3ba99 01 00 00000002
        84 a26964 2a a56c6576656c cd03e8 a56775696c64 a4456e7473 a3626167 c40201c8";

    #[test]
    fn format_1_is_written_and_read_byte_for_byte() {
        assert_eq!(hex(&encode(&player(), 2).unwrap()), hex(&bytes(FORMAT_1)));
        assert_eq!(decode::<Player>(&bytes(FORMAT_1), 2).unwrap(), player());
    }

    #[test]
    fn format_1_with_one_flipped_bit_is_refused_wherever_the_bit_is() {
        let whole = bytes(FORMAT_1);
        for bit in 0..whole.len() * 8 {
            let mut altered = whole.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let error = decode::<Player>(&altered, u32::MAX).unwrap_err();
            match bit / 8 {
                0..3 => assert!(
                    matches!(error, CodecError::NotAnObject { .. }),
                    "bit {bit}: {error}"
                ),
                3 => assert!(
                    matches!(error, CodecError::Format { newest: 1, .. }),
                    "bit {bit}: {error}"
                ),
                _ => assert!(
                    matches!(error, CodecError::Checksum { .. }),
                    "bit {bit}: {error}"
                ),
            }
        }
    }

    #[test]
    fn format_1_cut_at_any_length_is_refused() {
        let whole = bytes(FORMAT_1);
        for length in 0..whole.len() {
            let error = decode::<Player>(&whole[..length], 2).unwrap_err();
            match length {
                0..3 => assert!(
                    matches!(error, CodecError::NotAnObject { .. }),
                    "length {length}: {error}"
                ),
                3..18 => assert_eq!(
                    error,
                    CodecError::CutShort {
                        bytes: length,
                        header: 18
                    }
                ),
                _ => assert!(
                    matches!(error, CodecError::Checksum { .. }),
                    "length {length}: {error}"
                ),
            }
        }
    }
}

mod evolution {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Old {
        id: u64,
        level: u32,
        title: String,
    }

    fn old() -> Old {
        Old {
            id: 1,
            level: 9,
            title: "Sir".into(),
        }
    }

    #[test]
    fn an_added_field_with_a_default_is_read_from_objects_that_lack_it() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct New {
            id: u64,
            #[serde(default)]
            guild: Option<String>,
            level: u32,
            title: String,
        }
        let new: New = decode(&encode(&old(), 1).unwrap(), 2).unwrap();
        assert_eq!(
            new,
            New {
                id: 1,
                guild: None,
                level: 9,
                title: "Sir".into()
            }
        );
    }

    #[test]
    fn removed_and_reordered_fields_do_not_matter() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct New {
            level: u32,
            id: u64,
        }
        assert_eq!(
            decode::<New>(&encode(&old(), 1).unwrap(), 1).unwrap(),
            New { level: 9, id: 1 }
        );
    }

    #[test]
    fn an_added_field_without_a_default_is_an_error_that_names_it_and_the_way_out() {
        #[derive(Debug, Deserialize)]
        struct New {
            #[expect(dead_code, reason = "only its absence matters")]
            mana: u32,
        }
        let error = decode::<New>(&encode(&old(), 1).unwrap(), 2)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("schema version 1 is no ") && error.contains("missing field `mana`"),
            "{error}"
        );
        assert!(error.contains("#[serde(default)]"), "{error}");
    }

    #[test]
    fn an_older_program_refuses_a_newer_schema() {
        let error = decode::<Old>(&encode(&old(), 3).unwrap(), 2).unwrap_err();
        assert!(
            matches!(
                error,
                CodecError::SchemaTooNew {
                    found: 3,
                    newest: 2,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("update the program"), "{error}");
    }
}
