//! API v0.1 of a registry.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::http::{TestRequest, TestResponse, json as json_response, not_found, respond, with_header};
use crate::packages::sha256_hex;

/// Key of the registry's data in `_meta`.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";

/// One version of a server.
#[derive(Clone, Debug)]
pub(crate) struct ListedVersion {
    pub(crate) server: Value,
    pub(crate) status: String,
    pub(crate) status_message: Option<String>,
    pub(crate) published_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// Entries that the registry lists.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) versions: Vec<ListedVersion>,
    /// Maximum number of entries of a page, whatever is asked for.
    pub(crate) page_size: usize,
    /// Is false for a sub-registry that leaves `_meta` out.
    pub(crate) has_meta: bool,
}

impl Listing {
    pub(crate) fn publish(&mut self, server: Value, at: Timestamp) {
        let (name, version) = (server["name"].clone(), server["version"].clone());
        self.versions.retain(|known| known.server["name"] != name || known.server["version"] != version);
        let status = "active".to_owned();
        self.versions.push(ListedVersion {
            server,
            status,
            status_message: None,
            published_at: at,
            updated_at: at,
        });
    }

    fn is_latest(&self, version: &ListedVersion) -> bool {
        let name = &version.server["name"];
        let mut others =
            self.versions.iter().filter(|other| other.server["name"] == *name && other.status != "deleted");
        others.next_back().is_some_and(|newest| newest.server["version"] == version.server["version"])
    }

    fn response(&self, version: &ListedVersion) -> Value {
        if !self.has_meta {
            return json!({ "server": version.server });
        }
        let mut official = json!({
            "status": version.status, "publishedAt": version.published_at.to_string(),
            "updatedAt": version.updated_at.to_string(), "statusChangedAt": version.updated_at.to_string(),
            "isLatest": self.is_latest(version)
        });
        if let Some(message) = &version.status_message {
            official["statusMessage"] = message.as_str().into();
        }
        json!({ "server": version.server, "_meta": { OFFICIAL: official } })
    }

    /// Answers a request below `/v0.1`.
    pub(crate) fn answer(&self, request: &TestRequest) -> TestResponse {
        let segments = request.segments();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let body = match segments.as_slice() {
            ["v0.1", "servers"] => match self.list(request) {
                Ok(page) => page,
                Err(response) => return *response,
            },
            ["v0.1", "servers", name, "versions"] => {
                let found = self.versions.iter().rev().filter(|known| known.server["name"] == *name);
                let found: Vec<Value> = found
                    .filter(|known| known.status != "deleted")
                    .map(|known| self.response(known))
                    .collect();
                if found.is_empty() {
                    return not_found("Server");
                }
                json!({ "metadata": { "count": found.len() }, "servers": found })
            }
            ["v0.1", "servers", name, "versions", version] => {
                let is_asked = |known: &&ListedVersion| {
                    known.server["name"] == *name
                        && known.status != "deleted"
                        && match *version {
                            "latest" => self.is_latest(known),
                            version => known.server["version"] == version,
                        }
                };
                match self.versions.iter().find(is_asked) {
                    Some(found) => self.response(found),
                    None => return not_found("Server"),
                }
            }
            _ => return not_found("Path"),
        };
        let text = body.to_string();
        let etag = format!("\"{}\"", &sha256_hex(text.as_bytes())[..16]);
        if request.if_none_match.as_deref() == Some(&etag) {
            return with_header(respond(304, "application/json", ""), "etag", &etag);
        }
        with_header(respond(200, "application/json", text), "etag", &etag)
    }

    fn list(&self, request: &TestRequest) -> Result<Value, Box<TestResponse>> {
        let since: Option<Timestamp> = match request.get("updated_since").map(str::parse) {
            Some(Err(_)) => {
                return Err(Box::new(json_response(400, &json!({ "error": "Invalid updated_since" }))));
            }
            Some(Ok(since)) => Some(since),
            None => None,
        };
        let is_listed = |known: &&ListedVersion| {
            let name = known.server["name"].as_str().unwrap_or_default();
            (known.status != "deleted" || since.is_some())
                && request.get("search").is_none_or(|word| name.to_lowercase().contains(&word.to_lowercase()))
                && since.is_none_or(|since| known.updated_at >= since)
                && match request.get("version") {
                    Some("latest") => self.is_latest(known),
                    Some(version) => known.server["version"] == version,
                    None => true,
                }
        };
        let all: Vec<&ListedVersion> = self.versions.iter().filter(is_listed).collect();
        // The characters of a cursor must survive the way through a URL.
        let start = match request.get("cursor") {
            Some(cursor) => {
                let number = cursor.strip_prefix("a/b+c=&").and_then(|number| number.parse::<usize>().ok());
                number.ok_or_else(|| Box::new(json_response(400, &json!({ "error": "Invalid cursor" }))))?
            }
            None => 0,
        };
        let asked = request.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(30);
        let size = self.page_size.min(asked);
        let page: Vec<Value> = all.iter().skip(start).take(size).map(|known| self.response(known)).collect();
        let mut metadata = json!({ "count": page.len() });
        if start + size < all.len() {
            metadata["nextCursor"] = format!("a/b+c=&{}", start + size).into();
        }
        Ok(json!({ "servers": page, "metadata": metadata }))
    }
}
