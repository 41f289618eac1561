//! Users who sign in at an OpenID provider connect accounts of their own at a server behind the gateway.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::time::{Duration, Instant};

use hospes_browser_tests::{HospesProgram, OpenIdProvider, ProgramOutput, RunningHospes, TestBrowser};

const ALLOW: &str = "button[value=allow]";

/// Maximum time to wait for the effect of an account change, and the interval of polling.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

/// A gateway before a server at which everybody has an account, and an application of Ann's that may use it.
struct House {
    provider: OpenIdProvider,
    gate: HospesProgram,
    up: RunningHospes,
    /// The server behind the gateway.
    site: (HospesProgram, RunningHospes),
}

impl House {
    /// With this to say who its users are; none where something that it takes is not there.
    fn build(auth: impl FnOnce(&OpenIdProvider) -> String) -> Option<Self> {
        let (provider, gate, behind) =
            (OpenIdProvider::start()?, HospesProgram::find()?, HospesProgram::find()?);
        std::fs::write(gate.path("login.secret"), OpenIdProvider::SECRET).unwrap();
        let site = behind
            .start_gateway("[auth]\nusers = { ann-there = \"correct horse\", bob-there = \"battery\" }");
        let mut config = auth(&provider);
        config += &format!("\n[servers.there]\nurl = \"{}\"\naccount = \"per-user\"", site.url);
        let up = gate.start_gateway(&config);
        Some(Self { provider, gate, up, site: (behind, site) })
    }

    async fn call(&self, tool: &str, arguments: &[&str]) -> ProgramOutput {
        let words = [&["call", self.up.url.as_str(), tool], arguments].concat();
        self.gate.run(&words).await
    }

