#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;

use super::super::applications::{APPLICATIONS, Application, FileFormat};
use super::super::{ConfigLoader, HostConfig, ServerTransport};
use super::*;

const PROGRAM: &str = "/opt/a b/hospes";

pub(super) fn entry(application: &'static Application, text: &str) -> ApplicationEntry {
    let args = ["stdio", "--application", application.id];
    ApplicationEntry::new(application, text, Path::new(PROGRAM), &args)
}

/// Path of a file that the application's reader recognizes.
pub(super) fn file(application: &Application) -> &'static Path {
    Path::new(match (application.id, application.shape.format) {
        ("gemini", _) => "/h/.gemini/settings.json",
        ("antigravity", _) => "/h/.gemini/config/mcp_config.json",
        ("crush", _) => "/h/crush.json",
        ("opencode" | "opencode2", _) => "/h/opencode.json",
        ("continue", _) => "/h/.continue/config.yaml",
        (_, FileFormat::Json) => "/h/mcp.json",
        (_, FileFormat::Yaml) => "/h/config.yaml",
        (_, FileFormat::Toml) => "/h/.codex/config.toml",
    })
}

/// Reads a file as the application's reader does.
fn read(application: &Application, text: &str) -> HostConfig {
    let loader = ConfigLoader::new().variables(|_| None);
    loader
        .parse(file(application), text)
        .unwrap_or_else(|errors| panic!("{}: {errors}\n{text}", application.id))
}

fn command(config: &HostConfig, name: &str) -> Vec<String> {
    let server = config.server(name).unwrap_or_else(|| panic!("{name} is missing"));
    let ServerTransport::Stdio(stdio) = &server.transport else { panic!("{name} is not a command") };
    std::iter::once(&stdio.command).chain(&stdio.args).map(|text| text.reveal().to_owned()).collect()
}

/// Files of an application, each with its line breaks and with or without a byte order mark.
pub(super) fn fixtures(application: &'static Application) -> Vec<String> {
    let shape = &application.shape;
    let mut other = command_members(&shape.stdio, "other program", vec!["--x".to_owned()]);
    if shape.listing != ServerListing::Object {
        other = with_name("other", other);
    }
    let other = ExportValue::Object(other);
    let texts: Vec<String> = match shape.format {
        FileFormat::Json => {
            let open: String = shape.key.iter().map(|key| format!("\"{key}\": {{")).collect();
            let close = "}".repeat(shape.key.len());
            let one = format!("\"other\": {}", json::one_line(&other));
            let key = shape.key[0];
            vec![
                String::new(),
                "\n \n".to_owned(),
                "// only a remark\n".to_owned(),
                "{}".to_owned(),
                "{\n}\n".to_owned(),
                "{ /* note */ }\n".to_owned(),
                "{\"a\": {\"b\": [1, 2]}}".to_owned(),
                "{\n    \"a\": 1 // last\n}\n".to_owned(),
                format!("{{{open}{one}{close}}}"),
                format!("{{ {open} {one}, {close} }}\n"),
                format!("{{{open}{close}}}"),
                format!("{{\n  {open}{close}\n}}\n"),
                format!("{{\n\t{open}\n\t{close},\n\t\"z\": \"é\"\n}}"),
                format!("{{\n  // mine\n  {open}\n    // the first\n    {one}\n    // the end\n  {close}\n}}\n"),
                format!("{{\n\t{open}\n\t\t{one},\n\t\t/* the\n end */\n\t{close},\n}}"),
                format!("{{\n  {open}\n    {one} // a, note\n  {close}\n}}\n"),
                format!("{{\n  {open} // first note\n    {one} // a, note\n  {close}\n}}\n"),
                format!("{{\n  {open}\n    {one}, // a note\n  {close}\n}}\n"),
                format!("{{\n  \"z\": \"}} , // no comment\",\n  {open}\n    {one}{close}}}\n"),
                format!("{{\n  \"{key}\": null,\n  \"z\": 1\n}}\n"),
                format!("{{\"{key}\": null}}"),
            ]
        }
        FileFormat::Toml => vec![
            String::new(),
            "model = \"x\" # mine".to_owned(),
            "[a]\nb = '''\n[mcp_servers.hospes]\n'''\n".to_owned(),
            "[mcp_servers.other]\ncommand = \"other program\"\nargs = [\"--x\"]\n\n# the end\n".to_owned(),
            "mcp_servers.other.command = \"other program\"\nmcp_servers.other.args = [\"--x\"]\n\n[z]\na = 1\n"
                .to_owned(),
            "mcp_servers = { other = { command = \"other program\", args = [\"--x\"] } } # inline\nz = 1\n".to_owned(),
            "mcp_servers = {}\n".to_owned(),
            "mcp_servers = { }\n".to_owned(),
        ],
        FileFormat::Yaml => {
            let key = shape.key[0];
            let one = match shape.listing {
                ServerListing::List => ExportValue::List(vec![other.clone()]),
                _ => ExportValue::Object(vec![("other".to_owned(), other.clone())]),
            };
            let block = |indent: &str| -> String {
                one.yaml(0).lines().map(|line| format!("{indent}{line}\n")).collect()
            };
            let flow = match shape.listing {
                ServerListing::List => format!("[{}]", json::one_line(&other)),
                _ => format!("{{other: {}}}", json::one_line(&other)),
            };
            let empty = if shape.listing == ServerListing::List { "[]" } else { "{}" };
            vec![
                String::new(),
                "# only a remark\n".to_owned(),
                "---\n".to_owned(),
                "a: 1".to_owned(),
                "a: |\n  # text\n\n  end\n".to_owned(),
                format!("{key}: # none yet\nz: 1\n"),
                format!("{key}: null # none yet\nz: 1\n"),
                format!("a: 1\n{key}:"),
                format!("{key}: {empty}\nz: 1\n"),
                format!("# mine\n{key}:\n{}\n# of z\nz: 1\n", block("    ")),
                format!("z: 1\n{key}:\n{}", block("  ").trim_end()),
                format!("{key}: {flow} # in one line\nz: \"é\"\n"),
                format!("z: |+\n  text\n\n{key}:\n{}  # the end\n", block("  ")),
            ]
        }
    };
    let mut all = Vec::new();
    for text in texts {
        for mark in ["", "\u{feff}"] {
            all.push(format!("{mark}{text}"));
            all.push(format!("{mark}{}", text.replace('\n', "\r\n")));
        }
    }
    all
}

