//! The SaveObject derive as a game uses it.

use serde::{Deserialize, Serialize};
use storage_sdk::{OwnerId, SaveObject, codec};

#[derive(Debug, PartialEq, Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "player")]
struct Player {
    #[save_object(owner_id)]
    id: u64,
    level: u32,
    bag: Vec<u8>,
}

#[derive(Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "guild", field = "rules")]
#[save_object(schema_version = 7)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) struct Guild {
    members: Vec<u64>,
    #[serde(rename = "key")]
    #[save_object(owner_id)]
    pub(crate) r#type: String,
}

#[test]
fn the_derive_says_where_objects_are_stored() {
    assert_eq!(
        (Player::LOGIC_TYPE, Player::FIELD, Player::SCHEMA_VERSION),
        ("player", "data", 1)
    );
    assert_eq!(
        (Guild::LOGIC_TYPE, Guild::FIELD, Guild::SCHEMA_VERSION),
        ("guild", "rules", 7)
    );
}

#[test]
fn the_marked_field_names_the_owner() {
    let player = Player {
        id: 42,
        level: 1,
        bag: vec![],
    };
    assert_eq!(player.owner_id().to_owner_id(), "42");
    let guild = Guild {
        members: vec![1],
        r#type: "Ents".into(),
    };
    assert_eq!(guild.owner_id(), "Ents");
}

#[test]
fn any_derived_type_can_be_stored_and_read_by_code_that_knows_the_trait_alone() {
    fn stored<T: SaveObject>(object: &T) -> (String, T) {
        let bytes = codec::encode_checked(object, T::SCHEMA_VERSION).unwrap();
        (
            object.owner_id().to_owner_id().into_owned(),
            codec::decode(&bytes, T::SCHEMA_VERSION).unwrap(),
        )
    }
    let player = Player {
        id: u64::MAX,
        level: 3,
        bag: vec![0, 255],
    };
    assert_eq!(stored(&player), ("18446744073709551615".to_owned(), player));
}
