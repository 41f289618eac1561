//! Launch of a server's process, for people.

use hospes_sandbox::Confinement;
use serde::{Deserialize, Serialize};

/// Launch of a server's process, in a form for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerProcess {
    /// The whole command line, with the file that the program is, without secrets.
    pub command: String,
    /// Sandbox of the process; none if it is unconfined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Confinement>,
    /// Its variables that decide which code it loads, whatever the command line says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loader_variables: Vec<String>,
}

impl ServerProcess {
    /// Returns the permissions of the process as text.
    #[must_use]
    pub fn permissions_text(&self) -> String {
        match &self.sandbox {
            Some(sandbox) => sandbox.to_string(),
            None if hospes_sandbox::SandboxHelper::is_supported() => {
                "not confined or supervised: all files and the network of its user".to_owned()
            }
            None => "not confined on this system: all files and the network of its user".to_owned(),
        }
    }
}
