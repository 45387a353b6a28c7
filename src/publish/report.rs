//! Nuggets as a person reads them: a situation report for each day.

use std::fmt::Write;

use crate::model::{Event, Nugget, Request};

const WIDTH: usize = 100;

/// One day of one event: the best of its `items`' nuggets, `most` of them at the most.
pub fn situation_report(
    event: &Event,
    request: &Request,
    nuggets: &[Nugget],
    items: u64,
    most: usize,
) -> String {
    let mut out = String::new();
    let title = match &request.date {
        Some(date) => format!("{} · {date} · {}", event.title, request.id),
        None => format!("{} · {}", event.title, request.id),
    };
    push(&mut out, format_args!("{title}\n{}\n", "─".repeat(title.chars().count().min(WIDTH))));
    push(
        &mut out,
        format_args!("{items} items from {} to {}, {} nuggets", request.start, request.end, nuggets.len()),
    );
    let shown = nuggets.get(..most).unwrap_or(nuggets);
    if shown.len() < nuggets.len() {
        push(&mut out, format_args!(", the best {} of them", shown.len()));
    }
    push(&mut out, format_args!("\n"));
    if nuggets.is_empty() {
        push(&mut out, format_args!("nothing to report\n"));
    }
    for nugget in shown {
        push(&mut out, format_args!("\n{:>3}. {}\n", nugget.rank, indented(&nugget.fact_text)));
        push(
            &mut out,
            format_args!(
                "     importance {:.2} · first seen {} · {} · {}\n",
                nugget.importance.get(),
                nugget.unix_timestamp,
                sources(nugget),
                list(nugget.sources.iter().map(ToString::to_string)),
            ),
        );
        if let Some(update) = &nugget.updates {
            push(
                &mut out,
                format_args!("     updates {}: {}\n", update.request, indented(&update.fact_text)),
            );
        }
    }
    out
}

fn sources(nugget: &Nugget) -> String {
    let independent = match nugget.independent_sources {
        1 => "1 independent source".to_owned(),
        several => format!("{several} independent sources"),
    };
    if nugget.reports > 1 { format!("{independent} in {} reports", nugget.reports) } else { independent }
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// Folds a long text, its further lines under the first.
fn indented(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH - 5 {
            out.push_str("\n     ");
            column = 0;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail
    out.write_fmt(text).unwrap_or_default();
}
