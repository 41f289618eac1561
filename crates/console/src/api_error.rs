//! Errors of the API.

use axum::Json;
use axum::response::{IntoResponse, Response};
use hospes_host::approvals::DecideError;
use hospes_host::deciders::CheckDeciderError;
use hospes_host::pins::PinManagerError;
use hospes_host::{PersonCallError, UnknownServerError};
use hospes_policy::visible_line;
use hospes_store::StoreError;
use http::StatusCode;
use serde::Serialize;

use crate::additions::BeginAdditionError;
use crate::client_quota::QuotaExceeded;

/// Result of an API request with a JSON response.
pub(crate) type ApiResult<T> = Result<Json<T>, ApiError>;

/// Error of an API request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("access denied: {0}")]
    Elsewhere(&'static str),
    #[error(
        "this browser is not signed in or its session has ended; open a new link (`hospes console` creates one)"
    )]
    NoSession,
    #[error("you are not signed in, or your session has ended; sign in again")]
    NoPerson,
    #[error("your role does not allow this")]
    OtherRole,
    #[error(
        "this is done on the machine of the host, with the command `hospes`; a team's console does not do it"
    )]
    OnMachine,
    #[error("this endpoint is not in the table of access, so it is not served")]
    Unclassified,
    #[error("the sign-in provider does not answer; try again in a moment")]
    NoProvider,
    #[error("this console is for a team: open {0} and sign in there")]
    ForTeam(String),
    #[error("this link was already used or has expired; `hospes console` creates a new one")]
    NoLink,
    #[error(transparent)]
    NotADecider(#[from] CheckDeciderError),
    #[error("unknown or expired token: programs cannot decide with it")]
    NoToken,
    #[error("{0}")]
    Nothing(String),
    #[error("{0}")]
    Misread(String),
    #[error("auditing is disabled (--no-audit), so there is nothing to show")]
    NotRecorded,
    #[error("too many open event streams: {0}")]
    TooManyStreams(QuotaExceeded),
    #[error("too many running calls of the console (at most {0}); wait for one of them, or end it")]
    TooManyCalls(usize),
    #[error("too many checks and sign-ins are running (at most {0}); wait for one of them, or end it")]
    TooManyCommands(usize),
    #[error("`{}` may destroy something: send `confirmed` once the person has confirmed the call", visible_line(.0))]
    Unconfirmed(String),
    #[error("{0}")]
    Rule(String),
    #[error("{0}")]
    Profile(String),
    #[error("{0}")]
    Settings(String),
    #[error("{0} was changed in the meantime; nothing was changed; look at the change again")]
    OtherFile(String),
    #[error("{0}")]
    RuleFile(String),
    #[error("{0}")]
    Setup(String),
    #[error(transparent)]
    Addition(#[from] BeginAdditionError),
    #[error("this is not asked now; the addition has gone on, or has ended")]
    NotAsked,
    #[error("{0}")]
    PerUser(String),
    #[error("the request timed out")]
    Late,
    #[error(transparent)]
    Undecided(#[from] DecideError),
    #[error(transparent)]
    Pins(#[from] PinManagerError),
    #[error(
        "not accepted: {} not shown to the person, so their hashes are missing in `seen`: {}",
        if .0.len() == 1 { "1 item was" } else { "several items were" }, shown(.0)
    )]
    Unseen(Vec<String>),
    #[error("{0}")]
    Spending(String),
    #[error("the audit log or the state of the host cannot be used")]
    Store(#[from] StoreError),
}

impl ApiError {
    fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Elsewhere(_) => (StatusCode::FORBIDDEN, "elsewhere"),
            Self::NoSession => (StatusCode::UNAUTHORIZED, "no-session"),
            Self::NoPerson => (StatusCode::UNAUTHORIZED, "sign-in"),
            Self::OtherRole | Self::Unclassified => (StatusCode::FORBIDDEN, "role"),
            Self::OnMachine => (StatusCode::FORBIDDEN, "machine"),
            Self::NoProvider => (StatusCode::BAD_GATEWAY, "no-provider"),
            Self::ForTeam(_) => (StatusCode::CONFLICT, "team"),
            Self::NoLink => (StatusCode::FORBIDDEN, "no-link"),
            Self::NotADecider(_) => (StatusCode::FORBIDDEN, "not-a-decider"),
            Self::NoToken => (StatusCode::FORBIDDEN, "no-token"),
            Self::Nothing(_) => (StatusCode::NOT_FOUND, "nothing"),
            Self::Misread(_) => (StatusCode::BAD_REQUEST, "misread"),
            Self::NotRecorded => (StatusCode::NOT_FOUND, "not-recorded"),
            Self::TooManyStreams(_) => (StatusCode::SERVICE_UNAVAILABLE, "too-many-streams"),
            Self::TooManyCalls(_) => (StatusCode::SERVICE_UNAVAILABLE, "too-many-calls"),
            Self::TooManyCommands(_) => (StatusCode::SERVICE_UNAVAILABLE, "too-many-commands"),
            Self::Unconfirmed(_) => (StatusCode::CONFLICT, "unconfirmed"),
            Self::Rule(_) => (StatusCode::BAD_REQUEST, "rule"),
            Self::Profile(_) => (StatusCode::BAD_REQUEST, "profile"),
            Self::Settings(_) => (StatusCode::BAD_REQUEST, "settings"),
            Self::OtherFile(_) => (StatusCode::CONFLICT, "other-file"),
            Self::RuleFile(_) => (StatusCode::CONFLICT, "rule-file"),
            Self::Setup(_) => (StatusCode::CONFLICT, "setup"),
            Self::Addition(BeginAdditionError::OtherRunning) => (StatusCode::CONFLICT, "adding"),
            Self::Addition(BeginAdditionError::TooMany) => {
                (StatusCode::SERVICE_UNAVAILABLE, "too-many-additions")
            }
            Self::NotAsked => (StatusCode::CONFLICT, "not-asked"),
            Self::PerUser(_) => (StatusCode::CONFLICT, "per-user"),
            Self::Late => (StatusCode::SERVICE_UNAVAILABLE, "late"),
            Self::Undecided(why) => match why {
                DecideError::Unknown => (StatusCode::NOT_FOUND, "nothing"),
                DecideError::Over => (StatusCode::CONFLICT, "over"),
                DecideError::NotApprover(_) => (StatusCode::FORBIDDEN, "approver"),
                DecideError::NotOffered(_) => (StatusCode::BAD_REQUEST, "not-offered"),
                DecideError::Edit(_) => (StatusCode::BAD_REQUEST, "edit"),
                DecideError::Rule(_) => (StatusCode::BAD_REQUEST, "rule"),
                DecideError::LongReason => (StatusCode::BAD_REQUEST, "long-reason"),
                _ => (StatusCode::INTERNAL_SERVER_ERROR, "store"),
            },
            Self::Pins(why) => match why {
                PinManagerError::NoServer(_) | PinManagerError::NoItem { .. } => {
                    (StatusCode::NOT_FOUND, "nothing")
                }
                PinManagerError::Builtin(_) => (StatusCode::BAD_REQUEST, "builtin"),
                PinManagerError::Changed(_) => (StatusCode::CONFLICT, "changed"),
                PinManagerError::ServerFirst(_) => (StatusCode::CONFLICT, "server-first"),
                _ => (StatusCode::INTERNAL_SERVER_ERROR, "store"),
            },
            Self::Unseen(_) => (StatusCode::CONFLICT, "unseen"),
            Self::Spending(_) => (StatusCode::INTERNAL_SERVER_ERROR, "store"),
            Self::Store(_) => (StatusCode::INTERNAL_SERVER_ERROR, "store"),
        }
    }
}

