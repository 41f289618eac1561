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

mod behaviour;
mod calls;
mod client;
mod close;
mod questions;
mod server;
mod site;
mod wire;

pub use behaviour::{BEHAVIOUR_TIMEOUT, run};
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
pub use site::{RawConnection, TestTransport, TransportSite};
pub use wire::{
    a_modern_server_sends_no_requests, messages_arrive_however_they_are_cut, rubbish_is_refused_and_survived,
    what_was_accepted_is_answered_at_the_end,
};

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
