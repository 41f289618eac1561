//! Answers, cut anywhere.

use std::fmt::Write as _;
use std::sync::Arc;

use hospes_model::{CreateMessageParams, RawJson, SamplingMessage, StopReason, Tool};
use proptest::prelude::*;
use serde_json::json;

use super::super::IntoDraft;
use super::*;
use crate::answer_draft::ReadError;
use crate::http::testing::TestFraming;
use crate::{AnswerDelta, ModelAnswer, TokenUsage};

/// Reads `bytes`, which arrive in pieces of these lengths. Returns the answer, and the pieces that were reported
/// meanwhile.
fn read<W: WireFormat>(
    wire: &W,
    kind: &str,
    bytes: &[u8],
    cuts: &[usize],
) -> (Result<ModelAnswer, String>, Vec<String>) {
    let tool = Tool::new("weather.now", RawJson::empty_object());
    let params = CreateMessageParams::new(vec![SamplingMessage::user("x")], 9).with_tools(vec![tool]);
    let names = Arc::new(wire.compose(&params).unwrap().names);
    let mut reader = wire.reader(&names);
    let mut heard = Vec::new();
    let mut framing = TestFraming::of(kind, W::STYLE);
    let outcome = (|| {
        let (mut rest, mut cuts) = (bytes, cuts.iter().copied().cycle());
        let mut listen = |delta: AnswerDelta<'_>| heard.push(format!("{delta:?}"));
        while !rest.is_empty() && !reader.is_over() {
            let (chunk, left) = rest.split_at(cuts.next().unwrap_or(usize::MAX).clamp(1, rest.len()));
            rest = left;
            framing.feed(chunk, &mut |json| reader.read(json, &mut listen))?;
        }
        framing.finish(&mut |json| reader.read(json, &mut listen))?;
        if !reader.is_whole() {
            return Err("cut".to_owned());
        }
        Ok(())
    })();
    let finish = |error: ReadError| format!("{error:?}");
    (outcome.and_then(|()| reader.into_draft().finish("asked", &names, &[]).map_err(finish)), heard)
}

/// The answer, which must be the same however the bytes are cut; what is heard too, but for texts in other pieces.
fn whole<W: WireFormat>(wire: &W, kind: &str, text: &str) -> ModelAnswer {
    let (answer, heard) = read(wire, kind, text.as_bytes(), &[usize::MAX]);
    let answer = answer.unwrap_or_else(|error| panic!("{error} of {text}"));
    for cut in 1..text.len().min(90) {
        let again = read(wire, kind, text.as_bytes(), &[cut]);
        assert_eq!((again.0.as_ref(), &again.1), (Ok(&answer), &heard), "cut {cut} of {text}");
    }
    answer
}

const EVENTS: &str = "text/event-stream; charset=utf-8";

fn events(data: &[&str]) -> String {
    data.iter().fold(String::new(), |mut text, data| {
        let _ = write!(text, "data: {data}\n\n");
        text
    })
}

