//! Pages of owners in key order.

use std::cmp::Ordering;

use storage_model::{Owner, Scope};

use crate::engine::{Arg, Exec, Fault, Session, Statement, statement};
use crate::read;

static OWNERS_OF_TYPE: Statement = statement!("owners_of_type").in_order_of("PRIMARY");
static ALL_OWNERS: Statement = statement!("all_owners").in_order_of("PRIMARY");

pub(crate) const STATEMENTS: &[&Statement] = &[&OWNERS_OF_TYPE, &ALL_OWNERS];

/// A selection of owners: the range, the start and the limit. An empty name stands before all
/// others, because no name is empty.
#[derive(Debug, Clone)]
pub(crate) struct Page<'a> {
    statement: &'static Statement,
    /// The statement's arguments without the last one.
    names: Vec<&'a str>,
    limit: usize,
}

impl<'a> Page<'a> {
    /// A page of a world's owners of one logic type. `None` if the page is empty in any case.
    pub(crate) fn of_type(
        scope: &'a Scope,
        logic_type: &'a str,
        after: Option<&'a Owner>,
        limit: usize,
    ) -> Option<Self> {
        let place = |owner: &Owner| {
            owner
                .scope()
                .cmp(scope)
                .then_with(|| owner.logic_type().cmp(logic_type))
        };
        // An owner of an earlier world or type is before all of these. An owner of a later one is
        // after all of them.
        let id = match after.map(|owner| (place(owner), owner)) {
            Some((Ordering::Greater, _)) => return None,
            Some((Ordering::Equal, owner)) => owner.id(),
            _ => "",
        };
        let names = vec![scope.app(), scope.region(), logic_type, id];
        (limit > 0).then_some(Self {
            statement: &OWNERS_OF_TYPE,
            names,
            limit,
        })
    }

    /// A page of all worlds' owners. `None` if the page is empty in any case.
    pub(crate) fn of_all(after: Option<&'a Owner>, limit: usize) -> Option<Self> {
        let [app, region, logic_type, id] =
            after.map_or([""; 4], |o| [o.app(), o.region(), o.logic_type(), o.id()]);
        let names = vec![
            app, app, region, app, region, logic_type, app, region, logic_type, id,
        ];
        (limit > 0).then_some(Self {
            statement: &ALL_OWNERS,
            names,
            limit,
        })
    }
}

/// The owners of a page.
pub(crate) async fn owners<S: Session>(
    exec: &mut Exec<S>,
    page: &Page<'_>,
) -> Result<Vec<Owner>, Fault> {
    let mut args: Vec<Arg<'_>> = page.names.iter().map(|&name| name.into()).collect();
    args.push(Arg::Number(
        u64::try_from(page.limit)
            .unwrap_or(u64::MAX)
            .min(i64::MAX.unsigned_abs()),
    ));
    exec.fetch(page.statement, 1, &args, read::owner).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_after_an_owner_wherever_that_owner_is() {
        let world = Scope::new("m", "m").unwrap();
        let owner = |app, logic_type| Owner::new(app, "m", logic_type, "7").unwrap();
        let names = |after: &Owner| {
            Page::of_type(&world, "t", Some(after), 9).map(|page| page.names.join("|"))
        };
        assert_eq!(names(&owner("a", "z")), Some("m|m|t|".into()));
        assert_eq!(names(&owner("m", "s")), Some("m|m|t|".into()));
        assert_eq!(names(&owner("m", "t")), Some("m|m|t|7".into()));
        assert_eq!(names(&owner("m", "u")), None);
        assert_eq!(names(&owner("z", "a")), None);
    }

    #[test]
    fn a_page_of_nothing_asks_nothing() {
        let world = Scope::new("m", "m").unwrap();
        assert!(Page::of_type(&world, "t", None, 0).is_none());
        assert!(Page::of_all(None, 0).is_none());
    }
}
