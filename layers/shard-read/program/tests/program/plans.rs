//! Plans that follow each other under load.

use anyhow::Result;

use crate::load::{Load, PLAYERS};
use crate::place::{Place, client};

pub(crate) async fn a_plan_is_retired_only_when_all_keys_of_its_data_centre_are_served_without_it(
    place: Place,
) -> Result<()> {
    place.write(0..PLAYERS).await?;
    let retire = ["retire", "--dc", "a", "--plan", "1"];
    assert_eq!(
        place.run(&retire).await?.status.code(),
        Some(1),
        "there is no plan"
    );
    place.ok(&["plan", "--dc", "a", "--shards", "1"]).await?;
    let mut old = place.serve("a", &["--on-lost", "end"]).await?;
    place.served().await?;
    assert_eq!(
        place.run(&retire).await?.status.code(),
        Some(6),
        "it is the only plan"
    );
    place.ok(&["plan", "--dc", "a", "--shards", "2"]).await?;
    let first = place.serve("a", &[]).await?;
    let refused = place.run(&retire).await?;
    assert_eq!(
        refused.status.code(),
        Some(6),
        "a range of the next plan is without a server"
    );
    assert!(String::from_utf8(refused.stderr)?.contains("plan 2"));
    let second = place.serve("a", &[]).await?;
    let load = Load::start(&client([&old, &first, &second])?);
    load.goes_on().await?;
    place.served().await?;
    place.ok(&retire).await?;
    assert_eq!(old.code().await?, Some(1), "its plan is gone");
    let text = place.served().await?;
    assert!(!text.contains("plan 1"), "{text}");
    load.end().await
}

pub(crate) async fn a_plan_is_retired_in_place_while_another_data_centre_answers(
    place: Place,
) -> Result<()> {
    place.write(0..PLAYERS).await?;
    place.ok(&["plan", "--dc", "a", "--shards", "1"]).await?;
    let first = place.serve("a", &[]).await?;
    let second = place.serve("a", &[]).await?;
    place.served().await?;
    place.ok(&["plan", "--dc", "a", "--shards", "2"]).await?;
    let retire = ["retire", "--dc", "a", "--plan", "1", "--in-place"];
    assert_eq!(
        place.run(&retire).await?.status.code(),
        Some(6),
        "nobody else answers"
    );
    place.ok(&["plan", "--dc", "b", "--shards", "1"]).await?;
    let other = place.serve("b", &[]).await?;
    place.ok(&["status", "--wait", "--dc", "b"]).await?;
    let load = Load::start(&client([&first, &second, &other])?);
    load.goes_on().await?;
    place.ok(&retire).await?;
    let text = place.served().await?;
    assert!(!text.contains("a plan 1"), "{text}");
    load.end().await
}
