//! A model's folder: what kind of model it holds, in which files, and how texts are put to it.
//!
//! `nuggetd-model.json` says all of it where `scripts/export_monot5.py` made the folder, with checksums. Without it the
//! folder is read as `optimum-cli export onnx` lays it out: `encoder_model.onnx` with `decoder_model.onnx` or
//! `decoder_model_merged.onnx` (T5 and its kin), or `model.onnx` (a cross-encoder), the graphs in the folder itself or in
//! its `onnx` folder, beside `config.json` and `tokenizer.json`.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::Xxh3;

use super::{RerankConfig, RerankError};

const MANIFEST: &str = "nuggetd-model.json";
const TOKENIZER: &str = "tokenizer.json";
/// Of that file.
const FORMAT: u64 = 1;
const TEMPLATE: &str = "Query: {query} Document: {document} Relevant:";
const PIECES: [&str; 2] = ["▁true", "▁false"];
/// What MonoT5 was trained with, and what most cross-encoders take.
const LONGEST: usize = 512;

/// What stands in a model's folder.
#[derive(Debug)]
pub(super) struct ModelFolder {
    /// Its name, for people.
    pub(super) name: String,
    pub(super) tokenizer: PathBuf,
    pub(super) graphs: Graphs,
    /// Most tokens of a prompt.
    pub(super) longest: usize,
    /// What prompts are padded with, where the folder says it.
    pub(super) pad: Option<u32>,
    /// How query and text become a prompt; nothing where the model takes them as a pair.
    pub(super) template: Option<Template>,
    /// The pieces for relevant and not relevant; of MonoT5.
    pub(super) pieces: [String; 2],
    /// Whether the checksums of graph and tokenizer stand in the manifest, and are right.
    is_checked: bool,
}

impl ModelFolder {
    /// A hash of all that decides its scores: what describes it, the tokenizer, the graphs. The same model elsewhere has
    /// the same one.
    pub(super) fn fingerprint(&self) -> Result<u64, RerankError> {
        let described = [MANIFEST, "config.json"].map(|name| self.tokenizer.with_file_name(name));
        let mut files: Vec<&Path> =
            described.iter().map(PathBuf::as_path).filter(|path| path.exists()).collect();
        // The others were read for their checksums, which stand in the first
        if !self.is_checked {
            files.push(&self.tokenizer);
            match &self.graphs {
                Graphs::Fused(path) | Graphs::CrossEncoder(path) => files.push(path),
                Graphs::EncoderDecoder { encoder, decoder, .. } => files.extend([encoder.as_path(), decoder]),
            }
        }
        let mut hash = Xxh3::new();
        for path in files {
            for_each_block(path, |block| hash.update(block))?;
        }
        Ok(hash.digest())
    }

    /// The graph that texts are put into.
    pub(super) fn graph(&self) -> &Path {
        match &self.graphs {
            Graphs::Fused(path)
            | Graphs::EncoderDecoder { encoder: path, .. }
            | Graphs::CrossEncoder(path) => path,
        }
    }
}

/// The files of a model, by its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Graphs {
    /// MonoT5 with one decoder step in one graph, which gives the logits of the two pieces.
    Fused(PathBuf),
    /// MonoT5 in two graphs; the second gives the logits of the whole vocabulary.
    EncoderDecoder {
        encoder: PathBuf,
        decoder: PathBuf,
        /// What the decoder begins with.
        start: i64,
    },
    /// A model of pairs with one logit.
    CrossEncoder(PathBuf),
}

/// A prompt's fixed parts: before the query, between query and document, after the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) before: String,
    pub(super) between: String,
    pub(super) after: String,
}

impl Template {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let needs = "a template has {query}, then {document}, each once, and ends with more text";
        let (before, rest) = text.split_once("{query}").ok_or(needs)?;
        let (between, after) = rest.split_once("{document}").ok_or(needs)?;
        let again = [before, between, after]
            .iter()
            .any(|part| part.contains("{query}") || part.contains("{document}"));
        if again || after.trim().is_empty() {
            return Err(needs);
        }
        Ok(Self { before: before.to_owned(), between: between.to_owned(), after: after.to_owned() })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    format: u64,
    kind: String,
    model: String,
    #[serde(default)]
    pieces: Option<[String; 2]>,
    #[serde(default)]
    template: Option<String>,
    #[serde(default)]
    max_length: Option<usize>,
    #[serde(default)]
    precision: Option<String>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    sha256: BTreeMap<String, String>,
}

/// What `config.json` says, as far as it is needed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Described {
    model_type: String,
    architectures: Vec<String>,
    decoder_start_token_id: Option<i64>,
    pad_token_id: Option<u32>,
    id2label: Option<BTreeMap<String, Value>>,
    num_labels: Option<u64>,
    n_positions: Option<usize>,
    max_position_embeddings: Option<usize>,
}

