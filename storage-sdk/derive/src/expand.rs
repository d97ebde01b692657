//! Turns the struct into the implementation.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, FieldsNamed, Result};

use crate::attribute::{Place, is_owner_id};

/// The implementation of `SaveObject`.
///
/// # Errors
/// The input is not a struct with named fields, or its attributes break a rule of the derive's
/// documentation.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let fields = named_fields(&input)?;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new(
            lifetime.span(),
            "a stored object owns its data, since it is read from bytes that are gone afterwards: use String in place of &str, Vec<T> in \
             place of &[T], and no lifetime",
        ));
    }
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(
            parameter.span(),
            "SaveObject does not take generic parameters: all types of one logic type would share their stored objects; \
             derive it for a concrete type",
        ));
    }
    let place = Place::parse(&input.attrs)?;
    let owner_id = owner_id(fields, input.ident.span())?;
    let Some(logic_type) = place.logic_type else {
        return Err(Error::new(
            input.ident.span(),
            "SaveObject needs the kind of entity: add #[save_object(logic_type = \"…\")] to the struct",
        ));
    };

    let (name, where_clause) = (&input.ident, &input.generics.where_clause);
    let (id, id_type) = (&owner_id.ident, &owner_id.ty);
    let field = place
        .field
        .map(|field| quote!(const FIELD: &'static str = #field;));
    let version = place
        .schema_version
        .map(|version| quote!(const SCHEMA_VERSION: u32 = #version;));
    let durability = place.durability.map(|durability| {
        let option = quote!(::core::option::Option);
        quote!(const DURABILITY: #option<::storage_sdk::Durability> = #option::Some(#durability);)
    });
    // Spanned to the field's type, so that a wrong type of an id is reported there.
    let associated = quote_spanned!(id_type.span()=> type OwnerId = #id_type;);
    Ok(quote! {
        #[automatically_derived]
        impl ::storage_sdk::SaveObject for #name #where_clause {
            const LOGIC_TYPE: &'static str = #logic_type;
            #field
            #version
            #durability
            #associated

            fn owner_id(&self) -> &Self::OwnerId {
                &self.#id
            }
        }
    })
}

fn named_fields(input: &DeriveInput) -> Result<&FieldsNamed> {
    let refuse = |what: &str| {
        let message = format!(
            "SaveObject needs a struct with named fields, and this is {what}: objects are stored by field name"
        );
        Err(Error::new(input.ident.span(), message))
    };
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => Ok(fields),
            Fields::Unnamed(_) => refuse("a tuple struct"),
            Fields::Unit => refuse("a unit struct"),
        },
        Data::Enum(_) => refuse("an enum"),
        Data::Union(_) => refuse("a union"),
    }
}

fn owner_id(fields: &FieldsNamed, name: Span) -> Result<&Field> {
    let mut found: Option<&Field> = None;
    for field in &fields.named {
        if !is_owner_id(field)? {
            continue;
        }
        if found.replace(field).is_some() {
            return Err(Error::new(
                field.span(),
                "a second owner_id: exactly one field names the owner",
            ));
        }
    }
    found.ok_or_else(|| {
        Error::new(
            name,
            "no field names the owner: add #[save_object(owner_id)] to one",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::{FIELD_BYTES_MAX, LOGIC_TYPE_BYTES_MAX};

    /// The error and the source text that its span covers.
    fn refused(source: &str) -> (String, String) {
        let error = expand(source.parse().unwrap()).unwrap_err();
        (error.to_string(), error.span().source_text().unwrap())
    }

    fn accepted(source: &str) -> String {
        expand(source.parse().unwrap()).unwrap().to_string()
    }

    fn with(attributes: &str) -> String {
        format!("{attributes} struct Player {{ #[save_object(owner_id)] id: u64, level: u32 }}")
    }

    #[test]
    fn a_struct_without_options_leaves_the_defaults_to_the_trait() {
        let code = accepted(&with(r#"#[save_object(logic_type = "player")]"#));
        assert!(
            code.contains(r#"impl :: storage_sdk :: SaveObject for Player"#),
            "{code}"
        );
        assert!(
            code.contains(r#"const LOGIC_TYPE : & 'static str = "player" ;"#),
            "{code}"
        );
        assert!(
            code.contains("type OwnerId = u64 ;") && code.contains("& self . id"),
            "{code}"
        );
        assert!(
            !code.contains("FIELD") && !code.contains("SCHEMA_VERSION"),
            "{code}"
        );
    }

    #[test]
    fn options_may_stand_in_one_attribute_or_in_several() {
        for attributes in [
            r#"#[save_object(logic_type = "player", field = "bag", schema_version = 3)]"#,
            r#"#[save_object(schema_version = 3)] #[serde(deny_unknown_fields)] #[save_object(field = "bag", logic_type = "player",)]"#,
        ] {
            let code = accepted(&with(attributes));
            assert!(
                code.contains(r#"const FIELD : & 'static str = "bag" ;"#),
                "{code}"
            );
            assert!(code.contains("const SCHEMA_VERSION : u32 = 3 ;"), "{code}");
        }
    }

    #[test]
    fn names_of_the_longest_length_and_of_any_script_are_accepted() {
        accepted(&with(&format!(
            r#"#[save_object(logic_type = "{}", field = "{}")]"#,
            "x".repeat(64),
            "y".repeat(255)
        )));
        accepted(&with(
            r#"#[save_object(logic_type = "玩家:{a}", field = ":x y")]"#,
        ));
        assert_eq!(LOGIC_TYPE_BYTES_MAX, storage_model::name::SCOPE_BYTES_MAX);
        assert_eq!(FIELD_BYTES_MAX, storage_model::name::ID_BYTES_MAX);
    }

    #[test]
    fn a_missing_logic_type_is_reported_at_the_structs_name() {
        let (message, place) = refused(&with("#[save_object(field = \"bag\")]"));
        assert!(
            message.contains(r#"add #[save_object(logic_type = "…")]"#),
            "{message}"
        );
        assert_eq!(place, "Player");
    }

    #[test]
    fn none_and_two_owner_ids_are_reported_at_the_struct_and_at_the_second() {
        let (message, place) =
            refused(r#"#[save_object(logic_type = "p")] struct Player { id: u64 }"#);
        assert_eq!(
            (message.as_str(), place.as_str()),
            (
                "no field names the owner: add #[save_object(owner_id)] to one",
                "Player"
            )
        );
        let two = r#"#[save_object(logic_type = "p")] struct P { #[save_object(owner_id)] a: u64, #[save_object(owner_id)] b: u8 }"#;
        let (message, place) = refused(two);
        assert_eq!(
            message,
            "a second owner_id: exactly one field names the owner"
        );
        assert!(place.contains("b: u8"), "{place}");
    }

    #[test]
    fn unknown_misplaced_and_repeated_attributes_are_reported_at_their_place() {
        for (attributes, message, place) in [
            (
                "#[save_object(logictype = \"p\")]",
                "a struct takes logic_type, field, schema_version and durability",
                "logictype",
            ),
            (
                "#[save_object(owner_id)]",
                "owner_id belongs on the field",
                "owner_id",
            ),
            (
                "#[save_object(field = \"a\", field = \"b\")]",
                "given twice",
                "field = \"b\"",
            ),
            (
                "#[save_object(logic_type = \"a\")] #[save_object(logic_type = \"b\")]",
                "given twice",
                "logic_type = \"b\"",
            ),
        ] {
            let (found, at) = refused(&with(attributes));
            assert!(found.contains(message) && at == place, "{found} at {at}");
        }
        for (attribute, message, place) in [
            ("owner", "a field takes owner_id alone", "owner"),
            ("owner_id, owner_id", "given twice", "owner_id"),
            ("owner_id = \"x\"", "owner_id takes no value", "owner_id"),
            ("owner_id(x)", "owner_id takes no value", "owner_id"),
        ] {
            let (found, at) = refused(&format!(
                r#"#[save_object(logic_type = "p")] struct P {{ #[save_object({attribute})] id: u8 }}"#
            ));
            assert!(found.contains(message) && at == place, "{found} at {at}");
        }
    }

    #[test]
    fn names_that_the_table_cannot_hold_are_reported_at_the_literal() {
        let (long_type, long_field) = ("x".repeat(65), "名".repeat(86));
        for (attribute, literal, message) in [
            (
                "logic_type",
                "",
                "logic_type is empty; it needs 1 to 64 bytes",
            ),
            (
                "logic_type",
                long_type.as_str(),
                "logic_type has 65 bytes; the limit is 64, so shorten it",
            ),
            (
                "logic_type",
                r"a\nb",
                r"logic_type holds the control character '\n'; names may hold any other UTF-8",
            ),
            ("field", "", "field is empty; it needs 1 to 255 bytes"),
            (
                "field",
                long_field.as_str(),
                "field has 258 bytes; the limit is 255, so shorten it",
            ),
            (
                "field",
                r"\u{7f}",
                r"field holds the control character '\u{7f}'; names may hold any other UTF-8",
            ),
        ] {
            let literal = format!("\"{literal}\"");
            let (found, at) = refused(&with(&format!("#[save_object({attribute} = {literal})]")));
            assert_eq!((found.as_str(), at), (message, literal));
        }
    }

    #[test]
    fn schema_versions_that_are_no_positive_u32_are_reported_at_the_literal() {
        for literal in ["0", "4294967296", "1u64", "99999999999999999999"] {
            let (found, at) = refused(&with(&format!(
                "#[save_object(schema_version = {literal})]"
            )));
            assert_eq!(
                found,
                format!("schema_version is {literal}; it must be a u32 from 1 to 4294967295")
            );
            assert_eq!(at, literal);
        }
        assert_eq!(
            refused(&with("#[save_object(schema_version = \"2\")]")).0,
            "expected integer literal"
        );
        assert_eq!(
            refused(&with("#[save_object(logic_type = 2)]")).0,
            "expected string literal"
        );
    }

    #[test]
    fn shapes_without_named_fields_and_generics_are_reported_with_the_reason() {
        for (source, what) in [
            ("struct Player(u64);", "a tuple struct"),
            ("struct Player;", "a unit struct"),
            ("enum Player { A { id: u64 } }", "an enum"),
            ("union Player { id: u64 }", "a union"),
        ] {
            let (message, place) = refused(source);
            assert!(
                message.contains(&format!("a struct with named fields, and this is {what}")),
                "{message}"
            );
            assert_eq!(place, "Player");
        }
        let (message, place) =
            refused("struct Player<'a> { #[save_object(owner_id)] id: u64, name: &'a str }");
        assert!(
            message.contains("owns its data") && message.contains("String in place of &str"),
            "{message}"
        );
        assert_eq!(place, "'a");
        for parameter in ["T", "const N: usize"] {
            let (message, place) = refused(&format!(
                "struct Player<{parameter}> {{ #[save_object(owner_id)] id: u64 }}"
            ));
            assert!(
                message.contains("does not take generic parameters"),
                "{message}"
            );
            assert_eq!(place, parameter);
        }
    }

    #[test]
    fn an_owner_id_that_serde_skips_is_refused_and_other_serde_attributes_are_not() {
        let source = |serde: &str| {
            format!(
                r#"#[save_object(logic_type = "p")] struct P {{ #[save_object(owner_id)] #[serde({serde})] id: u8 }}"#
            )
        };
        for skip in [
            "skip",
            "skip_serializing",
            "skip_deserializing",
            "skip_serializing_if",
        ] {
            let (message, place) = refused(&source(&format!("default, {skip}")));
            assert_eq!(
                (message.as_str(), place.as_str()),
                (
                    "the owner id must be stored with the object; remove this skip",
                    skip
                )
            );
        }
        accepted(&source(
            r#"default = "f", rename(serialize = "a", deserialize = "b"), with = "m", default"#,
        ));
    }
}
