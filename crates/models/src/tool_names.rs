//! Tool names for providers that allow fewer characters than the specification.
//!
//! MCP names may have dots and slashes and 128 characters. Most providers take letters, digits, `_` and `-`, and 64
//! characters. A valid name is sent unchanged. Any other gets a valid replacement that is unique in the request; the
//! original name is restored in the answer.

use std::collections::BTreeMap;

use hospes_model::{CreateMessageParams, SamplingMessageContentBlock as Block};

/// Mapping between the tool names of a request and the names sent to the provider.
#[derive(Debug, Default)]
pub(crate) struct ToolNameMap {
    out: BTreeMap<String, String>,
    back: BTreeMap<String, String>,
}

impl ToolNameMap {
    /// Creates the mapping for the offered tools and those used earlier in the conversation, with at most `longest`
    /// characters each.
    pub(crate) fn of(params: &CreateMessageParams, longest: usize) -> Self {
        let mut names = Self::default();
        let offered = params.tools.iter().map(|tool| tool.name.as_str());
        let used =
            params.messages.iter().flat_map(|message| &message.content).filter_map(|block| match block {
                Block::ToolUse(tool_use) => Some(tool_use.name.as_str()),
                _ => None,
            });
        let all: Vec<&str> = offered.chain(used).collect();
        // Valid names stay unchanged, regardless of their order.
        let (fitting, others): (Vec<&str>, Vec<&str>) = all.into_iter().partition(|name| fits(name, longest));
        for name in fitting {
            names.pair(name, name.to_owned());
        }
        for name in others {
            if !names.out.contains_key(name) {
                let made = names.make_wire_name(name, longest);
                names.pair(name, made);
            }
        }
        names
    }

    fn pair(&mut self, name: &str, on_the_wire: String) {
        self.back.insert(on_the_wire.clone(), name.to_owned());
        self.out.insert(name.to_owned(), on_the_wire);
    }

    fn make_wire_name(&self, name: &str, longest: usize) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let mut made: String = name.chars().map(plain).take(longest).collect();
        // Gemini rejects names that begin with a digit or a hyphen.
        if !made.starts_with(|c: char| c.is_ascii_alphabetic()) {
            made.insert_str(0, "t_");
            made.truncate(longest);
        }
        // All characters are ASCII by now, so any byte is a boundary.
        let base = made.clone();
        for number in 2_u32.. {
            if !self.back.contains_key(&made) {
                break;
            }
            let end = format!("_{number}");
            made = format!("{}{end}", &base[..base.len().min(longest - end.len())]);
        }
        made
    }

    /// Returns the name sent to the provider.
    pub(crate) fn wire_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.out.get(name).map_or(name, String::as_str)
    }

    /// Returns the tool's original name. A name that was never sent, because the model invented it, is returned
    /// unchanged.
    pub(crate) fn original_name(&self, name: &str) -> String {
        self.back.get(name).map_or(name, String::as_str).to_owned()
    }
}

/// Returns true if OpenAI, Anthropic and Gemini all take the name.
fn fits(name: &str, longest: usize) -> bool {
    (1..=longest).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use hospes_model::{RawJson, SamplingMessage, Tool};

    use super::*;

    fn names(tools: &[&str]) -> ToolNameMap {
        let tools: Vec<Tool> = tools.iter().map(|name| Tool::new(*name, RawJson::empty_object())).collect();
        ToolNameMap::of(&CreateMessageParams::new(vec![SamplingMessage::user("x")], 1).with_tools(tools), 64)
    }

    #[test]
    fn every_name_fits_is_its_own_and_comes_back() {
        let long = "x".repeat(128);
        let longer = format!("{long}y");
        let tools = ["a.b", "a_b", "a/b", "a-b", "7", "_ok", "größe", &long, &longer, "a_b_2", "a.b"];
        let names = names(&tools);
        let mut sent = std::collections::BTreeSet::new();
        for tool in tools {
            let out = names.wire_name(tool);
            assert!(fits(out, 64), "{tool} is {out}");
            assert_eq!(names.original_name(out), tool);
            sent.insert(out.to_owned());
        }
        assert_eq!(sent.len(), tools.len() - 1, "one is there twice");
        assert_eq!(
            (names.wire_name("a_b"), names.wire_name("a_b_2"), names.wire_name("a-b")),
            ("a_b", "a_b_2", "a-b")
        );
        assert_eq!(names.original_name("made_up"), "made_up");
    }

    #[test]
    fn names_used_earlier_in_the_conversation_count_too() {
        let used = hospes_model::ToolUseContent::new("1", "a.b", RawJson::empty_object());
        let params = CreateMessageParams::new(vec![SamplingMessage::assistant(used)], 1);
        assert_eq!(ToolNameMap::of(&params, 64).wire_name("a.b"), "a_b");
    }
}
