//! Faults on purpose while clients write documents through two gateways, and an oracle.
//!
//! | module | concept |
//! | --- | --- |
//! | [`args`] | the arguments of a run |
//! | [`run`](mod@run), [`report`] | one run, from the start of the servers to the verdict; its result |
//! | [`place`] | servers, links, workers and gateways, which are killed and started again |
//! | [`torment`](mod@torment) | the faults |
//! | [`company`] | all that use the gateways |
//! | [`client`] | one request over HTTP and its answer |
//! | [`play`], [`owned`], [`shared`] | a client: documents that it alone writes, and documents of all |
//! | [`outbox`] | a client that sends all of its changes again and again |
//! | [`history`] | the changes that clients asked for |
//! | [`told`] | the changes that the landed feed tells |
//! | [`follower`], [`receiver`] | a client of the live feed; the receiver of a sink |
//! | [`finals`] | the stored data after a run |
//! | [`judge`](mod@judge), [`state`], [`heard`], [`order`] | the conditions on all of these |

pub mod args;
pub mod client;
pub mod company;
pub mod finals;
pub mod follower;
pub mod heard;
pub mod history;
pub mod judge;
pub mod order;
pub mod outbox;
pub mod owned;
pub mod place;
pub mod play;
pub mod receiver;
pub mod report;
pub mod run;
pub mod shared;
pub mod state;
pub mod told;
pub mod torment;

pub use run::run;
