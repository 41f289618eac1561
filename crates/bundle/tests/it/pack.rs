//! Packing folders.

use std::fs;
use std::path::{Path, PathBuf};

use hospes_bundle::{Bundle, PackOptions, PackedBundle, pack};

use crate::reference::Reference;
use crate::zip::MANIFEST;

/// Folder with a bundle to be, and a place for the result.
struct Source {
    home: tempfile::TempDir,
}

impl Source {
    fn new(files: &[(&str, &str)]) -> Self {
        let source = Self { home: tempfile::tempdir().unwrap() };
        source.write("manifest.json", MANIFEST);
        source.write("server.js", "1;\n");
        files.iter().for_each(|(name, content)| source.write(name, content));
        source
    }

    fn folder(&self) -> PathBuf {
        self.home.path().join("source")
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn output(&self) -> PathBuf {
        self.home.path().join("demo.mcpb")
    }

    fn pack(&self) -> Result<PackedBundle, String> {
        pack(&self.folder(), &self.output(), PackOptions::default()).map_err(|error| {
            assert!(!self.output().exists(), "a bundle is left after: {error}");
            assert_eq!(
                fs::read_dir(self.home.path()).unwrap().count(),
                1,
                "something is left after: {error}"
            );
            error.to_string()
        })
    }
}

fn names(path: &Path) -> Vec<String> {
    Bundle::open(path).unwrap().entries().iter().map(|entry| entry.name.clone()).collect()
}

#[test]
fn the_same_folder_gives_the_same_bytes() {
    let source = Source::new(&[("b/c.txt", "c"), ("a.txt", "a")]);
    let first = source.pack().unwrap();
    let bytes = fs::read(source.output()).unwrap();
    // Another time, and another order of creation.
    let other = Source::new(&[("a.txt", "a"), ("b/c.txt", "c")]);
    let second = other.pack().unwrap();
    assert_eq!(fs::read(other.output()).unwrap(), bytes);
    assert_eq!((first.sha256, first.size), (second.sha256.clone(), bytes.len() as u64));
    assert_eq!(second.sha256, Bundle::open(&other.output()).unwrap().sha256().unwrap());
    assert_eq!(names(&other.output()), ["a.txt", "b/c.txt", "manifest.json", "server.js"]);
}

#[test]
fn what_is_usually_not_wanted_is_left_out() {
    let out = [
        ".git/config",
        "node_modules/.bin/x",
        "node_modules/.cache/x",
        "package-lock.json",
        "sub/yarn.lock",
        "a.map",
        "A.MAP",
        "x.d.ts",
        ".DS_Store",
        ".env",
        "sub/.env.local",
        "debug.log",
        "old.mcpb",
        ".mcpbignore",
        "own/secret.txt",
        "deep/own.txt",
        "build/x",
    ];
    let kept =
        ["keep.log", "lib/node_modules/.bin/x", "node_modules/dep/index.js", "own/kept.txt", "tests/build"];
    let all = out.iter().chain(&kept).map(|name| (*name, "x"));
    let source = Source::new(&all.collect::<Vec<_>>());
    source.write(".mcpbignore", "# mine\n  own/secret.txt  \r\nown.txt\n\nbuild/\n!keep.log\n");
    let packed = source.pack().unwrap();
    let mut expected: Vec<&str> = kept.iter().copied().chain(["manifest.json", "server.js"]).collect();
    expected.sort_unstable();
    assert_eq!(names(&source.output()), expected);
    assert_eq!(packed.left_out, out.len());
}

#[cfg(unix)]
#[test]
fn modes_are_kept_and_links_inside_are_followed() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let source = Source::new(&[("bin/run", "#!/bin/sh\n"), ("lib/a", "a")]);
    fs::set_permissions(source.folder().join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("bin/run", source.folder().join("run")).unwrap();
    symlink("lib", source.folder().join("lib2")).unwrap();
    source.pack().unwrap();
    let bundle = Bundle::open(&source.output()).unwrap();
    let executable: Vec<&str> = bundle
        .entries()
        .iter()
        .filter(|entry| entry.is_executable)
        .map(|entry| entry.name.as_str())
        .collect();
    assert_eq!(executable, ["bin/run", "run"]);
    assert_eq!(bundle.read_file("lib2/a", 9).unwrap(), b"a");
    let mode = fs::metadata(source.output()).unwrap().permissions().mode();
    assert_ne!(mode & 0o044, 0, "{mode:o}: others cannot read the bundle");
}

#[cfg(unix)]
#[test]
fn what_leads_out_of_the_folder_or_never_ends_is_refused() {
    use std::os::unix::fs::symlink;

    let cases: [(&str, &str, &str); 5] = [
        ("etc", "/etc", "out of the folder"),
        ("passwd", "/etc/passwd", "out of the folder"),
        ("up", "..", "out of the folder"),
        ("loop", ".", "a folder that it is in"),
        ("nothing", "nowhere", "a link to nothing"),
    ];
    for (name, target, reason) in cases {
        let source = Source::new(&[]);
        symlink(target, source.folder().join(name)).unwrap();
        let error = source.pack().unwrap_err();
        assert!(error.contains(reason) && error.contains(name), "{name}: {error}");
        // What is left out is not looked at.
        source.write(".mcpbignore", name);
        source.pack().unwrap();
    }
    let source = Source::new(&[]);
    let pipe = source.folder().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(source.pack().unwrap_err().contains("neither a file nor a folder"));
    let source = Source::new(&[("a\\b", "x")]);
    assert!(source.pack().unwrap_err().contains("backslash"));
    let source = Source::new(&[("Readme", "x"), ("README", "x")]);
    assert!(source.pack().unwrap_err().contains("the same file"));
}

#[cfg(unix)]
#[test]
fn secrets_are_packed_only_if_that_is_said() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ\n";
    let source = Source::new(&[("conf/tls.txt", key), ("id_rsa", "x"), (".env", "A=b")]);
    std::os::unix::fs::symlink(".env", source.folder().join("settings")).unwrap();
    let error = source.pack().unwrap_err();
    for name in ["conf/tls.txt", "id_rsa", "settings"] {
        assert!(error.contains(name), "{error}");
    }
    assert!(!error.contains("MIIE"), "{error}");
    source.write(".mcpbignore", "!.env\n");
    assert!(source.pack().unwrap_err().contains("\".env\" has settings"));
    let options = PackOptions::default().with_allow_secrets(true);
    pack(&source.folder(), &source.output(), options).unwrap();
    assert!(names(&source.output()).contains(&".env".to_owned()));
}

