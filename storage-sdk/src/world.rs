//! A world of a storage: an app and a region.

use std::sync::Arc;

use storage_model::Scope;

use crate::core::Shared;
use crate::{
    ByteStorage, Entities, EntityOptions, ObjStorage, SaveObject, SessionOptions, Sessions,
    Transaction,
};

/// The owners of one app and region. The names are checked. Cheap to clone.
///
/// The same logic type and id in another world name another owner.
///
/// ```
/// # storage_doc::with_storage(async |storage| {
/// let (eu, us) = (storage.world("mygame", "eu-1")?, storage.world("mygame", "us-1")?);
/// eu.bytes().owner("player", 42_u64)?.update([("name", "Ann")]).await?;
/// assert!(!us.bytes().owner("player", 42_u64)?.exists().await?);
/// # Ok(()) });
/// ```
#[derive(Debug, Clone)]
pub struct World {
    core: Shared,
    scope: Scope,
}

impl World {
    pub(crate) fn new(core: &Shared, scope: Scope) -> Self {
        Self {
            core: Arc::clone(core),
            scope,
        }
    }

    /// The owners of this world, as bytes per field.
    #[must_use]
    pub fn bytes(&self) -> ByteStorage {
        ByteStorage {
            core: Arc::clone(&self.core),
            scope: self.scope.clone(),
        }
    }

    /// The objects of one type.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// let heroes = world.objects::<Hero>(); // once, and clones of it are cheap
    /// heroes.save(&Hero { id: 42, level: 7 }).await?;
    /// assert_eq!(heroes.load(42_u64).await?.map(|hero| hero.level), Some(7));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn objects<T: SaveObject>(&self) -> ObjStorage<T> {
        ObjStorage::new(self.bytes())
    }

    /// Starts sessions of objects of one type.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// use storage_sdk::{Autosave, SessionOptions};
    /// let options = SessionOptions::default().autosave(Autosave::Off);
    /// let hero = world.sessions(options).start_or(42_u64, || Hero { id: 42, level: 1 }).await?;
    /// hero.edit(|hero| hero.level += 1)?;
    /// hero.end().await?; // saves
    /// assert_eq!(world.objects::<Hero>().load(42_u64).await?.map(|hero| hero.level), Some(2));
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn sessions<T: SaveObject + Send + Sync + 'static>(
        &self,
        options: SessionOptions,
    ) -> Sessions<T> {
        Sessions::new(self.bytes(), options)
    }

    /// The sessions of many objects of one type, started on demand.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| { use storage_doc::Hero;
    /// use storage_sdk::EntityOptions;
    /// let heroes = world.entities::<Hero>(EntityOptions::default().max(500));
    /// heroes.get_or(42_u64, || Hero { id: 42, level: 1 }).await?.edit(|hero| hero.level += 1)?;
    /// assert_eq!(heroes.len(), 1); // kept for the next action
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn entities<T: SaveObject + Send + Sync + 'static>(
        &self,
        options: EntityOptions,
    ) -> Entities<T> {
        let sessions = Sessions::new(self.bytes(), options.session);
        Entities::new(sessions, self.core.tiers.home().clone(), options)
    }

    /// Changes of several owners of one group, all in one step.
    ///
    /// ```
    /// # storage_doc::with_world(async |world| {
    /// use storage_sdk::InGroup;
    /// let member = |id: u64| world.bytes().owner("member", InGroup("guild-7", id));
    /// let (ann, bo) = (member(1)?, member(2)?);
    /// let promotion = world
    ///     .transaction()
    ///     .owner(&ann, |ann| ann.set("rank", "leader"))
    ///     .owner(&bo, |bo| bo.set("rank", "veteran"));
    /// assert_eq!(promotion.await?.changed(), 2);
    /// # Ok(()) });
    /// ```
    pub fn transaction(&self) -> Transaction {
        Transaction::new(&self.core)
    }

    /// The app and the region.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }
}
