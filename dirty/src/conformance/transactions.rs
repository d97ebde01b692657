//! Mutations of several owners, and the links between their marks (G1).

use std::collections::BTreeSet;
use std::time::Duration;

use storage_model::{
    Attempt, Change, Condition, Epoch, Mutation, Owner, Partition, Timestamp, Version,
};

use super::field;
use super::harness::{Harness, all_rows, applied, fault, landed_rows, live, owner, set};
use super::probation::{expire, land, leave, requeue};
use super::sessions::open;
use crate::{
    Bound, Entry, Fields, HotKind, HotRead, Linked, Load, Map, Member, Mutated, Refusal, Rejected,
    Settle, Snapshot,
};

/// Enough for all owners here.
const BOUND: Bound = Bound {
    rows: 100,
    bytes: 10_000,
};

/// Owners of one group.
fn group() -> [Owner; 3] {
    ["{g}/ann", "{g}/bob", "{g}/cay"].map(owner)
}

/// Moves gold from one owner to another.
async fn moves(h: &Harness, from: &Owner, to: &Owner, gold: i64) -> Mutation {
    let takes = Change::Add {
        by: -gold,
        floor: 0,
        ceiling: i64::MAX,
    };
    let gives = h.mutation(to, vec![("gold", Change::Incr(gold))]).await;
    h.mutation(from, vec![("gold", takes)])
        .await
        .with(vec![gives])
}

async fn gold(
    h: &Harness,
    owner: &Owner,
) -> (
    Option<Version>,
    Vec<(storage_model::Field, storage_model::Cell)>,
) {
    let HotRead { header, cells } = h.read(owner).await;
    (header.map(|header| header.version), cells)
}

/// The members of a read of `owners`, or the further owners that it finds beside them.
async fn linked(h: &Harness, owners: &[&Owner]) -> Result<Vec<Member>, BTreeSet<Owner>> {
    let partition = h.partition(owners.first().unwrap());
    let wanted: Vec<_> = owners
        .iter()
        .map(|owner| ((*owner).clone(), Fields::Cells(Vec::new())))
        .collect();
    let read = h
        .store()
        .marks
        .collect_linked(partition, &wanted, BOUND, true);
    match read.await.unwrap() {
        Linked::Closed(collected, members) => {
            assert_eq!(collected.reads.len(), members.len());
            let further = members.iter().skip(owners.len());
            let further: BTreeSet<Owner> = further.map(|member| member.owner.clone()).collect();
            if further.is_empty() {
                Ok(members)
            } else {
                Err(further)
            }
        }
        other => panic!("the hash of each partner is there: {other:?}"),
    }
}

fn partners(members: &[Member]) -> Vec<BTreeSet<Owner>> {
    let of = |member: &Member| member.partners.iter().cloned().collect();
    members.iter().map(of).collect()
}

fn of(owners: &[&Owner]) -> BTreeSet<Owner> {
    owners.iter().map(|owner| (*owner).clone()).collect()
}

/// Also those of another logic type.
pub async fn a_transaction_changes_all_of_its_owners_with_one_version(h: &Harness) {
    let [ann, bob, _] = group();
    let bank = Owner::new("game", "eu", "bank", "{g}").unwrap();
    assert_eq!(h.partition(&bank), h.partition(&ann));
    let before = h.set(&ann, "gold", "100").await;
    for owner in [&bob, &bank] {
        h.set(owner, "gold", "7").await;
    }
    let fee = h
        .mutation(&bank, vec![("gold", Change::Incr(1)), ("by", set("ann"))])
        .await;
    let mut transaction = moves(h, &ann, &bob, 30).await;
    transaction.also.push(fee);
    let done = applied(h.send(&transaction, None).await);
    assert!(done.version > before);
    assert_eq!((done.changed, done.counters.as_slice()), (1, &[70][..]));
    let [to_bob, to_bank] = done.also.as_slice() else {
        panic!("two more owners: {done:?}")
    };
    assert_eq!(
        (to_bob.version, to_bob.counters.as_slice()),
        (done.version, &[37][..])
    );
    assert_eq!((to_bank.version, to_bank.changed), (done.version, 2));
    for (owner, value) in [(&ann, "70"), (&bob, "37"), (&bank, "8")] {
        let (version, cells) = gold(h, owner).await;
        assert_eq!(version, Some(done.version));
        assert!(cells.contains(&(field("gold"), live(value))));
        assert!(h.is_marked(owner).await);
    }
}

