//! The words that metrics and endpoints use: each a closed set, so that the number of series is bounded.

use serde::{Serialize, Serializer};

macro_rules! words {
    ($($(#[$doc:meta])* $set:ident { $($(#[$word_doc:meta])* $name:ident $word:literal,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $set {
            $($(#[$word_doc])* $name,)+
        }

        impl $set {
            /// Every word of the set.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The word as it stands in labels and JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }
        }

        impl Serialize for $set {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    )+};
}

words! {
    /// What became of a message of an item topic.
    MessageOutcome {
        /// It gave at least one item.
        Accepted "accepted",
        /// It was refused and stands in the dead-letter topic.
        DeadLetter "dead_letter",
        /// It has no value.
        Tombstone "tombstone",
        /// It belongs to no known event, on a topic where such messages are skipped.
        Skipped "skipped",
        /// Its items lie outside every request of their events.
        Outside "outside",
        /// It was in the shards already: read again after a restart or a rebalance.
        Repeated "repeated",
    }

    /// What an item repeats.
    Copy {
        /// An item with the same text.
        Exact "exact",
        /// An item with almost the same text.
        Near "near",
        /// Nothing: it has no words.
        Empty "empty",
    }

    /// How a commit of the shards ended.
    CommitOutcome {
        /// All shards and the ledger have it.
        Done "done",
        /// Something could not be written; it will be tried again or stops the process.
        Failed "failed",
    }

    /// How a run of a request ended.
    RunOutcome {
        /// A refresh, while the request is open.
        Interim "interim",
        /// The first run after the request closed.
        Final "final",
        /// A run for items that came after the close.
        Revised "revised",
        /// No result.
        Failed "failed",
    }

    /// A part of a run that is timed.
    Stage {
        /// Retrieval for all queries.
        Search "search",
        /// Scoring what was retrieved by a model.
        Rerank "rerank",
        /// From retrieved items to nuggets.
        Facts "facts",
        /// The whole run.
        Total "total",
    }

    /// Where the score of a pair came from.
    Scored {
        /// From the model.
        Computed "computed",
        /// From what was scored before.
        Remembered "remembered",
    }

    /// What a batch of the reranker holds.
    Token {
        /// Of queries and texts.
        Text "text",
        /// What shorter ones were filled up with.
        Padding "padding",
    }

    /// Why a record could not be published.
    PublishFailure {
        /// No broker answered in time; it is sent again.
        Unreachable "unreachable",
        /// The broker refused the record: no such topic, no permission, too large.
        Refused "refused",
        /// The producer can go on no more.
        Fatal "fatal",
    }

    /// What the group told the consumer.
    Rebalance {
        /// Partitions came.
        Assign "assign",
        /// Partitions went, with time to commit.
        Revoke "revoke",
        /// Partitions had gone before this consumer knew.
        Lost "lost",
    }

    /// Why items are not taken.
    Pause {
        /// The queue between poll and intake is full.
        Queue "queue",
        /// Too little is free on the disk of `data_dir`.
        Disk "disk",
        /// Too many records were refused.
        Flood "flood",
        /// The event topic has not been read to its end.
        Events "events",
    }

    /// A thread that must not stand still.
    Heart {
        /// The thread that polls the broker.
        Poll "poll",
        /// The thread that puts items into shards.
        Intake "intake",
    }

    /// Where the process stands in its life.
    Phase {
        /// It reads what it must know before it can take items.
        Starting "starting",
        /// It takes items.
        Running "running",
        /// It was told to end and finishes what it holds.
        Draining "draining",
        /// It has let go of everything.
        Stopped "stopped",
    }

    /// What must hold for the process to be ready.
    Check {
        /// The configuration was read and can be used.
        Configuration "configuration",
        /// A broker has answered lately.
        Broker "broker",
        /// The event topic has been read to its end.
        Events "events",
        /// The request and nugget topics have been read to their end.
        Tables "tables",
        /// The group has answered: partitions are assigned, or there are none left for this instance.
        Assignment "assignment",
        /// Items are taken: no flood of bad records, room on the disk.
        Intake "intake",
        /// The last commit succeeded.
        Index "index",
        /// What is to be published does not wait too long.
        Publisher "publisher",
        /// No run of a request has failed by a fault of nuggetd.
        Runs "runs",
        /// The broker has confirmed the dead letters, or they do not wait long for it.
        DeadLetters "dead_letters",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_stands_twice_in_its_set() {
        let sets: [Vec<&str>; 3] = [
            MessageOutcome::ALL.iter().map(|word| word.as_str()).collect(),
            Check::ALL.iter().map(|word| word.as_str()).collect(),
            Pause::ALL.iter().map(|word| word.as_str()).collect(),
        ];
        for mut set in sets {
            let words = set.len();
            set.sort_unstable();
            set.dedup();
            assert_eq!(set.len(), words, "{set:?}");
        }
    }

    #[test]
    fn a_word_in_json_is_the_word_in_labels() {
        for &outcome in MessageOutcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }
}
