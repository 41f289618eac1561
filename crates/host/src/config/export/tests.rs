use super::super::applications::{APPLICATIONS, Application};
use super::super::{ConfigLoader, HostConfig};
use super::*;

const OWN: &str = r#"
[servers.github]
command = ["npx", "-y", "github mcp", "--x=${HOST}"]
env = { TOKEN = "${secret:github.TOKEN}", LOG = "${LOG}", MODE = "a \"b\"" }
[servers.web]
url = "https://e.com/mcp"
headers = { Authorization = "Bearer ${secret:web.Authorization}", X-A = "1" }
[servers.time]
builtin = "time"
"#;

fn own(text: &str) -> Vec<ServerConfig> {
    ConfigLoader::new().keep_references(true).parse("/c/config.toml", text).unwrap().servers
}

fn export(id: &str, text: &str) -> ExportedServers {
    let shape = &Application::find(id).unwrap().shape;
    export_servers(&own(text), shape, Path::new("/bin/hospes"), None).unwrap()
}

/// Reads an exported text as the application's file, with values for all variables.
fn read(application: &Application, text: &str) -> HostConfig {
    let file = match (application.id, application.shape.format) {
        ("gemini", _) => "/h/.gemini/settings.json",
        ("antigravity", _) => "/h/.gemini/config/mcp_config.json",
        ("crush", _) => "/h/crush.json",
        ("opencode" | "opencode2", _) => "/h/opencode.json",
        ("continue", _) => "/h/.continue/config.yaml",
        (_, FileFormat::Json) => "/h/mcp.json",
        (_, FileFormat::Yaml) => "/h/config.yaml",
        (_, FileFormat::Toml) => "/h/.codex/config.toml",
    };
    let loader = ConfigLoader::new().variables(|name| match name {
        "TOKEN" | "HOSPES_INPUT_TOKEN" => Some("t".to_owned()),
        "AUTHORIZATION" | "HOSPES_INPUT_AUTHORIZATION" => Some("a".to_owned()),
        "HOST" => Some("h".to_owned()),
        "LOG" => Some("l".to_owned()),
        _ => None,
    });
    loader.parse(file, text).unwrap_or_else(|errors| panic!("{}: {errors}\n{text}", application.id))
}

#[test]
fn every_application_reads_what_is_exported_for_it() {
    for application in APPLICATIONS {
        let exported = export(application.id, OWN);
        let config = read(application, &exported.text);
        let has_http = application.shape.http.is_some();
        let names: Vec<_> = config.servers.iter().map(|server| server.name.as_str()).collect();
        let expected: &[&str] = if has_http { &["github", "web", "time"] } else { &["github", "time"] };
        assert_eq!(names, expected, "{}\n{}", application.id, exported.text);
        assert!(config.warnings.is_empty(), "{}: {:?}\n{}", application.id, config.warnings, exported.text);
        let has_references = application.shape.variables != VariableSyntax::None;
        let ServerTransport::Stdio(stdio) = &config.server("github").unwrap().transport else { panic!() };
        let args: Vec<_> = stdio.args.iter().map(ExpandedText::reveal).collect();
        let host = if has_references { "--x=h" } else { "--x=<HOST>" };
        assert_eq!(args, ["-y", "github mcp", host], "{}", application.id);
        let (token, log) = match has_references {
            true => ("t", "l"),
            false if application.id == "codex" => ("<TOKEN>", "l"),
            false => ("<TOKEN>", "<LOG>"),
        };
        let env: Vec<_> = stdio.env.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        assert_eq!(env, [("LOG", log), ("MODE", "a \"b\""), ("TOKEN", token)], "{}", application.id);
        if has_http {
            let ServerTransport::Http(http) = &config.server("web").unwrap().transport else { panic!() };
            let bearer = if has_references { "Bearer a" } else { "Bearer <AUTHORIZATION>" };
            assert_eq!(http.headers[0].1.reveal(), bearer, "{}", application.id);
            assert_eq!(http.headers[1].1.reveal(), "1", "{}", application.id);
        }
        assert_eq!(exported.variables["TOKEN"], "github.TOKEN");
        assert!(!exported.has_secrets);
    }
}

#[test]
fn a_variable_of_the_configuration_stands_for_no_secret() {
    let text = "[servers.a]\ncommand = ['x']\nenv = { K = '${API_KEY}' }\n\
                [servers.b]\ncommand = ['y']\nenv = { API_KEY = '${secret:b.API_KEY}' }\n";
    let exported = export("cursor", text);
    assert!(exported.text.contains("\"K\": \"${env:API_KEY}\""), "{}", exported.text);
    assert!(exported.text.contains("\"API_KEY\": \"${env:B_API_KEY}\""), "{}", exported.text);
    assert_eq!(exported.variables["B_API_KEY"], "b.API_KEY");
}

