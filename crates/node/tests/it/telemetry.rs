//! Spans and metrics of forwarded requests and of the shared state.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hospes::transport::http_server::shared_sessions::ForwardResult;
use hospes_fleet::node::{NodeId, NodeRecord};
use hospes_fleet::session::SessionKey;
use hospes_fleet::settings::RelaySettings;
use hospes_fleet::{MemoryRelay, MemoryStore, Relay as _};
use hospes_node::{FleetSecrets, MeasuredRelay, NodeMetrics, NodePeers, NodeTransport as _};
use hospes_telemetry::{
    MetricPoints, MetricSource as _, OtlpTransport, PostError, TelemetryExport, TelemetrySettings,
    TelemetrySignal, TraceSampler,
};
use parking_lot::Mutex;

use crate::cluster::{Cluster, call, request};

/// Collector that keeps the bodies of requests.
#[derive(Clone, Default)]
struct KeptBodies(Arc<Mutex<Vec<Vec<u8>>>>);

impl OtlpTransport for KeptBodies {
    fn post(&mut self, _: TelemetrySignal, body: Vec<u8>, _: Duration) -> Result<Vec<u8>, PostError> {
        self.0.lock().push(body);
        Ok(Vec::new())
    }
}

/// Returns the numbers of values of a histogram, by the value of its last label.
fn counts(metrics: &NodeMetrics, name: &str) -> Vec<(String, u64)> {
    let metric = metrics.metrics().into_iter().find(|metric| metric.name == name).unwrap();
    let MetricPoints::Histograms(points) = metric.points else { panic!("{name} is no histogram") };
    let count = |(labels, data): &(hospes_telemetry::MetricLabels, hospes_telemetry::HistogramData)| {
        (labels.last().unwrap().1.to_string(), data.counts.iter().sum())
    };
    points.iter().map(count).collect()
}

/// covers: META-08
#[tokio::test]
async fn a_forwarded_request_is_a_span_below_that_of_the_application() {
    let cluster = Cluster::new(2).await;
    let [one, two] = &cluster.nodes[..] else { panic!("two nodes") };
    let (kept, metrics) = (KeptBodies::default(), NodeMetrics::default());
    let mut settings = TelemetrySettings::new(Vec::new());
    (settings.signals, settings.sampler) = (vec![TelemetrySignal::Traces], TraceSampler::ratio(0.0));
    let telemetry = TelemetryExport::start(settings, &|| Ok(Box::new(kept.clone()))).unwrap();
    let peers = NodePeers::new(one.membership.clone(), FleetSecrets::new([[1; 32]]).unwrap());
    let peers = peers.metrics(metrics.clone()).tracer(telemetry.tracer());
    let forward = async |id: NodeId, flags: &str| {
        let (mut parts, _) = request("/mcp", "POST", "", String::new()).into_parts();
        parts.headers.insert("mcp-session-id", "none".parse().unwrap());
        let mut message = call(1, "echo");
        let parent = format!("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-{flags}");
        message["params"]["_meta"]["traceparent"] = parent.into();
        let body = Bytes::from(message.to_string());
        peers.forward(&NodeRecord::new(id, &two.address.to_string()), parts, body).await
    };
    assert!(matches!(forward(two.membership.node().unwrap(), "01").await, ForwardResult::Response(_)));
    assert!(matches!(forward(two.membership.node().unwrap(), "00").await, ForwardResult::Response(_)));
    assert!(matches!(forward(NodeId::random(), "01").await, ForwardResult::NotProcessed));
    assert_eq!(counts(&metrics, "hospes.forward"), [("response".into(), 2), ("not_processed".into(), 1)]);
    tokio::task::spawn_blocking(move || telemetry.shut_down(Duration::from_secs(30))).await.unwrap();

    let sent = kept.0.lock().concat();
    let occurs = |part: &[u8]| sent.windows(part.len()).filter(|window| *window == part).count();
    assert_eq!(
        occurs(b"hospes.forward\x30"),
        2,
        "the name is followed by the kind; one trace is not recorded"
    );
    assert_eq!(occurs(&0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes()), 2);
    assert_eq!(occurs(&0x00f0_67aa_0ba9_02b7_u64.to_be_bytes()), 2, "the parent");
    assert_eq!((occurs(b"error.type"), occurs(b"not_processed")), (1, 2));
}

#[tokio::test]
async fn operations_of_the_shared_state_are_measured() {
    let metrics = NodeMetrics::default();
    let relay = MeasuredRelay::new(
        Arc::new(MemoryRelay::new(MemoryStore::new(RelaySettings::default()))),
        metrics.clone(),
    );
    relay.nodes().await.unwrap();
    relay.nodes().await.unwrap();
    relay.find(&SessionKey::new(None, "a")).await.unwrap();
    assert_eq!(counts(&metrics, "hospes.engine"), [("nodes".into(), 2), ("find".into(), 1)]);
}
