//! Commands of bundles, compared with those of the reference tool's own function.
#![allow(clippy::needless_pass_by_value, reason = "values are written where they are used")]

use hospes_bundle::launch::{LaunchPart, UnfilledReason, ValueError};
use hospes_bundle::{
    BundleLaunch, BundleManifest, BundlePlaces, BundlePlatform, LaunchError, UserValue, UserValues,
};
use serde_json::{Value, json};

use crate::reference::Reference;

fn manifest(config: Value, options: Value) -> Value {
    json!({
        "manifest_version": "0.3", "name": "demo", "version": "1", "description": "", "author": { "name": "" },
        "server": { "type": "node", "entry_point": "server.js", "mcp_config": config },
        "user_config": options
    })
}

fn decode(manifest: &Value) -> BundleManifest {
    BundleManifest::decode(manifest.to_string().as_bytes()).unwrap()
}

fn places(platform: BundlePlatform) -> BundlePlaces {
    match platform {
        BundlePlatform::Windows => BundlePlaces::in_home(r"C:\bundles\demo", r"C:\Users\Ada", platform),
        _ => BundlePlaces::in_home("/bundles/demo", "/home/ada", platform),
    }
}

fn option(kind: &str, more: Value) -> Value {
    let mut option = json!({ "type": kind, "title": "", "description": "" });
    option.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    option
}

/// Values for our function, from those of the reference tool.
fn values(values: &Value) -> UserValues {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let value = |value: &Value| match value {
        Value::Bool(is_on) => UserValue::from(*is_on),
        Value::Number(number) => UserValue::from(number.as_f64().unwrap()),
        Value::Array(texts) => UserValue::from(texts.iter().map(text).collect::<Vec<_>>()),
        other => UserValue::from(other.as_str().unwrap()),
    };
    values.as_object().unwrap().iter().map(|(key, found)| (key.clone(), value(found))).collect()
}

/// Shape of a case: command, options, values.
fn cases() -> Vec<(Value, Value, Value)> {
    let command = |args: Value, env: Value| json!({ "command": "node", "args": args, "env": env });
    let all = json!({
        "text": option("string", json!({})),
        "empty": option("string", json!({ "default": "" })),
        "number": option("number", json!({ "default": 10 })),
        "flag": option("boolean", json!({ "default": false })),
        "folder": option("directory", json!({})),
        "folders": option("directory", json!({ "multiple": true })),
        "none": option("file", json!({ "multiple": true, "default": [] })),
        "secret": option("string", json!({ "sensitive": true }))
    });
    let args = json!([
        "${__dirname}/server.js",
        "${HOME}",
        "${DESKTOP}|${DOCUMENTS}|${DOWNLOADS}",
        "a${/}b${pathSeparator}c",
        "${user_config.text}",
        "--text=${user_config.text}",
        "${user_config.empty}",
        "--empty=${user_config.empty}",
        "${user_config.number}",
        "--number=${user_config.number}",
        "${user_config.flag}",
        "--flag=${user_config.flag}",
        "${user_config.folder}",
        "--folder=${user_config.folder}",
        "${user_config.folders}",
        "--folders=${user_config.folders}",
        "${user_config.none}",
        "--none=${user_config.none}",
        "${user_config.secret}",
        "${user_config.unknown}",
        "${unknown}",
        "$HOME",
        "${HOME",
        "${${HOME}}",
        "}${HOME}{",
        "${HOME}${HOME}",
        "$${HOME}",
        "${ HOME }",
        "${home}",
        "${user_config.}",
        "${user_config.text} ",
        "",
        "${}",
        "${user_config.text}${user_config.number}",
        "${__dirname}${/}${user_config.text}"
    ]);
    let env = json!({
        "TEXT": "${user_config.text}", "EMPTY": "${user_config.empty}", "NUMBER": "${user_config.number}",
        "FOLDERS": "${user_config.folders}", "UNSET": "${user_config.secret}", "PATH": "${__dirname}/bin:${HOME}/bin",
        "${HOME}": "the name stays"
    });
    let given = json!({
        "text": "a text", "number": 0.1, "flag": true, "folder": "/srv/a b", "folders": ["/a", "/b c", "-x"],
        "secret": "hush"
    });
    let number = |number: Value| {
        let config = command(json!(["${user_config.number}", "n=${user_config.number}"]), json!({}));
        (config, json!({ "number": option("number", json!({})) }), json!({ "number": number }))
    };
    let overrides = json!({
        "command": "base", "args": ["base"], "env": { "BASE": "1" },
        "platform_overrides": {
            "win32": { "command": "${__dirname}\\run.cmd", "args": [] },
            "darwin": { "env": { "LIBRARY": "${__dirname}/lib" } },
            "linux": { "command": "", "args": ["${HOME}", "linux"], "env": {} }
        }
    });
    let required = json!({ "key": option("string", json!({ "required": true, "default": "a default" })) });
    let required_list = json!({ "key": option("directory", json!({ "required": true, "multiple": true })) });
    let one = || {
        command(json!(["${user_config.key}", "x${user_config.key}"]), json!({ "KEY": "${user_config.key}" }))
    };
    let mut cases = vec![
        (command(args.clone(), env.clone()), all.clone(), json!({})),
        (command(args.clone(), env), all.clone(), given.clone()),
        (command(args, json!({})), all, json!({ "text": "", "folders": [], "flag": false, "number": 0 })),
        (overrides, json!({}), json!({})),
        (
            json!({ "command": "${__dirname}${/}bin${/}${user_config.key}" }),
            json!({ "key": option("string", json!({})) }),
            json!({ "key": "x" }),
        ),
        (
            json!({ "command": "${user_config.key}" }),
            json!({ "key": option("string", json!({})) }),
            json!({}),
        ),
        (one(), required.clone(), json!({})),
        (one(), required.clone(), json!({ "key": "" })),
        (one(), required, json!({ "key": "given" })),
        (one(), required_list.clone(), json!({})),
        (one(), required_list.clone(), json!({ "key": [] })),
        (one(), required_list.clone(), json!({ "key": ["/a", ""] })),
        (one(), required_list.clone(), json!({ "key": ["/a", "/b"] })),
        (one(), required_list, json!({ "key": "/alone" })),
    ];
    for value in [
        json!(1),
        json!(-0.0),
        json!(1.5),
        json!(1e21),
        json!(123_456_789_012_345_680_000.0),
        json!(1e-7),
        json!(0.000_001),
        json!(-2),
        json!(9_007_199_254_740_993_u64),
        json!(1e300),
    ] {
        cases.push(number(value));
    }
    cases
}

