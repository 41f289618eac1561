//! Settings for the way to servers over HTTP.

use std::fmt;
use std::path::PathBuf;

/// Network settings of a client.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct NetworkSettings {
    /// Choice of the proxy.
    pub proxy: ProxySetting,
    /// Files with authorities that are trusted in addition to the others, in PEM.
    pub ca_files: Vec<PathBuf>,
}

/// Choice of the proxy.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ProxySetting {
    /// The proxy from the environment.
    #[default]
    Environment,
    /// No proxy.
    None,
    /// This proxy.
    Given {
        /// Its URL: `http://host:port`, with `user:password@` before the host if it requires authentication.
        url: String,
        /// Hosts reached directly, in the form of `NO_PROXY`.
        except: String,
    },
}

// The URL of a proxy may hold a password.
impl fmt::Debug for ProxySetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "as the environment says",
            Self::None => "none",
            Self::Given { .. } => "given",
        })
    }
}
