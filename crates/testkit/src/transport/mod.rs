//! One suite of behaviours for every transport: ours, and yours.
//!
//! Say how your transport serves and connects ([`TestTransport`], [`TransportSite`]), and let [`transport_tests!`](crate::transport_tests)
//! make a test of each behaviour. They run a [`server`] of the suite's own behind the transport, and the SDK's client in
//! front of it.
//!
//! ```
//! use hospes::Server;
//! use hospes::client::{Client, ClientBuilder, ConnectError};
//! use hospes::transport::memory;
//! use hospes::transport::stdio_server::StdioServer;
//! use hospes_testkit::transport::{TransportSite, TestTransport, RawConnection};
//!
//! struct Memory;
//!
//! impl TestTransport for Memory {
//!     type Site = InMemory;
//!
//!     async fn serve(&self, server: Server) -> InMemory {
//!         InMemory(StdioServer::new(server))
//!     }
//! }
//!
//! struct InMemory(StdioServer);
//!
//! impl TransportSite for InMemory {
//!     async fn connect(&self, client: ClientBuilder) -> Result<Client, ConnectError> {
//!         let (read, write) = tokio::io::split(memory::serve_with(self.0.clone()));
//!         client.over(read, write).await
//!     }
//!
//!     async fn wire(&self) -> Option<RawConnection> {
//!         let (read, write) = tokio::io::split(memory::serve_with(self.0.clone()));
//!         Some(RawConnection::new(read, write))
//!     }
//! }
//!
//! hospes_testkit::transport::run(hospes_testkit::transport::progress_precedes_the_answer(&Memory));
//! ```

mod calls;
mod close;
mod questions;
mod server;
mod wire;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use hospes::Server;
use hospes::client::{Client, ClientBuilder, ConnectError};
use hospes::model::Revision;
use tokio::io::{AsyncRead, AsyncWrite};

pub use calls::{
    answers_over_the_limit_fail_alone, calls_find_their_answers, calls_run_at_once,
    large_messages_arrive_whole, metadata_travels_with_the_request, revisions_are_agreed_on,
};
pub use close::{
    cancelled_calls_stop, clients_do_not_disturb_each_other, the_clients_end_ends_its_calls,
    the_servers_end_fails_what_waits,
};
pub use questions::{
    changes_are_heard, log_messages_precede_the_answer, progress_precedes_the_answer, questions_are_answered,
    questions_find_their_callers,
};
pub use server::server;
pub use wire::{
    a_modern_server_sends_no_requests, messages_arrive_however_they_are_cut, rubbish_is_refused_and_survived,
    what_was_accepted_is_answered_at_the_end,
};

/// Maximum time of a behaviour. After that, the transport has failed.
pub const BEHAVIOUR_TIMEOUT: Duration = Duration::from_secs(120);

/// A transport on trial.
pub trait TestTransport: Send + Sync {
    /// A server that runs.
    type Site: TransportSite;

    /// True if all clients of a site reach one server, which ends when the site is dropped. Over stdio each client
    /// starts its own server.
    const SHARED: bool = true;

    /// True if a client that has closed its direction can still be answered.
    const HALF_CLOSE: bool = true;

    /// Serves; the [`server`] of the suite, if the transport has to start a program for it. Dropping what comes back ends
    /// that.
    fn serve(&self, server: Server) -> impl Future<Output = Self::Site> + Send;

    /// The revisions that it can carry.
    fn revisions(&self) -> &[Revision] {
        &Revision::ALL
    }
}

/// A server that can be reached.
pub trait TransportSite: Send + Sync {
    /// Connects one more client.
    fn connect(&self, client: ClientBuilder) -> impl Future<Output = Result<Client, ConnectError>> + Send;

    /// One more connection without a client at its end, on which messages are lines; none where messages do not
    /// travel on a connection (HTTP).
    fn wire(&self) -> impl Future<Output = Option<RawConnection>> + Send {
        std::future::ready(None)
    }
}

/// A connection without a client at its end.
pub struct RawConnection {
    pub(crate) read: Pin<Box<dyn AsyncRead + Send>>,
    pub(crate) write: Pin<Box<dyn AsyncWrite + Send>>,
}

impl RawConnection {
    /// The client's end of a connection.
    pub fn new(read: impl AsyncRead + Send + 'static, write: impl AsyncWrite + Send + 'static) -> Self {
        Self { read: Box::pin(read), write: Box::pin(write) }
    }
}

impl fmt::Debug for RawConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawConnection")
    }
}

/// Runs one behaviour in a new runtime.
///
/// # Panics
/// When the behaviour is missing, which it says, or shows nothing within [`BEHAVIOUR_TIMEOUT`].
pub fn run(behaviour: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be had");
    let done = runtime.block_on(async { tokio::time::timeout(BEHAVIOUR_TIMEOUT, behaviour).await });
    // Dropping the runtime would wait for blocking tasks, of which one may hang.
    runtime.shutdown_background();
    assert!(done.is_ok(), "nothing came of it within {BEHAVIOUR_TIMEOUT:?}");
}

/// Creates a module `transport_suite` with one test for each behaviour of a [`TestTransport`](crate::transport::TestTransport).
/// An expression creates the transport: `hospes_testkit::transport_tests!(MyTransport::new());`.
#[macro_export]
macro_rules! transport_tests {
    ($transport:expr) => {
        mod transport_suite {
            use super::*;

            $crate::transport_tests!(@each $transport =>
                revisions_are_agreed_on
                calls_find_their_answers
                calls_run_at_once
                large_messages_arrive_whole
                answers_over_the_limit_fail_alone
                metadata_travels_with_the_request
                progress_precedes_the_answer
                log_messages_precede_the_answer
                questions_are_answered
                questions_find_their_callers
                changes_are_heard
                cancelled_calls_stop
                clients_do_not_disturb_each_other
                the_clients_end_ends_its_calls
                the_servers_end_fails_what_waits
                messages_arrive_however_they_are_cut
                rubbish_is_refused_and_survived
                a_modern_server_sends_no_requests
                what_was_accepted_is_answered_at_the_end
            );
        }
    };
    (@each $transport:expr => $($behaviour:ident)*) => {$(
        #[test]
        fn $behaviour() {
            $crate::transport::run(async { $crate::transport::$behaviour(&$transport).await });
        }
    )*};
}

/// A client that answers what it is asked: forms by the number in the question, samples by repeating it.
pub(crate) fn client() -> ClientBuilder {
    use hospes::model::{
        CreateMessageResult, ElicitParams, ElicitResult, RawJson, SamplingMessageContentBlock,
    };

    Client::builder()
        .roots(["file:///srv"])
        .sampling(|question| async move {
            let answer = format!("{} messages", question.messages.len());
            Ok(CreateMessageResult::new("suite", SamplingMessageContentBlock::text(answer)))
        })
        .elicitation(|question| async move {
            let ElicitParams::Form(form) = question else {
                return Ok(ElicitResult::decline());
            };
            let name = form.message.replace("who is ", "name ");
            Ok(ElicitResult::accept(RawJson::from(serde_json::json!({ "name": name }))))
        })
}

/// A client of one revision.
pub(crate) async fn connect(site: &impl TransportSite, revision: Revision) -> Client {
    let client = site.connect(client().revision(revision)).await;
    client.unwrap_or_else(|error| panic!("no client of {revision}: {error}"))
}
