//! The default configuration as a TOML file in which every key is explained.

use std::fmt::Write;

use schemars::schema_for;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::Config;

const WIDTH: usize = 110;

/// The defaults with their documentation, ready to be saved and edited.
pub fn documented_default() -> String {
    let mut out = String::from("# The configuration of nuggetd. Every key is shown with its default.\n");
    let schema = schema_for!(Config).to_value();
    let defaults = Table::try_from(Config::default()).unwrap_or_default();
    for (key, value) in defaults.iter().filter(|(_, value)| !value.is_table() && !value.is_array()) {
        out.push('\n');
        comment(&mut out, &description(&schema, property(&schema, &schema, key)));
        line(&mut out, &format!("{key} = {value}"));
    }
    for (name, value) in &defaults {
        let of_section = property(&schema, &schema, name);
        match value {
            Value::Table(keys) => section(&mut out, &schema, of_section, name, keys),
            Value::Array(_) => list(&mut out, &schema, of_section, name),
            _ => {}
        }
    }
    out
}

fn section(out: &mut String, schema: &Json, of_section: &Json, name: &str, keys: &Table) {
    out.push('\n');
    comment(out, &description(schema, of_section));
    line(out, &format!("[{name}]"));
    let of_key = |key: &str| property(schema, resolve(schema, of_section), key);
    for (key, value) in keys.iter().filter(|(_, value)| !value.is_table()) {
        comment(out, &description(schema, of_key(key)));
        line(out, &format!("{key} = {value}"));
    }
    for (key, value) in keys {
        if let Value::Table(inner) = value {
            section(out, schema, of_key(key), &format!("{name}.{key}"), inner);
        }
    }
}

/// A list of sections, empty by default: one of them as a comment.
fn list(out: &mut String, schema: &Json, of_list: &Json, name: &str) {
    out.push('\n');
    comment(out, &description(schema, of_list));
    line(out, "# One section for each:");
    line(out, &format!("# [[{name}]]"));
    let item = of_list.get("items").map_or(&Json::Null, |item| resolve(schema, item));
    for (key, of_key) in item.get("properties").and_then(Json::as_object).into_iter().flatten() {
        comment(out, &description(schema, of_key));
        let default = of_key.get("default").map_or_else(|| "\"...\"".to_owned(), Json::to_string);
        line(out, &format!("# {key} = {default}"));
    }
}

fn property<'a>(root: &'a Json, schema: &'a Json, key: &str) -> &'a Json {
    let found = schema.get("properties").and_then(|properties| properties.get(key));
    found.unwrap_or(root.get("nothing").unwrap_or(&Json::Null))
}

/// Follows a reference to a definition.
fn resolve<'a>(root: &'a Json, schema: &'a Json) -> &'a Json {
    let name = schema.get("$ref").and_then(Json::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
    name.and_then(|name| root.get("$defs")?.get(name)).unwrap_or(schema)
}

fn description(root: &Json, schema: &Json) -> String {
    let own = schema.get("description").or_else(|| resolve(root, schema).get("description"));
    own.and_then(Json::as_str).unwrap_or_default().replace('\n', " ")
}

fn comment(out: &mut String, text: &str) {
    let mut current = String::from("#");
    for word in text.split_whitespace() {
        if current.len() + word.len() >= WIDTH {
            line(out, &current);
            current = String::from("#");
        }
        current.push(' ');
        current.push_str(word);
    }
    if current.len() > 1 {
        line(out, &current);
    }
}

fn line(out: &mut String, text: &str) {
    // Writing to a String cannot fail
    writeln!(out, "{text}").unwrap_or_default();
}
