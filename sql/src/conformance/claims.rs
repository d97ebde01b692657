//! V3: plans, and the claims of their shards.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;
use storage_model::{SeededIds, Token};
use tokio::sync::Barrier;

use super::fences::pair;
use super::gate::{Gate, Losing, Lost};
use super::{Harness, live, owner};
use crate::claims::{
    ClaimStore, ClaimToken, DataCentre, Holder, RANGES_MAX, Ranges, ServiceName, ShardKey, ShardRow,
};
use crate::{Cold, ColdKind, Opening, SchemaState, migrate};

/// How many servers start at once.
const SERVERS: usize = 32;

fn claims(store: &Cold) -> &dyn ClaimStore {
    store.layers.claims().expect("every database has this part")
}

fn service() -> ServiceName {
    ServiceName::new("goals-2").unwrap()
}

fn dc(name: &str) -> DataCentre {
    DataCentre::new(name).unwrap()
}

fn holder(number: usize) -> Holder {
    Holder::new(&format!("goals-{number}:7000")).unwrap()
}

/// A token of a number. Claims of one test have different numbers.
fn token(number: usize) -> ClaimToken {
    ClaimToken::draw(&SeededIds::new(number as u64))
}

/// Adds a plan of so many ranges in the data centre a, and returns its number.
async fn add(store: &Cold, ranges: usize) -> u32 {
    add_to(store, "a", &Ranges::even(ranges).unwrap()).await
}

/// Adds a plan in this data centre, and returns its number.
async fn add_to(store: &Cold, name: &str, ranges: &Ranges) -> u32 {
    let (service, dc) = (service(), dc(name));
    let added = claims(store).add_plan(&service, &dc, ranges);
    added.await.unwrap()
}

/// Drops a plan in this data centre, and returns how many shards it had.
async fn drop_from(store: &Cold, name: &str, plan: u32) -> u64 {
    let (service, dc) = (service(), dc(name));
    let dropped = claims(store).drop_plan(&service, &dc, plan);
    dropped.await.unwrap()
}

/// The shards of the data centre a.
async fn list(store: &Cold) -> Vec<ShardRow> {
    let (service, dc) = (service(), dc("a"));
    let listed = claims(store).list(&service, Some(&dc));
    listed.await.unwrap()
}

/// The one shard of the data centre a.
async fn only(store: &Cold) -> ShardRow {
    let mut shards = list(store).await;
    assert_eq!(shards.len(), 1);
    shards.remove(0)
}

async fn claim(store: &Cold, seen: &ShardRow, number: usize) -> bool {
    claim_by(store, seen, number, &holder(number)).await
}

async fn claim_by(store: &Cold, seen: &ShardRow, number: usize, holder: &Holder) -> bool {
    let claimed = claims(store).claim(seen, token(number), holder);
    claimed.await.unwrap()
}

async fn renew(store: &Cold, key: &ShardKey, number: usize) -> bool {
    claims(store).renew(key, token(number)).await.unwrap()
}

async fn release(store: &Cold, key: &ShardKey, number: usize) -> bool {
    claims(store).release(key, token(number)).await.unwrap()
}

/// The number of shards of each plan.
fn plans(shards: &[ShardRow]) -> Vec<(u32, usize)> {
    let of = |plan: u32| shards.iter().filter(|shard| shard.key.plan == plan).count();
    let numbers: BTreeSet<u32> = shards.iter().map(|shard| shard.key.plan).collect();
    numbers.into_iter().map(|plan| (plan, of(plan))).collect()
}

/// New shards are free, and each range ends where the next one of its plan begins.
pub async fn a_plan_has_the_next_number_and_its_ranges_follow_each_other(h: &Harness) {
    assert_eq!(list(&h.store).await, []);
    let uneven = Ranges::new([0, 5, 1 << 40, u64::MAX]).unwrap();
    assert_eq!(add_to(&h.store, "a", &uneven).await, 1);
    assert_eq!(add(&h.store, 1).await, 2);
    let shards = list(&h.store).await;
    let ranges: Vec<_> = shards
        .iter()
        .map(|shard| (shard.key.plan, shard.key.begin, shard.end))
        .collect();
    let expected = [
        (1, 0, Some(5)),
        (1, 5, Some(1 << 40)),
        (1, 1 << 40, Some(u64::MAX)),
        (1, u64::MAX, None),
        (2, 0, None),
    ];
    assert_eq!(ranges, expected);
    for shard in &shards {
        assert!(shard.is_free() && shard.holder.is_none(), "{shard:?}");
        assert_eq!(shard.transitions, 0);
        assert!(shard.claimed_ago.as_secs() < 600 && shard.renewed_ago.as_secs() < 600);
    }
}

