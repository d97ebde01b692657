//! Game servers: their reads and writes, in the steps of the SDK.

use std::sync::Arc;

use storage_dirty::memory::{owner, writes};
use storage_dirty::{HotKind, Load, Mutated, Refusal};
use storage_model::sabotage::broken;
use storage_model::{
    Applied, Bytes, Change, Condition, Epoch, Field, Mutation, OpId, Timestamp, Version,
};

use crate::bounds::{Bounds, Kind};
use crate::load::{Asked, Loading, Went};
use crate::names::{PARTITION, fields, owner};
use crate::search::Step;
use crate::truth::Effect;
use crate::world::World;
use crate::{Take, step};

/// The next step of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Client {
    Idle,
    Get {
        asked: Asked,
        at: Loading,
    },
    Load {
        sent: Sent,
        asked: Asked,
        at: Loading,
    },
    Send {
        sent: Sent,
        load: Option<Arc<Load>>,
    },
}

/// A mutation that was sent, or that a client sends again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    mutation: Arc<Mutation>,
    /// The generation that the client knew when it sent the first copy.
    generation: Epoch,
    /// The effect of a copy whose reply was lost.
    lost: Option<Effect>,
    /// The number of loads of the owner for it.
    loads: u8,
}

/// The number of loads for one write after which a client gives up. The loaded data may be gone
/// each time.
const LOADS_MAX: u8 = 2;

/// Deadlines lie in the future. Time stands still.
const DEADLINE: Timestamp = Timestamp(1_000_000);

/// All next steps of clients.
pub(super) fn steps(bounds: &Bounds, world: &World, take: Take<'_>) {
    for (at, client) in world.clients.iter().enumerate() {
        match client {
            Client::Idle => {}
            Client::Get { asked, at: loading } => {
                let get = |at| Client::Get {
                    asked: asked.clone(),
                    at,
                };
                load(world, at, loading, asked, &get, &|_| Client::Idle, take);
            }
            Client::Load {
                sent,
                asked,
                at: loading,
            } => {
                let on = |at| Client::Load {
                    sent: sent.clone(),
                    asked: asked.clone(),
                    at,
                };
                let ready = |load| Client::Send {
                    sent: sent.clone(),
                    load: Some(load),
                };
                load(world, at, loading, asked, &on, &ready, take);
            }
            Client::Send { sent, load } => {
                send(bounds, world.clone(), Some(at), sent, load.as_deref(), take)
            }
        }
    }
    let idle = world
        .clients
        .iter()
        .position(|client| *client == Client::Idle);
    if bounds.evicts {
        let mut next = world.clone();
        owner::evict(next.hot(), &owner());
        take(
            step("client", bounds.clients, "asks for the eviction"),
            Ok(next),
        );
    }
    delete(bounds, world, take);
    vanish(bounds, world, take);
    begin_read(bounds, world, idle, take);
    begin_write(bounds, world, idle, take);
    arrive(world, take);
}

/// Deletes the hash by hand, landed or not.
fn delete(bounds: &Bounds, world: &World, take: Take<'_>) {
    if let Some(header) = world.read().header.filter(|_| world.left.deletes > 0) {
        let mut next = world.clone();
        next.left.deletes -= 1;
        next.hot().lose(&owner());
        let landed = |field: &Field| world.cold.cell(field);
        next.truth.delete(header.version, landed);
        take(step("client", bounds.clients, "deletes the hash"), Ok(next));
    }
}

/// The next step of a load.
fn load(
    world: &World,
    at: usize,
    loading: &Loading,
    asked: &Asked,
    on: &dyn Fn(Loading) -> Client,
    brought: &dyn Fn(Arc<Load>) -> Client,
    take: Take<'_>,
) {
    let mut next = world.clone();
    match loading.step(&mut next, asked) {
        Err(wrong) => take(step("client", at, "loads"), Err(wrong)),
        Ok((what, went)) => {
            let client = match went {
                Went::On(loading) => on(loading),
                Went::Brought(load) => brought(load),
                Went::Waits => return,
            };
            set(&mut next, Some(at), client);
            take(step("client", at, what), Ok(next));
        }
    }
}

/// The owner's marker vanishes.
fn vanish(bounds: &Bounds, world: &World, take: Take<'_>) {
    if world.left.vanishes == 0 {
        return;
    }
    let mut next = world.clone();
    next.left.vanishes -= 1;
    next.hot().lose_marker(&owner());
    if next.hot != world.hot {
        take(step("marker", bounds.clients, "vanishes"), Ok(next));
    }
}

fn set(world: &mut World, at: Option<usize>, client: Client) {
    if let Some(slot) = at.and_then(|at| world.clients.get_mut(at)) {
        *slot = client;
    }
}

