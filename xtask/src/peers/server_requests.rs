//! Calls during which servers ask the application for something, through us.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::application::{self, CallAnswer, PeerCall};
use super::inspector::InspectorEra;
use super::{CheckList, contains};
use crate::tools::NodeTools;

/// An application that can answer is asked, through us, by the servers behind us.
pub(super) fn examine(
    node: &NodeTools,
    front: &str,
    entry: &Value,
    era: InspectorEra,
    checks: &mut CheckList,
) {
    let askings = ServerRequestCase::all();
    let call = |asking: &ServerRequestCase| PeerCall {
        tool: asking.tool.to_owned(),
        arguments: asking.arguments.clone(),
    };
    let calls: Vec<PeerCall> = askings.iter().map(call).collect();
    match application::run(node, front, era, entry, &calls) {
        Ok(answers) => {
            for (asking, answer) in askings.iter().zip(&answers) {
                checks.add(&format!("{front}: {} ({})", asking.tool, era.name()), asking.judge(answer));
            }
        }
        Err(error) => {
            checks.add(&format!("{front}: an application that answers ({})", era.name()), Err(error))
        }
    }
}

/// A call during which the server asks the application for something, or tells it how far it is.
struct ServerRequestCase {
    tool: &'static str,
    arguments: Value,
    /// A part of the answer, made from what the application said.
    part: &'static str,
    /// The method that must have reached the application.
    asked: Option<&'static str>,
    /// Minimum number of progress notifications that must have reached the application.
    progress: u64,
}

impl ServerRequestCase {
    fn new(tool: &'static str, arguments: Value, part: &'static str) -> Self {
        Self { tool, arguments, part, asked: None, progress: 0 }
    }

    fn asked(self, method: &'static str) -> Self {
        Self { asked: Some(method), ..self }
    }

    fn progress(self, least: u64) -> Self {
        Self { progress: least, ..self }
    }

    /// Old servers and new ones, over stdio and over HTTP; the application is of either era.
    fn all() -> Vec<Self> {
        let (elicit, sample, roots) = ("elicitation/create", "sampling/createMessage", "roots/list");
        let slowly = || json!({ "duration": 1, "steps": 4 });
        let nothing = || json!({});
        vec![
            Self::new("everything__trigger-long-running-operation", slowly(), "completed").progress(2),
            Self::new(
                "everything__trigger-sampling-request",
                json!({ "prompt": "?" }),
                "the scripted answer",
            )
            .asked(sample),
            Self::new("everything__trigger-elicitation-request", nothing(), "Hospes").asked(elicit),
            Self::new("everything-http__trigger-elicitation-request", nothing(), "Hospes").asked(elicit),
            Self::new("everything-http__trigger-long-running-operation", slowly(), "completed").progress(2),
            Self::new("everything-sse__trigger-elicitation-request", nothing(), "Hospes").asked(elicit),
            Self::new("everything-sse__trigger-long-running-operation", slowly(), "completed").progress(2),
            // It asks for the roots once, right after the handshake.
            Self::new("everything__get-roots-list", nothing(), "file:///scripted/root"),
            Self::new("everything-http__get-roots-list", nothing(), "file:///scripted/root"),
            Self::new("modern__greet", nothing(), "Salve, Hospes!").asked(elicit),
            Self::new("modern-http__greet", nothing(), "Salve, Hospes!").asked(elicit),
            Self::new("ours__test_input_required_result_elicitation", nothing(), "Hello, Hospes!")
                .asked(elicit),
            Self::new("ours__test_input_required_result_sampling", nothing(), "the scripted answer")
                .asked(sample),
            Self::new("ours__test_input_required_result_list_roots", nothing(), "scripted").asked(roots),
            Self::new("ours__test_input_required_result_multi_round", nothing(), "").asked(elicit),
            Self::new("ours__test_tool_with_progress", nothing(), "").progress(2),
        ]
    }

    fn judge(&self, answer: &CallAnswer) -> Result<String> {
        ensure!(!answer.failed, "failed: {}", answer.text);
        contains(&answer.text, self.part)?;
        if let Some(method) = self.asked {
            ensure!(
                answer.asked.iter().any(|asked| asked == method),
                "the application was asked {:?}",
                answer.asked
            );
        }
        ensure!(answer.progress >= self.progress, "{} progress notifications came", answer.progress);
        let heard = self.asked.map_or_else(|| format!("progress: {}", answer.progress), str::to_owned);
        Ok(heard)
    }
}
