//! HostAttachment of `hospes stdio` to the running host. Windows does not report reliably which program connects, so that
//! no host accepts it, and `hospes stdio` starts the servers itself or uses the endpoint with its token.

use std::convert::Infallible;
use std::io;

use hospes_host::config::AllowedCallers;
use hospes_host::{Host, RequestStateConfig};

use crate::exit::CliResult;

/// Returns true if programs of the user may attach without a token. Never on this system.
pub(crate) fn is_allowed(_has_sign_in: bool, _callers: Option<AllowedCallers>) -> bool {
    false
}

/// Place at which programs attach, which this system does not have.
pub(crate) struct AttachSocket(Infallible);

impl AttachSocket {
    /// Always fails.
    pub(crate) fn bind() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[expect(clippy::unused_async, reason = "the same function as on other systems")]
    pub(crate) async fn serve(&self, _: &Host, _: Option<&RequestStateConfig>) -> Infallible {
        self.0
    }
}

/// Connection to the running host.
pub(crate) struct HostAttachment {
    pub(crate) pid: u32,
    never: Infallible,
}

/// Returns `None`: no host accepts it.
///
/// # Errors
/// Never.
#[expect(clippy::unused_async, reason = "the same function as on other systems")]
pub(crate) async fn attach(_application: &str, _profile: Option<&str>) -> CliResult<Option<HostAttachment>> {
    Ok(None)
}

impl HostAttachment {
    #[expect(clippy::unused_async, reason = "the same function as on other systems")]
    pub(crate) async fn forward(self) -> io::Result<()> {
        match self.never {}
    }
}
