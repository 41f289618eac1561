//! Error codes, in each revision.

use serde_json::json;

use super::*;
use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};

/// covers: RES-21 ERR-07
#[test]
fn errors_of_peers_are_read_as_ours() {
    let old = RpcError::new(code::RESOURCE_NOT_FOUND, "gone");
    for from in Revision::ALL {
        assert_eq!(
            decode_error(&Method::ResourcesRead, from, old.clone()).code,
            code::INVALID_PARAMS,
            "{from}"
        );
        // Elsewhere the code means nothing in particular.
        assert_eq!(decode_error(&Method::ToolsCall, from, old.clone()).code, code::RESOURCE_NOT_FOUND);
    }
    let data =
        json!({"elicitations": [{"mode": "url", "message": "m", "url": "https://a/", "elicitationId": "e"}]});
    let url = RpcError::new(code::URL_ELICITATION_REQUIRED, "go").with_data(&data);
    let kept = decode_error(&Method::ToolsCall, V2025_11_25, url.clone());
    assert_eq!(kept.url_elicitations().unwrap()[0].elicitation_id.as_deref(), Some("e"));
    let other = decode_error(&Method::ToolsCall, V2025_06_18, url.clone());
    assert_eq!(other.code, code::INTERNAL_ERROR);
    assert_eq!(other.data.unwrap().decode::<RpcError>().unwrap(), url, "the original is kept");
    let rejected = RpcError::new(code::USER_REJECTED, "no");
    assert_eq!(decode_error(&Method::CreateMessage, V2025_06_18, rejected.clone()), rejected);
    assert_eq!(encode_error(&Method::ToolsCall, V2026_07_28, rejected.clone()), rejected);
    let application = RpcError::new(7, "mine");
    for to in Revision::ALL {
        assert_eq!(encode_error(&Method::ToolsCall, to, application.clone()), application);
    }
    assert_eq!(encode_error(&Method::ToolsCall, V2025_11_25, RpcError::new(-32001, "timeout")).code, -32001);
    // What peers made up before the range was closed says nothing, and is kept as it came.
    for code in -32019..=-32000 {
        let made_up = RpcError::new(code, "made up").with_data(&json!({ "a": 1 }));
        for (method, from) in
            [Method::ToolsCall, Method::ResourcesRead].iter().flat_map(|m| Revision::ALL.map(|r| (m, r)))
        {
            if (method, code) != (&Method::ResourcesRead, code::RESOURCE_NOT_FOUND) {
                assert_eq!(decode_error(method, from, made_up.clone()), made_up, "{method} from {from}");
            }
        }
    }
}

/// Each error has the code that the spoken revision defines for it.
#[test]
fn an_error_of_ours_has_the_code_of_the_revision_spoken() {
    let sent = |method: Method, to, error: &RpcError| encode_error(&method, to, error.clone());
    let missing = RpcError::resource_not_found("notes://none");
    let bad = RpcError::invalid_params("no cursor");
    let version = RpcError::unsupported_version("v9", &Revision::ALL);
    let url = RpcError::new(code::URL_ELICITATION_REQUIRED, "go");
    for to in [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25] {
        let told = sent(Method::ResourcesRead, to, &missing);
        assert_eq!(told, RpcError { code: code::RESOURCE_NOT_FOUND, ..missing.clone() }, "{to}");
        assert_eq!(sent(Method::ResourcesRead, to, &bad), bad, "{to}");
        assert_eq!(sent(Method::ToolsCall, to, &missing), missing, "{to}");
        let told = sent(Method::Initialize, to, &version);
        assert_eq!(told, RpcError { code: code::INVALID_PARAMS, ..version.clone() }, "{to}");
        let told = sent(Method::ToolsCall, to, &version);
        assert_eq!((told.code, &told.message), (code::INTERNAL_ERROR, &version.message), "{to}");
        assert_eq!(told.data.unwrap().decode::<RpcError>().unwrap(), version, "{to}");
        let told = sent(Method::ToolsCall, to, &url);
        assert_eq!(told == url, to == V2025_11_25, "{to}");
    }
    let to = V2026_07_28;
    assert_eq!(sent(Method::ResourcesRead, to, &missing), missing);
    let older = RpcError::new(code::RESOURCE_NOT_FOUND, "none").with_data(&json!({ "uri": "notes://none" }));
    assert_eq!(sent(Method::ToolsCall, to, &older), RpcError { code: code::INVALID_PARAMS, ..older.clone() });
    for kept in [
        code::HEADER_MISMATCH,
        code::MISSING_CLIENT_CAPABILITY,
        code::UNSUPPORTED_VERSION,
        code::PARSE_ERROR,
        code::INVALID_REQUEST,
        code::METHOD_NOT_FOUND,
        code::INVALID_PARAMS,
        code::INTERNAL_ERROR,
    ] {
        let error = RpcError::new(kept, "so it is").with_data(&json!({ "a": 1 }));
        assert_eq!(sent(Method::ToolsCall, to, &error), error);
    }
}

/// A handler cannot send an error code that JSON-RPC or the specification reserves.
///
/// covers: ERR-05 ERR-06 ERR-09
#[test]
fn no_code_of_a_reserved_range_is_sent_but_those_that_are_defined() {
    let defined = [-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022];
    for made_up in -32800..=-31990 {
        let error = RpcError::new(made_up, "made up");
        let sent = encode_error(&Method::ToolsCall, V2026_07_28, error.clone());
        assert!(
            defined.contains(&sent.code) || !(-32768..=-32000).contains(&sent.code),
            "{made_up}: {sent:?}"
        );
        if sent.code != made_up && made_up != code::RESOURCE_NOT_FOUND {
            assert_eq!(sent.code, code::INTERNAL_ERROR);
            assert_eq!(sent.data.unwrap().decode::<RpcError>().unwrap(), error, "nothing is lost");
        }
    }
}
