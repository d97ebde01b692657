//! Reads and checks `#[save_object(…)]`.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, Expr, Field, LitInt, LitStr, Result};

/// The most bytes of a logic type, as in the column of the table.
pub(crate) const LOGIC_TYPE_BYTES_MAX: usize = 64;
/// The most bytes of a field's name, as in the column of the table.
pub(crate) const FIELD_BYTES_MAX: usize = 255;

/// The attributes of the struct.
#[derive(Default)]
pub(crate) struct Place {
    pub(crate) logic_type: Option<LitStr>,
    pub(crate) field: Option<LitStr>,
    pub(crate) schema_version: Option<LitInt>,
    pub(crate) durability: Option<Expr>,
}

impl Place {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut place = Self::default();
        for attribute in save_object(attributes) {
            attribute.parse_nested_meta(|meta| place.read(&meta))?;
        }
        Ok(place)
    }

    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        if meta.path.is_ident("logic_type") {
            once(
                meta,
                &mut self.logic_type,
                name(meta, "logic_type", LOGIC_TYPE_BYTES_MAX)?,
            )
        } else if meta.path.is_ident("field") {
            once(meta, &mut self.field, name(meta, "field", FIELD_BYTES_MAX)?)
        } else if meta.path.is_ident("schema_version") {
            once(meta, &mut self.schema_version, schema_version(meta)?)
        } else if meta.path.is_ident("durability") {
            once(meta, &mut self.durability, meta.value()?.parse()?)
        } else if meta.path.is_ident("owner_id") {
            Err(meta.error("owner_id belongs on the field with the owner's id, not on the struct"))
        } else {
            Err(meta.error("unknown save_object attribute; a struct takes logic_type, field, schema_version and durability"))
        }
    }
}

/// Whether the field carries `#[save_object(owner_id)]`.
pub(crate) fn is_owner_id(field: &Field) -> Result<bool> {
    let mut found = None;
    for attribute in save_object(&field.attrs) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("owner_id") {
                return Err(
                    meta.error("unknown save_object attribute; a field takes owner_id alone")
                );
            }
            if !meta.input.is_empty() && !meta.input.peek(syn::Token![,]) {
                return Err(meta.error("owner_id takes no value; write #[save_object(owner_id)]"));
            }
            once(&meta, &mut found, ())
        })?;
    }
    if found.is_some() {
        refuse_skipped(field)?;
    }
    Ok(found.is_some())
}

/// An owner id that is not stored would come back as its default. The object would then be saved to
/// that owner.
fn refuse_skipped(field: &Field) -> Result<()> {
    for attribute in field
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("serde"))
    {
        attribute.parse_nested_meta(|meta| {
            let skips = [
                "skip",
                "skip_serializing",
                "skip_serializing_if",
                "skip_deserializing",
            ];
            if skips.iter().any(|skip| meta.path.is_ident(skip)) {
                return Err(
                    meta.error("the owner id must be stored with the object; remove this skip")
                );
            }
            // Serde checks its own attributes. This loop skips them.
            if meta.input.peek(syn::Token![=]) {
                meta.value()?.parse::<syn::Expr>()?;
            } else if meta.input.peek(syn::token::Paren) {
                let within;
                syn::parenthesized!(within in meta.input);
                within.parse::<proc_macro2::TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn save_object(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("save_object"))
}

fn once<T>(meta: &ParseNestedMeta<'_>, slot: &mut Option<T>, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(meta.error("given twice; remove one")),
    }
}

/// A name within the limits that the SDK checks at run time.
fn name(meta: &ParseNestedMeta<'_>, part: &str, limit: usize) -> Result<LitStr> {
    let literal: LitStr = meta.value()?.parse()?;
    let name = literal.value();
    let refuse = |message: String| Err(Error::new(literal.span(), message));
    if name.is_empty() {
        return refuse(format!("{part} is empty; it needs 1 to {limit} bytes"));
    }
    if name.len() > limit {
        return refuse(format!(
            "{part} has {} bytes; the limit is {limit}, so shorten it",
            name.len()
        ));
    }
    if let Some(character) = name.chars().find(|c| c.is_control()) {
        return refuse(format!(
            "{part} holds the control character {character:?}; names may hold any other UTF-8"
        ));
    }
    Ok(literal)
}

fn schema_version(meta: &ParseNestedMeta<'_>) -> Result<LitInt> {
    let literal: LitInt = meta.value()?.parse()?;
    match literal.base10_parse::<u32>() {
        Ok(1..) if matches!(literal.suffix(), "" | "u32") => Ok(literal),
        _ => Err(Error::new(
            literal.span(),
            format!(
                "schema_version is {literal}; it must be a u32 from 1 to {}",
                u32::MAX
            ),
        )),
    }
}
