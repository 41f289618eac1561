//! Tests of sandbox settings.

use hospes_sandbox::{SandboxFiles, SandboxKind, SandboxNetwork, SandboxProfile};

use super::*;

#[test]
fn what_a_server_may_touch_is_read() {
    let text = r#"
        [servers.a]
        command = "sh"
        roots = ["~/notes", "here", "${DIR}"]
        [servers.a.sandbox]
        kind = "landlock"
        network = "none"
        environment = ["PATH", "LANG"]
        files = { read = ["~/.npm", "/usr/share"], write = ["${DIR}/out", "out"] }
        [servers.b]
        command = "sh"
        sandbox = { files = {} }
        [servers.c]
        command = "sh"
    "#;
    let config = parse("/etc/hospes/hospes.toml", text);
    let server = config.server("a").unwrap();
    let files = SandboxFiles::new()
        .read("/home/me/.npm")
        .read("/usr/share")
        .write("/a b/out")
        .write("/etc/hospes/out");
    let profile = SandboxProfile::new()
        .with_kind(SandboxKind::Landlock)
        .with_network(SandboxNetwork::None)
        .with_files(files);
    assert_eq!(server.sandbox.profile, profile);
    assert_eq!(server.sandbox.environment.as_deref().unwrap(), ["PATH", "LANG"]);
    let roots = ["/home/me/notes", "/etc/hospes/here", "/a b"].map(PathBuf::from);
    assert_eq!(server.roots.as_deref().unwrap(), roots);
    // To grant nothing is something else than to say nothing.
    assert_eq!(config.server("b").unwrap().sandbox.profile.files, Some(SandboxFiles::new()));
    assert_eq!(config.server("c").unwrap().sandbox, SandboxConfig::default());
    assert_eq!(config.server("c").unwrap().roots, None);
}

#[test]
fn mistakes_about_it_are_said() {
    for (text, said) in [
        (
            "sandbox = { kind = 'bublewrap' }",
            "`sandbox.kind` of server `a`: expected `auto`, `bubblewrap`, `landlock`, `off`; did you mean `bubblewrap`?",
        ),
        (
            "sandbox = { network = true }",
            "`sandbox.network` of server `a`: expected a string, found a boolean",
        ),
        ("sandbox = { file = {} }", "unknown key `sandbox.file` of server `a`; did you mean `files`?"),
        ("sandbox = { files = ['/x'] }", "`sandbox.files` of server `a`: expected a table, found an array"),
        (
            "sandbox = { files = { reads = [] } }",
            "unknown key `sandbox.files.reads` of server `a`; did you mean `read`?",
        ),
        (
            "sandbox = { files = { read = '/x' } }",
            "`sandbox.files.read` of server `a`: expected an array, found a string",
        ),
        (
            "sandbox = { environment = ['A=b'] }",
            "`sandbox.environment[0]` of server `a`: expected a name without `=` and white space",
        ),
        (
            "sandbox = { kind = 'off', network = 'none' }",
            "server `a` has `sandbox.kind` = `off` and `sandbox.files` or `sandbox.network`, which exclude each other",
        ),
        ("roots = '/x'", "`roots` of server `a`: expected an array, found a string"),
    ] {
        let text = format!("[servers.a]\ncommand = \"sh\"\n{text}\n");
        let errors = errors("/c/hospes.toml", &text);
        assert!(errors.len() == 1 && errors[0].ends_with(said), "{text}: {errors:?}");
    }
    let url = errors(
        "/c/hospes.toml",
        "[servers.a]\nurl = \"https://e.com/mcp\"\nsandbox = { network = \"none\" }\n",
    );
    assert!(url[0].contains("has `url` and `sandbox`, which exclude each other"), "{url:?}");
}

/// A file from elsewhere may set variables that load another library first.
#[test]
fn variables_that_load_code_are_pointed_out_in_others_files() {
    let text = r#"{"mcpServers": {"a": {"command": "npx", "args": ["x"], "env": {"NODE_OPTIONS": "--require /tmp/x.js", "LANG": "C"}}}}"#;
    let config = parse("/p/.mcp.json", text);
    let warnings = warnings(&config);
    assert!(
        warnings.len() == 1 && warnings[0].contains("server `a`: `NODE_OPTIONS` decides which code"),
        "{warnings:?}"
    );
    assert!(!warnings[0].contains("/tmp/x.js"), "{warnings:?}");
    assert_eq!(stdio(&config, "a").loader_variables().collect::<Vec<_>>(), ["NODE_OPTIONS"]);
    let own = parse("/c/hospes.toml", "[servers.a]\ncommand = \"npx\"\nenv = { LD_PRELOAD = \"/x.so\" }\n");
    assert!(own.warnings.is_empty(), "{:?}", own.warnings);
    assert_eq!(stdio(&own, "a").loader_variables().collect::<Vec<_>>(), ["LD_PRELOAD"]);
}
