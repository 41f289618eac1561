//! Handle that keeps a connection open.

use std::sync::Arc;

use crate::client::connection::core::ClientCore;

/// A connection to a server. Cheap to clone; every clone is the same connection, which ends with the last of them.
///
/// ```no_run
/// # use hospes::client::Client;
/// # use serde_json::json;
/// # async fn f() -> hospes::Result<()> {
/// let client = Client::connect("npx -y @modelcontextprotocol/server-everything").await?;
/// for tool in client.tools().all().await? {
///     println!("{}", tool.name);
/// }
/// let answer = client.call("echo", json!({ "message": "hello" })).await?;
/// println!("{}", answer.all_text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) core: Arc<ClientCore>,
}

impl Client {
    pub(crate) fn new(core: ClientCore) -> Self {
        let core = Arc::new(core);
        // Started here, because the tasks behind these hold weak references to the finished core.
        core.spawn_change_listener();
        core.spawn_health_check();
        core.spawn_root_watcher();
        core.resubscribe_on_new_session();
        Self { core }
    }
}
