//! Params of requests: conversion for older servers, and the metadata that every request carries.

use std::borrow::Cow;

use serde::{Serialize, de};

use crate::raw_members::MemberEdit;
use crate::revision::step::Lower;
use crate::revision::{v2025_06_18, v2025_11_25};
use crate::write::{write_rest, write_text};
use crate::{Era, InitializeParams, Meta, Method, RawJson, Revision, meta_key};

/// Client metadata on every request of 2026-07-28, serialized once.
#[derive(Clone, Debug)]
pub struct ClientStamp {
    /// The members of `_meta`, without braces.
    members: String,
}

impl ClientStamp {
    /// Creates the metadata of a client of 2026-07-28 with these capabilities. Without `info`, the client stays
    /// anonymous.
    #[must_use]
    pub fn new(capabilities: &crate::ClientCapabilities, info: Option<&crate::Implementation>) -> Self {
        let to = Revision::LATEST;
        let mut members = format!("\"{}\":\"{to}\"", meta_key::PROTOCOL_VERSION);
        let mut member = |key: &str, value: Option<RawJson>| {
            if let Some(value) = value {
                members.push_str(&format!(",\"{key}\":{}", value.as_str()));
            }
        };
        // The member is required, so capabilities that cannot be serialized are sent as none.
        let capabilities =
            RawJson::from_serialize(&capabilities.lowered(to)).unwrap_or_else(|_| RawJson::empty_object());
        member(meta_key::CLIENT_CAPABILITIES, Some(capabilities));
        member(meta_key::CLIENT_INFO, info.and_then(|info| RawJson::from_serialize(&info.lowered(to)).ok()));
        Self { members }
    }

    /// Returns the members of `_meta`, without braces.
    #[must_use]
    pub fn members(&self) -> &str {
        &self.members
    }
}

