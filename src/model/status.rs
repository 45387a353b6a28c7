//! What the requests topic says of a request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EventId, Offsets, RequestId, RequestRecord};

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RequestState {
    /// Items have come; nothing is published yet.
    Open,
    /// Waits for more items; what it has so far is published.
    Interim,
    /// Waits for items no more; its result is published.
    Final,
}

/// A record of the requests topic, key `event/request`: who takes the request over learns from it where its items begin
/// and what was published for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestStatus {
    /// The event.
    pub event: EventId,
    /// The event-day.
    #[serde(rename = "requestID")]
    pub request: RequestId,
    /// How far it is.
    pub state: RequestState,
    /// The revision that the nuggets topic holds; nothing before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// Where its first item stands, in each partition that has one.
    pub first: Offsets,
    /// Items in its shard when it closed; nothing before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_with: Option<u64>,
    /// The version of nuggetd.
    pub version: String,
    /// Digest of what in the configuration decides results: the same digest and the same items give the same nuggets.
    pub configuration: String,
    /// The run's counts; nothing before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RequestRecord>,
}
