//! Owners that land as a whole (R16), and together with those that one transaction wrote (G1).
//!
//! The worker, a replay of rejected rows, a flush and a write that waits for the database all read
//! marked owners by [`Tiers::collect_together`]. It reads the fields that the caller names, and
//! behind them the marks. An owner whose marks name more is read again: all fields that any mark
//! names, in one step with those of its partners. So a commit holds a state that the owners had.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use storage_dirty::{
    Bound, Collected, Entry, Fields, HotError, HotKind, HotRead, Linked, Links, Member, SnapshotId,
};
use storage_model::sabotage::is_kept;
use storage_model::{Epoch, Field, Owner, Partition};

use crate::Tiers;

/// The most owners that are followed from mark to mark, beside the wanted ones. The owners of a
/// unit that has more, or more than [`BOUND`], land apart.
const OWNERS_MAX: usize = 8_192;

/// The most that linked owners may have to land in one transaction, and that one owner may have to
/// land as a whole.
const BOUND: Bound = Bound {
    rows: 8_192,
    bytes: 8 << 20,
};

/// Values that were read together, and which of their owners must land together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Together<'a> {
    /// The owners and the fields that were read, in the order of owners. Without fields, the
    /// whole owner was. Partners of the wanted owners are among them.
    pub wanted: Cow<'a, [(Owner, Vec<Field>)]>,
    /// A read for each owner.
    pub collected: Collected,
    /// The owners that must land together.
    pub units: Units,
    /// Marks of owners that were read in one step with their partners: those of a snapshot, and its
    /// number.
    pub marks: Vec<(SnapshotId, Entry)>,
}

/// The owners that must land in one transaction. An owner without partners is a unit of one, and is
/// not listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Units {
    /// The first owner of each owner's unit.
    leads: BTreeMap<Owner, Owner>,
    /// Owners that land apart or in parts, because one of their unit has been rejected for too long,
    /// or because they are too many or too large. With the partners that each of them leaves.
    torn: BTreeMap<Owner, Vec<Owner>>,
    /// Those of them whose rows land without the others of the same owner.
    in_parts: BTreeSet<Owner>,
    /// Owners of units with a field that the database has rejected before.
    rejected: BTreeSet<Owner>,
}

impl Units {
    /// The owner that stands for all that must land together with this one.
    #[must_use]
    pub fn lead<'a>(&'a self, owner: &'a Owner) -> &'a Owner {
        self.leads.get(owner).unwrap_or(owner)
    }

    /// Adds the units of another partition.
    pub fn extend(&mut self, other: &Self) {
        self.leads.extend(other.leads.clone());
        self.torn.extend(other.torn.clone());
        self.in_parts.extend(other.in_parts.iter().cloned());
        self.rejected.extend(other.rejected.iter().cloned());
    }

    /// The owners that land apart or in parts, and the partners that each of them leaves.
    #[must_use]
    pub fn torn(&self) -> &BTreeMap<Owner, Vec<Owner>> {
        &self.torn
    }

    /// Whether rows of the owner may land without its others (R16).
    #[must_use]
    pub fn lands_in_parts(&self, owner: &Owner) -> bool {
        self.in_parts.contains(owner) || !is_kept("R16-torn")
    }

    /// Whether the error map names an owner of this owner's unit, because the database has rejected a
    /// field before.
    #[must_use]
    pub fn is_rejected(&self, owner: &Owner) -> bool {
        self.rejected.contains(owner)
    }

    /// Joins owners by their links.
    #[must_use]
    pub fn joined_by(links: &Links) -> Self {
        let member = |(owner, partners): &(Owner, Vec<Owner>)| Member {
            owner: owner.clone(),
            fields: Fields::All,
            partners: partners.clone(),
            rejected_for: None,
            mark: None,
        };
        let members: Vec<Member> = links.owners.iter().map(member).collect();
        Self::of(&members, Duration::MAX)
    }

    /// Joins members by their partners. A unit with an owner that has been rejected for
    /// `torn_after` is taken apart.
    #[must_use]
    pub fn of(members: &[Member], torn_after: Duration) -> Self {
        let partners = both_ways(members);
        let rejected = members.iter().filter_map(|member| {
            let age = member.rejected_for?;
            Some((&member.owner, age >= torn_after))
        });
        let rejected: BTreeMap<&Owner, bool> = rejected.collect();
        let mut units = Self::default();
        let mut seen = BTreeSet::new();
        for lead in partners.keys().chain(rejected.keys()).copied() {
            let unit = reached(lead, &partners, &mut seen);
            let faults = unit.iter().filter_map(|owner| rejected.get(*owner));
            if faults.clone().next().is_some() {
                let owners = unit.iter().copied();
                units.rejected.extend(owners.cloned());
            }
            if faults.clone().any(|is_old| *is_old) {
                let is_old = |owner: &&&Owner| rejected.get(**owner) == Some(&true);
                let old = unit.iter().filter(is_old).copied();
                units.in_parts.extend(old.cloned());
                let of = |owner: &Owner| partners.get(owner).into_iter().flatten().copied();
                for owner in unit {
                    let left = of(owner).cloned().collect();
                    units.torn.insert(owner.clone(), left);
                }
            } else if unit.len() > 1 {
                let joined = unit.into_iter().map(|owner| (owner.clone(), lead.clone()));
                units.leads.extend(joined);
            }
        }
        units
    }

