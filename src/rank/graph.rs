//! The model itself: its graphs in ONNX Runtime, of which each kind takes and gives something else.

use std::{borrow::Cow, path::Path, thread::available_parallelism};

use ort::{
    environment::Environment,
    ep,
    logging::LogLevel,
    session::{Session, SessionInputValue, builder::GraphOptimizationLevel},
    value::{Outlet, Shape, Tensor, ValueType},
};

use super::{
    Device, RerankConfig, RerankError,
    folder::{Graphs, ModelFolder},
};

/// Prompts padded to one length, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) count: usize,
    pub(super) length: usize,
    pub(super) ids: Vec<i64>,
    /// 1 where there is a token, 0 where there is padding.
    pub(super) mask: Vec<i64>,
    pub(super) types: Vec<i64>,
}

/// A model that is loaded.
pub(super) enum Graph {
    Fused(Session),
    EncoderDecoder {
        encoder: Session,
        decoder: Session,
        start: i64,
        /// The tokens of the two pieces.
        pieces: [usize; 2],
        /// What a decoder that can also go on from an earlier step wants, empty.
        past: Vec<Past>,
    },
    CrossEncoder {
        session: Session,
        takes_types: bool,
    },
}

/// An input of a merged decoder.
pub(super) enum Past {
    /// Keys or values of one layer: heads, and their width.
    State { name: String, heads: usize, width: usize },
    /// Whether the decoder goes on from an earlier step.
    Flag(String),
}

type Inputs<'a> = Vec<(Cow<'a, str>, SessionInputValue<'a>)>;

impl Graph {
    /// Loads the folder's graphs. `pieces` are the tokens of its two pieces.
    pub(super) fn open(
        folder: &ModelFolder,
        environment: &Environment,
        config: &RerankConfig,
        pieces: [u32; 2],
    ) -> Result<Self, RerankError> {
        match &folder.graphs {
            Graphs::Fused(path) => {
                let session = open(path, environment, config)?;
                expect_inputs(path, &session, &["input_ids", "attention_mask"], &[])?;
                expect_width(path, &session, "logits", 2, 2)?;
                Ok(Self::Fused(session))
            }
            Graphs::EncoderDecoder { encoder: encoder_path, decoder: decoder_path, start } => {
                let encoder = open(encoder_path, environment, config)?;
                expect_inputs(encoder_path, &encoder, &["input_ids", "attention_mask"], &[])?;
                expect_output(encoder_path, &encoder, "last_hidden_state")?;
                let decoder = open(decoder_path, environment, config)?;
                let wanted = ["input_ids", "encoder_attention_mask", "encoder_hidden_states"];
                expect_inputs(decoder_path, &decoder, &wanted, &["past_key_values.", "use_cache_branch"])?;
                let pieces = pieces.map(|piece| piece as usize);
                let last = pieces[0].max(pieces[1]);
                expect_width(decoder_path, &decoder, "logits", 3, last + 1)?;
                let past = past(decoder_path, &decoder)?;
                Ok(Self::EncoderDecoder { encoder, decoder, start: *start, pieces, past })
            }
            Graphs::CrossEncoder(path) => {
                let session = open(path, environment, config)?;
                expect_inputs(path, &session, &["input_ids", "attention_mask"], &["token_type_ids"])?;
                expect_width(path, &session, "logits", 2, 1)?;
                let takes_types = session.inputs().iter().any(|input| input.name() == "token_type_ids");
                Ok(Self::CrossEncoder { session, takes_types })
            }
        }
    }

    /// Scores each row: the natural logarithm of the probability that it is relevant.
    pub(super) fn run(&mut self, rows: &Rows) -> Result<Vec<f64>, String> {
        let scores = match self {
            Self::Fused(session) => fused(session, rows),
            Self::EncoderDecoder { encoder, decoder, start, pieces, past } => {
                encoder_decoder(encoder, decoder, rows, *start, *pieces, past)
            }
            Self::CrossEncoder { session, takes_types } => cross_encoder(session, rows, *takes_types),
        }
        .map_err(|error| one_line(&error))?;
        if scores.len() != rows.count {
            return Err(format!("gave {} scores for {} texts", scores.len(), rows.count));
        }
        if scores.iter().any(|score| score.is_nan()) {
            return Err("gave a score that is no number".to_owned());
        }
        Ok(scores)
    }
}

