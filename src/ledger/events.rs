//! The last good version of each event that came by the event topic. A compacted topic forgets it once a later record of
//! the event has come, even one that cannot be read.

use rusqlite::params;

use super::{Ledger, LedgerError};
use crate::model::{Event, EventId};

impl Ledger {
    /// Keeps an event as it is now. What is kept already costs no write.
    pub fn keep_event(&mut self, event: &Event) -> Result<(), LedgerError> {
        let text = self.print("an event", event)?;
        self.change(
            "INSERT INTO events (event, described) VALUES (?1, ?2)
             ON CONFLICT (event) DO UPDATE SET described = ?2 WHERE described <> ?2",
            params![event.id.as_str(), text],
        )?;
        Ok(())
    }

    /// Forgets an event that has ended.
    pub fn forget_event(&mut self, event: &EventId) -> Result<(), LedgerError> {
        self.change("DELETE FROM events WHERE event = ?1", params![event.as_str()])?;
        Ok(())
    }

    /// The events that are kept.
    pub fn events(&self) -> Result<Vec<Event>, LedgerError> {
        let mut statement = self
            .connection
            .prepare("SELECT event, described FROM events ORDER BY event")
            .map_err(|source| self.failed(source))?;
        let rows = statement
            .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .map_err(|source| self.failed(source))?;
        let mut events = Vec::new();
        for row in rows {
            let (id, text) = row.map_err(|source| self.failed(source))?;
            events.push(self.parse(&format!("event {id}"), &text)?);
        }
        Ok(events)
    }
}
