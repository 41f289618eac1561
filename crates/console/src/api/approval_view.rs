//! An approval as pages show it: with its sentence, and with the file that it would change.

use std::path::{Component, Path, PathBuf};

use axum::extract::{Path as UrlPath, State};
use axum::{Extension, Json};
use hospes_host::approvals::{
    Approval, ApprovalCard, ApprovalRights, ApprovalSentence, CallCard, CallContent,
};
use hospes_host::deciders::TeamDecider;
use hospes_policy::visible_line;
use hospes_store::{AuditEntryKind, AuditOutcome, AuditQuery};
use serde::Serialize;
use serde_json::Value;

use super::approvals::visible_approval;
use crate::api_error::{ApiError, ApiResult};
use crate::browser_auth::ConsoleCaller;
use crate::console::Console;
use crate::file_on_disk::{FileOnDisk, FileReader};

/// An approval with what the host says about it.
#[derive(Serialize)]
pub(super) struct ApprovalView {
    #[serde(flatten)]
    approval: Approval,
    sentence: ApprovalSentence,
    /// True if the call is one of the caller's own. Always without a team.
    is_own: bool,
    /// True if the caller can allow it, and not only deny it.
    may_allow: bool,
    /// Names of the groups whose members can allow it, as text. `None` if the person whose call it is decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    /// Display name of the person whose call it is, for approvers. It identifies nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    requester_name: Option<String>,
    /// Kind of content of a call, with the names of its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<CallContent>,
}

impl ApprovalView {
    /// Creates the view of an approval for a person of a team, or for those at the machine of the host.
    pub(super) fn new(approval: Approval, person: Option<&TeamDecider>) -> Self {
        let content = match &approval.card {
            ApprovalCard::Call(card) => Some(CallContent::of(card)),
            _ => None,
        };
        let ApprovalRights { is_own, may_allow, .. } = approval.rights_of(person).unwrap_or_default();
        let waits_for = approval.approvers.as_ref().map(ToString::to_string);
        let sentence = ApprovalSentence::of(&approval);
        Self { sentence, is_own, may_allow, waits_for, requester_name: None, content, approval }
    }

    /// Returns the principal of somebody else, whose call it is.
    pub(super) fn other_principal(&self) -> Option<&str> {
        self.approval.principal.as_deref().filter(|_| !self.is_own)
    }

    pub(super) fn set_requester_name(&mut self, name: Option<String>) {
        self.requester_name = name;
    }
}

/// The file that a call would replace.
pub(super) async fn file(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    UrlPath(id): UrlPath<String>,
) -> ApiResult<FileOnDisk> {
    let approval = visible_approval(&console, &caller, &id)?;
    let path = match &approval.card {
        ApprovalCard::Call(card) => written_path(card),
        _ => None,
    };
    let path = path.ok_or_else(|| ApiError::Nothing("this call writes no file".to_owned()))?;
    let private = console.environment().private_folders.clone();
    let reader = FileReader::new(console.servers().folders(&approval.server), private);
    let read = tokio::task::spawn_blocking(move || reader.read(&path)).await;
    Ok(Json(read.unwrap_or_else(|_| FileOnDisk::unreadable("reading it failed"))))
}

/// Sentences about a call, from earlier calls and the configuration.
#[derive(Default, Serialize)]
pub(super) struct SignsResponse {
    signs: Vec<String>,
}

/// Maximum number of recorded calls that are looked at for an earlier one.
const MAX_EARLIER: usize = 20;

pub(super) async fn signs(
    State(console): State<Console>,
    Extension(caller): Extension<ConsoleCaller>,
    UrlPath(id): UrlPath<String>,
) -> ApiResult<SignsResponse> {
    let approval = visible_approval(&console, &caller, &id)?;
    let ApprovalCard::Call(card) = &approval.card else { return Ok(Json(SignsResponse::default())) };
    let mut signs = Vec::new();
    if is_first_call(&console, &caller, &approval, &card.name).await? {
        signs.push(format!(
            "First call of {} of {}",
            visible_line(&card.name),
            visible_line(&approval.server)
        ));
    }
    let folders = console.servers().folders(&approval.server).reachable;
    let is_outside = |target: &&String| is_outside(Path::new(target.as_str()), &folders);
    if !folders.is_empty()
        && let Some(outside) = card.summary.targets.iter().find(is_outside)
    {
        signs.push(format!("{} is outside the known folders of this server", visible_line(outside)));
    }
    Ok(Json(SignsResponse { signs }))
}

/// Returns true if a path leads out of the folders, by its words: links are not followed.
fn is_outside(path: &Path, folders: &[PathBuf]) -> bool {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    path.is_absolute() && !folders.iter().any(|folder| whole.starts_with(folder))
}

/// Returns true if no earlier call of the tool was carried out, as far as calls are recorded.
async fn is_first_call(
    console: &Console,
    caller: &ConsoleCaller,
    approval: &Approval,
    name: &str,
) -> Result<bool, ApiError> {
    let Some(audit) = console.audit() else { return Ok(false) };
    let mut query = AuditQuery::new()
        .with_kind(AuditEntryKind::Call)
        .with_server(&*approval.server)
        .with_limit(MAX_EARLIER);
    query.subject = Some(name.to_owned());
    query.principal = caller.person().and_then(|_| approval.principal.clone());
    let found = audit.search(query).await?;
    let is_done = |ending: Option<AuditOutcome>| {
        !matches!(ending, None | Some(AuditOutcome::Asked | AuditOutcome::Refused))
    };
    Ok(!found.iter().any(|recorded| is_done(recorded.entry.ending)))
}

/// Returns the path of the file whose whole text the arguments contain.
fn written_path(card: &CallCard) -> Option<String> {
    let CallContent::Write { path, .. } = CallContent::of(card) else { return None };
    let arguments = card.arguments.decode::<Value>().ok()?;
    arguments.get(&path)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_goes_up_is_judged_by_where_it_leads() {
        let folders = [PathBuf::from("/srv/notes")];
        let is_outside = |path: &str| is_outside(Path::new(path), &folders);
        for outside in
            ["/etc/passwd", "/srv/notes/../../etc/passwd", "/srv/notes/..", "/srv/notes2", "/../etc"]
        {
            assert!(is_outside(outside), "{outside}");
        }
        for inside in
            ["/srv/notes", "/srv/notes/a/../b", "/srv/./notes/a", "/etc/../srv/notes/a", "notes/../../x"]
        {
            assert!(!is_outside(inside), "{inside}");
        }
    }
}