#[test]
fn an_entry_is_added_and_cut_again_in_every_application() {
    for application in APPLICATIONS {
        for before in fixtures(application) {
            let file = file(application);
            let entry = entry(application, &before);
            let shown = format!("{}: {before:?}", application.id);
            assert_eq!(entry.state(file, &before), Ok(EntryState::Absent), "{shown}");
            let splice = entry.insertion(file, &before).unwrap_or_else(|error| panic!("{shown}: {error}"));
            let after = splice.apply(&before).unwrap();
            assert_eq!(entry.state(file, &after), Ok(EntryState::Present), "{shown}");
            // The line breaks are those of the file.
            if before.contains("\r\n") {
                assert_eq!(after.matches('\n').count(), after.matches("\r\n").count(), "{shown}\n{after:?}");
            }
            let config = read(application, &after);
            assert_eq!(
                command(&config, "hospes"),
                [PROGRAM, "stdio", "--application", application.id],
                "{shown}\n{after}"
            );
            if before.contains("other program") {
                assert_eq!(command(&config, "other"), ["other program", "--x"], "{shown}\n{after}");
            }
            assert_eq!(splice.cut(&after).unwrap(), before, "{shown}");
            if before.trim_start_matches('\u{feff}').is_empty() {
                continue;
            }
            assert_eq!(entry.cut(file, &after, &splice).unwrap(), before, "{shown}\n{after}");
        }
    }
}

#[test]
fn edits_elsewhere_stay_when_the_entry_is_cut() {
    for application in APPLICATIONS {
        let remark = if application.shape.format == FileFormat::Json { "// edited\n" } else { "# edited\n" };
        let edit = |text: &str| {
            let (mark, body) = split_mark(text);
            format!("{mark}{remark}{}\n", body.replace("other program", "another"))
        };
        let mut tried = 0;
        for before in fixtures(application).iter().filter(|before| before.contains("other program")) {
            let entry = entry(application, before);
            let splice = entry.insertion(file(application), before).unwrap();
            let after = edit(&splice.apply(before).unwrap());
            assert_eq!(
                entry.cut(file(application), &after, &splice),
                Some(edit(before)),
                "{}",
                application.id
            );
            tried += 1;
        }
        assert!(tried >= 8, "{}", application.id);
    }
}

