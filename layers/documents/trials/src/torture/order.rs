//! The order in which a follower is told changes, and the ids behind which it comes back.

use std::collections::BTreeMap;

use storage_sdk::feed::{Cursor, Partition, Position};
use storage_tests::torture::oracle::Flaw;

use super::follower::Heard;
use super::told::Told;

/// By partition: the epoch and the number of its last change.
type Places = BTreeMap<u64, (u64, u64)>;

/// All that a follower was told so far.
#[derive(Debug, Default)]
struct Order {
    /// On this connection. A change is told behind these places.
    told: Places,
    /// By the last id. The next connection tells changes behind these places.
    by_id: Places,
    /// Whether this connection has told its first event.
    has_begun: bool,
    /// Whether this connection has told to read again. The id of that stands behind all that the gateway
    /// has read at once, also behind changes of it that come next. The client finds these when it reads.
    was_reset: bool,
    flaws: Vec<Flaw>,
}

/// The flaws of the order of what a follower heard: an event before the beginning of its connection, a
/// change that comes again or late on a connection, or although an id stands behind it, and an id that
/// goes back.
#[must_use]
pub fn judge_order(heard: &[Heard]) -> Vec<Flaw> {
    let mut order = Order::default();
    heard.iter().for_each(|heard| order.take(heard));
    order.flaws
}

/// How often a follower came back and was told changes, without a word that it should read again.
#[must_use]
pub fn caught_up(heard: &[Heard]) -> usize {
    let (mut is_back, mut count) = (false, 0);
    for heard in heard {
        match heard {
            Heard::Back => is_back = true,
            Heard::First | Heard::Reset => is_back = false,
            Heard::Change(_) => count += usize::from(std::mem::take(&mut is_back)),
            Heard::Begin | Heard::Id(_) => {}
        }
    }
    count
}

impl Order {
    fn take(&mut self, heard: &Heard) {
        match heard {
            Heard::First => {
                self.by_id.clear();
                self.open();
            }
            Heard::Back => self.open(),
            Heard::Begin => self.has_begun = true,
            Heard::Reset => {
                self.has_to_have_begun("");
                // It goes on from any place.
                self.told.clear();
                self.was_reset = true;
            }
            Heard::Change(told) => {
                self.has_to_have_begun(&told.path);
                self.change(told);
            }
            Heard::Id(id) => self.id(id),
        }
    }

    fn flaw(&mut self, path: &str, detail: String) {
        self.flaws.push(Flaw::new("order", path, detail));
    }

    /// A connection opens. What came behind the last id is told again.
    fn open(&mut self) {
        self.told.clone_from(&self.by_id);
        (self.has_begun, self.was_reset) = (false, false);
    }

    fn has_to_have_begun(&mut self, path: &str) {
        if !self.has_begun {
            let detail = "an event was told before the feed has begun".to_owned();
            self.flaw(path, detail);
        }
    }

    fn change(&mut self, told: &Told) {
        let Some((partition, epoch, number)) = told.at() else {
            return self.flaw(&told.path, format!("a change without a place: {told:?}"));
        };
        let at = (epoch, number);
        let last = self.told.insert(partition, at);
        if let Some(last) = last.filter(|last| *last >= at) {
            let detail = format!("a change was told again, or late, after {last:?}: {told:?}");
            self.flaw(&told.path, detail);
        }
    }

    fn id(&mut self, id: &str) {
        let Ok(cursor) = id.parse::<Cursor>() else {
            return self.flaw("", format!("an id that is none: {id}"));
        };
        let place = |(partition, at): (Partition, Position)| {
            (u64::from(partition.0), (at.epoch.0, at.number))
        };
        let by_id: Places = cursor.positions().map(place).collect();
        if !self.was_reset {
            self.is_behind_the_last(&by_id, id);
        }
        self.by_id = by_id;
    }

