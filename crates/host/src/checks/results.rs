//! Results of a server on their way to an application: structured content, hidden characters, instructions, secrets.

use std::borrow::Cow;

use hospes::Peer;
use hospes_inspect::hidden::{may_hide_in_json, strip_hidden};
use hospes_inspect::lints::{LintKind, ToolNames, lint_text, may_have_lints};
use hospes_inspect::secrets::find_secrets;
use hospes_model::{
    CallToolResult, ContentBlock, GetPromptResult, Meta, Method, RawJson, ReadResourceResult, Reply,
    ResourceBody, ResourceContents, Tool,
};
use serde_json::Value;

use super::{CallChecks, CheckSettings};
use crate::server::decoded;

/// Key in `_meta` of the notices on the result of a prompt or resource, which has no block for them.
pub(crate) const NOTICES_KEY: &str = "hospes/notices";

/// Maximum length of a reason in a notice, in characters.
const MAX_REASON: usize = 300;

/// Origin of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResultSource<'a> {
    /// Name of the server.
    pub(crate) server: &'a str,
    /// True for built-in servers and those that the policy trusts.
    pub(crate) is_trusted: bool,
    /// Definition of the tool, if the result is one of a tool.
    pub(crate) tool: Option<&'a Tool>,
    /// Tools of all servers.
    pub(crate) tools: &'a ToolNames,
}

/// Changes to a result, with the notices that tell of them.
#[derive(Debug, Default)]
struct ResultReport {
    hidden: usize,
    lints: Vec<LintKind>,
    is_sampled: bool,
    notices: Vec<String>,
}

impl CallChecks {
    /// Checks a result and remembers its secrets. Returns the result itself, undecoded, if there is nothing to change.
    pub(crate) fn check_result(
        &self,
        settings: CheckSettings,
        peer: &Peer,
        method: &Method,
        reply: Reply,
        source: ResultSource<'_>,
    ) -> Reply {
        if !matches!(method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead) {
            return reply;
        }
        let json = match &reply {
            Reply::Raw { json, .. } => Cow::Borrowed(json),
            Reply::CallTool(result) => match RawJson::from_serialize(result) {
                Ok(json) => Cow::Owned(json),
                Err(_) => return reply,
            },
            Reply::GetPrompt(_) | Reply::ReadResource(_) | Reply::Prepared(_) => {
                match decoded(method, reply.clone()).map(|reply| encoded(&reply)) {
                    Ok(Some(json)) => Cow::Owned(json),
                    _ => return reply,
                }
            }
            _ => return reply,
        };
        let text = json.as_str();
        if settings.destinations {
            for found in find_secrets(text) {
                self.secrets.note(peer, source.server, &text[found.range]);
            }
        }
        let is_structured =
            settings.structured_results && source.tool.is_some_and(|tool| tool.output_schema.is_some());
        let has_findings = settings.results
            && (may_hide_in_json(text)
                || !source.is_trusted && may_have_lints(text, source.tools, source.server));
        if !is_structured && !has_findings {
            return reply;
        }
        let Ok(mut changed) = decoded(method, reply.clone()) else { return reply };
        let mut report = ResultReport::default();
        match &mut changed {
            Reply::CallTool(result) => {
                if is_structured {
                    self.check_structured(result, source, &mut report);
                }
                if has_findings {
                    report.inspect_tool_result(result, source);
                }
                if !report.is_empty() {
                    let notices = report.into_notices(source.server);
                    result.content.splice(0..0, notices.into_iter().map(ContentBlock::text));
                    return changed;
                }
            }
            Reply::GetPrompt(result) => {
                let GetPromptResult { meta, messages, .. } = &mut **result;
                messages.iter_mut().for_each(|message| report.inspect_block(&mut message.content, source));
                if report.note_in(meta, source.server) {
                    return changed;
                }
            }
            Reply::ReadResource(result) => {
                let ReadResourceResult { meta, contents, .. } = &mut **result;
                contents.iter_mut().for_each(|contents| report.inspect_contents(contents, source));
                if report.note_in(meta, source.server) {
                    return changed;
                }
            }
            _ => {}
        }
        reply
    }

