//! Writes that wait for replicas or for the disk (H19).

use std::sync::Arc;
use std::time::Duration;

use storage_dirty::*;
use storage_model::*;

use crate::support::*;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);

const fn replicated(replicas: u32, timeout: Duration) -> Durability {
    Durability::Replicated { replicas, timeout }
}

async fn write(
    store: &RedisStore,
    owner: &Owner,
    durability: Durability,
) -> Result<Mutated, HotError> {
    let mutation = mutation(store, owner, &[("gold", set("1"))]).await;
    send(store, mutation.as_safe_as(durability)).await
}

fn applied(result: Result<Mutated, HotError>) {
    assert!(matches!(result, Ok(Mutated::Applied(_))), "{result:?}");
}

fn not_reached(result: Result<Mutated, HotError>) {
    let error = result.unwrap_err();
    assert_eq!(
        (&error.kind, error.outcome),
        (&HotKind::NotReached, Outcome::Applied),
        "{error}"
    );
}

fn refused(result: Result<Mutated, HotError>, why: &str) {
    let error = result.unwrap_err();
    assert_eq!(
        (&error.kind, error.outcome),
        (&HotKind::Durability, Outcome::NotApplied),
        "{error}"
    );
    assert!(
        error.message.contains(why) && error.message.contains("nothing was written"),
        "{error}"
    );
}

#[tokio::test]
async fn a_write_is_as_replicated_as_it_says_or_fails_as_applied() {
    let (master, replica) = (server().await, server().await);
    replica.follow(&master).await.unwrap();
    let store = prepared(settings(&master.url())).await;
    applied(write(&store, &owner("ann"), replicated(1, LONG)).await);

    // With this, a WAIT on any other connection would succeed.
    replica.caught_up(&master).await.unwrap();
    replica.pause().unwrap();
    not_reached(write(&store, &owner("bo"), replicated(1, SHORT)).await);
    assert_eq!(
        value(&store, &owner("bo"), "gold").await.as_deref(),
        Some("1"),
        "it is written all the same"
    );
    not_reached(write(&store, &owner("bo"), replicated(1, SHORT)).await);
    replica.resume().unwrap();
    applied(write(&store, &owner("bo"), replicated(1, LONG)).await);
}

#[tokio::test]
async fn a_repeat_that_finds_its_id_waits_all_the_same() {
    let (master, replica) = (server().await, server().await);
    replica.follow(&master).await.unwrap();
    let store = prepared(settings(&master.url())).await;
    replica.pause().unwrap();
    let once = named(&store, &owner("ann"), &[("gold", Change::Incr(1))]).await;
    let once_loaded = {
        let observed = store.observe(&[owner("ann")]).await.pop().unwrap().unwrap();
        Load {
            owner: owner("ann"),
            observed,
            rows: Vec::new(),
            complete: true,
        }
    };
    let first = store
        .mutate(&[(once.clone(), vec![once_loaded])])
        .await
        .pop()
        .unwrap()
        .unwrap();
    // The connections of another process have not written anything yet.
    let other = open_redis(settings(&master.url())).await.unwrap();
    not_reached(send(&other, once.clone().as_safe_as(replicated(1, SHORT))).await);
    replica.resume().unwrap();
    let again = send(&other, once.as_safe_as(replicated(1, LONG)))
        .await
        .unwrap();
    assert_eq!(again, first, "and gets the first one's answer");
}

