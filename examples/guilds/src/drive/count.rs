//! The count of all gold, items and experience.

use std::collections::{BTreeMap, BTreeSet};

use super::player::Diary;
use crate::bag::{GOLD, START_GOLD, is_item, start_items};

/// The data of one tier.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The fields of each bag.
    pub bags: BTreeMap<String, BTreeMap<String, i64>>,
    /// The experience of each player.
    pub xp: BTreeMap<u64, u64>,
}

impl Found {
    /// The gold in all bags.
    #[must_use]
    pub fn gold(&self) -> i64 {
        self.bags.values().filter_map(|bag| bag.get(GOLD)).sum()
    }

    /// For each item, the bags that hold it, and the number in the bag.
    #[must_use]
    pub fn items(&self) -> BTreeMap<&str, Vec<(&str, i64)>> {
        let mut items: BTreeMap<&str, Vec<(&str, i64)>> = BTreeMap::new();
        for (owner, bag) in &self.bags {
            for (field, number) in bag {
                if is_item(field) && *number != 0 {
                    items.entry(field).or_default().push((owner, *number));
                }
            }
        }
        items
    }
}

/// Everything that is wrong in a tier after these players have played.
#[must_use]
pub fn wrong_counts(diaries: &[Diary], found: &Found) -> Vec<String> {
    let mut wrong = wrong_items(diaries, found);
    let gold = START_GOLD * i64::try_from(diaries.len()).unwrap_or(i64::MAX);
    if found.gold() != gold {
        wrong.push(format!("{} gold instead of {gold}", found.gold()));
    }
    for diary in diaries {
        // A quest without an answer may or may not have counted.
        let (player, least, most) = (diary.player, diary.done("quest"), diary.sent("quest"));
        match found.xp.get(&player) {
            Some(xp) if (least..=most).contains(xp) => {}
            Some(xp) => wrong.push(format!(
                "player {player} has {xp} xp, not {least} to {most}"
            )),
            None => wrong.push(format!("player {player} has no profile")),
        }
    }
    wrong
}

/// Items that are lost, doubled or unknown.
fn wrong_items(diaries: &[Diary], found: &Found) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut items = found.items();
    let players = diaries.iter().map(|diary| diary.player);
    for item in players.flat_map(start_items).collect::<BTreeSet<_>>() {
        let bags = items.remove(item.as_str()).unwrap_or_default();
        if !matches!(bags.as_slice(), [(_, 1)]) {
            wrong.push(format!("{item} is in the bags {bags:?}"));
        }
    }
    wrong.extend(items.keys().map(|item| format!("{item} is unknown")));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wrong counts of two players, after a change of a right state. In the right state, player
    /// 2 has bought a sword, and each player has sent six quests, of which five were acknowledged.
    fn wrong(change: impl FnOnce(&mut Found)) -> Vec<String> {
        let bag = |numbers: [(&str, i64); 4]| {
            BTreeMap::from(numbers.map(|(field, number)| (field.to_owned(), number)))
        };
        let seller = bag([
            ("gold", 130),
            ("filled", 1),
            ("sword-1", 0),
            ("shield-1", 1),
        ]);
        let mut buyer = bag([
            ("gold", 70),
            ("sword-1", 1),
            ("sword-2", 1),
            ("shield-2", 1),
        ]);
        buyer.insert("filled".to_owned(), 1);
        let mut found = Found {
            bags: BTreeMap::from([("a".to_owned(), seller), ("b".to_owned(), buyer)]),
            xp: BTreeMap::from([(1, 5), (2, 6)]),
        };
        change(&mut found);
        let quests = BTreeMap::from([("quest".to_owned(), (6, 5))]);
        let diaries = [1, 2].map(|player| Diary {
            commands: quests.clone(),
            ..Diary::of(player)
        });
        wrong_counts(&diaries, &found)
    }

    fn wrong_bag(bag: &str, field: &str, number: i64) -> Vec<String> {
        wrong(|found| {
            let bag = found.bags.get_mut(bag).unwrap();
            bag.insert(field.to_owned(), number);
        })
    }

    #[test]
    fn a_right_state_has_no_wrong_count() {
        assert_eq!(wrong(|_| {}), [""; 0]);
    }

    #[test]
    fn an_item_that_is_doubled_lost_or_unknown_is_a_wrong_count() {
        let doubled = [r#"sword-1 is in the bags [("a", 1), ("b", 1)]"#];
        assert_eq!(wrong_bag("a", "sword-1", 1), doubled);
        assert_eq!(
            wrong_bag("b", "sword-1", 2),
            [r#"sword-1 is in the bags [("b", 2)]"#]
        );
        assert_eq!(wrong_bag("b", "sword-1", 0), ["sword-1 is in the bags []"]);
        assert_eq!(wrong_bag("a", "sword-9", 1), ["sword-9 is unknown"]);
    }

    #[test]
    fn gold_that_was_made_or_lost_is_a_wrong_count() {
        assert_eq!(wrong_bag("a", "gold", 131), ["201 gold instead of 200"]);
        assert_eq!(wrong_bag("a", "gold", 0), ["70 gold instead of 200"]);
    }

    #[test]
    fn xp_that_was_acknowledged_and_is_not_there_is_a_wrong_count() {
        let with = |player, xp| wrong(|found| found.xp.extend([(player, xp)]));
        assert_eq!(with(1, 4), ["player 1 has 4 xp, not 5 to 6"]);
        assert_eq!(with(2, 7), ["player 2 has 7 xp, not 5 to 6"]);
        let lost = wrong(|found| found.xp.retain(|player, _| *player == 2));
        assert_eq!(lost, ["player 1 has no profile"]);
    }
}