#[test]
fn openai_chunks_with_all_that_is_seen_in_the_wild() {
    let text = events(&[
        // Azure begins so.
        r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0}],"model":""}"#,
        r#"{"id":"1","object":"chat.completion.chunk","model":"gpt-x-2026","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"Hmm"},"finish_reason":""}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Grüß "},"finish_reason":null},{"index":1,"delta":{"content":"another answer"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"Gott 🌧"}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"weather_now","arguments":""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"ci"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","function":{"name":"other"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"ty\":\"Ulm\"}"}},{"index":1,"id":"","function":{"name":"other","arguments":"{}"}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"completion_tokens_details":{}}}"#,
        "[DONE]",
    ]);
    let text = format!(": a comment\n\n{text}");
    for text in [text.clone(), text.replace('\n', "\r\n"), text.replace("data: ", "data:")] {
        let answer = whole(openai(), EVENTS, &text);
        assert_eq!(answer.result.text(), "Grüß Gott 🌧");
        let uses: Vec<_> = answer
            .result
            .tool_uses()
            .map(|one| (one.id.as_str(), one.name.as_str(), one.input.as_str()))
            .collect();
        assert_eq!(uses, [("call_a", "weather.now", r#"{"city":"Ulm"}"#), ("call_b", "other", "{}")]);
        assert_eq!(answer.result.stop_reason, Some(StopReason::ToolUse));
        assert_eq!(
            (answer.result.model.as_str(), answer.usage),
            ("gpt-x-2026", Some(TokenUsage::new(11, 7)))
        );
    }
    let (_, heard) = read(openai(), EVENTS, text.as_bytes(), &[usize::MAX]);
    let wanted =
        ["Thinking", "Text(\"Grüß \")", "Text(\"Gott 🌧\")", "ToolUse(\"weather.now\")", "ToolUse(\"other\")"];
    assert_eq!(heard, wanted);
}

#[test]
fn openai_calls_without_an_index_or_all_with_the_same() {
    for index in ["", r#""index":0,"#] {
        let call = |id: &str, city: &str| {
            format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{{index}"id":"{id}","function":{{"name":"weather_now","arguments":"{{\"city\":\"{city}\"}}"}}}}]}}}}]}}"#
            )
        };
        let text = events(&[
            &call("a", "Ulm"),
            &call("b", "Bonn"),
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        ]);
        let answer = whole(openai(), EVENTS, &text);
        let uses: Vec<_> = answer.result.tool_uses().map(|one| one.input.to_string()).collect();
        assert_eq!(uses, [r#"{"city":"Ulm"}"#, r#"{"city":"Bonn"}"#]);
        assert_eq!(answer.result.stop_reason, Some(StopReason::ToolUse), "some say \"stop\" there");
        assert_eq!(answer.result.model, "asked", "where none is given");
    }
}

