//! The pairing of the two tiers: every interleaving of programs that open them, of wipes and
//! restarts, and of a second hot tier.
//!
//! The decisions are the shipped functions [`judge`] and [`taking_over`]. The model has its own
//! tiers and order of steps. An interrupted program takes no further step, so the model needs no
//! step for that.

use storage_dirty::{HotPaired, HotPairing};
use storage_model::{LAYOUT, SeededIds, Stamp, Timestamp, Token};
use storage_sql::ColdPairing;
use storage_tiers::{PairingStep, judge, taking_over};

use crate::search::{Model, Step};

const PARTITIONS: u32 = 1;
/// More steps than a program alone needs.
const ALONE_MAX: u32 = 16;

/// A rule of the pairing that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The hot tier is read before the database.
    HotFirst,
    /// A token reaches any server that is there.
    AnyServer,
    /// A take-over replaces any hot tier that the database has.
    Blind,
    /// A take-over leaves the epoch as it is.
    Unraised,
    /// A program that finds a mismatch does not look at the database again.
    Once,
}

/// The pairing within bounds.
#[derive(Debug, Clone)]
pub struct Pairing {
    /// The hot tier that each program's settings name.
    pub programs: Vec<usize>,
    /// How often a hot tier may lose all its data.
    pub losses: u32,
    /// How often a blank hot tier may take over. Two of them may do so in turn until one has its
    /// token.
    pub take_overs: u32,
    /// The rule that is broken.
    pub broken: Option<Broken>,
}

/// A hot tier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Hot {
    server: u32,
    paired: Option<HotPaired>,
}

/// The knowledge of a program, or its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
enum At {
    #[default]
    Start,
    /// It has read one of the tiers.
    Cold(ColdPairing),
    Hot(HotPairing),
    /// It has read both, and whether they belonged together when it read the second.
    Both(HotPairing, ColdPairing, bool),
    /// They do not belong together, so it looks at the database again.
    Doubts(ColdPairing, bool),
    /// The tiers belong together, by this token.
    Paired(Token),
    /// It lands in an epoch that it raised.
    Lands(Token, u64),
    Refused,
}

/// A program: its last read epoch, and its progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Program {
    epoch: u64,
    at: At,
}

/// Both tiers and the programs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tiers {
    hot: [Hot; 2],
    cold: ColdPairing,
    epoch: u64,
    losses: u32,
    take_overs: u32,
    programs: Vec<Program>,
    /// The token of a landing that committed although another hot tier had taken over.
    wrong: Option<Token>,
    /// Whether a program was rejected although the tiers belonged together.
    falsely: bool,
}

impl Tiers {
    fn read_hot(&self, which: usize) -> HotPairing {
        let hot = self.hot.get(which).cloned().unwrap_or_default();
        let (incarnation, address) = (format!("{which}/{}", hot.server), which.to_string());
        // Time goes on between two take-overs.
        let now = Timestamp(self.cold.hot.as_ref().map_or(1, |hot| hot.since.0 + 1));
        HotPairing {
            incarnation,
            now,
            number: 0,
            prefix: "slug".to_owned(),
            address,
            paired: hot.paired,
        }
    }

    fn pair_hot(&mut self, which: usize, seen: &HotPairing, paired: HotPaired, any: bool) {
        let now = self.read_hot(which);
        let same = now.incarnation == seen.incarnation && now.paired == seen.paired;
        if let Some(hot) = self
            .hot
            .get_mut(which)
            .filter(|hot| same || any && hot.paired.is_none())
        {
            hot.paired = Some(paired);
        }
    }

    fn take_over(&mut self, hot: &HotPairing, cold: &ColdPairing, broken: Option<Broken>) {
        let pair = taking_over(PARTITIONS, hot, cold, &SeededIds::new(1));
        let fits = self
            .cold
            .identity
            .is_none_or(|identity| identity == pair.identity);
        if fits && (self.cold.hot == cold.hot || broken == Some(Broken::Blind)) {
            self.cold = ColdPairing {
                address: String::new(),
                identity: Some(pair.identity),
                partitions: Some(PARTITIONS),
                layout: Some(LAYOUT),
                hot: Some(pair.hot),
                last_raise: Stamp::NONE,
            };
            self.epoch += u64::from(broken != Some(Broken::Unraised));
        }
    }

