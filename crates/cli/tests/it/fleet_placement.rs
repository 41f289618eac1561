//! The setting `placement` over a real Redis and PostgreSQL: which process of a server serves a caller.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fleet::{FleetEngines, FleetNode, NodeResponse};
use crate::support::{House, eventually};

/// Settings of the server.
const PER_USER: &str = "placement = 'per-user'";
const ONE: &str = "placement = 'one'";
/// Options of the nodes.
const OPTIONS: [&str; 4] = ["--console", "off", "--preset", "off"];

fn nodes(engines: &FleetEngines, settings: &str, number: usize) -> Vec<FleetNode> {
    (0..number).map(|_| engines.node_with(House::new(), settings, &OPTIONS)).collect()
}

/// Result of the tool `count`: the process that served a call, and the number of its calls.
fn counted(response: &NodeResponse) -> (String, u32) {
    let words: Vec<&str> = response.body.split(['"', ' ']).collect();
    let at = words.iter().position(|word| *word == "process");
    let at = at.unwrap_or_else(|| panic!("{}: {}", response.status, response.body));
    (words[at + 1].to_owned(), words[at + 3].parse().unwrap())
}

/// Calls `count` as an application of this name.
fn count(node: &FleetNode, application: &str) -> (String, u32) {
    counted(&node.call_as(application, "one__count", &json!({})))
}

/// Processes of the server, at all nodes.
fn processes(nodes: &[FleetNode]) -> usize {
    nodes.iter().filter(|node| node.house.is_running("one")).count()
}

/// Each process counts its calls, so one that has seen all calls of an application says their number.
#[test]
fn one_process_serves_all_calls_of_an_application() {
    let engines = FleetEngines::start();
    let nodes = nodes(&engines, PER_USER, 3);
    let applications: Vec<String> = (0..8).map(|number| format!("app {number}")).collect();
    let mut calls = std::collections::HashMap::new();
    let mut place = std::collections::HashMap::new();
    for round in 0..2 {
        for application in &applications {
            for node in &nodes {
                let (process, seen) = count(node, application);
                let known = place.entry(application.clone()).or_insert_with(|| process.clone());
                assert_eq!(*known, process, "{application} in round {round}");
                let calls = calls.entry(process).or_insert(0);
                *calls += 1;
                assert_eq!(seen, *calls, "no call went elsewhere");
            }
        }
    }
    let used: BTreeSet<&String> = place.values().collect();
    assert!(used.len() > 1, "applications are spread over nodes: {place:?}");
}

/// A node that ends takes its callers with it, and no others move.
#[test]
fn callers_of_a_node_that_was_killed_go_to_others() {
    let engines = FleetEngines::start();
    let mut nodes = nodes(&engines, PER_USER, 3);
    let applications: Vec<String> = (0..8).map(|number| format!("app {number}")).collect();
    let before: Vec<String> = applications.iter().map(|app| count(&nodes[0], app).0).collect();
    let pids: Vec<String> = nodes.iter().map(|node| node.house.read("one.pid").trim().to_owned()).collect();
    let mut dead = nodes.remove(2);
    dead.host.child.kill().unwrap();
    dead.host.wait();
    for (application, before) in applications.iter().zip(&before) {
        let mut now = None;
        // A call that was on its way is not repeated.
        eventually("the application is served", || {
            let response = nodes[0].call_as(application, "one__count", &json!({}));
            let is_over = response.body.contains("process ");
            now = is_over.then(|| counted(&response).0);
            is_over
        });
        let now = now.unwrap();
        assert_eq!(count(&nodes[1], application).0, now, "all nodes agree on the new place");
        if *before == pids[2] {
            assert!(pids[..2].contains(&now), "{now} is a living process");
        } else {
            assert_eq!(now, *before, "{application} has not moved");
        }
    }
}

/// Returns the members of the next round, in which the question of a response is answered.
fn answered(asked: &NodeResponse) -> Value {
    let response: Value = serde_json::from_str(&asked.body).unwrap();
    let result = &response["result"];
    let questions = result["inputRequests"].as_object().unwrap_or_else(|| panic!("{}", asked.body));
    let question = questions.keys().next().unwrap().clone();
    let answer = json!({ "action": "accept", "content": { "name": "this" } });
    json!({ "requestState": result["requestState"], "inputResponses": { question: answer } })
}

/// A question of the server, and the state of its call, reach the process that asked.
#[test]
fn a_question_reaches_the_process_that_serves_the_application() {
    let engines = FleetEngines::start();
    let nodes = nodes(&engines, PER_USER, 2);
    for application in ["app 1", "app 2", "app 3", "app 4"] {
        let asked = nodes[0].call_as(application, "one__ask", &json!({}));
        nodes[1].call_as(application, "one__ask", &answered(&asked)).says("the answer has come");
    }
}

