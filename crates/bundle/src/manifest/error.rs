//! Errors of reading a manifest.

use super::{MAX_MANIFEST_BYTES, ManifestIssue};

/// Refusal of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Larger than [`MAX_MANIFEST_BYTES`].
    #[error("the manifest has {size} bytes; at most {MAX_MANIFEST_BYTES} are read")]
    TooLarge {
        /// Size, in bytes.
        size: u64,
    },
    /// Not JSON.
    #[error("the manifest is no JSON: {why}")]
    Json {
        /// Reason, with line and column.
        why: String,
    },
    /// Version that is unknown here, or none.
    #[error("{}", unknown_version(.found.as_deref()))]
    Version {
        /// The version, if there is one.
        found: Option<String>,
    },
    /// Parts that the format does not allow.
    #[error("{}", list_issues(.issues, *.more))]
    Invalid {
        /// Issues in the order of the format, at most [`MAX_ISSUES`](super::MAX_ISSUES).
        issues: Vec<ManifestIssue>,
        /// Number of further issues.
        more: usize,
    },
}

fn unknown_version(found: Option<&str>) -> String {
    let known = "this program knows 0.1, 0.2, 0.3 and 0.4";
    match found {
        Some(found) => format!("manifest_version: {found:?} is no version of the format; {known}"),
        None => format!("manifest_version: there is none, as a text; {known}"),
    }
}

fn list_issues(issues: &[ManifestIssue], more: usize) -> String {
    let mut text = issues.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    if more > 0 {
        text.push_str(&format!("\nand {more} more"));
    }
    text
}
