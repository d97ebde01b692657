//! The names of services, data centres and holders.

use std::fmt;
use std::sync::Arc;

use storage_model::NameError;
use storage_model::name::check;

/// The most bytes of the name of a service or of a data centre. The columns have as many.
pub const NAME_BYTES_MAX: usize = 64;
/// The most bytes of a holder. The column has as many.
pub const HOLDER_BYTES_MAX: usize = 255;

/// A checked text. Texts sort byte by byte, as the columns do.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $part:literal, $limit:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text.
            ///
            /// # Errors
            /// The text is empty, too long, or holds a control character.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check($part, text, $limit)?;
                Ok(Self(text.into()))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// The name of a service: UTF-8 of 1 to 64 bytes without control characters. Another sharding
    /// function is another service, so the name has a version. Cheap to clone.
    ///
    /// ```
    /// # mod storage_sdk { pub mod layer { pub use storage_sql::claims; } }
    /// use storage_sdk::layer::claims::ServiceName;
    /// assert_eq!(ServiceName::new("goals-2")?.as_str(), "goals-2");
    /// assert!(ServiceName::new(&"x".repeat(65)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ServiceName, "service", NAME_BYTES_MAX
}

name! {
    /// The name of a data centre: UTF-8 of 1 to 64 bytes without control characters. Cheap to clone.
    ///
    /// ```
    /// # mod storage_sdk { pub mod layer { pub use storage_sql::claims; } }
    /// use storage_sdk::layer::claims::DataCentre;
    /// assert_eq!(DataCentre::new("köln")?.to_string(), "köln");
    /// assert!(DataCentre::new("").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    DataCentre, "data centre", NAME_BYTES_MAX
}

name! {
    /// The server that holds a claim, such as its host and port: UTF-8 of 1 to 255 bytes without
    /// control characters. Cheap to clone.
    ///
    /// ```
    /// # mod storage_sdk { pub mod layer { pub use storage_sql::claims; } }
    /// use storage_sdk::layer::claims::Holder;
    /// assert_eq!(Holder::new("goals-7.internal:7000")?.as_str(), "goals-7.internal:7000");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Holder, "holder", HOLDER_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_bytes_of_their_columns_and_an_error_names_the_limit() {
        // Two bytes for each letter.
        let [fits, long] = [32, 33].map(|letters| "é".repeat(letters));
        assert_eq!(ServiceName::new(&fits).unwrap().as_str(), fits);
        assert_eq!(DataCentre::new(&fits).unwrap().as_str(), fits);
        for error in [
            ServiceName::new(&long).unwrap_err(),
            DataCentre::new(&"x".repeat(65)).unwrap_err(),
        ] {
            assert!(error.to_string().contains("the limit is 64"), "{error}");
        }
        let [fits, long] = [255, 256].map(|letters| "x".repeat(letters));
        assert_eq!(Holder::new(&fits).unwrap().as_str(), fits);
        let error = Holder::new(&long).unwrap_err().to_string();
        assert!(
            error.starts_with("holder \"xxx")
                && error.contains("has 256 bytes; the limit is 255, so shorten it"),
            "{error}"
        );
    }

    #[test]
    fn a_name_is_no_empty_text_and_has_no_control_character() {
        for bad in ["", "a\0", "a\n"] {
            assert!(ServiceName::new(bad).is_err() && DataCentre::new(bad).is_err());
            assert!(Holder::new(bad).is_err());
        }
        let error = DataCentre::new("").unwrap_err().to_string();
        assert_eq!(error, "data centre is empty; it needs 1 to 64 bytes");
    }
}
