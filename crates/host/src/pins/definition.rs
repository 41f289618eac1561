//! Hashes of definitions: one for each item that a server offers.
//!
//! The hash covers the canonical form (RFC 8785) of everything that a list passes on: names, title, description,
//! schemas, annotations, icons and `_meta`. The size and modification time of a resource are left out, because they
//! change with its content. Ambiguous JSON (duplicate names, numbers beyond the range of a double) is also hashed
//! unchanged, because readers interpret it differently.
//!
//! The first version of the hash left out icons and `_meta`, and did not cover resources. It is still computed, so that
//! definitions accepted with it stay accepted. The current hash then replaces it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use aws_lc_rs::digest::{Context, SHA256};
use hospes_model::{RawJson, Resource, Tool};
use hospes_store::pins::{ItemDefinition, ItemKind, Sha256Digest};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, de};
use serde_json::Value;

use crate::config::ToolFilter;
use crate::server::UpstreamListing;

/// Members that the first version did not hash.
const UNHASHED_IN_FIRST_VERSION: [&str; 2] = ["icons", "_meta"];

/// Maximum number of pinned resources of one listing. Further resources are not passed on.
pub(super) const MAX_RESOURCES: usize = 2000;

/// Largest integer that every JSON parser reads exactly: 2⁵³.
const MAX_SAFE_INTEGER: u64 = 1 << 53;

/// Computes the definitions of all pinned items of a connection. Tools that are not listed are excluded.
pub(crate) fn definitions(
    instructions: Option<&str>,
    listing: &UpstreamListing,
    filter: &ToolFilter,
) -> Vec<ItemDefinition> {
    let mut all = Vec::new();
    if let Some(said) = instructions.filter(|said| !said.trim().is_empty()) {
        all.push(definition(ItemKind::Instructions, "", &serde_json::json!({ "instructions": said })));
    }
    let tools = listing.tools.iter().filter(|tool| filter.allows(&tool.name));
    all.extend(tools.map(tool_definition));
    all.extend(listing.prompts.iter().map(|prompt| definition(ItemKind::Prompt, &prompt.name, prompt)));
    let templates = listing.templates.iter();
    all.extend(templates.map(|one| definition(ItemKind::Template, &one.uri_template, one)));
    let resources = listing.resources.iter().take(MAX_RESOURCES);
    all.extend(
        resources.map(|one| {
            hash_definition(ItemKind::Resource, &one.uri, &without_state(one), HashVersion::Second)
        }),
    );
    all
}

/// Returns a resource without the members that change with its content. A time that is not valid is kept as text.
fn without_state(resource: &Resource) -> Resource {
    let mut lasting = resource.clone();
    lasting.size = None;
    if let Some(annotations) = &mut lasting.annotations
        && annotations.last_modified.as_ref().is_some_and(|at| at.parse::<jiff::Timestamp>().is_ok())
    {
        annotations.last_modified = None;
    }
    lasting
}

/// Versions of the hash of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HashVersion {
    First,
    Second,
}

/// Computes the definition of a tool.
pub(super) fn tool_definition(tool: &Tool) -> ItemDefinition {
    definition(ItemKind::Tool, &tool.name, tool)
}

fn definition(kind: ItemKind, name: &str, item: &impl Serialize) -> ItemDefinition {
    let earlier = hash_definition(kind, name, item, HashVersion::First).hash;
    hash_definition(kind, name, item, HashVersion::Second).with_earlier(earlier)
}

