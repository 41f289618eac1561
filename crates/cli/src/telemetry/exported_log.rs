//! Log records of the program for the export.

use std::cell::Cell;
use std::fmt;

use hospes_telemetry::{LogRecord, LogSeverity, LogSink, is_export_thread};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::TELEMETRY;
use crate::printed_secrets;

/// Beginning of the targets of this project. Messages of libraries may repeat what they have read.
const OWN_TARGET: &str = "hospes";
/// Targets of the events whose messages have lines that servers print.
const FOREIGN_TARGETS: [&str; 2] = ["hospes::stderr", "hospes::client::transport::duplex"];
/// Fields that are exported: numbers, and names of the configuration and of closed sets. Texts of errors are left out,
/// because they name URLs and files, and repeat what others have sent. The log file has them.
const FIELDS: [&str; 17] = [
    "elapsed",
    "epoch",
    "failures",
    "generation",
    "limit",
    "listed",
    "missing",
    "next",
    "node",
    "profile",
    "provider",
    "revision",
    "server",
    "signal",
    "status",
    "ttl",
    "version",
];

/// Subscriber layer that exports events, with the secrets masked that the log file masks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExportedLog;

thread_local! {
    /// True while an event is made a record: masking must not lead here again.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

impl<S: Subscriber> Layer<S> for ExportedLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(telemetry) = TELEMETRY.get() else { return };
        let target = event.metadata().target();
        let is_foreign = FOREIGN_TARGETS.iter().any(|foreign| target.starts_with(foreign));
        if is_foreign || !target.starts_with(OWN_TARGET) || is_export_thread() || IS_BUSY.replace(true) {
            return;
        }
        if let Some(sink) = telemetry.log_sink() {
            export(&sink, event);
        }
        IS_BUSY.set(false);
    }
}

fn export(sink: &LogSink, event: &Event<'_>) {
    let metadata = event.metadata();
    let mut fields = ExportedFields::default();
    event.record(&mut fields);
    let severity = match *metadata.level() {
        Level::ERROR => LogSeverity::Error,
        Level::WARN => LogSeverity::Warn,
        Level::INFO => LogSeverity::Info,
        Level::DEBUG => LogSeverity::Debug,
        Level::TRACE => LogSeverity::Trace,
    };
    let mask = |text: &str| printed_secrets::mask(text).into_owned();
    let trace = hospes_host::current_trace();
    let mut record = LogRecord::new(severity, metadata.target(), mask(&fields.message), trace);
    for (key, value) in fields.others {
        record.add(key, mask(&value));
    }
    sink.push(record);
}

/// The fields of an event as texts.
#[derive(Default)]
struct ExportedFields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for ExportedFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name if FIELDS.contains(&name) => self.others.push((name, format!("{value:?}"))),
            _ => {}
        }
    }
}