    /// The next step of a program, with its name. None once it has ended.
    fn step(
        &mut self,
        number: usize,
        which: usize,
        broken: Option<Broken>,
    ) -> Option<&'static str> {
        let program = self.programs.get(number)?.clone();
        let hot_first = broken == Some(Broken::HotFirst);
        let (what, at) = match program.at {
            At::Start if hot_first => ("reads the hot tier", At::Hot(self.read_hot(which))),
            At::Start => ("reads the database", At::Cold(self.cold.clone())),
            At::Cold(cold) => {
                let hot = self.read_hot(which);
                let belong = judge(PARTITIONS, &hot, &self.cold).is_ok();
                ("reads the hot tier", At::Both(hot, cold, belong))
            }
            At::Hot(hot) => {
                let belong = judge(PARTITIONS, &self.read_hot(which), &self.cold).is_ok();
                (
                    "reads the database",
                    At::Both(hot, self.cold.clone(), belong),
                )
            }
            At::Doubts(cold, _) if cold != self.cold => {
                ("finds that the database has moved", At::Start)
            }
            At::Doubts(_, belong) => {
                self.falsely |= belong;
                ("is refused", At::Refused)
            }
            At::Both(hot, cold, belong) => match judge(PARTITIONS, &hot, &cold) {
                Err(_) if broken == Some(Broken::Once) => {
                    self.falsely |= belong;
                    ("is refused", At::Refused)
                }
                Err(_) => ("doubts", At::Doubts(cold, belong)),
                Ok(PairingStep::Paired) => ("goes on", At::Paired(hot.paired?.token)),
                Ok(PairingStep::Join(paired)) => {
                    self.pair_hot(which, &hot, paired, broken == Some(Broken::AnyServer));
                    ("gives the hot tier its token", At::Start)
                }
                Ok(PairingStep::TakeOver) => {
                    self.take_overs = self.take_overs.checked_sub(1)?;
                    self.take_over(&hot, &cold, broken);
                    ("takes over the database", At::Start)
                }
            },
            At::Paired(token) if self.epoch == program.epoch => {
                self.epoch += 1;
                ("raises the epoch", At::Lands(token, self.epoch))
            }
            // Another program raised it since, so this one begins again.
            At::Paired(_) => ("looks again", At::Start),
            At::Lands(token, epoch) if self.epoch == epoch => {
                let current = self.cold.hot.as_ref().map(|hot| hot.token);
                self.wrong = self
                    .wrong
                    .or(Some(token).filter(|token| Some(*token) != current));
                return None;
            }
            At::Lands(..) | At::Refused => return None,
        };
        // ORDER: the epoch is read when a program begins, before it compares the tiers.
        let epoch = if at == At::Start {
            self.epoch
        } else {
            program.epoch
        };
        let program = self.programs.get_mut(number)?;
        *program = Program { epoch, at };
        Some(what)
    }

    /// Whether a program that runs alone from here on will use this hot tier.
    fn opens(&self, which: usize, broken: Option<Broken>) -> bool {
        let mut tiers = self.clone();
        tiers.take_overs = ALONE_MAX;
        tiers.programs = vec![Program {
            epoch: tiers.epoch,
            at: At::Start,
        }];
        for _ in 0..ALONE_MAX {
            match tiers.programs.first().map(|program| &program.at) {
                Some(At::Lands(..)) => return true,
                Some(At::Refused) | None => return false,
                _ => tiers.step(0, which, broken),
            };
        }
        false
    }
}

impl Model for Pairing {
    type State = Tiers;

    fn start(&self) -> Tiers {
        Tiers {
            hot: Default::default(),
            cold: ColdPairing::default(),
            epoch: 0,
            losses: self.losses,
            take_overs: self.take_overs,
            programs: vec![Program::default(); self.programs.len()],
            wrong: None,
            falsely: false,
        }
    }

    fn steps(&self, tiers: &Tiers, take: &mut dyn FnMut(Step, Result<Tiers, String>)) {
        for (number, which) in self.programs.iter().enumerate() {
            let mut next = tiers.clone();
            if let Some(what) = next.step(number, *which, self.broken) {
                take(
                    Step {
                        who: "program",
                        number,
                        what,
                    },
                    Ok(next),
                );
            } else if next != *tiers {
                take(
                    Step {
                        who: "program",
                        number,
                        what: "lands",
                    },
                    Ok(next),
                );
            }
        }
        for which in 0..2 {
            if tiers.losses == 0 || !self.programs.contains(&which) {
                continue;
            }
            for (restarts, what) in [(false, "is wiped"), (true, "is restarted blank")] {
                let mut next = tiers.clone();
                next.losses -= 1;
                if let Some(hot) = next.hot.get_mut(which) {
                    *hot = Hot {
                        server: hot.server + u32::from(restarts),
                        paired: None,
                    };
                }
                take(
                    Step {
                        who: "hot tier",
                        number: which,
                        what,
                    },
                    Ok(next),
                );
            }
        }
    }

    fn violation(&self, tiers: &Tiers) -> Option<String> {
        if let Some(token) = tiers.wrong {
            return Some(format!(
                "the hot tier of token {token} landed although another one had taken over"
            ));
        }
        if tiers.falsely {
            return Some("a program was refused although the tiers belonged together".to_owned());
        }
        let tokens = tiers
            .hot
            .each_ref()
            .map(|hot| hot.paired.map(|paired| paired.token));
        if tokens[0].is_some() && tokens[0] == tokens[1] {
            return Some("two hot tiers have one token".to_owned());
        }
        let mut named: Vec<usize> = self.programs.clone();
        named.sort_unstable();
        named.dedup();
        let opens = named
            .into_iter()
            .any(|which| tiers.opens(which, self.broken));
        (!opens).then(|| "no hot tier can be opened any more".to_owned())
    }
}