/// A list without a data centre has those of all of them, in their order.
pub async fn services_and_data_centres_do_not_see_each_others_shards(h: &Harness) {
    let other = ServiceName::new("goals-3").unwrap();
    let store = claims(&h.store);
    let halves = Ranges::even(2).unwrap();
    for (service, dc) in [
        (service(), dc("b")),
        (service(), dc("a")),
        (other.clone(), dc("a")),
    ] {
        let added = store.add_plan(&service, &dc, &halves).await;
        assert_eq!(added, Ok(1), "{service} in {dc}");
    }
    let listed = async |service: &ServiceName, dc: Option<&DataCentre>| {
        let shards: Vec<ShardRow> = store.list(service, dc).await.unwrap();
        let places = shards
            .into_iter()
            .map(|shard| (shard.key.service, shard.key.dc));
        places.collect::<Vec<_>>()
    };
    let twice = |service: ServiceName, name: &str| vec![(service, dc(name)); 2];
    let both = [twice(service(), "a"), twice(service(), "b")].concat();
    assert_eq!(listed(&service(), None).await, both);
    assert_eq!(
        listed(&service(), Some(&dc("b"))).await,
        twice(service(), "b")
    );
    assert_eq!(listed(&service(), Some(&dc("c"))).await, []);
    assert_eq!(listed(&other, None).await, twice(other.clone(), "a"));

    // A claim and a drop change one data centre of one service alone.
    let seen = list(&h.store).await;
    assert!(claim(&h.store, &seen[1], 1).await);
    assert_eq!(drop_from(&h.store, "b", 1).await, 2);
    let left = store.list(&service(), None).await.unwrap();
    let claimed: Vec<bool> = left.iter().map(|shard| !shard.is_free()).collect();
    assert_eq!(claimed, [false, true]);
    let others = store.list(&other, None).await.unwrap();
    assert!(others.len() == 2 && others.iter().all(ShardRow::is_free));
}

/// Of any length that is allowed, and with any letters. No two of them are the same for the database.
pub async fn names_come_back_as_they_were_given(h: &Harness) {
    let (long, longest) = ("\u{1f40c}".repeat(16), "h".repeat(255));
    let names = [
        long.as_str(),
        "goals",
        "Goals",
        "g\u{f6}als",
        "goals ",
        "\u{540d}\u{524d}",
    ];
    let (store, whole) = (claims(&h.store), Ranges::even(1).unwrap());
    let holder = Holder::new(&longest).unwrap();
    for name in names {
        let (service, dc) = (ServiceName::new(name).unwrap(), dc(name));
        let added = store.add_plan(&service, &dc, &whole).await;
        assert_eq!(added, Ok(1), "{name}");
    }
    for name in names {
        let (service, dc) = (ServiceName::new(name).unwrap(), dc(name));
        let shards = store.list(&service, None).await.unwrap();
        assert_eq!(shards.len(), 1, "{name}");
        let key = &shards[0].key;
        assert_eq!((key.service.as_str(), key.dc.as_str()), (name, name));
        assert!(claim_by(&h.store, &shards[0], 1, &holder).await);
        let shards = store.list(&service, Some(&dc)).await.unwrap();
        assert_eq!(shards[0].holder.as_ref(), Some(&holder));
    }
}

/// It takes several statements.
pub async fn the_greatest_plan_is_added(h: &Harness) {
    assert_eq!(add(&h.store, RANGES_MAX).await, 1);
    let begins: Vec<u64> = list(&h.store)
        .await
        .iter()
        .map(|shard| shard.key.begin)
        .collect();
    assert_eq!(begins, Ranges::even(RANGES_MAX).unwrap().begins());
}

