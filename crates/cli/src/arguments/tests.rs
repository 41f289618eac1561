use serde_json::json;

use super::*;

fn read(name: &str) -> io::Result<String> {
    match name {
        "text" => Ok("from a file\n".to_owned()),
        "five" => Ok("5\r\n".to_owned()),
        "json" => Ok("{\"n\": 1}".to_owned()),
        "-" => Ok("from stdin".to_owned()),
        _ => Err(io::Error::new(io::ErrorKind::NotFound, "no such file")),
    }
}

fn try_with(schema: &Value, json: Option<&str>, words: &[&str]) -> Result<Value, ToolArgumentsError> {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    arguments("tool", schema, ArgumentSource { json, words: &words }, &read).map(Value::Object)
}

fn good(schema: &Value, words: &[&str]) -> Value {
    try_with(schema, None, words).unwrap_or_else(|error| panic!("{error}"))
}

fn bad(schema: &Value, words: &[&str]) -> Vec<String> {
    match try_with(schema, None, words) {
        Ok(value) => panic!("accepted: {value}"),
        Err(error) => error.problems.iter().map(ToString::to_string).collect(),
    }
}

/// A schema with one optional argument `x`.
#[expect(clippy::needless_pass_by_value, reason = "so that a test can say `one(json!(…))`")]
fn one(x: Value) -> Value {
    json!({"type": "object", "properties": {"x": x}})
}

/// The defect of the Inspector's command line: `a=x` against an integer was sent as `null`.
#[test]
fn text_that_is_no_integer_is_refused_and_never_becomes_null() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "number"}},
        "required": ["a"]});
    let error = try_with(&schema, None, &["a=x", "b="]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid arguments for `tool`:\n  \
           a: expected integer, got \"x\"\n  \
           b: expected number, got \"\"\n\
         signature: tool(a: integer, b?: number)"
    );
}

#[test]
fn text_becomes_what_the_schema_wants() {
    for (schema, text, expected) in [
        (json!({"type": "string"}), "5", json!("5")),
        (json!({"type": "string"}), "", json!("")),
        (json!({"type": "string"}), "a=b:=c", json!("a=b:=c")),
        (json!({"type": "integer"}), "-5", json!(-5)),
        (json!({"type": "integer"}), " 7 ", json!(7)),
        (json!({"type": "integer"}), "3.0", json!(3)),
        (json!({"type": "integer"}), "1e3", json!(1000)),
        (json!({"type": "integer"}), "18446744073709551615", json!(u64::MAX)),
        (json!({"type": "number"}), "2.5", json!(2.5)),
        (json!({"type": "number"}), "2", json!(2)),
        (json!({"type": "boolean"}), "true", json!(true)),
        (json!({"type": "boolean"}), "False", json!(false)),
        (json!({"type": "null"}), "null", json!(null)),
        (json!({"type": "array", "items": {"type": "integer"}}), "[1, 2]", json!([1, 2])),
        (json!({"type": "array", "items": {"type": "integer"}}), "1", json!([1])),
        (json!({"type": "array", "items": {"type": "string"}}), "[a", json!(["[a"])),
        (json!({"items": {"type": "integer"}}), "1", json!([1])),
        (json!({"type": "object"}), "{\"a\": [1]}", json!({"a": [1]})),
        (json!({"properties": {"a": {}}}), "{\"a\": 1}", json!({"a": 1})),
        (json!({"enum": ["x", "y"]}), "y", json!("y")),
        (json!({"enum": [1, 2.5, true, null]}), "2.5", json!(2.5)),
        (json!({"enum": [1, 2.5, true, null]}), "null", json!(null)),
        (json!({"const": 7}), "7", json!(7)),
        (json!({"type": "string", "enum": ["1"]}), "1", json!("1")),
        (json!({"type": ["integer", "null"]}), "5", json!(5)),
        (json!({"type": ["integer", "null"]}), "null", json!(null)),
        (json!({"type": ["string", "integer"]}), "5", json!(5)),
        (json!({"type": ["string", "integer"]}), "5x", json!("5x")),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "null", json!(null)),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "", json!("")),
        (json!({"oneOf": [{"type": "boolean"}, {"enum": ["auto"]}]}), "auto", json!("auto")),
        (
            json!({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "integer"}]}),
            "5",
            json!(5),
        ),
        (json!({"allOf": [{"description": "x"}, {"type": "integer"}]}), "5", json!(5)),
        (
            json!({"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}),
            "{\"a\": 1}",
            json!({"a": 1}),
        ),
        (json!({}), "5", json!("5")),
        (json!(true), "5", json!("5")),
        (
            json!({"type": "string", "description": "as schemars writes it", "nullable": true}),
            "x",
            json!("x"),
        ),
    ] {
        assert_eq!(
            good(&one(schema.clone()), &[&format!("x={text}")]),
            json!({"x": expected}),
            "{schema} {text}"
        );
    }
}

