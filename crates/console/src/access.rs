//! Access of people to the endpoints of the API: one table, and what enforces it.
//!
//! With a team, each person sees and does what their roles allow. Endpoints that are not in the table are refused to
//! browsers, with a team or without one.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;

use crate::api_error::ApiError;
use crate::browser_auth::ConsoleCaller;
use crate::team::{TeamPerson, TeamRole};

/// People who may use an endpoint of a team's console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointAccess {
    /// Everybody who is signed in. What it returns is about the person.
    Everyone,
    /// Members and administrators, for what is their own.
    Own,
    /// Members, administrators and approvers, for approvals of their own calls and those that they are approvers of.
    Decide,
    /// Everybody who is signed in: administrators and auditors for everybody's record, others for their own.
    Record,
    /// Administrators and auditors, because it is about everybody.
    Everybody,
    /// Administrators.
    Admin,
    /// The one person of a console without a team: it is about this machine, its files and the account that runs the host.
    Machine,
}

use EndpointAccess::{Admin, Decide, Everybody, Everyone, Machine, Own, Record};

/// Endpoints of the API, by method and path below `/api`.
pub(crate) const ENDPOINTS: [(&str, &str, EndpointAccess); 70] = [
    ("GET", "/console", Everyone),
    ("GET", "/events", Everyone),
    ("POST", "/focus", Everyone),
    ("GET", "/sessions", Everyone),
    ("POST", "/sessions/end", Everyone),
    ("POST", "/sessions/{id}/end", Everyone),
    ("GET", "/approvals", Decide),
    ("GET", "/approvals/{id}", Decide),
    ("POST", "/approvals/{id}", Decide),
    ("GET", "/approvals/{id}/repeated", Decide),
    ("GET", "/approvals/{id}/signs", Decide),
    // It reads a file of this machine.
    ("GET", "/approvals/{id}/file", Machine),
    ("GET", "/grants", Own),
    ("POST", "/grants/{id}/revoke", Own),
    ("GET", "/activity", Record),
    ("GET", "/activity/summary", Record),
    ("GET", "/activity/digest", Everybody),
    ("GET", "/activity/{number}/arguments", Own),
    ("GET", "/home", Admin),
    ("GET", "/calls", Admin),
    ("GET", "/servers", Admin),
    ("GET", "/servers/{name}", Admin),
    ("POST", "/servers/{name}/restart", Admin),
    ("GET", "/definitions", Admin),
    ("GET", "/definitions/{server}", Admin),
    ("GET", "/definitions/{server}/difference", Admin),
    ("GET", "/definitions/{server}/history", Admin),
    ("POST", "/definitions/{server}/accept", Admin),
    ("POST", "/definitions/{server}/reject", Admin),
    ("GET", "/models", Admin),
    ("GET", "/rules", Admin),
    // Files of this machine, which the other nodes do not have.
    ("POST", "/rules", Machine),
    ("POST", "/rules/preview", Machine),
    ("POST", "/rules/undo", Machine),
    ("GET", "/rules/proposals", Machine),
    ("GET", "/rules/{number}", Machine),
    ("POST", "/rules/{number}/{action}", Machine),
    ("GET", "/profiles", Machine),
    ("POST", "/profiles/{name}", Machine),
    ("POST", "/profiles/{name}/remove", Machine),
    ("GET", "/applications", Machine),
    // The call would be one of nobody: the page has no token of the person for the endpoint.
    ("POST", "/servers/{name}/call", Machine),
    ("GET", "/servers/{name}/settings", Machine),
    ("POST", "/servers/{name}/settings", Machine),
    ("POST", "/servers/{name}/settings/preview", Machine),
    ("POST", "/servers/{name}/settings/undo", Machine),
    ("GET", "/servers/{name}/removal", Machine),
    ("POST", "/servers/{name}/removal", Machine),
    ("POST", "/servers/{name}/update", Machine),
    ("POST", "/servers/{name}/check", Machine),
    ("POST", "/servers/{name}/sign-in", Machine),
    ("POST", "/servers/{name}/sign-out", Machine),
    ("GET", "/setup", Machine),
    ("POST", "/setup/progress", Machine),
    ("POST", "/setup/servers", Machine),
    ("POST", "/setup/import", Machine),
    ("POST", "/setup/connections/{application}/{action}", Machine),
    ("POST", "/setup/notification", Machine),
    ("POST", "/setup/preset", Machine),
    ("POST", "/setup/recording", Machine),
    ("GET", "/registry/servers", Machine),
    ("POST", "/additions", Machine),
    ("POST", "/updates", Machine),
    ("POST", "/additions/end", Machine),
    ("POST", "/additions/{id}/answers", Machine),
    ("POST", "/additions/{id}/start", Machine),
    ("POST", "/additions/{id}/accept", Machine),
    // Before a session, and so before this table is asked: see `api::for_browsers`.
    ("POST", "/open", Everyone),
    ("POST", "/sign-in", Everyone),
    // For programs of this machine alone.
    ("POST", "/links", Machine),
];

impl EndpointAccess {
    /// Returns the access to an endpoint. `None` if it is not in the table.
    pub(crate) fn of(method: &Method, path: &str) -> Option<Self> {
        // The router answers HEAD as GET.
        let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
        let found = ENDPOINTS.iter().find(|(known, of, _)| *known == method && *of == path);
        found.map(|(.., access)| *access)
    }

    /// Returns true if a person may use an endpoint with this access.
    pub(crate) fn includes(self, person: &TeamPerson) -> bool {
        match self {
            Self::Everyone | Self::Record => !person.roles.is_empty(),
            Self::Own => person.has(TeamRole::Member) || person.has(TeamRole::Admin),
            Self::Decide => Self::Own.includes(person) || person.has(TeamRole::Approver),
            Self::Everybody => person.reads_everybody(),
            Self::Admin => person.has(TeamRole::Admin),
            Self::Machine => false,
        }
    }
}

/// Refuses requests of browsers to endpoints that are not in the table or not for the person.
pub(crate) async fn enforce(request: Request, next: Next) -> Result<Response, ApiError> {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str).unwrap_or_default();
    let path = path.strip_prefix("/api").unwrap_or(path);
    let access = EndpointAccess::of(request.method(), path).ok_or(ApiError::Unclassified)?;
    let may = match request.extensions().get::<ConsoleCaller>() {
        Some(ConsoleCaller::Person(person)) => access.includes(person),
        // The one person of this machine.
        Some(ConsoleCaller::Browser(_)) => true,
        Some(ConsoleCaller::Program(_)) | None => false,
    };
    match (may, access) {
        (true, _) => Ok(next.run(request).await),
        (false, Machine) => Err(ApiError::OnMachine),
        (false, _) => Err(ApiError::OtherRole),
    }
}
