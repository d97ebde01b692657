//! Pages of owners in key order.

use std::cmp::Ordering;

use storage_model::{Owner, Scope};

use crate::Statement;
use crate::exec::Exec;
use crate::fault::Fault;
use crate::read;
use crate::session::{Arg, Session};

/// Which owners, after which, and how many. Empty names stand before all others, since no name is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page<'a> {
    statement: Statement,
    /// The statement's arguments but the last.
    names: Vec<&'a str>,
    limit: usize,
}

impl<'a> Page<'a> {
    /// A page of a world's owners; none if no owner can be on it.
    pub(crate) fn of_world(
        scope: &'a Scope,
        logic_type: Option<&'a str>,
        after: Option<&'a Owner>,
        limit: usize,
    ) -> Option<Self> {
        // An owner of an earlier world is before all of this one, an owner of a later one after all.
        let start = match after.map(|owner| (owner.scope().cmp(scope), owner)) {
            Some((Ordering::Greater, _)) => return None,
            Some((Ordering::Equal, owner)) => (owner.logic_type(), owner.id()),
            _ => ("", ""),
        };
        let (statement, names) = match logic_type {
            Some(wanted) if start.0 > wanted => return None,
            Some(wanted) => {
                let id = if start.0 == wanted { start.1 } else { "" };
                (Statement::OwnersOfType, vec![scope.app(), scope.region(), wanted, id])
            }
            None => (Statement::Owners, vec![scope.app(), scope.region(), start.0, start.0, start.1]),
        };
        (limit > 0).then_some(Self { statement, names, limit })
    }

    /// A page of all worlds' owners; none if no owner can be on it.
    pub(crate) fn of_all(after: Option<&'a Owner>, limit: usize) -> Option<Self> {
        let [app, region, logic_type, id] = after.map_or([""; 4], |o| [o.app(), o.region(), o.logic_type(), o.id()]);
        let names = vec![app, app, region, app, region, logic_type, app, region, logic_type, id];
        (limit > 0).then_some(Self { statement: Statement::AllOwners, names, limit })
    }
}

/// The owners of a page.
pub(crate) async fn owners<S: Session>(exec: &mut Exec<S>, page: &Page<'_>) -> Result<Vec<Owner>, Fault> {
    let mut args: Vec<Arg<'_>> = page.names.iter().map(|&name| name.into()).collect();
    args.push(Arg::Number(u64::try_from(page.limit).unwrap_or(u64::MAX).min(i64::MAX.unsigned_abs())));
    exec.fetch(page.statement, 1, &args, read::owner).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_after_an_owner_wherever_that_owner_is() {
        let world = Scope::new("m", "m").unwrap();
        let owner = |app, logic_type| Owner::new(app, "m", logic_type, "7").unwrap();
        let names =
            |logic_type, after: &Owner| Page::of_world(&world, logic_type, Some(after), 9).map(|page| page.names.join("|"));
        assert_eq!(names(None, &owner("a", "z")), Some("m|m|||".into()));
        assert_eq!(names(None, &owner("m", "t")), Some("m|m|t|t|7".into()));
        assert_eq!(names(None, &owner("z", "a")), None);
        assert_eq!(names(Some("t"), &owner("m", "s")), Some("m|m|t|".into()));
        assert_eq!(names(Some("t"), &owner("m", "t")), Some("m|m|t|7".into()));
        assert_eq!(names(Some("t"), &owner("m", "u")), None);
    }

    #[test]
    fn a_page_of_nothing_asks_nothing() {
        let world = Scope::new("m", "m").unwrap();
        assert_eq!(Page::of_world(&world, None, None, 0), None);
        assert_eq!(Page::of_all(None, 0), None);
    }
}