/// Maximum number of item names in a message.
const MAX_NAMES: usize = 5;

/// Formats a few of these names and the number of the others.
fn shown(names: &[String]) -> String {
    let first: Vec<String> = names.iter().take(MAX_NAMES).map(|name| visible_line(name)).collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", first.join(", "))
}

#[derive(Serialize)]
struct ApiErrorBody {
    code: &'static str,
    message: String,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.code();
        // The response leaves out the cause, which is logged for the operator.
        if let Self::Store(error) = &self {
            tracing::error!(
                error = error as &dyn std::error::Error,
                "the audit log or the state cannot be used"
            );
        }
        let body = serde_json::json!({ "error": ApiErrorBody { code, message: self.to_string() } });
        (status, Json(body)).into_response()
    }
}

impl From<QuotaExceeded> for ApiError {
    fn from(exceeded: QuotaExceeded) -> Self {
        Self::TooManyStreams(exceeded)
    }
}

impl From<UnknownServerError> for ApiError {
    fn from(error: UnknownServerError) -> Self {
        Self::Nothing(error.to_string())
    }
}

impl From<PersonCallError> for ApiError {
    fn from(error: PersonCallError) -> Self {
        match error {
            PersonCallError::Unknown(unknown) => unknown.into(),
            other => Self::PerUser(other.to_string()),
        }
    }
}