#[test]
fn commands_are_those_of_the_reference_tool() {
    let Some(reference) = Reference::installed() else { return };
    let mut input = Vec::new();
    for (config, options, values) in cases() {
        for platform in BundlePlatform::ALL {
            let places = places(platform);
            let folders = json!({
                "HOME": places.home, "DESKTOP": places.desktop, "DOCUMENTS": places.documents,
                "DOWNLOADS": places.downloads
            });
            input.push(json!({
                "platform": platform.as_str(), "manifest": manifest(config.clone(), options.clone()), "values": values,
                "bundle": places.bundle, "folders": folders, "separator": platform.path_separator()
            }));
        }
    }
    let script = "
        console.warn = () => {};
        const results = [];
        for (const one of input) {
            Object.defineProperty(process, 'platform', { value: one.platform });
            const made = await reference.getMcpConfigForManifest({
                manifest: one.manifest, extensionPath: one.bundle, systemDirs: one.folders, userConfig: one.values,
                pathSeparator: one.separator,
            });
            results.push(made ? { command: made.command, args: made.args ?? [], env: made.env ?? {} } : null);
        }
        print(results);";
    let made = reference.evaluate("shared/config.js", script, &json!(input));
    assert!(input.len() > 60);
    for (case, theirs) in input.iter().zip(made.as_array().unwrap()) {
        let platform =
            BundlePlatform::ALL.into_iter().find(|platform| case["platform"] == platform.as_str()).unwrap();
        let manifest = decode(&case["manifest"]);
        let ours = manifest.launch(&places(platform), platform, &values(&case["values"]));
        let ours = match ours {
            Ok(launch) => {
                let env: serde_json::Map<String, Value> =
                    launch.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
                json!({ "command": launch.command, "args": launch.args, "env": env })
            }
            Err(LaunchError::Missing { .. }) => Value::Null,
            Err(error) => panic!("{error}: {case:#}"),
        };
        assert_eq!(&ours, theirs, "{case:#}");
    }
}

fn launch(config: Value, options: Value, given: &Value) -> BundleLaunch {
    let platform = BundlePlatform::Linux;
    decode(&manifest(config, options)).launch(&places(platform), platform, &values(given)).unwrap()
}

/// Here the reference tool would replace text inside of values.
#[test]
fn a_value_is_put_in_as_it_is() {
    let options = json!({
        "a": option("string", json!({})), "b.c": option("string", json!({})), "z": option("string", json!({ "sensitive": true }))
    });
    let config = json!({ "command": "x", "args": ["-${user_config.a}", "${user_config.b.c}", "${user_configXa}", "${user_config.bxc}"] });
    let given = json!({ "a": "$& $$ $1 ${user_config.z} ${HOME}", "b.c": "dot", "z": "secret" });
    let launch = launch(config, options, &given);
    let expected = ["-$& $$ $1 ${user_config.z} ${HOME}", "dot", "${user_configXa}", "${user_config.bxc}"];
    assert_eq!(launch.args, expected);
    assert_eq!(launch.secrets, []);
}