#[test]
fn faults_are_found_before_anything_is_written() {
    let cases: [(&str, &str, &str); 9] = [
        ("\"manifest_version\": \"0.3\"", "\"manifest_version\": \"3\"", "manifest_version"),
        ("\"name\": \"demo\"", "\"nome\": \"demo\"", "name: missing"),
        (
            "\"server.js\", \"mcp",
            "\"other.js\", \"mcp",
            "server.entry_point: the bundle has no file \"other.js\"",
        ),
        ("\"server.js\", \"mcp", "\"../server.js\", \"mcp", "server.entry_point"),
        ("\"name\": \"demo\"", "\"name\": \"demo\", \"icon\": \"icon.png\"", "icon: the bundle has no file"),
        (
            "\"name\": \"demo\"",
            "\"name\": \"demo\", \"icon\": \"server.js\"",
            "icon: the file \"server.js\" is no PNG",
        ),
        ("\"name\": \"demo\"", "\"name\": \"demo\", \"icon\": \"/server.js\"", "leads out of the bundle"),
        ("\"name\": \"demo\"", "\"name\": \"demo\", \"icon\": \"../x.png\"", "leads out of the bundle"),
        (
            "\"name\": \"demo\"",
            "\"name\": \"demo\", \"icon\": \"${__dirname}/x\"",
            "variables have no meaning",
        ),
    ];
    for (from, to, reason) in cases {
        assert!(MANIFEST.contains(from), "{from}");
        let source = Source::new(&[]);
        source.write("manifest.json", &MANIFEST.replace(from, to));
        let error = source.pack().unwrap_err();
        assert!(error.contains(reason), "{to}: {error}");
    }
    let source = Source::new(&[]);
    source.write(".mcpbignore", "*.js\n");
    assert!(source.pack().unwrap_err().contains("server.entry_point"));
    source.write(".mcpbignore", "manifest.json\n");
    assert!(source.pack().unwrap_err().contains("left out by .mcpbignore"));
    source.write(".mcpbignore", "[z-a]\n");
    assert!(source.pack().unwrap_err().contains("line 1"));
    fs::remove_file(source.folder().join("manifest.json")).unwrap();
    assert!(source.pack().unwrap_err().contains("has no manifest.json"));
}

