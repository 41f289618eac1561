use std::sync::{Arc, Mutex};

use hospes_model::{ClientCapabilities, LoggingLevel, Revision, RootsCapability, SamplingCapability};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::context::Context;
use crate::peer::Peer;

/// Keeps the words of each warning.
#[derive(Clone, Default)]
struct WarningRecorder(Arc<Mutex<Vec<String>>>);

struct WarningText(String);

impl Visit for WarningText {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "feature" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for WarningRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut words = WarningText(String::new());
        event.record(&mut words);
        self.0.lock().expect("no test panics holding it").push(words.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// One test for all: what has been said once in a process is not said again.
///
/// covers: DEPR-05
#[tokio::test]
async fn what_is_deprecated_works_and_is_warned_of_once() {
    let able = || {
        ClientCapabilities::new().with_sampling(SamplingCapability::new()).with_roots(RootsCapability::new())
    };
    let warnings = WarningRecorder::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let old = Context::new(Arc::new(Peer::new(Revision::LATEST_LEGACY, None, able())));
    assert!(old.sample("hi").await.unwrap_err().is_pending());
    assert!(old.roots().await.unwrap_err().is_pending());
    assert!(warnings.0.lock().unwrap().is_empty(), "nothing is deprecated there");
    for _ in 0..2 {
        let peer = Arc::new(Peer::new(Revision::LATEST, None, able()));
        let new = Context::builder(peer).log_level(Some(LoggingLevel::Debug)).build();
        assert!(new.sample("hi").await.unwrap_err().is_pending());
        assert!(new.roots().await.unwrap_err().is_pending());
        assert_eq!(new.take_questions().unwrap().requests.len(), 2);
        new.log(LoggingLevel::Info, "hi");
        assert!(new.has_queued());
    }
    let said = warnings.0.lock().unwrap().clone();
    assert_eq!(said, ["\"sampling\"", "\"roots\"", "\"log messages to the client\""]);
}
