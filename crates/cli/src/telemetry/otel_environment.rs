//! Environment variables of OpenTelemetry, and what they and the configuration make together.

use std::path::PathBuf;
use std::time::Duration;

use hospes_host::config::TelemetryConfig;
use hospes_telemetry::{TelemetrySettings, TelemetrySignal, TraceSampler};
use url::Url;

/// Collector on this machine, where OTLP over HTTP has its own port.
const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:4318";
/// Part of the traces that is recorded by default.
const DEFAULT_RATIO: f64 = 0.05;
/// Default name of the service.
const SERVICE_NAME: &str = "hospes";
/// Shortest interval of metrics.
const MIN_METRIC_INTERVAL: Duration = Duration::from_millis(100);

/// The variables that are read. Each one counts only where the configuration has no such setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OtelEnvironment {
    is_disabled: bool,
    endpoint: Option<String>,
    headers: Option<String>,
    protocol: Option<String>,
    certificate: Option<String>,
    service_name: Option<String>,
    resource: Option<String>,
    sampler: Option<String>,
    sampler_argument: Option<String>,
    metric_interval: Option<String>,
    /// Signals whose exporter is `none`.
    left_out: Vec<String>,
}

/// Signals that are exported, and their destination.
#[derive(Debug)]
pub(super) struct ExportPlan {
    pub(super) endpoint: Url,
    pub(super) headers: Vec<(String, String)>,
    pub(super) ca: Option<PathBuf>,
    pub(super) settings: TelemetrySettings,
    /// Variables that cannot be used.
    pub(super) warnings: Vec<String>,
}

