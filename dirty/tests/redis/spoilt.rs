//! Every script on every key that another program spoilt. A script that refuses has changed nothing
//! (H1, R10).

use std::collections::BTreeMap;
use std::time::Duration;

use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisServer, Reply};

use crate::support::*;

const PARTITION: Partition = Partition(0);
const TTL: Duration = Duration::from_secs(60);
const FENCE: Fence = Fence {
    version: Version::ZERO,
    token: OpId::new([7; 16]),
};
const NOBODYS: Fences = Fences {
    bobs: FENCE,
    eves: FENCE,
};
/// A holder that is gone.
const GONE: OpId = OpId::new([8; 16]);

/// The sessions of a partition: bob's is held, eve's has lapsed.
#[derive(Debug, Clone, Copy)]
struct Fences {
    bobs: Fence,
    eves: Fence,
}

/// The keys that scripts take. The hashes come first.
const KEYS: [&str; 18] = [
    "slug-data:{0}:game:eu:player:ann",
    "slug-marks:{0}",
    "slug-marks:{0}:saving",
    "slug-marks:{0}:error",
    "slug-marks:{0}:landed",
    "slug-marks:{0}:expiring",
    "slug-evict:{0}",
    "slug-sess:{0}",
    "slug-sess:{0}:lapsed",
    "slug-sess:{0}:asked",
    "slug-beats:{0}",
    "slug-part:{0}",
    "slug-ops:{0}:0",
    "slug-ops:{0}:1",
    "slug-meta",
    "slug-exist:{0}:game:eu:player:ann",
    "slug-lock:{0}",
    "slug-workers",
];
const HASHES: usize = 15;

/// The calls of the scripts, by name.
const CALLS: [&str; 32] = [
    "update",
    "transact",
    "mutate and load",
    "observe",
    "fill",
    "fill anew",
    "read_names",
    "evict",
    "marked",
    "part_state",
    "adopt",
    "raise_landed",
    "collect",
    "pair",
    "announce",
    "lock",
    "renew",
    "unlock",
    "snapshot",
    "settle",
    "reject",
    "probation",
    "expire",
    "requeue",
    "open session",
    "claim session",
    "close session",
    "ask session",
    "beat",
    "lapse",
    "forget lapsed",
    "end grace",
];

