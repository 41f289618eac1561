//! Profiles that are listed, saved and deleted.

use std::path::{Path, PathBuf};

use super::*;
use crate::{ConfigFile, ConsoleEnvironment};

const FILE: &str = "# mine\n[servers.notes]\nbuiltin = \"notes\" # these\n\n[profiles.work] # w\nservers = [\"notes\"]\n\
    secrets = { a = \"b\" }\n";

/// A console over a host whose configuration is in a file.
struct Office {
    host: Host,
    audit: AuditLog,
    listening: ConsoleServer,
    file: PathBuf,
    folder: TempDir,
}

impl Office {
    async fn open() -> Self {
        Self::open_beside("").await
    }

    /// Opens a console over a host that has also loaded another file with this text.
    async fn open_beside(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("config.toml"), folder.path().join("more.toml"));
        std::fs::write(&file, FILE).unwrap();
        std::fs::write(&other, more).unwrap();
        let audit = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
        let guard = PolicyEnforcer::new(None).with_audit(audit.clone());
        let config = ConfigLoader::new().load([&file, &other]).unwrap();
        let notes = |_: &str, _: &[String]| Ok(hospes::BoxService::new(notes()));
        let host = Host::builder(config).builtins(Arc::new(notes)).guard(Arc::new(guard)).start().unwrap();
        let replace = |file: &Path, before: &str, after: &str| {
            assert_eq!(std::fs::read_to_string(file).unwrap(), before);
            std::fs::write(file, after).map_err(|error| error.to_string())
        };
        let environment = ConsoleEnvironment::default()
            .endpoint("http://127.0.0.1:1/mcp")
            .config(ConfigFile::new(&file, Arc::new(replace)));
        let deciders = DeciderSettings::new(DecisionSource::Browser);
        let console = Console::in_environment(&host, SessionLifetimes::default(), deciders, environment);
        let listening = console.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self { host, audit, listening, file, folder }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }

    /// Follows the file, as the program does.
    async fn reload(&self) {
        let config = ConfigLoader::new().load([&self.file]).unwrap();
        self.host.update_servers(config).await.unwrap();
    }
}

#[tokio::test]
async fn profiles_are_saved_in_the_file_and_deleted_from_it() {
    let office = Office::open().await;
    let browser = let_in(&office.listening).await;
    let list = browser.get("/api/profiles").await.json();
    let work = &list["profiles"][0];
    assert_eq!((&work["name"], &work["shown"]), (&json!("work"), &json!(["notes"])), "{list}");
    assert_eq!(
        (&work["endpoint"], &work["isWritable"]),
        (&json!("http://127.0.0.1:1/mcp/work"), &json!(true))
    );
    assert_eq!(
        (&list["servers"], &list["file"]),
        (&json!(["notes"]), &json!(office.file.display().to_string()))
    );

    let body = json!({ "title": "Work", "servers": null, "tools": { "notes": { "include": null, "exclude": ["write"] } } });
    assert_eq!(browser.post("/api/profiles/work", body).await.status, 200);
    let expected = FILE.replace(
        "servers = [\"notes\"]\nsecrets = { a = \"b\" }\n",
        "secrets = { a = \"b\" }\ntitle = \"Work\"\ntools.notes = { exclude = [\"write\"] }\n",
    );
    assert_eq!(office.text(), expected);
    office.reload().await;
    let body = json!({ "isNew": true, "servers": ["notes"] });
    assert_eq!(browser.post("/api/profiles/play", body.clone()).await.status, 200);
    assert!(office.text().starts_with(&expected), "{}", office.text());
    office.reload().await;
    assert!(office.host.gateway_of_profile("play").is_some());
    let again = browser.post("/api/profiles/play", body).await;
    assert!(again.body.contains("there is a profile `play` already"), "{again:?}");
    assert_eq!(browser.post("/api/profiles/play/remove", json!({})).await.status, 200);
    assert_eq!(office.text().trim_end(), expected.trim_end());
    let recorded = office.audit.search(hospes_store::AuditQuery::new()).await.unwrap();
    let recorded = recorded.iter().filter(|one| one.entry.subject.as_deref() == Some("profile play"));
    let decisions: Vec<_> = recorded.filter_map(|one| one.entry.decision.clone()).collect();
    assert_eq!(decisions, ["remove", "save"]);
}

#[tokio::test]
async fn a_profile_that_cannot_be_recorded_is_not_saved() {
    let office = Office::open().await;
    let browser = let_in(&office.listening).await;
    let broken = BrokenAudit::new(&office.folder);
    let body = json!({ "isNew": true, "servers": ["notes"] });
    for (path, body) in [("/api/profiles/play", body.clone()), ("/api/profiles/work/remove", json!({}))] {
        let refused = browser.post(path, body).await;
        assert_eq!((refused.status, refused.code().as_str()), (500, "store"), "{path}: {refused:?}");
        assert_eq!(office.text(), FILE, "{path}");
    }
    broken.mend();
    assert_eq!(browser.post("/api/profiles/play", body).await.status, 200);
    assert_ne!(office.text(), FILE);
}

#[tokio::test]
async fn wrong_profiles_change_nothing() {
    let office = Office::open_beside("[servers.'a.b']\nbuiltin = 'x'\n[profiles.away]\n").await;
    let browser = let_in(&office.listening).await;
    for (name, body, said) in [
        ("work", json!({ "servers": ["note"] }), "unknown server `note`; did you mean `notes`?"),
        ("work", json!({ "servers": [], "tools": { "notes": {} } }), "a filter of tools is about `notes`"),
        ("Work", json!({ "servers": [] }), "expected a name of 1 to 32"),
        ("work", json!({ "servers": [], "title": "x\ny" }), "expected a text of at most 128 bytes"),
        ("notes", json!({ "servers": [] }), "the server `notes` has the endpoint `/mcp/notes` already"),
        ("a_b", json!({ "servers": [] }), "the server `a.b` has the endpoint `/mcp/a_b` already"),
        ("away", json!({ "servers": [] }), "the profile `away` is described in another configuration file"),
        ("work", json!({ "servers": [], "secrets": {} }), "unknown field"),
    ] {
        let answer = browser.post(&format!("/api/profiles/{name}"), body).await;
        assert!(answer.status == 400 && answer.body.contains(said), "{name}, {said}: {answer:?}");
    }
    assert_eq!(browser.post("/api/profiles/gone/remove", json!({})).await.code(), "nothing");
    assert_eq!(office.text(), FILE);
    let stranger = Browser { key: "x".to_owned(), ..browser };
    assert_eq!(stranger.post("/api/profiles/work/remove", json!({})).await.status, 401);
    assert_eq!(office.text(), FILE);
}