fn open(path: &Path, environment: &Environment, config: &RerankConfig) -> Result<Session, RerankError> {
    build(path, environment, config)
        .map_err(|error| RerankError::model(path, format!("cannot be run: {}", one_line(&error))))
}

/// What ONNX Runtime says, which is often several lines.
fn one_line(error: &ort::Error) -> String {
    let text = error.to_string();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn build(path: &Path, environment: &Environment, config: &RerankConfig) -> ort::Result<Session> {
    let threads = match config.threads {
        0 => available_parallelism().map_or(1, std::num::NonZero::get),
        threads => threads,
    };
    let providers = match config.device {
        Device::Cpu => vec![ep::CPU::default().with_arena_allocator(false).build()],
        Device::Cuda => vec![ep::CUDA::default().build().error_on_failure()],
    };
    Session::builder(environment)?
        // What goes wrong comes back as an error; a line on stderr beside it would break those who read JSON there
        .with_log_level(LogLevel::Fatal)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(threads)?
        .with_inter_threads(1)?
        // A thread that waits for work by turning takes the processor from those that take items
        .with_intra_op_spinning(false)?
        // Shapes vary, and what is kept for each would only grow
        .with_memory_pattern(false)?
        .with_config_entry("session.x64quantprecision", if adds_exactly() { "0" } else { "1" })?
        .with_execution_providers(providers)?
        .commit_from_file(path)
}

/// Whether the processor adds products of 8-bit integers in 32 bits (VNNI). One that does not adds two of them in 16 bits,
/// where they may not fit; ONNX Runtime then has another way, which takes twice the time and would do so everywhere.
fn adds_exactly() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512vnni") || is_x86_feature_detected!("avxvnni");
    #[cfg(not(target_arch = "x86_64"))]
    return true;
}

fn fused(session: &mut Session, rows: &Rows) -> ort::Result<Vec<f64>> {
    let outputs = session.run(tokens(rows, "attention_mask")?)?;
    let (_, logits) = outputs["logits"].try_extract_tensor::<f32>()?;
    Ok(logits.chunks_exact(2).map(|pair| log_softmax(pair[0], pair[1])).collect())
}

fn encoder_decoder(
    encoder: &mut Session,
    decoder: &mut Session,
    rows: &Rows,
    start: i64,
    [relevant, other]: [usize; 2],
    past: &[Past],
) -> ort::Result<Vec<f64>> {
    let mut outputs = encoder.run(tokens(rows, "attention_mask")?)?;
    let Some(hidden) = outputs.remove("last_hidden_state") else { return Ok(Vec::new()) };
    let mut inputs: Inputs<'_> = vec![
        ("input_ids".into(), Tensor::from_array(([rows.count, 1], vec![start; rows.count]))?.into()),
        (
            "encoder_attention_mask".into(),
            Tensor::from_array(([rows.count, rows.length], rows.mask.clone()))?.into(),
        ),
        ("encoder_hidden_states".into(), hidden.into()),
    ];
    for input in past {
        match input {
            Past::State { name, heads, width } => {
                let nothing = vec![0.0_f32; rows.count * heads * width];
                let value = Tensor::from_array(([rows.count, *heads, 1, *width], nothing))?;
                inputs.push((name.as_str().into(), value.into()));
            }
            Past::Flag(name) => {
                inputs.push((name.as_str().into(), Tensor::from_array(([1_usize], vec![false]))?.into()));
            }
        }
    }
    let outputs = decoder.run(inputs)?;
    let (shape, logits) = outputs["logits"].try_extract_tensor::<f32>()?;
    let vocabulary = shape.last().and_then(|&width| usize::try_from(width).ok()).unwrap_or_default().max(1);
    let of_row = |row: &[f32]| match (row.get(relevant), row.get(other)) {
        (Some(&relevant), Some(&other)) => log_softmax(relevant, other),
        _ => f64::NAN,
    };
    Ok(logits.chunks_exact(vocabulary).map(of_row).collect())
}

fn cross_encoder(session: &mut Session, rows: &Rows, takes_types: bool) -> ort::Result<Vec<f64>> {
    let mut inputs = tokens(rows, "attention_mask")?;
    if takes_types {
        let types = Tensor::from_array(([rows.count, rows.length], rows.types.clone()))?;
        inputs.push(("token_type_ids".into(), types.into()));
    }
    let outputs = session.run(inputs)?;
    let (_, logits) = outputs["logits"].try_extract_tensor::<f32>()?;
    Ok(logits.iter().map(|&logit| log_softmax(logit, 0.0)).collect())
}

