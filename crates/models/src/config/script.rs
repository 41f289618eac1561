use hospes_model::{CreateMessageResult, RawJson, StopReason, ToolUseContent};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::ScriptLine;

/// One answer of a script: a text, or a tool to be called.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a reply is a string, or a table with `tool` and optionally `arguments`")]
#[non_exhaustive]
pub enum ScriptedReply {
    /// These words.
    Text(String),
    /// A call of a tool, as a model asks for one.
    Tool(ScriptedCall),
}

/// A tool that a script wants called.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ScriptedCall {
    /// The tool, as the model would be told of it.
    pub tool: String,
    /// Its arguments; none by default.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

impl From<&ScriptedReply> for ScriptLine {
    fn from(reply: &ScriptedReply) -> Self {
        match reply {
            ScriptedReply::Text(text) => Self::new(text.as_str()),
            ScriptedReply::Tool(ScriptedCall { tool, arguments }) => {
                let arguments = RawJson::from(Value::Object(arguments.clone()));
                // One answer has one call, so the name is not taken.
                let call = ToolUseContent::new("scripted", tool.as_str(), arguments);
                let result = CreateMessageResult::new("", call).with_stop_reason(StopReason::ToolUse);
                Self::result(result)
            }
        }
    }
}