impl Described {
    fn labels(&self) -> Option<u64> {
        self.num_labels.or_else(|| self.id2label.as_ref().map(|labels| labels.len() as u64))
    }

    /// Most tokens that the model has places for. RoBERTa and its kin count places from behind the padding token's number.
    fn longest(&self) -> Option<usize> {
        let taken = match self.model_type.as_str() {
            "roberta" | "xlm-roberta" | "camembert" => self.pad_token_id.unwrap_or(1) as usize + 1,
            _ => 0,
        };
        self.n_positions.or_else(|| self.max_position_embeddings?.checked_sub(taken))
    }

    fn is_of_pairs(&self) -> bool {
        self.architectures.iter().any(|name| name.ends_with("ForSequenceClassification"))
    }
}

impl ModelFolder {
    /// Reads what the folder says of its model, and sees that its files are there and whole.
    pub(super) fn read(config: &RerankConfig) -> Result<Self, RerankError> {
        let folder = config.model.as_path();
        if !folder.is_dir() {
            let reason =
                if folder.exists() { "is a file: a model is a folder" } else { "there is no such folder" };
            return Err(RerankError::model(folder, reason));
        }
        let tokenizer = folder.join(TOKENIZER);
        whole_file(&tokenizer)?;
        let manifest = folder.join(MANIFEST);
        let mut model = if manifest.exists() {
            Self::by_manifest(folder, &manifest, tokenizer)?
        } else {
            Self::by_layout(folder, tokenizer)?
        };
        model.set_pieces(folder, &config.pieces)?;
        Ok(model)
    }

    /// Takes the pieces that are configured, where the model can answer with any.
    fn set_pieces(&mut self, folder: &Path, configured: &[String]) -> Result<(), RerankError> {
        let [relevant, other] = configured else { return Ok(()) };
        let asked = [relevant.clone(), other.clone()];
        match &self.graphs {
            Graphs::EncoderDecoder { .. } => self.pieces = asked,
            Graphs::Fused(_) if asked == self.pieces => {}
            Graphs::Fused(_) => {
                let reason = format!(
                    "was exported for the pieces {} and {}, rerank.pieces asks for {relevant} and {other}: export it again with --pieces",
                    self.pieces[0], self.pieces[1]
                );
                return Err(RerankError::model(folder, reason));
            }
            Graphs::CrossEncoder(_) => {
                return Err(RerankError::model(
                    folder,
                    "is a cross-encoder, which has no pieces: rerank.pieces must be empty",
                ));
            }
        }
        Ok(())
    }

    fn by_manifest(folder: &Path, path: &Path, tokenizer: PathBuf) -> Result<Self, RerankError> {
        let manifest: Manifest = read_json(path)?;
        if manifest.format != FORMAT {
            let reason = format!(
                "has format {}, this nuggetd reads {FORMAT}: export the model again",
                manifest.format
            );
            return Err(RerankError::model(path, reason));
        }
        let graph = beside(folder, path, &manifest.model)?;
        for (name, digest) in &manifest.sha256 {
            refuse_changed(&beside(folder, path, name)?, digest)?;
        }
        whole_file(&graph)?;
        let (graphs, template) = match manifest.kind.as_str() {
            "monot5" => {
                let template = Template::parse(manifest.template.as_deref().unwrap_or(TEMPLATE));
                (Graphs::Fused(graph), Some(template.map_err(|reason| RerankError::model(path, reason))?))
            }
            "cross-encoder" => (Graphs::CrossEncoder(graph), None),
            other => {
                let reason = format!("kind {other:?} is neither monot5 nor cross-encoder");
                return Err(RerankError::model(path, reason));
            }
        };
        let described: Described = match folder.join("config.json") {
            path if path.exists() => read_json(&path)?,
            _ => Described::default(),
        };
        // It is printed, and may come from anywhere
        let printable = |source: String| source.chars().filter(|c| !c.is_control()).take(100).collect();
        let source: String = manifest.source.map(printable).unwrap_or_default();
        let source = if source.is_empty() { name_of(folder) } else { source };
        Ok(Self {
            name: match manifest.precision {
                Some(precision) => format!("{source} ({precision})"),
                None => source,
            },
            tokenizer,
            graphs,
            longest: manifest.max_length.unwrap_or(LONGEST),
            pad: described.pad_token_id,
            template,
            pieces: manifest.pieces.unwrap_or_else(|| PIECES.map(str::to_owned)),
            is_checked: [manifest.model.as_str(), TOKENIZER]
                .iter()
                .all(|name| manifest.sha256.contains_key(*name)),
        })
    }

