//! Tests of profiles.

use super::*;

const SERVERS: &str = "
[servers.github]
command = 'github'
env = { TOKEN = '${secret:gh}' }
[servers.files]
builtin = 'files'
[servers.mail]
command = 'mail'
enabled = false
";

fn with_secrets(text: &str) -> Result<HostConfig, ConfigErrors> {
    let look_up = |name: &str| match name {
        "gh" | "gh.work" => Ok(Some(format!("value of {name}"))),
        _ => Ok(None),
    };
    loader().secrets(look_up).keep_going(true).parse("/c/h.toml", &format!("{SERVERS}{text}"))
}

fn found(text: &str) -> Vec<String> {
    let text = format!("[servers.github]\ncommand = 'g'\n[servers.files]\nbuiltin = 'files'\n{text}");
    errors("/c/h.toml", &text)
}

#[test]
fn a_profile_narrows_servers_and_tools() {
    let text = "
        [profiles.work]
        title = 'Work'
        description = 'Issues and notes'
        servers = ['github', 'files']
        tools.github = { include = ['read_*'], exclude = ['read_all'] }
        groups = ['finance', 'it']
        [profiles.home]
        exclude = ['mail']
        [profiles.all]
    ";
    let config = with_secrets(text).unwrap();
    let [all, home, work] = ["all", "home", "work"].map(|name| config.profile(name).unwrap());
    assert_eq!(
        (work.title.as_deref(), work.description.as_deref()),
        (Some("Work"), Some("Issues and notes"))
    );
    for (server, shown) in [("github", [true, true, true]), ("mail", [true, false, false])] {
        assert_eq!([all, home, work].map(|profile| profile.includes(server)), shown, "{server}");
    }
    let tools = &work.tools["github"];
    assert!(tools.allows("read_one") && !tools.allows("read_all") && !tools.allows("write"));
    assert!(work.names("github") && !work.names("mail") && home.names("mail"));
    assert!(config.profile_servers.is_empty());
    for (groups, admits) in [(&["it"][..], true), (&["x", "finance"], true), (&["It"], false), (&[], false)] {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        assert_eq!(work.admits(&groups), admits, "{groups:?}");
        assert!(home.admits(&groups), "{groups:?}");
    }
}

#[test]
fn mistakes_in_profiles_are_named_with_their_lines() {
    for (text, expected) in [
        (
            "[profiles.work]\nservers = ['githb']",
            "/c/h.toml:6:12: `profiles.work.servers[0]`: expected the name of a configured server; did you mean `github`?",
        ),
        (
            "[profiles.work]\nexclude = ['zzzzzz']",
            "/c/h.toml:6:12: `profiles.work.exclude[0]`: expected the name of a configured server; known: github, files",
        ),
        (
            "[profiles.work]\nservers = ['files']\ntools.github = {}",
            "/c/h.toml:7:7: `profiles.work.tools.github`: expected the name of a server that the profile shows; known: files",
        ),
        (
            "[profiles.work]\ngroups = []",
            "/c/h.toml:6:1: `profiles.work.groups`: expected 1 to 64 names of groups",
        ),
        (
            "[profiles.work]\ngroups = 'it'",
            "/c/h.toml:6:10: `profiles.work.groups`: expected an array, found a string",
        ),
        (
            "[profiles.work]\nservers = ['files', 'files']",
            "/c/h.toml:6:21: `profiles.work.servers[1]`: expected each server once",
        ),
        (
            "[profiles.work]\nservers = ['files']\nexclude = ['files']",
            "/c/h.toml:7:12: `profiles.work.exclude[0]`: expected a server that `servers` does not list",
        ),
        (
            "[profiles.'My Work']",
            "/c/h.toml:5:11: `profiles.My Work`: expected a name of 1 to 32 lower-case letters, digits, `-` and `_`, \
             with a letter or a digit first and last, and no `__`; for example `my-work`",
        ),
        (
            "[profiles.files]",
            "/c/h.toml:5:11: profile `files` has the name of a server, whose own endpoint has the same path; rename the profile",
        ),
        (
            "[profiles.work]\nserver = []",
            "/c/h.toml:6:1: unknown key `profiles.work.server`; did you mean `servers`?",
        ),
        (
            "[profiles.work]\nservers = 'files'",
            "/c/h.toml:6:11: `profiles.work.servers`: expected an array, found a string",
        ),
        (
            "[profiles.work]\nsecrets = { 'a b' = 'c' }",
            "/c/h.toml:6:13: `profiles.work.secrets.a b`: expected the name of a secret: letters, digits, `.`, `_` and `-`",
        ),
        (
            "[profiles.work]\ntitle = \"a\\nb\"",
            "/c/h.toml:6:9: `profiles.work.title`: expected a text of at most 128 bytes on one line",
        ),
    ] {
        assert_eq!(found(text), [expected], "{text}");
    }
    for name in ["..", "a/b", "", "-a", "A", "ä", "a.b", "a__b", "a_", &"a".repeat(33)] {
        assert!(!is_profile_name(name), "{name}");
        assert_eq!(found(&format!("[profiles.'{name}']")).len(), 1, "{name}");
    }
    let many: String = (0..=MAX_PROFILES).map(|number| format!("[profiles.p{number}]\n")).collect();
    assert!(found(&many)[0].ends_with("`profiles`: expected at most 64 profiles"));
}