#[test]
fn text_that_does_not_fit_is_refused_with_type_and_value() {
    for (schema, text, expected) in [
        (json!({"type": "integer"}), "2.5", "x: expected integer, got \"2.5\""),
        (
            json!({"type": "integer"}),
            "99999999999999999999",
            "x: expected integer, got \"99999999999999999999\"",
        ),
        (json!({"type": "integer"}), "null", "x: expected integer, got \"null\""),
        (json!({"type": "number"}), "inf", "x: expected number, got \"inf\""),
        (json!({"type": "number"}), "1e999", "x: expected number, got \"1e999\""),
        (json!({"type": "number"}), "nan", "x: expected number, got \"nan\""),
        (json!({"type": "integer"}), "inf", "x: expected integer, got \"inf\""),
        (json!({"type": "integer"}), "nan", "x: expected integer, got \"nan\""),
        (json!({"type": "boolean"}), "yes", "x: expected boolean, got \"yes\""),
        (json!({"type": "object"}), "a", "x: expected object, got \"a\""),
        (json!({"type": "object"}), "{a", "x: not valid JSON: key must be a string at line 1 column 2"),
        (
            json!({"enum": ["red", "green"]}),
            "gren",
            "x: expected \"red\" | \"green\", got \"gren\"; did you mean \"green\"?",
        ),
        (json!({"type": ["integer", "null"]}), "x", "x: expected integer | null, got \"x\""),
        (
            json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}),
            "x",
            "x: expected integer | boolean, got \"x\"",
        ),
        (json!({"type": "array", "items": {"type": "integer"}}), "a", "x[0]: expected integer, got \"a\""),
        (
            json!({"type": "array", "items": {"type": "integer"}}),
            "[1, \"a\"]",
            "x[1]: expected integer, got \"a\"",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"enum": [1]}}}}),
            "{\"a\": [1, 2]}",
            "x.a[1]: expected 1, got 2",
        ),
    ] {
        assert_eq!(bad(&one(schema.clone()), &[&format!("x={text}")]), [expected], "{schema} {text}");
    }
}

#[test]
fn json_is_taken_as_it_is_and_checked() {
    let schema = one(json!({"type": "integer"}));
    assert_eq!(good(&schema, &["x:=5"]), json!({"x": 5}));
    assert_eq!(good(&schema, &["x:=5.0"]), json!({"x": 5.0}));
    assert_eq!(bad(&schema, &["x:=\"5\""]), ["x: expected integer, got \"5\""]);
    assert_eq!(bad(&schema, &["x:=null"]), ["x: expected integer, got null"]);
    assert_eq!(bad(&schema, &["x:=5,"]), ["x: not valid JSON: trailing characters at line 1 column 2"]);
    assert_eq!(good(&one(json!({"type": ["string", "integer"]})), &["x:=\"5\""]), json!({"x": "5"}));
    assert_eq!(good(&one(json!({"enum": [1]})), &["x:=1.0"]), json!({"x": 1.0}));
}

