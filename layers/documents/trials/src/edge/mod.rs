//! Slow, silent, half-open and vanishing clients beside honest ones.
//!
//! | module | concept |
//! | --- | --- |
//! | [`args`] | the arguments of a run |
//! | [`run`](mod@run), [`report`] | one run, from the start of the gateway to the verdict; its result |
//! | [`gate`] | the gateway, and what the system tells of its process |
//! | [`kind`] | the kinds of clients that do harm |
//! | [`wire`] | the bytes that they send |
//! | [`rogue`] | one of them on its connection |
//! | [`crowd`] | all of them, in a mix |
//! | [`promise`] | the promise of the gateway to callers with the token |
//! | [`caller`] | a caller on a connection whose standing it knows |
//! | [`honest`], [`listener`] | clients that write and read; one that follows the live feed |
//! | [`company`] | all honest clients |

pub mod args;
pub mod caller;
pub mod company;
pub mod crowd;
pub mod gate;
pub mod honest;
pub mod kind;
pub mod listener;
pub mod promise;
pub mod report;
pub mod rogue;
pub mod run;
pub mod wire;

pub use run::run;
