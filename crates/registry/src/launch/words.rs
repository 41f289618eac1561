//! Grammars of package names, versions, hosts and hashes. What does not fit is refused: some programs take other words
//! for options, URLs or folders.

use url::Url;

use crate::entry::RegistryType;

/// Maximum length of an identifier, in bytes.
const MAX_IDENTIFIER: usize = 512;

/// Returns what is wrong with the identifier of a package.
pub(crate) fn package_name_problem(kind: &RegistryType, name: &str) -> Option<String> {
    if name.is_empty() || name.len() > MAX_IDENTIFIER {
        return Some(format!("expected 1 to {MAX_IDENTIFIER} characters"));
    }
    let (is_right, expected) = match kind {
        RegistryType::Npm => (is_npm(name), "a package name of npm, such as `server` or `@scope/server`"),
        RegistryType::Pypi => (is_pypi(name), "a package name of PyPI: letters, digits, `-`, `_` and `.`"),
        RegistryType::Nuget => {
            (is_plain(name, "._-"), "a package name of NuGet: letters, digits, `.`, `_` and `-`")
        }
        RegistryType::Cargo => (is_plain(name, "_-"), "the name of a crate: letters, digits, `-` and `_`"),
        RegistryType::Go => (is_go_module(name), "the path of a Go module, such as `example.com/server`"),
        RegistryType::Oci => {
            (is_image(name), "the reference of an image, such as `ghcr.io/owner/server:1.0.0`")
        }
        RegistryType::Mcpb => return bundle_url_problem(name),
        RegistryType::Other(_) => return None,
    };
    if is_right { None } else { Some(format!("expected {expected}")) }
}

fn is_npm(name: &str) -> bool {
    let is_part = |part: &str| is_plain(part, "._-~") && part.len() <= 214;
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| is_part(scope) && is_part(name)),
        None => is_part(name),
    }
}

fn is_pypi(name: &str) -> bool {
    is_plain(name, "._-") && name.ends_with(|last: char| last.is_ascii_alphanumeric())
}

/// Returns true for letters and digits, with `others` after the first character.
fn is_plain(text: &str, others: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric() || (first == '_' && others.contains('_')))
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || others.contains(letter))
        && !text.contains("..")
}

fn is_go_module(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next().is_some_and(|domain| is_plain(domain, ".-") && domain.contains('.'))
        && path.contains('/')
        && parts.all(|part| is_plain(part, "._-~"))
}

/// Returns true for the reference of an image: a host, a path, a tag, a digest.
pub(crate) fn is_image(reference: &str) -> bool {
    let Some(image) = split_image(reference) else { return false };
    let mut parts = image.path.split('/').peekable();
    let is_host = |part: &str| {
        let (host, port) = part.split_once(':').unwrap_or((part, "1"));
        is_plain(host, ".-") && port.parse::<u16>().is_ok()
    };
    if image.path.contains('/') && parts.peek().is_some_and(|part| is_registry_host(part)) {
        let Some(host) = parts.next() else { return false };
        if !is_host(host) {
            return false;
        }
    }
    let mut is_empty = true;
    for part in parts {
        is_empty = false;
        let is_part = part.chars().all(|letter| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '.' | '_' | '-')
        });
        if !is_part || !part.starts_with(|first: char| first.is_ascii_alphanumeric()) || part.contains("..") {
            return false;
        }
    }
    let is_tag = |tag: &str| is_plain(tag, "._-") && tag.len() <= 128;
    !is_empty
        && image.tag.is_none_or(is_tag)
        && image.digest.is_none_or(|digest| digest.strip_prefix("sha256:").is_some_and(is_sha256))
}

/// Parts of the reference of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageReference<'a> {
    /// Host and path.
    pub(crate) path: &'a str,
    /// Tag.
    pub(crate) tag: Option<&'a str>,
    /// Digest, with its algorithm.
    pub(crate) digest: Option<&'a str>,
}

