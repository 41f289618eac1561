//! Settings of servers that are shown, changed, and undone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use hospes_host::config::Secret;
use hospes_store::AuditQuery;
use parking_lot::Mutex;

use super::*;
use crate::{ConfigFile, ConsoleEnvironment, LocalConsole};

const FILE: &str = "# mine\n[servers.notes]\nbuiltin = \"notes\" # these\n\n# The one\n[servers.one]\ncommand = [\"x\", \
    \"--token\", \"hunter2\"]\nenabled = false\nenv = { A = \"hunter2\", B = \"${secret:shared}\" }\n\n[servers.two]\n\
    url = \"https://e.com/mcp\"\nenabled = false\nheaders = { X-Key = \"${secret:shared}\" }\n\n[profiles.work]\nservers = [\"one\"]\n";

/// A console over a host whose configuration is in a file.
struct Office {
    host: Host,
    audit: AuditLog,
    listening: ConsoleServer,
    file: PathBuf,
    secrets: Arc<Mutex<BTreeMap<String, String>>>,
    is_read_only: Arc<AtomicBool>,
    folder: TempDir,
}

impl Office {
    async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("config.toml"), folder.path().join("other.json"));
        std::fs::write(&file, FILE).unwrap();
        std::fs::write(&other, r#"{"mcpServers":{"away":{"command":"x","disabled":true}}}"#).unwrap();
        let audit = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
        let policy = "[[rule]]\ndecide = \"deny\"\nname = \"mine\"\nserver = \"one\"\n";
        let policy = Policy::read(policy, &PolicyEnvironment::default()).unwrap();
        let guard = PolicyEnforcer::new(policy).with_audit(audit.clone());
        let config = ConfigLoader::new().load([&file, &other]).unwrap();
        let notes = |_: &str, _: &[String]| Ok(hospes::BoxService::new(notes()));
        let host = Host::builder(config).builtins(Arc::new(notes)).guard(Arc::new(guard)).start().unwrap();
        let is_read_only = Arc::new(AtomicBool::new(false));
        let refuses = Arc::clone(&is_read_only);
        let replace = move |file: &Path, before: &str, after: &str| {
            if refuses.load(Ordering::SeqCst) {
                return Err("the file is read-only".to_owned());
            }
            if std::fs::read_to_string(file).unwrap() != before {
                return Err("the file was changed in the meantime".to_owned());
            }
            std::fs::write(file, after).map_err(|error| error.to_string())
        };
        let secrets = Arc::new(Mutex::new(BTreeMap::from([("shared".to_owned(), "old-1".to_owned())])));
        let store = Arc::clone(&secrets);
        let write = move |name: &str, value: Option<&Secret>| {
            let mut store = store.lock();
            let before = match value {
                Some(value) => store.insert(name.to_owned(), value.reveal().to_owned()),
                None => store.remove(name),
            };
            Ok(before.map(Secret::new))
        };
        let environment = ConsoleEnvironment::default()
            .config(ConfigFile::new(&file, Arc::new(replace)))
            .secrets(Arc::new(write));
        let deciders = DeciderSettings::new(DecisionSource::Browser);
        let console = Console::in_environment(&host, SessionLifetimes::default(), deciders, environment);
        let listening = console.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        Self { host, audit, listening, file, secrets, is_read_only, folder }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }

    fn secret(&self, name: &str) -> Option<String> {
        self.secrets.lock().get(name).cloned()
    }

    /// Returns what was recorded of a server, the newest first, with its author.
    async fn recorded(&self, server: &str) -> Vec<(String, String)> {
        let found = self.audit.search(AuditQuery::new()).await.unwrap();
        let entries = found.into_iter().map(|found| found.entry);
        let entries = entries.filter(|entry| entry.server.as_deref() == Some(server));
        entries.filter_map(|entry| Some((entry.subject?, entry.by?))).collect()
    }
}

#[tokio::test]
async fn settings_are_shown_without_a_value() {
    let office = Office::open().await;
    let browser = let_in(&office.listening).await;
    let answer = browser.get("/api/servers/one/settings").await;
    assert!(!answer.body.contains("hunter2") && !answer.body.contains("old-1"), "{answer:?}");
    let one = answer.json();
    assert_eq!((&one["isWritable"], &one["settings"]["isEnabled"]), (&json!(true), &json!(false)), "{one}");
    let expected = json!([{ "name": "A", "secret": null, "text": "[redacted]" },
        { "name": "B", "secret": "shared", "text": "${secret:shared}" }]);
    assert_eq!(one["settings"]["env"], expected);
    let expected =
        json!([{ "isHidden": false, "text": "--token" }, { "isHidden": true, "text": "[redacted]" }]);
    assert_eq!(one["settings"]["args"], expected);
    let dependents = &one["dependents"];
    assert_eq!((&dependents["profiles"], &dependents["rules"]), (&json!(["work"]), &json!([[1, "mine"]])));
    assert_eq!(dependents["secrets"], json!(["shared"]));
    let mut seen = 0;
    while !office.host.status().is_healthy() {
        seen = office.host.changed(seen).await;
    }
    let notes = browser.get("/api/servers/notes/settings").await.json();
    assert_eq!((&notes["status"]["state"], &notes["tools"]), (&json!("ready"), &json!(["write"])), "{notes}");
    // A server of another file is shown, and stays as it is.
    let away = browser.get("/api/servers/away/settings").await.json();
    assert_eq!((&away["isWritable"], &away["settings"]), (&json!(false), &Value::Null), "{away}");
    let body = json!({ "edit": { "enabled": true } });
    assert_eq!(browser.post("/api/servers/away/settings/preview", body).await.code(), "nothing");
    assert_eq!(browser.get("/api/servers/none/settings").await.code(), "nothing");
}

