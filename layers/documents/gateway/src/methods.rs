//! The methods of documents, collections and items, which share a route.

use storage_documents::{Path, Place};

use crate::parameters::PathText;
use crate::problem::{self, Problem};

/// The answer to a method that the path does not have. It names those that the path has.
pub(crate) fn refused(path: &Path) -> Problem {
    let (kind, methods) = match path.place() {
        Place::Document => ("a document", "GET, HEAD, PUT, PATCH, DELETE, POST"),
        Place::Collection => ("a collection", "GET, HEAD, PUT, DELETE, POST"),
        Place::Item { .. } => ("an item", "GET, HEAD, PUT, PATCH, DELETE"),
    };
    let message = format!("{path} is {kind}, and its methods are {methods}");
    Problem::new(problem::METHOD, message).allow(methods)
}

/// Answers a method that no path has.
pub(crate) async fn unknown(PathText(path): PathText) -> Problem {
    Path::new(&path).map_or_else(Problem::from, |path| refused(&path))
}
