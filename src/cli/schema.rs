//! `nuggetd schema`.

use std::io::Write;

use clap::{Args, ValueEnum};
use schemars::{Schema, schema_for};

use super::{Exit, Outcome, stdout};
use crate::model::{DeadLetter, Event, Item, Nugget, RequestRecord, RequestStatus};

/// Print the JSON Schema of a record.
#[derive(Debug, Args)]
pub(super) struct SchemaCommand {
    /// Which record
    record: Record,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Record {
    Item,
    Nugget,
    Event,
    Request,
    RequestStatus,
    DeadLetter,
}

impl SchemaCommand {
    pub(super) fn run(self) -> Outcome {
        let schema: Schema = match self.record {
            Record::Item => schema_for!(Item),
            Record::Nugget => schema_for!(Nugget),
            Record::Event => schema_for!(Event),
            Record::Request => schema_for!(RequestRecord),
            Record::RequestStatus => schema_for!(RequestStatus),
            Record::DeadLetter => schema_for!(DeadLetter),
        };
        let mut out = stdout();
        serde_json::to_writer_pretty(&mut out, &schema).map_err(std::io::Error::from)?;
        writeln!(out)?;
        out.flush()?;
        Ok(Exit::Done)
    }
}
