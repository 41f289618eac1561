//! Certificate authorities that are trusted.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::load_certs_from_paths;

const CERT_FILE_VARIABLE: &str = "SSL_CERT_FILE";
const CERT_DIR_VARIABLE: &str = "SSL_CERT_DIR";

/// Creates the TLS settings for `https` that trust these authorities, files in PEM. They are added to those of the
/// environment (`SSL_CERT_FILE`, `SSL_CERT_DIR`), or to the built-in ones.
///
/// # Errors
/// Which file or variable cannot be used, and why.
pub fn tls_config(ca_files: &[PathBuf]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    match (of(CERT_FILE_VARIABLE), of(CERT_DIR_VARIABLE)) {
        (None, None) => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        (file, folders) => {
            if let Some(file) = file {
                add(&mut roots, Some(Path::new(&file)), None)
                    .map_err(|why| format!("{CERT_FILE_VARIABLE}: {why}"))?;
            }
            let folders = folders.unwrap_or_default();
            let before = roots.len();
            let mut problem = None;
            for folder in std::env::split_paths(&folders).filter(|folder| !folder.as_os_str().is_empty()) {
                // One without certificates is no harm where another has some.
                problem = add(&mut roots, None, Some(&folder)).err().or(problem);
            }
            if let Some(why) = problem.filter(|_| roots.len() == before) {
                return Err(format!("{CERT_DIR_VARIABLE}: {why}"));
            }
        }
    }
    for file in ca_files {
        add(&mut roots, Some(file), None).map_err(|why| format!("ca_file: {why}"))?;
    }
    // Named, because the process may have no default provider, and rustls panics without one.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn add(roots: &mut RootCertStore, file: Option<&Path>, folder: Option<&Path>) -> Result<(), String> {
    let found = load_certs_from_paths(file, folder);
    // Large collections hold certificates that are too old or malformed for rustls; the others count.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added > 0 {
        return Ok(());
    }
    let place = file.or(folder).unwrap_or_else(|| Path::new(""));
    Err(match found.errors.first() {
        Some(error) => format!("{}: {}", place.display(), describe(error)),
        None => format!("no certificate found in {}", place.display()),
    })
}

/// The message of an error, then its cause if the message does not end with it.
fn describe(error: &rustls_native_certs::Error) -> String {
    let (text, cause) = (error.to_string(), error.source().map(ToString::to_string).unwrap_or_default());
    if text.ends_with(&cause) { text } else { format!("{text}: {cause}") }
}
