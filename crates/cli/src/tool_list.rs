//! Tools of a server, read as the host reads them.

use hospes::client::{CallError, Client};
use hospes::model::Tool;
use hospes_host::upstream::{input_schema_fault, remove_repeated};

/// End of the sentence about a tool that is listed again.
pub(crate) const REPEATED: &str = "is listed more than once; the first is kept";

/// Reads the list of tools: those that the host offers, and a sentence for each of the others.
///
/// # Errors
/// If the list cannot be read.
pub(crate) async fn read_tools(client: &Client) -> Result<(Vec<Tool>, Vec<String>), CallError> {
    let mut list = client.tools();
    let (mut tools, mut invalid) = (Vec::new(), Vec::new());
    while let Some(tool) = list.next().await {
        let tool = tool?;
        match input_schema_fault(&tool) {
            None => tools.push(tool),
            Some(fault) => invalid.push(format!("`{}` was left out: {fault}", tool.name)),
        }
    }
    let mut faults = list.unreadable().to_vec();
    faults.extend(invalid);
    faults.extend(remove_repeated(&mut tools, |tool| &tool.name));
    Ok((tools, faults))
}
