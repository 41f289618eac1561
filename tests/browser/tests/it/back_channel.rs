//! A sign-out at a provider that is not ours ends the session at the console of a team. No browser is needed for it.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use bytes::Bytes;
use hospes_browser_tests::{HospesProgram, OpenIdProvider, WAIT_TIMEOUT, fetch};
use http::{Request, StatusCode, header};
use serde_json::Value;
use url::Url;

/// Cookies of each host, as a browser keeps them.
#[derive(Default)]
struct Cookies(BTreeMap<String, BTreeMap<String, String>>);

/// The page at which redirects have ended.
struct Page {
    status: StatusCode,
    text: String,
    url: Url,
}

impl Page {
    /// Value of the attribute after these words.
    fn after(&self, words: &str) -> String {
        let (_, rest) = self.text.split_once(words).unwrap_or_else(|| panic!("no {words}: {}", self.text));
        rest.split_once('"').unwrap().0.to_owned()
    }
}

impl Cookies {
    /// Sends a request and follows redirects.
    async fn send(&mut self, url: Url, mut headers: Vec<(&str, String)>, mut body: Option<String>) -> Page {
        let mut url = url;
        for _ in 0..15 {
            let jar = self.0.entry(url.authority().to_owned()).or_default();
            let pairs: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let method = if body.is_some() { "POST" } else { "GET" };
            let mut request = Request::builder().method(method).uri(url.as_str());
            for (name, value) in headers.drain(..).chain([("cookie", pairs.join("; "))]) {
                request = request.header(name, value);
            }
            let request = request.body(Bytes::from(body.take().unwrap_or_default())).unwrap();
            let answer = fetch(request).await.unwrap();
            for cookie in answer.headers().get_all(header::SET_COOKIE) {
                let pair = cookie.to_str().unwrap().split(';').next().unwrap();
                let (name, value) = pair.split_once('=').unwrap();
                jar.insert(name.to_owned(), value.to_owned());
                jar.retain(|_, value| !value.is_empty());
            }
            let Some(to) = answer.headers().get(header::LOCATION) else {
                let text = String::from_utf8_lossy(answer.body()).into_owned();
                return Page { status: answer.status(), text, url };
            };
            url = url.join(to.to_str().unwrap()).unwrap();
            headers.push(("sec-fetch-site", "cross-site".to_owned()));
            headers.push(("sec-fetch-dest", "document".to_owned()));
        }
        panic!("too many redirects, at last to {url}");
    }

    async fn get(&mut self, url: &str) -> Page {
        self.send(url.parse().unwrap(), Vec::new(), None).await
    }

    async fn submit(&mut self, url: Url, fields: &[(&str, &str)]) -> Page {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let kind = ("content-type", "application/x-www-form-urlencoded".to_owned());
        self.send(url, vec![kind], Some(body)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sign_out_at_the_provider_ends_the_session_at_the_console() {
    let (Some(provider), Some(hospes)) = (OpenIdProvider::start(), HospesProgram::find()) else { return };
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = free.local_addr().unwrap().to_string();
    drop(free);
    let (issuer, console) = (&provider.issuer, format!("http://{place}"));
    std::fs::write(hospes.path("login.secret"), OpenIdProvider::SECRET).unwrap();
    let at_provider = format!(
        "issuer = '{issuer}'\nclient_id = '{}'\nclient_secret = '${{file:login.secret}}'\n",
        OpenIdProvider::CLIENT
    );
    let config = format!(
        "[auth.provider]\n{at_provider}allow = 'everybody'\n[console.team]\n{at_provider}public_url = '{console}'\n\
         scopes = ['openid', 'groups']\n[console.team.roles]\nmember = ['mcp']\n[servers.time]\nbuiltin = 'time'\n"
    );
    let _up = hospes.start_gateway_with(&config, &["--console", &place]);

    let mut cookies = Cookies::default();
    let page = |value: &str| ("sec-fetch-site", value.to_owned());
    let headers = vec![
        ("origin", console.clone()),
        page("same-origin"),
        ("content-type", "application/json".to_owned()),
    ];
    let begun =
        cookies.send(format!("{console}/api/sign-in").parse().unwrap(), headers, Some("{}".to_owned()));
    let begun: Value = serde_json::from_str(&begun.await.text).unwrap();
    let mut at = cookies.get(begun["url"].as_str().unwrap()).await;
    // It asks for the name, and then for consent.
    while at.url.path().starts_with("/interaction/") {
        let (action, prompt) = (at.after("action=\""), at.after("name=\"prompt\" value=\""));
        let to = at.url.join(&action).unwrap();
        let fields = [("prompt", &*prompt), ("login", "ann"), ("password", "any")];
        at = cookies.submit(to, &fields).await;
    }
    assert_eq!((at.status, at.url.as_str()), (StatusCode::OK, &*format!("{console}/")), "{}", at.text);
    let about = format!("{console}/api/console");
    assert_eq!(cookies.get(&about).await.status, StatusCode::OK);

    let end = cookies.get(&format!("{issuer}/session/end")).await;
    let xsrf = end.after("name=\"xsrf\" value=\"");
    let confirm = format!("{issuer}/session/end/confirm").parse().unwrap();
    cookies.submit(confirm, &[("xsrf", &xsrf), ("logout", "yes")]).await;
    let is_out = async {
        while cookies.get(&about).await.status != StatusCode::UNAUTHORIZED {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, is_out).await.expect("the session ends");
}