    /// Calls until it says what is wanted: that an account came or went shows in the list of tools a moment later.
    async fn until(&self, tool: &str, arguments: &[&str], wanted: &str) -> ProgramOutput {
        let begun = Instant::now();
        loop {
            let ran = self.call(tool, arguments).await;
            if ran.said.contains(wanted) {
                return ran;
            }
            assert!(begun.elapsed() < LIMIT, "{wanted}: {ran:?}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A link by which Ann connects her account.
    async fn link(&self) -> String {
        let start = format!("{}/connect/", self.up.origin());
        let asked = self.until("there__connect_account", &[], &start).await;
        let at = asked.said.find(&start).unwrap();
        asked.said[at..].split_whitespace().next().unwrap().to_owned()
    }

    /// Follows the link to the account and back, in Ann's browser, and returns the outcome. Bob cannot use her link.
    async fn connect(&self, ann: &TestBrowser) {
        let link = self.link().await;
        let Some(bob) = TestBrowser::start().await else { panic!("a second browser") };
        bob.open(&link).await;
        sign_in_there(&bob, &self.provider.issuer, "bob").await;
        bob.wait_for_text("This link is for another user").await;
        assert!(bob.url().await.as_str().starts_with(self.up.origin()), "not to the server");
        // Nor is it to whoever has the session of his browser.
        bob.open(&link).await;
        bob.wait_for_text("This link is for another user").await;
        bob.take_screenshot("link-of-another").await;
        drop(bob);

        ann.open(&link).await;
        let page = ann.wait_for_text("Connect your account at").await;
        for words in ["there", self.site.1.origin().trim_start_matches("http://"), "ann"] {
            assert!(page.contains(words), "{words}: {page}");
        }
        ann.take_screenshot("connect").await;
        ann.press(ALLOW).await;
        ann.wait_for_url(self.site.1.origin()).await;
        ann.fill("#user", "ann-there").await;
        ann.fill("#password", "correct horse").await;
        ann.press("button[type=submit]").await;
        ann.wait_for_text("Allow Hospes").await;
        ann.press(ALLOW).await;
        ann.wait_for_text("Your account is connected").await;
        assert!(ann.url().await.as_str().starts_with(self.up.origin()));
        ann.take_screenshot("connected").await;
        self.until("there__time__now", &["timezone=Asia/Tokyo"], "+09:00").await;
    }

    /// Ann gives her account up, on the page of her accounts.
    async fn disconnect(&self, ann: &TestBrowser) {
        ann.open(&format!("{}/connect/accounts", self.up.origin())).await;
        let page = ann.wait_for_text("Your accounts on other servers").await;
        assert!(page.contains("Connected for mcp") && page.contains("ann"), "{page}");
        ann.take_screenshot("accounts").await;
        ann.press("button[value=disconnect]").await;
        let page = ann.wait_for_text("is disconnected, and its tokens are revoked").await;
        assert!(page.contains("Not connected"), "{page}");
        ann.take_screenshot("disconnected").await;
        // Her connection is closed: what was listed over it is gone, and she is asked to connect an account.
        self.until("there__time__now", &["timezone=Asia/Tokyo"], "unknown tool").await;
        self.link().await;
    }
}

async fn sign_in_there(browser: &TestBrowser, issuer: &str, name: &str) {
    browser.wait_for_url(issuer).await;
    browser.fill("input[name=login]", name).await;
    browser.fill("input[name=password]", "any").await;
    browser.press("button[type=submit]").await;
    browser.wait_for_text("Authorize").await;
    browser.press("button[type=submit]").await;
}

/// Our authorization server sends its users to the provider.
///
/// covers: AUT3-11 ELIC-26 ELIC-32
#[tokio::test(flavor = "multi_thread")]
async fn of_users_who_sign_in_at_a_provider() {
    let Some(house) = House::build(|provider| {
        format!(
            "[auth.provider]\nissuer = \"{}\"\nclient_id = \"{}\"\nclient_secret = \"${{file:login.secret}}\"\n\
             scopes = [\"openid\", \"email\", \"groups\", \"offline_access\"]\nallow = {{ groups = \"mcp\" }}",
            provider.issuer,
            OpenIdProvider::CLIENT
        )
    }) else {
        return;
    };
    let Some(ann) = TestBrowser::start().await else { return };
    let (page, signed_in) = house.gate.login(&house.up.url);
    ann.open(&page).await;
    ann.press(ALLOW).await;
    sign_in_there(&ann, &house.provider.issuer, "ann").await;
    ann.wait_for_text("close this").await;
    assert_eq!(signed_in.await.code, Some(0));
    let given = house.provider.tokens().await.len();
    house.connect(&ann).await;
    // To learn who she is has not cost her what her application has.
    assert!(house.provider.tokens().await.len() > given);
    assert_eq!(house.provider.times("revocation 200").await, 0);
    house.disconnect(&ann).await;
}

/// The tokens are the provider's own, and only the pages are ours.
///
/// covers: AUT3-11 ELIC-26 ELIC-32
#[tokio::test(flavor = "multi_thread")]
async fn of_users_whose_tokens_come_from_elsewhere() {
    let Some(house) = House::build(|provider| {
        format!(
            "[auth]\nissuer = \"{}\"\nscopes = [\"mcp\"]\n[auth.sign_in]\nclient_id = \"{}\"\n\
             client_secret = \"${{file:login.secret}}\"\nscopes = [\"openid\", \"email\"]",
            provider.issuer,
            OpenIdProvider::CLIENT
        )
    }) else {
        return;
    };
    let Some(ann) = TestBrowser::start().await else { return };
    let application = ["--client-id", OpenIdProvider::APPLICATION];
    let (page, signed_in) = house.gate.login_with(&house.up.url, &application);
    ann.open(&page).await;
    sign_in_there(&ann, &house.provider.issuer, "ann").await;
    ann.wait_for_text("close this").await;
    let ran = signed_in.await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // She is signed in there, and agrees to one more client of it.
    let link = house.link().await;
    ann.open(&link).await;
    ann.wait_for_text("Authorize").await;
    ann.press("button[type=submit]").await;
    ann.wait_for_text("Connect your account at").await;
    house.connect(&ann).await;
    house.disconnect(&ann).await;
}
