//! Medians, and the tables of `docs/BENCHMARKS.md`.

use std::io::{self, Write as _};

/// The middle value; the mean of the two in the middle where there are two. 0 for none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(at(upper.saturating_sub(1)), at(upper))
    } else {
        at(upper)
    }
}

/// `median (least to most)`, each with this many decimals.
pub(crate) fn spread(values: &[f64], decimals: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let middle = number(median(values), decimals);
    if values.len() < 2 {
        return middle;
    }
    format!("{middle} ({} to {})", number(least, decimals), number(most, decimals))
}

/// A number with commas between thousands.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at_checked(text.find('.').unwrap_or(text.len())).unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) && grouped != "-" {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// Bytes in MiB.
pub(crate) fn mebibytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(
        || "unknown".to_owned(),
        |bytes| format!("{} MiB", number(bytes as f64 / 1_048_576.0, 0)),
    )
}

/// Prints a table in Markdown.
pub(crate) fn table(title: &str, head: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n{title}\n")?;
    writeln!(out, "| {} |", head.join(" | "))?;
    writeln!(out, "|{}", " --- |".repeat(head.len()))?;
    for row in rows {
        writeln!(out, "| {} |", row.join(" | "))?;
    }
    out.flush()
}
