//! Conversion of params for forwarding another client's request.

use hospes_model::{Method, RawJson, Revision, lower_params, meta_key};

use crate::params::Params;

/// Keys of `_meta` that describe one connection; they are never forwarded.
const OWN_META: &[&str] = &[
    meta_key::PROGRESS_TOKEN,
    meta_key::PROTOCOL_VERSION,
    meta_key::CLIENT_INFO,
    meta_key::CLIENT_CAPABILITIES,
    meta_key::LOG_LEVEL,
    meta_key::SUBSCRIPTION_ID,
];

/// Members of params that the client writes itself in each round.
const OWN_PARAMS: &[&str] = &["_meta", "inputResponses", "requestState"];

/// The members of params and of their `_meta`, written out, as far as they cross.
#[derive(Debug)]
pub(crate) struct ForwardedParams {
    raw: Option<RawJson>,
    rewritten: Vec<u8>,
    pub(crate) meta: Vec<u8>,
}

impl ForwardedParams {
    pub(crate) fn new(method: &Method, to: Revision, params: &Params) -> Self {
        let view = params.view();
        let meta = view.meta.as_ref().map(|meta| omit_members(meta, OWN_META)).unwrap_or_default();
        let touched = view.meta.is_some() || view.input_responses.is_some() || view.request_state.is_some();
        let raw = if to.is_legacy() {
            lower_params(method, to, params.raw().clone())
        } else {
            params.raw().clone()
        };
        // Params without members of this leg are forwarded as they came, without being taken apart.
        if touched {
            // The answers to a task's questions are what the call is about, and belong to no round of it.
            let own = if *method == Method::TasksUpdate { &OWN_PARAMS[..1] } else { OWN_PARAMS };
            return Self { rewritten: omit_members(&raw, own), raw: None, meta };
        }
        Self { raw: Some(raw), rewritten: Vec::new(), meta }
    }

    /// Removes the `task` member; each connection requests tasks separately.
    pub(crate) fn without_task(self) -> Self {
        let mut text = vec![b'{'];
        text.extend_from_slice(self.members());
        text.push(b'}');
        match RawJson::parse(text) {
            Ok(object) => Self { raw: None, rewritten: omit_members(&object, &["task"]), meta: self.meta },
            Err(_) => self,
        }
    }

    /// Returns the members of the params.
    pub(crate) fn members(&self) -> &[u8] {
        match &self.raw {
            Some(raw) => strip_braces(raw.as_bytes()),
            None => &self.rewritten,
        }
    }
}

/// Returns the text between the braces.
fn strip_braces(object: &[u8]) -> &[u8] {
    let inside = object.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    inside.unwrap_or_default().trim_ascii()
}

/// Encodes the members of an object except some.
fn omit_members(object: &RawJson, left_out: &[&str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.as_bytes().len());
    for member in object.members().filter(|member| !left_out.contains(&&*member.key())) {
        member.write(&mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(text: &str, to: Revision) -> (String, String) {
        let params = Params::new(RawJson::parse(text.to_owned()).unwrap());
        let forwarded = ForwardedParams::new(&Method::ToolsCall, to, &params);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(forwarded.members()), text(&forwarded.meta))
    }

    #[test]
    fn what_has_nothing_of_its_own_leg_crosses_untouched() {
        let (members, meta) = forwarded(r#"{ "name":"a" ,"arguments":{ "b" : 1 } }"#, Revision::V2026_07_28);
        assert_eq!(members, r#""name":"a" ,"arguments":{ "b" : 1 }"#);
        assert_eq!(meta, "");
        assert_eq!(forwarded("{}", Revision::V2024_11_05), (String::new(), String::new()));
    }

    #[test]
    fn what_belongs_to_one_leg_does_not_cross() {
        let text = r#"{"_meta":{"progressToken":1,"traceparent":"t","io.modelcontextprotocol/clientInfo":{"name":"x"}},
            "name":"say \"hi\"","requestState":"s","inputResponses":{},"arguments":{"_meta":1}}"#;
        let (members, meta) = forwarded(text, Revision::V2026_07_28);
        assert_eq!(members, r#""name":"say \"hi\"","arguments":{"_meta":1}"#);
        assert_eq!(meta, r#""traceparent":"t""#);
    }
}
