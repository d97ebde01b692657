//! The SaveObject derive as a game uses it.

use serde::{Deserialize, Serialize};
use storage_sdk::{Kind, OwnerId, SaveObject, Storage, codec};

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

/// Drops the id of the owner, as a wrong serde attribute does.
mod nothing {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(_: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        0_u64.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        u64::deserialize(from)
    }
}

#[derive(Serialize, Deserialize, SaveObject)]
#[save_object(logic_type = "player")]
struct Lossy {
    #[save_object(owner_id)]
    #[serde(with = "nothing")]
    id: u64,
    level: u32,
}

#[tokio::test]
async fn an_owner_id_that_is_not_stored_as_it_is_never_leads_to_another_owner() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::embedded(folder.path().join("game.db"))
        .await
        .unwrap();
    let world = storage.world("game", "eu").unwrap();
    let lossy = world.objects::<Lossy>();
    let refused = lossy.save(&Lossy { id: 42, level: 1 }).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid, "{refused}");
    assert!(
        refused
            .to_string()
            .contains("\"42\" would be read back as \"0\""),
        "{refused}"
    );

    // Stored by a program that did not look: the bytes of one owner under another.
    let bytes = codec::encode(
        &Player {
            id: 7,
            level: 3,
            bag: vec![],
        },
        1,
    )
    .unwrap();
    let ann = world.bytes().owner("player", 42_u64).unwrap();
    ann.update([("data", bytes)]).await.unwrap();
    let players = world.objects::<Player>();
    let corrupt = players.load(42_u64).await.unwrap_err();
    assert_eq!(corrupt.kind(), Kind::Corrupt, "{corrupt}");
    let changed = players
        .create(&Player {
            id: 8,
            level: 1,
            bag: vec![],
        })
        .await;
    changed.unwrap();
    let moved = players
        .edit(8_u64, |player| player.id = 9)
        .await
        .unwrap_err();
    assert!(moved.to_string().contains("must not change"), "{moved}");
}

#[test]
fn an_object_that_a_type_does_not_accept_is_refused_with_the_name_of_the_field() {
    #[derive(Serialize, Deserialize)]
    struct Wide {
        level: u32,
        bag: Vec<u16>,
        name: String,
    }
    #[derive(Debug, Serialize, Deserialize)]
    struct Narrow {
        level: u8,
        bag: Vec<u8>,
        name: String,
    }
    #[derive(Debug, Serialize, Deserialize)]
    struct Retyped {
        name: u8,
    }
    let wide = |level, item| {
        let name = "secret".to_owned();
        codec::encode(
            &Wide {
                level,
                bag: vec![1, item],
                name,
            },
            1,
        )
        .unwrap()
    };
    let said = |bytes: &[u8]| codec::decode::<Narrow>(bytes, 1).unwrap_err().to_string();
    assert!(codec::decode::<Narrow>(&wide(255, 255), 1).is_ok());
    let level = said(&wide(256, 1));
    assert!(
        level.contains("field level: ") && level.contains("u8"),
        "{level}"
    );
    let bag = said(&wide(1, 256));
    assert!(bag.contains("field bag: "), "{bag}");
    let retyped = codec::decode::<Retyped>(&wide(1, 1), 1)
        .unwrap_err()
        .to_string();
    assert!(
        retyped.contains("field name: ") && !retyped.contains("secret"),
        "{retyped}"
    );
    assert!(retyped.contains("reads both types"), "{retyped}");
}