#[test]
fn places_in_defaults_are_filled_in() {
    let options = json!({
        "one": option("directory", json!({ "default": "${HOME}/Documents" })),
        "many": option("directory", json!({ "multiple": true, "default": ["${DESKTOP}", "${user_config.one}"] }))
    });
    let config = json!({ "command": "x", "args": ["--one=${user_config.one}", "${user_config.many}"] });
    let made = launch(config.clone(), options.clone(), &json!({}));
    assert_eq!(made.args, ["--one=/home/ada/Documents", "/home/ada/Desktop", "${user_config.one}"]);
    let proposed = decode(&manifest(config, options))
        .default_values(&places(BundlePlatform::Linux), BundlePlatform::Linux);
    assert_eq!(proposed.get("one"), Some(&UserValue::from("/home/ada/Documents")));
}

#[test]
fn secrets_are_reported_and_not_shown() {
    let options = json!({
        "key": option("string", json!({ "sensitive": true })),
        "keys": option("string", json!({ "sensitive": true, "multiple": true }))
    });
    let config = json!({
        "command": "x", "args": ["a", "--key=${user_config.key}", "${user_config.keys}", "z"],
        "env": { "KEY": "${user_config.key}", "OTHER": "1" }
    });
    let launch = launch(config, options, &json!({ "key": "hush-hush", "keys": ["quiet-1", "quiet-2"] }));
    let secrets: Vec<(&str, &LaunchPart)> =
        launch.secrets.iter().map(|secret| (secret.key.as_str(), &secret.part)).collect();
    let expected = [
        ("key", &LaunchPart::Argument(1)),
        ("keys", &LaunchPart::Argument(2)),
        ("keys", &LaunchPart::Argument(3)),
        ("key", &LaunchPart::Environment("KEY".to_owned())),
    ];
    assert_eq!(secrets, expected);
    assert_eq!(launch.exposed_secrets().count(), 3);
    let shown = format!("{launch:?}");
    assert!(!shown.contains("hush") && !shown.contains("quiet") && shown.contains("OTHER"), "{shown}");
    let values = values(&json!({ "key": "hush-hush" }));
    assert!(!format!("{values:?}").contains("hush"));
}

#[test]
fn what_is_not_filled_in_is_reported_and_can_be_removed() {
    let options = json!({
        "unset": option("string", json!({})), "list": option("file", json!({ "multiple": true })),
        "key": option("string", json!({ "sensitive": true }))
    });
    let config = json!({
        "command": "x",
        "args": ["${user_config.unset}", "--a=${user_config.unset}", "--b=${user_config.list}", "${HOEM}", "${user_config.key}"],
        "env": { "UNSET": "${user_config.unset}", "PART": "a${user_config.unset}" }
    });
    let launch = launch(config, options, &json!({ "list": ["1", "2"], "key": "k" }));
    let reasons: Vec<(&str, UnfilledReason, bool)> =
        launch.unfilled.iter().map(|one| (one.variable.as_str(), one.why, one.is_whole_part)).collect();
    let expected = [
        ("user_config.unset", UnfilledReason::Unset, true),
        ("user_config.unset", UnfilledReason::Unset, false),
        ("user_config.list", UnfilledReason::List, false),
        ("HOEM", UnfilledReason::Unknown, true),
        ("user_config.unset", UnfilledReason::Unset, true),
        ("user_config.unset", UnfilledReason::Unset, false),
    ];
    assert_eq!(reasons, expected);
    let launch = launch.without_unset();
    assert_eq!(launch.args, ["--a=${user_config.unset}", "--b=${user_config.list}", "${HOEM}", "k"]);
    assert_eq!(launch.env, [("PART".to_owned(), "a${user_config.unset}".to_owned())]);
    assert_eq!(launch.secrets[0].part, LaunchPart::Argument(3));
    assert_eq!(launch.unfilled[0].part, LaunchPart::Argument(0));
}

