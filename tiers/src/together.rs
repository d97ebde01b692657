//! Owners that must land together, because one transaction wrote them (G1).
//!
//! The worker, a replay of rejected rows, a flush and a write that waits for the database all read
//! marked owners by [`Tiers::collect_together`]. It follows the partners of all marks until no
//! other owner is named, and reads linked owners in one step. So a commit holds all of a
//! transaction or nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use storage_dirty::{
    Bound, Collected, Entry, Fields, HotError, HotKind, HotRead, Linked, Links, Member, SnapshotId,
};
use storage_model::{Epoch, Field, Owner, Partition};

use crate::Tiers;

/// The most owners that are followed from mark to mark, beside the wanted ones. The owners of a
/// unit that has more, or more than [`BOUND`], land apart.
const OWNERS_MAX: usize = 8_192;

/// The most that linked owners may have to land in one transaction.
const BOUND: Bound = Bound {
    rows: 8_192,
    bytes: 8 << 20,
};

/// Values that were read together, and which of their owners must land together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Together<'a> {
    /// The owners and the fields that were asked for, in the order of owners. Without fields, the
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

/// Which owners must land in one transaction. Owners without partners are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Units {
    /// The first owner of each owner's unit.
    leads: BTreeMap<Owner, Owner>,
    /// Owners that land apart, because one of their unit has been rejected for too long, and the
    /// partners of each.
    torn: BTreeMap<Owner, Vec<Owner>>,
}

impl Units {
    /// The owner that stands for all that must land together with this one.
    #[must_use]
    pub fn lead<'a>(&'a self, owner: &'a Owner) -> &'a Owner {
        self.leads.get(owner).unwrap_or(owner)
    }

    /// Adds the units of another partition.
    pub fn extend(&mut self, other: &Self) {
        let leads = other.leads.iter();
        self.leads
            .extend(leads.map(|(owner, lead)| (owner.clone(), lead.clone())));
        let torn = other.torn.iter();
        let torn = torn.map(|(owner, partners)| (owner.clone(), partners.clone()));
        self.torn.extend(torn);
    }

