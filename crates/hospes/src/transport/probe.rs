//! A small server with tools that misbehave, written by hand against the seam, for the transports' tests.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hospes_model::{
    CallToolResult, DiscoverResult, ElicitParams, ElicitSchema, Implementation, InputRequest,
    ListToolsResult, LogMessageParams, LoggingLevel, Method, Notification, PromptsCapability, RawJson, Reply,
    ResourceUpdatedParams, ResourcesCapability, Revision, RpcError, ServerCapabilities, SubscriptionFilter,
    SubscriptionsAcknowledgedParams, SubscriptionsListenParams, Tool, ToolsCapability, meta_key,
};
use serde::Deserialize;
use tokio::sync::broadcast;

use crate::service::{Call, Outcome, Service};

/// The server.
#[derive(Clone, Debug)]
pub(crate) struct ProbeService(Arc<ProbeState>);

#[derive(Debug)]
struct ProbeState {
    changes: broadcast::Sender<ProbeChange>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    listening: AtomicUsize,
    finished: AtomicUsize,
}

/// Resource whose changes are not sent.
pub(crate) const UNSUBSCRIBABLE_URI: &str = "x:secret";

/// Change that listeners receive.
#[derive(Clone, Debug)]
pub(crate) enum ProbeChange {
    Tools,
    Prompts,
    Resource(String),
}

