//! The declaration of a section: for each key its type, its default and its rule.

/// Declares the struct of a section, its defaults, and the rules of its keys.
///
/// A key has the form `name: type = default, rule;`. After `type as "module"`, serde reads and
/// writes the value by that module.
macro_rules! section {
    (
        $(#[$about:meta])*
        $section:ident;
        $(
            $(#[$note:meta])*
            $key:ident: $type:ty $(as $form:literal)? = $default:expr, $rule:expr;
        )+
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        #[non_exhaustive]
        pub struct $section {
            $($(#[$note])* $(#[serde(with = $form)])? pub $key: $type,)+
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $($key: $default,)+ }
            }
        }

        impl $section {
            /// The allowed values of each key.
            pub(crate) const RULES: crate::rule::Rules = &[$((stringify!($key), $rule)),+];

            /// These settings after a change, such as of one field.
            #[must_use]
            pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
                change(&mut self);
                self
            }
        }
    };
}

/// The names that declarations use.
pub(crate) mod prelude {
    pub(crate) use std::path::PathBuf;
    pub(crate) use std::time::Duration;

    pub(crate) use super::section;
    pub(crate) use crate::check::{self, ensure};
    pub(crate) use crate::error::ConfigError;
    pub(crate) use crate::rule::Rule::{Nested, Number, Switch, Text, Time, Url};
    pub(crate) use crate::rule::{PASSWORD, PEM_FILE, PROCESS, fault, is_name, time};
    pub(crate) use crate::secret::Secret;
    pub(crate) use crate::url::Login;
}
pub(crate) use section;