    /// The owners that land apart, and the partners of each.
    #[must_use]
    pub fn torn(&self) -> &BTreeMap<Owner, Vec<Owner>> {
        &self.torn
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
        let is_old = |member: &&Member| member.rejected_for.is_some_and(|age| age >= torn_after);
        let old: BTreeSet<&Owner> = members
            .iter()
            .filter(is_old)
            .map(|member| &member.owner)
            .collect();
        let mut units = Self::default();
        let mut seen = BTreeSet::new();
        for lead in partners.keys().copied() {
            let unit = reached(lead, &partners, &mut seen);
            if unit.iter().any(|owner| old.contains(owner)) {
                let of = |owner: &Owner| partners.get(owner).into_iter().flatten().copied();
                let torn = unit.into_iter();
                let torn = torn.map(|owner| (owner.clone(), of(owner).cloned().collect()));
                units.torn.extend(torn);
            } else {
                let joined = unit.into_iter().map(|owner| (owner.clone(), lead.clone()));
                units.leads.extend(joined);
            }
        }
        units
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
    /// Reads marked fields of owners, given in order, and of all that must land with them. A unit
    /// that has been rejected for `torn_after` is taken apart.
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
        torn_after: Duration,
    ) -> Result<Together<'a>, HotError> {
        let collected = self.hot.collect(partition, wanted).await?;
        // ORDER: the values before the flag. Links that are gone by then have landed.
        if !collected.is_linked {
            return Ok(Together::plain(wanted, collected));
        }
        let groups = self
            .collect_groups(partition, collected.epoch, wanted)
            .await?;
        if groups.reads.is_empty() && groups.large.is_empty() {
            return Ok(Together::plain(wanted, collected));
        }
        Together::of(partition, wanted, collected, groups, torn_after)
    }

    /// Reads the wanted owners that have partners, with all of them.
    async fn collect_groups(
        &self,
        partition: Partition,
        epoch: Epoch,
        wanted: &[(Owner, Vec<Field>)],
    ) -> Result<Groups, HotError> {
        let owners: Vec<_> = wanted.iter().map(|(owner, _)| owner.clone()).collect();
        let links = self.follow(partition, epoch, &owners).await?;
        if links.owners.is_empty() {
            return Ok(Groups::default());
        }
        // All units together, if they are not too many for one step.
        if !links.more
            && let Some(read) = self.collect_group(partition, wanted, &links).await?
        {
            return Ok(Groups {
                reads: vec![read],
                large: BTreeSet::new(),
            });
        }
        self.collect_each_unit(partition, epoch, wanted, &links)
            .await
    }

    /// As [`Tiers::collect_groups`], each unit in a step of its own. So only a unit that is too large
    /// by itself is torn. `links` has the partners of all wanted owners, if not those of others.
    async fn collect_each_unit(
        &self,
        partition: Partition,
        epoch: Epoch,
        wanted: &[(Owner, Vec<Field>)],
        links: &Links,
    ) -> Result<Groups, HotError> {
        let (mut groups, mut seen) = (Groups::default(), BTreeSet::new());
        let (joined, mut large) = (Units::joined_by(links), BTreeSet::new());
        for (owner, _) in wanted {
            if seen.contains(owner) {
                continue;
            }
            // Each part of a large unit would be followed to the limit again.
            if large.contains(joined.lead(owner)) {
                groups.large.insert(owner.clone());
                continue;
            }
            let links = self.follow(partition, epoch, std::slice::from_ref(owner));
            let links = links.await?;
            let names = links.owners.iter().map(|(name, _)| name.clone());
            seen.extend(names.clone());
            let read = match links.more {
                true => None,
                false => self.collect_group(partition, wanted, &links).await?,
            };
            match read {
                Some(read) => {
                    let (_, members) = &read;
                    seen.extend(members.iter().map(|member| member.owner.clone()));
                    groups.reads.push(read);
                }
                None => {
                    large.insert(joined.lead(owner).clone());
                    groups.large.extend(names);
                }
            }
        }
        Ok(groups)
    }

    async fn follow(
        &self,
        partition: Partition,
        epoch: Epoch,
        owners: &[Owner],
    ) -> Result<Links, HotError> {
        let links = self.hot.links(partition, epoch, owners, OWNERS_MAX).await;
        links.map_err(|error| adopted(error, partition))
    }

    /// Reads linked owners in one step. `None` if there is more than one transaction takes.
    async fn collect_group(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
        links: &Links,
    ) -> Result<Option<GroupRead>, HotError> {
        let mut group: BTreeMap<Owner, Fields> = links
            .owners
            .iter()
            .map(|(owner, _)| (owner.clone(), asked(wanted, owner)))
            .collect();
        loop {
            let list: Vec<_> = group.clone().into_iter().collect();
            match self.hot.collect_linked(partition, &list, BOUND).await? {
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
                        let fields = asked(wanted, &partner);
                        group.entry(partner).or_insert(fields);
                    }
                    // An engine that names a known partner breaks its contract.
                    if group.len() == before || group.len() > wanted.len() + OWNERS_MAX {
                        return Ok(None);
                    }
                }
            }
        }
    }
}

/// Linked owners, as they were read in one step.
type GroupRead = (Collected, Vec<Member>);

/// The linked owners of a read.
#[derive(Debug, Default)]
struct Groups {
    reads: Vec<GroupRead>,
    /// Owners of units with more than one transaction takes.
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
        let large = groups.large.into_iter();
        units.torn.extend(large.map(|owner| (owner, Vec::new())));
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

/// The fields to read of an owner: the wanted ones, all, or only those that its marks name.
fn asked(wanted: &[(Owner, Vec<Field>)], owner: &Owner) -> Fields {
    match wanted.binary_search_by(|(one, _)| one.cmp(owner)) {
        Ok(at) => match wanted.get(at) {
            Some((_, fields)) if !fields.is_empty() => Fields::Cells(fields.clone()),
            _ => Fields::All,
        },
        Err(_) => Fields::Cells(Vec::new()),
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