#[tokio::test]
async fn a_change_is_made_as_it_was_shown_and_undone() {
    let office = Office::open().await;
    let browser = let_in(&office.listening).await;
    let edit = json!({ "enabled": true, "env": { "B": { "secret": "new-2" }, "C": { "secret": "new-3" } },
        "tools": { "include": null, "exclude": ["rm"] } });
    let answer = browser.post("/api/servers/one/settings/preview", json!({ "edit": edit })).await;
    for secret in ["hunter2", "old-1", "new-2", "new-3"] {
        assert!(!answer.body.contains(secret), "{secret}: {answer:?}");
    }
    let shown = answer.json();
    assert_eq!(shown["effect"], "`one` starts.", "{shown}");
    assert_eq!(shown["keys"], json!(["env.C", "enabled", "tools.exclude"]));
    assert_eq!(shown["secrets"], json!(["shared", "one.C"]));
    let warnings = shown["warnings"].to_string();
    assert!(
        warnings.contains("What runs changes (env.C)") && warnings.contains("also used by `two`"),
        "{warnings}"
    );
    assert_eq!((office.text(), office.secret("one.C")), (FILE.to_owned(), None), "nothing is done yet");

    // Somebody else changes the file: it is not overwritten, and no secret is stored.
    let theirs = format!("{FILE}# theirs\n");
    std::fs::write(&office.file, &theirs).unwrap();
    let save = json!({ "edit": edit, "digest": shown["digest"] });
    let late = browser.post("/api/servers/one/settings", save).await;
    assert_eq!((late.status, late.code().as_str()), (409, "other-file"), "{late:?}");
    assert_eq!((office.text(), office.secret("shared")), (theirs.clone(), Some("old-1".to_owned())));

    // A file that cannot be written leaves the secrets as they were.
    let shown = browser.post("/api/servers/one/settings/preview", json!({ "edit": edit })).await.json();
    let save = json!({ "edit": edit, "digest": shown["digest"] });
    office.is_read_only.store(true, Ordering::SeqCst);
    assert_eq!(browser.post("/api/servers/one/settings", save.clone()).await.code(), "rule-file");
    assert_eq!((office.secret("shared"), office.secret("one.C")), (Some("old-1".to_owned()), None));
    office.is_read_only.store(false, Ordering::SeqCst);

    let saved = browser.post("/api/servers/one/settings", save).await.json();
    let expected = theirs
        .replace(
            "command = [\"x\", \"--token\", \"hunter2\"]\nenabled = false\n",
            "command = [\"x\", \"--token\", \"hunter2\"]\n",
        )
        .replace(
            "B = \"${secret:shared}\" }\n",
            "B = \"${secret:shared}\", C = \"${secret:one.C}\" }\ntools = { exclude = [\"rm\"] }\n",
        );
    assert_eq!(office.text(), expected);
    assert_eq!(
        (office.secret("shared"), office.secret("one.C")),
        (Some("new-2".to_owned()), Some("new-3".to_owned()))
    );
    let known = browser.get("/api/servers/one/settings").await.json();
    assert_eq!(known["undo"]["id"], saved["undo"], "{known}");
    let undo = json!({ "id": saved["undo"] });
    assert_eq!(browser.post("/api/servers/two/settings/undo", undo.clone()).await.code(), "settings");
    assert_eq!(browser.post("/api/servers/one/settings/undo", undo.clone()).await.status, 200);
    assert_eq!(
        (office.text(), office.secret("shared"), office.secret("one.C")),
        (theirs, Some("old-1".to_owned()), None)
    );
    assert_eq!(browser.post("/api/servers/one/settings/undo", undo).await.code(), "settings", "once");
    let recorded = office.recorded("one").await;
    let [undone, changed] = recorded.as_slice() else { panic!("{recorded:?}") };
    let what = "env.C, enabled, tools.exclude; secrets shared, one.C";
    assert_eq!(
        (&undone.0, &changed.0),
        (&format!("settings undone: {what}"), &format!("settings changed: {what}"))
    );
    assert!(changed.1.starts_with("the person at the console, browser session "), "{changed:?}");
}