    /// The wanted owners, and those that must land with them, unit by unit.
    fn of_each(&self, wanted: impl Iterator<Item = Owner>) -> Vec<Vec<Owner>> {
        let mut units: BTreeMap<&Owner, BTreeSet<Owner>> = BTreeMap::new();
        for (owner, lead) in &self.leads {
            units.entry(lead).or_default().insert(owner.clone());
        }
        let mut alone = Vec::new();
        for owner in wanted.filter(|owner| !self.leads.contains_key(owner)) {
            alone.push(vec![owner]);
        }
        let linked = units.into_values().map(|unit| unit.into_iter().collect());
        linked.chain(alone).collect()
    }
}

/// The partners of each owner, whichever of the two names the other.
fn both_ways(members: &[Member]) -> BTreeMap<&Owner, BTreeSet<&Owner>> {
    let mut partners: BTreeMap<&Owner, BTreeSet<&Owner>> = BTreeMap::new();
    for member in members {
        for partner in &member.partners {
            partners.entry(&member.owner).or_default().insert(partner);
            partners.entry(partner).or_default().insert(&member.owner);
        }
    }
    partners
}

/// The owners that are linked with `first`, unless they were seen before.
fn reached<'a>(
    first: &'a Owner,
    partners: &BTreeMap<&'a Owner, BTreeSet<&'a Owner>>,
    seen: &mut BTreeSet<&'a Owner>,
) -> Vec<&'a Owner> {
    let (mut found, mut next) = (Vec::new(), vec![first]);
    while let Some(owner) = next.pop() {
        if seen.insert(owner) {
            found.push(owner);
            next.extend(partners.get(owner).into_iter().flatten());
        }
    }
    found
}

