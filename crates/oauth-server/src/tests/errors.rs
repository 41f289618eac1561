//! Every error of the token endpoint, in one table (RFC 6749, section 5.2; RFC 8707, section 2; RFC 9449, section 5).

use serde_json::Value;

use super::{APP, ASKED, Ask, RESOURCE, Site, basic};

const CODE: &str = "authorization_code";
const REFRESH: &str = "refresh_token";
const CREDENTIALS: &str = "client_credentials";
const MACHINE: &str = "s3cret:%+ä";

type Fields = Vec<(&'static str, String)>;

/// A request that is in order but for one thing, and what is answered.
struct Case {
    what: &'static str,
    fields: Fields,
    headers: Vec<(&'static str, String)>,
    error: (u16, &'static str),
}

/// Returns the form with which a client redeems a code.
fn with_code(asked: &Ask, code: &str) -> Fields {
    let fields = [
        ("grant_type", CODE),
        ("code", code),
        ("code_verifier", asked.verifier.expose()),
        ("redirect_uri", ASKED),
        ("client_id", APP),
        ("resource", RESOURCE),
    ];
    fields.map(|(name, value)| (name, value.to_owned())).into()
}

fn fields(fields: &[(&'static str, &str)]) -> Fields {
    fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// With this instead, or not at all.
fn but(mut fields: Fields, name: &'static str, value: Option<&str>) -> Fields {
    fields.retain(|(known, _)| *known != name);
    fields.extend(value.map(|value| (name, value.to_owned())));
    fields
}

fn and(mut fields: Fields, name: &'static str, value: &str) -> Fields {
    fields.push((name, value.to_owned()));
    fields
}

/// All of them at this site.
async fn cases(site: &Site) -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |what, fields: Fields, headers: &[(&'static str, &str)], error| {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        all.push(Case { what, fields, headers, error });
    };
    let fresh = async || {
        let asked = Ask::new();
        let code = site.code(&asked).await;
        with_code(&asked, &code)
    };
    let renewal = async || {
        let (_, token) = site.tokens().await;
        fields(&[("grant_type", REFRESH), (REFRESH, &token), ("client_id", APP)])
    };
    let own = |more: &[(&'static str, &str)]| fields(&[&[("grant_type", CREDENTIALS)], more].concat());
    let machine = basic("machine", MACHINE);
    let machine = [("authorization", machine.as_str())];

    let request = (400, "invalid_request");
    add("no grant_type", but(fresh().await, "grant_type", None), &[], request);
    add("no code", but(fresh().await, "code", None), &[], request);
    add("no verifier", but(fresh().await, "code_verifier", None), &[], request);
    add("no refresh token", but(renewal().await, REFRESH, None), &[], request);
    add("a parameter twice", and(fresh().await, "code", "x"), &[], request);
    add("two resources", and(fresh().await, "resource", RESOURCE), &[], request);
    add("two ways to show who asks", own(&[("client_secret", MACHINE)]), &machine, request);
    add("two clients", own(&[("client_id", "elsewhere")]), &machine, request);
    add("a scheme that is not known", own(&[]), &[("authorization", "Bearer x")], request);
    add("two headers", own(&[]), &[machine[0], machine[0]], request);
    let unknown_kind = [("client_assertion", "x.y.z"), ("client_assertion_type", "x")];
    add("an assertion of another type", own(&unknown_kind), &[], request);
    add("no form", own(&[]), &[("content-type", "application/json")], request);

    let client = (401, "invalid_client");
    add("no client", but(fresh().await, "client_id", None), &[], client);
    add("an unknown client", but(fresh().await, "client_id", Some("nobody")), &[], client);
    add("no secret", own(&[("client_id", "machine")]), &[], client);
    let posted = [("client_id", "machine"), ("client_secret", "wrong-secret")];
    add("a wrong secret in the form", own(&posted), &[], client);
    let wrong = basic("machine", "wrong-secret");
    add("a wrong secret in the header", own(&[]), &[("authorization", &wrong)], client);
    let nobody = basic("nobody", "wrong-secret");
    add("nobody's secret", own(&[]), &[("authorization", &nobody)], client);
    let secretless = basic(APP, "wrong-secret");
    add("a secret of who has none", fresh().await, &[("authorization", &secretless)], client);

    let grant = (400, "invalid_grant");
    add("an unknown code", but(fresh().await, "code", Some("unknown-code")), &[], grant);
    let used = fresh().await;
    site.send_form(&used, &[]).await.tokens();
    add("a code that was used", used, &[], grant);
    let elsewhere = but(fresh().await, "redirect_uri", Some("http://127.0.0.1:1/callback"));
    add("another redirect", elsewhere, &[], grant);
    let verifier = "w".repeat(43);
    add("another verifier", but(fresh().await, "code_verifier", Some(&verifier)), &[], grant);
    add("a short verifier", but(fresh().await, "code_verifier", Some("short-verifier")), &[], grant);
    add("another client's code", but(fresh().await, "client_id", Some("other")), &[], grant);
    add("an unknown refresh token", but(renewal().await, REFRESH, Some("unknown-token")), &[], grant);
    add("another client's refresh token", but(renewal().await, "client_id", Some("other")), &[], grant);
    let revoked = renewal().await;
    site.form("/revoke", &[("token", &revoked[1].1), ("client_id", APP)]).await;
    add("a refresh token that was taken back", revoked, &[], grant);

    let unauthorized = (400, "unauthorized_client");
    add("a client without a secret for itself", own(&[("client_id", APP)]), &[], unauthorized);
    add(
        "no such grant",
        but(fresh().await, "grant_type", Some("password")),
        &[],
        (400, "unsupported_grant_type"),
    );

    let scope = (400, "invalid_scope");
    add("an unknown scope", own(&[("scope", "mcp unknown")]), &machine, scope);
    add("more than was agreed to", and(renewal().await, "scope", "mcp files"), &[], scope);
    let target = (400, "invalid_target");
    let other = "https://other.example/mcp";
    add("another resource with a code", but(fresh().await, "resource", Some(other)), &[], target);
    add("another resource with a refresh token", and(renewal().await, "resource", other), &[], target);
    add("an unknown resource", own(&[("resource", other)]), &machine, target);
    add("a resource with a fragment", own(&[("resource", "https://as.example/mcp#x")]), &machine, target);

    add("a proof that is none", renewal().await, &[("dpop", "no-proof")], (400, "invalid_dpop_proof"));
    // Last: the clock is turned for them.
    add("a code that is too old", fresh().await, &[], grant);
    add("a refresh token that is too old", renewal().await, &[], grant);
    all
}

impl Site {
    async fn send_form(&self, fields: &Fields, headers: &[(&'static str, String)]) -> super::Answer {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if headers.iter().any(|(name, _)| *name == "content-type") {
            let mut request = http::Request::post("/token");
            for (name, value) in headers {
                request = request.header(name, value);
            }
            return self.send(request.body(()).unwrap().into_parts().0, "{}").await;
        }
        self.form_with("/token", &fields, &headers).await
    }
}

/// Each response gives the error and its reason, in JSON that is not cached, and repeats nothing of the request.
#[tokio::test]
async fn every_error_of_the_token_endpoint_is_said_in_one_form() {
    for site in Site::everywhere() {
        for Case { what, fields, headers, error } in cases(&site).await {
            if what.ends_with("too old") {
                site.pass(14 * 24 * 3600);
            }
            let answer = site.send_form(&fields, &headers).await;
            assert_eq!(answer.error(), (error.0, error.1.to_owned()), "{what}");
            let body = answer.json();
            let mut members: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
            members.sort_unstable();
            assert_eq!(members, ["error", "error_description"], "{what}");
            let words = body["error_description"].as_str().unwrap();
            // RFC 6749, section 5.2: printable ASCII but for quotation marks and backslashes.
            let allowed = |sign: char| (' '..='~').contains(&sign) && sign != '"' && sign != '\\';
            assert!(!words.is_empty() && words.chars().all(allowed), "{what}: {words}");
            for (name, value) in &fields {
                let is_secret = ["code", "code_verifier", "client_secret", REFRESH].contains(name);
                assert!(!is_secret || value == "x" || !answer.text().contains(value), "{what}: {words}");
            }
            let by_header = headers.iter().any(|(_, value)| value.starts_with("Basic "));
            let challenge = answer.header("www-authenticate");
            let is_asked = error.0 == 401 && by_header;
            assert_eq!(challenge.starts_with("Basic "), is_asked, "{what}: {challenge}");
            assert_eq!(answer.header("access-control-allow-origin"), "*", "{what}");
            assert_eq!(body.get("access_token"), None::<&Value>, "{what}");
        }
    }
}