#[tokio::test]
async fn what_can_not_be_had_is_refused_before_anything_is_written() {
    let server = server().await;
    let store = prepared(settings(&server.url())).await;
    let ann = owner("ann");
    let fsynced = Durability::Fsynced { timeout: LONG };
    let before = dump(&server).await;
    refused(
        write(&store, &ann, replicated(1, LONG)).await,
        "0 follow the server",
    );
    refused(write(&store, &ann, fsynced).await, "appendonly yes");
    assert_eq!(dump(&server).await, before);

    server
        .call(&["CONFIG", "SET", "appendonly", "yes"])
        .await
        .unwrap();
    let can_wait = server.call(&["WAITAOF", "0", "0", "0"]).await.is_ok();
    if can_wait {
        applied(write(&store, &ann, fsynced).await);
    } else {
        refused(write(&store, &ann, fsynced).await, "appendfsync always");
        assert_eq!(dump(&server).await, before);
    }
    server
        .call(&["CONFIG", "SET", "appendfsync", "always"])
        .await
        .unwrap();
    applied(write(&store, &ann, fsynced).await);
    // While such a server rewrites its file, it answers before a write is on the disk.
    server
        .call(&["CONFIG", "SET", "no-appendfsync-on-rewrite", "yes"])
        .await
        .unwrap();
    match write(&store, &ann, fsynced).await {
        result if can_wait => applied(result),
        result => refused(result, "no-appendfsync-on-rewrite no"),
    }
}

#[tokio::test]
async fn a_refusal_of_a_write_says_why_however_safe_it_was_to_be() {
    let (master, replica) = (server().await, server().await);
    replica.follow(&master).await.unwrap();
    let store = prepared(settings(&master.url())).await;
    apply_new(&store, &owner("ann"), &[("gold", set("many"))]).await;
    replica.pause().unwrap();
    let incr = mutation(&store, &owner("ann"), &[("gold", Change::Incr(1))])
        .await
        .as_safe_as(replicated(1, SHORT));
    let refused = send(&store, incr).await.unwrap();
    assert_eq!(
        refused,
        Mutated::Refused(Refusal::NotInteger(field("gold")))
    );
    replica.resume().unwrap();
}

#[tokio::test]
async fn writes_that_wait_go_in_groups_and_hold_up_no_others() {
    let (master, replica) = (server().await, server().await);
    replica.follow(&master).await.unwrap();
    let gate = Arc::new(Counter::default());
    let store =
        Arc::new(prepared_through(settings(&master.url()), Hooks::intercept(gate.clone())).await);
    replica.pause().unwrap();
    let waiting: Vec<_> = (0..60)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                write(&store, &owner(&number.to_string()), replicated(1, LONG)).await
            })
        })
        .collect();
    let sent = || gate.commands.lock().unwrap().contains(&"wait");
    while !sent() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    apply(&store, &owner("ann"), &[("gold", set("1"))]).await;
    assert!(
        waiting.iter().all(|task| !task.is_finished()),
        "others were answered while these wait"
    );
    replica.resume().unwrap();
    for task in waiting {
        applied(task.await.unwrap());
    }
    let commands = gate.commands.lock().unwrap();
    let count = |wanted| commands.iter().filter(|name| **name == wanted).count();
    assert!(
        (1..30).contains(&count("wait")),
        "60 writes in {} groups",
        count("wait")
    );
    let before_waits = commands.windows(2).filter(|pair| pair[1] == "wait");
    assert!(
        before_waits.clone().all(|pair| pair[0] == "write_for_wait"),
        "each WAIT stands behind a write of its own: {commands:?}"
    );
}

#[tokio::test]
async fn a_caller_who_goes_away_takes_no_other_with_it() {
    let (master, replica) = (server().await, server().await);
    replica.follow(&master).await.unwrap();
    let store = Arc::new(prepared(settings(&master.url())).await);
    replica.pause().unwrap();
    let ids: Vec<Owner> = (0..8).map(|number| owner(&number.to_string())).collect();
    let spawn = |owner: &Owner| {
        let (store, owner) = (Arc::clone(&store), owner.clone());
        tokio::spawn(async move { write(&store, &owner, replicated(1, LONG)).await })
    };
    let mut tasks: Vec<_> = ids.iter().map(spawn).collect();
    let carried = 'found: loop {
        for (index, id) in ids.iter().enumerate() {
            if value(&store, id, "gold").await.is_some() {
                break 'found index;
            }
        }
    };
    tasks.remove(carried).abort();
    replica.resume().unwrap();
    for task in tasks {
        applied(task.await.unwrap());
    }
}