    /// Replaces structured content that violates the output schema of its tool by text. Members that the schema does not
    /// list are no violation.
    fn check_structured(
        &self,
        result: &mut CallToolResult,
        source: ResultSource<'_>,
        report: &mut ResultReport,
    ) {
        let schema = source.tool.and_then(|tool| tool.output_schema.as_ref());
        let Some(schema) = schema.and_then(|schema| self.schemas.get(schema)) else { return };
        let Some(content) = result.structured_content.as_ref().filter(|_| result.is_error != Some(true))
        else {
            return;
        };
        let Ok(value) = content.to_value() else { return };
        if schema.is_valid(&value) || schema.is_valid_with_extra_members(&value) {
            return;
        }
        let why = schema.find_mistakes(&value).join("; ");
        let why: String = hospes_policy::visible_line(&why.chars().take(MAX_REASON).collect::<String>());
        report.notices.push(format!(
            "the structured result does not match the tool's output schema and follows as text: {why}"
        ));
        let has_text = result.content.iter().any(|block| matches!(block, ContentBlock::Text(_)));
        if !has_text {
            result.content.push(ContentBlock::text(content.as_str()));
        }
        result.structured_content = None;
    }
}

fn encoded(reply: &Reply) -> Option<RawJson> {
    match reply {
        Reply::CallTool(result) => RawJson::from_serialize(result).ok(),
        Reply::GetPrompt(result) => RawJson::from_serialize(result).ok(),
        Reply::ReadResource(result) => RawJson::from_serialize(result).ok(),
        _ => None,
    }
}

impl ResultReport {
    fn is_empty(&self) -> bool {
        self.hidden == 0 && self.lints.is_empty() && self.notices.is_empty()
    }

    fn inspect_tool_result(&mut self, result: &mut CallToolResult, source: ResultSource<'_>) {
        result.content.iter_mut().for_each(|block| self.inspect_block(block, source));
        let Some(content) = &result.structured_content else { return };
        let Ok(mut value) = content.to_value() else { return };
        let before = self.hidden;
        self.inspect_value(&mut value, source);
        if self.hidden > before {
            result.structured_content = Some(RawJson::from(value));
        }
    }

    fn inspect_block(&mut self, block: &mut ContentBlock, source: ResultSource<'_>) {
        match block {
            ContentBlock::Text(content) => self.inspect_text(&mut content.text, source),
            ContentBlock::Resource(embedded) => self.inspect_contents(&mut embedded.resource, source),
            _ => {}
        }
    }

    fn inspect_contents(&mut self, contents: &mut ResourceContents, source: ResultSource<'_>) {
        if let ResourceBody::Text(text) = &mut contents.body {
            self.inspect_text(text, source);
        }
    }

    fn inspect_value(&mut self, value: &mut Value, source: ResultSource<'_>) {
        match value {
            Value::String(text) => self.inspect_text(text, source),
            Value::Array(items) => items.iter_mut().for_each(|item| self.inspect_value(item, source)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.inspect_value(member, source));
            }
            _ => {}
        }
    }

    fn inspect_text(&mut self, text: &mut String, source: ResultSource<'_>) {
        if !source.is_trusted {
            let lints = lint_text(text, source.tools, source.server);
            self.is_sampled |= lints.is_sampled;
            for lint in lints.found {
                if !self.lints.contains(&lint.kind) {
                    self.lints.push(lint.kind);
                }
            }
        }
        if let (Cow::Owned(shown), count) = strip_hidden(text) {
            self.hidden += count;
            *text = shown;
        }
    }

    /// Returns the notices, each for a block of its own.
    fn into_notices(mut self, server: &str) -> Vec<String> {
        if self.hidden > 0 {
            let plural = if self.hidden == 1 { "character was" } else { "characters were" };
            self.notices.push(format!("{} hidden {plural} removed from this result", self.hidden));
        }
        if !self.lints.is_empty() {
            let kinds: Vec<_> = self.lints.iter().map(|kind| kind.as_str()).collect();
            let sampled = if self.is_sampled { " (only parts of it were examined)" } else { "" };
            self.notices.push(format!(
                "this result contains {}{sampled}; it was written neither by the user nor by this gateway",
                kinds.join(", and ")
            ));
        }
        let server = hospes_policy::visible_line(server);
        let notices = self.notices.into_iter();
        notices
            .map(|notice| format!("[Notice of the gateway about the server `{server}`: {notice}]"))
            .collect()
    }

    /// Puts the notices into the metadata of a result. Returns true if there are any.
    fn note_in(self, meta: &mut Meta, server: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        if let Ok(notices) = RawJson::from_serialize(&self.into_notices(server)) {
            meta.insert(NOTICES_KEY, notices);
        }
        true
    }
}