/// Whatever the reason, and although the first owner could change.
pub async fn a_transaction_that_one_owner_refuses_changes_nothing(h: &Harness) {
    let [ann, bob, cay] = group();
    h.set(&ann, "gold", "100").await;
    let version = h
        .apply(&bob, vec![("gold", set("7")), ("name", set("Bob"))])
        .await
        .version;
    let held = open(h, &cay).await;
    let gives = h.mutation(&ann, vec![("gold", Change::Incr(-1))]).await;
    let of_bob = async |changes: Vec<(&str, Change)>| h.mutation(&bob, changes).await;
    let add = |by, floor, ceiling| vec![("gold", Change::Add { by, floor, ceiling })];
    let incr = |by| vec![("gold", Change::Incr(by))];
    let out = |value| Refusal::OutOfBounds {
        field: field("gold"),
        value,
    };
    let other = Version::new(version.get() - 1).unwrap();
    let cases = [
        (
            of_bob(incr(1)).await.when(Condition::Version(other)),
            Refusal::Version(version),
        ),
        (
            of_bob(vec![("name", set("B"))])
                .await
                .when(Condition::Absent),
            Refusal::Exists(field("name")),
        ),
        (
            of_bob(incr(1))
                .await
                .expecting(vec![(field("gold"), Some("8".into()))]),
            Refusal::Differs(field("gold")),
        ),
        (
            of_bob(incr(1)).await.expecting(vec![(field("name"), None)]),
            Refusal::Differs(field("name")),
        ),
        (
            of_bob(vec![("name", Change::Incr(1))]).await,
            Refusal::NotInteger(field("name")),
        ),
        (
            of_bob(incr(i64::MAX)).await,
            Refusal::Overflow(field("gold")),
        ),
        (of_bob(add(-8, 0, 100)).await, out(7)),
        (of_bob(add(94, 0, 100)).await, out(7)),
        (
            of_bob(vec![("name", Change::Purge)]).await,
            Refusal::NotLanded,
        ),
    ];
    let before = [gold(h, &ann).await, gold(h, &bob).await];
    for (part, refusal) in cases {
        let mutated = h.send(&gives.clone().with(vec![part]), None).await;
        let refusal = Box::new(refusal);
        assert_eq!(
            mutated,
            Mutated::Refused(Refusal::Partner { at: 1, refusal })
        );
    }
    let to_cay = h.mutation(&cay, incr(1)).await;
    let to_bob = of_bob(incr(1)).await;
    match h.send(&gives.with(vec![to_bob, to_cay]), None).await {
        Mutated::Refused(Refusal::Partner { at: 2, refusal }) => {
            assert!(matches!(*refusal, Refusal::Held(by) if by.fence == held.fence));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!([gold(h, &ann).await, gold(h, &bob).await], before);
    assert_unlinked(h, &[&ann, &bob]).await;
}

/// For one owner, too. A sum at a bound is in bounds.
pub async fn floors_ceilings_and_expected_values_hold_for_one_owner(h: &Harness) {
    let ann = owner("ann");
    h.apply(&ann, vec![("gold", set("5")), ("guild", set("red"))])
        .await;
    let add = |by| Change::Add {
        by,
        floor: -1,
        ceiling: 9,
    };
    for (by, sum) in [(4, 9), (-10, -1), (1, 0)] {
        let done = h.apply(&ann, vec![("gold", add(by))]).await;
        assert_eq!(done.counters, [sum]);
    }
    for by in [10, -2] {
        let refused = h.change(&ann, vec![("gold", add(by))]).await;
        let out = Refusal::OutOfBounds {
            field: field("gold"),
            value: 0,
        };
        assert_eq!(refused, Mutated::Refused(out));
    }
    let to_blue = h.mutation(&ann, vec![("guild", set("blue"))]).await;
    let to_blue = to_blue.expecting(vec![
        (field("guild"), Some("red".into())),
        (field("title"), None),
    ]);
    // The owner was never loaded, so nothing is known of a field that the hash lacks.
    let Mutated::Load(observed) = h.send(&to_blue, None).await else {
        panic!("the title is not known")
    };
    let load = all_rows(&ann, observed, Vec::new());
    assert_eq!(applied(h.send(&to_blue, Some(load)).await).changed, 1);
    let again = h.mutation(&ann, vec![("guild", set("green"))]).await;
    let again = again.expecting(to_blue.expected);
    let differs = Mutated::Refused(Refusal::Differs(field("guild")));
    assert_eq!(h.send(&again, None).await, differs);
}

/// Also after other writes of its owners.
pub async fn a_repeat_of_a_transaction_answers_for_each_owner_what_the_first_did(h: &Harness) {
    let [ann, bob, _] = group();
    h.set(&ann, "gold", "100").await;
    h.set(&bob, "gold", "0").await;
    let transaction = moves(h, &ann, &bob, 30).await.as_attempt(Attempt::Named);
    let first = applied(h.send(&transaction, None).await);
    h.apply(&bob, vec![("gold", Change::Incr(1))]).await;
    assert_eq!(applied(h.send(&transaction, None).await), first);
    let (_, cells) = gold(h, &bob).await;
    assert_eq!(cells, [(field("gold"), live("31"))]);
}

/// The call asks for a load until each owner has what its changes build on.
pub async fn a_transaction_takes_the_loads_of_its_owners(h: &Harness) {
    let [ann, bob, _] = group();
    h.set(&ann, "gold", "100").await;
    let transaction = moves(h, &ann, &bob, 30).await;
    let Mutated::Load(observed) = h.send(&transaction, None).await else {
        panic!("nothing is known of Bob")
    };
    assert_eq!(observed, h.observe(&bob).await);
    let version = Version::new(5).unwrap();
    let load = all_rows(&bob, observed, vec![("gold", live("4"), version)]);
    let unrelated = Load {
        owner: ann.clone(),
        ..load.clone()
    };
    let loads = vec![unrelated, load];
    let mut answers = h.store().owners.mutate(&[(transaction, loads)]).await;
    let done = applied(answers.remove(0).unwrap());
    assert_eq!(
        (done.counters, done.also.first().unwrap().counters.clone()),
        (vec![70], vec![34])
    );
}

/// Through the dirty map and the snapshot, whatever else is written.
pub async fn owners_of_a_transaction_are_collected_together(h: &Harness) {
    let [ann, bob, cay] = group();
    let partition = h.partition(&ann);
    for owner in [&ann, &bob, &cay] {
        h.set(owner, "gold", "100").await;
    }
    let wanted = [(ann.clone(), vec![field("gold")])];
    let plain = h
        .store()
        .marks
        .collect(partition, &wanted, None)
        .await
        .unwrap();
    assert!(!plain.is_linked);
    let one = moves(h, &ann, &bob, 30).await;
    applied(h.send(&one, None).await);
    let plain = h
        .store()
        .marks
        .collect(partition, &wanted, None)
        .await
        .unwrap();
    assert!(plain.is_linked);
    assert_eq!(linked(h, &[&ann]).await, Err(of(&[&bob])));
    assert_eq!(
        linked(h, &[&cay]).await.map(|all| partners(&all)),
        Ok(vec![of(&[])])
    );

    // A later write keeps the link, in the same map and in the next.
    h.set(&ann, "name", "Ann").await;
    let lock = h.lock(partition).await;
    let Snapshot::Taken(snapshot) = h.snapshot(partition, &lock).await else {
        panic!("no snapshot is left over")
    };
    h.set(&bob, "name", "Bob").await;
    let other = moves(h, &bob, &cay, 1).await;
    applied(h.send(&other, None).await);
    assert_eq!(linked(h, &[&ann]).await, Err(of(&[&bob, &cay])));
    assert_eq!(linked(h, &[&ann, &bob]).await, Err(of(&[&cay])));
    let all = linked(h, &[&ann, &bob, &cay]).await.unwrap();
    assert_eq!(
        partners(&all),
        [of(&[&bob]), of(&[&ann, &cay]), of(&[&bob])]
    );

    // All marked fields are read, at one moment.
    let wanted = [&ann, &bob, &cay].map(|owner| (owner.clone(), Fields::Cells(Vec::new())));
    let Linked::Closed(collected, members) = h
        .store()
        .marks
        .collect_linked(partition, &wanted, BOUND, true)
        .await
        .unwrap()
    else {
        panic!("no partner is missing")
    };
    let read = |at: usize| collected.reads.get(at).unwrap().cells.clone();
    assert_eq!(
        read(0),
        [(field("gold"), live("70")), (field("name"), live("Ann"))]
    );
    assert_eq!(
        read(1),
        [(field("gold"), live("129")), (field("name"), live("Bob"))]
    );
    assert_eq!(read(2), [(field("gold"), live("101"))]);
    let fields = Fields::Cells(vec![field("gold"), field("name")]);
    assert_eq!(members.first().unwrap().fields, fields);
    // The marks of the snapshot come with its number.
    let entries = h.scan(partition).await;
    let saved = |owner: &Owner| {
        let of = |entry: &&Entry| entry.mark.as_ref().unwrap().owner == *owner;
        entries
            .iter()
            .find(of)
            .map(|entry| (snapshot, entry.clone()))
    };
    for member in &members {
        assert_eq!(member.mark, saved(&member.owner), "{}", member.owner);
    }
    let record = h.record(partition).await;
    assert_eq!(
        (collected.epoch, collected.landed),
        (record.epoch, record.landed)
    );
    assert!(collected.reaches >= h.read(&cay).await.header.unwrap().version);
}

/// No mark of these owners has a partner.
async fn assert_unlinked(h: &Harness, owners: &[&Owner]) {
    let found = linked(h, owners).await.map(|all| partners(&all));
    assert_eq!(found, Ok(vec![of(&[]); owners.len()]));
}

/// Two owners of a transaction that has not landed, and their partition.
async fn linked_pair(h: &Harness) -> (Owner, Owner, Partition) {
    let [ann, bob, _] = group();
    for owner in [&ann, &bob] {
        h.set(owner, "gold", "100").await;
    }
    applied(h.send(&moves(h, &ann, &bob, 30).await, None).await);
    let partition = h.partition(&ann);
    (ann, bob, partition)
}

async fn settle_all(h: &Harness, partition: Partition, lock: &crate::Lock) -> Vec<Entry> {
    let entries = h.scan(partition).await;
    h.settle(partition, Some(lock), &entries).await.unwrap();
    entries
}

/// The links go with the last mark, and the partition is read plainly again.
pub async fn links_end_when_the_marks_have_landed(h: &Harness) {
    let (ann, bob, partition) = linked_pair(h).await;
    let lock = h.lock(partition).await;
    let is_linked = async || {
        let wanted = [(ann.clone(), vec![field("gold")])];
        h.store()
            .marks
            .collect(partition, &wanted, None)
            .await
            .unwrap()
            .is_linked
    };
    h.snapshot(partition, &lock).await;
    assert!(is_linked().await);
    settle_all(h, partition, &lock).await;
    assert_unlinked(h, &[&ann, &bob]).await;
    h.set(&ann, "gold", "1").await;
    h.snapshot(partition, &lock).await;
    assert!(!is_linked().await);
    settle_all(h, partition, &lock).await;
}

/// More partners than the mark of an owner names. So the hot tier keeps some of them elsewhere.
const MANY: usize = 40;

/// An owner that a transaction has linked with each of [`MANY`] others, from this number on.
async fn linked_with_many(h: &Harness, from: usize) -> (Owner, BTreeSet<Owner>) {
    let [hub, ..] = group();
    h.set(&hub, "gold", "1000").await;
    let mut others = BTreeSet::new();
    for id in from..from + MANY {
        let other = owner(&format!("{{g}}/{id}"));
        h.set(&other, "gold", "0").await;
        let moved = match id % 2 {
            0 => moves(h, &hub, &other, 1).await,
            _ => moves(h, &other, &hub, 0).await,
        };
        applied(h.send(&moved, None).await);
        others.insert(other);
    }
    (hub, others)
}

/// Whether the hub and its partners lead to each other, and to no other owner.
async fn assert_linked(h: &Harness, hub: &Owner, others: &BTreeSet<Owner>) {
    let partition = h.partition(hub);
    let first = others.first().unwrap();
    let expected: BTreeSet<Owner> = others.iter().chain([hub]).cloned().collect();
    for from in [hub, first] {
        let from = std::slice::from_ref(from);
        let epoch = h.record(partition).await.epoch;
        let links = async |most| {
            h.store()
                .marks
                .links(partition, epoch, from, most)
                .await
                .unwrap()
        };
        let all = links(others.len()).await;
        let names: BTreeSet<Owner> = all.owners.into_iter().map(|(name, _)| name).collect();
        assert_eq!((names, all.more), (expected.clone(), false));
        assert!(links(others.len() - 1).await.more);
    }
    assert_eq!(linked(h, &[hub]).await, Err(others.clone()));
    let known: Vec<&Owner> = expected.iter().collect();
    let members = linked(h, &known).await.unwrap();
    for (member, partners) in members.iter().zip(partners(&members)) {
        let wanted = if member.owner == *hub {
            others
        } else {
            &of(&[hub])
        };
        assert_eq!(&partners, wanted, "{}", member.owner);
    }
}

/// In the dirty map, in the snapshot, in both, and until the last mark of them has landed.
pub async fn an_owner_has_any_number_of_partners(h: &Harness) {
    let (hub, mut others) = linked_with_many(h, 0).await;
    assert_linked(h, &hub, &others).await;
    // The same links once more, and writes of the hub alone.
    linked_with_many(h, 0).await;
    assert_linked(h, &hub, &others).await;

    let partition = h.partition(&hub);
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    assert_linked(h, &hub, &others).await;
    others.extend(linked_with_many(h, MANY).await.1);
    assert_linked(h, &hub, &others).await;

    settle_all(h, partition, &lock).await;
    let (_, later) = linked_with_many(h, MANY).await;
    assert_linked(h, &hub, &later).await;
    h.snapshot(partition, &lock).await;
    settle_all(h, partition, &lock).await;
    let all: Vec<&Owner> = later.iter().chain([&hub]).collect();
    assert_unlinked(h, &all).await;
}

/// As those of an owner with few. So a requeued transaction lands as a whole.
pub async fn any_number_of_partners_stays_on_probation(h: &Harness) {
    let (hub, others) = linked_with_many(h, 0).await;
    let partition = h.partition(&hub);
    let lock = h.lock(partition).await;
    land(h, partition, &lock).await;
    assert_linked(h, &hub, &others).await;
    leave(h, partition, &lock).await;
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    assert_eq!(
        requeue(h, partition, &lock).await,
        u32::try_from(MANY).unwrap() + 1
    );
    assert_linked(h, &hub, &others).await;
    let (_, later) = linked_with_many(h, MANY).await;
    let all: BTreeSet<Owner> = others.union(&later).cloned().collect();
    assert_linked(h, &hub, &all).await;
}

/// As those of an owner with few. So later transactions of these owners wait with them.
pub async fn any_number_of_partners_stays_in_the_error_map(h: &Harness) {
    let (hub, others) = linked_with_many(h, 0).await;
    let partition = h.partition(&hub);
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let entries = h.scan(partition).await;
    let rejected = entries.into_iter().map(|entry| Rejected {
        leaves: Vec::new(),
        owner: Some(entry.mark.clone().unwrap().owner),
        faults: vec![fault("gold", entry.version, "no")],
        source: Some(entry),
    });
    h.reject(partition, &lock, rejected.collect())
        .await
        .unwrap();
    assert_linked(h, &hub, &others).await;
}

/// With its error marks, until they have landed.
pub async fn partners_stay_in_the_error_map(h: &Harness) {
    let (ann, bob, partition) = linked_pair(h).await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let (mut rejected, mut rows) = (Vec::new(), Vec::new());
    for entry in h.scan(partition).await {
        let owner = entry.mark.clone().unwrap().owner;
        rows.push((owner.clone(), field("gold"), entry.version));
        let faults = vec![fault("gold", entry.version, "no")];
        rejected.push(Rejected {
            leaves: Vec::new(),
            source: Some(entry),
            owner: Some(owner),
            faults,
        });
    }
    h.reject(partition, &lock, rejected).await.unwrap();
    h.rig().advance(Duration::from_millis(2)).await;
    assert_eq!(linked(h, &[&ann]).await, Err(of(&[&bob])));
    let all = linked(h, &[&ann, &bob]).await.unwrap();
    assert_eq!(partners(&all), [of(&[&bob]), of(&[&ann])]);
    assert!(all.iter().all(|member| member.rejected_for.is_some()));
    let errors = h
        .store()
        .marks
        .errors(partition, 0, 100)
        .await
        .unwrap()
        .entries;
    let fields: Vec<_> = errors
        .into_iter()
        .map(|error| error.target.unwrap().1)
        .collect();
    assert_eq!(
        fields,
        [field("gold"), field("gold")],
        "a partner is no error"
    );

    // An empty dirty map and a snapshot of another owner change nothing.
    h.set(&owner("{g}/dan"), "gold", "1").await;
    h.snapshot(partition, &lock).await;
    settle_all(h, partition, &lock).await;
    assert_eq!(linked(h, &[&ann]).await, Err(of(&[&bob])));

    let settle = Settle {
        rows: landed_rows(rows),
        ..h.settling(partition, Some(&lock))
    };
    let settled = h.store().marks.settle(&settle).await.unwrap();
    assert_eq!(settled.errors_cleared, 2);
    assert!(!h.is_marked(&ann).await && !h.is_marked(&bob).await);
    assert_unlinked(h, &[&ann, &bob]).await;
}

/// In both windows, and in the dirty map after a change of the epoch.
pub async fn partners_stay_on_probation(h: &Harness) {
    let (ann, bob, partition) = linked_pair(h).await;
    let lock = h.lock(partition).await;
    land(h, partition, &lock).await;
    assert_eq!(linked(h, &[&ann]).await, Err(of(&[&bob])));
    let window = leave(h, partition, &lock).await;
    assert_eq!(linked(h, &[&bob]).await, Err(of(&[&ann])));

    assert!(h.adopt(partition, 2, Version::ZERO).await);
    assert_eq!(requeue(h, partition, &lock).await, 2);
    assert_eq!(linked(h, &[&bob]).await, Err(of(&[&ann])));
    let wanted = [(ann.clone(), vec![field("gold")])];
    h.snapshot(partition, &lock).await;
    assert!(
        h.store()
            .marks
            .collect(partition, &wanted, None)
            .await
            .unwrap()
            .is_linked
    );
    land(h, partition, &lock).await;
    let window = crate::Window {
        number: window.number + 1,
        epoch: leave(h, partition, &lock).await.epoch,
    };
    let entries = h
        .store()
        .marks
        .scan(partition, Map::Expiring, 0, 100)
        .await
        .unwrap()
        .entries;
    assert_eq!(expire(h, partition, &lock, window, entries).await, 2);
    assert_unlinked(h, &[&ann, &bob]).await;
}

/// Over any number of marks, in any map, up to the limit.
pub async fn links_are_followed_from_mark_to_mark(h: &Harness) {
    let owners: Vec<_> = (0..6).map(|id| owner(&format!("{{g}}/{id}"))).collect();
    let partition = h.partition(owners.first().unwrap());
    for owner in &owners {
        h.set(owner, "gold", "100").await;
    }
    let lock = h.lock(partition).await;
    for (at, pair) in owners.windows(2).take(4).enumerate() {
        let [from, to] = pair else { unreachable!() };
        applied(h.send(&moves(h, from, to, 1).await, None).await);
        if at == 1 {
            h.snapshot(partition, &lock).await;
        }
    }
    let links = async |of: &Owner, most: usize| {
        let of = std::slice::from_ref(of);
        let links = h
            .store()
            .marks
            .links(partition, Epoch(1), of, most)
            .await
            .unwrap();
        let names = links.owners.into_iter().map(|(owner, partners)| {
            let partners: BTreeSet<Owner> = partners.into_iter().collect();
            (owner, partners)
        });
        let names: std::collections::BTreeMap<Owner, BTreeSet<Owner>> = names.collect();
        (names, links.more)
    };
    let (found, more) = links(&owners[2], 10).await;
    assert!(!more);
    let wanted = owners.iter().take(5).enumerate().map(|(at, owner)| {
        let before = at.checked_sub(1).and_then(|at| owners.get(at));
        let behind = owners.get(at + 1).filter(|_| at < 4);
        let partners: Vec<&Owner> = before.into_iter().chain(behind).collect();
        (owner.clone(), of(&partners))
    });
    assert_eq!(found, wanted.collect());
    assert!(links(&owners[2], 1).await.1, "two more owners are too many");
    assert_eq!(links(&owners[5], 10).await, (Default::default(), false));
    let nobody = h.store().marks.links(partition, Epoch(1), &[], 10).await;
    assert_eq!(nobody.unwrap().owners, []);
    let later = h
        .store()
        .marks
        .links(partition, Epoch(2), &owners, 10)
        .await;
    assert_eq!(later.unwrap_err().kind, HotKind::EpochMoved);
}

/// It can be on the other server of a slot that moves. So the caller names it, and such a server
/// rejects the call.
pub async fn a_partner_without_a_hash_must_be_named(h: &Harness) {
    let (ann, bob, partition) = linked_pair(h).await;
    h.rig().lose(&bob).await;
    let read = async |owners: &[&Owner]| {
        let cells = |owner: &&Owner| ((*owner).clone(), Fields::Cells(Vec::new()));
        let wanted: Vec<_> = owners.iter().map(cells).collect();
        let read = h
            .store()
            .marks
            .collect_linked(partition, &wanted, BOUND, true);
        read.await.unwrap()
    };
    assert_eq!(read(&[&ann]).await, Linked::Open(vec![bob.clone()]));
    let Linked::Closed(collected, members) = read(&[&ann, &bob]).await else {
        panic!("all owners are named")
    };
    assert_eq!(members.len(), 2);
    let headers = collected.reads.iter().map(|read| read.header.is_some());
    assert_eq!(headers.collect::<Vec<_>>(), [true, false]);
}

/// Whatever the caller could read at once. It reads such owners in another way.
pub async fn linked_owners_above_the_bound_are_not_read(h: &Harness) {
    let (ann, bob, partition) = linked_pair(h).await;
    let wanted = [&ann, &bob].map(|owner| (owner.clone(), Fields::All));
    for (rows, bytes, is_large) in [(2, 100, false), (1, 100, true), (100, 3, true)] {
        let bound = Bound { rows, bytes };
        for wanted in [&wanted[..], &wanted[..1]] {
            let found = h
                .store()
                .marks
                .collect_linked(partition, wanted, bound, true)
                .await;
            assert_eq!(found.unwrap() == Linked::Large, is_large, "{bound:?}");
        }
    }
}

/// An operator need not wait until a rejected owner is old enough.
pub async fn rejected_owners_are_torn_on_request(h: &Harness) {
    let (ann, bob, partition) = linked_pair(h).await;
    let lock = h.lock(partition).await;
    let tear = async |owner: &Owner| h.store().marks.tear(owner).await.unwrap();
    assert!(!tear(&ann).await);
    h.snapshot(partition, &lock).await;
    for entry in h.scan(partition).await {
        let owner = entry.mark.clone().unwrap().owner;
        let reason = if owner == ann { "no" } else { "vanished" };
        let rejected = Rejected {
            leaves: Vec::new(),
            faults: vec![fault("gold", entry.version, reason)],
            source: Some(entry),
            owner: Some(owner),
        };
        h.reject(partition, &lock, vec![rejected]).await.unwrap();
    }
    let errors = async || {
        h.store()
            .marks
            .errors(partition, 0, 100)
            .await
            .unwrap()
            .entries
    };
    let before = errors().await;
    let day = Duration::from_hours(24);
    assert!(
        linked(h, &[&ann, &bob])
            .await
            .unwrap()
            .iter()
            .all(|one| one.rejected_for < Some(day))
    );

    let torn = [
        tear(&ann).await,
        tear(&bob).await,
        tear(&owner("{g}/dan")).await,
    ];
    assert_eq!(torn, [true, false, false]);
    let all = linked(h, &[&ann, &bob]).await.unwrap();
    let is_old = |member: &Member| member.rejected_for > Some(day);
    assert_eq!(all.iter().map(is_old).collect::<Vec<_>>(), [true, false]);
    assert_eq!(partners(&all), [of(&[&bob]), of(&[&ann])]);
    let mut expected = before;
    for error in &mut expected {
        if error
            .target
            .as_ref()
            .is_some_and(|(owner, _)| *owner == ann)
        {
            (error.first, error.next) = (Timestamp(0), Timestamp(0));
        }
    }
    assert_eq!(errors().await, expected);
}

/// For later transactions of its partners, which would be torn, too.
pub async fn partners_that_landed_apart_are_left(h: &Harness) {
    let (ann, bob, partition) = linked_pair(h).await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let entries = h.scan(partition).await;
    let of_ann = |entry: &&Entry| entry.mark.as_ref().unwrap().owner == ann;
    let entry = entries.iter().find(of_ann).unwrap().clone();
    let faults = vec![fault("gold", entry.version, "no")];
    let again = faults.clone();
    let moved = Rejected {
        source: Some(entry),
        owner: Some(ann.clone()),
        faults,
        leaves: Vec::new(),
    };
    h.reject(partition, &lock, vec![moved]).await.unwrap();
    settle_all(h, partition, &lock).await;
    assert_eq!(linked(h, &[&ann]).await, Err(of(&[&bob])));
    let torn = Rejected {
        source: None,
        owner: Some(ann.clone()),
        faults: again,
        leaves: vec![bob.clone()],
    };
    assert_eq!(h.reject(partition, &lock, vec![torn]).await, Ok(vec![true]));
    assert_eq!(
        linked(h, &[&ann]).await.map(|all| partners(&all)),
        Ok(vec![of(&[])])
    );
    assert!(h.is_marked(&ann).await);
}
