//! Poisoned definitions on their way to an application: through the quarantine, beside other servers.

use hospes::model::{ListPromptsResult, ListToolsResult, Prompt, Reply, Tool};
use serde_json::Value;

use super::*;
use crate::pins::LintKind;

/// One definition of the corpus, and what is conspicuous about it.
#[derive(serde::Deserialize)]
struct Case {
    about: String,
    definition: Value,
    found: Vec<LintKind>,
}

/// A server that offers this definition and nothing else, as it stands there, and counts what is called.
struct Poisoned {
    inner: hospes::BoxService,
    definition: Value,
    calls: Arc<AtomicUsize>,
}

impl Poisoned {
    fn is_prompt(definition: &Value) -> bool {
        definition["inputSchema"].is_null()
    }
}

impl Service for Poisoned {
    async fn call(&self, call: Call) -> Outcome {
        let (definition, is_named) = (self.definition.clone(), self.definition["name"].is_string());
        let is_prompt = is_named && Self::is_prompt(&definition);
        match call.method {
            Method::ToolsList => {
                let tools =
                    (is_named && !is_prompt).then(|| serde_json::from_value::<Tool>(definition).unwrap());
                let list = ListToolsResult::new(tools.into_iter().collect());
                Outcome::Complete(Reply::ListTools(Box::new(list)))
            }
            Method::PromptsList => {
                let prompts = is_prompt.then(|| serde_json::from_value::<Prompt>(definition).unwrap());
                let list = ListPromptsResult::new(prompts.into_iter().collect());
                Outcome::Complete(Reply::ListPrompts(Box::new(list)))
            }
            Method::ToolsCall | Method::PromptsGet => {
                self.calls.fetch_add(1, Ordering::SeqCst);
                Outcome::Complete(hospes::model::CallToolResult::text("done").into())
            }
            _ => self.inner.call(call).await,
        }
    }
}

/// No text of a new, poisoned server reaches an application. The person who reviews it is shown the findings listed in
/// the corpus, which may include names of other servers' tools.
///
/// covers: HOST-09 HOST-10
#[tokio::test]
async fn no_word_of_a_poisoned_definition_reaches_an_application_before_a_person_saw_it() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../pins/poisoned.json")).unwrap();
    for (number, Case { about, definition, mut found }) in cases.into_iter().enumerate() {
        let (up, down) = (ERAS[number % 2], ERAS[number / 2 % 2]);
        let about = format!("{about}, {up} behind {down}");
        let folder = tempfile::tempdir().unwrap();
        let state = StateStore::open(folder.path().join("state.db")).unwrap();
        let calls = Arc::<AtomicUsize>::default();
        let (counted, offered) = (Arc::clone(&calls), definition.clone());
        let poisoned: Make = Arc::new(move || {
            let mut inner = Server::new("poisoned", "1")
                .tool("unused", || async { "x" })
                .prompt("unused", || async { "x" });
            if let Some(said) = offered["instructions"].as_str() {
                inner = inner.instructions(said);
            }
            let inner = hospes::BoxService::new(inner);
            Ok(hospes::BoxService::new(Poisoned {
                inner,
                definition: offered.clone(),
                calls: Arc::clone(&counted),
            }))
        });
        let tool = |name: &str| hospes::server::Tool::new(name).description("Ordinary.");
        let host = House::default()
            .with("mail", up, move || {
                let server = Server::new("mail", "1").tool(tool("send_email"), || async { "x" });
                server.tool(tool("search"), || async { "x" })
            })
            .with("github", up, move || {
                let server = Server::new("github", "1").tool(tool("create_issue"), || async { "x" });
                server.tool(tool("mergePullRequest"), || async { "x" })
            })
            .made_by("poisoned", up, Duration::ZERO, poisoned)
            .pinned(&state, PinMode::Ask)
            .start();
        let client = plain(&host, down).await;
        let listed = client.tools().all().await.unwrap();
        let prompts = client.prompts().all().await.unwrap();
        let shown = serde_json::to_string(&(&listed, &prompts, client.instructions())).unwrap();
        let mut words = vec![&definition["description"], &definition["title"], &definition["instructions"]];
        words.extend(
            definition["inputSchema"]["properties"].as_object().into_iter().flat_map(|all| all.values()),
        );
        for word in words.into_iter().filter(|word| !word.is_null()) {
            let word = word.to_string();
            assert!(!shown.contains(word.trim_matches('"')), "{about}: {word} in {shown}");
        }
        for tool in listed.iter().filter(|tool| tool.name.starts_with("poisoned__")) {
            let refused = client.call(&tool.name, ()).await.unwrap();
            assert!(
                refused.has_failed() && refused.all_text().contains("has not been accepted"),
                "{about}: {refused:?}"
            );
        }
        assert_eq!(calls.load(Ordering::SeqCst), 0, "{about}");

        let pins = host.pins().unwrap();
        let server = pins.server("poisoned").await.unwrap();
        let is_of =
            |one: &&crate::pins::PinnedItem| one.name == definition["name"].as_str().unwrap_or_default();
        let item = server.items.iter().find(is_of).unwrap_or_else(|| panic!("{about}: {:?}", server.items));
        let mut kinds: Vec<LintKind> = item.lints.iter().map(|lint| lint.kind).collect();
        for kinds in [&mut kinds, &mut found] {
            kinds.sort_unstable();
            kinds.dedup();
        }
        assert_eq!(kinds, found, "{about}: {:?}", item.lints);
        // What is conspicuous is a signal and no wall: who has seen it may accept it.
        pins.accept("poisoned", None, server.hash, "ann").await.unwrap();
        if definition["inputSchema"].is_object() {
            let called = async {
                let mut seen = 0;
                loop {
                    let all = client.tools().all().await.unwrap();
                    let name =
                        all.iter().find(|tool| tool.name.starts_with("poisoned__")).unwrap().name.clone();
                    if !client.call(&name, ()).await.unwrap().has_failed() {
                        break;
                    }
                    seen = host.changed(seen).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(20), called).await.unwrap_or_else(|_| panic!("{about}"));
            assert_eq!(calls.load(Ordering::SeqCst), 1, "{about}");
        }
        host.stop().await;
    }
}
