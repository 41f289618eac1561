//! Reasons that a TLS handshake fails, told apart because each has another remedy.

use std::error::Error;
use std::io;

use rustls::{CertificateError, Error as TlsError};

#[cfg(test)]
mod tests;

/// Reasons a TLS connection to a server was not established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFailure {
    /// The authority that issued the certificate is not trusted, or the certificate is signed by itself.
    #[error("its certificate is issued by an authority that is not trusted here")]
    UnknownAuthority,
    /// The certificate is for other names.
    #[error("its certificate is for another host")]
    WrongName,
    /// The certificate has expired.
    #[error("its certificate has expired, or the clock of this machine is ahead")]
    Expired,
    /// The certificate is not valid yet.
    #[error("its certificate is not valid yet, or the clock of this machine is behind")]
    NotValidYet,
    /// The certificate is malformed, revoked, or not one of a server.
    #[error("its certificate cannot be used")]
    Certificate,
    /// The answer is not one of TLS.
    #[error("it does not speak TLS at this port")]
    NotTls,
    /// Both sides have no version or algorithm in common, or the server refused the handshake.
    #[error("the TLS handshake failed")]
    Handshake,
}

impl TlsFailure {
    /// Returns what a person can do.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::UnknownAuthority => {
                "if a proxy of your network inspects TLS, or the host has an authority of its own, start Hospes with \
                 SSL_CERT_FILE=FILE: a PEM file with all trusted authorities, which replace the built-in ones"
            }
            Self::WrongName => "check the host of the URL; if it is right, something answers in its place",
            Self::Expired | Self::NotValidYet => {
                "compare the clock with `date`; if it is right, the operator of the host must renew the certificate"
            }
            Self::Certificate => "ask the operator of the host for another certificate",
            Self::NotTls => "check the port of the URL, and whether it must begin with http://",
            Self::Handshake => {
                "ask the operator of the host which versions of TLS it supports; here 1.2 and 1.3 are"
            }
        }
    }

    /// Returns the reason, if an error or one of its causes is that of a TLS connection.
    pub(super) fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        causes(error).find_map(|cause| cause.downcast_ref::<TlsError>()).map(Self::classify)
    }

    fn classify(error: &TlsError) -> Self {
        match error {
            TlsError::InvalidCertificate(reason) => match reason {
                // The signature is that of another authority of the same name, such as one before its renewal.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownAuthority,
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Self::NotValidYet
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    Self::WrongName
                }
                _ => Self::Certificate,
            },
            TlsError::InvalidMessage(_) => Self::NotTls,
            _ => Self::Handshake,
        }
    }
}

/// Iterates over an error and its causes. An [`io::Error`] is followed by the error that it wraps, which its `source`
/// skips.
pub(super) fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'e (dyn Error + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}
