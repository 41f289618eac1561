//! The contract of a tool's results: the output schema that its author gave by hand.

use hospes_model::{CallToolResult, RawJson, RpcError};

use crate::error::Error;
#[cfg(feature = "validate")]
use crate::server::validate::SchemaValidator;

/// Output schema that the author gave by hand. Results of typed handlers fit their own schema by construction.
pub(crate) struct OutputContract {
    tool: Box<str>,
    #[cfg(feature = "validate")]
    schema: SchemaValidator,
}

impl OutputContract {
    pub(super) fn new(tool: &str, schema: &RawJson) -> Result<Self, String> {
        // Read even where nothing is validated, so that text that is no JSON is refused at registration.
        let value = schema.to_value().map_err(|error| error.to_string())?;
        #[cfg(feature = "validate")]
        let schema = SchemaValidator::new(&value)?;
        let _ = value;
        Ok(Self {
            tool: tool.into(),
            #[cfg(feature = "validate")]
            schema,
        })
    }

    /// Checks that the result keeps the promise (TOOL-32).
    pub(crate) fn check_result(&self, result: CallToolResult) -> Result<CallToolResult, Error> {
        // A tool's own error owes nobody structured content.
        if result.has_failed() {
            return Ok(result);
        }
        let Some(content) = &result.structured_content else { return Err(self.violation_error()) };
        #[cfg(feature = "validate")]
        if !content.to_value().is_ok_and(|value| self.schema.is_valid(&value)) {
            return Err(self.violation_error());
        }
        let _ = content;
        Ok(result)
    }

    fn violation_error(&self) -> Error {
        tracing::error!(tool = %self.tool, "structured content does not match the tool's output schema");
        RpcError::internal(format!("the result of {} does not match its output schema", self.tool)).into()
    }
}
