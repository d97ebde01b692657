//! A gateway's process dies at every request it sends, one run each. Its client repeats at another
//! gateway the calls whose answers it lacks. Then the landed feed and the stored documents are
//! compared with the answers, by the same conditions as after torture.
//!
//! | module | concept |
//! | --- | --- |
//! | [`scenarios`] | the calls of clients |
//! | [`caller`] | one call, its answer, and its repeat |
//! | [`compare`] | the landed feed and the stored documents as the conditions take them |

pub mod caller;
pub mod compare;
pub mod scenarios;

pub use scenarios::SCENARIOS;
