//! Compiled schemas of tools.

use std::collections::HashMap;
use std::sync::Arc;

use hospes::server::CompiledSchema;
use hospes_model::RawJson;
use parking_lot::RwLock;

/// Maximum number of compiled schemas. Beyond it all are dropped and compiled again when they are used.
const MAX_SCHEMAS: usize = 1024;

/// Maximum size of a schema in bytes. Values are not checked against a larger one.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Schemas that were used, by their text. A changed definition therefore never uses an older schema.
#[derive(Debug, Default)]
pub(super) struct SchemaCache(RwLock<HashMap<RawJson, Option<Arc<CompiledSchema>>>>);

impl SchemaCache {
    /// Returns the compiled schema. `None` if values cannot be checked against it.
    pub(super) fn get(&self, schema: &RawJson) -> Option<Arc<CompiledSchema>> {
        if let Some(known) = self.0.read().get(schema) {
            return known.clone();
        }
        // Compiled outside of the lock, because a large schema takes long.
        let compiled = if schema.as_bytes().len() > MAX_SCHEMA_BYTES {
            Err("it is larger than 256 KiB".to_owned())
        } else {
            CompiledSchema::new(schema)
        };
        let compiled = compiled.inspect_err(|why| {
            tracing::debug!(why, "values are not checked: unusable schema");
        });
        let compiled = compiled.ok().map(Arc::new);
        let mut all = self.0.write();
        if all.len() >= MAX_SCHEMAS {
            all.clear();
        }
        // Detached, so that the schema does not keep the whole list in memory that it came in.
        all.insert(schema.detached(), compiled.clone());
        compiled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_compiled_once_and_their_number_is_bounded() {
        let cache = SchemaCache::default();
        let schema = |n: usize| RawJson::parse(format!(r#"{{"type":"object","title":"{n}"}}"#)).unwrap();
        let first = cache.get(&schema(0)).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.get(&schema(0)).unwrap()));
        (1..=MAX_SCHEMAS).for_each(|n| drop(cache.get(&schema(n))));
        assert!(cache.0.read().len() <= MAX_SCHEMAS);
        let unusable = RawJson::parse(r#"{"$ref":"https://example.com/x.json"}"#).unwrap();
        assert!(cache.get(&unusable).is_none());
        assert!(cache.0.read().contains_key(&unusable), "it is not compiled again with each call");
    }
}
