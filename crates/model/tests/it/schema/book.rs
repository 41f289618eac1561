//! The official JSON Schema of a revision in a strict form: members that it does not name are rejected.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use hospes_model::Revision;
use serde_json::{Value, json};

use crate::schema::official::official_schema;

pub(crate) struct Book {
    revision: Revision,
    document: Value,
    section: &'static str,
    validators: HashMap<String, jsonschema::Validator>,
}

impl Book {
    pub(crate) fn open(revision: Revision) -> Option<Self> {
        let project = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let path =
            official_schema(project, revision.as_str()).map_err(|missing| println!("{missing}")).ok()?;
        let mut document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let section = if document.get("$defs").is_some() { "$defs" } else { "definitions" };
        let mut shared = BTreeSet::new();
        parts_of_wholes(&document, &mut shared);
        for (name, definition) in document[section].as_object_mut().unwrap() {
            if !shared.contains(name) && !name.ends_with("MetaObject") {
                close(definition);
            }
        }
        Some(Self { revision, document, section, validators: HashMap::new() })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.document[self.section].get(name).is_some()
    }

    /// Fails unless `text` is what the definition says.
    #[track_caller]
    pub(crate) fn check(&mut self, name: &str, text: &[u8]) {
        let revision = self.revision;
        let value: Value = serde_json::from_slice(text)
            .unwrap_or_else(|e| panic!("{revision} {name}: {e}: {}", String::from_utf8_lossy(text)));
        if let Err(errors) = self.judge(name, value.clone()) {
            panic!("{revision} {name}:\n  {}\nin {value:#}", errors.join("\n  "));
        }
    }

    /// Validates a value against the definition `name` and returns the errors.
    pub(crate) fn judge(&mut self, name: &str, mut value: Value) -> Result<(), Vec<String>> {
        let definition = &self.document[self.section][name];
        assert!(!definition.is_null(), "{}: no definition {name}", self.revision);
        // Up to 2025-06-18 the definition of a message leaves the envelope out.
        let named = |member: &str| definition["properties"].get(member).is_some();
        if named("method") && !named("jsonrpc") {
            let message = value.as_object_mut().unwrap();
            message.remove("jsonrpc");
            message.remove("id");
        }
        let validator = self.validators.entry(name.to_owned()).or_insert_with(|| {
            let schema = json!({
                "$schema": self.document["$schema"],
                self.section: self.document[self.section],
                "allOf": [{"$ref": format!("#/{}/{name}", self.section)}],
            });
            jsonschema::validator_for(&schema).unwrap()
        });
        let errors: Vec<String> =
            validator.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// Definitions that others are made of, which may therefore not be closed.
fn parts_of_wholes(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            for part in members.get("allOf").and_then(Value::as_array).into_iter().flatten() {
                let name = part["$ref"].as_str().and_then(|name| name.rsplit('/').next());
                into.extend(name.map(str::to_owned));
            }
            members.values().for_each(|value| parts_of_wholes(value, into));
        }
        Value::Array(items) => items.iter().for_each(|value| parts_of_wholes(value, into)),
        _ => {}
    }
}

fn close(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    if members.contains_key("allOf") {
        return;
    }
    if let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, property) in properties.iter_mut() {
            // Metadata, and the schemas inside tools, are open.
            if !matches!(name.as_str(), "_meta" | "inputSchema" | "outputSchema") {
                close(property);
            }
            // Every revision allows `_meta` in params, and some schemas leave it out.
            if name == "params"
                && let Some(params) = property.get_mut("properties").and_then(Value::as_object_mut)
            {
                params.entry("_meta").or_insert_with(|| json!({"type": "object"}));
            }
        }
        members.entry("additionalProperties").or_insert(json!(false));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = members.get_mut(key) {
            close(inner);
        }
    }
    for key in ["anyOf", "oneOf"] {
        for inner in members.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            close(inner);
        }
    }
}