#[test]
fn files_stand_in_for_values() {
    let schema =
        json!({"properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"}}});
    assert_eq!(
        good(&schema, &["s=@text", "n=@five", "o:=@json"]),
        json!({"s": "from a file", "n": 5, "o": {"n": 1}})
    );
    assert_eq!(good(&schema, &["s=@-"]), json!({"s": "from stdin"}));
    assert_eq!(good(&schema, &["s=@@me"]), json!({"s": "@me"}));
    assert_eq!(
        bad(&schema, &["s=@me"]),
        ["s: cannot read me: no such file; for text that begins with `@` write `@@`"]
    );
    assert_eq!(bad(&schema, &["n=@text"]), ["n: expected integer, got \"from a file\""]);
}

#[test]
fn a_whole_object_can_come_first_and_be_overridden() {
    let schema =
        json!({"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]});
    assert_eq!(try_with(&schema, Some("{\"a\": 1, \"b\": 2}"), &["b=3"]).unwrap(), json!({"a": 1, "b": 3}));
    assert_eq!(
        try_with(&one(json!({})), Some("@json"), &[]).unwrap(),
        json!({"n": 1}),
        "unknown names are let through"
    );
    for (text, expected) in [
        ("[1]", "--input-json: expected a JSON object, got [1]"),
        ("{", "--input-json: not valid JSON: EOF while parsing an object at line 1 column 1"),
        ("@none", "--input-json: cannot read none: no such file"),
        ("{\"a\": \"x\"}", "a: expected integer, got \"x\""),
        ("{\"b\": 1}", "a: missing, expected integer"),
    ] {
        let error = try_with(&schema, Some(text), &[]).unwrap_err();
        assert_eq!(error.problems.first().map(ToString::to_string).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn repeated_names_make_an_array() {
    let tags = one(json!({"type": "array", "items": {"type": "string"}}));
    assert_eq!(good(&tags, &["x=a", "x=[b]", "x="]), json!({"x": ["a", "[b]", ""]}));
    let numbers = one(json!({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}));
    assert_eq!(good(&numbers, &["x=1", "x:=2"]), json!({"x": [1, 2]}));
    assert_eq!(bad(&numbers, &["x=1", "x=b"]), ["x[1]: expected integer, got \"b\""]);
    let pair = one(json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]}));
    assert_eq!(good(&pair, &["x=1", "x=true"]), json!({"x": [1, true]}));
    assert_eq!(
        bad(&one(json!({"type": "integer"})), &["x=1", "x=2"]),
        ["x: given 2 times, expected one integer"]
    );
}

#[test]
fn members_of_objects_can_be_given_alone() {
    let schema = json!({"properties": {
        "f": {"type": "object", "properties": {
            "n": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "object", "properties": {"b": {"type": "boolean"}}}
        }, "required": ["n"]},
        "a.b": {"type": "integer"}, "a": {"type": "object"}
    }});
    assert_eq!(
        good(&schema, &["f.n=1", "f.tags=x", "f.tags=y", "f.deep.b=true", "a.b=2"]),
        json!({"f": {"n": 1, "tags": ["x", "y"], "deep": {"b": true}}, "a.b": 2})
    );
    assert_eq!(good(&schema, &["f={\"n\": 1}", "f.n=2"]), json!({"f": {"n": 2}}));
    assert_eq!(bad(&schema, &["f.n=x"]), ["f.n: expected integer, got \"x\""]);
    assert_eq!(bad(&schema, &["f.tgas=1"])[0], "f.tgas: unknown argument; did you mean `tags`?");
    assert_eq!(bad(&schema, &["f.deep.b=true"]), ["f.n: missing, expected integer"]);
}

#[test]
fn missing_and_unknown_arguments_are_all_listed() {
    let schema = json!({"type": "object", "required": ["path", "mode"], "properties": {
        "path": {"type": "string"}, "mode": {"enum": ["r", "w"]}, "limit": {"type": "integer", "default": 10}
    }});
    let error = try_with(&schema, None, &["pth=x", "limt=5", "other=1"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid arguments for `tool`:\n  \
           pth: unknown argument; did you mean `path`?\n  \
           limt: unknown argument; did you mean `limit`?\n  \
           other: unknown argument\n  \
           path: missing, expected string\n  \
           mode: missing, expected \"r\" | \"w\"\n\
         signature: tool(path: string, mode: \"r\" | \"w\", limit?: integer = 10)"
    );
}

#[test]
fn unknown_names_pass_only_where_the_schema_welcomes_them() {
    for (schema, accepted) in [
        (json!({"properties": {"a": {}}}), false),
        (json!({"properties": {"a": {}}, "additionalProperties": false}), false),
        (json!({"additionalProperties": false}), false),
        (json!({"properties": {"a": {}}, "additionalProperties": true}), true),
        (json!({"properties": {"a": {}}, "patternProperties": {"^z": {}}}), true),
        (json!({"type": "object"}), true),
        (json!({}), true),
    ] {
        let result = try_with(&schema, None, &["zz=1"]);
        assert_eq!(result.is_ok(), accepted, "{schema} {result:?}");
    }
    let typed = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    assert_eq!(good(&typed, &["zz=1"]), json!({"zz": 1}));
    assert_eq!(bad(&typed, &["zz=x"]), ["zz: expected integer, got \"x\""]);
    assert_eq!(
        bad(&json!({"additionalProperties": false}), &["zz=x"]),
        ["zz: unknown argument; there are none"]
    );
}

#[test]
fn words_that_are_no_arguments_say_what_they_should_be() {
    let schema = one(json!({}));
    for (word, expected) in [
        ("x", "x: expected `name=value`"),
        ("=5", "=5: expected `name=value`"),
        (":=5", ":=5: expected `name=value`"),
        ("x:5", "x:5: expected `name=value`; did you mean `x=5`?"),
        ("--x", "--x: expected `name=value`"),
        ("{\"x\": 1}", "{\"x\": 1}: expected `name=value`; for all arguments as JSON use `--input-json`"),
    ] {
        assert_eq!(bad(&schema, &[word]), [expected]);
    }
}

#[test]
fn references_into_the_schema_are_followed() {
    let schema = json!({
        "properties": {"x": {"$ref": "#/$defs/Size"}, "t": {"$ref": "#/$defs/Tree"}, "o": {"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "null"}]}},
        "$defs": {
            "Size": {"type": "integer"},
            "Tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}, "n": {"$ref": "#/$defs/Size"}}, "required": ["n"]}
        }
    });
    assert_eq!(good(&schema, &["x=1", "o=null"]), json!({"x": 1, "o": null}));
    assert_eq!(good(&schema, &["t={\"n\":1,\"next\":{\"n\":2}}"]), json!({"t": {"n": 1, "next": {"n": 2}}}));
    assert_eq!(bad(&schema, &["t={\"n\":1,\"next\":{}}"]), ["t.next.n: missing, expected integer"]);
    assert_eq!(bad(&schema, &["x=y"]), ["x: expected integer, got \"y\""]);
}

/// Schemas come from servers; none may keep us busy or bring us down.
#[test]
fn schemas_in_circles_end() {
    let branch = json!({"$ref": "#/$defs/a"});
    for schema in [
        json!({"$ref": "#"}),
        one(json!({"$ref": "#/properties/x"})),
        json!({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": vec![branch.clone(); 8]}}}),
        json!({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "array", "items": branch}}}),
        json!({"properties": {"x": {"allOf": [{"$ref": "#/$defs/none"}]}}}),
        json!({"properties": 5, "required": "x", "type": 7, "enum": {}, "anyOf": []}),
        json!(null),
    ] {
        let _ = try_with(&schema, None, &["x=1"]);
        let _ = try_with(&schema, Some("{\"x\": [[[[1]]]]}"), &["x.y.z=1"]);
        let text = signature("tool", &schema, Some(&schema));
        assert!(text.len() < 100_000, "{}", text.len());
    }
}

#[test]
fn signatures_read_like_types() {
    for (schema, expected) in [
        (json!({"type": "object"}), "tool()"),
        (
            json!({"properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a"]}),
            "tool(a: integer, b?: \"x\" | \"y\")",
        ),
        (
            json!({"properties": {"z": {}, "a": {"type": "string"}}, "required": ["z"]}),
            "tool(z: any, a?: string)",
        ),
        (
            json!({"properties": {"a": {"type": "array", "items": {"type": ["string", "null"]}}}}),
            "tool(a?: (string | null)[])",
        ),
        (json!({"properties": {"a": {"type": "array"}}}), "tool(a?: any[])"),
        (json!({"properties": {"a": {"type": "string", "default": "x"}}}), "tool(a?: string = \"x\")"),
        (
            json!({"properties": {"a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {}}}}, "required": ["b"]}}}),
            "tool(a?: {b: {c?: any}})",
        ),
        (
            json!({"properties": {"a": {"properties": {"b": {"properties": {"c": {"properties": {"d": {}}}}}}}}}),
            "tool(a?: {b?: {c?: object}})",
        ),
        (
            json!({"properties": {"a": {"type": "object", "additionalProperties": {"type": "number"}}}}),
            "tool(a?: {*: number})",
        ),
        (
            json!({"properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "integer"}, {"type": "null"}]}}}),
            "tool(a?: integer | null)",
        ),
        (json!({"properties": {}, "required": ["x"]}), "tool(x: any)"),
        (json!({"properties": {"odd name": {"type": "integer"}}}), "tool(\"odd name\"?: integer)"),
        (
            json!({"properties": {"a": {"enum": (0..20).collect::<Vec<_>>()}}}),
            "tool(a?: 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | …)",
        ),
    ] {
        assert_eq!(signature("tool", &schema, None), expected);
    }
    let output = json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]});
    assert_eq!(signature("add", &json!({}), Some(&output)), "add() -> {sum: number}");
}

#[test]
fn nothing_from_a_server_writes_to_the_terminal_on_its_own() {
    let name = "\u{1b}[2J\u{202e}x\n";
    let schema = json!({"properties": {name: {"enum": [name], "default": name}}, "required": [name]});
    let error = try_with(&schema, None, &["zz=\u{1b}"]).unwrap_err();
    let texts = [
        signature(name, &schema, Some(&schema)),
        error.to_string(),
        unknown_tool(name, [name, name]),
        unknown_tool("zzz", [name]),
    ];
    for text in texts {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    }
}

#[test]
fn unknown_tools_are_met_with_suggestions() {
    let tools = ["everything__get-sum", "files__read_file", "files__write_file"];
    for (asked, expected) in [
        ("files__raed_file", "unknown tool `files__raed_file`; did you mean `files__read_file`?"),
        ("get-sum", "unknown tool `get-sum`; did you mean `everything__get-sum`?"),
        ("readfile", "unknown tool `readfile`; did you mean `files__read_file`?"),
        ("zzz", "unknown tool `zzz`; available: everything__get-sum, files__read_file, files__write_file"),
    ] {
        assert_eq!(unknown_tool(asked, tools), expected);
    }
    assert_eq!(unknown_tool("x", []), "unknown tool `x`; no tools are available");
    let many: Vec<String> = (0..50).map(|n| format!("tool{n}")).collect();
    assert_eq!(
        unknown_tool("zzz", many.iter().map(String::as_str)),
        "unknown tool `zzz`; 50 tools are available"
    );
}
