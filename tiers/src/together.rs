//! Owners that must land together, because one transaction wrote them (G1).
//!
//! The worker, a replay of rejected rows, a flush and a write that waits for the database all read
//! marked owners by [`Tiers::collect_together`]. It follows the partners of all marks until no
//! other owner is named, and reads the owners in one step. So a commit holds all of a transaction
//! or nothing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use storage_dirty::{Collected, Fields, HotError, Linked, Member};
use storage_model::{Field, Owner, Partition};

use crate::Tiers;

/// The most owners that are read in one step, and that land in one transaction. More of them land
/// apart.
const OWNERS_MAX: usize = 4_096;

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
}

/// Which owners must land in one transaction. Owners without partners are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Units {
    /// The first owner of each owner's unit.
    leads: BTreeMap<Owner, Owner>,
    /// Owners that land apart, because one of their unit has been rejected for too long.
    torn: BTreeSet<Owner>,
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
        self.torn.extend(other.torn.iter().cloned());
    }

    /// The owners that land apart from their partners.
    #[must_use]
    pub fn torn(&self) -> &BTreeSet<Owner> {
        &self.torn
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
                units.torn.extend(unit.into_iter().cloned());
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
    /// Reads marked fields of owners, and of all owners that must land together with them.
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
    ) -> Result<Together<'a>, HotError> {
        let collected = self.hot.collect(partition, wanted).await?;
        // ORDER: the values before the flag. Links that are gone by then have landed.
        if !collected.is_linked {
            return Ok(Together {
                wanted: Cow::Borrowed(wanted),
                collected,
                units: Units::default(),
            });
        }
        match self.collect_partners(partition, wanted).await? {
            Some((collected, members)) => Ok(Together::of(collected, members, self.torn_after())),
            None => Ok(Together::apart(wanted, collected)),
        }
    }

    /// Reads owners with all of their partners. `None` if there are too many.
    async fn collect_partners(
        &self,
        partition: Partition,
        wanted: &[(Owner, Vec<Field>)],
    ) -> Result<Option<(Collected, Vec<Member>)>, HotError> {
        let asked = |(owner, fields): &(Owner, Vec<Field>)| (owner.clone(), asked(fields));
        let mut owners: BTreeMap<Owner, Fields> = wanted.iter().map(asked).collect();
        loop {
            let list: Vec<_> = owners.clone().into_iter().collect();
            let partners = match self.hot.collect_linked(partition, &list).await? {
                Linked::Closed(collected, members) => return Ok(Some((collected, members))),
                Linked::Open(partners) => partners,
            };
            let before = owners.len();
            for partner in partners {
                let fields = Fields::Cells(Vec::new());
                owners.entry(partner).or_insert(fields);
            }
            // An engine that names a known partner breaks its contract.
            if owners.len() == before || owners.len() > OWNERS_MAX {
                return Ok(None);
            }
        }
    }
}

impl<'a> Together<'a> {
    /// More owners are linked than one transaction takes. The wanted ones land apart.
    fn apart(wanted: &'a [(Owner, Vec<Field>)], collected: Collected) -> Self {
        let torn = wanted.iter().map(|(owner, _)| owner.clone()).collect();
        Self {
            wanted: Cow::Borrowed(wanted),
            collected,
            units: Units {
                torn,
                ..Units::default()
            },
        }
    }

    fn of(collected: Collected, members: Vec<Member>, torn_after: Duration) -> Self {
        let units = Units::of(&members, torn_after);
        let named = |member: Member| match member.fields {
            Fields::Cells(fields) => (member.owner, fields),
            _ => (member.owner, Vec::new()),
        };
        Self {
            wanted: members.into_iter().map(named).collect(),
            collected,
            units,
        }
    }
}

fn asked(fields: &[Field]) -> Fields {
    if fields.is_empty() {
        Fields::All
    } else {
        Fields::Cells(fields.to_vec())
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