/// Splits the reference of an image.
pub(crate) fn split_image(reference: &str) -> Option<ImageReference<'_>> {
    let (rest, digest) = match reference.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (reference, None),
    };
    // The colon of a port is before the last slash.
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (rest, None),
    };
    (!path.is_empty()).then_some(ImageReference { path, tag, digest })
}

/// Returns true if the first part of an image's path is a host, and not a folder at the usual registry.
pub(crate) fn is_registry_host(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost"
}

fn bundle_url_problem(text: &str) -> Option<String> {
    let Ok(url) = Url::parse(text) else { return Some("expected the URL of a bundle".to_owned()) };
    if url.scheme() != "https" && !hospes_http_client::is_loopback(&url) {
        return Some("the URL of a bundle must begin with https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some("the URL contains credentials".to_owned());
    }
    None
}

/// Returns what is wrong with the version of a package. Texts that a package registry resolves to changing versions, such
/// as `beta` of npm, `1.2` of cargo or `main` of Go, are no versions.
pub(crate) fn version_problem(kind: &RegistryType, version: &str) -> Option<String> {
    if version == "latest" {
        return Some("`latest` is not an exact version".to_owned());
    }
    if looks_like_range(version) {
        return Some("a range is not an exact version".to_owned());
    }
    let is_exact = is_version(version)
        && match kind {
            RegistryType::Npm | RegistryType::Cargo => is_semantic(version),
            RegistryType::Go => is_semantic(version.strip_prefix('v').unwrap_or(version)),
            RegistryType::Pypi | RegistryType::Nuget => starts_with_digit(version),
            RegistryType::Oci | RegistryType::Mcpb | RegistryType::Other(_) => true,
        };
    (!is_exact).then(|| "expected an exact version, such as 1.2.3".to_owned())
}

fn is_version(version: &str) -> bool {
    version.len() <= 255 && version != "latest" && is_plain(version, "._-+!")
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
}

/// Returns true for three numbers, which a pre-release and build metadata may follow.
fn is_semantic(version: &str) -> bool {
    let numbers = version.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split('.').count() == 3 && numbers.split('.').all(is_number)
}

/// Returns true for the ranges of npm and others: `^1.2`, `>=1`, `1 - 2`, `1 || 2`, `1.x`, `1.*`.
pub(crate) fn looks_like_range(version: &str) -> bool {
    let version = version.trim();
    let is_number = |text: &str| {
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let (numbers, rest) =
            text.split_once('-').map_or((text, None), |(numbers, rest)| (numbers, Some(rest)));
        let parts: Vec<&str> = numbers.split('.').collect();
        parts.len() <= 4
            && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
            && rest.is_none_or(is_suffix)
    };
    let comparator = ["^", "~", ">=", "<=", ">", "<", "="];
    if comparator.iter().any(|sign| version.strip_prefix(sign).is_some_and(is_number)) {
        return true;
    }
    if let Some((from, to)) = version.split_once(" - ")
        && is_number(from)
        && is_number(to)
    {
        return true;
    }
    if version.contains("||") && version.split("||").all(is_number) {
        return true;
    }
    let dotted = version.split_once('-').map_or(version, |(numbers, _)| numbers);
    let parts: Vec<&str> = dotted.split('.').collect();
    let is_wild = |part: &str| matches!(part, "x" | "X" | "*");
    (2..=3).contains(&parts.len())
        && parts.iter().any(|part| is_wild(part))
        && parts.iter().enumerate().all(|(index, part)| {
            let part = if index == 0 { part.strip_prefix('v').unwrap_or(part) } else { part };
            is_wild(part) || (!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
        })
}

fn is_suffix(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-'))
}

/// Returns true for 64 lower-case hexadecimal digits.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true if a host is a domain or below it.
pub(crate) fn is_at_domain(host: &str, domain: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// Returns true if a base URL is the usual one of a kind of package.
pub(crate) fn is_usual_registry(kind: &RegistryType, base: &str) -> bool {
    let base = base.trim_end_matches('/');
    let usual: &[&str] = match kind {
        RegistryType::Npm => &["https://registry.npmjs.org"],
        RegistryType::Pypi => &["https://pypi.org", "https://pypi.org/simple"],
        RegistryType::Nuget => {
            &["https://api.nuget.org", "https://api.nuget.org/v3/index.json", "https://www.nuget.org"]
        }
        RegistryType::Cargo => &["https://crates.io", "https://index.crates.io"],
        RegistryType::Go => &["https://proxy.golang.org", "https://pkg.go.dev"],
        _ => &[],
    };
    usual.contains(&base)
}

/// Returns what is wrong with the base URL of a package registry.
pub(crate) fn registry_problem(base: &str) -> Option<String> {
    let Ok(url) = Url::parse(base) else { return Some("expected a URL".to_owned()) };
    if url.scheme() != "https" && !(url.scheme() == "http" && hospes_http_client::is_loopback(&url)) {
        return Some("the URL must begin with https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some("the URL contains credentials".to_owned());
    }
    None
}

/// Returns true for a name of an environment variable that every system and program accepts.
pub(crate) fn is_variable_name(name: &str) -> bool {
    name.len() <= 256
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Returns true for a variable that changes which code a program loads.
pub(crate) fn loads_code(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    matches!(
        name.as_str(),
        "PATH"
            | "NODE_OPTIONS"
            | "NODE_PATH"
            | "PYTHONPATH"
            | "PYTHONHOME"
            | "PYTHONSTARTUP"
            | "BASH_ENV"
            | "ENV"
            | "PERL5LIB"
            | "RUBYOPT"
            | "JAVA_TOOL_OPTIONS"
            | "DOTNET_STARTUP_HOOKS"
    ) || name.starts_with("LD_")
        || name.starts_with("DYLD_")
        || name.starts_with("NPM_CONFIG_")
        || name.starts_with("UV_")
        || name.starts_with("PIP_")
        || name.starts_with("DOCKER_")
}

/// Returns what is wrong with the name of a header that an entry sets.
pub(crate) fn header_name_problem(name: &str) -> Option<String> {
    let is_token = !name.is_empty()
        && name.len() <= 256
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte));
    if !is_token {
        return Some("this is not the name of an HTTP header".to_owned());
    }
    let lower = name.to_ascii_lowercase();
    let is_ours = matches!(
        lower.as_str(),
        "host"
            | "connection"
            | "content-length"
            | "content-type"
            | "accept"
            | "transfer-encoding"
            | "upgrade"
            | "te"
            | "trailer"
            | "expect"
            | "keep-alive"
            | "proxy-authorization"
            | "proxy-connection"
            | "last-event-id"
    ) || lower.starts_with("mcp-");
    is_ours.then(|| "this header belongs to the connection; an entry may not set it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_registry_resolves_are_no_versions() {
        use RegistryType::{Cargo, Go, Npm, Nuget, Oci, Pypi};
        for (kind, version) in [
            (Npm, "beta"),
            (Npm, "next-11"),
            (Npm, "1"),
            (Npm, "1.2"),
            (Npm, "latest"),
            (Pypi, "beta"),
            (Pypi, "1.*"),
            (Nuget, "beta"),
            (Cargo, "1.2"),
            (Go, "main"),
            (Go, "v1"),
            (Go, "vendor"),
        ] {
            assert!(version_problem(&kind, version).is_some(), "{kind:?} {version}");
        }
        for (kind, version) in [
            (Npm, "1.2.3-beta.1+x"),
            (Pypi, "1!2"),
            (Pypi, "2024.1rc1"),
            (Nuget, "1.2.3.4-beta"),
            (Cargo, "0.1.0"),
            (Go, "v0.0.0-20240101000000-abcdefabcdef"),
            (Go, "1.0.0"),
            (Oci, "stable"),
        ] {
            assert_eq!(version_problem(&kind, version), None, "{kind:?} {version}");
        }
    }
}
