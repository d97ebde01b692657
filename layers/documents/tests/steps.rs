//! Steps of several changes, with a clock that the test sets.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use storage_documents::step::ItemChange;
use storage_documents::{Call, Changed, Conditions, Documents, Edit, Kind, Path};
use storage_sdk::{Clock, ManualClock, Storage, Timestamp};

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

fn change(path: &str, edit: Edit) -> Result<ItemChange> {
    Ok(ItemChange {
        path: Path::new(path)?,
        edit,
        conditions: Conditions::default(),
        lives: None,
    })
}

fn put(path: &str) -> Result<ItemChange> {
    change(path, Edit::put(b"{}")?)
}

fn ids(changes: &[Changed]) -> Vec<&str> {
    let ids = changes.iter().map(|change| change.path.as_str());
    ids.filter_map(|path| path.rsplit('/').next()).collect()
}

#[tokio::test]
async fn a_step_gives_no_id_that_is_taken_or_that_another_change_of_it_names() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let storage = Storage::embedded(folder.path().join("x.db")).await?;
    let clock = Arc::new(ManualClock::new(NOW));
    let documents = Documents::new(&storage, "a", "r")?.with_clock(clock);
    let call = Call::default();
    let posts = [put("a~")?, put("a~")?, put("a~")?, put("a~")?];
    let given = documents.edit_together(&posts, &call).await?;
    let given = ids(&given);
    assert!(given.is_sorted_by(|one, next| one < next), "{given:?}");
    let [first, second, third, fourth] = given.as_slice() else {
        anyhow::bail!("{given:?}");
    };
    // In another collection, at the same moment.
    documents
        .put(&Path::item("b~", first)?, b"{}", &call)
        .await?;
    let named = put(&format!("b~/{second}"))?;
    let made = documents
        .edit_together(&[put("b~")?, named, put("b~")?], &call)
        .await?;
    assert_eq!(ids(&made), [*third, *second, *fourth]);
    assert_eq!(
        made.iter().map(|change| change.count).collect::<Vec<_>>(),
        [Some(2), Some(3), Some(4)]
    );
    let next = documents.post(&Path::new("b~")?, b"{}", &call).await?;
    assert!(*fourth < ids(&[next]).concat().as_str());
    Ok(())
}

/// An item that has ended counts until it is swept.
#[tokio::test]
async fn a_step_over_an_item_that_has_ended_creates_it_and_does_not_count_it_twice() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let storage = Storage::embedded(folder.path().join("x.db")).await?;
    let clock = Arc::new(ManualClock::new(NOW));
    let documents = Documents::new(&storage, "a", "r")?.with_clock(clock.clone());
    let call = Call::default();
    let mut short = put("a~/1")?;
    short.lives = Some(Duration::from_secs(1));
    documents
        .edit_together(&[short, put("a~/2")?], &call)
        .await?;
    clock.advance(Duration::from_secs(2));
    assert!(clock.now() > NOW);
    let deletion = change("a~/1", Edit::delete())?;
    let refused = documents
        .edit_together(&[put("a~/2")?, deletion], &call)
        .await;
    let refused = refused
        .err()
        .map(|error| (error.kind().clone(), error.place()));
    assert_eq!(refused, Some((Kind::Missing, Some(1))));
    let made = documents
        .edit_together(&[put("a~/1")?, put("a~/3")?], &call)
        .await?;
    let told: Vec<_> = made
        .iter()
        .map(|change| (change.created, change.revision, change.count))
        .collect();
    assert_eq!(told, [(true, 3, Some(2)), (true, 4, Some(3))]);
    Ok(())
}
