//! Roots that certificates are traced to.

use std::fmt;
use std::time::SystemTime;

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

/// Extended key usage "code signing" (1.3.6.1.5.5.7.3.3), as the content of its DER.
const CODE_SIGNING: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 3];

/// Roots whose certificates are trusted.
#[derive(Clone, Default)]
pub struct TrustRoots {
    anchors: Vec<TrustAnchor<'static>>,
}

impl TrustRoots {
    /// Trusts nobody.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Loads the roots of the system, or of the file that `SSL_CERT_FILE` names. Roots that cannot be read are left out.
    #[must_use]
    pub fn system() -> Self {
        Self::from_der(rustls_native_certs::load_native_certs().certs.iter().map(AsRef::as_ref))
    }

    /// Trusts these certificates. Those that cannot be read are left out.
    pub fn from_der<'c>(certificates: impl IntoIterator<Item = &'c [u8]>) -> Self {
        let anchor = |der: &[u8]| {
            let certificate = CertificateDer::from(der);
            webpki::anchor_from_trusted_cert(&certificate).ok().map(|anchor| anchor.to_owned())
        };
        Self { anchors: certificates.into_iter().filter_map(anchor).collect() }
    }

    /// Traces a certificate to a root. The error says why that is not possible. Authorities need not name code signing,
    /// but if they name uses, it must be among them.
    pub(super) fn check(&self, certificate: &[u8], others: &[&[u8]], now: SystemTime) -> Result<(), String> {
        let certificate = CertificateDer::from(certificate);
        let others: Vec<CertificateDer<'_>> = others.iter().map(|der| CertificateDer::from(*der)).collect();
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let checked = EndEntityCert::try_from(&certificate).and_then(|end| {
            end.verify_for_usage(
                webpki::ALL_VERIFICATION_ALGS,
                &self.anchors,
                &others,
                UnixTime::since_unix_epoch(now),
                KeyUsage::required_if_present(CODE_SIGNING),
                None,
                None,
            )
            .map(drop)
        });
        checked.map_err(|error| match error {
            webpki::Error::UnknownIssuer => "its issuer is not trusted on this system".to_owned(),
            webpki::Error::CertExpired { .. } => "a certificate has expired".to_owned(),
            webpki::Error::CertNotValidYet { .. } => "a certificate is not valid yet".to_owned(),
            webpki::Error::RequiredEkuNotFoundContext(_) => not_for_code(),
            other => format!("its chain is not accepted: {other}"),
        })
    }
}

pub(super) fn not_for_code() -> String {
    "it is not made for code signing".to_owned()
}

impl fmt::Debug for TrustRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustRoots({})", self.anchors.len())
    }
}
