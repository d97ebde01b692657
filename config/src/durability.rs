//! The section `durability`: how safe writes are when they are acknowledged.

use std::collections::BTreeMap;
use std::time::Duration;

use storage_model::Durability;
use toml::de::{DeTable, DeValue};

use crate::entry::{Entry, Section, matching};
use crate::value::{Raw, Unread, Value};

/// How safe writes must be before they are acknowledged, unless a write says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DurabilitySettings {
    /// The durability of all writes. Default: `Cached`, the hot tier has the write.
    pub default: Durability,
    /// The durability of writes of some logic types, by name. Default: none.
    pub logic_types: BTreeMap<String, Durability>,
}

impl Section for DurabilitySettings {
    fn entries(&mut self) -> Vec<Entry<'_>> {
        vec![
            Entry::new(
                "default",
                &mut self.default,
                matching(Durability::KIND, Durability::is_possible),
            ),
            Entry::new(
                "logic_types",
                &mut self.logic_types,
                matching(BTreeMap::KIND, are_possible),
            ),
        ]
    }
}

fn are_possible(durabilities: &BTreeMap<String, Durability>) -> bool {
    durabilities.values().all(Durability::is_possible)
}

impl Value for Durability {
    const KIND: &'static str = "\"cached\", or \"replicated 2 200ms\", \"fsynced 200ms\" or \"landed 2s\" with other numbers, from 1 ms to 1 min";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        raw.text().and_then(parse).ok_or(Unread::Other)
    }

    fn show(&self) -> String {
        let timeout = |timeout: &Duration| humantime::format_duration(*timeout).to_string();
        match self {
            Self::Replicated {
                replicas,
                timeout: within,
            } => format!("\"replicated {replicas} {}\"", timeout(within)),
            Self::Fsynced { timeout: within } => format!("\"fsynced {}\"", timeout(within)),
            Self::Landed { timeout: within } => format!("\"landed {}\"", timeout(within)),
            _ => "\"cached\"".to_owned(),
        }
    }

    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

fn parse(text: &str) -> Option<Durability> {
    let duration = |text: &str| humantime::parse_duration(text).ok();
    match text.trim().split_once(' ').unwrap_or((text.trim(), "")) {
        ("cached", "") => Some(Durability::Cached),
        ("fsynced", timeout) => Some(Durability::Fsynced {
            timeout: duration(timeout)?,
        }),
        ("landed", timeout) => Some(Durability::Landed {
            timeout: duration(timeout)?,
        }),
        ("replicated", rest) => {
            let (replicas, timeout) = rest.split_once(' ')?;
            Some(Durability::Replicated {
                replicas: replicas.parse().ok()?,
                timeout: duration(timeout)?,
            })
        }
        _ => None,
    }
}

/// A table in a file. In a variable it is the same table as text.
impl Value for BTreeMap<String, Durability> {
    const KIND: &'static str =
        "a table of logic types, such as { player = \"fsynced 200ms\", trade = \"landed 2s\" }";

    fn read(raw: &Raw<'_>) -> Result<Self, Unread> {
        match raw {
            Raw::Toml(DeValue::Table(table)) => of_table(table).ok_or(Unread::Other),
            Raw::Toml(_) => Err(Unread::Other),
            Raw::Variable(text) => {
                let text = format!("table = {text}");
                let root = DeTable::parse(&text).map_err(|_| Unread::Other)?;
                match root
                    .get_ref()
                    .iter()
                    .map(|(_, value)| value.get_ref())
                    .collect::<Vec<_>>()[..]
                {
                    [DeValue::Table(table)] => of_table(table).ok_or(Unread::Other),
                    _ => Err(Unread::Other),
                }
            }
        }
    }

    fn show(&self) -> String {
        let pairs: Vec<_> = self
            .iter()
            .map(|(name, durability)| format!("{name:?} = {}", durability.show()))
            .collect();
        format!("{{ {} }}", pairs.join(", "))
    }

    fn redact(text: &str) -> String {
        text.to_owned()
    }
}

fn of_table(table: &DeTable<'_>) -> Option<BTreeMap<String, Durability>> {
    let pairs = table.iter().map(|(name, value)| {
        Some((
            name.get_ref().to_string(),
            parse(value.get_ref().as_str()?)?,
        ))
    });
    pairs.collect()
}
