//! The keys of all sections, and hints at the nearest ones.

use storage_model::SinkName;

use crate::error::{ConfigError, Place, other};
use crate::rule::{Rule, Rules};
use crate::{
    BackpressureSettings, DurabilitySettings, FeedSettings, HotSettings, LandingSettings,
    RedisSettings, SessionSettings, SinkSettings, SqlSettings, limits,
};

/// The prefix of all variables of the storage.
pub(crate) const VARIABLES: &str = "STORAGE__";
/// The section that has a section for each sink.
pub(crate) const SINKS: &str = "sinks";

/// All other sections.
pub(crate) const SECTIONS: [(&str, Rules); 9] = [
    ("redis", RedisSettings::RULES),
    ("sql", SqlSettings::RULES),
    ("hot", HotSettings::RULES),
    ("landing", LandingSettings::RULES),
    ("backpressure", BackpressureSettings::RULES),
    ("durability", DurabilitySettings::RULES),
    ("feed", FeedSettings::RULES),
    ("sessions", SessionSettings::RULES),
    ("limits", limits::RULES),
];

/// The rules of a section. A sink has those of all kinds, since its kind may come later.
fn rules(section: &str) -> impl Iterator<Item = &'static (&'static str, Rule)> {
    let own = SECTIONS.iter().filter(move |(name, _)| *name == section);
    let is_sink = sink_of(section).is_some();
    let of_sinks = SinkSettings::KINDS.iter().filter(move |_| is_sink);
    own.chain(of_sinks).flat_map(|(_, rules)| rules.iter())
}

/// The rule of a key, if there is such a key.
pub(crate) fn rule(section: &str, name: &str) -> Option<&'static Rule> {
    let mut rules = rules(section);
    rules.find(|(own, _)| *own == name).map(|(_, rule)| rule)
}

/// Whether there can be a section of this name.
pub(crate) fn is_section(name: &str) -> bool {
    name == SINKS || rules(name).next().is_some()
}

/// The name of the sink that a section is for.
pub(crate) fn sink_of(section: &str) -> Option<SinkName> {
    section.strip_prefix(SINKS)?.strip_prefix('.')?.parse().ok()
}

/// The variable that overrides a key.
pub(crate) fn variable(key: &str) -> String {
    format!("{VARIABLES}{}", key.to_uppercase().replace('.', "__"))
}

/// The section, the name and the rule of the key that a variable overrides.
pub(crate) fn of_variable(name: &str) -> Option<(String, String, &'static Rule)> {
    let (section, key) = name.strip_prefix(VARIABLES)?.rsplit_once("__")?;
    let section = section.to_lowercase().replacen("__", ".", 1);
    let key = key.to_lowercase();
    let rule = rule(&section, &key)?;
    (variable(&format!("{section}.{key}")) == name).then_some((section, key, rule))
}

/// The variable whose value stands in a file, if `name` names the file.
pub(crate) fn of_file_variable(name: &str) -> Option<&str> {
    let plain = name.strip_suffix("_FILE")?;
    (of_variable(name).is_none() && of_variable(plain).is_some()).then_some(plain)
}

/// The error of a section that is none.
pub(crate) fn unknown_section(section: &str, place: Place) -> ConfigError {
    let mut known = SECTIONS.map(|(name, _)| name).to_vec();
    known.push(SINKS);
    let hint = if section.contains('.') {
        "a sink's name has 1 to 32 of a to z, 0 to 9 and single _, a letter first".to_owned()
    } else {
        nearest(section, &known).unwrap_or_else(|| format!("there are {}", known.join(", ")))
    };
    other(place, format!("unknown section {section}; {hint}"))
}

/// The error of a key that is none.
pub(crate) fn unknown_key(section: &str, name: &str, place: Place) -> ConfigError {
    let (key, all) = (format!("{section}.{name}"), all_keys(section));
    let end = format!(".{name}");
    let namesake = all.iter().find(|known| known.ends_with(&end));
    let own: Vec<_> = rules(section).map(|(name, _)| *name).collect();
    let hint = namesake
        .map(|known| format!("did you mean {known}?"))
        .or_else(|| nearest(&key, &all))
        .unwrap_or_else(|| format!("{section} has {}", own.join(", ")));
    other(place, format!("unknown key {key}; {hint}"))
}

/// The error of a variable that names no key.
pub(crate) fn unknown_variable(name: &str) -> ConfigError {
    let all: Vec<_> = all_keys("").iter().map(|key| variable(key)).collect();
    let form = "the name is STORAGE__SECTION__KEY, such as STORAGE__REDIS__URL";
    let hint = nearest(name, &all).unwrap_or_else(|| form.to_owned());
    other(Place::Program, format!("unknown variable {name}; {hint}"))
}

/// All keys, with those of `section` if it is a sink's.
fn all_keys(section: &str) -> Vec<String> {
    let sections = SECTIONS.iter().map(|(name, _)| *name);
    let sections = sections.chain(sink_of(section).map(|_| section));
    let keys = |section| rules(section).map(move |(name, _)| format!("{section}.{name}"));
    sections.flat_map(keys).collect()
}

/// A hint at the nearest known name, unless none is near.
fn nearest(name: &str, known: &[impl AsRef<str>]) -> Option<String> {
    const FAR: usize = 4;
    let known = known.iter().map(AsRef::as_ref);
    let distances = known.map(|known| (strsim::osa_distance(name, known), known));
    let (_, nearest) = distances.min().filter(|(distance, _)| *distance < FAR)?;
    Some(format!("did you mean {nearest}?"))
}