fn hash_definition(
    kind: ItemKind,
    name: &str,
    item: &impl Serialize,
    version: HashVersion,
) -> ItemDefinition {
    let mut context = Context::new(&SHA256);
    // The marks are part of every stored pin: another one would make all that was accepted new.
    let (mark, passed_over) = match version {
        HashVersion::First => (b"hospes pin 1\n", &UNHASHED_IN_FIRST_VERSION[..]),
        HashVersion::Second => (b"hospes pin 2\n", &[][..]),
    };
    context.update(mark);
    context.update(kind.as_str().as_bytes());
    let text = match canonicalize(item, passed_over) {
        Ok((text, odd)) => {
            context.update(b"\n");
            context.update(text.as_bytes());
            match odd {
                Some(odd) => {
                    context.update(b"\nas it came\n");
                    context.update(odd.as_bytes());
                    odd
                }
                None => text,
            }
        }
        // What cannot be read is still the same or another.
        Err(text) => {
            context.update(b"\nunreadable\n");
            context.update(text.as_bytes());
            text
        }
    };
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    ItemDefinition::new(kind, name, Sha256Digest::new(bytes), text)
}

/// Returns the canonical form, and the unchanged text if it is ambiguous.
fn canonicalize(item: &impl Serialize, passed_over: &[&str]) -> Result<(String, Option<String>), String> {
    let raw = RawJson::from_serialize(item).map_err(|error| error.to_string())?;
    let raw = raw.as_str();
    let mut value: Value = serde_json::from_str(raw).map_err(|_| raw.to_owned())?;
    if let Some(members) = value.as_object_mut() {
        passed_over.iter().for_each(|name| drop(members.remove(*name)));
    }
    let text = serde_json_canonicalizer::to_string(&value).map_err(|_| raw.to_owned())?;
    let odd = has_other_readings(raw).then(|| raw.to_owned());
    Ok((text, odd))
}

/// Returns true if JSON parsers may disagree on this JSON.
pub(super) fn has_other_readings(json: &str) -> bool {
    serde_json::from_str::<UnambiguousJson>(json).is_err()
}

/// JSON that every reader reads alike.
struct UnambiguousJson;

