//! Rules of the policy file that are changed, moved and removed.

use std::path::Path;

use super::*;
use crate::{ConsoleEnvironment, PolicyFile};

const FILE: &str = "# of a\n[[rule]]\nname = 'a'\ndecide = 'ask' # why\nuntil = 2099-01-01\n\n[[rule]]\nname = 'b'\ndecide = 'deny'\n";

#[tokio::test]
async fn rules_of_the_file_are_changed_only_as_they_were_seen() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.toml");
    let text = || std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, FILE).unwrap();
    let audit = AuditLog::open(folder.path().join("audit.db"), folder.path().join("audit.key")).unwrap();
    let policy = Policy::read(FILE, &PolicyEnvironment::default()).unwrap();
    let guard = PolicyEnforcer::new(policy).with_audit(audit.clone());
    let host = Host::builder(ConfigLoader::new().parse("h.toml", "").unwrap())
        .guard(Arc::new(guard))
        .start()
        .unwrap();
    let replace = |file: &Path, before: &str, after: &str| {
        assert_eq!(std::fs::read_to_string(file).unwrap(), before);
        std::fs::write(file, after).map_err(|error| error.to_string())
    };
    let policy_file = PolicyFile::new(&file, PolicyEnvironment::default(), Arc::new(replace));
    let environment = ConsoleEnvironment::default().policy(policy_file);
    let deciders = DeciderSettings::new(DecisionSource::Browser);
    let console = Console::in_environment(&host, SessionLifetimes::default(), deciders, environment);
    let listening = console.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let browser = let_in(&listening).await;

    let list = browser.get("/api/rules").await.json();
    assert_eq!((&list["fixed"], &list["file"]), (&json!(null), &json!(file.display().to_string())), "{list}");
    let first = browser.get("/api/rules/1").await.json();
    assert_eq!((&first["kept"], &first["line"]), (&json!(["until = 2099-01-01"]), &json!(2)), "{first}");
    assert_eq!(first["digest"], list["digest"]);
    assert_eq!(browser.get("/api/rules/3").await.status, 404);

    // A change that cannot be recorded is taken back: nothing would say who made it.
    let mut rule = first["rule"].clone();
    rule["decide"] = json!("allow");
    let body = json!({ "rule": rule, "replaces": { "number": 1, "digest": first["digest"] } });
    let broken = BrokenAudit::new(&folder);
    for (path, body) in [
        ("/api/rules", body.clone()),
        ("/api/rules/1/remove", json!({ "digest": first["digest"] })),
        ("/api/rules/1/down", json!({ "digest": first["digest"] })),
    ] {
        let refused = browser.post(path, body).await;
        assert_eq!((refused.status, refused.code().as_str()), (500, "store"), "{path}: {refused:?}");
        assert_eq!(text(), FILE, "{path}");
    }
    broken.mend();

    // Changed: only the lines that change.
    let preview = browser.post("/api/rules/preview", body.clone()).await.json();
    let lines = "# of a\n[[rule]]\nname = 'a'\ndecide = \"allow\" # why\nuntil = 2099-01-01";
    assert_eq!((&preview["toml"], &preview["mistakes"]), (&json!(lines), &json!([])), "{preview}");
    assert_eq!(text(), FILE, "only shown");
    let saved = browser.post("/api/rules", body.clone()).await.json();
    let changed = text();
    assert_eq!(changed, FILE.replace("'ask'", "\"allow\""));
    // What was seen is no longer so.
    let again = browser.post("/api/rules", body).await;
    assert_eq!((again.status, again.code().as_str()), (409, "rule-file"), "{again:?}");
    let stale = browser.post("/api/rules/1/remove", json!({ "digest": first["digest"] })).await;
    assert_eq!(stale.status, 409, "{stale:?}");
    assert_eq!(text(), changed);
    // The host has the rules from before the change.
    let list = browser.get("/api/rules").await.json();
    assert!(list["fixed"].as_str().unwrap().contains("not read"), "{list}");

    let moved = browser.post("/api/rules/1/down", json!({ "digest": saved["digest"] })).await.json();
    assert!(text().starts_with("[[rule]]\nname = 'b'\ndecide = 'deny'\n\n# of a\n[[rule]]\n"), "{}", text());
    assert_eq!(browser.post("/api/rules/2/down", json!({ "digest": moved["digest"] })).await.status, 400);
    let removed = browser.post("/api/rules/2/remove", json!({ "digest": moved["digest"] })).await.json();
    assert_eq!(text(), "[[rule]]\nname = 'b'\ndecide = 'deny'\n");
    assert_eq!(browser.post("/api/rules/undo", json!({ "id": removed["undo"] })).await.status, 200);
    assert!(text().contains("# of a"), "{}", text());
    let entries = audit.search(hospes_store::AuditQuery::new()).await.unwrap();
    let decisions: Vec<_> = entries.iter().rev().filter_map(|one| one.entry.decision.as_deref()).collect();
    assert_eq!(decisions, ["change", "move", "remove", "undo"]);
}
