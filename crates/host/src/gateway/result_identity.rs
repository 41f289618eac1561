//! Identity in results: they name the host as the server (`serverInfo` in `_meta`, since 2026-07-28), and tools by
//! their shown names.

use std::sync::LazyLock;

use hospes::Outcome;
use hospes_model::{ContentBlock, Method, RawJson, Reply, Revision, meta_key};
use memchr::memmem;

use crate::server::decoded;

/// Prefix of the SDK's error for invalid arguments. The name of the tool and a colon follow.
const ARGUMENT_ERROR: &str = "invalid arguments for ";

static SERVER_INFO: LazyLock<RawJson> = LazyLock::new(|| {
    RawJson::from_serialize(&crate::server::implementation()).unwrap_or_else(|_| RawJson::empty_object())
});

/// Sets the host as the server in a reply, if the application's revision has that member. In replies that are not
/// encoded yet it is added on encoding.
pub(super) fn with_server_info(reply: Reply, down: Revision) -> Reply {
    let Reply::Raw { revision, json, bridge } = reply else { return reply };
    let has_one = || memmem::find(json.as_bytes(), meta_key::SERVER_INFO.as_bytes()).is_some();
    if down.is_legacy() || !json.is_object() || (revision.is_legacy() && !has_one()) {
        return Reply::Raw { revision, json, bridge };
    }
    let json = stamped(&json).unwrap_or(json);
    Reply::Raw { revision, json, bridge }
}

fn stamped(json: &RawJson) -> Option<RawJson> {
    let own = format!("\"{}\":{}", meta_key::SERVER_INFO, SERVER_INFO.as_str());
    // The key is looked for without reading the result; an escaped spelling of it is one that nobody writes.
    let meta = memmem::find(json.as_bytes(), b"\"_meta\"").and_then(|_| {
        json.members().filter(|member| member.key() == "_meta").last().map(|member| member.value())
    });
    let Some(meta) = meta else {
        let rest = json.as_str().trim_start().strip_prefix('{')?;
        // An object that is otherwise empty takes no comma.
        let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
        return RawJson::parse(format!("{{\"_meta\":{{{own}}}{comma}{rest}")).ok();
    };
    let mut text = vec![b'{'];
    text.extend_from_slice(own.as_bytes());
    for member in meta.members().filter(|member| member.key() != meta_key::SERVER_INFO) {
        member.write(&mut text);
    }
    text.push(b'}');
    Some(json.with_member("_meta", &RawJson::parse(text).ok()?))
}

/// Replaces the tool's name in an error text by its shown name. Returns `None` for other errors.
pub(super) fn with_shown_name(text: &str, own: &str, shown: &str) -> Option<String> {
    let rest = text.strip_prefix(ARGUMENT_ERROR)?.strip_prefix(own)?;
    rest.starts_with(':').then(|| format!("{ARGUMENT_ERROR}{shown}{rest}"))
}

/// Replaces the tool's name in an argument error by its shown name.
pub(super) fn naming_tool(outcome: Outcome, method: &Method, own: &str, shown: &str) -> Outcome {
    if own == shown || *method != Method::ToolsCall {
        return outcome;
    }
    match outcome {
        Outcome::Failed(mut error) => {
            if let Some(text) = with_shown_name(&error.message, own, shown) {
                error.message = text.into();
            }
            Outcome::Failed(error)
        }
        Outcome::Complete(reply @ (Reply::Raw { .. } | Reply::CallTool(_))) => {
            // Nearly no result has this text, and looking for it costs less than decoding.
            if let Reply::Raw { json, .. } = &reply
                && memmem::find(json.as_bytes(), ARGUMENT_ERROR.as_bytes()).is_none()
            {
                return Outcome::Complete(reply);
            }
            Outcome::Complete(match decoded(method, reply.clone()) {
                Ok(Reply::CallTool(mut result)) if result.has_failed() => {
                    for block in &mut result.content {
                        if let ContentBlock::Text(block) = block
                            && let Some(text) = with_shown_name(&block.text, own, shown)
                        {
                            block.text = text;
                        }
                    }
                    Reply::CallTool(result)
                }
                _ => reply,
            })
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(text: &str) -> Reply {
        Reply::raw(Revision::LATEST, RawJson::parse(text.to_owned()).unwrap())
    }

    #[test]
    fn results_name_the_host_and_keep_everything_else() {
        let host = serde_json::to_value(&*SERVER_INFO).unwrap();
        let key = meta_key::SERVER_INFO;
        for (text, rest) in [
            ("{}", ""),
            (r#"{"content":[{"text":"\"_meta\""}],"n":1e400}"#, r#""n":1e400"#),
            (r#"{ "content":[{"_meta":{"a":1}}] }"#, r#"[{"_meta":{"a":1}}]"#),
            (
                r#"{"_meta":{"x":1.0,"io.modelcontextprotocol/serverInfo":{"name":"other"}},"n":1e400}"#,
                r#""x":1.0"#,
            ),
            (r#"{"n":1e400,"_meta":{}}"#, r#""n":1e400"#),
        ] {
            let Reply::Raw { json, .. } = with_server_info(raw(text), Revision::LATEST) else { panic!() };
            assert!(json.as_str().contains(rest) && !json.as_str().contains("other"), "{json}");
            let meta = json.members().find(|member| member.key() == "_meta").unwrap().value();
            assert_eq!(meta.to_value().unwrap()[key], host, "{json}");
            let Reply::Raw { json, .. } = with_server_info(raw(text), Revision::LATEST_LEGACY) else {
                panic!()
            };
            assert_eq!(json.as_str(), text);
        }
        assert_eq!(host["name"], json!("hospes"));
    }

    #[test]
    fn only_the_tool_of_an_argument_error_is_renamed() {
        let shown = |text| with_shown_name(text, "say", "one__say");
        assert_eq!(shown("invalid arguments for say:\n- x").unwrap(), "invalid arguments for one__say:\n- x");
        for other in ["invalid arguments for saying: x", "say: invalid arguments for say:", "say"] {
            assert_eq!(shown(other), None, "{other}");
        }
    }
}