impl<'de> Deserialize<'de> for UnambiguousJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UnambiguousJson {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unambiguous JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self, E> {
        if number <= MAX_SAFE_INTEGER { Ok(self) } else { Err(E::custom("number exceeds 2^53")) }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self, E> {
        self.visit_u64(number.unsigned_abs())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        let mut names: HashSet<Cow<'_, str>> = HashSet::new();
        // Decoded names, so that one that is spelled with escapes counts as the same.
        while let Some(name) = members.next_key::<String>()? {
            members.next_value::<Self>()?;
            if !names.insert(Cow::Owned(name)) {
                return Err(A::Error::custom("duplicate key"));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hospes_model::{Tool, ToolAnnotations};
    use serde_json::json;

    use super::*;
    use crate::server::DefinitionHashes;

    fn tool(schema: &str) -> Tool {
        Tool::new("read", RawJson::parse(schema.to_owned()).unwrap()).with_description("Reads.")
    }

    fn hash(tool: &Tool) -> Sha256Digest {
        definition(ItemKind::Tool, &tool.name, tool).hash
    }

    /// From the text of RFC 8785: section 3.2.2 with its result in 3.2.3, and numbers from appendix B.
    #[test]
    fn the_canonical_form_is_that_of_the_rfc() {
        let before = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
        let after = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        let value: Value = serde_json::from_str(before).unwrap();
        assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap(), after);
        for (bits, text) in [
            (0x8000_0000_0000_0000_u64, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
        ] {
            let number = serde_json::to_value(f64::from_bits(bits)).unwrap();
            assert_eq!(serde_json_canonicalizer::to_string(&number).unwrap(), text);
        }
        // Sorted by UTF-16 code units: section 3.2.3.
        let names: Value = serde_json::from_str(
            r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#,
        )
        .unwrap();
        let sorted = serde_json_canonicalizer::to_string(&names).unwrap();
        let order: Vec<char> = sorted.chars().filter(|letter| ('1'..='7').contains(letter)).collect();
        assert_eq!(order.iter().collect::<String>(), "214671537".replace("1537", "153"), "{sorted}");
    }

    #[test]
    fn how_a_definition_is_written_makes_no_difference_and_what_it_says_does() {
        let given = tool(r#"{"type":"object","properties":{"a":{"maximum":1.0}}}"#);
        let same = tool("{ \"properties\": {\"a\":{\"maximum\": 1}},\n \"type\" : \"\\u006fbject\"}");
        assert_eq!(hash(&given), hash(&same));
        let mut meta = given.clone();
        meta.meta = serde_json::from_value(json!({ "example.com/at": 5 })).unwrap();
        let mut icons = given.clone();
        icons.icons = serde_json::from_value(json!([{ "src": "https://example.com/a.png" }])).unwrap();
        let earlier = |tool: &Tool| definition(ItemKind::Tool, &tool.name, tool).earlier;
        assert!(earlier(&given) == earlier(&meta) && earlier(&given) == earlier(&icons));
        let mut extra = given.clone();
        extra.extra.insert("future".to_owned(), json!(1));
        let mut hints = ToolAnnotations::new();
        hints.read_only_hint = Some(true);
        let others = [
            tool(r#"{"type":"object","properties":{"a":{"maximum":2}}}"#),
            tool(r#"{"type":"object","properties":{"a":{"maximum":1}},"x":null}"#),
            given.clone().with_description("Reads. "),
            given.clone().with_title("Read"),
            given.clone().with_output_schema(RawJson::parse("{}").unwrap()),
            given.clone().with_annotations(hints),
            extra,
            meta,
            icons,
        ];
        for other in &others {
            assert_ne!(hash(&given), hash(other), "{other:?}");
        }
    }

    /// A reader that takes the first of two members sees what a reader that takes the last does not.
    #[test]
    fn what_has_two_readings_is_hashed_as_it_came() {
        for (one, other) in [
            (r#"{"type":"object","x":"a","x":"b"}"#, r#"{"type":"object","x":"c","x":"b"}"#),
            (r#"{"type":"object","x":"a","x":"b"}"#, r#"{"type":"object","x":"b"}"#),
            (r#"{"x":9007199254740993}"#, r#"{"x":9007199254740992}"#),
            (r#"{"x":[{"a":1,"a":2}]}"#, r#"{"x":[{"a":2}]}"#),
            (r#"{"x":1e999}"#, r#"{"x":1e998}"#),
        ] {
            assert_ne!(hash(&tool(one)), hash(&tool(other)), "{one}");
            assert!(has_other_readings(one), "{one}");
        }
        assert!(!has_other_readings(r#"{"x":[1,-5,1.5,null,"a",{"y":{}}],"X":1}"#));
    }

    #[test]
    fn instructions_prompts_and_templates_are_pinned_and_hidden_tools_are_not() {
        let listing = UpstreamListing {
            tools: Arc::new(vec![tool("{}"), Tool::new("secret", RawJson::empty_object())]),
            prompts: Arc::new(vec![hospes_model::Prompt::new("greet")]),
            templates: Arc::new(vec![hospes_model::ResourceTemplate::new("file:///{path}", "files")]),
            ..UpstreamListing::default()
        };
        let filter = ToolFilter { exclude: vec!["secret".to_owned()], ..ToolFilter::default() };
        let all = definitions(Some("Be kind."), &listing, &filter);
        let names: Vec<_> = all.iter().map(|one| (one.kind, one.name.as_str())).collect();
        let expected = [
            (ItemKind::Instructions, ""),
            (ItemKind::Tool, "read"),
            (ItemKind::Prompt, "greet"),
            (ItemKind::Template, "file:///{path}"),
        ];
        assert_eq!(names, expected);
        let hashes = DefinitionHashes::of(&all);
        assert_eq!(hashes.get(ItemKind::Tool, "read"), Some(all[1].hash));
        assert_eq!((hashes.get(ItemKind::Tool, "secret"), hashes.all().count()), (None, 4));
        assert_ne!(definitions(Some("Be cruel."), &listing, &filter)[0].hash, all[0].hash);
    }
}
