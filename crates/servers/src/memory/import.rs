//! Import of files written by the reference server for memory: one JSON object a line.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use hospes::prelude::*;

use super::graph::{Entity, KnowledgeGraph, MemoryError, Relation};

/// Maximum size of the file, in bytes.
const MAX_FILE: u64 = 256 * 1024 * 1024;

/// A line of the file.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ImportLine {
    Entity(Entity),
    Relation(Relation),
}

/// Imports a file, completely or not at all. Known entities are left unchanged, so that the import can be repeated.
/// Returns the number of relations that were omitted because one of their entities is missing.
pub(super) fn import(graph: &mut KnowledgeGraph, file: &Path) -> Result<usize, MemoryError> {
    let failed = |why: String| MemoryError::Import { file: file.to_owned(), why };
    let open = File::open(file).map_err(|why| failed(why.to_string()))?;
    let length = open.metadata().map_err(|why| failed(why.to_string()))?.len();
    if length > MAX_FILE {
        return Err(failed(format!("it has {length} bytes, and at most {MAX_FILE} are imported")));
    }
    let (mut entities, mut relations) = (Vec::new(), Vec::new());
    // The file may grow while it is read.
    for (at, line) in BufReader::new(open.take(MAX_FILE)).lines().enumerate() {
        let wrong = |why: String| failed(format!("line {}: {why}", at + 1));
        let line = line.map_err(|why| wrong(why.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line).map_err(|why| wrong(why.to_string()))? {
            ImportLine::Entity(entity) => entities.push(entity),
            ImportLine::Relation(relation) => relations.push(relation),
        }
    }
    let taken = graph.change(|graph| {
        let mut missing = 0;
        // All entities first, because a relation may precede its entities in the file.
        for entity in &entities {
            if !graph.create(entity)? {
                graph.observe(&entity.name, &entity.observations)?;
            }
        }
        for relation in &relations {
            missing += usize::from(graph.relate(relation)?.is_none());
        }
        Ok(missing)
    });
    taken.map_err(|why| failed(why.to_string()))
}