#[test]
fn openai_whole_completions_and_arguments_that_are_an_object() {
    let text = r#"{
        "object": "chat.completion", "model": "m2",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": null,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "weather_now", "arguments": {"city": "Ulm"}}}]},
            "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4}
    }"#;
    let answer = whole(openai(), "application/json", text);
    let uses: Vec<_> = answer.result.tool_uses().map(|one| one.input.to_string()).collect();
    assert_eq!((uses, answer.usage), (vec![r#"{"city":"Ulm"}"#.to_owned()], Some(TokenUsage::new(3, 4))));
}

/// covers: SAMP-08
#[test]
fn stop_reasons_are_the_specifications_or_as_given() {
    let openai_says = |reason: &str| {
        let last = format!(r#"{{"choices":[{{"delta":{{"content":"x"}},{reason}}}]}}"#);
        whole(openai(), EVENTS, &events(&[&last, "[DONE]"])).result.stop_reason
    };
    let other = |reason: &str| Some(StopReason::Other(reason.into()));
    for (said, wanted) in [
        (r#""finish_reason":"stop""#, Some(StopReason::EndTurn)),
        (r#""finish_reason":"stop","stop_reason":"END""#, Some(StopReason::StopSequence)),
        (r#""finish_reason":"stop","stop_reason":128001"#, Some(StopReason::EndTurn)),
        (r#""finish_reason":"length""#, Some(StopReason::MaxTokens)),
        (r#""finish_reason":"content_filter""#, other("content_filter")),
        (r#""finish_reason":null"#, None),
    ] {
        assert_eq!(openai_says(said), wanted, "{said}");
    }
    for (said, wanted) in [
        ("end_turn", Some(StopReason::EndTurn)),
        ("stop_sequence", Some(StopReason::StopSequence)),
        ("max_tokens", Some(StopReason::MaxTokens)),
        ("tool_use", Some(StopReason::ToolUse)),
        ("refusal", other("refusal")),
    ] {
        let text = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{said}"}}}}"#);
        let text = events(&[&text, r#"{"type":"message_stop"}"#]);
        assert_eq!(whole(anthropic(), EVENTS, &text).result.stop_reason, wanted, "{said}");
    }
    for (said, wanted) in [
        ("STOP", Some(StopReason::EndTurn)),
        ("MAX_TOKENS", Some(StopReason::MaxTokens)),
        ("SAFETY", other("SAFETY")),
    ] {
        let text = events(&[&format!(r#"{{"candidates":[{{"finishReason":"{said}"}}]}}"#)]);
        assert_eq!(whole(gemini(), EVENTS, &text).result.stop_reason, wanted, "{said}");
    }
    for (said, wanted) in [
        (r#","done_reason":"stop""#, Some(StopReason::EndTurn)),
        (r#","done_reason":"length""#, Some(StopReason::MaxTokens)),
        (r#","done_reason":"load""#, other("load")),
        ("", None),
    ] {
        let text = format!("{{\"message\":{{\"content\":\"x\"}},\"done\":true{said}}}\n");
        assert_eq!(whole(ollama(), "application/x-ndjson", &text).result.stop_reason, wanted, "{said}");
    }
}

const ANTHROPIC: [&str; 16] = [
    r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-x","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hmm"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Zm9v"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Let me "}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"see."}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"weather_now","input":{}}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" \"Ulm\"}"}}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":42}}"#,
    r#"{"type":"message_stop"}"#,
];

fn named_events(data: &[&str]) -> String {
    data.iter().fold(String::new(), |mut text, data| {
        let kind =
            serde_json::from_str::<serde_json::Value>(data).unwrap()["type"].as_str().unwrap().to_owned();
        let _ = write!(text, "event: {kind}\ndata: {data}\n\n");
        text
    })
}

#[test]
fn anthropic_events() {
    let text = named_events(&ANTHROPIC);
    let streamed = whole(anthropic(), EVENTS, &text);
    assert_eq!(streamed.result.text(), "Let me see.");
    let uses: Vec<_> = streamed
        .result
        .tool_uses()
        .map(|one| (one.id.as_str(), one.name.as_str(), one.input.as_str()))
        .collect();
    assert_eq!(uses, [("toolu_1", "weather.now", r#"{"city": "Ulm"}"#)]);
    assert_eq!(streamed.result.stop_reason, Some(StopReason::ToolUse));
    assert_eq!(streamed.usage, Some(TokenUsage::new(115, 42)), "what came out of a cache counts");

    let text = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-x",
        "content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"toolu_1","name":"weather_now","input":{"city":"Ulm"}}],
        "stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":115,"output_tokens":42}}"#;
    let mut at_once = whole(anthropic(), "application/json", text);
    assert_eq!(at_once.result.tool_uses().next().unwrap().input.as_str(), r#"{"city":"Ulm"}"#);
    at_once.result.content.clone_from(&streamed.result.content);
    assert_eq!(at_once, streamed);
}

#[test]
fn anthropic_counts_are_totals_however_often_they_come() {
    let start =
        r#"{"type":"message_start","message":{"content":[],"usage":{"input_tokens":10,"output_tokens":3}}}"#;
    let delta =
        |usage: &str| format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}}{usage}}}"#);
    for (more, wanted) in [
        ("", TokenUsage::new(10, 3)),
        (r#","usage":{"input_tokens":12}"#, TokenUsage::new(12, 3)),
        (r#","usage":{"output_tokens":9,"cache_read_input_tokens":5}"#, TokenUsage::new(15, 9)),
    ] {
        let text = named_events(&[start, &delta(more), r#"{"type":"message_stop"}"#]);
        assert_eq!(whole(anthropic(), EVENTS, &text).usage, Some(wanted), "{more}");
    }
}

#[test]
fn gemini_parts_streamed_or_as_an_array() {
    let parts = [
        r#"{"candidates":[{"content":{"parts":[{"text":"I think","thought":true}],"role":"model"}}],"usageMetadata":{"promptTokenCount":8},"modelVersion":"gemini-x-001"}"#,
        r#"{"candidates":[{"content":{"parts":[{"text":"Let "},{"text":"me see."}],"role":"model"},"index":0}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"weather_now","args":{"city":"Ulm"}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"weather_now"}}]}}]}"#,
        r#"{"candidates":[{"content":{"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":8,"candidatesTokenCount":6,"thoughtsTokenCount":20,"totalTokenCount":34}}"#,
    ];
    let array = format!("[{}]", parts.join("\n,\n"));
    for (kind, text) in [(EVENTS, events(&parts)), ("application/json; charset=UTF-8", array)] {
        let answer = whole(gemini(), kind, &text);
        assert_eq!(answer.result.text(), "Let me see.");
        let uses: Vec<_> = answer.result.tool_uses().collect();
        // It gives no ids, and results refer to some.
        assert_eq!((uses[0].id.as_str(), uses[1].id.as_str()), ("call_1", "call_2"));
        assert_eq!((uses[0].input.as_str(), uses[1].input.as_str()), (r#"{"city":"Ulm"}"#, "{}"));
        let signature: Option<String> = uses[0].meta.read("geminiThoughtSignature");
        assert_eq!((signature.as_deref(), uses[1].meta.is_empty()), (Some("c2ln"), true));
        assert_eq!(answer.result.stop_reason, Some(StopReason::ToolUse));
        assert_eq!(
            (answer.result.model.as_str(), answer.usage),
            ("gemini-x-001", Some(TokenUsage::new(8, 26)))
        );
    }
}

#[test]
fn ollama_lines() {
    let text = concat!(
        r#"{"model":"llama","created_at":"2026","message":{"role":"assistant","content":"","thinking":"Hmm"},"done":false}"#,
        "\n",
        r#"{"model":"llama","message":{"role":"assistant","content":"Let me "},"done":false}"#,
        "\r\n\n",
        r#"{"model":"llama","message":{"role":"assistant","content":"see.","tool_calls":[{"function":{"index":0,"name":"weather_now","arguments":{"city":"Ulm"}}},{"id":"call_x","function":{"name":"weather_now","arguments":{}}}]},"done":false}"#,
        "\n",
        r#"{"model":"llama","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"prompt_eval_count":26,"eval_count":9}"#,
    );
    for kind in ["application/x-ndjson", "", "application/json"] {
        let answer = whole(ollama(), kind, text);
        assert_eq!(answer.result.text(), "Let me see.");
        let uses: Vec<_> =
            answer.result.tool_uses().map(|one| (one.id.as_str(), one.input.as_str())).collect();
        assert_eq!(uses, [("call_1", r#"{"city":"Ulm"}"#), ("call_x", "{}")]);
        assert_eq!(answer.result.stop_reason, Some(StopReason::ToolUse));
        assert_eq!(answer.usage, Some(TokenUsage::new(26, 9)));
    }
}

#[test]
fn errors_in_an_answer_are_the_providers_own_words() {
    for (outcome, wanted) in [
        (
            read(
                openai(),
                EVENTS,
                events(&[r#"{"error":{"message":"out of memory","code":500}}"#]).as_bytes(),
                &[7],
            )
            .0,
            "Reported(\"out of memory\")",
        ),
        (
            read(openai(), EVENTS, events(&[r#"{"object":"error","message":"too long"}"#]).as_bytes(), &[7])
                .0,
            "Reported(\"too long\")",
        ),
        (
            read(
                anthropic(),
                EVENTS,
                named_events(&[
                    ANTHROPIC[0],
                    r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                ])
                .as_bytes(),
                &[9],
            )
            .0,
            "Reported(\"Overloaded\")",
        ),
        (
            read(
                gemini(),
                EVENTS,
                events(&[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#]).as_bytes(),
                &[3],
            )
            .0,
            "Blocked(\"SAFETY\")",
        ),
        (
            read(ollama(), "", b"{\"error\":\"model not found\"}\n{\"done\":true}", &[3]).0,
            "Reported(\"model not found\")",
        ),
    ] {
        assert!(outcome.as_ref().is_err_and(|error| error.contains(wanted)), "{outcome:?} is not {wanted}");
    }
}

#[test]
fn half_a_tool_use_is_none() {
    let call = r#"{"choices":[{"delta":{"content":"Hm","tool_calls":[{"index":0,"id":"a","function":{"name":"weather_now","arguments":"{\"ci"}}]}}]}"#;
    let end = |reason: &str| format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
    let answer = whole(openai(), EVENTS, &events(&[call, &end("length")]));
    assert_eq!(answer.result.content, ["Hm".into()]);
    assert_eq!(answer.result.stop_reason, Some(StopReason::MaxTokens));
    let (outcome, _) = read(openai(), EVENTS, events(&[call, &end("tool_calls")]).as_bytes(), &[9]);
    assert!(outcome.is_err_and(|error| {
        error.contains("the arguments for the tool \\\"weather.now\\\" are not a JSON object")
    }));
}

#[test]
fn an_answer_of_nothing_is_one_empty_text() {
    let answer = whole(openai(), EVENTS, &events(&[r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#]));
    assert_eq!(answer.result.content, ["".into()]);
}

#[test]
fn an_answer_that_is_cut_is_not_whole() {
    let text = named_events(&ANTHROPIC);
    let end = text.find("event: message_delta").unwrap();
    for at in (1..end + 20).step_by(7) {
        let (outcome, _) = read(anthropic(), EVENTS, &text.as_bytes()[..at], &[64]);
        assert_eq!(outcome.unwrap_err(), "cut", "at {at}");
    }
    // A last event without its blank line counts.
    let text = r#"data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    assert_eq!(whole(openai(), EVENTS, text).result.text(), "x");
}

proptest! {
    /// Checks that no input causes a panic however the bytes arrive, and that an answer reads the same wherever it is
    /// cut.
    #[test]
    fn any_cut_gives_the_same(cuts in proptest::collection::vec(1_usize..40, 1..20), noise in any::<Vec<u8>>()) {
        let text = named_events(&ANTHROPIC);
        let whole = read(anthropic(), EVENTS, text.as_bytes(), &[usize::MAX]);
        prop_assert_eq!(read(anthropic(), EVENTS, text.as_bytes(), &cuts), whole);
        let framed = format!("data: {}\n\n", String::from_utf8_lossy(&noise));
        for kind in [EVENTS, "application/json", "application/x-ndjson"] {
            for bytes in [noise.as_slice(), framed.as_bytes()] {
                let _any = read(openai(), kind, bytes, &cuts);
                let _any = read(anthropic(), kind, bytes, &cuts);
                let _any = read(gemini(), kind, bytes, &cuts);
                let _any = read(ollama(), kind, bytes, &cuts);
            }
        }
    }

    /// Arguments of tools come back as they were, wherever the provider cuts them.
    #[test]
    fn arguments_survive_any_pieces(words in proptest::collection::vec("\\PC{0,12}", 1..6), pieces in proptest::collection::vec(1_usize..9, 1..9)) {
        let arguments = json!({ "words": words }).to_string();
        let (mut data, mut rest) = (Vec::new(), arguments.chars().collect::<Vec<_>>());
        for piece in pieces.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let piece: String = rest.drain(..(*piece).min(rest.len())).collect();
            let id = if data.is_empty() { "a" } else { "" };
            let call = json!({ "index": 0, "id": id, "function": { "arguments": piece, "name": "weather_now" } });
            data.push(json!({ "choices": [{ "delta": { "tool_calls": [call] } }] }).to_string());
        }
        data.push(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned());
        let data: Vec<&str> = data.iter().map(String::as_str).collect();
        let (answer, _) = read(openai(), EVENTS, events(&data).as_bytes(), &[31]);
        let answer = answer.unwrap();
        let uses: Vec<_> = answer.result.tool_uses().map(|one| one.input.to_string()).collect();
        prop_assert_eq!(uses, [arguments]);
    }
}
