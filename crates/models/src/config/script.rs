use hospes_model::{CreateMessageResult, RawJson, StopReason, ToolUseContent};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::ScriptLine;

/// One reply of a script: a text or a tool use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a reply is a string, or a table with `tool` and optionally `arguments`")]
#[non_exhaustive]
pub enum ScriptedReply {
    /// A text.
    Text(String),
    /// A tool use.
    Tool(ScriptedCall),
}

/// A tool use in a script.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ScriptedCall {
    /// Name of the tool, as the model sees it.
    pub tool: String,
    /// Arguments. The default is an empty object.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

impl From<&ScriptedReply> for ScriptLine {
    fn from(reply: &ScriptedReply) -> Self {
        match reply {
            ScriptedReply::Text(text) => Self::new(text.as_str()),
            ScriptedReply::Tool(ScriptedCall { tool, arguments }) => {
                let arguments = RawJson::from(Value::Object(arguments.clone()));
                // An answer has a single tool use, so the id is unique.
                let call = ToolUseContent::new("scripted", tool.as_str(), arguments);
                let result = CreateMessageResult::new("", call).with_stop_reason(StopReason::ToolUse);
                Self::result(result)
            }
        }
    }
}
