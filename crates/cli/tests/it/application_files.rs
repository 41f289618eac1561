//! The files of all twenty applications, by the program itself: connected, changed by others, disconnected, created, imported
//! and exported. Parsers that are not part of Hospes say what an application reads.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod outside;
mod samples;

use std::path::{Path, PathBuf};

use hospes_host::config::applications::APPLICATIONS;
use serde_json::{Value, json};

use self::outside::{OutsideReading, read_outside};
use self::samples::{ApplicationSample, FileParser, SAMPLES};
use crate::connect::Person;
use crate::support::{House, Ran};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hospes");

/// An empty home folder.
fn person() -> Person {
    let person = Person(House::new());
    for folder in ["home", "config", "out"] {
        std::fs::create_dir(person.0.path(folder)).unwrap();
    }
    person
}

impl Person {
    fn bytes(&self, file: &str) -> Option<Vec<u8>> {
        std::fs::read(self.0.path(file)).ok()
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran: Ran = self.succeeds(args);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
    }

    /// All files and folders below the folder of the test, but for the state of Hospes.
    fn tree(&self) -> Vec<PathBuf> {
        fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if path.file_name().unwrap() == "state" {
                    continue;
                }
                found.push(path.clone());
                if path.is_dir() {
                    collect(&path, found);
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.0.path(""), &mut found);
        found.sort();
        found
    }
}

/// The samples whose parsers are there.
fn readable() -> impl Iterator<Item = &'static ApplicationSample> {
    let known = [FileParser::Json, FileParser::JsonWithComments, FileParser::Toml, FileParser::Yaml];
    let known: Vec<FileParser> = known.into_iter().filter(|parser| outside::is_there(*parser)).collect();
    SAMPLES.iter().filter(move |sample| known.contains(&sample.parser))
}

/// Forms in which the file of an application may be.
fn forms(sample: &ApplicationSample) -> Vec<(&'static str, String)> {
    let text = sample.text.to_owned();
    let crlf = text.replace('\n', "\r\n");
    let mut forms = vec![("as it is", text.clone()), ("CRLF", crlf.clone())];
    if matches!(sample.parser, FileParser::Json | FileParser::JsonWithComments) {
        let tabs = text.lines().map(|line| {
            let content = line.trim_start_matches(' ');
            format!("{}{content}\n", "\t".repeat((line.len() - content.len()).div_ceil(2)))
        });
        forms.push(("tabs", tabs.collect()));
    }
    if matches!(sample.parser, FileParser::JsonWithComments | FileParser::Yaml) {
        forms.push(("a byte order mark and CRLF", format!("\u{feff}{crlf}")));
    }
    forms
}

/// The servers of a document as a table by their names.
fn servers(sample: &ApplicationSample, root: &Value) -> serde_json::Map<String, Value> {
    let mut servers = root.clone();
    for key in sample.key {
        servers = servers.get_mut(key).map(Value::take).unwrap_or_default();
    }
    match servers {
        Value::Object(servers) => servers,
        Value::Array(items) => {
            items.into_iter().map(|item| (item["name"].as_str().unwrap().to_owned(), item)).collect()
        }
        _ => serde_json::Map::new(),
    }
}

/// Checks that a document is another one with the entry of Hospes, and nothing else.
fn check_connected(sample: &ApplicationSample, what: &str, before: &Value, after: &OutsideReading) {
    let expected = sample.entry_of("hospes", PROGRAM, &["stdio", "--application", sample.id]);
    let found = servers(sample, &after.value);
    assert_eq!(found.get("hospes"), Some(&expected), "{}, {what}", sample.id);
    assert_eq!(&after.without_entry, before, "{}, {what}: the rest of the file", sample.id);
}

#[test]
fn there_is_a_sample_of_each_application() {
    let samples: Vec<&str> = SAMPLES.iter().map(|sample| sample.id).collect();
    let applications: Vec<&str> = APPLICATIONS.iter().map(|application| application.id).collect();
    assert_eq!(samples, applications);
    assert_eq!(samples.len(), 20);
}

