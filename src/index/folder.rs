//! The tantivy index in a shard's folder: opened or made, and known to be ours.

use std::path::Path;

use tantivy::{Index, directory::MmapDirectory};

use super::{
    IndexError, Payload,
    payload::FORMAT,
    schema::{register, schema},
};

/// Opens or makes the index in a folder that exists.
pub(super) fn open_index(path: &Path) -> Result<Index, IndexError> {
    let (expected, _) = schema();
    let directory = MmapDirectory::open(path).map_err(|error| at(path)(error.into()))?;
    let exists = Index::exists(&directory).map_err(|error| at(path)(error.into()))?;
    let index = if exists {
        Index::open(directory).map_err(at(path))?
    } else {
        Index::create(directory, expected.clone(), tantivy::IndexSettings::default()).map_err(at(path))?
    };
    if index.schema() != expected {
        return Err(IndexError::Foreign { path: path.into(), reason: "it has other fields".to_owned() });
    }
    register(&index);
    Ok(index)
}

/// The payload of the last commit; an empty one for a shard that never had a commit.
pub(super) fn read_payload(path: &Path, index: &Index) -> Result<Payload, IndexError> {
    let metas = index.load_metas().map_err(at(path))?;
    let documents: u32 = metas.segments.iter().map(tantivy::SegmentMeta::num_docs).sum();
    let foreign = |reason: String| IndexError::Foreign { path: path.into(), reason };
    let payload: Payload = match &metas.payload {
        Some(text) => serde_json::from_str(text)
            .map_err(|error| foreign(format!("its payload is damaged ({error})")))?,
        None => Payload { format: FORMAT, ..Payload::default() },
    };
    if payload.format != FORMAT {
        return Err(foreign(format!("it has format {}, this version writes {FORMAT}", payload.format)));
    }
    if payload.items != documents {
        return Err(foreign(format!("it holds {documents} documents, its payload says {}", payload.items)));
    }
    Ok(payload)
}

pub(super) fn at(path: &Path) -> impl Fn(tantivy::TantivyError) -> IndexError + '_ {
    move |source| IndexError::Tantivy { path: path.into(), source }
}