/// Nothing would say who made a change that is not recorded.
#[tokio::test]
async fn a_change_that_cannot_be_recorded_is_taken_back_with_its_secrets() {
    let office = Office::open().await;
    let browser = let_in(&office.listening).await;
    let edit = json!({ "enabled": true, "env": { "B": { "secret": "new-2" }, "C": { "secret": "new-3" } } });
    let shown = browser.post("/api/servers/one/settings/preview", json!({ "edit": edit })).await.json();
    let save = json!({ "edit": edit, "digest": shown["digest"] });
    let state = || (office.text(), office.secret("shared"), office.secret("one.C"));
    let before = state();

    let broken = BrokenAudit::new(&office.folder);
    let refused = browser.post("/api/servers/one/settings", save.clone()).await;
    assert_eq!((refused.status, refused.code().as_str()), (500, "store"), "{refused:?}");
    assert_eq!(state(), before);
    let known = browser.get("/api/servers/one/settings").await.json();
    assert_eq!(known["undo"], json!(null), "{known}");
    broken.mend();

    // An undo that cannot be recorded leaves the change, and can be repeated.
    let saved = browser.post("/api/servers/one/settings", save).await;
    assert_eq!(saved.status, 200, "{saved:?}");
    let (changed, undo) = (state(), json!({ "id": saved.json()["undo"] }));
    assert_ne!(changed, before);
    let broken = BrokenAudit::new(&office.folder);
    assert_eq!(browser.post("/api/servers/one/settings/undo", undo.clone()).await.code(), "store");
    assert_eq!(state(), changed);
    broken.mend();
    assert_eq!(browser.post("/api/servers/one/settings/undo", undo).await.status, 200);
    assert_eq!(state(), before);
}

#[tokio::test]
async fn only_a_secret_is_replaced_and_the_file_is_read_again() {
    let office = Office::open().await;
    let browser = let_in(&office.listening).await;
    let edit = json!({ "headers": { "x-key": { "secret": "new-2" } } });
    let shown = browser.post("/api/servers/two/settings/preview", json!({ "edit": edit })).await.json();
    assert_eq!((&shown["before"], &shown["keys"]), (&shown["after"], &json!([])));
    assert_eq!(shown["effect"], "`two` is switched off, so nothing starts or stops.");
    let body = json!({ "edit": edit, "digest": shown["digest"] });
    assert_eq!(browser.post("/api/servers/two/settings", body).await.status, 200);
    assert_eq!((office.text(), office.secret("shared")), (FILE.to_owned(), Some("new-2".to_owned())));
}

#[tokio::test]
async fn the_effect_of_a_change_and_of_a_removal_is_said_first() {
    let office = Office::open().await;
    let browser = let_in(&office.listening).await;
    let of = async |edit: Value| {
        browser.post("/api/servers/notes/settings/preview", json!({ "edit": edit })).await
    };
    let said = async |edit: Value| of(edit).await.json()["effect"].as_str().unwrap_or_default().to_owned();
    assert_eq!(said(json!({ "enabled": false })).await, "`notes` stops; no call is in progress.");
    assert_eq!(said(json!({ "requestTimeout": "9s" })).await, "`notes` restarts; no call is in progress.");
    assert_eq!(of(json!({})).await.code(), "settings");
    assert_eq!(of(json!({ "url": "https://e.com" })).await.code(), "settings");
    assert_eq!(of(json!({ "name": "x" })).await.code(), "misread");
    let answer = browser.get("/api/servers/one/removal").await;
    assert!(!answer.body.contains("hunter2"), "{answer:?}");
    let shown = answer.json();
    assert_eq!(shown["dependents"]["profiles"], json!(["work"]), "{shown}");
    assert!(!shown["after"].as_str().unwrap().contains("servers.one"), "{shown}");
    assert_eq!(browser.get("/api/servers/none/removal").await.code(), "settings");
    // Without the program's commands nothing is removed.
    let body = json!({ "digest": shown["digest"] });
    assert_eq!(browser.post("/api/servers/one/removal", body).await.code(), "nothing");
    assert_eq!(office.text(), FILE);
}

#[tokio::test]
async fn only_a_browser_with_its_key_changes_settings() {
    let mut office = Office::open().await;
    let browser = let_in(&office.listening).await;
    let edit = json!({ "enabled": true });
    let shown = browser.post("/api/servers/one/settings/preview", json!({ "edit": edit })).await.json();
    let body = json!({ "edit": edit, "digest": shown["digest"] });
    let stranger = Browser { key: "x".to_owned(), ..browser.clone() };
    let headers =
        format!("Cookie: {}\r\nX-Hospes-Key: {}\r\nOrigin: http://e.com\r\n", browser.cookie, browser.key);
    for path in ["settings", "settings/preview", "settings/undo", "removal", "update"] {
        let path = format!("/api/servers/one/{path}");
        assert_eq!(stranger.post(&path, body.clone()).await.status, 401, "{path}");
        let elsewhere = send(browser.address, "POST", &path, &headers, &body.to_string()).await;
        assert_eq!(elsewhere.code(), "elsewhere", "{path}");
    }
    assert_eq!(stranger.get("/api/servers/one/settings").await.status, 401);
    let socket = office.folder.path().join("console.sock");
    office.listening = office.listening.with_socket(&socket).await.unwrap();
    let refused = LocalConsole::at(&socket).post::<Value>("servers/one/settings", &body).await.unwrap_err();
    assert!(refused.to_string().contains("not found"), "{refused}");
    assert_eq!(office.text(), FILE);
}
