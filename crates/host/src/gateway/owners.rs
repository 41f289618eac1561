//! Whose tasks these are, and by which calls they began: servers behind the gateway cannot tell its applications apart.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hospes::Context;
use hospes_model::TaskStatus;

use crate::guard::Origin;

/// The most tasks whose owners are remembered; then the oldest are forgotten, and with them who may ask for them.
const MAX_OWNED: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<Owned>);

#[derive(Debug, Default)]
struct Owned {
    tasks: HashMap<String, Begun>,
    order: VecDeque<String>,
}

#[derive(Debug)]
struct Begun {
    owner: Option<Arc<str>>,
    /// Where calls are judged or recorded.
    origin: Option<Arc<Origin>>,
    /// How it stood when that was last recorded.
    recorded: Option<TaskStatus>,
    is_ended: bool,
}

impl Owners {
    pub(super) fn note(&self, id: &str, context: &Context, origin: Option<Origin>) {
        let owner = context.peer().principal.clone();
        if owner.is_none() && origin.is_none() {
            return;
        }
        let begun = Begun { owner, origin: origin.map(Arc::new), recorded: None, is_ended: false };
        let mut owned = self.owned();
        if owned.order.len() >= MAX_OWNED
            && let Some(oldest) = owned.order.pop_front()
        {
            owned.tasks.remove(&oldest);
        }
        owned.order.push_back(id.to_owned());
        owned.tasks.insert(id.to_owned(), begun);
    }

    /// Whether the caller may ask for the task. Nobody's is for those who are not signed in.
    pub(super) fn allows(&self, id: &str, context: &Context) -> bool {
        let owned = self.owned();
        owned.tasks.get(id).and_then(|begun| begun.owner.as_deref()) == context.principal()
    }

    /// The call that began it, if it is known.
    pub(super) fn origin(&self, id: &str) -> Option<Arc<Origin>> {
        self.owned().tasks.get(id)?.origin.clone()
    }

    /// Whether that it stands so is to be recorded: once, and not each time that somebody looks.
    pub(super) fn is_news(&self, id: &str, status: &TaskStatus) -> bool {
        let is_news = status.is_terminal() || *status == TaskStatus::InputRequired;
        let mut owned = self.owned();
        let Some(begun) = owned.tasks.get_mut(id) else { return is_news };
        let before = begun.recorded.replace(status.clone());
        is_news && before.as_ref() != Some(status)
    }

    /// It is ended here; whether it was not before.
    pub(super) fn end(&self, id: &str) -> bool {
        let mut owned = self.owned();
        owned.tasks.get_mut(id).is_none_or(|begun| !std::mem::replace(&mut begun.is_ended, true))
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        // Only whole entries come and go, so a panic elsewhere while it was held spoils nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
