//! Reranking as a filter of the command line: `query` and `document` in, `score` and `probability` added.

use std::io::Write;

use super::{Pair, RerankError, Scorer};
use crate::{
    feed::{
        ReadError, Record,
        json::{self, Failure},
    },
    filter::{Fields, FilterOutcome, Place},
    model::{Refusal, RefusalCode},
};

/// How many lines are scored at once. None is written before all of them are.
const AT_ONCE: usize = 512;

/// Why a filter stopped before the end of its input.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// Records that cannot be read.
    #[error(transparent)]
    Records(#[from] ReadError),
    /// The model.
    #[error(transparent)]
    Rerank(#[from] RerankError),
    /// The output.
    #[error(transparent)]
    Output(#[from] std::io::Error),
}

/// Adds `score`, a natural logarithm, and `probability` to each pair. All other fields stay as they are and where they
/// are. A bad record goes to `problems` with its place and is left out.
pub fn run(
    scorer: &dyn Scorer,
    records: impl IntoIterator<Item = Result<Record, ReadError>>,
    out: &mut dyn Write,
    problems: &mut dyn FnMut(Place, String),
) -> Result<FilterOutcome, FilterError> {
    let mut outcome = FilterOutcome::default();
    let mut waiting: Vec<Line> = Vec::with_capacity(AT_ONCE);
    for record in records {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                write_scored(scorer, &waiting, out)?;
                return Err(error.into());
            }
        };
        match json::read_record(&record.bytes, Line::read) {
            Ok(line) => waiting.push(line),
            Err(refusal) => {
                problems(Place::of(&record), refusal.message);
                outcome.refused += 1;
            }
        }
        if waiting.len() == AT_ONCE {
            outcome.written += write_scored(scorer, &waiting, out)?;
            waiting.clear();
        }
    }
    outcome.written += write_scored(scorer, &waiting, out)?;
    Ok(outcome)
}

struct Line {
    query: String,
    document: String,
    fields: Fields,
}

impl Line {
    fn read(record: &str) -> Result<Self, Failure> {
        let fields: Fields = serde_json::from_str(record)?;
        let text = |name: &str| {
            let value = fields
                .get(name)
                .ok_or_else(|| Refusal::new(RefusalCode::MissingText, format!("no field {name:?}")))?;
            json::string(Some(value))?.ok_or_else(|| {
                Failure::from(Refusal::new(
                    RefusalCode::BadShape,
                    format!("the field {name:?} is not a string"),
                ))
            })
        };
        Ok(Self { query: text("query")?, document: text("document")?, fields })
    }
}

fn write_scored(scorer: &dyn Scorer, lines: &[Line], out: &mut dyn Write) -> Result<u64, FilterError> {
    let pairs: Vec<Pair<'_>> =
        lines.iter().map(|line| Pair { query: &line.query, text: &line.document }).collect();
    for (line, score) in lines.iter().zip(scorer.score(&pairs)?) {
        let added = [("score", score), ("probability", score.exp())];
        let text = line.fields.with(&added).map_err(std::io::Error::from)?;
        out.write_all(&text)?;
    }
    out.flush()?;
    Ok(lines.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::feed::Records;

    /// Scores a text by its length.
    struct ByLength;

    impl Scorer for ByLength {
        fn score(&self, pairs: &[Pair<'_>]) -> Result<Vec<f64>, RerankError> {
            Ok(pairs.iter().map(|pair| -(pair.text.len() as f64)).collect())
        }

        fn name(&self) -> &'static str {
            "by length"
        }

        fn top(&self) -> usize {
            250
        }
    }

    fn filtered(input: &str) -> (Vec<String>, Vec<(Place, String)>, FilterOutcome) {
        let (mut out, mut problems) = (Vec::new(), Vec::new());
        let mut report = |place, problem| problems.push((place, problem));
        let records = Records::new(Cursor::new(input.to_owned()), "test");
        let outcome = run(&ByLength, records, &mut out, &mut report).unwrap();
        (String::from_utf8(out).unwrap().lines().map(str::to_owned).collect(), problems, outcome)
    }

    #[test]
    fn lines_come_in_order_with_their_other_fields() {
        let input: Vec<String> = (0..1_200)
            .map(|number| format!("{{\"query\":\"q\",\"n\":{number}.0,\"document\":\"\"}}"))
            .collect();
        let input = input.join("\n");
        let (lines, problems, outcome) = filtered(&input);
        assert_eq!(problems, []);
        assert_eq!(outcome, FilterOutcome { written: 1_200, refused: 0 });
        for (number, line) in lines.iter().enumerate() {
            let expected = format!(
                "{{\"query\":\"q\",\"n\":{number}.0,\"document\":\"\",\"score\":-0.0,\"probability\":1.0}}"
            );
            assert_eq!(*line, expected);
        }
    }

    #[test]
    fn a_bad_line_is_named_and_the_others_go_on() {
        let input = "{\"query\":\"q\",\"document\":\"abc\"}\n{\"query\":\"q\"}\n\n{\"query\":1,\"document\":\"a\"}\nx\n\
                     {\"query\":\"q\",\"document\":\"a\",\"score\":7}\n";
        let (lines, problems, outcome) = filtered(input);
        assert_eq!(outcome, FilterOutcome { written: 2, refused: 3 });
        assert!(lines[1].starts_with("{\"query\":\"q\",\"document\":\"a\",\"score\":-1.0,"), "{}", lines[1]);
        let places: Vec<Place> = problems.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [Place::Line(2), Place::Line(4), Place::Line(5)]);
        assert!(
            problems[0].1.contains("\"document\"") && problems[1].1.contains("\"query\""),
            "{problems:?}"
        );
    }
}