#[test]
fn an_edited_entry_is_removed_with_its_comma() {
    for application in APPLICATIONS {
        for before in fixtures(application) {
            let entry = entry(application, &before);
            let splice = entry.insertion(file(application), &before).unwrap();
            let after = splice.apply(&before).unwrap().replace("--application", "--edited");
            let shown = format!("{}: {after}", application.id);
            assert_eq!(entry.cut(file(application), &after, &splice), None, "{shown}");
            assert_eq!(entry.state(file(application), &after), Ok(EntryState::Different), "{shown}");
            let removed = match entry.removal(file(application), &after) {
                Ok(removed) => removed,
                // On one line, TOML and YAML have no lines to remove.
                Err(error) => {
                    let is_inline = application.shape.format != FileFormat::Json
                        && after.lines().any(|line| line.contains("--edited") && line.contains(['{', '[']));
                    assert!(is_inline, "{shown}: {error}");
                    continue;
                }
            };
            assert_eq!(entry.state(file(application), &removed), Ok(EntryState::Absent), "{shown}");
            for part in ["mine", "note", "the first", "the end", "é", "z"] {
                assert_eq!(removed.matches(part).count(), before.matches(part).count(), "{shown}\n{removed}");
            }
        }
    }
}

#[test]
fn the_first_or_a_middle_member_is_removed() {
    let application = Application::find("cursor").unwrap();
    for (before, expected) in [
        ("{\"mcpServers\": {\"hospes\": {}, \"b\": {}}}", "{\"mcpServers\": { \"b\": {}}}"),
        ("{\"mcpServers\": {\"a\": {}, \"hospes\": {}}}", "{\"mcpServers\": {\"a\": {}}}"),
        (
            "{\"mcpServers\": {\n  \"a\": {}, // of a\n  \"hospes\": {}\n}}\n",
            "{\"mcpServers\": {\n  \"a\": {} // of a\n}}\n",
        ),
        (
            "{\"mcpServers\": {\n  \"a\": {},\n  \"hospes\": {},\n  \"b\": {}\n}}\n",
            "{\"mcpServers\": {\n  \"a\": {},\n  \"b\": {}\n}}\n",
        ),
    ] {
        let entry = entry(application, before);
        assert_eq!(entry.removal(file(application), before).unwrap(), expected);
    }
}

#[test]
fn files_that_cannot_be_extended_are_refused() {
    for (id, text, reason) in [
        ("cursor", "{\"mcpServers\": []}", "`mcpServers` is not an object"),
        ("cursor", "{\"mcpServers\": {}, \"mcpServers\": {}}", "`mcpServers` is there more than once"),
        ("cursor", "[1]", "the file is not an object"),
        ("cursor", "{\"a\": }", "/h/mcp.json:1:7: not valid JSON: "),
        ("codex", "mcp_servers = 1\n", "`mcp_servers` is not a table"),
        ("codex", "mcp_servers = [\n", "/h/.codex/config.toml:"),
        ("goose", "{a: 1}\n", "the file is written in braces"),
        ("goose", "extensions: []\n", "`extensions` is not a mapping"),
        ("goose", "- a\n", "the file is not a mapping"),
        ("continue", "mcpServers: {}\n", "`mcpServers` is not a list"),
    ] {
        let application = Application::find(id).unwrap();
        let error = entry(application, text).insertion(file(application), text).unwrap_err().to_string();
        assert!(error.contains(reason), "{id}: {text}: {error}");
    }
}

#[test]
fn an_existing_file_of_opencode_determines_the_form() {
    let first = "{\"mcp\": {\"a\": {\"type\": \"local\", \"command\": [\"x\"]}}}";
    let second = "{\"mcp\": {\"servers\": {\"a\": {\"type\": \"local\", \"command\": [\"x\"]}}}}";
    for id in ["opencode", "opencode2"] {
        let application = Application::find(id).unwrap();
        for (text, added) in [(first, "]}, \"hospes\": {"), (second, "]}, \"hospes\": {")] {
            let after =
                entry(application, text).insertion(file(application), text).unwrap().apply(text).unwrap();
            assert!(after.contains(added), "{after}");
            assert_eq!(read(application, &after).servers.len(), 2, "{after}");
        }
    }
    let application = Application::find("opencode2").unwrap();
    assert!(entry(application, "{}").snippet().contains("\"servers\""));
}

#[test]
fn a_file_that_lost_the_entry_is_blank() {
    for application in APPLICATIONS {
        let entry = entry(application, "");
        let snippet = entry.snippet();
        assert!(!entry.is_blank(&snippet), "{snippet}");
        let left = entry.removal(file(application), &snippet).unwrap();
        assert!(entry.is_blank(&left), "{}: {left}", application.id);
        assert!(!entry.is_blank("// mine\n{}"), "{}", application.id);
    }
}

#[test]
fn a_text_that_occurs_twice_is_not_cut() {
    let splice = EntrySplice::insertion(0, "aa".to_owned());
    assert_eq!(splice.cut("aa"), Some(String::new()));
    assert_eq!(splice.cut("aaa"), None);
    assert_eq!(splice.cut("aabaa"), None);
    assert_eq!(splice.cut("b"), None);
}