#[test]
fn a_file_that_is_no_bundle_is_not_replaced() {
    let source = Source::new(&[]);
    source.pack().unwrap();
    source.write("more.txt", "more");
    assert_eq!(source.pack().unwrap().files.len(), 3, "an older bundle is replaced");
    fs::write(source.output(), "a letter").unwrap();
    let error = pack(&source.folder(), &source.output(), PackOptions::default()).unwrap_err().to_string();
    assert!(error.contains("is no bundle; it is not replaced"), "{error}");
    assert_eq!(fs::read(source.output()).unwrap(), b"a letter");
    assert!(pack(&source.folder(), source.home.path(), PackOptions::default()).is_err());
}

/// Warnings that do not stop the packing.
#[test]
fn doubtful_parts_of_a_manifest_are_warned_about() {
    let source = Source::new(&[]);
    let options = r#""user_config": {
        "key": {"type": "string", "title": "", "description": "", "sensitive": true, "default": "x"},
        "many": {"type": "file", "title": "", "description": "", "multiple": true},
        "size": {"type": "number", "title": "", "description": "", "default": "ten", "min": 3, "max": 2}
    }, "server""#;
    let args = r#""args": ["--key=${user_config.key}", "--many=${user_config.many}", "${user_config.kye}", "#;
    source.write("manifest.json", &MANIFEST.replace("\"server\"", options).replace("\"args\": [", args));
    let packed = source.pack().unwrap();
    let found: Vec<String> = packed.findings.iter().map(ToString::to_string).collect();
    for expected in [
        "user_config.key: a secret is part of the command",
        "user_config.key: a secret has a default",
        "user_config.size: the default does not fit: expected a number",
        "user_config.size: the minimum is above the maximum",
        "`user_config.many` has several values",
        "`user_config.kye` is no variable",
    ] {
        assert!(found.iter().any(|finding| finding.contains(expected)), "{expected}: {found:#?}");
    }
    assert_eq!(found.len(), 6, "{found:#?}");
}

