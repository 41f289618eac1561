//! Tasks of the server, of both kinds.

pub(crate) mod legacy_tasks;
pub(crate) mod running_task;
pub(crate) mod task_updates;