/// A read that the hash alone answers changes nothing. It is checked as part of the state, so only
/// other reads begin a load here.
fn begin_read(bounds: &Bounds, world: &World, idle: Option<usize>, take: Take<'_>) {
    if idle.is_none() || world.left.reads == 0 || !world.is_ready() {
        return;
    }
    let read = world.read();
    let answers = |asked: &Asked| {
        let holds = |complete| {
            complete
                || asked
                    .as_ref()
                    .is_some_and(|field| read.cells.iter().any(|(name, _)| name == field))
        };
        read.header
            .is_some_and(|header| !header.suspect && holds(header.complete))
    };
    let asked: Vec<Asked> = if bounds.partial {
        fields(bounds.fields).into_iter().map(Some).collect()
    } else {
        vec![None]
    };
    for asked in asked.into_iter().filter(|asked| !answers(asked)) {
        let mut next = world.clone();
        next.left.reads -= 1;
        set(
            &mut next,
            idle,
            Client::Get {
                asked,
                at: Loading::Observe,
            },
        );
        take(step("client", idle.unwrap_or_default(), "misses"), Ok(next));
    }
}

/// An idle client writes. Without an idle client, another one makes a write that needs no load.
fn begin_write(bounds: &Bounds, world: &World, idle: Option<usize>, take: Take<'_>) {
    if world.left.writes == 0 {
        return;
    }
    let number = bounds.writes - world.left.writes + 1;
    for kind in bounds.kinds {
        for mutation in mutations(bounds, world, *kind, number) {
            let mut next = world.clone();
            next.left.writes -= 1;
            let sent = Sent {
                mutation: Arc::new(mutation),
                generation: world.known().1,
                lost: None,
                loads: 0,
            };
            if next.left.late > 0 && idle.is_some() {
                let mut next = next.clone();
                next.left.late -= 1;
                next.late = Some(Arc::clone(&sent.mutation));
                set(
                    &mut next,
                    idle,
                    Client::Send {
                        sent: sent.clone(),
                        load: None,
                    },
                );
                take(
                    step(
                        "client",
                        idle.unwrap_or_default(),
                        "sends a write that is held up",
                    ),
                    Ok(next),
                );
            }
            send(bounds, next, idle, &sent, None, take);
        }
    }
}

/// The copy that was held up reaches the hot tier. Its client may have repeated it since, and may
/// have learned its result.
fn arrive(world: &World, take: Take<'_>) {
    let Some(mutation) = world.late.as_ref().filter(|_| world.is_ready()) else {
        return;
    };
    let mut next = World {
        late: None,
        ..world.clone()
    };
    let present = next.present();
    let result = writes::mutate(next.hot(), &present, PARTITION, mutation, &[]);
    let by = step("copy", 0, "arrives late");
    let Ok(Mutated::Applied(applied)) = result else {
        return take(by, Ok(next));
    };
    if next.hot == world.hot {
        return take(by, Ok(next));
    }
    let effect = match next.applied(mutation, &applied) {
        Ok(effect) => effect,
        Err(wrong) => return take(by, Err(wrong)),
    };
    let waits = next.clients.iter_mut().find_map(|client| match client {
        Client::Send { sent, .. } | Client::Load { sent, .. }
            if sent.mutation.id == mutation.id =>
        {
            Some(sent)
        }
        _ => None,
    });
    match waits {
        Some(sent) => sent.lost = Some(effect),
        None if effect.is_empty() => {}
        None => {
            return take(
                by,
                Err("a write is applied after its client got its result".to_owned()),
            );
        }
    }
    take(by, Ok(next));
}

/// The mutations of one kind that may come next. Each writes a value that no other writes.
fn mutations(bounds: &Bounds, world: &World, kind: Kind, number: u8) -> Vec<Mutation> {
    let value = || Change::Set(Bytes::from((1_000 * u32::from(number)).to_string()));
    let change = match kind {
        Kind::Set | Kind::SetAll | Kind::SetIfLast | Kind::SetIfStale => value(),
        Kind::Incr => Change::Incr(1 << number),
        Kind::Remove => Change::Remove,
        Kind::Restore => Change::Restore,
        Kind::Purge => Change::Purge,
    };
    let last = world.truth.version();
    let condition = match kind {
        Kind::SetIfLast => last.map(Condition::Version),
        Kind::SetIfStale => last
            .and_then(|last| Version::new(last.get().checked_sub(2)?))
            .map(Condition::Version),
        _ => Some(Condition::None),
    };
    let Some(condition) = condition else {
        return Vec::new();
    };
    let all: Vec<(Field, Change)> = fields(bounds.fields)
        .into_iter()
        .map(|field| (field, change.clone()))
        .collect();
    let changes = if kind == Kind::SetAll {
        vec![all]
    } else {
        all.into_iter().map(|one| vec![one]).collect()
    };
    let (epoch, _) = world.known();
    let mutation = |changes| {
        Mutation::new(owner(), changes, OpId::new([number; 16]), DEADLINE)
            .when(condition)
            .sent_in(epoch)
    };
    changes.into_iter().map(mutation).collect()
}

fn name(sent: &Sent) -> &'static str {
    match (&sent.lost, &*sent.mutation.changes) {
        (Some(_), _) => "repeats a write",
        (None, [(_, change)]) => match change {
            Change::Set(_) if sent.mutation.condition != Condition::None => {
                "sets if the version is"
            }
            Change::Set(_) => "sets",
            Change::Incr(_) | Change::Add { .. } => "increments",
            Change::Remove => "removes",
            Change::Restore => "restores",
            Change::Purge => "purges",
        },
        _ => "sets all fields",
    }
}