#[test]
fn each_application_reads_the_entry_and_gets_its_bytes_back() {
    for sample in readable() {
        for (form, text) in forms(sample) {
            let person = person();
            person.write(sample.file, &text);
            let before = read_outside(sample, &text);
            let dry = person.succeeds(&["connect", "--dry-run", sample.id]);
            assert!(dry.stdout.contains("--application"), "{dry:?}");
            assert_eq!(person.0.read(sample.file), text, "{}, {form}: a dry run", sample.id);
            assert!(!person.0.path("state").exists(), "{}: a dry run leaves a record", sample.id);

            person.succeeds(&["connect", sample.id]);
            let connected = person.0.read(sample.file);
            check_connected(sample, form, &before.value, &read_outside(sample, &connected));
            assert_eq!(person.state(sample.id).as_deref(), Some("connected"), "{}, {form}", sample.id);
            if form == "CRLF" {
                let bare = connected.replace("\r\n", "").matches('\n').count();
                assert_eq!(bare, 0, "{}: mixed line breaks", sample.id);
            }
            // The entry is not taken for a server of the user.
            let refused = person.json(&["import", "--json", sample.id]);
            let refused = refused["refused"].as_array().unwrap().iter();
            let mut own = refused.filter(|one| one["name"] == "hospes");
            assert_eq!(own.next().unwrap()["reason"], "it is Hospes itself", "{}", sample.id);

            let again = person.succeeds(&["disconnect", sample.id]);
            assert!(again.stderr.contains("as it was before"), "{again:?}");
            assert_eq!(person.bytes(sample.file).unwrap(), text.as_bytes(), "{}, {form}", sample.id);
            assert_eq!(person.records(), 0, "{}: no back-up is left", sample.id);
        }
    }
}

/// Changes a file as its user does: a value of another server, and something at the beginning or at the end.
fn edit(sample: &ApplicationSample, text: &str) -> String {
    let text = text.replace("/data/my notes", "/data/our notes (2)").replace("\"debug\"", "\"info\"");
    match sample.parser {
        FileParser::Json | FileParser::JsonWithComments => text.replacen('{', "{ \"added\": [1, 2],", 1),
        FileParser::Toml => format!("{text}\n[added]\nmore = [1, 2]\n"),
        FileParser::Yaml => format!("{text}added: [1, 2]\n"),
    }
}

#[test]
fn changes_of_others_stay_when_each_application_is_disconnected() {
    for sample in readable() {
        for (form, text) in forms(sample) {
            let person = person();
            person.write(sample.file, &text);
            person.succeeds(&["connect", sample.id]);
            // By hand: only the inserted bytes are cut.
            person.write(sample.file, &edit(sample, &person.0.read(sample.file)));
            assert_eq!(person.state(sample.id).as_deref(), Some("connected"), "{}, {form}", sample.id);
            let ran = person.succeeds(&["disconnect", sample.id]);
            assert!(ran.stderr.contains("later changes of the file stay"), "{ran:?}");
            assert_eq!(person.0.read(sample.file), edit(sample, &text), "{}, {form}", sample.id);
        }
        // By the application, which writes its file anew: the entry is removed in whatever form it is.
        let person = person();
        person.write(sample.file, sample.text);
        person.succeeds(&["connect", sample.id]);
        let written = read_outside(sample, &person.0.read(sample.file));
        let Some((with_entry, without)) = written.rewritten else { continue };
        person.write(sample.file, &with_entry);
        assert_eq!(person.state(sample.id).as_deref(), Some("connected"), "{}", sample.id);
        person.succeeds(&["disconnect", sample.id]);
        assert_eq!(person.0.read(sample.file), without, "{}: written anew", sample.id);
    }
}