    fn by_layout(folder: &Path, tokenizer: PathBuf) -> Result<Self, RerankError> {
        let path = folder.join("config.json");
        whole_file(&path)?;
        let described: Described = read_json(&path)?;
        let find = |name: &str| {
            [folder.join(name), folder.join("onnx").join(name)].into_iter().find(|path| path.exists())
        };
        let decoder = find("decoder_model.onnx").or_else(|| find("decoder_model_merged.onnx"));
        let graphs = match (find("encoder_model.onnx"), decoder, find("model.onnx")) {
            (Some(encoder), Some(decoder), _) => {
                whole_file(&encoder)?;
                whole_file(&decoder)?;
                let start = described.decoder_start_token_id.unwrap_or(0);
                if start < 0 {
                    let reason = format!("has the decoder_start_token_id {start}, which is no token");
                    return Err(RerankError::model(&path, reason));
                }
                Graphs::EncoderDecoder { encoder, decoder, start }
            }
            (_, _, Some(graph)) if described.is_of_pairs() => {
                whole_file(&graph)?;
                if let Some(labels) = described.labels().filter(|&labels| labels != 1) {
                    return Err(RerankError::model(
                        &path,
                        format!("has {labels} labels, a reranker has one"),
                    ));
                }
                Graphs::CrossEncoder(graph)
            }
            _ => return Err(RerankError::model(folder, described.missing())),
        };
        let template = match &graphs {
            Graphs::CrossEncoder(_) => None,
            _ => Some(Template::parse(TEMPLATE).map_err(|reason| RerankError::model(folder, reason))?),
        };
        let longest = described.longest();
        Ok(Self {
            name: name_of(folder),
            tokenizer,
            graphs,
            longest: longest.unwrap_or(LONGEST).min(LONGEST),
            pad: described.pad_token_id,
            template,
            pieces: PIECES.map(str::to_owned),
            is_checked: false,
        })
    }
}

impl Described {
    /// What to do with a folder that has no graphs that could be used.
    fn missing(&self) -> String {
        let kind = if self.model_type.is_empty() { "unknown" } else { self.model_type.as_str() };
        format!(
            "holds no model that nuggetd can run (its config.json says model type {kind}): nuggetd-model.json with its model, \
             encoder_model.onnx with decoder_model.onnx, or model.onnx of a cross-encoder; \
             scripts/export_monot5.py makes one of a MonoT5 checkpoint"
        )
    }
}

fn name_of(folder: &Path) -> String {
    let absolute = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    absolute.file_name().map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// A file of the folder that the manifest names.
fn beside(folder: &Path, manifest: &Path, name: &str) -> Result<PathBuf, RerankError> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(name)), None) => Ok(folder.join(name)),
        _ => Err(RerankError::model(manifest, format!("{name:?} is no name of a file beside it"))),
    }
}

fn whole_file(path: &Path) -> Result<(), RerankError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(RerankError::model(path, "is no file")),
        Ok(found) if found.len() == 0 => Err(RerankError::model(path, "is empty")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(RerankError::model(path, "is missing")),
        Err(error) => Err(RerankError::model(path, format!("cannot be read: {error}"))),
    }
}

fn refuse_changed(path: &Path, expected: &str) -> Result<(), RerankError> {
    whole_file(path)?;
    let mut hasher = Sha256::new();
    for_each_block(path, |block| hasher.update(block))?;
    let found = hasher.finalize().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    if found == expected.to_lowercase() {
        return Ok(());
    }
    Err(RerankError::model(
        path,
        "is not the file that was exported, its checksum differs: copy or export it again",
    ))
}

fn for_each_block(path: &Path, mut take: impl FnMut(&[u8])) -> Result<(), RerankError> {
    let unreadable = |error: io::Error| RerankError::model(path, format!("cannot be read: {error}"));
    let mut file = File::open(path).map_err(unreadable)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer).map_err(unreadable)?;
        match buffer.get(..read) {
            Some(block) if !block.is_empty() => take(block),
            _ => return Ok(()),
        }
    }
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, RerankError> {
    let text =
        fs::read(path).map_err(|error| RerankError::model(path, format!("cannot be read: {error}")))?;
    serde_json::from_slice(&text)
        .map_err(|error| RerankError::model(path, format!("cannot be understood: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_places_bound_its_prompts() {
        let longest = |described: &str| serde_json::from_str::<Described>(described).unwrap().longest();
        assert_eq!(longest(r#"{"model_type":"t5","n_positions":512}"#), Some(512));
        assert_eq!(longest(r#"{"model_type":"bert","max_position_embeddings":256}"#), Some(256));
        let roberta = r#"{"model_type":"xlm-roberta","max_position_embeddings":514,"pad_token_id":1}"#;
        assert_eq!(longest(roberta), Some(512));
        assert_eq!(longest("{}"), None);
    }

    #[test]
    fn a_template_has_its_parts() {
        let template = Template::parse(TEMPLATE).unwrap();
        assert_eq!(
            (template.before.as_str(), template.between.as_str(), template.after.as_str()),
            ("Query: ", " Document: ", " Relevant:")
        );
        for bad in
            ["", "{query} {document}", "{document} {query} x", "{query}{query}{document} x", "{query} x"]
        {
            assert!(Template::parse(bad).is_err(), "{bad:?}");
        }
    }
}
