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

/// Target of the events with lines that servers write to standard error, which are texts of others.
const STDERR_TARGET: &str = "hospes::stderr";
/// Fields with texts that peers choose. The log on standard error has them.
const FOREIGN_FIELDS: [&str; 8] = ["uri", "session", "owner", "caller", "id", "from", "name", "place"];

/// Subscriber layer that exports events, with the secrets masked that the log on standard error masks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExportedLog;

thread_local! {
    /// True while an event is made a record: masking must not lead here again.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

impl<S: Subscriber> Layer<S> for ExportedLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(telemetry) = TELEMETRY.get() else { return };
        let is_foreign = event.metadata().target().starts_with(STDERR_TARGET);
        if is_foreign || is_export_thread() || IS_BUSY.replace(true) {
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
            name if FOREIGN_FIELDS.contains(&name) => {}
            name => self.others.push((name, format!("{value:?}"))),
        }
    }
}