/// V3: all have seen the same.
pub async fn of_many_claimers_of_one_shard_one_wins(h: &Harness) {
    add(&h.store, 1).await;
    let seen = only(&h.store).await;
    let claimers = (0..SERVERS).map(|number| {
        let (store, seen) = (h.store.clone(), seen.clone());
        tokio::spawn(async move { claim(&store, &seen, number).await })
    });
    let won: Vec<bool> = join_all(claimers)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let winners: Vec<usize> = (0..SERVERS).filter(|number| won[*number]).collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    let shard = only(&h.store).await;
    assert_eq!(shard.token, Some(token(winners[0])));
    assert_eq!(shard.holder, Some(holder(winners[0])));
    assert_eq!(shard.beat, seen.beat + 1);
}

/// All have seen all shards free before one of them claims. They try the shards in one order, so that each shard
/// but the last is wanted by several.
pub async fn as_many_claimers_as_shards_get_one_each(h: &Harness) {
    add(&h.store, SERVERS).await;
    let start = Arc::new(Barrier::new(SERVERS));
    let claimers = (0..SERVERS).map(|number| {
        let (store, start) = (h.store.clone(), start.clone());
        tokio::spawn(async move {
            let seen = list(&store).await;
            start.wait().await;
            claims_one_of(&store, &seen, number).await
        })
    });
    let begins: Vec<Option<u64>> = join_all(claimers)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    for shard in list(&h.store).await {
        let winner = begins
            .iter()
            .position(|begin| *begin == Some(shard.key.begin));
        let winner = winner.expect("each shard was claimed");
        assert_eq!(shard.token, Some(token(winner)));
        assert_eq!(shard.holder, Some(holder(winner)));
        assert_eq!(shard.transitions, 1, "no other claim took it");
    }
    assert!(begins.iter().all(Option::is_some), "{begins:?}");
}

/// Claims the first of these shards that nobody else has claimed. Returns its begin.
async fn claims_one_of(store: &Cold, seen: &[ShardRow], number: usize) -> Option<u64> {
    for shard in seen.iter().filter(|shard| shard.is_free()) {
        if claim(store, shard, number).await {
            return Some(shard.key.begin);
        }
    }
    None
}

/// V3: also if the beat is the one that was seen.
pub async fn a_claim_needs_the_token_that_was_seen(h: &Harness) {
    add(&h.store, 1).await;
    let free = only(&h.store).await;
    let other = |seen: &ShardRow, token| ShardRow {
        token,
        ..seen.clone()
    };
    assert!(!claim(&h.store, &other(&free, Some(token(1))), 1).await);
    assert_eq!(only(&h.store).await.token, None);
    assert!(claim(&h.store, &free, 1).await);
    let claimed = only(&h.store).await;
    for wrong in [None, Some(token(2))] {
        assert!(!claim(&h.store, &other(&claimed, wrong), 2).await);
    }
    let after = only(&h.store).await;
    assert_eq!((after.token, after.beat), (Some(token(1)), claimed.beat));
    assert_eq!(after.holder, Some(holder(1)));
}

/// V3: also if the token is the one that was seen.
pub async fn a_claim_needs_the_beat_that_was_seen(h: &Harness) {
    add(&h.store, 1).await;
    assert!(claim(&h.store, &only(&h.store).await, 1).await);
    let seen = only(&h.store).await;
    assert!(renew(&h.store, &seen.key, 1).await);
    assert!(!claim(&h.store, &seen, 2).await, "the holder is alive");
    let now = only(&h.store).await;
    assert_eq!((now.token, now.beat), (Some(token(1)), seen.beat + 1));
    let early = ShardRow {
        beat: now.beat + 1,
        ..now.clone()
    };
    assert!(!claim(&h.store, &early, 2).await);
    assert_eq!(only(&h.store).await.token, Some(token(1)));
}

