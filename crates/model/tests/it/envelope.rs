//! The envelope: what is a message, what is not, and to whom the refusal goes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hospes_model::message::{
    JsonRpcResponse, MAX_BATCH, decode, write_error, write_notification, write_request,
};
use hospes_model::{DecodeError, Frame, JsonRpcMessage, Method, RawJson, RequestId, RpcError, code};
use proptest::prelude::*;

fn refused(text: impl AsRef<[u8]>) -> DecodeError {
    let text = text.as_ref();
    match decode(text) {
        Err(error) => error,
        Ok(frame) => panic!("{} was taken as {frame:?}", String::from_utf8_lossy(text)),
    }
}

fn one(text: &str) -> JsonRpcMessage<'_> {
    match decode(text.as_bytes()) {
        Ok(Frame::Single(message)) => message,
        other => panic!("{text} was taken as {other:?}"),
    }
}

/// covers: MSG-01 MSG-06 MSG-10 MSG-12 MSG-19
#[test]
fn messages_are_told_apart_by_their_members() {
    let JsonRpcMessage::Request(request) = one(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#) else {
        panic!("request")
    };
    assert_eq!(
        (request.id, &*request.method, request.params.is_none()),
        (RequestId::Number(1), "ping", true)
    );
    let text = r#" {"params":{"a":[1]},"method":"p\u0069ng","id":"x","jsonrpc":"2.0","odd":[{}]} "#;
    let JsonRpcMessage::Request(request) = one(text) else { panic!("request") };
    assert_eq!((request.id, &*request.method), (RequestId::from("x"), "ping"));
    assert_eq!(request.params.unwrap().get(), r#"{"a":[1]}"#);
    let JsonRpcMessage::Notification(note) = one(r#"{"jsonrpc":"2.0","method":"n","params":{}}"#) else {
        panic!("note")
    };
    assert_eq!(&*note.method, "n");
    let JsonRpcMessage::Response(JsonRpcResponse { id, outcome }) =
        one(r#"{"jsonrpc":"2.0","id":2,"result":{"x":1}}"#)
    else {
        panic!("response")
    };
    assert_eq!((id, outcome.unwrap().get()), (Some(RequestId::Number(2)), r#"{"x":1}"#));
}

/// covers: MSG-14 MSG-15 MSG-17
#[test]
fn an_error_may_have_data_and_may_miss_its_id() {
    for text in [
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m","data":[1]}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":[1]}}"#,
    ] {
        let JsonRpcMessage::Response(JsonRpcResponse { id: None, outcome: Err(error) }) = one(text) else {
            panic!("{text}")
        };
        assert_eq!((error.code, &*error.message), (code::PARSE_ERROR, "m"));
        assert_eq!(error.data.unwrap().as_str(), "[1]");
    }
    for error in
        ["{}", "5", r#"{"code":"x","message":"m"}"#, r#"{"code":1.5,"message":"m"}"#, r#"{"code":1}"#]
    {
        let refusal = refused(format!(r#"{{"jsonrpc":"2.0","id":3,"error":{error}}}"#));
        assert_eq!(
            (refusal.error.code, refusal.answers),
            (code::INVALID_REQUEST, Some(RequestId::Number(3))),
            "{error}"
        );
    }
}

/// covers: ERR-01
#[test]
fn text_that_is_not_json_is_a_parse_error() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "nul",
        "\u{feff}{}",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping""#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#,
        r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"pi	ng"}"#,
        r#"{'jsonrpc':'2.0'}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}"#,
        "[",
        "[1,]",
        r#"{"jsonrpc":5,"id":{}, "method":}"#,
    ] {
        let refusal = refused(text);
        assert_eq!((refusal.error.code, refusal.id), (code::PARSE_ERROR, None), "{text}");
    }
}

/// A refusal says what was wanted instead.
#[test]
fn a_refusal_says_what_is_wanted() {
    let why = refused("5").error.message;
    assert!(why.contains("a JSON-RPC message, which is an object"), "{why}");
    let why = serde_json::from_str::<RequestId>("true").unwrap_err().to_string();
    assert!(why.contains("a string or an integer"), "{why}");
    assert_eq!(
        (RequestId::from(-7).to_string(), RequestId::from("x").to_string()),
        ("-7".to_owned(), "x".to_owned())
    );
    assert_eq!(Method::ToolsCall.to_string(), "tools/call");
}

/// covers: MSG-21
#[test]
fn bytes_that_are_not_utf8_are_a_parse_error() {
    for bytes in [
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}".as_slice(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"\xc3\x28\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"\xed\xa0\x80\",\"method\":\"m\"}",
        b"\xff\xfe{\x00}\x00",
    ] {
        assert_eq!(refused(bytes).error.code, code::PARSE_ERROR, "{}", String::from_utf8_lossy(bytes));
    }
}

/// The refusal of an answer must not look like the answer to a request of the peer's with the same id.
#[test]
fn what_is_meant_as_an_answer_is_not_answered() {
    let seven = Some(RequestId::Number(7));
    for (text, id, answers) in [
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"m"}}"#, None, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7,"error":"x"}"#, None, seven.clone()),
        (r#"{"id":7,"result":{}}"#, None, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"result":{}}"#, None, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7}"#, seven.clone(), seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","result":{}}"#, seven.clone(), None),
        (r#"{"jsonrpc":"2.0","id":7,"method":5,"result":{}}"#, seven.clone(), None),
    ] {
        let refusal = refused(text);
        assert_eq!(refusal.is_for_response(), id.is_none(), "{text}");
        assert_eq!((refusal.id, refusal.answers), (id, answers), "{text}");
    }
}

/// covers: MSG-07 MSG-12
#[test]
fn json_that_is_no_message_is_an_invalid_request_and_told_to_whom_it_can() {
    let seven = Some(RequestId::Number(7));
    for (text, id) in [
        ("5", None),
        ("null", None),
        ("\"x\"", None),
        ("{}", None),
        (r#"{"id":7,"method":"m"}"#, seven.clone()),
        (r#"{"jsonrpc":"1.0","id":7,"method":"m"}"#, seven.clone()),
        (r#"{"jsonrpc":2.0,"id":7,"method":"m"}"#, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, None),
        (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, None),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"m"}"#, None),
        (r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"m"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1e999,"method":"m"}"#, None),
        (r#"{"jsonrpc":1e999,"id":7,"method":"m"}"#, seven.clone()),
        ("4e1000000001", None),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7,"method":null}"#, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}"#, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","params":"x"}"#, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7}"#, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7,"method":"m","result":{}}"#, seven.clone()),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"m"}}"#, None),
        (r#"{"jsonrpc":"2.0","result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","id":null,"result":{}}"#, None),
    ] {
        let refusal = refused(text);
        assert_eq!((refusal.error.code, refusal.id), (code::INVALID_REQUEST, id), "{text}");
    }
}

#[test]
fn a_member_that_appears_twice_is_refused() {
    for twice in [
        r#""jsonrpc":"2.0""#,
        r#""id":8"#,
        r#""id":null"#,
        r#""method":"other""#,
        r#""params":{"b":1}"#,
        r#""m\u0065thod":"other""#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"a":1}},{twice}}}"#);
        assert_eq!(refused(&text).error.code, code::INVALID_REQUEST, "{text}");
    }
    for twice in [r#""result":{}"#, r#""error":{"code":1,"message":"m"}"#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,{twice},{twice}}}"#);
        assert_eq!(refused(&text).error.code, code::INVALID_REQUEST, "{text}");
    }
}

/// covers: BATCH-01 BATCH-08
#[test]
fn each_part_of_a_batch_is_judged_on_its_own() {
    let text = r#" [{"jsonrpc":"2.0","id":1,"method":"a"}, 5, {"jsonrpc":"2.0","method":"b"},
        {"jsonrpc":"2.0","id":null,"method":"c"}, [], {"jsonrpc":"2.0","id":2,"result":{}}]"#;
    let Ok(Frame::Batch(parts)) = decode(text.as_bytes()) else { panic!("a batch") };
    let kinds: Vec<&str> = parts
        .iter()
        .map(|part| match part {
            Ok(JsonRpcMessage::Request(_)) => "request",
            Ok(JsonRpcMessage::Notification(_)) => "notification",
            Ok(JsonRpcMessage::Response(_)) => "response",
            Err(error) => {
                assert_eq!(error.error.code, code::INVALID_REQUEST);
                "refused"
            }
        })
        .collect();
    assert_eq!(kinds, ["request", "refused", "notification", "refused", "refused", "response"]);
    assert_eq!(refused("[]").error.code, code::INVALID_REQUEST);
    let full = |count: usize| format!("[{}]", vec![r#"{"jsonrpc":"2.0","method":"m"}"#; count].join(","));
    assert!(decode(full(MAX_BATCH).as_bytes()).is_ok());
    assert_eq!(refused(full(MAX_BATCH + 1)).error.code, code::INVALID_REQUEST);
}

#[test]
fn depth_breaks_nothing() {
    const DEPTH: usize = 100_000;
    let arrays = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let objects = format!("{}1{}", "{\"a\":".repeat(DEPTH), "}".repeat(DEPTH));
    for deep in [&arrays, &objects] {
        // Nobody here reads params, results and unknown members, however deep they are.
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"x":{deep}}},"odd":{deep}}}"#);
        assert!(matches!(one(&request), JsonRpcMessage::Request(_)));
        let response = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#);
        let JsonRpcMessage::Response(JsonRpcResponse { outcome: Ok(result), .. }) = one(&response) else {
            panic!("response")
        };
        let result = RawJson::from(result);
        assert!(result.to_value().is_err(), "whoever reads it is told, and lives");
        // What is read here is refused.
        for text in [
            deep.clone(),
            format!(r#"{{"jsonrpc":"2.0","id":{deep},"method":"m"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":{deep}}}"#),
            format!(r#"{{"jsonrpc":{deep},"id":1,"method":"m"}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{deep}}}"#),
        ] {
            match decode(text.as_bytes()) {
                Err(error) => assert_eq!(error.error.code, code::INVALID_REQUEST),
                Ok(Frame::Batch(parts)) => assert!(parts.iter().all(Result::is_err)),
                Ok(Frame::Single(message)) => panic!("taken as {message:?}"),
            }
        }
    }
    assert_eq!(refused("[".repeat(DEPTH)).error.code, code::PARSE_ERROR);
}

/// covers: MSG-06 MSG-11 MSG-19
#[test]
fn what_is_written_is_read_as_the_same() {
    let params = RawJson::parse(r#"{"a":1}"#).unwrap();
    for id in
        [RequestId::Number(i64::MIN), RequestId::Number(0), RequestId::from(""), RequestId::from("a\"\n\\é")]
    {
        let mut out = Vec::new();
        write_request(&mut out, &id, "m/é\"", Some(&params)).unwrap();
        let Ok(Frame::Single(JsonRpcMessage::Request(request))) = decode(&out) else { panic!("{out:?}") };
        assert_eq!(
            (request.id, &*request.method, request.params.unwrap().get()),
            (id.clone(), "m/é\"", "{\"a\":1}")
        );
        let mut out = Vec::new();
        let error = RpcError::internal("no").with_data("why");
        write_error(&mut out, Some(&id), &error);
        let Ok(Frame::Single(JsonRpcMessage::Response(response))) = decode(&out) else { panic!("{out:?}") };
        assert_eq!((response.id, response.outcome.unwrap_err()), (Some(id), error));
    }
    let mut out = Vec::new();
    write_notification::<RawJson>(&mut out, "n", None).unwrap();
    assert_eq!(out, br#"{"jsonrpc":"2.0","method":"n"}"#);
    let mut out = Vec::new();
    write_error(&mut out, None, &RpcError::parse("no"));
    assert_eq!(out, br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn no_broken_message_makes_it_panic(cut in 0..120_usize, at in 0..120_usize, byte in any::<u8>()) {
        let text = r#"[{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a","arguments":{"b":[1,"\u00e9"]}}}]"#;
        let mut bytes = text.as_bytes()[..cut.min(text.len())].to_vec();
        if let Some(old) = bytes.get_mut(at) {
            *old = byte;
        }
        let _ = decode(&bytes);
    }
}