#[test]
fn values_are_checked_against_their_options() {
    let options = json!({
        "text": option("string", json!({})), "number": option("number", json!({ "min": 1, "max": 2.5 })),
        "flag": option("boolean", json!({})), "file": option("file", json!({})),
        "many": option("directory", json!({ "multiple": true }))
    });
    let manifest = decode(&manifest(json!({ "command": "x" }), options));
    let error = |key: &str, value: UserValue| {
        let values = UserValues::new().with(key, value);
        manifest
            .launch(&places(BundlePlatform::Linux), BundlePlatform::Linux, &values)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(error("number", 0.9.into()), "number: the number is below the minimum, 1");
    assert_eq!(error("number", 3.0.into()), "number: the number is above the maximum, 2.5");
    assert_eq!(error("number", f64::NAN.into()), "number: expected a finite number");
    assert_eq!(error("number", "2".into()), "number: expected a number");
    assert_eq!(error("flag", "true".into()), "flag: expected true or false");
    assert_eq!(error("text", true.into()), "text: expected a text");
    assert_eq!(error("file", vec!["a".to_owned()].into()), "file: expected one value");
    assert_eq!(error("file", "a\0b".into()), "file: the text has a NUL character");
    assert_eq!(
        error("text", "x".repeat(32 * 1024 + 1).as_str().into()),
        "text: the text is longer than 32768 bytes"
    );
    assert_eq!(error("many", vec![String::new(); 257].into()), "many: there are more than 256 values");
    assert_eq!(error("nothing", "x".into()), "nothing: the bundle has no such option");
    let option = |key: &str| manifest.user_option(key).unwrap();
    assert_eq!(option("number").parse(&[" 2.5 "]).unwrap(), UserValue::Number(2.5));
    assert_eq!(option("number").parse(&["two"]), Err(ValueError::Kind { expected: "a number" }));
    assert_eq!(option("flag").parse(&["yes"]).unwrap(), UserValue::Boolean(true));
    assert_eq!(option("many").parse(&["a", "b"]).unwrap(), vec!["a".to_owned(), "b".to_owned()].into());
    assert_eq!(option("text").parse(&["a", "b"]), Err(ValueError::Several));
}

#[test]
fn a_bundle_for_other_platforms_has_no_command() {
    let mut text = manifest(json!({ "command": "x" }), json!({}));
    text["compatibility"] = json!({ "platforms": ["darwin", "win32"] });
    let error = decode(&text)
        .launch(&places(BundlePlatform::Linux), BundlePlatform::Linux, &UserValues::new())
        .unwrap_err();
    assert_eq!(error.to_string(), "the bundle is for darwin, win32, not for linux");
}

#[test]
fn programs_get_their_ending_on_windows() {
    for (command, expected) in
        [("${__dirname}/bin/x", r"C:\bundles\demo/bin/x.exe"), ("x.cmd", "x.cmd"), ("", "")]
    {
        let mut text = manifest(json!({ "command": command }), json!({}));
        text["server"]["type"] = json!("binary");
        let windows = decode(&text).launch(
            &places(BundlePlatform::Windows),
            BundlePlatform::Windows,
            &UserValues::new(),
        );
        assert_eq!(windows.unwrap().command, expected);
    }
}

#[test]
fn a_server_of_uv_needs_no_command() {
    let mut text = manifest(json!({}), json!({}));
    text["manifest_version"] = json!("0.4");
    text["server"] = json!({ "type": "uv", "entry_point": "src/server.py" });
    let manifest = BundleManifest::decode_loose(text.to_string().as_bytes()).unwrap();
    let launch =
        manifest.launch(&places(BundlePlatform::MacOs), BundlePlatform::MacOs, &UserValues::new()).unwrap();
    assert_eq!(
        (launch.command.as_str(), launch.args.join(" ").as_str()),
        ("uv", "run --directory /bundles/demo src/server.py")
    );
}

#[test]
fn a_command_is_bounded() {
    let options =
        json!({ "text": option("string", json!({})), "many": option("file", json!({ "multiple": true })) });
    let repeated = "${user_config.text}".repeat(100);
    for args in
        [json!([repeated]), json!(vec!["${user_config.text}"; 100]), json!(vec!["${user_config.many}"; 2])]
    {
        let manifest = decode(&manifest(json!({ "command": "x", "args": args }), options.clone()));
        let long = "x".repeat(32 * 1024);
        let values = UserValues::new().with("text", long.as_str()).with("many", vec![long.clone(); 40]);
        let error =
            manifest.launch(&places(BundlePlatform::Linux), BundlePlatform::Linux, &values).unwrap_err();
        assert_eq!(error, LaunchError::TooLarge);
        assert_eq!(manifest.preview(BundlePlatform::Linux).secrets, []);
    }
}

#[test]
fn a_preview_shows_each_variable_in_its_place() {
    let options = json!({
        "key": option("string", json!({ "sensitive": true })), "n": option("number", json!({ "min": 3, "max": 2 })),
        "many": option("file", json!({ "multiple": true, "required": true }))
    });
    let args = json!([
        "${__dirname}/x",
        "${HOME}",
        "${user_config.many}",
        "n=${user_config.n}",
        "${user_config.key}"
    ]);
    let preview =
        decode(&manifest(json!({ "command": "x", "args": args }), options)).preview(BundlePlatform::Linux);
    assert_eq!(json!(preview.args), args);
    assert_eq!(preview.unfilled, []);
    assert_eq!(preview.secrets[0].part, LaunchPart::Argument(4));
}
