//! All bags and profiles, as Redis has them and as the database has them.

use anyhow::Context as _;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection as _, Row as _};
use storage_sdk::{SaveObject as _, Storage, codec};

use super::count::Found;
use super::stage::Stage;
use crate::bag::BAG;
use crate::profile::Profile;

/// Reads all bags and profiles by the SDK, which asks Redis first.
///
/// # Errors
/// The storage fails, or a value is not of this game.
pub async fn in_redis(stage: &Stage) -> anyhow::Result<Found> {
    let storage = Storage::open(stage.settings.clone()).await?;
    let bytes = storage.world("guilds", "eu-1")?.bytes();
    let mut found = Found::default();
    for logic_type in [BAG, Profile::LOGIC_TYPE] {
        let mut pages = bytes.owners(logic_type).await?;
        while let Some(page) = pages.next().await? {
            for owner in page {
                let record = bytes.owner(logic_type, owner.id())?.get_all().await?;
                for (field, value) in record.iter() {
                    add(&mut found, logic_type, owner.id(), field.as_str(), value)?;
                }
            }
        }
    }
    Ok(found)
}

/// Reads all bags and profiles by plain SQL.
///
/// # Errors
/// The database can't be read, or a value is not of this game.
pub async fn in_database(stage: &Stage) -> anyhow::Result<Found> {
    let mut connection = MySqlConnection::connect(&stage.database.url()).await?;
    let live = "SELECT logic_type, owner_id, field, value FROM landing_rows WHERE is_del = 0";
    let mut found = Found::default();
    for row in sqlx::query(live).fetch_all(&mut connection).await? {
        let text = |column: usize| anyhow::Ok(String::from_utf8(row.try_get(column)?)?);
        add(&mut found, &text(0)?, &text(1)?, &text(2)?, row.try_get(3)?)?;
    }
    Ok(found)
}

/// Adds one stored field: a number of a bag, or a profile.
fn add(
    found: &mut Found,
    logic_type: &str,
    owner: &str,
    field: &str,
    value: &[u8],
) -> anyhow::Result<()> {
    if logic_type == Profile::LOGIC_TYPE {
        let profile: Profile = codec::decode(value, Profile::SCHEMA_VERSION)?;
        found.xp.insert(profile.id, profile.xp);
        return Ok(());
    }
    let number = std::str::from_utf8(value)?.parse();
    let number = number.with_context(|| format!("{field} of {owner} is no number"))?;
    let bag = found.bags.entry(owner.to_owned()).or_default();
    bag.insert(field.to_owned(), number);
    Ok(())
}
