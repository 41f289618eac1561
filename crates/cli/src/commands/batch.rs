//! `hospes policy batch`: decisions for many calls.

use std::io::{BufRead as _, BufWriter, Read as _, Write as _};

use hospes_policy::{CallArguments, Policy, PolicyAction, PolicyRequest, ToolEffectSet};
use jiff::Timestamp;

use crate::exit::{CliError, CliResult};

/// Maximum length of a line, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// A line of standard input.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchCall<'a> {
    server: String,
    tool: String,
    #[serde(borrow)]
    arguments: &'a serde_json::value::RawValue,
}

/// Prints one decision for each line of standard input.
pub(super) fn run(rules: &Policy) -> CliResult {
    let (mut input, mut out) = (std::io::stdin().lock(), BufWriter::new(std::io::stdout().lock()));
    let unread = |error: std::io::Error| CliError::usage("cannot read standard input").with_cause(&error);
    let mut line = String::new();
    for number in 1_u64.. {
        line.clear();
        // A longer line is cut here and then is invalid JSON, so that no line fills the memory.
        if input.by_ref().take(MAX_LINE).read_line(&mut line).map_err(unread)? == 0 {
            break;
        }
        let call: BatchCall<'_> = serde_json::from_str(&line).map_err(|error| {
            let hint =
                r#"{"server":"files","tool":"read","arguments":{}} is a valid call; the limit is 1 MiB"#;
            CliError::usage(format!("line {number} is not a valid call: {error}")).hint(hint)
        })?;
        let verdict = match CallArguments::read(call.arguments.get()) {
            Ok(arguments) => {
                // Its annotations are unknown, so the worst is assumed, as MCP's defaults do.
                let action = PolicyAction::tool(&call.tool, ToolEffectSet::unknown(), &arguments);
                rules.decide(&PolicyRequest::new(&call.server, action), Timestamp::now())
            }
            Err(error) => Policy::deny_unreadable(&error),
        };
        let answer =
            serde_json::json!({ "decision": verdict.decision.to_string(), "because": verdict.why() });
        // A closed pipe is not a failure.
        if writeln!(out, "{answer}").is_err() {
            return Ok(());
        }
    }
    let _gone = out.flush();
    Ok(())
}