#[test]
fn our_bundles_are_read_by_the_reference_tool_and_its_by_us() {
    let Some(reference) = Reference::installed() else { return };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let big = "0123456789abcdef".repeat(10_000);
    let source = Source::new(&[
        ("bin/run", "#!/bin/sh\n"),
        ("ünï/ä.txt", &big),
        ("empty", ""),
        (".git/x", "x"),
        ("a.map", "x"),
    ]);
    source.write(".mcpbignore", "ignored/\n");
    source.write("ignored/x", "x");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(source.folder().join("bin/run"), fs::Permissions::from_mode(0o750)).unwrap();
    }
    reference.succeeds(&["validate", &text(&source.folder())]);
    source.pack().unwrap();
    let info = reference.succeeds(&["info", &text(&source.output())]);
    assert!(info.contains("demo.mcpb") && info.contains("Not signed"), "{info}");
    // What they unpack of ours, and we of theirs, and each its own.
    let theirs = source.home.path().join("theirs.mcpb");
    reference.succeeds(&["pack", &text(&source.folder()), &text(&theirs)]);
    assert_eq!(names_sorted(&theirs), names(&source.output()));
    let place = |name: &str| source.home.path().join(name);
    reference.succeeds(&["unpack", &text(&source.output()), &text(&place("ours-by-them"))]);
    reference.succeeds(&["unpack", &text(&theirs), &text(&place("theirs-by-them"))]);
    Bundle::open(&source.output()).unwrap().unpack(&place("ours-by-us")).unwrap();
    Bundle::open(&theirs).unwrap().unpack(&place("theirs-by-us")).unwrap();
    for name in names(&source.output()) {
        let original = fs::read(source.folder().join(&name)).unwrap();
        for folder in ["ours-by-them", "theirs-by-them", "ours-by-us", "theirs-by-us"] {
            assert_eq!(fs::read(place(folder).join(&name)).unwrap(), original, "{folder}/{name}");
        }
    }
    #[cfg(unix)]
    for (folder, expected) in
        [("ours-by-them", 0o750), ("theirs-by-them", 0o750), ("ours-by-us", 0o555), ("theirs-by-us", 0o555)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(place(folder).join("bin/run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, expected, "{folder}");
    }
}

fn names_sorted(path: &Path) -> Vec<String> {
    let mut names = names(path);
    names.sort_unstable();
    names
}

/// Manifests of the shapes of the format's own examples, in folders with the files that they name.
#[test]
fn shapes_of_the_examples_are_judged_as_the_reference_tool_does() {
    let Some(reference) = Reference::installed() else { return };
    let server = |kind: &str, file: &str, config: &str| {
        format!(r#""server": {{"type": "{kind}", "entry_point": "{file}"{config}}}"#)
    };
    let run = |program: &str, more: &str| {
        format!(r#", "mcp_config": {{"command": "{program}", "args": ["${{__dirname}}/server/main"{more}]}}"#)
    };
    let folder = r#", "user_config": {"folder": {"type": "directory", "title": "F", "description": "D", "multiple": true, "required": true, "default": []}}"#;
    let cases: Vec<(&str, String, bool)> = vec![
        // An application for one system, with keys of a package file.
        (
            "0.1",
            server("node", "server/main", &run("node", ""))
                + r#", "scripts": {"start": "x"}, "privacy_policies": []"#,
            false,
        ),
        (
            "0.1",
            server("node", "server/main", &run("node", ""))
                + r#", "compatibility": {"platforms": ["darwin"]}"#,
            true,
        ),
        // Python, with a folder inside of an argument.
        (
            "0.1",
            server("python", "server/main", &run("python", r#", "--workspace=${user_config.folder}""#))
                + folder,
            true,
        ),
        ("0.1", server("python", "server/main", &run("python", "")) + r#", "privacy_policies": []"#, false),
        // Folders as arguments, and an id.
        (
            "0.1",
            server("node", "server/main", &run("node", r#", "${user_config.folder}""#))
                + folder
                + r#", "id": "org.x""#,
            false,
        ),
        ("0.2", server("node", "server/main", &run("node", r#", "${user_config.folder}""#)) + folder, true),
        // All that there is.
        (
            "0.3",
            server("node", "server/main", &run("node", ""))
                + folder
                + r#", "icon": "icon.png", "homepage": "https://example.org", "privacy_policies": [], "tools": [{"name": "t", "description": "d"}]"#,
            true,
        ),
        // uv, with and without a command.
        ("0.4", server("uv", "server/main", ""), false),
        ("0.4", server("uv", "server/main", &run("uv", "")), true),
    ];
    for (version, rest, expected) in cases {
        let source = Source::new(&[("server/main", "x"), ("pyproject.toml", "")]);
        fs::write(source.folder().join("icon.png"), b"\x89PNG\r\n\x1a\nmore").unwrap();
        let head = r#""name": "x", "version": "0.1.0", "description": "d", "author": {"name": "a"}"#;
        let manifest = format!(r#"{{"manifest_version": "{version}", {head}, {rest}}}"#);
        source.write("manifest.json", &manifest);
        let theirs = reference.run(&["validate", source.folder().to_str().unwrap()]).status.success();
        let ours = source.pack();
        assert_eq!((ours.is_ok(), theirs), (expected, expected), "{manifest}: {ours:?}");
    }
}
