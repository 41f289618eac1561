//! The client that the official conformance suite examines.
//!
//! The suite starts it with the URL of a mock server as its last argument, and says in the environment which scenario
//! it is to play. Every step is taken with the public interface of the SDK; nothing here knows the wire.

mod answers;
mod scenarios;
mod sign_in;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use hospes::client::ClientBuilder;
use hospes::model::{Implementation, Revision};
use hospes::prelude::*;

/// The suite gives a client 30 seconds, and may hang itself when they are over.
const RUN_TIMEOUT: Duration = Duration::from_secs(25);

/// Parameters of a run, as the suite gives them.
struct ScenarioRun {
    scenario: String,
    url: String,
    /// None: whatever the server speaks (older suites do not say).
    revision: Option<Revision>,
    context: serde_json::Value,
}

impl ScenarioRun {
    fn from_environment() -> Result<Self> {
        let url = env::args().next_back().filter(|_| env::args().len() > 1);
        let url = url.ok_or_else(|| Error::msg("the last argument is the URL of the suite's server"))?;
        let scenario = env::var("MCP_CONFORMANCE_SCENARIO")
            .map_err(|_| Error::msg("MCP_CONFORMANCE_SCENARIO says which scenario to play"))?;
        let revision = match env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
            Ok(text) => Some(
                text.parse().map_err(|_| Error::msg(format!("{text} is no revision that is spoken here")))?,
            ),
            Err(_) => None,
        };
        let context = match env::var("MCP_CONFORMANCE_CONTEXT") {
            Ok(text) => serde_json::from_str(&text)?,
            Err(_) => serde_json::Value::Null,
        };
        Ok(Self { scenario, url, revision, context })
    }

    fn target(&self) -> Result<Target> {
        if self.scenario.starts_with("auth/") {
            return Ok(sign_in::target(self)?.into());
        }
        Ok(Target::url(&self.url).into())
    }

    /// A client that can answer whatever it may be asked.
    fn builder(&self) -> ClientBuilder {
        let builder = Client::builder();
        let builder = match self.revision {
            Some(revision) => builder.revision(revision),
            None => builder,
        };
        builder
            .info(Implementation::new("hospes-conformance-client", env!("CARGO_PKG_VERSION")))
            .elicitation(answers::fill_in)
            .sampling(answers::sample)
            .roots(["/"])
            .on_log(|message| eprintln!("the server logged {}", message.data))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let played = async {
        let run = ScenarioRun::from_environment()?;
        scenarios::run_scenario(&run).await
    };
    match tokio::time::timeout(RUN_TIMEOUT, played).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(_) => {
            eprintln!("the scenario took longer than {RUN_TIMEOUT:?}");
            ExitCode::FAILURE
        }
    }
}
