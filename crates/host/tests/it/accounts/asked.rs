//! Two questions about one call: whether it may be made, and the account that it is made with.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hospes::client::Client;
use hospes_model::{ElicitParams, ElicitResult, Revision};
use parking_lot::Mutex;
use serde_json::json;

use crate::accounts::site::{Gate, Site};
use crate::accounts::{ASKING, call, says};

/// Questions that a person was asked, in order: `call` or `account`.
type Questions = Arc<Mutex<Vec<&'static str>>>;

/// An application of Alice's, who says no to the first question of this kind from when `no` is set.
async fn alice(gate: &Gate, revision: Revision) -> (Client, Questions, Arc<Mutex<Option<&'static str>>>) {
    let (asked, no) = (Questions::default(), Arc::<Mutex<Option<&'static str>>>::default());
    let (browser, seen, refused) = (gate.browser("alice"), Arc::clone(&asked), Arc::clone(&no));
    let builder = Client::builder().revision(revision).elicitation_urls().elicitation(move |params| {
        let (mut browser, seen, refused) = (browser.clone(), Arc::clone(&seen), Arc::clone(&refused));
        async move {
            let kind = if matches!(params, ElicitParams::Url(_)) { "account" } else { "call" };
            seen.lock().push(kind);
            if refused.lock().take_if(|refused| *refused == kind).is_some() {
                return Ok(ElicitResult::decline());
            }
            Ok(match params {
                ElicitParams::Url(asked) => {
                    browser.agree(&asked.url).await;
                    ElicitResult::accept(hospes_model::RawJson::empty_object())
                }
                _ => ElicitResult::accept(json!({ "decision": "once" }).into()),
            })
        }
    });
    (gate.application("alice", builder).await, asked, no)
}

fn take(asked: &Questions) -> Vec<&'static str> {
    std::mem::take(&mut *asked.lock())
}

/// If the server lists nothing without sign-in, the account comes first, because a call cannot be approved unseen.
/// Otherwise the person is asked to sign in only after approving the call. The approval still holds when they come
/// back.
///
/// covers: HOST-01 HOST-07
#[tokio::test]
async fn both_questions_are_put_and_each_once() {
    for revision in ASKING {
        let site = Site::new().await;
        let gate = Gate::ruled(&site, "").await;
        let (alice, asked, _) = alice(&gate, revision).await;
        assert_eq!(says(&alice, "site__whoami").await, "alice-there", "{revision}");
        assert_eq!(take(&asked), ["account", "call"], "{revision}");
        // What she has agreed to so far does not reach as far as this tool.
        assert_eq!(says(&alice, "site__admin").await, "alice-there", "{revision}");
        assert_eq!(take(&asked), ["call", "account"], "{revision}: no approval is used up by the account");
        assert_eq!(site.admin_calls.load(Ordering::SeqCst), 1);
        // The next call is another call.
        assert_eq!(says(&alice, "site__admin").await, "alice-there", "{revision}");
        assert_eq!(take(&asked), ["call"], "{revision}");
        assert_eq!(site.admin_calls.load(Ordering::SeqCst), 2);
        gate.stop().await;
    }
}

/// covers: HOST-08
#[tokio::test]
async fn a_no_to_either_question_ends_the_call() {
    for revision in ASKING {
        let site = Site::new().await;
        let gate = Gate::ruled(&site, "").await;
        let (alice, asked, no) = alice(&gate, revision).await;
        assert_eq!(says(&alice, "site__whoami").await, "alice-there", "{revision}");
        take(&asked);
        for (refused, questions) in [("call", &["call"][..]), ("account", &["call", "account"])] {
            *no.lock() = Some(refused);
            let said = call(&alice, "site__admin").await;
            assert_eq!(said.is_error, Some(true), "{revision}: {said:?}");
            assert_eq!(take(&asked), questions, "{revision}: {said:?}");
            assert_eq!(site.admin_calls.load(Ordering::SeqCst), 0, "{revision}");
        }
        // Neither no is a no to the next call, nor is what was approved before approved still.
        assert_eq!(says(&alice, "site__admin").await, "alice-there", "{revision}");
        assert_eq!(take(&asked), ["call", "account"], "{revision}");
        gate.stop().await;
    }
}

/// A call that is forbidden does not lead to a sign-in.
#[tokio::test]
async fn nobody_signs_in_for_what_is_not_allowed() {
    let rules = "[[rule]]\ndecide = 'deny'\ntool = 'admin'\n[[rule]]\ndecide = 'allow'\ntool = 'whoami'";
    let site = Site::new().await;
    let gate = Gate::ruled(&site, rules).await;
    let (alice, asked, _) = alice(&gate, Revision::LATEST).await;
    assert_eq!(says(&alice, "site__whoami").await, "alice-there");
    assert_eq!(take(&asked), ["account"]);
    let said = call(&alice, "site__admin").await;
    assert!(said.is_error == Some(true) && said.all_text().contains("not allowed"), "{said:?}");
    assert!(take(&asked).is_empty());
}