/// The former holder learns of it by its next renewal.
pub async fn a_shard_whose_beat_stands_still_is_taken(h: &Harness) {
    add(&h.store, 1).await;
    assert!(claim(&h.store, &only(&h.store).await, 1).await);
    let silent = only(&h.store).await;
    assert!(claim(&h.store, &silent, 2).await);
    assert!(!renew(&h.store, &silent.key, 1).await);
    assert!(renew(&h.store, &silent.key, 2).await);
    let shard = only(&h.store).await;
    assert_eq!((shard.token, shard.beat), (Some(token(2)), silent.beat + 2));
}

/// V3: nothing, so the beat of a holder that is gone stands still. A free shard has no token.
pub async fn a_renewal_by_another_token_does_nothing(h: &Harness) {
    add(&h.store, 1).await;
    let free = only(&h.store).await;
    assert!(!renew(&h.store, &free.key, 1).await);
    assert!(claim(&h.store, &free, 1).await);
    assert!(!renew(&h.store, &free.key, 2).await);
    let shard = only(&h.store).await;
    assert_eq!((shard.token, shard.beat), (Some(token(1)), free.beat + 1));
}

/// The claim stays.
pub async fn a_release_by_another_token_does_nothing(h: &Harness) {
    add(&h.store, 1).await;
    let free = only(&h.store).await;
    assert!(!release(&h.store, &free.key, 1).await);
    assert!(claim(&h.store, &free, 1).await);
    assert!(!release(&h.store, &free.key, 2).await);
    assert_eq!(only(&h.store).await.token, Some(token(1)));
    assert!(renew(&h.store, &free.key, 1).await);
}

/// Its last holder stays known, and a claimer that saw the shard free before comes too late.
pub async fn a_released_shard_is_claimed_at_once(h: &Harness) {
    add(&h.store, 1).await;
    let first = only(&h.store).await;
    assert!(claim(&h.store, &first, 1).await);
    assert!(release(&h.store, &first.key, 1).await);
    assert!(!release(&h.store, &first.key, 1).await, "it is free");
    assert!(!renew(&h.store, &first.key, 1).await, "it is free");
    let released = only(&h.store).await;
    assert!(released.is_free());
    assert_eq!(released.holder, Some(holder(1)));
    assert!(!claim(&h.store, &first, 2).await, "it was claimed since");
    assert!(claim(&h.store, &released, 2).await);
}

/// A server that claims its own shard anew is no change.
pub async fn changes_of_the_holder_are_counted(h: &Harness) {
    add(&h.store, 1).await;
    let steps: [(usize, u64); 5] = [(1, 1), (1, 1), (2, 2), (2, 2), (1, 3)];
    for (at, (by, expected)) in steps.into_iter().enumerate() {
        let seen = only(&h.store).await;
        assert!(claim_by(&h.store, &seen, 100 + at, &holder(by)).await);
        let shard = only(&h.store).await;
        assert_eq!(
            (shard.transitions, shard.holder),
            (expected, Some(holder(by)))
        );
    }
    assert!(renew(&h.store, &only(&h.store).await.key, 104).await);
    assert_eq!(only(&h.store).await.transitions, 3);
}

/// A beat says only that it has changed. So it goes on with 1 where a number of SQLite ends.
pub async fn beats_go_on_behind_the_greatest_number(h: &Harness) {
    const LAST: u64 = u64::MAX >> 1;
    add(&h.store, 1).await;
    let late = format!("UPDATE landing_shard SET beat = {}", LAST - 1);
    h.needs(
        "run a statement beside the store",
        h.backend.sql(&late).await,
    );
    assert!(claim(&h.store, &only(&h.store).await, 1).await);
    let last = only(&h.store).await;
    assert_eq!(last.beat, LAST);
    assert!(renew(&h.store, &last.key, 1).await);
    assert!(!claim(&h.store, &last, 2).await, "the beat has changed");
    let after = only(&h.store).await;
    assert_eq!(after.beat, 1);
    assert!(claim(&h.store, &after, 2).await);
    let last = format!("UPDATE landing_shard SET beat = {LAST}");
    h.needs(
        "run a statement beside the store",
        h.backend.sql(&last).await,
    );
    assert!(claim(&h.store, &only(&h.store).await, 3).await);
    assert_eq!(only(&h.store).await.beat, 1);
}