impl OtelEnvironment {
    /// Reads the variables. An empty one is none.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_left_out = |signal: &&str| {
            text(&format!("OTEL_{signal}_EXPORTER")).is_some_and(|value| value.eq_ignore_ascii_case("none"))
        };
        Self {
            is_disabled: text("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")),
            endpoint: text("OTEL_EXPORTER_OTLP_ENDPOINT"),
            headers: text("OTEL_EXPORTER_OTLP_HEADERS"),
            protocol: text("OTEL_EXPORTER_OTLP_PROTOCOL"),
            certificate: text("OTEL_EXPORTER_OTLP_CERTIFICATE"),
            service_name: text("OTEL_SERVICE_NAME"),
            resource: text("OTEL_RESOURCE_ATTRIBUTES"),
            sampler: text("OTEL_TRACES_SAMPLER"),
            sampler_argument: text("OTEL_TRACES_SAMPLER_ARG"),
            metric_interval: text("OTEL_METRIC_EXPORT_INTERVAL"),
            left_out: ["TRACES", "METRICS", "LOGS"]
                .iter()
                .filter(|signal| is_left_out(signal))
                .map(|signal| signal.to_lowercase())
                .collect(),
        }
    }

    /// Returns what is exported. `None` if neither the configuration nor the endpoint of the environment asks for it.
    pub(super) fn plan(&self, config: Option<&TelemetryConfig>, instance: String) -> Option<ExportPlan> {
        if self.is_disabled || (config.is_none() && self.endpoint.is_none()) {
            return None;
        }
        let none = TelemetryConfig::default();
        let config = config.unwrap_or(&none);
        let mut warnings = Vec::new();
        let endpoint = match &config.otlp_endpoint {
            Some(url) => url.reveal().clone(),
            None => self.endpoint(&mut warnings)?,
        };
        if self.protocol.as_deref().is_some_and(|protocol| protocol != "http/protobuf") {
            warnings.push(
                "OTEL_EXPORTER_OTLP_PROTOCOL is ignored: telemetry is exported as http/protobuf".into(),
            );
        }
        let headers = match &config.headers {
            Some(headers) => {
                headers.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned())).collect()
            }
            None => self.headers.as_deref().map(|text| pairs(text, true)).unwrap_or_default(),
        };
        let mut settings = TelemetrySettings::new(self.resource(config, instance));
        settings.sampler = match config.sample_ratio {
            Some(ratio) => TraceSampler::ratio(ratio),
            None => self.sampler(&mut warnings),
        };
        settings.signals = match &config.signals {
            Some(signals) => signals.clone(),
            None => {
                let is_kept =
                    |signal: &TelemetrySignal| !self.left_out.iter().any(|out| out == signal.as_str());
                TelemetrySignal::ALL.into_iter().filter(is_kept).collect()
            }
        };
        if let Some(interval) = config.metric_interval.or_else(|| self.metric_interval(&mut warnings)) {
            settings.metric_interval = interval.max(MIN_METRIC_INTERVAL);
        }
        let ca = config.ca.clone().or_else(|| self.certificate.as_ref().map(PathBuf::from));
        Some(ExportPlan { endpoint, headers, ca, settings, warnings })
    }

    fn endpoint(&self, warnings: &mut Vec<String>) -> Option<Url> {
        let text = self.endpoint.as_deref().unwrap_or(DEFAULT_ENDPOINT);
        let url = Url::parse(text).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
        if url.is_none() {
            warnings.push(
                "no telemetry is exported: OTEL_EXPORTER_OTLP_ENDPOINT is not a URL that begins with http:// or https://"
                    .into(),
            );
        }
        url
    }

    fn resource(&self, config: &TelemetryConfig, instance: String) -> Vec<(String, String)> {
        let mut resource = self.resource.as_deref().map(|text| pairs(text, false)).unwrap_or_default();
        let mut set = |key: &str, value: &str| match resource.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => value.clone_into(known),
            None => resource.push((key.to_owned(), value.to_owned())),
        };
        for (key, value) in &config.resource {
            set(key, value);
        }
        if let Some(name) = config.service_name.as_ref().or(self.service_name.as_ref()) {
            set("service.name", name);
        }
        let mut add = |key: &str, value: String| {
            if !resource.iter().any(|(known, _)| known == key) {
                resource.push((key.to_owned(), value));
            }
        };
        add("service.name", SERVICE_NAME.to_owned());
        add("service.version", env!("CARGO_PKG_VERSION").to_owned());
        add("service.instance.id", instance);
        resource
    }

    fn sampler(&self, warnings: &mut Vec<String>) -> TraceSampler {
        let ratio = || {
            let ratio = self.sampler_argument.as_deref().and_then(|text| text.trim().parse::<f64>().ok());
            // As the specification has it: without an argument, all.
            ratio.filter(|ratio| (0.0..=1.0).contains(ratio)).unwrap_or(1.0)
        };
        match self.sampler.as_deref() {
            None => TraceSampler::ratio(DEFAULT_RATIO),
            Some("always_on") => TraceSampler::ratio(1.0).without_parent(),
            Some("always_off") => TraceSampler::ratio(0.0).without_parent(),
            Some("traceidratio") => TraceSampler::ratio(ratio()).without_parent(),
            Some("parentbased_always_on") => TraceSampler::ratio(1.0),
            Some("parentbased_always_off") => TraceSampler::ratio(0.0),
            Some("parentbased_traceidratio") => TraceSampler::ratio(ratio()),
            Some(_) => {
                warnings.push(format!(
                    "OTEL_TRACES_SAMPLER is ignored: it is no known sampler; {DEFAULT_RATIO} of the traces are recorded"
                ));
                TraceSampler::ratio(DEFAULT_RATIO)
            }
        }
    }

    fn metric_interval(&self, warnings: &mut Vec<String>) -> Option<Duration> {
        let text = self.metric_interval.as_deref()?;
        let interval = text.trim().parse().ok().filter(|milliseconds| *milliseconds > 0);
        if interval.is_none() {
            warnings
                .push("OTEL_METRIC_EXPORT_INTERVAL is ignored: it is not a number of milliseconds".into());
        }
        interval.map(Duration::from_millis)
    }
}

