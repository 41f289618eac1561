//! People who sign in at the provider for pages of another part of the program.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hospes_auth::{Scopes, UnixClock};
use serde_json::json;

use super::delegated::{THIRD, Third, provider};
use crate::{BegunSignIn, PersonSignIn, PersonSignInError, ProviderResponse, SignedInPerson};

const CALLBACK: &str = "https://as.example/upstream/callback";

fn sign_in(third: &Third) -> PersonSignIn {
    let time = Arc::new(AtomicU64::new(1_000_000));
    let provider = provider(third).scopes(Scopes::parse("openid offline_access")).requiring_claim("groups");
    PersonSignIn::new(provider).clock(UnixClock::new(move || time.load(Ordering::Relaxed)))
}

async fn begin(sign_in: &PersonSignIn) -> (BegunSignIn, HashMap<String, String>) {
    let begun = sign_in.begin(CALLBACK).await.unwrap();
    let url = url::Url::parse(&begun.url).unwrap();
    let fields = url.query_pairs().into_owned().collect();
    (begun, fields)
}

async fn finish(
    sign_in: &PersonSignIn,
    begun: &BegunSignIn,
    response: ProviderResponse<'_>,
) -> Result<SignedInPerson, PersonSignInError> {
    sign_in.finish(response, CALLBACK, &begun.nonce, &begun.verifier).await
}

#[tokio::test]
async fn a_person_is_identified_with_the_claims_that_are_wanted() {
    let third = Third::default();
    third.set_userinfo(json!({ "sub": "u-17", "groups": ["admins"] }));
    let sign_in = sign_in(&third);
    let (begun, fields) = begin(&sign_in).await;
    assert_eq!((&*fields["redirect_uri"], &*fields["state"]), (CALLBACK, &*begun.state));
    assert_eq!((&*fields["scope"], &*fields["prompt"]), ("openid offline_access", "consent"));
    let code = third.sign_in(&fields);
    let response = ProviderResponse::new(Some(THIRD), None, Some(&code));
    let person = finish(&sign_in, &begun, response).await.unwrap();
    assert_eq!((person.issuer.as_str(), &*person.subject), (THIRD, "u-17"));
    assert_eq!(person.claims["groups"], json!(["admins"]));
    let refresh = person.refresh_token.unwrap();

    third.set_userinfo(json!({ "sub": "u-17", "groups": [] }));
    let again = sign_in.read_again(&refresh, "u-17").await.unwrap();
    assert_eq!(again.claims["groups"], json!([]));
    third.set_userinfo(json!({ "sub": "u-18", "groups": ["admins"] }));
    let other = sign_in.read_again(&again.refresh_token.unwrap(), "u-17").await;
    assert!(matches!(other, Err(PersonSignInError::Refused(_))), "of another person");
    let used = sign_in.read_again(&refresh, "u-17").await;
    assert!(matches!(used, Err(PersonSignInError::Refused(_))), "no longer valid");
}

#[tokio::test]
async fn a_response_of_another_issuer_sign_in_or_browser_is_refused() {
    let third = Third::default();
    third.set_userinfo(json!({ "sub": "u-17", "groups": [] }));
    let sign_in = sign_in(&third);
    let (begun, fields) = begin(&sign_in).await;
    let code = third.sign_in(&fields);
    let wrong = |iss, error, code| {
        let (sign_in, begun) = (&sign_in, &begun);
        async move { finish(sign_in, begun, ProviderResponse::new(iss, error, code)).await.unwrap_err() }
    };
    for iss in [None, Some("https://evil.example")] {
        assert!(matches!(wrong(iss, None, Some(&*code)).await, PersonSignInError::Refused(_)), "{iss:?}");
    }
    assert!(matches!(wrong(Some(THIRD), Some("access_denied"), None).await, PersonSignInError::Denied));
    // Its ID token has the nonce of another sign-in.
    let response = ProviderResponse::new(Some(THIRD), None, Some(&code));
    let mixed = sign_in.finish(response, CALLBACK, "another", &begun.verifier).await;
    assert!(matches!(mixed, Err(PersonSignInError::Refused(_))));
    let replayed = wrong(Some(THIRD), None, Some(&*code)).await;
    assert!(matches!(replayed, PersonSignInError::Refused(_)), "a code is good once");
}
