//! Messages of the server that belong to no call of the client, and the handlers that answer its requests.

pub(crate) mod change_listeners;
mod deferred_requests;
pub(crate) mod dispatcher;
pub(crate) mod handlers;
pub(crate) mod model_choice;
pub(crate) mod roots;
pub(crate) mod task_runner;
pub(crate) mod url_review;