/// Reads `name=value,…` with percent-encoded values. Names of headers are in lower case.
fn pairs(text: &str, is_header: bool) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let name = name.trim();
        let name = if is_header { name.to_ascii_lowercase() } else { name.to_owned() };
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().ok()?.into_owned();
        (!name.is_empty()).then_some((name, value))
    };
    text.split(',').filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> OtelEnvironment {
        OtelEnvironment::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn resource<'p>(plan: &'p ExportPlan, key: &str) -> Option<&'p str> {
        plan.settings.resource.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    #[test]
    fn nothing_is_exported_unless_somebody_asks_for_it() {
        let others = [("OTEL_SERVICE_NAME", "a"), ("OTEL_EXPORTER_OTLP_HEADERS", "k=v")];
        assert!(environment(&others).plan(None, String::new()).is_none());
        assert!(environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).plan(None, String::new()).is_none());
        let disabled = [("OTEL_SDK_DISABLED", "true"), ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")];
        assert!(environment(&disabled).plan(Some(&TelemetryConfig::default()), String::new()).is_none());
        let plan = environment(&[]).plan(Some(&TelemetryConfig::default()), "me".into()).unwrap();
        assert_eq!(plan.endpoint.as_str(), "http://127.0.0.1:4318/");
        assert_eq!(plan.settings.sampler, TraceSampler::ratio(0.05));
        assert_eq!(plan.settings.signals, TelemetrySignal::ALL);
        assert_eq!(resource(&plan, "service.name"), Some("hospes"));
        assert_eq!(resource(&plan, "service.instance.id"), Some("me"));
        assert_eq!(resource(&plan, "service.version"), Some(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn the_environment_counts_where_the_configuration_says_nothing() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c.example/base"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key = a%20b,broken,x=y=z"),
            ("OTEL_SERVICE_NAME", "of-environment"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=lost,deployment.environment.name=test"),
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.5"),
            ("OTEL_LOGS_EXPORTER", "none"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "2500"),
        ];
        let plan = environment(&variables).plan(None, String::new()).unwrap();
        assert_eq!(plan.endpoint.as_str(), "https://c.example/base");
        let expected = [("api-key", "a b"), ("x", "y=z")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(plan.headers, expected);
        assert_eq!(plan.settings.sampler, TraceSampler::ratio(0.5).without_parent());
        assert_eq!(plan.settings.signals, [TelemetrySignal::Traces, TelemetrySignal::Metrics]);
        assert_eq!(plan.settings.metric_interval, Duration::from_millis(2500));
        assert_eq!(resource(&plan, "service.name"), Some("of-environment"));
        assert_eq!(resource(&plan, "deployment.environment.name"), Some("test"));

        let mut config = TelemetryConfig::default();
        config.sample_ratio = Some(0.25);
        config.service_name = Some("of-file".into());
        config.headers = Some(Vec::new());
        config.signals = Some(vec![TelemetrySignal::Logs]);
        let plan = environment(&variables).plan(Some(&config), String::new()).unwrap();
        assert_eq!(plan.endpoint.as_str(), "https://c.example/base");
        assert!(plan.headers.is_empty());
        assert_eq!(plan.settings.sampler, TraceSampler::ratio(0.25));
        assert_eq!(plan.settings.signals, [TelemetrySignal::Logs]);
        assert_eq!(resource(&plan, "service.name"), Some("of-file"));
    }

    #[test]
    fn variables_that_cannot_be_used_are_named_without_their_values() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc-sentinel"),
            ("OTEL_TRACES_SAMPLER", "sentinel"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "sentinel"),
        ];
        let plan = environment(&variables).plan(None, String::new()).unwrap();
        assert_eq!(plan.warnings.len(), 3, "{:?}", plan.warnings);
        assert!(plan.warnings.iter().all(|text| text.starts_with("OTEL_") && !text.contains("sentinel")));
        assert!(
            environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318")]).plan(None, String::new()).is_none()
        );
    }
}
