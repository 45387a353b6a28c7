//! The words of the field as plain types: event, item, request, query, nugget.
//!
//! Nothing here does I/O. A value that exists is valid: identifiers are parsed once, times lie between 2000 and
//! 2100, importance lies in `0..=1`. The JSON shapes of the topics and files (serde, schemars) are defined here and
//! nowhere else.

mod event;
mod id;
mod item;
mod language;
mod nugget;
mod offsets;
mod refusal;
mod status;
mod time;
mod units;

pub use event::{Event, Query, Request};
pub use id::{EventId, IdError, QueryId, RequestId, StreamId};
pub use item::{Item, SourceType};
pub use language::Language;
pub use nugget::{FACT_LIMIT, Importance, Method, Nugget, RequestRecord, RunLine, Update};
pub use offsets::Offsets;
pub use refusal::{DeadLetter, Position, Refusal, RefusalCode};
pub use status::{RequestState, RequestStatus};
pub use time::{TimeError, UnixSeconds};
pub use units::{Bytes, Seconds};
