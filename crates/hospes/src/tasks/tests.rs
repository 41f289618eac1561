//! The rules of tasks, without a wire.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use hospes_model::{
    ElicitFormParams, ElicitParams, ElicitSchema, InputRequest, InputRequests, InputResponses, RawJson,
    RpcError, TaskStatus, code,
};
use serde_json::json;

use super::*;

fn tasks() -> Arc<TaskManager> {
    TaskManager::new(TaskSettings::new(), Arc::new(MemoryTasks::new()))
}

fn with(store: MemoryTasks) -> Arc<TaskManager> {
    TaskManager::new(TaskSettings::new(), Arc::new(store))
}

async fn make(tasks: &Arc<TaskManager>, owner: Option<&str>) -> String {
    tasks.create("tools/call", owner, None, 0).await.unwrap().0.task_id
}

fn question() -> InputRequest {
    ElicitParams::Form(ElicitFormParams::new("?", ElicitSchema::default())).into()
}

fn questions(keys: &[&str]) -> InputRequests {
    keys.iter().map(|key| ((*key).to_owned(), question())).collect()
}

fn raw(value: serde_json::Value) -> RawJson {
    value.into()
}

async fn status(tasks: &TaskManager, id: &str) -> TaskStatus {
    tasks.get(id, None).await.unwrap().task.status
}

async fn cancel(tasks: &TaskManager, id: &str) {
    tasks.cancel(&tasks.get(id, None).await.unwrap()).await.unwrap();
}

async fn answer(tasks: &TaskManager, id: &str, answers: InputResponses) {
    tasks.answer(&tasks.get(id, None).await.unwrap(), answers).await.unwrap();
}

/// covers: TASK-24
#[tokio::test(start_paused = true)]
async fn a_task_is_its_owners_alone() {
    let tasks = tasks();
    let id = make(&tasks, Some("ada")).await;
    for other in [None, Some("bob"), Some("")] {
        assert_eq!(tasks.get(&id, other).await.unwrap_err().code, code::INVALID_PARAMS);
        assert!(tasks.list(other, None).await.unwrap().tasks.is_empty());
    }
    assert_eq!(tasks.get(&id, Some("ada")).await.unwrap().task.status, TaskStatus::Working);
    let unowned = make(&tasks, None).await;
    assert!(tasks.get(&unowned, Some("ada")).await.is_err(), "nobody's is not everybody's");
}

