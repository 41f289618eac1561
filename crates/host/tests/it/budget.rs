//! A host that is killed while a model answers.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use hospes::prelude::*;
use hospes_host::config::ConfigLoader;
use hospes_host::{Host, PolicyEnforcer, Sampler};
use hospes_models::{
    Allowance, Budget, BudgetAccount, DeltaListener, GenerationFuture, Model, ModelCatalogue, ModelError,
    ModelProvider, OmittedPart,
};
use hospes_policy::{Policy, PolicyEnvironment};
use hospes_store::StateStore;

/// Environment variable that marks the child process of this test and names its state folder.
const FOLDER: &str = "HOSPES_HOST_TEST_FOLDER";

const LIMIT: u64 = 10_000;

/// A model that is asked, says so, and never answers.
#[derive(Debug)]
struct Endless;

impl ModelProvider for Endless {
    fn name(&self) -> &str {
        "Endless"
    }

    fn model(&self) -> &str {
        "endless"
    }

    fn check(&self, _: &hospes::model::CreateMessageParams) -> Result<Vec<OmittedPart>, ModelError> {
        Ok(Vec::new())
    }

    #[expect(clippy::print_stdout, reason = "the parent reads it")]
    fn generate<'a>(
        &'a self,
        _: &'a hospes::model::CreateMessageParams,
        _: &'a mut DeltaListener<'_>,
    ) -> GenerationFuture<'a> {
        println!("\nasked");
        Box::pin(std::future::pending())
    }
}

fn sampler(folder: &Path) -> Sampler {
    let mut budget = Budget::new();
    budget.allow(BudgetAccount::server("curious"), Allowance::tokens(LIMIT));
    let state = StateStore::open(folder.join("state.db")).unwrap();
    Sampler::new(ModelCatalogue::new([Model::new("endless", Endless)]).unwrap(), budget).kept_in(&state)
}

/// covers: SAMP-26
#[test]
fn what_a_host_had_set_aside_when_it_was_killed_is_spent() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Some(folder) = std::env::var_os(FOLDER) {
        return runtime.block_on(ask_for_ever(Path::new(&folder)));
    }
    let folder = tempfile::tempdir().unwrap();
    let look = || {
        let seen = runtime.block_on(sampler(folder.path()).overview([])).unwrap();
        let one = seen.budgets.into_iter().next().unwrap();
        (one.reserved_tokens, one.left_tokens.unwrap())
    };
    for times in 1..=2 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "budget::what_a_host_had_set_aside_when_it_was_killed_is_spent"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "asked"), "the model is asked");
        // Others know already.
        let (reserved, left) = look();
        assert!(reserved > 0 && left + reserved == LIMIT, "{reserved} {left}");
        child.kill().unwrap();
        child.wait().unwrap();
        let (after, left) = look();
        assert_eq!((after, left), (reserved, LIMIT - reserved), "it is spent, {times} times");
    }
}

/// Asks the model through a host, until it is killed.
async fn ask_for_ever(folder: &Path) {
    let curious = |_: &str, _: &[String]| {
        Ok(hospes::BoxService::new(Server::new("curious", "1").tool("ask", |ctx: Context| async move {
            Ok::<_, Error>(ctx.sample("Why?").max_tokens(50).await?.text())
        })))
    };
    let config = ConfigLoader::new().parse("h.toml", "[servers.curious]\nbuiltin = \"curious\"").unwrap();
    let policy = Policy::read("[[rule]]\ndecide = 'allow'", &PolicyEnvironment::default()).unwrap();
    let host = Host::builder(config)
        .builtins(Arc::new(curious))
        .guard(Arc::new(PolicyEnforcer::new(policy)))
        .sampler(Arc::new(sampler(folder)))
        .start()
        .unwrap();
    let mut seen = 0;
    while !host.status().is_healthy() {
        seen = host.changed(seen).await;
    }
    let client = Client::builder().in_memory(host.gateway()).await.unwrap();
    let _never = client.call("curious__ask", ()).await;
}
