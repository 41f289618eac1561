//! Reports of status changes of the servers on the terminal of a running host.

use std::collections::HashMap;

use hospes_host::Host;
use hospes_host::upstream::{UpstreamState, UpstreamStatus};

use super::server_line::line;
use crate::output::{CliOutput, talk_width};

/// Reports status changes of the servers. Never returns.
pub(super) async fn report(host: &Host, output: CliOutput) -> std::convert::Infallible {
    let mut known: HashMap<String, UpstreamStatus> = HashMap::new();
    let mut seen = 0;
    loop {
        for server in host.status().servers {
            if server.state == UpstreamState::Starting {
                continue;
            }
            if let Some(news) = status_change(known.get(&server.name), &server) {
                output.say(format_args!("  {}", line(&news, talk_width())));
                known.insert(server.name.clone(), server);
            }
        }
        seen = host.changed(seen).await;
    }
}

/// Returns the status to print, or `None` if nothing is new since the last one printed. A shorter wait, a repeated
/// failure and known warnings are not new.
fn status_change(before: Option<&UpstreamStatus>, now: &UpstreamStatus) -> Option<UpstreamStatus> {
    let Some(before) = before.filter(|before| is_same(before, now)) else { return Some(now.clone()) };
    let mut news = now.clone();
    news.warnings.retain(|warning| !before.warnings.contains(warning));
    (!news.warnings.is_empty()).then_some(news)
}

/// Returns true if two statuses of a server are equal apart from warnings.
fn is_same(before: &UpstreamStatus, now: &UpstreamStatus) -> bool {
    let counts = |server: &UpstreamStatus| (server.tools, server.prompts, server.resources, server.templates);
    // The first line only, because details such as the addresses tried differ between attempts.
    let outcome = |server: &UpstreamStatus| {
        server.problem.as_deref().and_then(|text| text.lines().next().map(str::to_owned))
    };
    before.state == now.state
        && (now.state != UpstreamState::Ready || counts(before) == counts(now))
        && (now.state == UpstreamState::Ready || outcome(before) == outcome(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_said_once() {
        let of = |state: &str, warnings: &[&str]| -> UpstreamStatus {
            serde_json::from_value(serde_json::json!({
                "name": "one", "target": "npx", "state": state, "tools": 1, "prompts": 0, "resources": 0, "templates": 0,
                "warnings": warnings,
            }))
            .unwrap()
        };
        let said = |before: &UpstreamStatus, now: &UpstreamStatus| {
            status_change(Some(before), now).map(|news| news.warnings)
        };
        let one = of("ready", &["a"]);
        assert_eq!(status_change(None, &one).map(|news| news.warnings), Some(vec!["a".to_owned()]));
        assert_eq!(said(&one, &one), None);
        assert_eq!(said(&one, &of("ready", &["a", "b"])), Some(vec!["b".to_owned()]), "the other alone");
        assert_eq!(said(&of("ready", &["a", "b"]), &one), None, "one that is over is no news");
        assert_eq!(said(&one, &of("retrying", &["a"])), Some(vec!["a".to_owned()]));
    }
}
