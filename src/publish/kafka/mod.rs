//! Where the daemon's results go: nuggets and requests in transactions, refused records as they came.
//!
//! Keeps true: what is sent stands in the ledger before it is sent and until the broker has confirmed it; the batches of
//! one revision become visible together; an instance that has lost its partitions cannot publish, because each
//! transaction shows the group's generation to the broker.

mod letters;
mod outbox;
mod owned;

pub use letters::{KafkaDeadLetters, Letter};
pub use outbox::{PublishError, Publisher, PublisherHandle};
pub use owned::Owned;