/// What is exported is read as the same times; of the rest a warning names each.
#[test]
fn timeouts_are_exported_where_the_application_has_them() {
    let text = "[servers.a]\ncommand = ['x']\nrequest_timeout = '90s'\nconnect_timeout = '12.5s'\n";
    for application in APPLICATIONS {
        let exported = export(application.id, text);
        let read = read(application, &exported.text);
        let times = &read.server("a").unwrap().timeouts;
        let omitted = |key: &str| exported.omitted.iter().any(|(_, reason)| reason.contains(key));
        let (own, seconds) =
            (&own(text)[0].timeouts, |time: &Option<Duration>| time.map(|time| time.as_secs_f64()));
        for (key, is, was) in [
            ("connect_timeout", &times.connect, &own.connect),
            ("request_timeout", &times.request, &own.request),
        ] {
            let expected = if omitted(key) { None } else { seconds(was) };
            assert_eq!(seconds(is), expected, "{} {key}\n{}", application.id, exported.text);
        }
        let is_complete = ["codex", "opencode2"].contains(&application.id);
        assert_eq!(exported.omitted.is_empty(), is_complete, "{}", application.id);
    }
}

#[test]
fn secrets_are_written_on_request_only() {
    let shape = &Application::find("claude-desktop").unwrap().shape;
    let servers = own(OWN);
    let reveal = |name: &str| Ok(format!("value of {name}"));
    let exported = export_servers(&servers, shape, Path::new("/bin/hospes"), Some(&reveal)).unwrap();
    assert!(exported.has_secrets && exported.text.contains("value of github.TOKEN"));
    let missing = |name: &str| Err(format!("{name} is not stored"));
    let failure = export_servers(&servers, shape, Path::new("/bin/hospes"), Some(&missing)).unwrap_err();
    assert_eq!(failure, "github.TOKEN is not stored");
}

#[test]
fn secrets_in_the_configuration_itself_are_written_on_request_only() {
    let own = own(r#"
[servers.a]
command = ["x", "--api-key", "hunter2", "postgresql://app:hunter3@db/x"]
env = { TOKEN = "hunter4", MODE = "plain" }
[servers.b]
url = "https://u:hunter5@e.com/mcp?api_key=hunter6"
headers = { Authorization = "Bearer hunter7", X-A = "1" }
"#);
    for application in APPLICATIONS {
        let shape = &application.shape;
        let exported = export_servers(&own, shape, Path::new("/bin/hospes"), None).unwrap();
        assert!(!exported.text.contains("hunter"), "{}\n{}", application.id, exported.text);
        assert!(exported.text.contains("plain") && !exported.has_secrets, "{}", exported.text);
        assert!(exported.variables.values().any(|name| name == "a.TOKEN"), "{:?}", exported.variables);
        let reveal = |name: &str| Err(format!("{name} is not stored"));
        let exported = export_servers(&own, shape, Path::new("/bin/hospes"), Some(&reveal)).unwrap();
        let count = if shape.http.is_some() { 6 } else { 3 };
        assert_eq!(exported.text.matches("hunter").count(), count, "{}", exported.text);
        assert!(exported.has_secrets);
    }
}

#[test]
fn what_an_application_cannot_have_is_named() {
    let text = r#"
[servers.off]
command = ["x"]
enabled = false
[servers.confined]
command = ["x"]
sandbox = { network = "none" }
[servers.literal]
command = ["x", "$${HOME}"]
[servers.file]
command = ["x", "${file:/k}"]
[servers.web]
url = "https://e.com"
transport = "sse"
[servers.tools]
command = ["x"]
cwd = "/w"
tools = { exclude = ["y"] }
"#;
    let exported = export("goose", text);
    let omitted: Vec<_> = exported.omitted.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(omitted, ["confined", "literal", "file", "web", "tools", "tools"]);
    assert!(
        exported.text.contains("\"off\":") && exported.text.contains("enabled: false"),
        "{}",
        exported.text
    );
    let exported = export("cursor", text);
    assert!(exported.omitted[0].1.contains("disabled"), "{:?}", exported.omitted);
    assert!(!exported.text.contains("off"));
}

#[test]
fn variables_of_secrets_are_unique() {
    let taken = BTreeMap::from([("TOKEN".to_owned(), "a.TOKEN".to_owned())]);
    assert_eq!(variable_name("a.TOKEN", &taken, &BTreeSet::new()), "TOKEN");
    assert_eq!(variable_name("b.TOKEN", &taken, &BTreeSet::new()), "B_TOKEN");
    assert_eq!(variable_name("9", &BTreeMap::new(), &BTreeSet::new()), "_9");
}
