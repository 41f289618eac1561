//! A suite of behaviours for every transport, those of this project and your own.
//!
//! Implement [`TestTransport`] and [`TransportSite`] for the transport; [`transport_tests!`](crate::transport_tests)
//! then creates one test for each behaviour. The tests connect the SDK's client to the [`server`] of the suite over the
//! transport.
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

/// A transport under test.
pub trait TestTransport: Send + Sync {
    /// A running server.
    type Site: TransportSite;

    /// True if all clients of a site reach one server, which ends when the site is dropped. Over stdio each client
    /// starts its own server.
    const SHARED: bool = true;

    /// True if a client that has closed its sending direction can still receive responses.
    const HALF_CLOSE: bool = true;

    /// Starts to serve `server`. A transport that has to start a program serves [`server`] in it instead. Dropping the
    /// returned value ends the server.
    fn serve(&self, server: Server) -> impl Future<Output = Self::Site> + Send;

    /// Returns the revisions that the transport supports.
    fn revisions(&self) -> &[Revision] {
        &Revision::ALL
    }
}

/// A running server that clients can connect to.
pub trait TransportSite: Send + Sync {
    /// Connects another client.
    fn connect(&self, client: ClientBuilder) -> impl Future<Output = Result<Client, ConnectError>> + Send;

    /// Opens another connection without a client, on which messages are lines. `None` if messages do not travel on one
    /// connection (HTTP).
    fn wire(&self) -> impl Future<Output = Option<RawConnection>> + Send {
        std::future::ready(None)
    }
}

/// A connection without a client.
pub struct RawConnection {
    pub(crate) read: Pin<Box<dyn AsyncRead + Send>>,
    pub(crate) write: Pin<Box<dyn AsyncWrite + Send>>,
}

impl RawConnection {
    /// Creates a connection from its two directions.
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
/// If the behaviour is missing, or takes longer than [`BEHAVIOUR_TIMEOUT`].
pub fn run(behaviour: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be had");
    let done = runtime.block_on(async { tokio::time::timeout(BEHAVIOUR_TIMEOUT, behaviour).await });
    // Dropping the runtime would wait for blocking tasks, one of which may hang.
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

/// Creates a client that answers the suite's requests: forms with the name in their message, sampling with the number of
/// messages.
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

/// Connects a client of one revision.
pub(crate) async fn connect(site: &impl TransportSite, revision: Revision) -> Client {
    let client = site.connect(client().revision(revision)).await;
    client.unwrap_or_else(|error| panic!("no client of {revision}: {error}"))
}
