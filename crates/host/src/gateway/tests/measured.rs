//! Metrics of a host after real calls.

use hospes::model::ElicitParams;

use super::forwarded::until;
use super::guarded::{answering, counting, decision, guard, pairs};
use super::*;

const SERVER: &str = "mcp_server_operation_duration_seconds_count";
const CLIENT: &str = "mcp_client_operation_duration_seconds_count";

/// Word in names, arguments and results that no metric may have.
const SENTINEL: &str = "sentinel-4711";

const RULES: &str = "[[rule]]\ndecide = 'deny'\ntool = 'write'\narguments.path = { under = '/etc' }\n
     [[rule]]\ndecide = 'allow'\nserver = 'files'";

/// Returns the sum of all series of a metric whose labels have all of these.
fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let of = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, shown) = series.split_once('{').unwrap_or((series, ""));
        let fits = found == name && labels.iter().all(|label| shown.contains(label));
        fits.then(|| value.parse::<f64>().unwrap())
    };
    text.lines().filter_map(of).sum()
}

fn assert_sum(text: &str, name: &str, labels: &[&str], expected: u32) {
    let found = sum(text, name, labels);
    assert!(
        (found - f64::from(expected)).abs() < 0.5,
        "{name} {labels:?}: {found}, not {expected}, in\n{text}"
    );
}

/// covers: HOST-01
#[tokio::test]
async fn each_call_is_counted_once_with_how_it_ended() {
    for (up, down) in pairs() {
        let called = Arc::default();
        let made = House::default().with("files", up, counting(&called)).guarded(&guard(RULES));
        let host = made.start();
        let client = plain(&host, down).await;
        client.tools().all().await.unwrap();
        for _ in 0..3 {
            client.call("files__write", json!({ "path": format!("/srv/{SENTINEL}") })).await.unwrap();
        }
        for _ in 0..2 {
            assert!(client.call("files__fail", json!({ "path": SENTINEL })).await.unwrap().has_failed());
        }
        let denied =
            client.call("files__write", json!({ "path": format!("/etc/{SENTINEL}") })).await.unwrap();
        assert!(denied.has_failed());
        client.call(&format!("files__{SENTINEL}"), ()).await.unwrap_err();

        let text = host.servers().metrics();
        let calls = "mcp_method_name=\"tools/call\"";
        assert_sum(&text, SERVER, &[calls], 7);
        let write = "gen_ai_tool_name=\"files__write\"";
        assert_sum(&text, SERVER, &[calls, write], 4);
        assert_sum(&text, SERVER, &[calls, write, "error_type=\"tool_error\""], 1);
        assert_sum(
            &text,
            SERVER,
            &[calls, "gen_ai_tool_name=\"files__fail\"", "error_type=\"tool_error\""],
            2,
        );
        let unknown = "gen_ai_tool_name=\"_OTHER\"";
        assert_sum(&text, SERVER, &[unknown, "rpc_response_status_code=\"-32602\""], 1);
        let revision = format!("mcp_protocol_version=\"{down}\"");
        assert_sum(&text, SERVER, &[calls, &revision], 7);
        // The denied and the unknown one did not reach the server.
        let upstream = format!("mcp_protocol_version=\"{up}\"");
        assert_sum(&text, CLIENT, &[calls, "server=\"files\"", &upstream], 5);
        assert_sum(&text, CLIENT, &["gen_ai_tool_name=\"write\""], 3);
        assert_sum(&text, "hospes_decisions_total", &["verdict=\"allow\"", "by=\"rule\""], 5);
        assert_sum(&text, "hospes_decisions_total", &["verdict=\"deny\"", "by=\"rule\""], 1);
        assert_sum(&text, "hospes_upstream_up", &["server=\"files\""], 1);
        let (count, overhead) =
            (sum(&text, SERVER, &[]), sum(&text, "hospes_gateway_overhead_seconds_count", &[]));
        assert!((count - overhead).abs() < 0.5, "{count} operations, {overhead} times\n{text}");
        assert!(!text.contains(SENTINEL), "{text}");
    }
}

