//! Names of metrics and labels in OTLP.
//!
//! A collector that converts them for Prometheus makes the names of `/metrics` of them: dots become underscores, the unit
//! is added, and `_total` to counters.

/// Names of labels in `/metrics` and in OTLP, where they differ.
const LABELS: [(&str, &str); 8] = [
    ("mcp_method_name", "mcp.method.name"),
    ("error_type", "error.type"),
    ("rpc_response_status_code", "rpc.response.status_code"),
    ("gen_ai_tool_name", "gen_ai.tool.name"),
    ("gen_ai_prompt_name", "gen_ai.prompt.name"),
    ("gen_ai_operation_name", "gen_ai.operation.name"),
    ("mcp_protocol_version", "mcp.protocol.version"),
    ("network_transport", "network.transport"),
];

/// Returns the name of a label in OTLP.
pub(super) fn otlp_label(label: &'static str) -> &'static str {
    LABELS.iter().find(|(shown, _)| *shown == label).map_or(label, |(_, name)| name)
}

/// Returns the name and the unit of a metric in OTLP.
pub(super) fn otlp_name(name: &str) -> (String, &'static str) {
    let (stem, unit) = match name.strip_suffix("_seconds") {
        Some(stem) => (stem, "s"),
        None => name.strip_suffix("_bytes").map_or((name, ""), |stem| (stem, "By")),
    };
    let dotted = match stem.strip_prefix("hospes_") {
        Some(rest) => format!("hospes.{rest}"),
        None => stem.replace('_', "."),
    };
    (dotted, unit)
}

/// Returns the name in `/metrics` of a metric with this name and unit. That of a counter gets `_total` as well.
pub(super) fn prometheus_name(name: &str, unit: &str) -> String {
    let suffix = match unit {
        "s" => "_seconds",
        "By" => "_bytes",
        _ => "",
    };
    name.replace('.', "_") + suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_makes_the_names_of_metrics_of_those_of_otlp() {
        for (name, expected) in [
            ("mcp_server_operation_duration_seconds", ("mcp.server.operation.duration", "s")),
            ("hospes_gateway_overhead_seconds", ("hospes.gateway_overhead", "s")),
            ("hospes_request_bytes", ("hospes.request", "By")),
            ("hospes_decisions", ("hospes.decisions", "")),
        ] {
            let (otlp, unit) = otlp_name(name);
            assert_eq!((otlp.as_str(), unit), expected);
            assert_eq!(prometheus_name(&otlp, unit), name);
        }
        assert_eq!(otlp_label("gen_ai_tool_name"), "gen_ai.tool.name");
        assert_eq!(otlp_label("server"), "server");
    }
}
