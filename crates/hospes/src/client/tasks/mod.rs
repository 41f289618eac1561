//! Tasks of the server, in both revisions that have them.

pub(crate) mod legacy_tasks;
pub(crate) mod running_task;
pub(crate) mod task_updates;
