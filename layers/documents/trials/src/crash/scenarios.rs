//! The calls of clients while a process dies at every point of them.

use anyhow::Result;
use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use storage_tests::crash::Scenario;
use storage_tests::crash::play::Play;
use storage_tests::crash::scenarios::PLAIN;

use super::caller::{Wanted, make_all, repeat_unanswered};
use super::compare::compare;
use crate::torture::history::Kind;

/// Every scenario.
pub const SCENARIOS: &[Scenario] = &[DOCUMENTS, ITEMS, ENDS];

/// One call.
const fn wanted(kind: Kind, path: &'static str, token: &'static str) -> Wanted {
    Wanted { kind, path, token }
}

macro_rules! scenario {
    ($(#[doc = $doc:literal])* $name:ident $text:literal $calls:ident $module:ident [$($call:expr),* $(,)?]) => {
        $(#[doc = $doc])*
        pub const $name: Scenario = Scenario {
            name: $text,
            act: $module::act,
            next: $module::next,
            compare: $module::compare,
            points_min: 20,
            ..PLAIN
        };
        const $calls: &[Wanted] = &[$($call),*];
        mod $module {
            use super::*;

            pub(super) fn act<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
                async move {
                    make_all(play, $calls).await?;
                    play.land().await
                }
                .boxed_local()
            }

            pub(super) fn next<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
                repeat_unanswered(play, $calls).boxed_local()
            }

            pub(super) fn compare<'a>(play: &'a Play<'a>) -> LocalBoxFuture<'a, Result<()>> {
                super::compare(play, $calls).boxed_local()
            }
        }
    };
}

scenario! {
    /// Documents that are put, patched, counted and deleted, and their landing.
    DOCUMENTS "documents" DOCUMENT_CALLS documents [
        wanted(Kind::Put, "a", "1"),
        wanted(Kind::Patch, "a", "2"),
        wanted(Kind::Increment, "a", "7"),
        wanted(Kind::Put, "b", "4"),
        wanted(Kind::Delete, "b", "5"),
    ]
}

scenario! {
    /// Items of a collection, and posts.
    ITEMS "items" ITEM_CALLS items [
        wanted(Kind::Put, "g~/x", "1"),
        wanted(Kind::Put, "g~/y", "2"),
        wanted(Kind::Post, "g~", "3"),
        wanted(Kind::Patch, "g~/x", "4"),
        wanted(Kind::Delete, "g~/y", "5"),
    ]
}

scenario! {
    /// A collection that ends and begins again.
    ENDS "ends" END_CALLS ends [
        wanted(Kind::Put, "g~/x", "1"),
        wanted(Kind::Put, "g~/y", "2"),
        wanted(Kind::Delete, "g~", "3"),
        wanted(Kind::Put, "g~/x", "4"),
        wanted(Kind::Post, "g~", "5"),
    ]
}
