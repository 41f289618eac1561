//! Checks of a server, and the sign-in to one, from its page and from the first page.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::time::{Duration, Instant};

use hospes_browser_tests::{HospesProgram, RunningHospes, TestBrowser, WAIT_TIMEOUT};

const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";

struct Checking {
    browser: TestBrowser,
    hospes: HospesProgram,
    _up: RunningHospes,
    origin: String,
}

impl Checking {
    async fn begin(config: &str) -> Option<Self> {
        let (browser, hospes) = (TestBrowser::start().await?, HospesProgram::find()?);
        let up = hospes.start_gateway_with(config, &[]);
        browser.open(&hospes.console().await).await;
        browser.find(".needs").await;
        let origin = browser.url().await.origin().ascii_serialization();
        Some(Self { browser, hospes, _up: up, origin })
    }

    async fn open(&self, path: &str) {
        self.browser.open(&format!("{}{path}", self.origin)).await;
    }

    /// Presses Tab until this has the focus, and then Enter.
    async fn enter(&self, selector: &str) {
        self.browser.find(selector).await;
        let is_there = format!("return document.activeElement.matches({selector:?})");
        for _ in 0..80 {
            if self.browser.run(&is_there).await == true {
                return self.browser.keys(ENTER).await;
            }
            self.browser.keys(TAB).await;
        }
        panic!("{selector} is not reached by Tab: {}", self.browser.text().await);
    }

    async fn axe(&self, what: &str) {
        for (width, height) in [(1280, 900), (390, 844)] {
            self.browser.resize_window(width, height).await;
            for scheme in ["light", "dark"] {
                self.browser.set_color_scheme(scheme).await;
                let problems = self.browser.find_accessibility_problems().await.unwrap_or_default();
                assert!(problems.is_empty(), "{what} {width} {scheme}: {}", problems.join("\n"));
                let wide = self.browser.run("return document.documentElement.scrollWidth").await;
                assert!(wide.as_u64() <= Some(width.into()), "{what} is {wide} wide at {width}");
            }
        }
        self.browser.resize_window(1280, 900).await;
        self.browser.take_screenshot(what).await;
    }

    /// Follows the sign-in in the tab that has opened, and goes back.
    async fn sign_in(&self, name: &str, password: &str) {
        let (browser, driver) = (&self.browser, self.browser.driver());
        let first = driver.window().await.unwrap();
        let begun = Instant::now();
        let second = loop {
            let windows = driver.windows().await.unwrap();
            if let Some(other) = windows.into_iter().find(|window| *window != first) {
                break other;
            }
            assert!(begun.elapsed() < WAIT_TIMEOUT, "no tab opens: {}", browser.text().await);
            tokio::time::sleep(Duration::from_millis(30)).await;
        };
        driver.switch_to_window(second).await.unwrap();
        browser.fill("#user", name).await;
        assert_eq!(browser.run("return window.opener === null").await, true);
        browser.fill("#password", password).await;
        browser.press("button[type=submit]").await;
        browser.wait_for_text("Allow Hospes").await;
        browser.press("button[value=allow]").await;
        browser.wait_for_text("close this").await;
        driver.close_window().await.unwrap();
        driver.switch_to_window(first).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_checks_of_a_server_name_the_failing_step_and_its_remedy() {
    let config = "[servers.time]\nbuiltin = 'time'\n[servers.lost]\ncommand = 'no-such-program-anywhere'\n";
    let Some(house) = Checking::begin(config).await else { return };
    let browser = &house.browser;
    // Where something went wrong today.
    house.enter("[data-failure=lost] [data-check-server=lost]").await;
    browser.find("[data-checks=fault] [data-step=C02][data-status=fault]").await;
    let page = browser.text().await;
    assert!(page.contains("lost fails at the step “command”") && page.contains("To mend it"), "{page}");
    assert!(page.contains("not reached") && page.contains("no-such-program-anywhere"), "{page}");
    // The focus stays at the button, and the panel gives it back.
    assert_eq!(browser.run("return document.activeElement.dataset.checkServer").await, "lost");
    house.axe("check-home").await;
    house.enter("[data-close-checks=lost]").await;
    browser.wait_until_gone("[data-checks]").await;
    assert_eq!(browser.run("return document.activeElement.dataset.checkServer").await, "lost");

    // On the page of a server, also by its key.
    house.open("/servers/time").await;
    browser.wait_for_text("convert").await;
    browser.keys("c").await;
    browser.find("[data-checks=ok] [data-step=S03][data-status=ok]").await;
    browser.wait_for_text("Everything that was checked of time is well.").await;
    house.axe("check-well").await;
    let live = browser.run("return document.getElementById('live').textContent").await;
    assert_eq!(live, "Everything that was checked of time is well.");

    house.open("/servers/lost").await;
    house.enter("[data-check-server=lost]").await;
    browser.find("[data-checks=fault] [data-step=C02][data-status=fault] .check-mend").await;
    house.axe("check-fault").await;
}

/// From the check that finds it, through the sign-in in another tab, to a server that is ready, and out again.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_to_a_server_and_out_of_it_on_its_page() {
    let Some(there) = HospesProgram::find() else { return };
    let guarded = there.start_gateway("[auth]\nusers = { ann = \"correct horse\" }");
    let config = format!("[servers.there]\nurl = \"{}\"\n", guarded.url);
    let Some(house) = Checking::begin(&config).await else { return };
    let browser = &house.browser;
    let needed = browser.find("[data-focus][href='/servers/there']").await;
    assert_eq!(needed.text().await.unwrap(), "there");
    browser.find(".needs [data-sign-in-to=there]").await;
    house.axe("sign-in-home").await;

    house.open("/servers/there").await;
    browser.find("[data-sign-in-to=there]").await;
    browser.keys("c").await;
    browser.find("[data-checks=fault] [data-step=O01][data-status=fault] [data-sign-in-to=there]").await;
    house.axe("check-sign-in").await;
    // A cancelled sign-in leaves nothing, and can be begun again.
    house.enter("[data-checks] [data-sign-in-to=there]").await;
    browser.find("[data-sign-in-state=running] [data-sign-in-link]").await;
    house.axe("sign-in-waits").await;
    house.enter("[data-cancel-sign-in=there]").await;
    browser.wait_until_gone("[data-sign-in-state]").await;
    let windows = browser.driver().windows().await.unwrap();
    browser.driver().switch_to_window(windows[1].clone()).await.unwrap();
    browser.driver().close_window().await.unwrap();
    browser.driver().switch_to_window(windows[0].clone()).await.unwrap();

    house.enter("[data-checks] [data-sign-in-to=there]").await;
    house.sign_in("ann", "correct horse").await;
    browser.find("[data-sign-in-state=done]").await;
    browser.find("[data-sign-out-of=there]").await;
    browser.find(".head .state.ready").await;
    house.axe("signed-in").await;
    let status = house.hospes.run(&["auth", "status", "--json"]).await;
    assert!(status.said.contains(&guarded.url), "{status:?}");
    let html = browser.run("return document.documentElement.outerHTML").await;
    assert!(!html.as_str().unwrap().contains("Bearer"), "no token is on the page");

    house.enter("[data-sign-out-of=there]").await;
    browser.find("[data-sign-in-to=there]").await;
    browser.wait_until_gone("[data-sign-out-of]").await;
    let status = house.hospes.run(&["auth", "status", "--json"]).await;
    assert!(!status.said.contains(&guarded.url), "{status:?}");
    house.open("/activity?kind=server").await;
    let page = browser.wait_for_text("signed out").await;
    assert!(page.contains("signed in"), "{page}");
}