/// Makes one call. Returns its failure.
async fn call(
    store: &RedisStore,
    name: &str,
    Fences { bobs, eves }: Fences,
) -> Result<(), HotError> {
    let ann = owner("ann");
    let (version, held) = (Version::new(5).unwrap(), lock("w"));
    let row = (field("old"), Cell::Live(Bytes::from_static(b"1")), version);
    let observed = Observed {
        marker: Marker::At(Version::MAX),
        present: true,
        epoch: Epoch(1),
    };
    let load = Load {
        owner: ann.clone(),
        observed,
        rows: vec![row],
        complete: true,
    };
    let changes = [
        ("bag", Change::Remove),
        ("gold", Change::Incr(1)),
        ("name", set("x")),
    ];
    let raw = Bytes::from_static(b"game:eu:player:ann");
    let mark = Some(Mark {
        owner: ann.clone(),
        fields: vec![field("gold")],
    });
    let entry = Entry { raw, mark, version };
    match name {
        "update" => mutate(store, &ann, &[("gold", set("2"))]).await.map(drop),
        "transact" => mutate(store, &ann, &changes).await.map(drop),
        "mutate and load" => {
            let mutation = mutation(store, &ann, &changes).await;
            store
                .mutate(&[(mutation, vec![load])])
                .await
                .remove(0)
                .map(drop)
        }
        "observe" => store.observe(&[ann]).await.remove(0).map(drop),
        "fill" => store.fill(&[load]).await.remove(0).map(drop),
        "fill anew" => {
            let cat = owner("cat");
            let observed = store.observe(std::slice::from_ref(&cat)).await.remove(0)?;
            let row = (field("old"), Cell::Live(Bytes::from_static(b"1")), version);
            store
                .fill(&[Load {
                    owner: cat,
                    observed,
                    rows: vec![row],
                    complete: true,
                }])
                .await
                .remove(0)
                .map(drop)
        }
        "read_names" => store
            .read(&[Read {
                owner: ann,
                fields: Fields::Names,
            }])
            .await
            .remove(0)
            .map(drop),
        "evict" => store.evict(&[ann]).await.remove(0).map(drop),
        "marked" => store
            .marked(&[ann], Some(Epoch(1)))
            .await
            .remove(0)
            .map(drop),
        "part_state" => store
            .partition_states(&[PARTITION])
            .await
            .remove(0)
            .map(drop),
        "adopt" => {
            let seen = store.partition_states(&[PARTITION]).await.remove(0)?;
            store
                .adopt(&[Adopt {
                    partition: PARTITION,
                    seen,
                    epoch: Epoch(9),
                    stamp: storage_model::Stamp::NONE,
                    until: storage_model::Timestamp(u64::MAX),
                    last_version: version,
                    landed_here: false,
                    compare_all: false,
                    feed: storage_model::Position::ZERO,
                    database: None,
                }])
                .await
                .remove(0)
                .map(drop)
        }
        "raise_landed" => store.raise_landed(PARTITION, Epoch(1), Version::MAX).await,
        "collect" => store
            .collect(PARTITION, &[(ann, vec![field("gold")])], None)
            .await
            .map(drop),
        "pair" => {
            let blank = HotPairing {
                paired: None,
                ..store.pairing().await?
            };
            let token = Token::draw(&SeededIds::new(1));
            let paired = HotPaired {
                token,
                database: token,
                partitions: 1,
                layout: 1,
                since: Timestamp(1),
            };
            store.pair(&blank, &paired).await.map(drop)
        }
        "announce" => store.announce("w", TTL).await.map(drop),
        "lock" => store
            .lock(&[PARTITION], &held, TTL)
            .await
            .remove(0)
            .map(drop),
        "renew" => store
            .renew(&[PARTITION], &held, TTL)
            .await
            .remove(0)
            .map(drop),
        "unlock" => store.unlock(&[PARTITION], &held).await.remove(0),
        "snapshot" => store.snapshot(PARTITION, &held).await.map(drop),
        "settle" => {
            let rows = vec![(ann, field("gold"), version)];
            let marks = vec![entry.clone()];
            store
                .settle(&Settle {
                    partition: PARTITION,
                    lock: Some(held),
                    epoch: Epoch(1),
                    snapshot: snapshot_of_epoch_1(1),
                    landed: version,
                    marks,
                    rows: storage_dirty::conformance::landed_rows(rows),
                    probation: false,
                })
                .await
                .map(drop)
        }
        "probation" => store.probation(PARTITION, &held).await.map(drop),
        "expire" => {
            let expire = Expire {
                partition: PARTITION,
                lock: held,
                window: Window {
                    epoch: Epoch(1),
                    number: 1,
                },
                entries: vec![entry],
            };
            store.expire(&expire).await.map(drop)
        }
        "requeue" => store.requeue(PARTITION, &held, &[entry]).await.map(drop),
        "reject" => {
            let fault = Fault {
                field: field("gold"),
                version,
                code: 1406,
                message: "too long".into(),
            };
            let rejected = vec![Rejected {
                leaves: Vec::new(),
                source: Some(entry),
                owner: Some(ann),
                faults: vec![fault],
            }];
            store
                .reject(&Reject {
                    partition: PARTITION,
                    lock: held,
                    epoch: Epoch(1),
                    snapshot: snapshot_of_epoch_1(1),
                    retry_min: TTL,
                    retry_max: TTL,
                    probation: false,
                    rejected,
                })
                .await
                .map(drop)
        }
        "open session" => {
            let deadline = store.time().await?.plus(TTL);
            let (holder, name) = (FENCE.token, "game".to_owned());
            let open = OpenSession {
                owner: owner("bob"),
                token: holder,
                holder,
                name,
                takes: Some(bobs),
                deadline,
                load: None,
            };
            store.open_session(&open).await.map(drop)
        }
        "claim session" => {
            let name = "game".to_owned();
            let claim = ClaimSession {
                owner: owner("dan"),
                fence: bobs,
                holder: FENCE.token,
                name,
                epoch: Epoch(7),
                acked: bobs.version,
            };
            store.claim_session(&claim).await.map(drop)
        }
        "close session" => store.close_session(&owner("bob"), bobs).await.map(drop),
        "ask session" => store
            .ask_session(&owner("bob"), bobs, OpId::new([2; 16]), "game 2")
            .await
            .map(drop),
        "beat" => store
            .beat(&[PARTITION], Some((FENCE.token, 1)))
            .await
            .remove(0)
            .map(drop),
        "lapse" => store.lapse(PARTITION, FENCE.token, 1).await.map(drop),
        "forget lapsed" => store
            .forget_lapsed(PARTITION, &[(owner("eve"), eves)])
            .await
            .map(drop),
        "end grace" => store
            .end_grace(PARTITION, Adoption::default())
            .await
            .map(drop),
        other => panic!("no call {other}"),
    }
}