/// Appends params that have no `_meta` of their own, and adds `meta` and, in 2026-07-28, the stamp.
///
/// The stamp takes precedence over members of `meta` with the same key, so a gateway never passes on the identity of
/// another connection.
///
/// # Errors
/// If `params` is not an object, or cannot be serialized.
pub fn write_params<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    params: &P,
    meta: &Meta,
    stamp: Option<&ClientStamp>,
) -> Result<(), serde_json::Error> {
    let start = out.len();
    out.push(b'{');
    let mut first = true;
    if let Some(stamp) = stamp {
        out.extend_from_slice(b"\"_meta\":{");
        out.extend_from_slice(stamp.members.as_bytes());
        first = false;
    }
    for (key, value) in meta.iter() {
        if stamp.is_some() && STAMPED.contains(&key) {
            continue;
        }
        out.extend_from_slice(if first { b"\"_meta\":{" } else { b"," });
        first = false;
        write_text(out, key);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    if !first {
        out.extend_from_slice(b"},");
    }
    let written = write_rest(out, 1, params);
    // `write_rest` drops the first byte, so the last one shows whether it was an object.
    if written.is_err() || out.last() != Some(&b'}') {
        out.truncate(start);
        written?;
        return Err(de::Error::custom("params must be an object"));
    }
    close_object(out);
    Ok(())
}

const STAMPED: &[&str] = &[meta_key::PROTOCOL_VERSION, meta_key::CLIENT_CAPABILITIES, meta_key::CLIENT_INFO];

/// Removes a trailing comma and closes the object.
fn close_object(out: &mut Vec<u8>) {
    if out.ends_with(b",}") {
        out.truncate(out.len() - 2);
        out.push(b'}');
    }
}

/// Converts params to revision `to`. Unchanged params share memory with the input.
///
/// Applies to messages from a client to a server. The client metadata of 2026-07-28 is removed for older servers;
/// [`write_params`] adds it for newer ones.
#[must_use]
pub fn lower_params(method: &Method, to: Revision, params: RawJson) -> RawJson {
    if *method == Method::Initialize {
        return lower_initialize(to, &params).unwrap_or(params);
    }
    lower_members(method, to, &params).unwrap_or(params)
}

fn lower_initialize(to: Revision, params: &RawJson) -> Option<RawJson> {
    let params: InitializeParams = params.decode().ok()?;
    let lowered = params.lowered(to);
    matches!(lowered, Cow::Owned(_)).then(|| RawJson::from_serialize(&lowered).ok()).flatten()
}

/// Returns the remaining members, or `None` if all of them stay.
fn lower_members(method: &Method, to: Revision, params: &RawJson) -> Option<RawJson> {
    params.edit_members(|member| {
        let changed = match &*member.key() {
            key if leaves_out_param(method, to, key) => return MemberEdit::Goes,
            "_meta" => {
                let meta = member.value().without_members(|key| leaves_out_meta(to, key));
                if meta.as_ref().is_some_and(|meta| meta.members().next().is_none()) {
                    return MemberEdit::Goes;
                }
                meta
            }
            // `title` was added in 2025-06-18.
            "ref" if *method == Method::Complete && to <= Revision::V2025_03_26 => {
                member.value().without_members(|key| key == "title")
            }
            _ => None,
        };
        changed.map_or(MemberEdit::Stays, MemberEdit::Becomes)
    })
}

fn leaves_out_param(method: &Method, to: Revision, key: &str) -> bool {
    (to.era() == Era::Legacy && method.allows_input_requests() && v2025_11_25::NEWER_PARAMS.contains(&key))
        || (to != Revision::V2025_11_25
            && *method == Method::ToolsCall
            && v2025_06_18::NEWER_PARAMS.contains(&key))
        || (to <= Revision::V2025_03_26 && *method == Method::Complete && key == "context")
}

fn leaves_out_meta(to: Revision, key: &str) -> bool {
    (to.era() == Era::Legacy && v2025_11_25::NEWER_META.contains(&key))
        || (to != Revision::V2025_11_25 && v2025_06_18::NEWER_META.contains(&key))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{ClientCapabilities, Implementation, TASKS_EXTENSION};

    fn written(params: &impl Serialize, meta: &Meta, stamp: Option<&ClientStamp>) -> String {
        let mut out = Vec::new();
        write_params(&mut out, params, meta, stamp).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// covers: VER-11 CAP-11 META-01
    #[test]
    fn the_stamp_stands_on_every_request_and_wins() {
        let mut capabilities = ClientCapabilities::new();
        capabilities.extensions.insert(TASKS_EXTENSION.to_owned(), RawJson::empty_object());
        let stamp = ClientStamp::new(&capabilities, Some(&Implementation::new("c", "1")));
        let meta = Meta::new()
            .with("a/b", &1)
            .with(meta_key::PROTOCOL_VERSION, &"1900-01-01")
            .with(meta_key::CLIENT_INFO, &"somebody else");
        let text = written(&json!({"name": "t"}), &meta, Some(&stamp));
        assert!(text.starts_with(&format!("{{\"_meta\":{{{},", stamp.members())), "{text}");
        assert_eq!(
            text,
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"a/b":1},"name":"t"}"#
        );
        let nameless = ClientStamp::new(&ClientCapabilities::new(), None);
        assert_eq!(
            written(&json!({}), &Meta::new(), Some(&nameless)),
            r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#
        );
    }

    #[test]
    fn params_without_a_stamp_are_as_they_are() {
        assert_eq!(written(&json!({"a": 1}), &Meta::new(), None), r#"{"a":1}"#);
        assert_eq!(written(&json!({}), &Meta::new(), None), "{}");
        let meta = Meta::new().with("a/b", &1).with("c/d", &2);
        assert_eq!(written(&json!({}), &meta, None), r#"{"_meta":{"a/b":1,"c/d":2}}"#);
        for odd in [json!(null), json!([1]), json!("}"), json!(5)] {
            let mut out = b"kept".to_vec();
            assert!(write_params(&mut out, &odd, &Meta::new(), None).is_err(), "{odd}");
            assert_eq!(out, b"kept");
        }
    }

    #[test]
    fn lowering_shares_memory_where_nothing_changes() {
        let params = RawJson::parse(r#"{ "name":"t", "arguments":{"task":1,"requestState":2} }"#).unwrap();
        for to in Revision::ALL {
            let lowered = lower_params(&Method::ToolsCall, to, params.clone());
            assert_eq!(lowered.as_bytes().as_ptr(), params.as_bytes().as_ptr(), "{to}");
        }
    }

    #[test]
    fn lowering_takes_out_what_a_revision_does_not_have() {
        let params = RawJson::parse(
            r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"x"},"progressToken":1,"io.modelcontextprotocol/related-task":{"taskId":"t"}},"name":"t","arguments":{"z": 1, "a": 2},"task":{},"inputResponses":{},"requestState":"s","odd":1}"#,
        )
        .unwrap();
        let lowered = |method: &Method, to| lower_params(method, to, params.clone()).to_value().unwrap();
        let call = Method::ToolsCall;
        for to in &Revision::ALL[..3] {
            assert_eq!(
                lowered(&call, *to),
                json!({"_meta": {"progressToken": 1}, "name": "t", "arguments": {"z": 1, "a": 2}, "odd": 1})
            );
        }
        let tasks = lowered(&call, Revision::V2025_11_25);
        assert!(tasks.get("task").is_some() && tasks["_meta"].as_object().unwrap().len() == 2);
        assert!(tasks.get("inputResponses").is_none() && tasks.get("requestState").is_none());
        let modern = lowered(&call, Revision::V2026_07_28);
        assert!(modern.get("task").is_none() && modern.get("requestState").is_some());
        assert!(modern["_meta"].get(meta_key::RELATED_TASK).is_none());
        // The same names have no meaning in other methods.
        let own = lowered(&Method::from_name("acme/do"), Revision::V2025_06_18);
        assert!(own.get("requestState").is_some() && own.get("task").is_some());

        let only = RawJson::parse(r#"{"_meta":{"io.modelcontextprotocol/clientInfo":{}}}"#).unwrap();
        assert_eq!(lower_params(&Method::ToolsList, Revision::V2025_11_25, only).as_str(), "{}");
        let complete = RawJson::parse(
            r#"{"ref":{"type":"ref/prompt","name":"p","title":"P"},"argument":{},"context":{"arguments":{}}}"#,
        )
        .unwrap();
        assert_eq!(
            lower_params(&Method::Complete, Revision::V2025_03_26, complete.clone()).as_str(),
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{}}"#
        );
        assert_eq!(lower_params(&Method::Complete, Revision::V2025_06_18, complete.clone()), complete);
    }
}
