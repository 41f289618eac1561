//! The shapes that decoding must bear with, whatever the order of members.

use serde_json::json;

use crate::{
    CallToolResult, ContentBlock, CreateMessageResult, ElicitParams, PrimitiveSchemaDefinition, RawJson,
    ResourceContents, Role, SamplingMessage, Tool,
};

fn round_trip<T: serde::de::DeserializeOwned + serde::Serialize>(
    json: &serde_json::Value,
) -> serde_json::Value {
    let value: T = serde_json::from_str(&json.to_string()).unwrap();
    let text = serde_json::to_string(&value).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn content_blocks_survive_in_any_order_of_members() {
    for text in [
        r#"{"type":"text","text":"a","_meta":{"x/y":[1, 2]}}"#,
        r#"{"text":"a","_meta":{"x/y":[1, 2]},"type":"text"}"#,
    ] {
        let block: ContentBlock = serde_json::from_str(text).unwrap();
        let ContentBlock::Text(content) = &block else { panic!("{block:?}") };
        assert_eq!(content.text, "a");
        assert_eq!(content.meta.get("x/y").unwrap().as_str(), "[1, 2]");
        assert_eq!(
            serde_json::to_string(&block).unwrap(),
            r#"{"type":"text","text":"a","_meta":{"x/y":[1, 2]}}"#
        );
    }
}

#[test]
fn a_content_block_of_an_unknown_type_is_kept_whole() {
    for text in [r#"{"type":"smell","of":"roses"}"#, r#"{"of":"roses","type":"smell"}"#] {
        let block: ContentBlock = serde_json::from_str(text).unwrap();
        assert_eq!(block, ContentBlock::Unknown(RawJson::parse(r#"{"type":"smell","of":"roses"}"#).unwrap()));
        assert_eq!(serde_json::to_string(&block).unwrap(), r#"{"type":"smell","of":"roses"}"#);
    }
}

#[test]
fn a_resource_link_keeps_unknown_members_and_says_its_type_once() {
    for text in [
        r#"{"type":"resource_link","uri":"a:b","name":"n","odd":{"z":1}}"#,
        r#"{"uri":"a:b","name":"n","odd":{"z":1},"type":"resource_link"}"#,
    ] {
        let block: ContentBlock = serde_json::from_str(text).unwrap();
        assert_eq!(
            serde_json::to_string(&block).unwrap(),
            r#"{"type":"resource_link","uri":"a:b","name":"n","odd":{"z":1}}"#
        );
    }
}

#[test]
fn a_block_without_a_type_is_refused() {
    for text in ["{}", r#"{"text":"a"}"#, r#"{"type":1,"text":"a"}"#, r#"{"type":"text"}"#, "[]", "null"] {
        assert!(serde_json::from_str::<ContentBlock>(text).is_err(), "{text}");
    }
}

#[test]
fn tools_keep_their_schema_to_the_letter_and_members_nobody_knows() {
    let text =
        r#"{"name":"t","inputSchema":{"type":"object", "zeta":1, "alpha":2},"icons":null,"x-odd":[1]}"#;
    let tool: Tool = serde_json::from_str(text).unwrap();
    assert_eq!(tool.input_schema.as_str(), r#"{"type":"object", "zeta":1, "alpha":2}"#);
    assert_eq!(
        serde_json::to_string(&tool).unwrap(),
        r#"{"name":"t","inputSchema":{"type":"object", "zeta":1, "alpha":2},"x-odd":[1]}"#
    );
}

#[test]
fn structured_content_may_be_null() {
    let result: CallToolResult = serde_json::from_str(r#"{"content":[],"structuredContent":null}"#).unwrap();
    assert_eq!(result.structured_content, Some(RawJson::null()));
    let result: CallToolResult = serde_json::from_str(r#"{"content":[]}"#).unwrap();
    assert_eq!(result.structured_content, None);
}

#[test]
fn sampling_content_is_one_block_or_many() {
    let one = json!({"role": "user", "content": {"type": "text", "text": "a"}});
    assert_eq!(round_trip::<SamplingMessage>(&one), one);
    let many = json!({"role": "user", "content": [
        {"type": "tool_result", "toolUseId": "1", "content": [{"type": "text", "text": "a"}]},
        {"type": "tool_use", "id": "2", "name": "t", "input": {}},
    ]});
    assert_eq!(round_trip::<SamplingMessage>(&many), many);
    let text = r#"{"content":{"text":"hi","type":"text"},"model":"m","role":"robot","stopReason":"tired"}"#;
    let result: CreateMessageResult = serde_json::from_str(text).unwrap();
    assert_eq!((result.text().as_str(), result.role), ("hi", Role::Other("robot".into())));
}

#[test]
fn forms_keep_every_kind_of_field_in_order() {
    let form = r#"{"message":"m","requestedSchema":{"type":"object","properties":{"z":{"type":"string","minLength":1,"maxLength":2,"format":"email","default":"d"},"a":{"type":"integer","minimum":1,"maximum":9007199254740993,"default":2},"n":{"type":"number","minimum":0.5},"b":{"type":"boolean","title":"T","description":"D","default":true},"e":{"type":"string","enum":["x","y"],"enumNames":["X","Y"]},"o":{"type":"string","oneOf":[{"const":"x","title":"X"}],"default":"x"},"u":{"type":"string","enum":["x"]},"m":{"type":"array","items":{"type":"string","enum":["x"]},"minItems":1,"maxItems":2,"default":["x"]},"t":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]}},"w":{"type":"object"}},"required":["z"]}}"#;
    let params: ElicitParams = serde_json::from_str(form).unwrap();
    assert_eq!(serde_json::to_string(&params).unwrap(), form);
    let ElicitParams::Form(form) = params else { panic!("a form") };
    assert!(matches!(form.requested_schema.properties.get("w"), Some(PrimitiveSchemaDefinition::Unknown(_))));
}

/// covers: ELIC-15
#[test]
fn elicitation_is_told_apart_by_mode() {
    let plain = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let form: ElicitParams = serde_json::from_value(plain).unwrap();
    assert!(matches!(form, ElicitParams::Form(_)));
    let url = json!({"mode": "url", "message": "m", "url": "https://a/"});
    assert_eq!(round_trip::<ElicitParams>(&url), url);
    let form = json!({"mode": "form", "message": "m"});
    assert!(serde_json::from_value::<ElicitParams>(form).is_err());
    assert!(serde_json::from_value::<ElicitParams>(json!({"mode": "smoke", "message": "m"})).is_err());
}

#[test]
fn resource_contents_are_text_or_bytes_and_never_both() {
    let text = json!({"uri": "a:b", "mimeType": "text/plain", "text": "t", "_meta": {"k": 1}});
    assert_eq!(round_trip::<ResourceContents>(&text), text);
    let blob = json!({"uri": "a:b", "blob": "AA==", "text": null});
    assert_eq!(round_trip::<ResourceContents>(&blob), json!({"uri": "a:b", "blob": "AA=="}));
    assert!(serde_json::from_value::<ResourceContents>(json!({"uri": "a:b"})).is_err());
    assert!(
        serde_json::from_value::<ResourceContents>(json!({"uri": "a:b", "text": "", "blob": ""})).is_err()
    );
}