#[test]
fn a_new_file_of_each_application_is_gone_with_its_folders() {
    for sample in readable() {
        let places = [(Some(sample.file), None), (sample.project, Some("--project"))];
        for (file, option) in places {
            let person = person();
            let before = person.tree();
            let run = |command: &str| {
                let words: Vec<&str> = [command, sample.id].into_iter().chain(option).collect();
                person.run(&words)
            };
            let Some(file) = file else {
                let refused = run("connect");
                assert!(refused.code == Some(1) && refused.stderr.contains("no file of a project"));
                assert_eq!(person.tree(), before, "{}", sample.id);
                continue;
            };
            let dry: Vec<&str> = ["connect", "--dry-run", sample.id].into_iter().chain(option).collect();
            person.succeeds(&dry);
            assert_eq!(person.tree(), before, "{}: a dry run", sample.id);
            assert_eq!(run("connect").code, Some(0), "{}", sample.id);
            let reading = read_outside(sample, &person.0.read(file));
            let expected = sample.entry_of("hospes", PROGRAM, &["stdio", "--application", sample.id]);
            let found = servers(sample, &reading.value);
            assert_eq!(Value::Object(found), json!({ "hospes": expected }), "{}", sample.id);
            if sample.id == "continue" {
                // Without these, the application refuses the file.
                let head = ["name", "version", "schema"].map(|key| reading.value[key].is_string());
                assert_eq!(head, [true; 3]);
            }
            assert_eq!(run("disconnect").code, Some(0), "{}", sample.id);
            assert_eq!(person.tree(), before, "{} {option:?}", sample.id);
            assert_eq!(person.records(), 0, "{}", sample.id);
        }
    }
}

/// The file of a project has the same form, and gets its bytes back, too.
#[test]
fn the_file_of_a_project_of_each_application_gets_its_bytes_back() {
    for sample in readable() {
        let Some(file) = sample.project else { continue };
        let person = person();
        person.write(file, sample.text);
        let before = read_outside(sample, sample.text);
        person.succeeds(&["connect", "--project", sample.id]);
        let after = read_outside(sample, &person.0.read(file));
        check_connected(sample, "the file of a project", &before.value, &after);
        assert!(!person.0.path(sample.file).exists(), "{}: the user's file", sample.id);
        person.succeeds(&["disconnect", "--project", sample.id]);
        assert_eq!(person.0.read(file), sample.text, "{}", sample.id);
    }
}

#[test]
fn servers_of_each_application_are_imported_and_exported_in_its_form() {
    for sample in readable() {
        let person = person();
        person.write(sample.file, sample.text);
        let own = servers(sample, &read_outside(sample, sample.text).value);
        let found = person.json(&["import", "--json", sample.id]);
        let named = |list: &str| {
            let list = found[list].as_array().unwrap().iter();
            list.map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let known = [named("servers"), named("refused")].concat();
        // A part of Goose is not a server.
        for name in own.keys().filter(|name| *name != "developer") {
            assert!(known.contains(name), "{}: `{name}` is neither found nor refused: {found}", sample.id);
        }
        assert_eq!(found["unreadable"], json!([]), "{}", sample.id);

        let usual: Vec<&str> =
            ["notes", "search"].into_iter().filter(|name| own.contains_key(*name)).collect();
        let chosen = usual.iter().flat_map(|name| ["--server", name]);
        let words: Vec<&str> = ["import", "--yes", sample.id].into_iter().chain(chosen).collect();
        person.succeeds(&words);
        assert_eq!(person.0.read(sample.file), sample.text, "{}: only read", sample.id);

        // Exported again, they are what the application had.
        let name = Path::new(sample.file).file_name().unwrap().to_str().unwrap();
        let file = format!("out/{name}");
        let words = ["export", "--format", sample.id, "--output", &file];
        let exported = person.succeeds(&[&words[..], &usual].concat());
        assert!(!exported.stderr.contains("not exported"), "{exported:?}");
        let exported = servers(sample, &read_outside(sample, &person.0.read(&file)).value);
        assert_eq!(exported.len(), usual.len(), "{}", sample.id);
        for name in &usual {
            assert_eq!(exported[*name], own[*name], "{}: {name}", sample.id);
        }
        let again = person.json(&["import", "--json", &file]);
        let states = again["servers"].as_array().unwrap().iter().map(|one| one["state"].clone());
        assert_eq!(states.collect::<Vec<_>>(), vec!["present"; usual.len()], "{}: {again}", sample.id);
    }
}
