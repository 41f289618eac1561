//! By what way servers over HTTP are reached, and whom to trust on it.

use std::fmt;
use std::path::PathBuf;

/// Network settings of a client.
#[derive(Clone, Default)]
pub(crate) struct NetworkSettings {
    pub(crate) proxy: ProxySetting,
    /// Authorities that are trusted besides the others, in PEM.
    pub(crate) ca_files: Vec<PathBuf>,
}

/// Through which proxy.
#[derive(Clone, Default)]
pub(crate) enum ProxySetting {
    /// The proxy from the environment.
    #[default]
    Environment,
    None,
    Given {
        url: String,
        /// Hosts reached directly, in the form of `NO_PROXY`.
        except: String,
    },
}

// The URL of a proxy may hold a password.
impl fmt::Debug for NetworkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy = match &self.proxy {
            ProxySetting::Environment => "as the environment says",
            ProxySetting::None => "none",
            ProxySetting::Given { .. } => "given",
        };
        f.debug_struct("NetworkSettings").field("proxy", &proxy).field("ca_files", &self.ca_files).finish()
    }
}
