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

/// Maximum size of the texts of compiled schemas, in bytes. Beyond it all are dropped, too.
const MAX_BYTES: usize = 16 << 20;

/// Schemas that were used, by their text. A changed definition therefore never uses an older schema.
#[derive(Debug, Default)]
pub(super) struct SchemaCache(RwLock<CompiledSchemas>);

#[derive(Debug, Default)]
struct CompiledSchemas {
    schemas: HashMap<RawJson, Option<Arc<CompiledSchema>>>,
    /// Sum of the lengths of their texts.
    bytes: usize,
}

impl SchemaCache {
    /// Returns the compiled schema. `None` if values cannot be checked against it.
    pub(super) fn get(&self, schema: &RawJson) -> Option<Arc<CompiledSchema>> {
        let bytes = schema.as_bytes().len();
        if bytes > MAX_SCHEMA_BYTES {
            tracing::debug!(bytes, "values are not checked: the schema is larger than 256 KiB");
            return None;
        }
        if let Some(known) = self.0.read().schemas.get(schema) {
            return known.clone();
        }
        // Compiled outside of the lock, because a large schema takes long.
        let compiled = CompiledSchema::new(schema).inspect_err(|why| {
            tracing::debug!(why, "values are not checked: unusable schema");
        });
        let compiled = compiled.ok().map(Arc::new);
        let mut all = self.0.write();
        if all.schemas.len() >= MAX_SCHEMAS || all.bytes + bytes > MAX_BYTES {
            *all = CompiledSchemas::default();
        }
        // Detached, so that the schema does not keep the whole list in memory that it came in.
        if all.schemas.insert(schema.detached(), compiled.clone()).is_none() {
            all.bytes += bytes;
        }
        compiled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titled(title: &str) -> RawJson {
        RawJson::parse(format!(r#"{{"type":"object","title":"{title}"}}"#)).unwrap()
    }

    #[test]
    fn schemas_are_compiled_once_and_their_number_is_bounded() {
        let cache = SchemaCache::default();
        let schema = |n: usize| titled(&n.to_string());
        let first = cache.get(&schema(0)).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.get(&schema(0)).unwrap()));
        (1..=MAX_SCHEMAS).for_each(|n| drop(cache.get(&schema(n))));
        assert!(cache.0.read().schemas.len() <= MAX_SCHEMAS);
        let unusable = RawJson::parse(r#"{"$ref":"https://example.com/x.json"}"#).unwrap();
        assert!(cache.get(&unusable).is_none());
        assert!(cache.0.read().schemas.contains_key(&unusable), "it is not compiled again with each call");
    }

    #[test]
    fn the_size_of_compiled_schemas_is_bounded() {
        let cache = SchemaCache::default();
        let too_large = titled(&"x".repeat(MAX_SCHEMA_BYTES));
        assert!(cache.get(&too_large).is_none());
        assert!(cache.0.read().schemas.is_empty(), "what cannot be used is not kept");
        let long = "x".repeat(MAX_SCHEMA_BYTES - 100);
        for n in 0..=MAX_BYTES / MAX_SCHEMA_BYTES + 2 {
            let schema = titled(&format!("{n}{long}"));
            assert!(Arc::ptr_eq(&cache.get(&schema).unwrap(), &cache.get(&schema).unwrap()), "{n}");
            let all = cache.0.read();
            let bytes: usize = all.schemas.keys().map(|schema| schema.as_bytes().len()).sum();
            assert_eq!(all.bytes, bytes);
            assert!(bytes <= MAX_BYTES, "{n}: {bytes}");
        }
    }
}