    /// An id does not go back, and no change before it comes.
    fn is_behind_the_last(&mut self, by_id: &Places, id: &str) {
        let goes_back = |(partition, before): (&u64, &(u64, u64))| {
            by_id.get(partition).is_none_or(|at| at < before)
        };
        if self.by_id.iter().any(goes_back) {
            let detail = format!("the id {id} goes back behind {:?}", self.by_id);
            self.flaw("", detail);
        }
        for (partition, at) in by_id {
            let told = self.told.entry(*partition).or_default();
            *told = (*told).max(*at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::told::tests::told;

    fn change(number: u64) -> Heard {
        Heard::Change(told(number, "a", &number.to_string()))
    }

    fn id(number: u64) -> Heard {
        Heard::Id(format!("0:1-{number}"))
    }

    fn flaws(heard: &[Heard]) -> String {
        let flaws = judge_order(heard).into_iter().map(|flaw| flaw.detail);
        flaws.collect::<Vec<_>>().join("; ")
    }

    /// A first connection that has told two changes, and the id of the first.
    fn begun(rest: impl IntoIterator<Item = Heard>) -> Vec<Heard> {
        let begun = [Heard::First, Heard::Begin, change(1), id(1), change(2)];
        begun.into_iter().chain(rest).collect()
    }

    #[test]
    fn a_follower_that_comes_back_is_told_again_only_what_no_id_stands_behind() {
        let back = || [Heard::Back, Heard::Begin];
        assert_eq!(flaws(&begun([id(2), change(3)])), "");
        assert_eq!(flaws(&begun(back().into_iter().chain([change(2)]))), "");
        let behind_the_id = begun([id(2)].into_iter().chain(back()).chain([change(2)]));
        assert!(flaws(&behind_the_id).contains("again, or late"));
    }

    #[test]
    fn a_change_that_comes_again_or_late_on_a_connection_is_found() {
        for bad in [change(2), change(1)] {
            assert!(flaws(&begun([bad])).contains("again, or late"));
        }
        assert!(flaws(&begun([change(4), change(3)])).contains("again, or late"));
    }

    #[test]
    fn an_id_that_goes_back_or_is_none_is_found() {
        assert!(flaws(&begun([id(0)])).contains("goes back"));
        let later = Heard::Id("1:1-5".to_owned());
        assert!(flaws(&begun([later])).contains("goes back"));
        let none = Heard::Id("x".to_owned());
        assert!(flaws(&begun([none])).contains("is none"));
        let mut nowhere = told(3, "a", "3");
        nowhere.id = "3".to_owned();
        assert!(flaws(&begun([Heard::Change(nowhere)])).contains("without a place"));
    }

    #[test]
    fn a_follower_that_has_to_read_again_is_told_changes_from_any_place_on_in_their_order() {
        let anew = |rest: [Heard; 2]| begun([Heard::Reset, id(4)].into_iter().chain(rest));
        assert_eq!(flaws(&anew([change(3), id(3)])), "");
        assert!(flaws(&anew([change(3), change(3)])).contains("again, or late"));
        let back = anew([Heard::Back, Heard::Begin])
            .into_iter()
            .chain([change(4)]);
        assert!(flaws(&back.collect::<Vec<_>>()).contains("again, or late"));
    }

    #[test]
    fn an_event_before_the_beginning_of_its_connection_is_found() {
        for bad in [change(3), Heard::Reset] {
            let bad = begun([Heard::Back, bad]);
            assert!(flaws(&bad).contains("before the feed has begun"));
        }
    }

    #[test]
    fn a_return_that_is_told_to_read_again_is_not_caught_up() {
        let back = |then| begun([Heard::Back, Heard::Begin, then, change(3)]);
        assert_eq!(caught_up(&begun([])), 0);
        assert_eq!(caught_up(&back(id(2))), 1);
        assert_eq!(caught_up(&back(Heard::Back)), 1);
        assert_eq!(caught_up(&back(Heard::Reset)), 0);
        assert_eq!(caught_up(&back(Heard::First)), 0);
    }
}
