//! Validation of structured results against the output schemas of tools (TOOL-33).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hospes_model::{CallToolResult, Notification, RawJson, Tool};

use crate::json_schema::{compile, is_bounded};

/// Maximum number of tools whose output schema is remembered.
const MAX_SCHEMAS: usize = 4096;
/// Maximum size of a schema in bytes; results are not checked against a larger one.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;

/// Output schemas of tools that were listed, compiled when a result is first checked. Of at most 4096 tools, each schema of
/// at most 256 KiB; results of other tools are not checked.
#[derive(Debug, Default)]
pub struct OutputSchemas(Mutex<HashMap<Box<str>, Arc<ToolOutputSchema>>>);

#[derive(Debug)]
struct ToolOutputSchema {
    schema: RawJson,
    /// Compiled on first use. `None` for an unusable schema.
    compiled: OnceLock<Option<jsonschema::Validator>>,
}

impl OutputSchemas {
    /// Stores the schemas of these tools, from a list or a page of it, unless `is_current` reports that they have
    /// changed since the request.
    pub fn learn(&self, tools: &[Tool], is_current: impl Fn() -> bool) {
        let mut outputs = self.lock();
        // Asked under the lock: what changes now waits to take out what is learned here.
        if !is_current() {
            return;
        }
        for tool in tools {
            let known = outputs.get(tool.name.as_str());
            match &tool.output_schema {
                Some(schema) if known.is_some_and(|known| known.schema == *schema) => {}
                Some(schema)
                    if schema.as_bytes().len() <= MAX_SCHEMA_BYTES
                        && (known.is_some() || outputs.len() < MAX_SCHEMAS) =>
                {
                    // Detached, so that the schema does not keep the whole list in memory that it came in.
                    let output = ToolOutputSchema { schema: schema.detached(), compiled: OnceLock::new() };
                    outputs.insert(tool.name.as_str().into(), Arc::new(output));
                }
                _ => {
                    outputs.remove(tool.name.as_str());
                }
            }
        }
    }

    /// Discards the schemas after a change of the tools.
    pub(crate) fn invalidate(&self, change: &Notification) {
        if *change == Notification::ToolsListChanged {
            self.lock().clear();
        }
    }

    /// Returns true if no tool has a schema.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Returns true if results of this tool are checked.
    pub fn has(&self, tool: &str) -> bool {
        self.lock().contains_key(tool)
    }

    /// Validates a result. Errors of a tool, and results of a tool without a schema, are valid.
    ///
    /// # Errors
    /// A description of the mismatch, without the result's values.
    pub fn check(&self, tool: &str, result: &CallToolResult) -> Result<(), String> {
        // Taken out of the lock: a schema is compiled below, and a large result takes long to check.
        let Some(output) = self.lock().get(tool).cloned() else { return Ok(()) };
        if result.is_error == Some(true) {
            return Ok(());
        }
        let Some(content) = &result.structured_content else {
            return Err("it has no structuredContent, though the tool has an outputSchema".into());
        };
        let compiled = output.compiled.get_or_init(|| match compile_bounded(&output.schema) {
            Ok(compiled) => Some(compiled),
            Err(why) => {
                tracing::warn!(tool, why, "cannot validate results: unusable outputSchema");
                None
            }
        });
        let Some(compiled) = compiled else { return Ok(()) };
        let content = content.to_value().map_err(|error| format!("structuredContent: {error}"))?;
        match compiled.iter_errors(&content).next() {
            None => Ok(()),
            Some(error) => {
                // Masked, because errors are logged, and results belong to their caller alone.
                let (at, what) = (error.instance_path().as_str(), error.masked());
                Err(format!("structuredContent{at} does not match the tool's outputSchema: {what}"))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<ToolOutputSchema>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compiles a schema without external references and within the cost limit (TOOL-43).
fn compile_bounded(schema: &RawJson) -> Result<jsonschema::Validator, String> {
    if !is_bounded(schema) {
        return Err("it is too large".into());
    }
    compile(&schema.to_value().map_err(|error| error.to_string())?)
}