/// A mutation reaches the hot tier.
fn send(
    bounds: &Bounds,
    mut world: World,
    at: Option<usize>,
    sent: &Sent,
    load: Option<&Load>,
    take: Take<'_>,
) {
    let by = step("client", at.unwrap_or(bounds.clients), name(sent));
    if !world.is_ready() {
        return;
    }
    let (present, before) = (world.present(), Arc::clone(&world.hot));
    match writes::mutate(
        world.hot(),
        &present,
        PARTITION,
        &sent.mutation,
        load.map_or(&[], std::slice::from_ref),
    ) {
        Ok(Mutated::Applied(_)) if sent.lost.is_some() && world.hot == before => {
            set(&mut world, at, Client::Idle);
            take(
                Step {
                    what: "learns that its write was applied",
                    ..by
                },
                Ok(world),
            );
        }
        Ok(Mutated::Applied(applied)) => acknowledge(world, at, sent, &applied, by, take),
        Ok(Mutated::Load(_)) => {
            let asked = bounds
                .partial
                .then(|| {
                    sent.mutation
                        .changes
                        .first()
                        .map(|(field, _)| field.clone())
                })
                .flatten();
            if at.is_some() {
                let sent = Sent {
                    loads: sent.loads + 1,
                    ..sent.clone()
                };
                let gives_up = sent.loads > LOADS_MAX;
                if gives_up
                    && world
                        .late
                        .as_ref()
                        .is_some_and(|late| late.id == sent.mutation.id)
                {
                    return; // it would not know the result of the copy
                }
                set(
                    &mut world,
                    at,
                    if gives_up {
                        Client::Idle
                    } else {
                        Client::Load {
                            sent,
                            asked,
                            at: Loading::Observe,
                        }
                    },
                );
                take(by, Ok(world));
            }
        }
        Ok(Mutated::Refused(Refusal::Moved { epoch, generation })) => {
            let gives_up =
                sent.lost.is_some() && sent.generation != generation && !broken("R11-forgotten");
            let mut sent = Sent {
                generation,
                ..sent.clone()
            };
            Arc::make_mut(&mut sent.mutation).epoch = Some(epoch);
            set(
                &mut world,
                at,
                if gives_up {
                    Client::Idle
                } else {
                    Client::Send { sent, load: None }
                },
            );
            take(
                Step {
                    what: "hears of an adoption",
                    ..by
                },
                Ok(world),
            );
        }
        Ok(Mutated::Refused(refusal)) => {
            if let Some(wrong) = wrongly(&world, sent, &refusal) {
                take(by, Err(wrong));
            } else if at.is_some_and(|at| world.clients.get(at) != Some(&Client::Idle)) {
                set(&mut world, at, Client::Idle);
                take(by, Ok(world));
            }
        }
        Err(error) if matches!(error.kind, HotKind::Unprepared(_)) => {}
        Err(error) => take(by, Err(error.to_string())),
    }
}

/// A mutation was applied, now or before.
fn acknowledge(
    mut world: World,
    at: Option<usize>,
    sent: &Sent,
    applied: &Applied,
    by: Step,
    take: Take<'_>,
) {
    let effect = match &sent.lost {
        Some(effect) if world.truth.holds(effect) => Err("a write was applied twice".to_owned()),
        _ => world.applied(&sent.mutation, applied),
    };
    let effect = match effect {
        Ok(effect) => effect,
        Err(wrong) => return take(by, Err(wrong)),
    };
    let was_idle = at.is_none_or(|at| world.clients.get(at) == Some(&Client::Idle));
    if was_idle && effect.is_empty() {
        return; // nothing has happened
    }
    if at.is_some() && sent.lost.is_none() && !effect.is_empty() && world.left.replies > 0 {
        let mut next = world.clone();
        next.left.replies -= 1;
        let mut sent = Sent {
            lost: Some(effect),
            ..sent.clone()
        };
        if broken("R11-new-id") {
            Arc::make_mut(&mut sent.mutation).id = OpId::new([u8::MAX; 16]);
        }
        set(&mut next, at, Client::Send { sent, load: None });
        take(
            Step {
                what: "writes, and the reply is lost",
                ..by
            },
            Ok(next),
        );
    }
    set(&mut world, at, Client::Idle);
    take(by, Ok(world));
}

/// The reason why a rejection is wrong, if it is.
fn wrongly(world: &World, sent: &Sent, refusal: &Refusal) -> Option<String> {
    let there = sent
        .lost
        .as_ref()
        .is_some_and(|effect| world.truth.holds(effect));
    match refusal {
        Refusal::Version(_) if there => {
            Some("a write was said not to be applied, and is there".to_owned())
        }
        Refusal::Version(version) => match (sent.mutation.condition, world.truth.version()) {
            (Condition::Version(wanted), Some(truth)) if wanted == truth => Some(format!(
                "a write that wanted version {wanted} was refused for {version}"
            )),
            _ => None,
        },
        Refusal::NotLanded => None,
        other => Some(format!("{other:?}")),
    }
}
