//! Sessions of a silent holder that are confirmed while the holder is declared gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use storage_dirty::redis::{Broken, Intercept};
use storage_dirty::*;
use storage_model::*;

use crate::support::*;

const HOLDER: OpId = OpId::new([7; 16]);

/// Sends a save of another process before the last call of `lapse.lua`.
#[derive(Debug, Default)]
struct Between {
    calls: AtomicU32,
    save: OnceLock<(RedisStore, Mutation)>,
}

#[async_trait]
impl Intercept for Between {
    async fn before(&self, commands: &[&'static str]) -> Result<(), Broken> {
        if commands.contains(&"lapse") && self.calls.fetch_add(1, Ordering::SeqCst) == 2 {
            let (store, save) = self.save.get().unwrap();
            let saved = send(store, save.clone()).await.unwrap();
            assert!(matches!(saved, Mutated::Applied(_)), "{saved:?}");
        }
        Ok(())
    }

    async fn after(&self, _: &[&'static str]) -> Result<(), Broken> {
        Ok(())
    }
}

/// S5: otherwise its session would be held for good, if it died then.
#[tokio::test]
async fn a_holder_that_confirms_a_session_while_it_lapses_is_missed_again() {
    let server = server().await;
    let other = prepared(settings(&server.url())).await;
    let between = Arc::new(Between::default());
    let store = open_through(settings(&server.url()), Hooks::intercept(between.clone()));
    let store = store.await.unwrap();
    let ann = owner("ann");
    let partition = ann.partition(4);
    apply_new(&other, &ann, &[("gold", set("1"))]).await;
    let open = OpenSession {
        owner: ann.clone(),
        token: OpId::new([8; 16]),
        holder: HOLDER,
        name: "game".into(),
        takes: None,
        deadline: other.time().await.unwrap().plus(Duration::from_secs(30)),
        load: None,
    };
    let Opened::Open { fence, .. } = other.open_session(&open).await.unwrap() else {
        panic!()
    };
    let version = read(&other, &ann).await.header.unwrap().version;
    let save = mutation(&other, &ann, &[("gold", set("2"))]).await;
    let save = Mutation {
        fence: Some(fence),
        ..save.when(Condition::Version(version))
    };
    between.save.set((other.clone(), save)).unwrap();

    assert_eq!(store.lapse(partition, HOLDER, 0).await, Ok(1));
    assert_eq!(between.calls.load(Ordering::SeqCst), 3);
    let is_watched = async || {
        let beats = other.beat(&[partition], None).await.remove(0).unwrap();
        beats.beats.iter().any(|(holder, _)| *holder == HOLDER)
    };
    assert!(is_watched().await);
    assert_eq!(store.lapse(partition, HOLDER, 0).await, Ok(1));
    assert!(!is_watched().await);
}