/// covers: TASK-20
#[tokio::test(start_paused = true)]
async fn every_task_of_an_owner_is_listed_once_page_by_page() {
    let tasks = tasks();
    let mut made = Vec::new();
    for _ in 0..250 {
        made.push(make(&tasks, Some("ada")).await);
        make(&tasks, Some("bob")).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    let mut pages = 0;
    loop {
        let page = tasks.list(Some("ada"), cursor.as_deref()).await.unwrap();
        seen.extend(page.tasks.into_iter().map(|task| task.task_id));
        pages += 1;
        // What comes and goes meanwhile does not disturb.
        make(&tasks, Some("bob")).await;
        let Some(next) = page.next_cursor else { break };
        cursor = Some(next);
    }
    assert_eq!(pages, 3);
    seen.sort();
    made.sort();
    assert_eq!(seen, made);
    for bad in ["", "?", "bm9wZQ", "eC55"] {
        assert_eq!(tasks.list(Some("ada"), Some(bad)).await.unwrap_err().code, code::INVALID_PARAMS, "{bad}");
    }
    let failed = make(&tasks, Some("eve")).await;
    let result = raw(json!({ "content": [], "isError": true }));
    tasks.finish(&failed, Ok(result)).await;
    assert_eq!(tasks.list(Some("eve"), None).await.unwrap().tasks[0].status, TaskStatus::Failed);
}

/// covers: TASK-11 TASK-21
#[tokio::test(start_paused = true)]
async fn what_is_over_never_changes() {
    let tasks = tasks();
    let ends: [(&str, TaskStatus); 3] =
        [("finish", TaskStatus::Completed), ("fail", TaskStatus::Failed), ("cancel", TaskStatus::Cancelled)];
    for (how, end) in ends {
        for asked in [false, true] {
            let id = make(&tasks, None).await;
            assert_eq!(status(&tasks, &id).await, TaskStatus::Working);
            if asked {
                assert!(tasks.ask(&id, questions(&["q"])).await.unwrap());
                assert_eq!(status(&tasks, &id).await, TaskStatus::InputRequired);
            }
            match how {
                "finish" => tasks.finish(&id, Ok(raw(json!({})))).await,
                "fail" => tasks.finish(&id, Err(RpcError::internal("no"))).await,
                _ => cancel(&tasks, &id).await,
            }
            let before = tasks.get(&id, None).await.unwrap();
            assert_eq!(before.task.status, end);
            assert!(before.questions.is_empty());
            tasks.finish(&id, Ok(raw(json!({ "late": 1 })))).await;
            cancel(&tasks, &id).await;
            assert!(!tasks.ask(&id, questions(&["late"])).await.unwrap());
            answer(&tasks, &id, [("q".to_owned(), raw(json!({})))].into()).await;
            tasks.set_status_message(&id, "late").await;
            assert_eq!(tasks.get(&id, None).await.unwrap(), before);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_answers_gets_them_when_all_are_there() {
    let tasks = tasks();
    let id = make(&tasks, None).await;
    tasks.ask(&id, questions(&["a", "b"])).await.unwrap();
    let waiting = {
        let (tasks, id) = (Arc::clone(&tasks), id.clone());
        tokio::spawn(async move { tasks.answers(&id, &["a".to_owned(), "b".to_owned()]).await })
    };
    answer(&tasks, &id, [("a".to_owned(), raw(json!({ "x": 1 })))].into()).await;
    assert_eq!(status(&tasks, &id).await, TaskStatus::InputRequired);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    answer(&tasks, &id, [("b".to_owned(), raw(json!({ "x": 2 })))].into()).await;
    assert_eq!(status(&tasks, &id).await, TaskStatus::Working);
    let answers = waiting.await.unwrap().unwrap();
    assert_eq!(answers["b"].as_str(), r#"{"x":2}"#);
    let (cancelled, keys) = (make(&tasks, None).await, ["a".to_owned()]);
    tasks.ask(&cancelled, questions(&["a"])).await.unwrap();
    let (answers, ()) = tokio::join!(tasks.answers(&cancelled, &keys), async {
        cancel(&tasks, &cancelled).await;
    });
    assert!(answers.is_none());
}

/// covers: TASK-26
#[tokio::test(start_paused = true)]
async fn what_is_kept_is_bounded_and_the_limits_are_named() {
    let tasks = with(MemoryTasks::new().max_tasks(3).max_tasks_per_owner(2).max_bytes(100));
    let first = make(&tasks, Some("ada")).await;
    make(&tasks, Some("ada")).await;
    let refused = |error: RpcError, setting: &str| {
        assert_eq!(error.code, code::INTERNAL_ERROR);
        assert!(error.message.contains(setting), "{error}");
    };
    refused(tasks.create("tools/call", Some("ada"), None, 0).await.unwrap_err(), "max_tasks_per_owner");
    make(&tasks, Some("bob")).await;
    refused(tasks.create("tools/call", Some("eve"), None, 0).await.unwrap_err(), "max_tasks");
    // A result too large to be kept is an error that says so.
    tasks.finish(&first, Ok(raw(json!({ "text": "x".repeat(200) })))).await;
    let record = tasks.get(&first, Some("ada")).await.unwrap();
    assert_eq!(record.task.status, TaskStatus::Failed);
    assert!(record.error.unwrap().message.contains("max_bytes"));
    // What is asked too often is refused, for a second.
    for _ in 1..DEFAULT_MAX_REQUESTS_PER_SECOND {
        tasks.get(&first, Some("ada")).await.unwrap();
    }
    refused(tasks.get(&first, Some("ada")).await.unwrap_err(), "max_requests_per_second");
    for _ in 0..DEFAULT_MAX_REQUESTS_PER_SECOND {
        assert_eq!(tasks.get("guess", None).await.unwrap_err().code, code::INVALID_PARAMS);
    }
    refused(tasks.get("guess", None).await.unwrap_err(), "max_requests_per_second");
    tokio::time::sleep(Duration::from_secs(1)).await;
    tasks.get(&first, Some("ada")).await.unwrap();
    // And what is over makes room.
    tokio::time::sleep(DEFAULT_TTL + Duration::from_secs(61)).await;
    for owner in ["ada", "ada", "bob"] {
        make(&tasks, Some(owner)).await;
    }
}

/// covers: TASK-25 TSKX-18
#[tokio::test(start_paused = true)]
async fn ids_cannot_be_guessed() {
    let tasks = tasks();
    let mut seen = std::collections::HashSet::new();
    let mut bits = [false; 18 * 8];
    for _ in 0..200 {
        let id = make(&tasks, None).await;
        assert_eq!(id.len(), 24, "18 random bytes");
        for (at, byte) in base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, &id)
            .unwrap()
            .iter()
            .enumerate()
        {
            (0..8).for_each(|bit| bits[at * 8 + bit] ^= byte >> bit & 1 == 1);
        }
        assert!(seen.insert(id));
    }
    // The parity of every bit is not always the same one.
    let odd = bits.iter().filter(|bit| **bit).count();
    assert!((20..=124).contains(&odd), "{odd}");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_somebody_elses_is_not_overwritten() {
    let store = Arc::new(MemoryTasks::new());
    let (ours, theirs) = (
        TaskManager::new(TaskSettings::new(), store.clone()),
        TaskManager::new(TaskSettings::new(), store.clone()),
    );
    let id = make(&ours, None).await;
    // The other process knows the task by the store alone.
    let stale = store.get(&id).await.unwrap().unwrap();
    cancel(&theirs, &id).await;
    let mut late = stale;
    late.version += 1;
    assert!(!store.update(late).await.unwrap());
    ours.finish(&id, Ok(raw(json!({})))).await;
    assert_eq!(status(&theirs, &id).await, TaskStatus::Cancelled);
    assert!(ours.answers(&id, &["a".to_owned()]).await.is_none(), "and who waits finds out");
}

/// A running task keeps its request, whose size counts while it runs.
#[tokio::test(start_paused = true)]
async fn the_requests_of_running_tasks_are_counted() {
    let tasks = with(MemoryTasks::new().max_bytes(100));
    let make = async |bytes| tasks.create("tools/call", None, None, bytes).await;
    let (first, _) = make(60).await.unwrap();
    let refused = make(60).await.unwrap_err();
    assert!(refused.message.contains("max_bytes"), "{refused}");
    tasks.finish(&first.task_id, Ok(raw(json!({})))).await;
    let (second, _) = make(60).await.unwrap();
    cancel(&tasks, &second.task_id).await;
    make(60).await.unwrap();
    assert!(make(60).await.is_err());
}

/// A store whose other users take away what is old, so that it is never said here what was.
#[derive(Clone)]
struct Swept(Arc<MemoryTasks>);

impl TaskStore for Swept {
    fn create(&self, record: TaskRecord) -> BoxFuture<'_, Result<(), TaskStoreError>> {
        self.0.create(record)
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<TaskRecord>, TaskStoreError>> {
        self.0.get(id)
    }

    fn update(&self, record: TaskRecord) -> BoxFuture<'_, Result<bool, TaskStoreError>> {
        self.0.update(record)
    }

    fn list<'a>(
        &'a self,
        owner: Option<&'a str>,
        after: Option<TaskPosition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<TaskRecord>, TaskStoreError>> {
        self.0.list(owner, after, most)
    }

    fn expire(&self, now: u64) -> BoxFuture<'_, Result<ExpiredTasks, TaskStoreError>> {
        Box::pin(async move { self.0.expire(now).await.map(|_| ExpiredTasks::default()) })
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_that_others_removed_from_the_store_are_forgotten_here_too() {
    let tasks = TaskManager::new(TaskSettings::new(), Arc::new(Swept(Arc::new(MemoryTasks::new()))));
    for _ in 0..3 {
        make(&tasks, None).await;
    }
    let (_, live) = tasks.create("tools/call", None, None, 0).await.unwrap();
    let work = tokio::spawn(std::future::pending::<()>());
    live.set_work(work.abort_handle());
    assert_eq!(tasks.remembered(), 4);
    tokio::time::sleep(DEFAULT_TTL + Duration::from_secs(61)).await;
    assert_eq!(tasks.remembered(), 0);
    assert!(work.await.unwrap_err().is_cancelled());
    // And work that comes too late does not begin.
    let late = tokio::spawn(std::future::pending::<()>());
    live.set_work(late.abort_handle());
    assert!(late.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn what_runs_ends_with_those_who_could_ask_for_it() {
    let store = Arc::new(MemoryTasks::new());
    let (home, elsewhere) = (
        TaskManagerHandle::new(TaskSettings::new(), store.clone()),
        TaskManager::new(TaskSettings::new(), store),
    );
    let (task, live) = home.create("tools/call", None, None, 0).await.unwrap();
    let held = Arc::clone(&home);
    let work = tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(held);
    });
    live.set_work(work.abort_handle());
    let done = make(&home, None).await;
    home.finish(&done, Ok(raw(json!({})))).await;
    drop(home);
    assert!(work.await.unwrap_err().is_cancelled());
    // Whoever knows of it by the store is told.
    while status(&elsewhere, &task.task_id).await != TaskStatus::Failed {
        tokio::task::yield_now().await;
    }
    assert_eq!(status(&elsewhere, &done).await, TaskStatus::Completed);
}

/// A task that was stopped before it ran used to stay in the working state until it expired.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_stopped_before_it_runs_is_over() {
    let tasks = tasks();
    let (task, live) = tasks.create("tools/call", None, None, 0).await.unwrap();
    tasks.close();
    let work = tokio::spawn(std::future::pending::<()>());
    live.set_work(work.abort_handle());
    assert!(work.await.unwrap_err().is_cancelled());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(status(&tasks, &task.task_id).await, TaskStatus::Failed);
}