/// Each statement fails in turn, before it is sent or after it was carried out.
pub async fn a_plan_is_added_as_a_whole_or_not_at_all(h: &Harness) {
    const RANGES: usize = 600;
    h.shares();
    for lost in [Lost::Before, Lost::After] {
        let losing = Arc::new(Losing::new(lost));
        let store = h.another(losing.clone()).await;
        let mut unknown = 0;
        for passing in 0.. {
            let before = plans(&list(&h.store).await);
            losing.arm(passing);
            let ranges = Ranges::even(RANGES).unwrap();
            let added = claims(&store).add_plan(&service(), &dc("a"), &ranges).await;
            let is_whole = losing.disarm();
            let after = plans(&list(&h.store).await);
            assert!(
                after.iter().all(|(_, shards)| *shards == RANGES),
                "{after:?}"
            );
            if is_whole {
                assert_eq!(after.len(), before.len() + 1);
                assert_eq!(added, Ok(after[before.len()].0));
                assert_eq!(passing, 7, "a read, BEGIN, four parts, COMMIT");
                break;
            }
            assert_eq!(added.unwrap_err().kind, ColdKind::Unwell);
            unknown += after.len() - before.len();
        }
        // The answer of the COMMIT was lost.
        assert_eq!(unknown, usize::from(lost == Lost::After));
    }
}

/// A list shows it when it is whole.
pub async fn a_plan_that_is_being_added_is_not_seen(h: &Harness) {
    h.shares();
    let gate = Arc::new(Gate::before("commit"));
    let store = h.another(gate.clone()).await;
    let added = tokio::spawn(async move { add(&store, 600).await });
    gate.reached().await;
    assert_eq!(list(&h.store).await, []);
    gate.open();
    assert_eq!(added.await.unwrap(), 1);
    assert_eq!(plans(&list(&h.store).await), [(1, 600)]);
}

/// Each plan is whole.
pub async fn plans_that_are_added_at_once_have_numbers_of_their_own(h: &Harness) {
    const CALLS: u32 = 8;
    let calls = (0..CALLS).map(|_| {
        let store = h.store.clone();
        tokio::spawn(async move { add(&store, 40).await })
    });
    let added: BTreeSet<u32> = join_all(calls)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(added, (1..=CALLS).collect());
    let whole: Vec<_> = (1..=CALLS).map(|plan| (plan, 40)).collect();
    assert_eq!(plans(&list(&h.store).await), whole);
}

/// Both calls have read the same number before one of them writes.
pub async fn two_plans_of_one_number_do_not_become_one(h: &Harness) {
    h.shares();
    let mut calls = Vec::new();
    let mut gates = Vec::new();
    for ranges in [3, 5] {
        let gate = Arc::new(Gate::before("begin"));
        let store = h.another(gate.clone()).await;
        let added = async move { (add(&store, ranges).await, ranges) };
        calls.push(tokio::spawn(added));
        gate.reached().await;
        gates.push(gate);
    }
    for gate in gates {
        gate.open();
    }
    let mut added: Vec<_> = join_all(calls)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    added.sort_unstable();
    assert_eq!(plans(&list(&h.store).await), added);
    assert_eq!((added[0].0, added[1].0), (1, 2));
}

/// Also while its shards are claimed. The number of the newest plan that was dropped is given again.
pub async fn a_dropped_plan_leaves_the_others(h: &Harness) {
    for ranges in [2, 3, 4] {
        add(&h.store, ranges).await;
    }
    let seen = list(&h.store).await;
    assert!(claim(&h.store, &seen[2], 1).await, "of the second plan");
    assert!(claim(&h.store, &seen[5], 2).await, "of the third one");
    let drop = async |plan| drop_from(&h.store, "a", plan).await;
    assert_eq!((drop(2).await, drop(2).await, drop(9).await), (3, 0, 0));
    assert_eq!(plans(&list(&h.store).await), [(1, 2), (3, 4)]);
    assert!(renew(&h.store, &seen[5].key, 2).await);
    assert_eq!(add(&h.store, 1).await, 4);
    assert_eq!(drop(4).await, 1);
    assert_eq!(add(&h.store, 2).await, 4);
}

