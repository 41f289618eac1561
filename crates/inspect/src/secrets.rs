//! Secrets in texts.
