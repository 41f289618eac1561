//! Writes a tool result that consists of text blocks only, without serde. Most results are of this kind and texts may
//! be long, so this is the most frequent work of a server.

use crate::types::*;
use crate::write::write_text;
use crate::{Revision, meta_key};

use super::ServerStamp;

/// Appends `result` if it consists of texts only, exactly as the general encoder would. Otherwise leaves `out`
/// unchanged.
///
/// Such a result is the same in all revisions.
pub(super) fn write_text_result(
    result: &CallToolResult,
    to: Revision,
    stamp: &ServerStamp,
    out: &mut Vec<u8>,
) -> bool {
    const AROUND: usize = 64;
    const AROUND_EACH: usize = 32;

    let CallToolResult { meta, content, structured_content: None, is_error } = result else { return false };
    if !meta.is_empty() {
        return false;
    }
    // Reserves the whole length, because growing would copy long texts again.
    let mut length = AROUND + stamp.server_info.as_ref().map_or(0, |info| info.len());
    for block in content {
        let Some(text) = plain(block) else { return false };
        length += text.len() + AROUND_EACH;
    }
    out.reserve(length);
    if to.is_legacy() {
        out.push(b'{');
    } else {
        out.extend_from_slice(b"{\"resultType\":\"complete\",");
        if let Some(info) = &stamp.server_info {
            debug_assert!(info.starts_with(b"\"") && !meta.contains_key(meta_key::SERVER_INFO));
            out.extend_from_slice(b"\"_meta\":{");
            out.extend_from_slice(info);
            out.extend_from_slice(b"},");
        }
    }
    out.extend_from_slice(b"\"content\":[");
    for (index, text) in content.iter().filter_map(plain).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        write_text(out, text);
        out.push(b'}');
    }
    out.extend_from_slice(match is_error {
        None => b"]}".as_slice(),
        Some(true) => b"],\"isError\":true}",
        Some(false) => b"],\"isError\":false}",
    });
    true
}

fn plain(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(TextContent { text, annotations: None, meta }) if meta.is_empty() => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::encode::general;
    use super::*;
    use crate::{RawJson, Reply};

    proptest! {
        #[test]
        fn written_by_hand_or_by_serde_it_is_the_same(
            texts in proptest::collection::vec("(?s).{0,40}", 0..4),
            is_error in proptest::option::of(any::<bool>()),
            named in any::<bool>(),
        ) {
            let mut result = CallToolResult::new(texts.into_iter().map(ContentBlock::text).collect::<Vec<_>>());
            result.is_error = is_error;
            let info = RawJson::parse(r#"{"name":"n","version":"1"}"#).unwrap();
            let stamp = if named { ServerStamp::new(&info) } else { ServerStamp::anonymous() };
            for to in Revision::ALL {
                let (mut by_hand, mut by_serde) = (Vec::new(), Vec::new());
                prop_assert!(write_text_result(&result, to, &stamp, &mut by_hand));
                general(&result, to, &stamp, &mut by_serde).unwrap();
                prop_assert_eq!(String::from_utf8(by_hand).unwrap(), String::from_utf8(by_serde).unwrap());
            }
        }
    }

    /// Long texts are not copied from one buffer to the next greater one.
    #[test]
    fn memory_is_asked_for_once() {
        let text = "a".repeat(1_000);
        let info = RawJson::parse(r#"{"name":"n","version":"1"}"#).unwrap();
        for stamp in [ServerStamp::anonymous(), ServerStamp::new(&info)] {
            let mut out = Vec::new();
            let result = CallToolResult::new(vec![ContentBlock::text(text.as_str()); 3]);
            assert!(write_text_result(&result, Revision::LATEST, &stamp, &mut out));
            let spare = out.capacity() - out.len();
            assert!(spare < 100, "{spare} bytes too many for {}", out.len());
        }
    }

    #[test]
    fn what_is_not_only_text_is_left_to_serde() {
        let mut annotated = TextContent::new("a");
        annotated.annotations = Some(Box::default());
        let mut meta = TextContent::new("a");
        meta.meta = Meta::new().with("k", &1);
        for result in [
            CallToolResult::new(vec![annotated.into()]),
            CallToolResult::new(vec![meta.into()]),
            CallToolResult::text("a").with_meta(Meta::new().with("k", &1)),
            CallToolResult::text("a").with_structured_content(RawJson::empty_object()),
        ] {
            let mut out = Vec::new();
            assert!(
                !write_text_result(&result, Revision::LATEST, &ServerStamp::anonymous(), &mut out)
                    && out.is_empty()
            );
            let reply = Reply::from(result);
            reply
                .encode(&crate::Method::ToolsCall, Revision::LATEST, &ServerStamp::anonymous(), &mut out)
                .unwrap();
            assert!(!out.is_empty());
        }
    }
}
