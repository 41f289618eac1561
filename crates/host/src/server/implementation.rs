//! Name and version of the host, which it gives to servers and applications.

/// Returns the name and version of the host.
#[must_use]
pub fn implementation() -> hospes_model::Implementation {
    hospes_model::Implementation::new("hospes", env!("CARGO_PKG_VERSION")).with_title("Hospes")
}