/// So a holder leaves a plan that was dropped, also if a plan of the same number was added since.
pub async fn a_renewal_of_a_dropped_shard_fails(h: &Harness) {
    let plan = add(&h.store, 1).await;
    let seen = only(&h.store).await;
    assert!(claim(&h.store, &seen, 1).await);
    assert_eq!(drop_from(&h.store, "a", plan).await, 1);
    for _ in 0..2 {
        assert!(!renew(&h.store, &seen.key, 1).await);
        assert!(!release(&h.store, &seen.key, 1).await);
        if list(&h.store).await.is_empty() {
            assert_eq!(add(&h.store, 1).await, plan);
        }
    }
    assert!(only(&h.store).await.is_free());
}

/// The plans have one number, and their shards begin at the same sharding keys, but end at others.
pub async fn a_shard_of_a_dropped_plan_is_not_claimed_in_a_later_one(h: &Harness) {
    let plan = add(&h.store, 1).await;
    let seen = only(&h.store).await;
    assert_eq!(drop_from(&h.store, "a", plan).await, 1);
    assert_eq!(add(&h.store, 2).await, plan);
    assert!(!claim(&h.store, &seen, 1).await);
    assert!(list(&h.store).await.iter().all(ShardRow::is_free));
}

/// The claimer does not know whether it has the shard. The list tells it by the token.
pub async fn a_lost_answer_of_a_claim_is_found_in_the_list(h: &Harness) {
    h.shares();
    add(&h.store, 2).await;
    let seen = list(&h.store).await;
    for (lost, shard) in [Lost::Before, Lost::After].into_iter().zip(&seen) {
        let losing = Arc::new(Losing::new(lost));
        let store = h.another(losing.clone()).await;
        losing.arm(0);
        let claimed = claims(&store).claim(shard, token(1), &holder(1)).await;
        assert_eq!(claimed.unwrap_err().kind, ColdKind::Unwell);
        losing.disarm();
    }
    let tokens: Vec<_> = list(&h.store)
        .await
        .into_iter()
        .map(|shard| shard.token)
        .collect();
    assert_eq!(tokens, [None, Some(token(1))]);
}

/// Others than its service can be listed.
pub async fn a_shard_that_no_version_writes_is_unreadable(h: &Harness) {
    add(&h.store, 2).await;
    let foreign = "UPDATE landing_shard SET token = x'0102'";
    h.needs(
        "run a statement beside the store",
        h.backend.sql(foreign).await,
    );
    let listed = claims(&h.store).list(&service(), None).await.unwrap_err();
    assert_eq!(listed.kind, ColdKind::Unreadable, "{listed}");
    let other = ServiceName::new("goals-3").unwrap();
    assert_eq!(claims(&h.store).list(&other, None).await, Ok(Vec::new()));
}

/// Its tables are those of a program that has no claims.
pub async fn a_database_in_use_gets_its_shards_by_a_migration(h: &Harness) {
    h.shares();
    h.init(&[0]).await;
    let ids = SeededIds::new(7);
    let seen = h.store.database.pairing().await.unwrap();
    let first = pair(&ids, Token::draw(&ids), 4);
    assert!(h.store.database.pair(&seen, &first).await.unwrap());
    h.land(vec![live(&owner("ann"), "gold", "1", 7)]).await;
    for cut in [
        "DROP TABLE landing_shard",
        "DELETE FROM landing_migration WHERE version = 2",
    ] {
        h.needs("run a statement beside the store", h.backend.sql(cut).await);
    }
    let settings = h.backend.settings();
    for opening in [
        Opening::new(&settings),
        Opening::new(&settings).for_layers(),
    ] {
        assert_eq!(opening.open().await.unwrap_err().kind, ColdKind::Schema);
    }
    assert_eq!(migrate(&settings).await, Ok(SchemaState::Older));
    let store = Opening::new(&settings).for_layers().open().await.unwrap();
    assert_eq!(add(&store, 2).await, 1);
    let rows = h.rows(&owner("ann")).await;
    assert_eq!(rows, [live(&owner("ann"), "gold", "1", 7)]);
}