/// covers: HOST-02
#[test]
fn a_server_of_one_node_runs_once_and_moves_when_its_node_is_killed() {
    let engines = FleetEngines::start();
    let mut nodes = nodes(&engines, ONE, 3);
    let mut sessions: Vec<String> = nodes.iter().map(|node| node.initialize()).collect();
    eventually("the server runs", || processes(&nodes) == 1);
    let (process, mut seen) = count(&nodes[0], "app");
    for node in &nodes {
        // Of an application without a session, and of one with an older revision.
        for counted in [count(node, "another"), counted(&node.call(&sessions.remove(0), "one__count"))] {
            seen += 1;
            assert_eq!(counted, (process.clone(), seen));
        }
    }
    // The lists are the same, and a question passes.
    for node in &nodes {
        let listed = node.list_tools();
        assert!(listed.contains("one__count") && listed.contains("one__ask"), "{listed}");
    }
    assert_eq!(processes(&nodes), 1);

    let place = nodes.iter().position(|node| node.house.is_running("one")).unwrap();
    let mut dead = nodes.remove(place);
    let other = nodes[0].endpoint().clone();
    let lost = thread::spawn(move || other.call_without_session("one__slow"));
    eventually("the call has begun", || dead.house.read("one.log").contains("\"slow\""));
    dead.host.child.kill().unwrap();
    dead.host.wait();
    lost.join().unwrap().says("may or may not have taken effect");
    let until = Instant::now() + Duration::from_secs(30);
    let moved = loop {
        let living = processes(&nodes) + usize::from(dead.house.is_running("one"));
        assert!(living <= 1, "two processes at a time");
        let response = nodes[0].call_as("app", "one__count", &json!({}));
        if response.body.contains("process ") {
            break counted(&response);
        }
        assert!(Instant::now() < until, "{}", response.body);
    };
    assert_eq!(moved.1, 1, "a new process");
    assert_ne!(moved.0, process);
    assert_eq!(count(&nodes[1], "app"), (moved.0, 2));
    assert_eq!(processes(&nodes), 1);
    let calls =
        nodes.iter().chain([&dead]).map(|node| node.house.read("one.log").matches("\"slow\"").count());
    assert_eq!(calls.sum::<usize>(), 1, "the lost call was not repeated");
}

/// A question passes to the node of the application, and its answer back.
#[test]
fn a_server_of_one_node_asks_applications_of_other_nodes() {
    let engines = FleetEngines::start();
    let nodes = nodes(&engines, ONE, 2);
    eventually("the server runs", || processes(&nodes) == 1);
    let elsewhere = nodes.iter().find(|node| !node.house.is_running("one")).unwrap();
    let asked = elsewhere.call_as("app", "one__ask", &json!({}));
    elsewhere.call_as("app", "one__ask", &answered(&asked)).says("the answer has come");
}

/// With one connection, applications that could be asked share the process, and are not asked.
#[test]
fn a_server_of_one_connection_has_one_process() {
    let engines = FleetEngines::start();
    let nodes = nodes(&engines, "placement = 'one'\nmax_connections = 1", 2);
    eventually("the server runs", || processes(&nodes) == 1);
    let (process, seen) = count(&nodes[0], "app");
    let refused = nodes[1].call_as("app", "one__ask", &json!({}));
    assert!(!refused.body.contains("inputRequests"), "{}", refused.body);
    assert_eq!(count(&nodes[1], "app"), (process, seen + 1));
    let starts: usize =
        nodes.iter().map(|node| node.house.read("one.log").matches("\"initialize\"").count()).sum();
    assert_eq!(starts, 1);
}

/// A node that ends gives the server to another one when it has stopped. A node without Redis stops it.
#[test]
fn a_node_that_ends_or_loses_redis_stops_its_server() {
    let mut engines = FleetEngines::start();
    let mut nodes = nodes(&engines, ONE, 2);
    eventually("the server runs", || processes(&nodes) == 1);
    let place = nodes.iter().position(|node| node.house.is_running("one")).unwrap();
    let mut ended = nodes.remove(place);
    ended.host.signal("-TERM");
    eventually("the server runs at the other node", || {
        let (before, now) = (ended.house.is_running("one"), processes(&nodes) == 1);
        assert!(!(before && now), "two processes at a time");
        now
    });
    assert_eq!(ended.host.wait(), Some(0));
    assert_eq!(count(&nodes[0], "app").1, 1);

    engines.stop_redis();
    eventually("the server is stopped", || processes(&nodes) == 0);
    let refused = nodes[0].call_as("app", "one__count", &json!({}));
    assert!(refused.body.contains("Redis"), "{}", refused.body);
}

/// A server for the shell that speaks 2025-11-25: each call of its tool is a task, which its process alone knows.
const TASKS: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
state() { printf '"taskId":"%s","status":"%s","createdAt":"2026-11-01T00:00:00Z","lastUpdatedAt":"2026-11-01T00:00:00Z","ttl":600000,"pollInterval":100' "$$" "$1"; }
status=working
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"jobs","version":"1"}}';;
    *'"method":"tools/list"'*) answer '{"tools":[{"name":"begin","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}';;
    *'"method":"tools/call"'*) status=working; answer "{\"task\":{$(state $status)}}";;
    *'"method":"tasks/cancel"'*"\"$$\""*) status=cancelled; answer "{$(state $status)}";;
    *'"method":"tasks/get"'*"\"$$\""*) answer "{$(state $status)}";;
    *'"method":"notifications/'*) ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"no such task or method"}}\n' "$id";;
  esac
