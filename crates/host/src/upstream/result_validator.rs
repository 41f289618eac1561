//! Validation of structured results against the output schemas of tools (TOOL-33).

use std::collections::BTreeMap;

use hospes::client::OutputSchemas;
use hospes_model::CallToolResult;
use parking_lot::Mutex;

use crate::server::UpstreamListing;

/// Maximum number of tools of one connection whose invalid results are remembered.
const MAX_MISFITS: usize = 32;

/// The output schemas of a connection's tools, and the tools with a result that did not fit.
#[derive(Debug, Default)]
pub(crate) struct ResultValidator {
    schemas: OutputSchemas,
    misfits: Mutex<BTreeMap<String, String>>,
}

impl ResultValidator {
    /// Creates a validator with the schemas of these tools.
    pub(crate) fn of(listing: &UpstreamListing) -> Self {
        let results = Self::default();
        results.schemas.learn(&listing.tools, || true);
        results
    }

    /// Returns true if no tool has an output schema.
    pub(crate) fn is_empty(&self) -> bool {
        self.schemas.is_empty()
    }

    /// Returns true if results of this tool can be checked.
    pub(crate) fn can_check(&self, tool: &str) -> bool {
        self.schemas.has(tool)
    }

    /// Notes a result that does not fit its schema. The result is passed on unchanged, since an application may check
    /// it too. The status then shows which server is at fault.
    pub(crate) fn check_result(&self, server: &str, tool: &str, result: &CallToolResult) {
        let Err(why) = self.schemas.check(tool, result) else { return };
        let mut misfits = self.misfits.lock();
        // One for each tool is enough to name the culprit, and a server cannot fill the log or the memory with them.
        if misfits.contains_key(tool) || misfits.len() >= MAX_MISFITS {
            return;
        }
        tracing::warn!(server, tool, why, "result does not match the tool's output schema");
        misfits.insert(tool.to_owned(), why);
    }

    /// Describes each tool that returned an invalid result.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let misfits = self.misfits.lock();
        misfits
            .iter()
            .map(|(tool, why)| {
                format!("a result of `{tool}` that violates its output schema was forwarded: {why}")
            })
            .collect()
    }
}
