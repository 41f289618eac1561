//! Repositories that name programs wherever git lets them.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// A repository in which everything that can name a program names one that leaves a mark, and all tools of both kinds.
#[tokio::test]
async fn nothing_that_a_repository_names_is_run() {
    let house = House::new();
    let (mark, script) = (house.at("mark"), house.at("evil.sh"));
    fs::write(&script, format!("#!/bin/sh\necho \"$0 $*\" >> {mark}\ncat\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let hooks = [
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "pre-auto-gc",
        "post-rewrite",
        "fsmonitor-watchman",
        "post-merge",
    ];
    for folder in [".git/hooks", "hooks"] {
        for hook in hooks {
            house.write(&format!("served/code/{folder}/{hook}"), "");
            fs::remove_file(house.at(&format!("served/code/{folder}/{hook}"))).unwrap();
            std::os::unix::fs::symlink(&script, house.at(&format!("served/code/{folder}/{hook}"))).unwrap();
        }
    }
    // Their links lead out; a copy does as well.
    for hook in hooks {
        let file = house.at(&format!("served/code/.git/hooks/{hook}"));
        fs::remove_file(&file).unwrap();
        fs::copy(&script, &file).unwrap();
    }
    house.git("served/code", &["branch", "other"]);
    house.write(
        "served/code/.gitattributes",
        "*.txt filter=evil diff=evil merge=evil\n*.odd filter=a=b.c diff=a=b.c\n*.lower filter=lower\n",
    );
    for file in ["x.odd", "x.lower", "x.txt"] {
        house.write(&format!("served/code/{file}"), "one\n");
    }
    house.git("served/code", &["add", "."]);
    house.git("served/code", &["commit", "--quiet", "--no-verify", "--message=Attributes"]);
    // A submodule with a configuration of its own.
    house.git("elsewhere", &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let source = house.at("elsewhere");
    house.git(
        "served/code",
        &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &source, "sub"],
    );
    house.git("served/code", &["commit", "--quiet", "--no-verify", "--message=Submodule"]);
    let sub = house.at("served/code/.git/modules/sub/config");
    let evil = |more: &str| {
        format!(
            "[core]\n fsmonitor = {script}\n pager = {script}\n editor = {script}\n sshCommand = {script}\n gitProxy = {script}\n \
             askPass = {script}\n alternateRefsCommand = {script}\n hooksPath = hooks\n\
             [diff]\n external = {script}\n submodule = diff\n ignoreSubmodules = none\n\
             [diff \"evil\"]\n command = {script}\n textconv = {script}\n[diff \"a=b.c\"]\n command = {script}\n textconv = {script}\n\
             [filter \"evil\"]\n clean = {script}\n smudge = {script}\n required = true\n\
             [filter \"a=b.c\"]\n process = {script}\n required\n[FILTER \"lower\"]\n CLEAN = {script}\n\
             [merge \"evil\"]\n driver = {script}\n\
             [alias]\n status = !{script}\n log = !{script}\n diff = !{script}\n rev-parse = !{script}\n\
             [gpg]\n program = {script}\n format = ssh\n[gpg \"ssh\"]\n program = {script}\n defaultKeyCommand = {script}\n\
             [gpg \"openpgp\"]\n program = {script}\n[log]\n showSignature = true\n[commit]\n gpgSign = true\n verbose = true\n\
             [tag]\n gpgSign = true\n[credential]\n helper = !{script}\n[sequence]\n editor = {script}\n\
             [status]\n submoduleSummary = true\n[submodule]\n recurse = true\n[submodule \"sub\"]\n ignore = none\n update = !{script}\n\
             [hook \"x\"]\n command = {script}\n event = pre-commit\n event = post-index-change\n\
             [pager]\n status = {script}\n log = {script}\n diff = {script}\n show = {script}\n blame = {script}\n\
             [trailer \"x\"]\n command = {script}\n cmd = {script}\n[interactive]\n diffFilter = {script}\n\
             [gc]\n auto = 1\n autoDetach = false\n[maintenance]\n auto = true\n\
             [protocol]\n allow = always\n[protocol \"ext\"]\n allow = always\n[protocol \"file\"]\n allow = always\n\
             [remote \"origin\"]\n url = ext::{script}\n promisor = true\n partialclonefilter = blob:none\n uploadpack = {script}\n\
             {more}"
        )
    };
    let own = house.at("served/code/.git/config");
    let before = fs::read_to_string(&own).unwrap();
    fs::write(&own, before + &evil("")).unwrap();
    fs::write(&sub, fs::read_to_string(&sub).unwrap() + &evil("")).unwrap();
    // Everything has to be looked at anew.
    for file in ["a.txt", "x.odd", "x.lower", "x.txt", "docs/b.txt", "sub/secret.txt"] {
        house.write(&format!("served/code/{file}"), "two\n");
    }
    // The hooks were there while it was made.
    fs::remove_file(&mark).unwrap();
    let server = house.writing();
    for (tool, arguments) in [
        ("status", json!({})),
        ("diff", json!({})),
        ("diff", json!({ "summary": true })),
        ("diff", json!({ "staged": true })),
        ("diff", json!({ "from": "HEAD~1" })),
        ("diff", json!({ "from": "HEAD~2", "to": "HEAD" })),
        ("log", json!({ "paths": ["a.txt"] })),
        ("log", json!({})),
        ("show", json!({})),
        ("show", json!({ "revision": "HEAD~2" })),
        ("show", json!({ "path": "a.txt" })),
        ("blame", json!({ "path": "a.txt" })),
        ("branches", json!({ "remote": true })),
        ("create_branch", json!({ "name": "topic" })),
        ("reset", json!({})),
    ] {
        let result = call(&server, tool, code(arguments.clone())).await;
        assert_eq!(result.get("isError"), None, "{tool} {arguments}: {result}");
        assert!(!Path::new(&mark).exists(), "{tool} {arguments}: {}", fs::read_to_string(&mark).unwrap());
    }
    // Without its filter the wrong thing would be stored.
    for paths in [json!(["a.txt"]), json!(["x.odd"]), json!(["."])] {
        let why = refusal(&server, "add", code(json!({ "paths": paths }))).await;
        assert!(why.contains("use a filter"), "{why}");
    }
    house.write("served/code/plain.md", "plain\n");
    done(&server, "add", code(json!({ "paths": ["plain.md"] }))).await;
    done(&server, "commit", code(json!({ "message": "Plain" }))).await;
    for file in ["a.txt", "x.odd", "x.lower", "x.txt", "docs/b.txt"] {
        fs::remove_file(house.at(&format!("served/code/{file}"))).unwrap();
    }
    let _ = call(&server, "switch", code(json!({ "branch": "other" }))).await;
    let _ = call(&server, "switch", code(json!({ "branch": "main" }))).await;
    assert!(!Path::new(&mark).exists(), "{}", fs::read_to_string(&mark).unwrap());
    // And this is what a plain git does there.
    let _ = house.command("served/code", &["status"]).output().unwrap();
    assert!(Path::new(&mark).exists(), "the repository is not hostile at all");
}

/// Objects that are missing in a partial clone would be fetched by a program that the repository names.
#[tokio::test]
async fn what_is_missing_is_not_fetched() {
    let house = House::new();
    let (mark, script) = (house.at("mark"), house.at("evil.sh"));
    fs::write(&script, format!("#!/bin/sh\necho ran >> {mark}\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let blob = house.git("served/code", &["rev-parse", "HEAD:a.txt"]);
    fs::remove_file(house.at(&format!("served/code/.git/objects/{}/{}", &blob[..2], &blob[2..]))).unwrap();
    for (name, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", &format!("ext::{script}")),
        ("remote.origin.promisor", "true"),
        ("protocol.ext.allow", "always"),
    ] {
        house.git("served/code", &["config", name, value]);
    }
    let server = house.reading();
    for (tool, arguments) in
        [("show", json!({})), ("show", json!({ "path": "a.txt" })), ("blame", json!({ "path": "a.txt" }))]
    {
        let _ = call(&server, tool, code(arguments)).await;
        assert!(!Path::new(&mark).exists(), "{tool}");
    }
    let _ = house.command("served/code", &["cat-file", "-p", "HEAD:a.txt"]).output().unwrap();
    assert!(Path::new(&mark).exists(), "the repository is not hostile at all");
}

#[tokio::test]
async fn names_are_never_options() {
    let house = House::new();
    let server = house.writing();
    let out = house.at("out");
    let option = format!("--output={out}");
    for revision in ["--help", &option, "-O/etc/passwd", "", "HEAD\n--all", "HEAD --all", &"x".repeat(600)] {
        for (tool, arguments) in [
            ("diff", json!({ "from": revision })),
            ("diff", json!({ "from": "HEAD", "to": revision })),
            ("log", json!({ "revision": revision })),
            ("log", json!({ "without": revision })),
            ("show", json!({ "revision": revision })),
            ("blame", json!({ "path": "a.txt", "revision": revision })),
            ("create_branch", json!({ "name": "b", "start": revision })),
            ("create_branch", json!({ "name": revision })),
            ("switch", json!({ "branch": revision })),
        ] {
            refusal(&server, tool, code(arguments)).await;
        }
    }
    for path in ["../code/a.txt", "/etc/passwd", "docs/../../x", "", "a\0b"] {
        for (tool, arguments) in [
            ("diff", json!({ "paths": [path] })),
            ("diff", json!({ "paths": [path, "/etc/hosts"] })),
            ("show", json!({ "path": path })),
            ("blame", json!({ "path": path })),
            ("add", json!({ "paths": [path] })),
            ("reset", json!({ "paths": [path] })),
        ] {
            let why = refusal(&server, tool, code(arguments)).await;
            assert!(why.contains("is not a path in the repository"), "{tool} {path}: {why}");
        }
    }
    // Names that look like options, or like git's own patterns, are names.
    for name in [option.as_str(), "--all", ":(exclude)a.txt", "*"] {
        let found = done(&server, "log", code(json!({ "paths": [name] }))).await;
        assert_eq!(found["commits"], json!([]), "{name}");
        done(&server, "log", code(json!({ "author": name, "message": name }))).await;
    }
    assert!(!Path::new(&out).exists());
}

/// Files outside are neither read for names of people, nor is it told what is in them.
#[tokio::test]
async fn files_outside_are_not_read_by_way_of_the_configuration() {
    let house = House::new();
    house.write("people", "Secret Name <secret@example.org> <ada@example.org>\n");
    house.git("served/code", &["config", "mailmap.file", &house.at("people")]);
    let server = house.reading();
    let said = text(&server, "blame", code(json!({ "path": "a.txt" }))).await;
    assert!(said.contains("Ada") && !said.contains("Secret"), "{said}");
    assert!(house.git("served/code", &["blame", "a.txt"]).contains("Secret"), "nothing would be read");
    let config = house.at("served/code/.git/config");
    let before = fs::read_to_string(&config).unwrap();
    house.write("prose", "hunter2 is no configuration\n");
    house.write(
        "number",
        "[pack]\n threads = hunter2\n[core]\n bigFileThreshold = hunter2\n filemode = hunter2\n",
    );
    house.write("loop", &format!("[include]\n path = {}\n", house.at("loop")));
    let mut said = Vec::new();
    for file in ["prose", "number", "loop"] {
        fs::write(&config, format!("{before}[include]\n path = {}\n", house.at(file))).unwrap();
        let why = refusal(&server, "status", code(json!({}))).await;
        assert!(!why.contains(&house.at(file)) && !why.contains("hunter2"), "{why}");
        said.push(why);
    }
    assert!(said.iter().all(|why| why.contains("configuration cannot be read")), "{said:?}");
}
