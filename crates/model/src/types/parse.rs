//! Parsing of tool results as values of the caller's type.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{CallToolResult, RawJson};

/// Reasons a tool result cannot be parsed as the requested type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseResultError {
    /// The tool failed, with this text.
    #[error("the tool failed: {0}")]
    Failed(String),
    /// The result does not match the type.
    #[error("the tool's result does not have the expected type")]
    Shape(#[source] serde_json::Error),
}

impl CallToolResult {
    /// Parses the result as a value. Structured content is used if there is any; otherwise the text is read as JSON or,
    /// if it is not JSON, as a string.
    ///
    /// Some servers wrap a value that is not an object in an object with the single member `result`, which is
    /// unwrapped.
    ///
    /// # Errors
    /// If the tool failed, or its result does not match the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, ParseResultError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct WrappedValue<T> {
            result: T,
        }
        if self.has_failed() {
            return Err(ParseResultError::Failed(self.all_text()));
        }
        if let Some(structured) = &self.structured_content {
            return structured.decode().or_else(|error| {
                structured
                    .decode::<WrappedValue<T>>()
                    .map(|wrapped| wrapped.result)
                    .map_err(|_| ParseResultError::Shape(error))
            });
        }
        let text = self.all_text();
        serde_json::from_str(&text).or_else(|error| {
            RawJson::from_serialize(&text)
                .and_then(|text| text.decode())
                .map_err(|_| ParseResultError::Shape(error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_found_wherever_servers_put_it() {
        let structured = |value: serde_json::Value| {
            let mut result = CallToolResult::text("something else");
            result.structured_content = Some(value.into());
            result
        };
        assert_eq!(structured(json!(3)).parse::<f64>().unwrap(), 3.0);
        assert_eq!(structured(json!({ "result": 3 })).parse::<i32>().unwrap(), 3);
        assert_eq!(CallToolResult::text("3.5").parse::<f64>().unwrap(), 3.5);
        assert_eq!(CallToolResult::text("[1,2]").parse::<Vec<u8>>().unwrap(), [1, 2]);
        assert_eq!(CallToolResult::text("hello").parse::<String>().unwrap(), "hello");
        let wrong = CallToolResult::text("hello").parse::<f64>().unwrap_err();
        assert!(matches!(wrong, ParseResultError::Shape(_)));
        let failed = CallToolResult::error("no such city").parse::<String>().unwrap_err();
        assert_eq!(failed.to_string(), "the tool failed: no such city");
    }
}
