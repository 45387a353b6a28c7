//! nuggetd reads crisis feeds and publishes, per event, day and question, short facts that cite the items they come
//! from.
//!
//! The rooms, in the order in which the data passes them; none imports from one further right, except the words of
//! [`model`]: [`feed`] → [`clean`] → [`index`] → [`search`] → [`rank`] → [`facts`] → [`publish`]. [`intake`] and
//! [`schedule`] decide what is taken and when a request runs, [`request`] is one such run, the [`ledger`] remembers,
//! [`replay`] drives an archive, read as one stream in the order of time, through all of them, and [`daemon`] the topics
//! of a broker.

pub mod clean;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod decoding;
pub mod facts;
pub mod feed;
pub mod filter;
pub mod index;
pub mod intake;
pub mod kafka;
pub mod ledger;
pub mod model;
pub mod publish;
pub mod rank;
pub mod replay;
pub mod request;
pub mod schedule;
pub mod search;
pub mod stream;
pub mod telemetry;
pub mod upkeep;
