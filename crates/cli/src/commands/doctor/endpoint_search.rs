//! Search for the endpoint beside a URL that has none.

use std::time::Duration;

use futures::future::join_all;
use hospes::client::{Client, ConnectError, Target};
use hospes_host::config::{ServerConfig, ServerTransport};
use url::Url;

use super::check::{DoctorCode, DoctorFinding, N03, N05};
use super::failed_connection::is_page;
use crate::output::printable;
use crate::paths::display_path;
use crate::shown_commands::shown_command;

/// Usual paths of endpoints.
const USUAL_PATHS: [&str; 2] = ["/mcp", "/sse"];
/// Maximum time of the search. All places are asked at once.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns true if the server answered at the URL, and has no endpoint there.
pub(super) fn may_help(code: &DoctorCode, error: &ConnectError) -> bool {
    match error.status {
        Some(404 | 405 | 410) => code.code == N05.code,
        // The front page of a web site.
        Some(200..=299) => code.code == N05.code || code.code == N03.code && is_page(error),
        _ => false,
    }
}

/// Returns the URL of an endpoint at the same origin. It is asked without credentials, except for those in the query of the
/// URL.
pub(super) async fn find(url: &str) -> Option<Url> {
    let url = Url::parse(url).ok()?;
    let asked = places(&url).into_iter().map(async |place| is_endpoint(&place).await.then_some(place));
    join_all(asked).await.into_iter().flatten().next()
}

/// Returns the URLs of the same origin at which an endpoint usually is: below the path, and at the root.
fn places(url: &Url) -> Vec<Url> {
    let below = url.path().trim_end_matches('/');
    let mut places: Vec<Url> = Vec::new();
    for prefix in [below, ""] {
        for path in USUAL_PATHS {
            let mut place = url.clone();
            place.set_path(&format!("{prefix}{path}"));
            place.set_fragment(None);
            if place.path() != url.path() && !places.contains(&place) {
                places.push(place);
            }
        }
    }
    places
}

async fn is_endpoint(place: &Url) -> bool {
    let builder = Client::builder().info(hospes_host::implementation()).connect_timeout(SEARCH_TIMEOUT);
    match builder.connect(Target::url(place.as_str())).await {
        Ok(client) => {
            client.close().await;
            true
        }
        // An endpoint that wants a token.
        Err(error) => error.status == Some(401) && !is_page(&error),
    }
}

/// Returns the finding about a URL whose endpoint is elsewhere.
pub(super) fn finding(found: &Url, failed: DoctorFinding, entry: Option<&ServerConfig>) -> DoctorFinding {
    let mut shown = found.clone();
    // Either may be a secret.
    let has_secret = shown.query().is_some() || !shown.username().is_empty() || shown.password().is_some();
    shown.set_query(None);
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    let shown = printable(shown.as_str());
    let DoctorFinding { what, why, .. } = failed;
    let why = why.map_or_else(|| what.clone(), |why| format!("{what}: {why}"));
    let mend = match entry {
        None => shown_command("doctor", &shown),
        Some(server) => {
            let file = display_path(server.source.file());
            let place = match server.source.line() {
                0 => file,
                line => format!("{file}, line {line}"),
            };
            // The URL may be written with references.
            let is_plain = matches!(&server.transport, ServerTransport::Http(http)
                if !has_secret && !http.url.written().contains('$'));
            match is_plain {
                true => format!("write url = \"{shown}\" in the entry `{}` ({place})", server.name),
                false => format!(
                    "write {} as the path of `url` in the entry `{}` ({place})",
                    printable(found.path()),
                    server.name
                ),
            }
        }
    };
    DoctorFinding::new(format!("the endpoint is at {shown}")).why(why).mend(mend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_of_the_same_origin_are_asked() {
        let places =
            |url: &str| places(&Url::parse(url).unwrap()).into_iter().map(String::from).collect::<Vec<_>>();
        assert_eq!(places("http://h:1/"), ["http://h:1/mcp", "http://h:1/sse"]);
        assert_eq!(
            places("https://h/api/v1?key=1#x"),
            [
                "https://h/api/v1/mcp?key=1",
                "https://h/api/v1/sse?key=1",
                "https://h/mcp?key=1",
                "https://h/sse?key=1"
            ]
        );
        assert_eq!(places("http://h/mcp"), ["http://h/mcp/mcp", "http://h/mcp/sse", "http://h/sse"]);
    }
}
