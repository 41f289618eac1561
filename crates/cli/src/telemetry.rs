//! Export of spans, metrics and log records by OTLP, if the configuration or the environment asks for it.
//!
//! The export is one for the whole process, because the log is.

mod exported_log;
mod http_transport;
mod otel_environment;

use std::sync::OnceLock;
use std::time::Duration;

use hospes_host::config::TelemetryConfig;
use hospes_host::{Host, HostServers};
use hospes_telemetry::{MetricData, MetricSource, SpanTracer, TelemetryExport};

pub(crate) use self::exported_log::ExportedLog;
use self::http_transport::HttpTransport;
use self::otel_environment::{ExportPlan, OtelEnvironment};
use crate::exit::{CliError, CliResult};
use crate::fleet::{DatabaseMetrics, FleetMember, ShippingMetrics};
use crate::output::CliOutput;
use crate::printed_secrets;

/// Time to send what there is when the program ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

static TELEMETRY: OnceLock<TelemetryExport> = OnceLock::new();

/// Starts the export, if it is wanted and does not run. Its mistakes are errors, but a collector that cannot be reached is none.
pub(crate) fn start(config: Option<&TelemetryConfig>, output: CliOutput) -> CliResult {
    if TELEMETRY.get().is_some() {
        return Ok(());
    }
    let environment = OtelEnvironment::read(|name| std::env::var(name).ok());
    let Some(plan) = environment.plan(config, random_id()) else { return Ok(()) };
    for warning in &plan.warnings {
        output.warn(warning);
    }
    let ExportPlan { endpoint, headers, ca, settings, .. } = plan;
    for (_, value) in &headers {
        printed_secrets::add_value(value);
    }
    let transport = HttpTransport::new(endpoint, &headers, ca)
        .map_err(|why| CliError::usage(format!("[telemetry]: {why}")))?;
    let started = TelemetryExport::start(settings, &|| Ok(Box::new(transport.connect()?)));
    let started = started
        .map_err(|error| CliError::usage("cannot start the export of telemetry").with_cause(&error))?;
    // Only tests start it twice.
    let _ = TELEMETRY.set(started);
    Ok(())
}

/// Returns the tracer, if spans are exported.
pub(crate) fn tracer() -> Option<SpanTracer> {
    TELEMETRY.get().and_then(TelemetryExport::tracer)
}

/// Adds the metrics of the node and of the export to those of a host, and exports all of them from now on.
pub(crate) fn observe(host: &Host, fleet: Option<(Option<FleetMember>, DatabaseMetrics)>) {
    let servers = host.servers();
    let (member, databases) = fleet.unzip();
    databases.into_iter().for_each(|databases| servers.add_metrics(databases));
    let member = member.flatten();
    if let Some(member) = &member {
        servers.add_metrics(member.metrics());
        servers.add_metrics(ShippingMetrics(member.clone()));
    }
    let Some(telemetry) = TELEMETRY.get() else { return };
    servers.add_metrics(ExportMetrics(telemetry.clone()));
    telemetry.set_metric_source(ExportedHost { servers, member, telemetry: telemetry.clone() });
}

/// Sends what there is, for a bounded time.
pub(crate) async fn shut_down() {
    let Some(telemetry) = TELEMETRY.get().cloned() else { return };
    // On a thread that may block.
    let _ = tokio::task::spawn_blocking(move || telemetry.shut_down(SHUTDOWN_TIMEOUT)).await;
}

/// Returns an id for this start of the program.
fn random_id() -> String {
    let mut bytes = [0_u8; 16];
    // Without random numbers two instances are shown as one.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Metrics of a host.
struct ExportedHost {
    servers: HostServers,
    member: Option<FleetMember>,
    telemetry: TelemetryExport,
}

impl MetricSource for ExportedHost {
    fn metrics(&self) -> Vec<MetricData> {
        if let Some(member) = &self.member {
            // Another one after a lost lease.
            self.telemetry.set_instance_id(&member.node_id());
        }
        self.servers.metric_data()
    }
}

/// Metrics of the export itself.
struct ExportMetrics(TelemetryExport);

impl MetricSource for ExportMetrics {
    fn metrics(&self) -> Vec<MetricData> {
        self.0.own_metrics()
    }
}
