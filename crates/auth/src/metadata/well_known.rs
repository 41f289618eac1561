//! Well-known URLs of metadata documents.

use url::Url;

use crate::Issuer;

/// Returns the URLs for the metadata of an MCP endpoint that does not name one: below its path first, then at the root
/// (RFC 9728, section 3.1).
#[must_use]
pub fn resource_metadata_urls(endpoint: &Url) -> Vec<Url> {
    const NAME: &str = "oauth-protected-resource";
    let mut urls = Vec::new();
    if endpoint.path() != "/" {
        urls.extend(inserted(endpoint, NAME, endpoint.path()));
    }
    urls.extend(inserted(endpoint, NAME, ""));
    urls
}

/// Returns the URLs for the metadata of an authorization server, in the order of the requests. RFC 8414 comes first,
/// then OpenID Connect discovery with the path inserted, then with the path in front. The root of an issuer with a path
/// may belong to another party, so it is left out.
#[must_use]
pub fn server_metadata_urls(issuer: &Issuer) -> Vec<Url> {
    const OAUTH: &str = "oauth-authorization-server";
    const OPENID: &str = "openid-configuration";
    let Some(url) = issuer.url() else { return Vec::new() };
    // A slash at the end is removed before the insertion (RFC 8414, section 3.1).
    let path = url.path().trim_end_matches('/').to_owned();
    let mut urls: Vec<Url> = [OAUTH, OPENID].iter().filter_map(|name| inserted(&url, name, &path)).collect();
    if !path.is_empty() {
        urls.extend(with_path(&url, &format!("{path}/.well-known/{OPENID}")));
    }
    urls
}

fn inserted(url: &Url, name: &str, path: &str) -> Option<Url> {
    with_path(url, &format!("/.well-known/{name}{path}"))
}

fn with_path(url: &Url, path: &str) -> Option<Url> {
    let mut there = url.clone();
    there.set_query(None);
    there.set_fragment(None);
    there.set_username("").ok()?;
    there.set_password(None).ok()?;
    there.set_path(path);
    Some(there)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn a_resource_is_looked_for_below_its_path_first() {
        let url = Url::parse("https://me:secret@m:8443/a/mcp?x=1").unwrap();
        assert_eq!(
            texts(&resource_metadata_urls(&url)),
            [
                "https://m:8443/.well-known/oauth-protected-resource/a/mcp",
                "https://m:8443/.well-known/oauth-protected-resource"
            ]
        );
        let root = Url::parse("https://m").unwrap();
        assert_eq!(texts(&resource_metadata_urls(&root)), ["https://m/.well-known/oauth-protected-resource"]);
    }

    #[test]
    fn a_server_is_looked_for_in_the_order_of_its_kind() {
        for issuer in ["https://as/t1", "https://as/t1/"] {
            assert_eq!(
                texts(&server_metadata_urls(&Issuer::new(issuer).unwrap())),
                [
                    "https://as/.well-known/oauth-authorization-server/t1",
                    "https://as/.well-known/openid-configuration/t1",
                    "https://as/t1/.well-known/openid-configuration"
                ]
            );
        }
        for issuer in ["https://as", "https://as/"] {
            assert_eq!(
                texts(&server_metadata_urls(&Issuer::new(issuer).unwrap())),
                [
                    "https://as/.well-known/oauth-authorization-server",
                    "https://as/.well-known/openid-configuration"
                ]
            );
        }
    }
}
