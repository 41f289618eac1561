//! Bounds on the number of schemas applied to one value. Thirty short definitions that each refer twice to the next ask
//! for a thousand million checks (JSCH-11).

use std::collections::HashMap;

use serde_json::Value;

/// Counts, and remembers what is behind each reference.
#[derive(Default)]
pub(super) struct CompositionCost {
    /// By the text of a reference; none while it is being counted.
    known: HashMap<String, Option<u64>>,
}

impl CompositionCost {
    /// The most schemas that are applied to one value anywhere in `schema`; none where one is applied, by way of itself, to
    /// the value that it is applied to already.
    pub(super) fn cost(&mut self, schema: &Value, root: &Value) -> Option<u64> {
        let mut most = self.applied_cost(schema, root)?;
        match schema {
            Value::Object(members) => {
                for (key, member) in members {
                    // What stands under these is data, not a schema.
                    if !matches!(key.as_str(), "default" | "const" | "enum" | "examples") {
                        most = most.max(self.cost(member, root)?);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    most = most.max(self.cost(item, root)?);
                }
            }
            _ => {}
        }
        Some(most)
    }

    fn applied_cost(&mut self, schema: &Value, root: &Value) -> Option<u64> {
        let Value::Object(members) = schema else { return Some(1) };
        let mut sum: u64 = 1;
        for (key, member) in members {
            let parts: Vec<&Value> = match (key.as_str(), member) {
                ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => parts.iter().collect(),
                ("not" | "if" | "then" | "else", part) => vec![part],
                ("dependentSchemas", Value::Object(parts)) => parts.values().collect(),
                ("$ref", Value::String(reference)) => {
                    // Saturating, because references that double exceed 64 bits within a short schema.
                    sum = sum.saturating_add(self.reference_cost(reference, root)?);
                    continue;
                }
                _ => continue,
            };
            for part in parts {
                sum = sum.saturating_add(self.applied_cost(part, root)?);
            }
        }
        Some(sum)
    }

    fn reference_cost(&mut self, reference: &str, root: &Value) -> Option<u64> {
        if let Some(known) = self.known.get(reference) {
            return *known;
        }
        // What is not found here, by its anchor perhaps, is left to whoever compiles the schema.
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else {
            return Some(1);
        };
        self.known.insert(reference.to_owned(), None);
        let cost = self.applied_cost(target, root)?;
        self.known.insert(reference.to_owned(), Some(cost));
        Some(cost)
    }
}