/// A partition with some data in each of its keys.
async fn fill_all(server: &RedisServer, store: &RedisStore) -> Fences {
    server.call(&["FLUSHALL"]).await.unwrap();
    adopt_all(store, 1).await;
    let (ann, held) = (owner("ann"), lock("w"));
    apply_new(store, &ann, &[("gold", set("1")), ("bag", set("1"))]).await;
    store
        .lock(&[PARTITION], &held, TTL)
        .await
        .pop()
        .unwrap()
        .unwrap();
    store.snapshot(PARTITION, &held).await.unwrap();
    apply(store, &ann, &[("gold", set("1"))]).await;
    for name in ["reject", "announce", "pair", "beat"] {
        call(store, name, NOBODYS).await.unwrap();
    }
    let bobs = open(store, "bob", FENCE.token).await;
    assert!(
        store
            .ask_session(&owner("bob"), bobs, OpId::new([2; 16]), "game 2")
            .await
            .unwrap()
    );
    let eves = open(store, "eve", GONE).await;
    // From here on, an observation finds its marker and changes nothing.
    store.observe(&[owner("cat")]).await.remove(0).unwrap();
    assert_eq!(store.lapse(PARTITION, GONE, 0).await, Ok(1));
    Fences { bobs, eves }
}

/// Opens a session of an owner without rows.
async fn open(store: &RedisStore, id: &str, holder: OpId) -> Fence {
    let owner = owner(id);
    let observed = store
        .observe(std::slice::from_ref(&owner))
        .await
        .remove(0)
        .unwrap();
    let load = Load {
        owner: owner.clone(),
        observed,
        rows: Vec::new(),
        complete: true,
    };
    let deadline = store.time().await.unwrap().plus(TTL);
    let (token, name) = (OpId::new([1; 16]), "game".to_owned());
    let open = OpenSession {
        owner,
        token,
        holder,
        name,
        takes: None,
        deadline,
        load: Some(load),
    };
    let Opened::Open { fence, .. } = store.open_session(&open).await.unwrap() else {
        panic!()
    };
    fence
}

#[tokio::test]
async fn every_script_with_every_key_spoilt_changes_nothing_when_it_refuses() {
    let server = server().await;
    let store = prepared(settings(&server.url()).with(|redis| redis.partitions = 1)).await;
    let mut refused: BTreeMap<&str, u32> = BTreeMap::new();
    for (number, key) in KEYS.into_iter().enumerate() {
        // A value of another type. For hashes, also text in place of every value, and a number that
        // is too large.
        let values = if number < HASHES {
            &["list", "text", "9007199254740993"][..]
        } else {
            &["list"]
        };
        for value in values {
            let (mut fresh, mut fences) = (false, NOBODYS);
            for name in CALLS {
                if !fresh {
                    fences = fill_all(&server, &store).await;
                    spoil(&server, key, value).await;
                }
                let before = dump(&server).await;
                let result = call(&store, name, fences).await;
                fresh = result.is_err();
                if let Err(error) = result {
                    assert_eq!(
                        dump(&server).await,
                        before,
                        "{name} with {key} as {value}: {error}"
                    );
                    *refused.entry(name).or_default() += 1;
                }
            }
        }
    }
    let never: Vec<_> = CALLS
        .into_iter()
        .filter(|name| !refused.contains_key(name))
        .collect();
    assert_eq!(never, [""; 0], "no spoilt key made these refuse");
}

async fn spoil(server: &RedisServer, key: &str, value: &str) {
    if value == "list" {
        server.call(&["DEL", key]).await.unwrap();
        server.call(&["RPUSH", key, "x"]).await.unwrap();
        return;
    }
    let Reply::Array(names) = server.call(&["HKEYS", key]).await.unwrap() else {
        panic!("{key} is no hash")
    };
    for name in names {
        let Reply::Bytes(name) = name else {
            panic!("{name:?}")
        };
        server
            .call(&[b"HSET", key.as_bytes(), &name, value.as_bytes()])
            .await
            .unwrap();
    }
}
