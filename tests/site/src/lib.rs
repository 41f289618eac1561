//! The documentation site: builds it from `docs/` with mdBook, and checks every link of it and of the pages beside it.
//!
//! | Module | Content |
//! |---|---|
//! | [`book`] | building the site, with links of the repository turned into links of the site |
//! | [`html`] | what a page offers (anchors) and what it refers to |
//! | [`site_links`] | the links, images and anchors of a built site |
//! | [`repository_links`] | the links of README.md and the other pages that are read in the repository |
//!
//! Nothing here reaches the network: the address of another site is only parsed.

pub mod book;
pub mod html;
pub mod repository_links;
pub mod site_links;

use std::fmt;

/// A link that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct BrokenLink {
    /// File that has the link, relative to the folder that is checked.
    pub file: String,
    /// Link as it is written there.
    pub link: String,
    /// Description of the missing target.
    pub reason: String,
}

impl BrokenLink {
    fn new(file: &str, link: &str, reason: impl Into<String>) -> Self {
        Self { file: file.to_owned(), link: link.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for BrokenLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, link, reason } = self;
        write!(f, "{file}: `{link}`: {reason}")
    }
}

/// Target of a link.
#[derive(Debug, PartialEq, Eq)]
enum LinkTarget<'a> {
    /// Another site, with an address that is well-formed.
    External,
    /// A file, as a path relative to the page or the empty path for the page itself, and an anchor in it.
    Internal { path: String, anchor: Option<&'a str> },
}

/// Takes a link apart. Fails with the reason if it is malformed.
fn read_target(link: &str) -> Result<LinkTarget<'_>, String> {
    let scheme = link.split_once(':').map(|(scheme, _)| scheme);
    let has_scheme = scheme.is_some_and(|scheme| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    });
    if has_scheme {
        let url = url::Url::parse(link).map_err(|error| error.to_string())?;
        return match url.scheme() {
            "http" | "https" if url.has_host() => Ok(LinkTarget::External),
            "mailto" if url.path().contains('@') => Ok(LinkTarget::External),
            "data" => Ok(LinkTarget::External),
            scheme => Err(format!("addresses of the scheme `{scheme}` are not followed")),
        };
    }
    if link.starts_with('/') {
        return Err("an absolute path depends on where the site is published".to_owned());
    }
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor).filter(|anchor| !anchor.is_empty())),
        None => (link, None),
    };
    let path = path.split('?').next().unwrap_or_default();
    let path = percent_encoding::percent_decode_str(path).decode_utf8().map_err(|error| error.to_string())?;
    Ok(LinkTarget::Internal { path: path.into_owned(), anchor })
}

/// Resolves a relative path against the folder of the file that names it. `None` if it leaves the top folder.
fn resolve(file: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = match file.rsplit_once('/') {
        Some((folder, _)) => folder.split('/').collect(),
        None => Vec::new(),
    };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_file_that_names_them() {
        assert_eq!(resolve("a/b.html", "../c.html").as_deref(), Some("c.html"));
        assert_eq!(resolve("a.html", "./css/x.css").as_deref(), Some("css/x.css"));
        assert_eq!(resolve("a.html", "../c.html"), None);
    }

    #[test]
    fn addresses_of_other_sites_are_only_parsed() {
        assert_eq!(read_target("https://example.org/a#b"), Ok(LinkTarget::External));
        assert!(read_target("https://").is_err());
        assert!(read_target("javascript:alert(1)").is_err());
        let anchor = LinkTarget::Internal { path: "a b.html".to_owned(), anchor: Some("c:d") };
        assert_eq!(read_target("a%20b.html#c:d"), Ok(anchor));
    }
}