#[tokio::test]
async fn unknown_tools_and_methods_make_no_series() {
    let host = House::default().with("files", Revision::LATEST, counting(&Arc::default())).start();
    let client = plain(&host, Revision::LATEST).await;
    client.tools().all().await.unwrap();
    let before = host.servers().metrics();
    client.call("files__unknown", ()).await.unwrap_err();
    let lines = host.servers().metrics().lines().count();
    assert!(lines > before.lines().count(), "one series for all that is unknown");
    for at in 0..300 {
        client.call(&format!("files__{at}"), ()).await.unwrap_err();
    }
    let text = host.servers().metrics();
    assert_eq!(text.lines().count(), lines, "{text}");
    let unknown = ["gen_ai_tool_name=\"_OTHER\""];
    assert_sum(&text, "mcp_server_operation_duration_seconds_count", &unknown, 301);
}

/// The rounds of a call are one operation where the peer keeps the call, and one each where it makes the call again.
#[tokio::test]
async fn a_call_that_asks_questions_is_one_operation_of_an_older_peer() {
    for (up, down) in pairs() {
        let host = House::default().with("curious", up, curious).start();
        let client = application(&host, down).await;
        assert!(!client.call("curious__both", ()).await.unwrap().has_failed());
        let text = host.servers().metrics();
        let calls = "mcp_method_name=\"tools/call\"";
        let expected = |revision: Revision| if revision.is_legacy() { 1 } else { 3 };
        assert_sum(&text, SERVER, &[calls], expected(down));
        assert_sum(&text, CLIENT, &[calls], expected(up));
        assert_sum(&text, SERVER, &[calls, "error_type"], 0);
        assert_sum(&text, CLIENT, &[calls, "error_type"], 0);
    }
}

#[tokio::test]
async fn a_call_whose_questions_have_no_answer_is_an_operation_that_failed() {
    for up in ERAS {
        let host = House::default().with("curious", up, curious).start();
        let asked = Arc::new(tokio::sync::Notify::new());
        let heard = Arc::clone(&asked);
        let client = Client::builder()
            .revision(Revision::LATEST_LEGACY)
            .elicitation(move |_: ElicitParams| {
                heard.notify_one();
                std::future::pending()
            })
            .in_memory(host.gateway())
            .await
            .unwrap();
        tokio::select! {
            called = client.call("curious__elicit", ()) => panic!("{called:?}"),
            () = asked.notified() => {}
        }
        let servers = host.servers();
        drop(client);
        let call = ["mcp_method_name=\"tools/call\"", "error_type=\"unanswered\""];
        until("the operation is recorded", || sum(&servers.metrics(), SERVER, &call) > 0.5).await;
        assert_sum(&servers.metrics(), SERVER, &["mcp_method_name=\"tools/call\""], 1);
    }
}

#[tokio::test]
async fn sessions_are_measured_when_they_end() {
    for (up, down) in pairs() {
        let host = House::default().with("files", up, counting(&Arc::default())).start();
        let servers = host.servers();
        let client = plain(&host, down).await;
        client.call("files__write", ()).await.unwrap();
        let (sessions, connections) =
            ("mcp_server_session_duration_seconds_count", "mcp_client_session_duration_seconds_count");
        assert_sum(&servers.metrics(), sessions, &[], 0);
        assert_sum(&servers.metrics(), connections, &[], 0);
        drop(client);
        let revision = format!("mcp_protocol_version=\"{down}\"");
        if down.is_legacy() {
            let is_over = || sum(&servers.metrics(), sessions, &[&revision, "\"pipe\""]) > 0.5;
            until("the session is recorded", is_over).await;
        }
        host.stop().await;
        let is_over = || sum(&servers.metrics(), connections, &["server=\"files\""]) > 0.5;
        until("the connection is recorded", is_over).await;
        let expected = u32::from(down.is_legacy());
        assert_sum(&servers.metrics(), sessions, &[], expected);
        assert_sum(&servers.metrics(), SERVER, &["mcp_method_name=\"initialize\""], expected);
    }
}

#[tokio::test]
async fn approvals_are_measured_with_their_wait() {
    for (up, down) in pairs() {
        let host = House::default().with("files", up, counting(&Arc::default())).guarded(&guard("")).start();
        let (client, _) = answering(&host, down, vec![decision("once"), decision("no")]).await;
        client.call("files__write", ()).await.unwrap();
        client.call("files__write", ()).await.unwrap();
        let text = host.servers().metrics();
        assert_sum(&text, "hospes_approval_wait_seconds_count", &[], 2);
        assert_sum(&text, "hospes_approvals_open", &[], 0);
        for verdict in ["allow", "deny"] {
            let labels = [&*format!("verdict=\"{verdict}\""), "by=\"person\""];
            assert_sum(&text, "hospes_decisions_total", &labels, 1);
        }
    }
}