done
"#;

/// Starts a node with two servers for tasks: `jobs` with this placement, and `free` with `any`.
fn node_with_tasks(engines: &FleetEngines, placement: &str) -> FleetNode {
    let house = House::new();
    let script = house.write("jobs.sh", TASKS);
    let script = script.display();
    let settings = format!(
        "placement = 'any'\n[servers.jobs]\ncommand = ['sh', '{script}']\nplacement = '{placement}'\n\
         [servers.free]\ncommand = ['sh', '{script}']\nplacement = 'any'"
    );
    engines.node_with(house, &settings, &OPTIONS)
}

/// Begins a task at a node, and returns its id.
fn begin_task(node: &FleetNode, application: &str, tool: &str) -> String {
    let mut task = String::new();
    eventually("a task is created", || {
        let begun = node.call_as(application, tool, &json!({}));
        let created = begun.body.split_once("\"taskId\":\"").and_then(|(_, rest)| rest.split_once('"'));
        task = created.map(|(id, _)| id.to_owned()).unwrap_or_default();
        !task.is_empty()
    });
    task
}

/// Node in the id of a task.
fn node_of(task: &str) -> &str {
    let label = task.split_once("__").unwrap().0;
    label.split_once('~').unwrap_or_else(|| panic!("{task} names no node")).1
}

/// The task of a program is known to one of its processes, and is reached from any node.
#[test]
fn a_task_is_reached_from_any_node() {
    let engines = FleetEngines::start();
    for placement in ["any", "per-user", "one"] {
        let nodes: Vec<FleetNode> = (0..3).map(|_| node_with_tasks(&engines, placement)).collect();
        let applications = if placement == "one" { 1 } else { 4 };
        for application in (0..applications).map(|number| format!("app {number}")) {
            let task = begin_task(&nodes[0], &application, "jobs__begin");
            for node in &nodes {
                node.ask_task(&application, "tasks/get", &task).says("\"working\"");
            }
            let cancelled = nodes[1].ask_task(&application, "tasks/cancel", &task);
            assert_eq!(cancelled.status, 200, "{}", cancelled.body);
            for node in &nodes {
                node.ask_task(&application, "tasks/get", &task).says("\"cancelled\"");
            }
        }
    }
}

/// Tasks of applications that have another node than when their task began, and of a node that was killed.
///
/// covers: TASK-11
#[test]
fn a_task_stays_at_its_node_and_fails_when_that_ends() {
    let engines = FleetEngines::start();
    let mut nodes: Vec<FleetNode> = (0..2).map(|_| node_with_tasks(&engines, "per-user")).collect();
    let applications: Vec<String> = (0..8).map(|number| format!("app {number}")).collect();
    let begin = |application: &String| begin_task(&nodes[0], application, "jobs__begin");
    let tasks: Vec<String> = applications.iter().map(begin).collect();
    let ended = begin_task(&nodes[1], "app", "free__begin");
    let lost = node_of(&ended).to_owned();
    // Some applications have a new node from now on.
    nodes.extend((0..2).map(|_| node_with_tasks(&engines, "per-user")));
    let known = || nodes[0].list_tools();
    eventually("the new nodes are in use", || known().contains("jobs__begin"));
    for (application, task) in applications.iter().zip(&tasks) {
        for node in &nodes {
            node.ask_task(application, "tasks/get", task).says("\"working\"");
        }
    }
    let moved = applications.iter().zip(&tasks).filter(|(application, task)| {
        node_of(&begin_task(&nodes[0], application, "jobs__begin")) != node_of(task)
    });
    assert!(moved.count() > 0, "no application has moved");

    let mut dead = nodes.remove(1);
    dead.host.child.kill().unwrap();
    dead.host.wait();
    let mut all: Vec<(&str, &str)> =
        applications.iter().zip(&tasks).map(|(application, task)| (&**application, &**task)).collect();
    all.push(("app", &ended));
    assert!(all.iter().any(|(_, task)| node_of(task) != lost), "nothing was begun at the other node");
    for (application, task) in all {
        for node in &nodes {
            let mut response = node.ask_task(application, "tasks/get", task);
            // Until it is certain that the node has ended.
            eventually("the task is answered", || {
                response = node.ask_task(application, "tasks/get", task);
                response.status == 200 && response.body.contains("\"status\"")
            });
            match node_of(task) == lost {
                true => {
                    response.says("\"failed\"");
                    response.says("the node that ran the task has ended");
                }
                false => response.says("\"working\""),
            }
        }
    }
}
