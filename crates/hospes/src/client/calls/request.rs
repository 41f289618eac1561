//! Builder of a call, which is sent when awaited.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hospes_model::{
    CallToolResult, CompleteResult, GetPromptResult, Method, ProgressParams, RawJson, ReadResourceResult,
    Reply,
};
use serde::Serialize;

use crate::client::connection::core::ProgressCallback;
use crate::client::connection::handle::Client;
use crate::client::error::CallError;
use crate::client::error::malformed;
use crate::client::link::json_members;
use crate::client::link::{EventInterest, OutgoingParams, OutgoingRequest};

/// A call that is sent when it is awaited. Dropping its future cancels it.
#[must_use = "a call does nothing unless awaited"]
pub struct RequestBuilder<'c, T> {
    client: &'c Client,
    method: Method,
    name: Option<&'c str>,
    arguments: Option<RawJson>,
    text: Vec<u8>,
    named: bool,
    meta: Vec<u8>,
    timeout: Option<Duration>,
    max_timeout: Option<Duration>,
    on_progress: Option<ProgressCallback<'c>>,
    refresh: bool,
    fault: Option<CallError>,
    result: PhantomData<fn() -> T>,
}

/// A result that calls can have.
pub trait FromReply: Sized + Send {
    #[doc(hidden)]
    fn from_reply(reply: Reply) -> Option<Self>;
}

macro_rules! from_reply {
    ($($type:ident: $pattern:pat => $value:expr;)+) => {$(
        impl FromReply for $type {
            fn from_reply(reply: Reply) -> Option<Self> {
                match reply {
                    $pattern => Some($value),
                    _ => None,
                }
            }
        }
    )+};
}

from_reply! {
    CallToolResult: Reply::CallTool(result) => result;
    GetPromptResult: Reply::GetPrompt(result) => *result;
    ReadResourceResult: Reply::ReadResource(result) => *result;
    CompleteResult: Reply::Complete(result) => *result;
}

impl<'c, T: FromReply> RequestBuilder<'c, T> {
    pub(crate) fn new(client: &'c Client, method: Method) -> Self {
        Self {
            client,
            method,
            name: None,
            arguments: None,
            text: Vec::new(),
            named: false,
            meta: Vec::new(),
            timeout: None,
            max_timeout: None,
            on_progress: None,
            refresh: false,
            fault: None,
            result: PhantomData,
        }
    }

    pub(crate) fn require(mut self, offered: Result<(), CallError>) -> Self {
        self.fault = self.fault.or_else(|| offered.err());
        self
    }

    /// Sets `name` and `arguments`.
    pub(crate) fn with_arguments<A: Serialize>(mut self, name: &'c str, arguments: &A) -> Self {
        self.name = Some(name);
        self.named = true;
        match RawJson::from_serialize(arguments) {
            Ok(arguments) if arguments.is_null() => {}
            Ok(arguments) if arguments.is_object() => self.arguments = Some(arguments),
            Ok(_) => {
                let error = serde::ser::Error::custom("the arguments must be an object");
                self.fault.get_or_insert(CallError::Arguments(Arc::new(error)));
            }
            Err(error) => {
                self.fault.get_or_insert(CallError::Arguments(Arc::new(error)));
            }
        }
        self
    }

    /// Sets encoded members, one of which names the subject.
    pub(crate) fn with_members(mut self, name: &'c str, text: Vec<u8>) -> Self {
        self.name = Some(name);
        self.text = text;
        self
    }

    pub(crate) fn with_params<P: Serialize>(mut self, params: &P) -> Self {
        match json_members(params) {
            Ok(text) => self.text = text,
            Err(error) => {
                self.fault.get_or_insert(error);
            }
        }
        self
    }

