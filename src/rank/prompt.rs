//! From query and text to the tokens that a model reads.
//!
//! A MonoT5 prompt is the template with query and document in it and `</s>` at its end. Its last part (`Relevant:`) is
//! what the model answers to, so a text that is too long loses its own end, never the prompt's. A query that is longer
//! than half of the room is cut to half of it. `scripts/export_monot5.py` has the same rule, and the reference values
//! are made by it.

use std::path::Path;

use tokenizers::{Encoding, PostProcessor, Tokenizer, TruncationDirection};

use super::{
    RerankError,
    folder::{ModelFolder, Template},
};

/// No piece of a vocabulary is longer, so what comes after so many characters for each token is cut anyhow.
const LONGEST_PIECE: usize = 100;

/// The tokens of one query and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) ids: Vec<u32>,
    /// Which of the two a token belongs to; of pairs.
    pub(super) types: Vec<u32>,
}

/// Makes prompts for one model.
pub(super) struct Prompts {
    tokenizer: Tokenizer,
    form: Form,
    longest: usize,
}

enum Form {
    Template { parts: Template, tail: Vec<u32> },
    Pair { added: usize },
}

impl Prompts {
    pub(super) fn open(folder: &ModelFolder) -> Result<Self, RerankError> {
        let path = folder.tokenizer.as_path();
        let mut tokenizer = Tokenizer::from_file(path)
            .map_err(|error| RerankError::model(path, format!("is no tokenizer: {error}")))?;
        // Whatever the file says: prompts are cut and padded here
        tokenizer.with_padding(None);
        tokenizer
            .with_truncation(None)
            .map_err(|error| RerankError::model(path, format!("is no tokenizer: {error}")))?;
        let form = match &folder.template {
            Some(parts) => {
                let tail =
                    tokenizer.encode(parts.after.trim(), true).map_err(|error| unusable(path, &error))?;
                Form::Template { parts: parts.clone(), tail: tail.get_ids().to_vec() }
            }
            None => Form::Pair {
                added: tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(true)),
            },
        };
        let prompts = Self { tokenizer, form, longest: folder.longest };
        if prompts.room() < 8 {
            let reason =
                format!("a prompt of at most {} tokens has no room for query and text", folder.longest);
            return Err(RerankError::model(path, reason));
        }
        Ok(prompts)
    }

    /// The token of a piece of the vocabulary.
    pub(super) fn piece(&self, folder: &ModelFolder, piece: &str) -> Result<u32, RerankError> {
        self.tokenizer.token_to_id(piece).ok_or_else(|| {
            let reason = format!(
                "its vocabulary has no piece {piece:?}: set rerank.pieces to what the model answers with, as [\"▁yes\", \"▁no\"]"
            );
            RerankError::model(&folder.tokenizer, reason)
        })
    }

    /// What prompts are padded with. Masked, it has no weight.
    pub(super) fn pad(&self, folder: &ModelFolder) -> u32 {
        let named = ["<pad>", "[PAD]"].into_iter().find_map(|name| self.tokenizer.token_to_id(name));
        folder.pad.or(named).unwrap_or(0)
    }

    /// The prompt of a query and a text.
    pub(super) fn prompt(&self, query: &str, document: &str) -> tokenizers::Result<Prompt> {
        let limit = self.longest * LONGEST_PIECE;
        let document = document.char_indices().nth(limit).map_or(document, |(at, _)| document.split_at(at).0);
        match &self.form {
            Form::Template { parts, tail } => self.filled(parts, tail, query, document),
            Form::Pair { .. } => self.pair(query, document),
        }
    }

    fn room(&self) -> usize {
        self.longest.saturating_sub(match &self.form {
            Form::Template { tail, .. } => tail.len(),
            Form::Pair { added } => *added,
        })
    }

    fn filled(
        &self,
        parts: &Template,
        tail: &[u32],
        query: &str,
        document: &str,
    ) -> tokenizers::Result<Prompt> {
        let room = self.room();
        let whole = format!("{}{query}{}{document}", parts.before, parts.between);
        let mut ids = self.ids(whole.trim_end())?;
        if ids.len() > room {
            let lead = self.ids(format!("{}{query}", parts.before).trim_end())?;
            if lead.len() > room / 2 {
                ids = lead.into_iter().take(room / 2).collect();
                ids.extend(self.ids(format!("{}{document}", parts.between).trim())?);
            }
            ids.truncate(room);
        }
        ids.extend_from_slice(tail);
        Ok(Prompt { types: vec![0; ids.len()], ids })
    }

    fn pair(&self, query: &str, document: &str) -> tokenizers::Result<Prompt> {
        let room = self.room();
        let mut query = self.tokenizer.encode(query, false)?;
        let mut document = self.tokenizer.encode(document, false)?;
        if query.len() + document.len() > room {
            cut(&mut query, room / 2);
            let left = room - query.len();
            cut(&mut document, left);
        }
        let pair = self.tokenizer.post_process(query, Some(document), true)?;
        Ok(Prompt { ids: pair.get_ids().to_vec(), types: pair.get_type_ids().to_vec() })
    }

    fn ids(&self, text: &str) -> tokenizers::Result<Vec<u32>> {
        Ok(self.tokenizer.encode(text, false)?.get_ids().to_vec())
    }
}

fn cut(encoding: &mut Encoding, most: usize) {
    if encoding.len() > most {
        encoding.truncate(most, 0, TruncationDirection::Right);
    }
}

fn unusable(path: &Path, error: &tokenizers::Error) -> RerankError {
    RerankError::model(path, format!("cannot be used: {error}"))
}
