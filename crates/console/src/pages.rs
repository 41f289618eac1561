//! The pages of the console: HTML, a style sheet and JavaScript modules, all embedded in the program.

use axum::Router;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::console::Console;

/// HTML of all pages; `app.js` renders the content.
const INDEX_PAGE: &str = include_str!("../pages/index.html");
/// HTML of the page that opens a link.
const OPEN_PAGE: &str = include_str!("../pages/open.html");

/// HTML of the answer at an address without a page.
const MISSING_PAGE: &str = include_str!("../pages/missing.html");

/// Content security policy: only resources of the own origin, nothing inline, no markup from text (trusted types), no
/// framing.
const PAGE_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

macro_rules! modules {
    ($($name:literal)*) => { [$(($name, JAVASCRIPT, include_str!(concat!("../pages/", $name)))),*] };
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// JavaScript modules of the pages.
const MODULES: [(&str, &str, &str); 57] = modules! {
    "open.js" "app.js" "api.js" "json.js" "dom.js" "format.js" "keys.js" "chart.js" "parts.js" "schema.js"
    "values.js" "diff.js" "card.js" "plan.js" "first_look.js" "rule.js" "pins.js" "seen.js" "edits.js" "sentence.js"
    "content.js" "file_diff.js" "approval_card.js" "approval_rows.js" "suggestion.js" "proposals.js" "connections.js" "imports.js"
    "welcome.js" "rule_effect.js" "rule_list.js" "recording.js"
    "approvals.js" "servers.js" "models.js" "activity.js" "grants.js" "sessions.js" "home.js" "map.js"
    "add.js" "registry.js" "addition.js" "addition_screen.js" "addition_questions.js" "addition_offer.js" "form.js" "try.js" "result.js" "rules.js" "profiles.js"
    "server_settings.js" "server_change.js" "server_update.js" "checks.js" "sign_in.js" "team.js"
};

/// Other files that pages load.
const ASSETS: [(&str, &str, &str); 9] = [
    ("style.css", "text/css; charset=utf-8", include_str!("../pages/style.css")),
    ("approvals.css", "text/css; charset=utf-8", include_str!("../pages/approvals.css")),
    ("home.css", "text/css; charset=utf-8", include_str!("../pages/home.css")),
    ("try.css", "text/css; charset=utf-8", include_str!("../pages/try.css")),
    ("profiles.css", "text/css; charset=utf-8", include_str!("../pages/profiles.css")),
    ("additions.css", "text/css; charset=utf-8", include_str!("../pages/additions.css")),
    ("settings.css", "text/css; charset=utf-8", include_str!("../pages/settings.css")),
    ("team.css", "text/css; charset=utf-8", include_str!("../pages/team.css")),
    ("icon.svg", "image/svg+xml", include_str!("../pages/icon.svg")),
];

/// Paths at which the HTML is served; each page has a URL that can be bookmarked.
const PAGES: [&str; 19] = [
    "/",
    "/approvals",
    "/approvals/{id}",
    "/grants",
    "/servers",
    "/servers/{name}",
    "/servers/{name}/settings",
    "/servers/{name}/update",
    "/servers/{name}/tools/{tool}",
    "/models",
    "/profiles",
    "/profiles/{name}",
    "/activity",
    "/sessions",
    "/add",
    "/connect",
    "/welcome",
    "/rules/new",
    "/rules/{number}",
];

pub(crate) fn routes() -> Router<Console> {
    let pages =
        PAGES.iter().fold(Router::new(), |routes, path| routes.route(path, get(async || Html(INDEX_PAGE))));
    let routes = pages.route("/open", get(async || Html(OPEN_PAGE)));
    MODULES.iter().chain(&ASSETS).fold(routes, |routes, (name, kind, text)| {
        let asset = async || ([(CONTENT_TYPE, HeaderValue::from_static(kind))], *text).into_response();
        routes.route(&format!("/assets/{name}"), get(asset))
    })
}

/// Answers at an address without a page, for browsers.
pub(crate) fn missing() -> Response {
    (StatusCode::NOT_FOUND, Html(MISSING_PAGE)).into_response()
}

/// Adds the security headers to every response to a browser.
pub(crate) async fn add_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, PAGE_SECURITY_POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // Responses contain arguments and results of calls, which do not belong in a cache on disk.
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-embedder-policy"), "require-corp"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