    /// Sets the time the call may take without an answer or progress. [`Duration::MAX`] disables the limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the total time the call may take. [`Duration::MAX`] disables the limit.
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.max_timeout = Some(timeout);
        self
    }

    /// Bypasses the response cache.
    pub fn refresh(mut self) -> Self {
        self.refresh = true;
        self
    }

    /// Sets a callback for progress notifications.
    pub fn on_progress(mut self, listener: impl FnMut(&ProgressParams) + Send + 'c) -> Self {
        self.on_progress = Some(Box::new(listener));
        self
    }

    /// Adds a member to the request's `_meta`. Values of `traceparent`, `tracestate` and `baggage` must have the W3C
    /// syntax, or the call fails.
    pub fn meta(mut self, key: &str, value: &impl Serialize) -> Self {
        if !self.meta.is_empty() {
            self.meta.push(b',');
        }
        crate::client::link::write_json_string(&mut self.meta, key);
        self.meta.push(b':');
        let start = self.meta.len();
        let mut written = serde_json::to_writer(&mut self.meta, value);
        if written.is_ok() && !crate::client::calls::trace_context::is_valid_member(key, &self.meta[start..])
        {
            written = Err(serde::ser::Error::custom(format!("the value of {key} is not in the W3C format")));
        }
        if let Err(error) = written {
            self.fault.get_or_insert(CallError::Arguments(Arc::new(error)));
        }
        self
    }

    async fn send(mut self) -> Result<T, CallError> {
        if let Some(fault) = self.take_fault() {
            return Err(fault);
        }
        let client = self.client;
        let (core, tool) = (&client.core, self.name.filter(|_| self.method == Method::ToolsCall));
        if let Some(tool) = tool
            && core.requires_task(client, tool).await
        {
            return self.send_as_task().await;
        }
        let on_progress = self.take_on_progress();
        let reply = match core.complete_request(self.outgoing(on_progress.is_some()), on_progress).await {
            Err(error) => match tool {
                // Refused before anything was done.
                Some(tool) if Box::pin(core.is_task_required_error(client, tool, &error)).await => {
                    return self.send_as_task().await;
                }
                _ => return Err(error),
            },
            Ok(reply) => reply,
        };
        T::from_reply(reply).ok_or_else(|| malformed(&self.method, "unexpected result type"))
    }

    async fn send_as_task(&mut self) -> Result<T, CallError> {
        // Boxed, because few calls become tasks, and the future of every call would be as large as this one.
        let mut task = Box::pin(crate::client::tasks::running_task::start_task_call(self, None)).await?;
        let result = Box::pin(task.result()).await?;
        T::from_reply(result.into()).ok_or_else(|| malformed(&self.method, "unexpected result type"))
    }

    pub(crate) fn client(&self) -> &'c Client {
        self.client
    }

    pub(crate) fn name(&self) -> Option<&'c str> {
        self.name
    }

    pub(crate) fn take_fault(&mut self) -> Option<CallError> {
        self.fault.take()
    }

    pub(crate) fn take_on_progress(&mut self) -> Option<ProgressCallback<'c>> {
        self.on_progress.take()
    }

    /// Builds the outgoing request. `heard` is true if the caller receives progress.
    pub(crate) fn outgoing(&self, heard: bool) -> OutgoingRequest<'_> {
        let mut outgoing = OutgoingRequest {
            name: self.name,
            arguments: self.arguments.as_ref(),
            members: if self.named { OutgoingParams::Named } else { OutgoingParams::Text(&self.text) },
            ..self.client.core.new_request(&self.method)
        };
        outgoing.meta.members = &self.meta;
        outgoing.refresh = self.refresh;
        if heard {
            outgoing.interest = EventInterest::Notifications;
            outgoing.meta.progress = true;
        }
        if let Some(timeout) = self.timeout {
            outgoing.limits.timeout = (timeout != Duration::MAX).then_some(timeout);
        }
        if let Some(timeout) = self.max_timeout {
            outgoing.limits.max_timeout = (timeout != Duration::MAX).then_some(timeout);
        }
        outgoing
    }
}

impl<'c, T: FromReply + 'c> IntoFuture for RequestBuilder<'c, T> {
    type Output = Result<T, CallError>;
    // Boxed, because the trait has to name the type, and that of an `async fn` has no name.
    type IntoFuture = BoxFuture<'c, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

impl<T> fmt::Debug for RequestBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuilder")
            .field("method", &self.method)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