impl ProbeService {
    pub(crate) fn new() -> Self {
        Self(Arc::new(ProbeState {
            changes: broadcast::channel(64).0,
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            listening: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn change(&self, change: ProbeChange) {
        let _ = self.0.changes.send(change);
    }

    /// Returns the number of running handlers.
    pub(crate) fn running(&self) -> usize {
        self.0.running.load(Ordering::SeqCst)
    }

    /// The most handlers that ever ran at once.
    pub(crate) fn most_running(&self) -> usize {
        self.0.most_running.load(Ordering::SeqCst)
    }

    /// Returns the number of open streams of changes.
    pub(crate) fn listening(&self) -> usize {
        self.0.listening.load(Ordering::SeqCst)
    }

    /// Returns the number of slow handlers that have finished.
    pub(crate) fn finished(&self) -> usize {
        self.0.finished.load(Ordering::SeqCst)
    }
}

struct CountGuard<'a>(&'a AtomicUsize);

impl<'a> CountGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProbeArguments {
    text: String,
    millis: u64,
    /// Number of steps of `progress`; 0 stands for 3.
    steps: u32,
}

impl Service for ProbeService {
    async fn call(&self, call: Call) -> Outcome {
        match call.method {
            Method::Discover => discover().into(),
            Method::ToolsList => {
                let schema = RawJson::parse("{\"type\":\"object\"}").unwrap();
                Outcome::Complete(ListToolsResult::new(vec![Tool::new("echo", schema)]).into())
            }
            Method::ToolsCall => self.tool(call).await,
            Method::SubscriptionsListen => self.listen(call).await,
            other => Outcome::Failed(RpcError::method_not_found(other.name())),
        }
    }
}

fn discover() -> Result<DiscoverResult, RpcError> {
    let capabilities = ServerCapabilities::new()
        .with_tools(ToolsCapability::new().with_list_changed(true))
        .with_prompts(PromptsCapability::new().with_list_changed(true))
        .with_resources(ResourcesCapability::new().with_subscribe(true))
        .with_logging(RawJson::empty_object());
    let mut result = DiscoverResult::new(vec![Revision::LATEST.to_string()], capabilities);
    let info = Implementation::new("probe", "1.0");
    result.meta.insert(meta_key::SERVER_INFO, RawJson::from_serialize(&info).unwrap());
    Ok(result.with_instructions("probe me"))
}

impl ProbeService {
    async fn tool(&self, call: Call) -> Outcome {
        let _running = CountGuard::new(&self.0.running);
        self.0.most_running.fetch_max(self.running(), Ordering::SeqCst);
        let view = call.params.view();
        let arguments = view.arguments.clone().unwrap_or_else(RawJson::empty_object);
        let arguments: ProbeArguments = match arguments.decode() {
            Ok(arguments) => arguments,
            Err(error) => return Outcome::Complete(CallToolResult::error(error.to_string()).into()),
        };
        let context = &call.context;
        let text = match view.name.as_deref() {
            Some("echo") => arguments.text,
            Some("panic") => panic!("as asked"),
            Some("sleep") => {
                tokio::time::sleep(Duration::from_millis(arguments.millis)).await;
                self.0.finished.fetch_add(1, Ordering::SeqCst);
                "slept".to_owned()
            }
            Some("forever") => std::future::pending().await,
            Some("progress") => {
                let steps = if arguments.steps == 0 { 3 } else { arguments.steps };
                for step in 1..=steps {
                    context.progress(f64::from(step), Some(f64::from(steps)), None);
                    tokio::time::sleep(Duration::from_millis(arguments.millis)).await;
                }
                if arguments.text.is_empty() { "there".to_owned() } else { arguments.text }
            }
            Some("log") => {
                context.log(LoggingLevel::Info, serde_json::json!("hello"));
                "logged".to_owned()
            }
            Some("stray") => {
                // What belongs to other streams, or was not asked for.
                context.notify(Notification::ToolsListChanged);
                let message = LogMessageParams::new(LoggingLevel::Info, serde_json::json!("hello").into());
                context.notify(Notification::LogMessage(message));
                "strayed".to_owned()
            }
            Some("poll") => {
                context.close_stream();
                tokio::time::sleep(Duration::from_millis(arguments.millis)).await;
                "came back".to_owned()
            }
            Some("ask") => match context.answer("name") {
                Some(answer) => format!("answered {}", answer.as_str()),
                None => {
                    let schema = ElicitSchema::new();
                    context.add_question(
                        "name",
                        InputRequest::Elicit(Box::new(ElicitParams::form("Who?", schema))),
                    );
                    return Outcome::InputRequired(context.take_questions().unwrap());
                }
            },
            Some("interview") => {
                // Two rounds: the second must know what the first has brought.
                let asked = ["name", "colour"].map(|key| (key, context.answer(key)));
                if let Some((key, _)) = asked.iter().find(|(_, answer)| answer.is_none()) {
                    let question = ElicitParams::form(format!("Your {key}?"), ElicitSchema::new());
                    context.add_question(*key, InputRequest::Elicit(Box::new(question)));
                    return Outcome::InputRequired(context.take_questions().unwrap());
                }
                asked.iter().filter_map(|(_, answer)| answer.as_ref()).map(RawJson::as_str).collect()
            }
            name => {
                let why = format!("unknown tool {:?}", name.unwrap_or_default());
                return Outcome::Failed(RpcError::invalid_params(why));
            }
        };
        Outcome::Complete(CallToolResult::text(text).into())
    }

    async fn listen(&self, call: Call) -> Outcome {
        let params: SubscriptionsListenParams = match call.decode() {
            Ok(params) => params,
            Err(error) => return Outcome::Failed(error),
        };
        let mut changes = self.0.changes.subscribe();
        let _listening = CountGuard::new(&self.0.listening);
        let mut filter: SubscriptionFilter = params.notifications;
        filter.resource_subscriptions.retain(|uri| uri != UNSUBSCRIBABLE_URI);
        let acknowledged = SubscriptionsAcknowledgedParams::new(filter.clone());
        call.context.notify(Notification::SubscriptionsAcknowledged(acknowledged));
        loop {
            let notification = match changes.recv().await {
                Ok(ProbeChange::Tools) if filter.tools_list_changed => Notification::ToolsListChanged,
                Ok(ProbeChange::Prompts) if filter.prompts_list_changed => Notification::PromptsListChanged,
                Ok(ProbeChange::Resource(uri)) if filter.resource_subscriptions.contains(&uri) => {
                    Notification::ResourceUpdated(ResourceUpdatedParams::new(uri))
                }
                Ok(_) => continue,
                Err(_) => return Outcome::Complete(Reply::Empty),
            };
            call.context.notify(notification);
        }
    }
}