impl Tiers {
    /// Reads marked fields of owners, given in order, and all that must land with them: the fields
    /// that other marks of them name, and the owners of their transactions. A unit that has been
    /// rejected for `torn_after` is taken apart. The caller has read the marks of the snapshot `known`.
    ///
    /// An owner with more than 8,192 marked fields or 8 MiB in them is read as the caller names it, and lands
    /// in parts.
    ///
    /// # Errors
    /// As [`Marks::collect`](storage_dirty::Marks::collect).
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub async fn collect_together<'a>(
        &self,
        partition: Partition,
        wanted: &'a [(Owner, Vec<Field>)],
        known: Option<SnapshotId>,
        torn_after: Duration,
    ) -> Result<Together<'a>, HotError> {
        let collected = self.hot.marks.collect(partition, wanted, known).await?;
        let again = Again {
            partition,
            epoch: collected.epoch,
            wanted,
            partial: &collected.partial,
        };
        // ORDER: the values before the flag. Links that are gone by then have landed.
        let links = match collected.is_linked {
            true => self.links_of(&again).await?,
            false => Links::default(),
        };
        if links.owners.is_empty() && again.partial.is_empty() {
            return Ok(Together::plain(wanted, collected));
        }
        let groups = self.collect_groups(&again, &links).await?;
        Together::of(partition, wanted, collected, groups, torn_after)
    }

    async fn links_of(&self, again: &Again<'_>) -> Result<Links, HotError> {
        let owners: Vec<_> = again
            .wanted
            .iter()
            .map(|(owner, _)| owner.clone())
            .collect();
        self.follow(again, &owners).await
    }

    /// Reads the wanted owners that have partners, with all of them, and those that were read in part.
    async fn collect_groups(&self, again: &Again<'_>, links: &Links) -> Result<Groups, HotError> {
        let (units, large) = match links.more {
            true => self.follow_each(again, links).await?,
            false => {
                let units = Units::joined_by(links);
                (
                    units.of_each(again.partial.iter().cloned()),
                    BTreeSet::new(),
                )
            }
        };
        let mut groups = Groups::default();
        let mut apart = self.collect_units(again, units, true, &mut groups).await?;
        apart.extend(large);
        groups.apart = apart.clone();
        // Each of them alone is whole all the same.
        let is_wanted = |owner: &Owner| again.place_of(owner).is_some();
        let alone = apart
            .into_iter()
            .filter(is_wanted)
            .map(|owner| vec![owner])
            .collect();
        groups.large = self.collect_units(again, alone, false, &mut groups).await?;
        Ok(groups)
    }

    /// Follows each wanted owner by itself, so that only units that are too large by themselves are
    /// taken apart. Returns the other units, and the owners of those. `links` has the partners of all wanted owners, if not
    /// those of others.
    async fn follow_each(
        &self,
        again: &Again<'_>,
        links: &Links,
    ) -> Result<(Vec<Vec<Owner>>, BTreeSet<Owner>), HotError> {
        let (joined, mut seen) = (Units::joined_by(links), BTreeSet::new());
        let (mut units, mut large, mut leads) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (owner, _) in again.wanted {
            if seen.contains(owner) {
                continue;
            }
            // Each part of a large unit would be followed to the limit again.
            if leads.contains(joined.lead(owner)) {
                large.insert(owner.clone());
                continue;
            }
            let links = self.follow(again, std::slice::from_ref(owner)).await?;
            let names = links.owners.into_iter().map(|(name, _)| name);
            if links.more {
                leads.insert(joined.lead(owner).clone());
                large.extend(names);
                continue;
            }
            let mut unit: Vec<Owner> = names.collect();
            if unit.is_empty() && again.partial.contains(owner) {
                unit.push(owner.clone());
            }
            seen.extend(unit.iter().cloned());
            units.extend((!unit.is_empty()).then_some(unit));
        }
        Ok((units, large))
    }

    async fn follow(&self, again: &Again<'_>, owners: &[Owner]) -> Result<Links, HotError> {
        self.hot
            .marks
            .links(again.partition, again.epoch, owners, OWNERS_MAX)
            .await
            .map_err(|error| adopted(error, again.partition))
    }

    /// Reads units, with `follow` also the partners that their owners have by then. Several units are
    /// read in one step if they are not too large together. Returns the owners of units that are too
    /// large by themselves.
    async fn collect_units(
        &self,
        again: &Again<'_>,
        units: Vec<Vec<Owner>>,
        follow: bool,
        groups: &mut Groups,
    ) -> Result<BTreeSet<Owner>, HotError> {
        let mut large = BTreeSet::new();
        let mut waiting = vec![units];
        while let Some(mut units) = waiting.pop() {
            if units.is_empty() {
                continue;
            }
            match self.collect_group(again, &units, follow).await? {
                Some(read) => groups.reads.push(read),
                None if units.len() > 1 => {
                    let rest = units.split_off(units.len() / 2);
                    waiting.extend([rest, units]);
                }
                None => large.extend(units.into_iter().flatten()),
            }
        }
        Ok(large)
    }

    /// Reads owners in one step. `None` if there is more than one transaction takes.
    async fn collect_group(
        &self,
        again: &Again<'_>,
        units: &[Vec<Owner>],
        follow: bool,
    ) -> Result<Option<GroupRead>, HotError> {
        let owners = units.iter().flatten();
        let mut group: BTreeMap<Owner, Fields> = owners
            .map(|owner| (owner.clone(), again.asked(owner)))
            .collect();
        loop {
            let list: Vec<_> = group.clone().into_iter().collect();
            let read = self
                .hot
                .marks
                .collect_linked(again.partition, &list, BOUND, follow);
            match read.await? {
                Linked::Closed(collected, members) => return Ok(Some((collected, members))),
                Linked::Large => {
                    // A large owner may have a small part in a transaction.
                    if !keep_marked_fields(&mut group) {
                        return Ok(None);
                    }
                }
                Linked::Open(partners) => {
                    let before = group.len();
                    for partner in partners {
                        let fields = again.asked(&partner);
                        group.entry(partner).or_insert(fields);
                    }
                    // An engine that names a known partner breaks its contract.
                    if group.len() == before || group.len() > again.wanted.len() + OWNERS_MAX {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

/// Owners that are read again.
struct Again<'a> {
    partition: Partition,
    epoch: Epoch,
    /// The owners and fields that the caller names, in the order of owners.
    wanted: &'a [(Owner, Vec<Field>)],
    /// Those of them whose marks name further fields, in the same order.
    partial: &'a [Owner],
}

impl Again<'_> {
    fn place_of(&self, owner: &Owner) -> Option<usize> {
        let found = self.wanted.binary_search_by(|(one, _)| one.cmp(owner));
        found.ok()
    }

    /// The fields to read of an owner: the wanted ones, all, or only those that its marks name.
    fn asked(&self, owner: &Owner) -> Fields {
        let Some(at) = self.place_of(owner) else {
            return Fields::Cells(Vec::new());
        };
        match self.wanted.get(at) {
            Some((_, fields)) if !fields.is_empty() => Fields::Cells(fields.clone()),
            _ => Fields::All,
        }
    }
}

/// Linked owners, as they were read in one step.
type GroupRead = (Collected, Vec<Member>);

/// Owners that were read again.
#[derive(Debug, Default)]
struct Groups {
    reads: Vec<GroupRead>,
    /// Owners of units with more than one transaction takes.
    apart: BTreeSet<Owner>,
    /// Those of them that were not read again, since one of them alone has more.
    large: BTreeSet<Owner>,
}

/// Asks for the marked fields alone where whole owners were asked for. False if there was none.
fn keep_marked_fields(group: &mut BTreeMap<Owner, Fields>) -> bool {
    let mut found = false;
    for fields in group.values_mut().filter(|fields| **fields == Fields::All) {
        *fields = Fields::Cells(Vec::new());
        found = true;
    }
    found
}

impl<'a> Together<'a> {
    /// No wanted owner has a partner.
    fn plain(wanted: &'a [(Owner, Vec<Field>)], collected: Collected) -> Self {
        Self {
            wanted: Cow::Borrowed(wanted),
            collected,
            units: Units::default(),
            marks: Vec::new(),
        }
    }

    /// The wanted owners without partners as they were read, and the others as they were read
    /// together. Owners of units that are too large land apart.
    fn of(
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
        mut collected: Collected,
        groups: Groups,
        torn_after: Duration,
    ) -> Result<Self, HotError> {
        let others = wanted
            .iter()
            .cloned()
            .zip(std::mem::take(&mut collected.reads));
        let mut reads: BTreeMap<Owner, (Vec<Field>, HotRead)> = others
            .map(|((owner, fields), read)| (owner, (fields, read)))
            .collect();
        let mut members = Vec::new();
        for (mut group, read) in groups.reads {
            if collected.epoch != group.epoch {
                let message = "the partition was adopted between two reads";
                let error = HotError::not_applied(HotKind::EpochMoved, "collect", message);
                return Err(adopted(error, partition));
            }
            for (member, read) in read.iter().zip(std::mem::take(&mut group.reads)) {
                let fields = match &member.fields {
                    Fields::Cells(fields) => fields.clone(),
                    _ => Vec::new(),
                };
                reads.insert(member.owner.clone(), (fields, read));
            }
            members.extend(read);
            collected = group;
        }
        let mut units = Units::of(&members, torn_after);
        // A unit of many owners lands apart, and each of them as a whole. An owner that is too large by
        // itself lands in parts.
        units.leads.retain(|owner, _| !groups.apart.contains(owner));
        for owner in groups.apart {
            units.torn.entry(owner).or_default();
        }
        units.in_parts.extend(groups.large);
        let marks = members.into_iter().filter_map(|member| member.mark);
        let mut wanted = Vec::new();
        for (owner, (fields, read)) in reads {
            wanted.push((owner, fields));
            collected.reads.push(read);
        }
        Ok(Self {
            wanted: Cow::Owned(wanted),
            collected,
            units,
            marks: marks.collect(),
        })
    }
}

/// The error of a read whose epoch has ended. The caller prepares the partition, and reads again.
fn adopted(error: HotError, partition: Partition) -> HotError {
    match error.kind {
        HotKind::EpochMoved => HotError {
            kind: HotKind::Unprepared(partition),
            ..error
        },
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(id: &str) -> Owner {
        Owner::new("a", "r", "t", id).unwrap()
    }

    fn member(id: &str, partners: &[&str], rejected_for: Option<u64>) -> Member {
        Member {
            owner: owner(id),
            fields: Fields::Cells(Vec::new()),
            partners: partners.iter().map(|id| owner(id)).collect(),
            rejected_for: rejected_for.map(Duration::from_secs),
            mark: None,
        }
    }

    #[test]
    fn owners_are_joined_over_any_number_of_partners_and_others_stay_alone() {
        let members = [
            member("1", &["2"], None),
            member("2", &["1"], None),
            member("3", &["2"], None),
            member("4", &[], None),
            member("5", &["6"], None),
            member("6", &["5"], None),
        ];
        let units = Units::of(&members, Duration::from_secs(9));
        let lead = |id: &str| units.lead(&owner(id)).id().to_owned();
        assert_eq!(
            ["1", "2", "3", "4", "5", "6"].map(lead),
            ["1", "1", "1", "4", "5", "5"]
        );
        assert!(units.torn().is_empty());
    }

    #[test]
    fn a_unit_that_was_rejected_for_too_long_is_taken_apart() {
        let members = [
            member("1", &["2"], Some(9)),
            member("2", &["1"], None),
            member("3", &["4"], Some(8)),
            member("4", &["3"], None),
        ];
        let units = Units::of(&members, Duration::from_secs(9));
        let lead = |id: &str| units.lead(&owner(id)).id().to_owned();
        assert_eq!(["1", "2", "3", "4"].map(lead), ["1", "2", "3", "3"]);
        assert_eq!(units.torn().len(), 2);
    }
}