#[test]
fn a_profile_may_name_servers_of_other_files_and_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let own = write("h.toml", "[profiles.work]\nservers = ['a']\n");
    let other = write("mcp.json", r#"{ "mcpServers": { "a": { "command": "x" } } }"#);
    let config = loader().load([&own, &other]).unwrap();
    assert!(config.profile("work").unwrap().includes("a"));
    let again = write("more.toml", "[profiles.work]\n");
    let errors = loader().load([&own, &other, &again]).unwrap_err().to_string();
    assert!(errors.contains("more.toml:1:11: profile `work` is already described in"), "{errors}");
}

#[test]
fn a_server_with_other_secrets_runs_for_its_profile_alone() {
    let text = "
        [profiles.work]
        servers = ['github', 'files']
        secrets = { gh = 'gh.work' }
        [profiles.play]
        servers = ['files']
        secrets = { gh = 'gh.work' }
    ";
    let config = with_secrets(text).unwrap();
    let [server] = config.profile_servers.as_slice() else { panic!("{config:?}") };
    assert_eq!((server.name.as_str(), server.label().as_str()), ("github", "github (profile work)"));
    let token = |server: &ServerConfig| match &server.transport {
        ServerTransport::Stdio(stdio) => stdio.env["TOKEN"].reveal().to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(token(server), "value of gh.work");
    assert_eq!(token(config.server("github").unwrap()), "value of gh");
    assert_eq!(config.profile("work").unwrap().own_servers, ["github"]);
    assert!(config.profile("play").unwrap().own_servers.is_empty());
}

/// A profile without its secret must not get the one that the others use.
#[test]
fn a_missing_secret_of_a_profile_leaves_its_server_out() {
    let config = with_secrets("[profiles.work]\nsecrets = { gh = 'gone', nobody = 'gh' }").unwrap();
    assert!(config.profile_servers.is_empty());
    assert_eq!(config.profile("work").unwrap().own_servers, ["github"]);
    let [rejected] = config.rejected.as_slice() else { panic!("{config:?}") };
    assert_eq!(rejected.name, "github (profile work)");
    let why = rejected.errors.to_string();
    assert!(why.contains("the secret `gone` is not stored; `hospes secret set gone`"), "{why}");
    assert!(warnings(&config)[0].contains("the secret `nobody` is replaced, but no server refers to it"));
    // The server of everybody lacks its own secret, and may still run from before.
    let text = "[servers.a]\ncommand = 'a'\nenv = { T = '${secret:none}' }\n[profiles.work]\nsecrets = { none = 'gone' }";
    let config = with_secrets(text).unwrap();
    assert_eq!(config.profile("work").unwrap().own_servers, ["a"]);
}

/// A mistake in an entry is no reason to hide the server that runs from a profile that uses the same secrets.
#[test]
fn only_a_rejected_entry_with_a_replaced_secret_is_of_the_profile() {
    for (entry, own) in [
        ("command = 3", &["github"][..]),
        ("command = 3\nenv = { T = '${secret:other}' }", &["github"]),
        ("command = 3\nenv = { T = 'a ${secret:gh}' }", &["bad", "github"]),
        ("command = 3\nargs = ['$${secret:gh}']", &["github"]),
    ] {
        let config = with_secrets(&format!(
            "[servers.bad]\n{entry}\n[profiles.work]\nsecrets = {{ gh = 'gh.work' }}\n"
        ));
        let mut found = config.unwrap().profile("work").unwrap().own_servers.clone();
        found.sort();
        assert_eq!(found, own, "{entry}");
    }
}

#[test]
fn secrets_of_users_with_accounts_are_not_replaced() {
    let text = "[servers.web]\nurl = 'https://e.com'\naccount = 'per-user'\nclient_id = 'i'\nclient_secret = '${secret:gh}'\n\
        [profiles.work]\nsecrets = { gh = 'gh.work' }";
    let errors = with_secrets(text).unwrap_err().to_string();
    assert!(errors.contains("profile `work` cannot replace secrets of the server `web`"), "{errors}");
}