fn tokens<'a>(rows: &Rows, mask: &'a str) -> ort::Result<Inputs<'a>> {
    let shape = [rows.count, rows.length];
    Ok(vec![
        ("input_ids".into(), Tensor::from_array((shape, rows.ids.clone()))?.into()),
        (mask.into(), Tensor::from_array((shape, rows.mask.clone()))?.into()),
    ])
}

/// The logarithm of the first one's share, `-ln(1 + e^(b - a))`, exact at both ends.
fn log_softmax(first: f32, second: f32) -> f64 {
    let difference = f64::from(second) - f64::from(first);
    if difference > 0.0 { -difference - (-difference).exp().ln_1p() } else { -difference.exp().ln_1p() }
}

fn past(path: &Path, decoder: &Session) -> Result<Vec<Past>, RerankError> {
    let mut past = Vec::new();
    for input in decoder.inputs() {
        let name = input.name();
        if name == "use_cache_branch" {
            past.push(Past::Flag(name.to_owned()));
        } else if name.starts_with("past_key_values.") {
            let dimensions = shape(input).map(|shape| shape.to_vec()).unwrap_or_default();
            let fixed = |at: usize| {
                dimensions.get(at).and_then(|&size| usize::try_from(size).ok()).filter(|&size| size > 0)
            };
            let (Some(heads), Some(width)) = (fixed(1), fixed(3)) else {
                return Err(RerankError::model(
                    path,
                    format!("its input {name} has no fixed heads and width"),
                ));
            };
            past.push(Past::State { name: name.to_owned(), heads, width });
        }
    }
    Ok(past)
}

fn shape(outlet: &Outlet) -> Option<&Shape> {
    match outlet.dtype() {
        ValueType::Tensor { shape, .. } => Some(shape),
        _ => None,
    }
}

/// That the graph has these inputs, and no others but those whose name begins so.
fn expect_inputs(path: &Path, session: &Session, wanted: &[&str], may: &[&str]) -> Result<(), RerankError> {
    let names: Vec<&str> = session.inputs().iter().map(Outlet::name).collect();
    let missing = wanted.iter().any(|wanted| !names.contains(wanted));
    let unknown = |name: &&str| !wanted.contains(name) && !may.iter().any(|begin| name.starts_with(begin));
    if missing || names.iter().any(unknown) {
        let reason = format!("takes {}, a model of its kind takes {}", names.join(", "), wanted.join(", "));
        return Err(RerankError::model(path, reason));
    }
    Ok(())
}

fn expect_output<'a>(path: &Path, session: &'a Session, name: &str) -> Result<&'a Outlet, RerankError> {
    session.outputs().iter().find(|output| output.name() == name).ok_or_else(|| {
        let names: Vec<&str> = session.outputs().iter().map(Outlet::name).collect();
        RerankError::model(path, format!("gives {}, a model of its kind gives {name}", names.join(", ")))
    })
}

/// That the output has so many dimensions, and the last one, where it is fixed, is wide enough; of logits of less than
/// a vocabulary exactly so wide.
fn expect_width(
    path: &Path,
    session: &Session,
    name: &str,
    dimensions: usize,
    width: usize,
) -> Result<(), RerankError> {
    let output = expect_output(path, session, name)?;
    let shape = shape(output).map(|shape| shape.to_vec()).unwrap_or_default();
    let last = shape.last().copied().unwrap_or(-1);
    let fits = match i64::try_from(width) {
        Ok(width) if dimensions == 2 => last == width || last < 0,
        Ok(width) => last >= width || last < 0,
        Err(_) => false,
    };
    if shape.len() == dimensions && fits {
        return Ok(());
    }
    Err(RerankError::model(
        path,
        format!(
            "gives {name} of shape {shape:?}, a model of its kind gives {dimensions} dimensions, the last of {width}"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_softmax_is_exact_at_both_ends() {
        assert!((log_softmax(0.0, 0.0) + std::f64::consts::LN_2).abs() < 1e-15);
        assert!((log_softmax(-500.0, 500.0) + 1000.0).abs() < 1e-12);
        let near_one = log_softmax(30.0, 0.0);
        assert!(near_one < 0.0 && near_one > -1e-12, "{near_one}");
        assert!(log_softmax(f32::NAN, 0.0).is_nan());
    }
}
