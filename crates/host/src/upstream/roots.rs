//! Policy for roots: the folders that a server is given. An application's own roots are limited to the folders granted
//! to the server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use hospes::Context;
use hospes::client::RootFolder;
use hospes_model::{ListRootsResult, RawJson, Root};
use serde_json::value::RawValue;
use url::Url;

use crate::config::{HostSettings, ServerConfig};

/// Maximum number of an application's roots that are checked for a server with limited roots. Further roots are
/// dropped.
const MAX_CHECKED_ROOTS: usize = 256;

/// Owner of roots: the application, with the profile whose endpoint it uses.
pub(crate) type RootsOwner<'a> = (&'a Context, Option<&'a str>);

/// Rules about the roots that a server may be given.
pub(crate) trait RootsRules: std::fmt::Debug + Send + Sync + 'static {
    /// Returns true if a server may be given `told` of `of` roots: of this application, or of the host if there is no
    /// owner. The decision is recorded; if recording fails, the roots are withheld.
    fn may_share_roots(&self, server: &str, owner: Option<RootsOwner<'_>>, told: usize, of: usize) -> bool;
}

/// Roots that one server may be given.
#[derive(Clone, Debug)]
pub(crate) struct RootsPolicy {
    server: Arc<str>,
    /// Folders that the host sends if the application reports no roots.
    pub(crate) own: Vec<PathBuf>,
    /// Folders to which an application's roots are limited. `None` if no roots are configured for this server.
    bound: Option<Arc<[RootFolder]>>,
    guard: Option<Arc<dyn RootsRules>>,
}

impl RootsPolicy {
    pub(crate) fn new(
        config: &ServerConfig,
        settings: &HostSettings,
        guard: Option<Arc<dyn RootsRules>>,
    ) -> Self {
        let bound = config.roots.as_ref();
        Self {
            server: config.name.as_str().into(),
            own: bound.unwrap_or(&settings.roots).clone(),
            bound: bound.map(|folders| folders.iter().map(RootFolder::new).collect()),
            guard,
        }
    }

    /// Returns true if the server may be given the host's own roots now. The operator has configured them, so only a
    /// rule can forbid it.
    pub(crate) fn may_send(&self, roots: &[Root]) -> bool {
        let Some(guard) = &self.guard else { return true };
        guard.may_share_roots(&self.server, None, roots.len(), roots.len())
    }

    /// Removes forbidden roots from answers, by key. Returns true if any answer was checked.
    pub(crate) async fn filter_answers(
        &self,
        owner: RootsOwner<'_>,
        answers: &mut BTreeMap<String, RawJson>,
    ) -> bool {
        let Some(bound) = &self.bound else { return false };
        let mut looked = false;
        for answer in answers.values_mut().filter(|answer| is_roots_result(answer)) {
            looked = true;
            // What cannot be read tells nothing.
            let given = answer.decode::<ListRootsResult>().map(|result| result.roots).unwrap_or_default();
            let of = given.len();
            let bound = Arc::clone(bound);
            // Links are followed on the disk. If that fails, nothing is told.
            let kept =
                tokio::task::spawn_blocking(move || filter_within(&bound, given)).await.unwrap_or_default();
            let may = self
                .guard
                .as_ref()
                .is_none_or(|guard| guard.may_share_roots(&self.server, Some(owner), kept.len(), of));
            let kept = if may { kept } else { Vec::new() };
            tracing::debug!(server = %self.server, told = kept.len(), of, "roots passed to the server");
            let kept = RawJson::from_serialize(&ListRootsResult::new(kept));
            *answer = kept.unwrap_or_else(|_| RawJson::empty_object());
        }
        looked
    }

    /// Removes forbidden roots from the params of `tasks/update`.
    pub(crate) async fn filter_task_params(
        &self,
        owner: RootsOwner<'_>,
        params: &RawJson,
    ) -> Option<RawJson> {
        self.bound.as_ref()?;
        let mut members: BTreeMap<String, Box<RawValue>> = params.decode().ok()?;
        let answers = members.get("inputResponses")?;
        let mut answers: BTreeMap<String, RawJson> = serde_json::from_str(answers.get()).ok()?;
        if !self.filter_answers(owner, &mut answers).await {
            return None;
        }
        members.insert("inputResponses".to_owned(), serde_json::value::to_raw_value(&answers).ok()?);
        RawJson::from_serialize(&members).ok()
    }
}

/// Returns true if an answer is a result of `roots/list`. No other result has such a member.
fn is_roots_result(answer: &RawJson) -> bool {
    answer.decode::<BTreeMap<String, &RawValue>>().is_ok_and(|members| members.contains_key("roots"))
}

/// Returns an application's roots inside the granted folders, with links resolved, because a link may change later.
/// Roots of another machine are left out.
fn filter_within(bound: &[RootFolder], given: Vec<Root>) -> Vec<Root> {
    let kept = given.into_iter().take(MAX_CHECKED_ROOTS).filter_map(|root| {
        let path = Url::parse(&root.uri.to_string()).ok()?.to_file_path().ok()?;
        let real = bound.iter().find_map(|folder| folder.resolve(&path))?;
        let kept = Root::new(Url::from_file_path(real).ok()?);
        Some(match root.name {
            Some(name) => kept.with_name(name),
            None => kept,
        })
    });
    kept.collect()
}
