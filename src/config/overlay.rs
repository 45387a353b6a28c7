//! Lays settings over the defaults one key at a time, so that every wrong one is found and named.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

use super::{Config, Problem};

/// Sections whose keys are another program's names; dots in them mean nothing to us.
const FOREIGN: [[&str; 2]; 3] = [["kafka", "librdkafka"], ["kafka", "consumer"], ["kafka", "producer"]];

pub(super) struct Overlay {
    /// The defaults: what keys there are.
    known: Table,
    /// The defaults with everything right laid over them.
    current: Table,
    config: Config,
    origins: BTreeMap<String, String>,
    problems: Vec<Problem>,
}

impl Overlay {
    pub(super) fn new() -> Self {
        let config = Config::default();
        // The defaults are made of numbers, texts and lists; a test prints them all.
        let known = Table::try_from(&config).unwrap_or_default();
        Self { current: known.clone(), known, config, origins: BTreeMap::new(), problems: Vec::new() }
    }

    /// Lays a TOML file over what stands.
    pub(super) fn file(&mut self, path: &Path, text: &str) {
        let line_of = |byte: usize| text.bytes().take(byte).filter(|&byte| byte == b'\n').count() + 1;
        let spanned = DeTable::parse(text);
        let (spanned, values) = match (spanned, text.parse::<Table>()) {
            (Ok(spanned), Ok(values)) => (spanned, values),
            (Err(error), _) | (_, Err(error)) => {
                let line = error.span().map_or(1, |span| line_of(span.start));
                return self.problem(&format!("{}:{line}", path.display()), error.message());
            }
        };
        let origin = |byte: usize| format!("{}:{}", path.display(), line_of(byte));
        self.table(&mut Vec::new(), spanned.get_ref(), &values, &origin);
    }

    fn table(
        &mut self,
        path: &mut Vec<String>,
        spanned: &DeTable<'_>,
        values: &Table,
        origin: &dyn Fn(usize) -> String,
    ) {
        for (key, place) in spanned {
            let Some(value) = values.get(key.get_ref().as_ref()) else { continue };
            path.push(key.get_ref().to_string());
            match (place.get_ref(), value, self.known_at(path)) {
                (DeValue::Table(inner), Value::Table(values), Some(Value::Table(_)) | None)
                    if !values.is_empty() || is_foreign(path) =>
                {
                    self.table(path, inner, values, origin);
                }
                _ => self.set(&foreign_joined(path), value.clone(), &origin(key.span().start)),
            }
            path.pop();
        }
    }

    /// Lays an environment variable over what stands; `key` is its name without the prefix.
    pub(super) fn variable(&mut self, name: &str, key: &str, value: &str) {
        let mut path: Vec<String> = key.split("__").map(str::to_lowercase).collect();
        if is_foreign(&path)
            && let Some(property) = path.get_mut(2)
        {
            // A variable's name cannot have dots, a librdkafka property has no underscores
            *property = property.replace('_', ".");
        }
        self.text(&foreign_joined(&path), value, &format!("environment variable {name}"));
    }

    /// Lays a value given as text over what stands. Where the default is a text it is taken as it is, else as TOML.
    pub(super) fn text(&mut self, path: &[String], text: &str, origin: &str) {
        let literal = Value::String(text.to_owned());
        let value = match self.known_at(path) {
            Some(Value::String(_)) => literal,
            None if is_foreign(path) => literal,
            _ => format!("value = {text}")
                .parse::<Table>()
                .ok()
                .and_then(|mut table| table.remove("value"))
                .unwrap_or(literal),
        };
        self.set(path, value, origin);
    }

    /// Lays `section.key=value` over what stands.
    pub(super) fn setting(&mut self, setting: &str) {
        let Some((key, value)) = setting.split_once('=') else {
            return self.problem(&format!("--set {setting}"), "expected section.key=value");
        };
        let path: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
        self.text(&foreign_joined(&path), value.trim(), &format!("--set {}", shown(&path, setting)));
    }

    fn set(&mut self, path: &[String], value: Value, origin: &str) {
        let key = path.join(".");
        match self.known_at(path) {
            None if is_foreign(path) => {}
            None => return self.problem(origin, &format!("unknown key {key}{}", self.suggestion(path))),
            Some(Value::Table(_)) if !value.is_table() => {
                return self.problem(origin, &format!("{key} is a section, not a value"));
            }
            Some(_) => {}
        }
        let mut candidate = self.current.clone();
        insert(&mut candidate, path, value);
        match Config::deserialize(candidate.clone()) {
            Ok(config) => {
                self.config = config;
                self.current = candidate;
                self.origins.insert(key, origin.to_owned());
            }
            Err(error) => {
                let message = in_plain_words(error.message(), self.known_at(path));
                self.problem(origin, &format!("{key}: {message}"));
            }
        }
    }

    /// The configuration, or everything that is wrong with it.
    pub(super) fn finish(mut self) -> Result<Config, Vec<Problem>> {
        for (key, message) in self.config.faults() {
            let origin = self.origins.get(key).cloned().unwrap_or_else(|| "default".to_owned());
            self.problem(&origin, &format!("{key} {message}"));
        }
        if self.problems.is_empty() { Ok(self.config) } else { Err(self.problems) }
    }

    fn known_at(&self, path: &[String]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.known.get(first)?, |value, key| value.as_table()?.get(key))
    }

    /// The keys that stand where the unknown one was looked for.
    fn suggestion(&self, path: &[String]) -> String {
        let section = path.split_last().map_or(&[][..], |(_, section)| section);
        let keys = match self.known_at(section) {
            Some(Value::Table(table)) => table,
            _ => &self.known,
        };
        let keys: Vec<&str> = keys.keys().map(String::as_str).collect();
        format!("; known here: {}", keys.join(", "))
    }

    fn problem(&mut self, origin: &str, message: &str) {
        self.problems.push(Problem { origin: origin.to_owned(), message: message.to_owned() });
    }
}

/// What was expected in words, where the reader of the type would name the type instead.
fn in_plain_words(message: &str, default: Option<&Value>) -> String {
    let expected = match default {
        Some(Value::Integer(_)) => "a whole number, 0 or more",
        Some(Value::Float(_)) => "a number",
        Some(Value::Boolean(_)) => "true or false",
        Some(Value::String(_)) if message.starts_with("invalid type") => "a text in quotes",
        _ => return message.to_owned(),
    };
    format!("expected {expected}")
}

/// Whether the path leads into a section of foreign keys.
fn is_foreign(path: &[String]) -> bool {
    FOREIGN.iter().any(|section| path.len() > section.len() && path.iter().zip(section).all(|(a, b)| a == b))
}

/// The path with the dotted parts of a foreign key put together again.
fn foreign_joined(path: &[String]) -> Vec<String> {
    match path {
        [first, second, rest @ ..] if is_foreign(path) => {
            vec![first.clone(), second.clone(), rest.join(".")]
        }
        _ => path.to_vec(),
    }
}

/// A setting as it may be repeated in a message: the value of a foreign key may be a secret.
fn shown(path: &[String], setting: &str) -> String {
    if is_foreign(path) { format!("{}=...", path.join(".")) } else { setting.to_owned() }
}

fn insert(table: &mut Table, path: &[String], value: Value) {
    match path {
        [] => {}
        [key] => {
            table.insert(key.clone(), value);
        }
        [section, rest @ ..] => {
            if let Some(Value::Table(inner)) = table.get_mut(section) {
                insert(inner, rest, value);
            }
        }
    }
}
