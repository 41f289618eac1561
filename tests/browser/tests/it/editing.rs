//! The settings of a server that are changed on a page.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use hospes_browser_tests::{HospesProgram, RunningHospes, TestBrowser};

const ENTER: &str = "\u{e007}";
const SPACE: &str = " ";
const TAB: &str = "\u{e004}";
const DOWN: &str = "\u{e015}";

/// A value that is in the file, and one that is typed. No page may show either.
const OLD: &str = "old-5f0e1d2c";
const NEW: &str = "new-8d7c6b5a";

struct Editing {
    browser: TestBrowser,
    hospes: HospesProgram,
    up: RunningHospes,
    config: String,
}

impl Editing {
    async fn begin() -> Option<Self> {
        let (browser, hospes) = (TestBrowser::start().await?, HospesProgram::find()?);
        let program = std::env::var("HOSPES_PROGRAM").unwrap();
        let config = format!(
            "# mine\n[servers.clock]\ncommand = [{program:?}, \"serve\", \"time\"] # the clock\n# Its token\n\
             env = {{ TOKEN = \"{OLD}\", MODE = \"${{HOME}}\" }}\npins = \"first-use\"\n\n[servers.everything]\nbuiltin = \"everything\"\n\n\
             [profiles.work]\nservers = [\"clock\"]\n"
        );
        let up = hospes.start_gateway_with(&config, &[]);
        browser.open(&hospes.console().await).await;
        browser.wait_for_text("Nothing waits for you").await;
        Some(Self { browser, hospes, up, config })
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.hospes.path("hospes.toml")).unwrap()
    }

    /// Presses Tab until this has the focus.
    async fn tab_to(&self, selector: &str) {
        let is_there = format!("return document.activeElement.matches({selector:?})");
        for _ in 0..80 {
            if self.browser.run(&is_there).await == true {
                return;
            }
            self.browser.keys(TAB).await;
        }
        panic!("{selector} is not reached by Tab: {}", self.browser.text().await);
    }

    async fn press(&self, selector: &str, key: &str) {
        self.tab_to(selector).await;
        self.browser.keys(key).await;
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
            self.browser.take_screenshot(&format!("{what}-{width}")).await;
        }
        self.browser.resize_window(1280, 900).await;
    }

    async fn assert_hidden(&self) {
        let html = self.browser.run("return document.documentElement.outerHTML").await;
        let html = html.as_str().unwrap();
        assert!(!html.contains(OLD) && !html.contains(NEW), "{html}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_changed_by_keyboard_with_its_secret_sealed_and_undone() {
    let Some(house) = Editing::begin().await else { return };
    let browser = &house.browser;
    browser.keys("2").await;
    browser.wait_for_text("Every server is ready.").await;
    browser.find("[data-settings='clock']").await;
    house.press("[data-settings='clock']", ENTER).await;
    let page = browser.wait_for_text("What it is").await;
    assert!(page.contains("work") && page.contains("ready"), "{page}");
    house.assert_hidden().await;
    house.axe("settings-page").await;

    // The token gets a new value, a tool is switched off, and an argument is added.
    house.press("[data-choice='TOKEN']", DOWN).await;
    house.press("[data-new-value='TOKEN']", NEW).await;
    house.press("[data-check='convert']", SPACE).await;
    house.press("[data-preview]", ENTER).await;
    let page = browser.wait_for_text("clock` restarts; no call is in progress.").await;
    for words in
        ["What runs changes (env.TOKEN)", "Stored encrypted", "clock.TOKEN", "exclude = [\"convert\"]"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_eq!(browser.run("return document.activeElement.id").await, "change-title");
    house.axe("settings-change").await;
    house.assert_hidden().await;
    assert_eq!(house.text(), house.config, "nothing is written before the yes");
    house.press("[data-save-change]", ENTER).await;
    browser.find("[data-undo-change='clock']").await;
    let sealed = house.config.replace(OLD, "${secret:clock.TOKEN}");
    assert_eq!(
        house.text(),
        sealed.replace("first-use\"\n", "first-use\"\ntools = { exclude = [\"convert\"] }\n"),
        "{}",
        house.text()
    );
    let secrets = house.hospes.run(&["secret", "list"]).await;
    assert!(secrets.said.contains("clock.TOKEN"), "{secrets:?}");
    // It is undone, with its secret.
    house.press("[data-undo-change='clock']", ENTER).await;
    browser.wait_until_gone("[data-undo-change='clock']").await;
    assert_eq!(house.text(), house.config);
    let secrets = house.hospes.run(&["secret", "list"]).await;
    assert!(!secrets.said.contains("clock.TOKEN"), "{secrets:?}");

    // A file that somebody else changes is not overwritten, and the change is shown anew.
    house.press("[data-check='enabled']", SPACE).await;
    house.press("[data-preview]", ENTER).await;
    browser.wait_for_text("clock` stops").await;
    let theirs = format!("{}# theirs\n", house.config);
    std::fs::write(house.hospes.path("hospes.toml"), &theirs).unwrap();
    house.press("[data-save-change]", ENTER).await;
    browser.wait_for_text("was changed in the meantime").await;
    assert_eq!(house.text(), theirs);
    house.press("[data-save-change]", ENTER).await;
    browser.find("[data-undo-change='clock']").await;
    assert!(
        house.text().ends_with("# theirs\n") && house.text().contains("enabled = false"),
        "{}",
        house.text()
    );
    browser.find("[data-state=off]").await;

    // What depends on it is named before it is removed.
    house.press("[data-remove-server='clock']", ENTER).await;
    let page = browser.wait_for_text("the server is taken out of them").await;
    assert!(page.contains("work"), "{page}");
    house.axe("settings-remove").await;
    house.press("[data-save-change]", ENTER).await;
    browser.wait_for_text("clock was removed.").await;
    assert!(!house.text().contains("servers.clock"), "{}", house.text());
    house.press("[data-undo-change='clock']", ENTER).await;
    browser.wait_until_gone("[data-undo-change='clock']").await;
    assert!(house.text().contains("[servers.clock]"), "{}", house.text());
    let log = house.hospes.run(&["audit", "export"]).await;
    for words in ["settings changed: ", "settings undone: ", "the person at the console, browser session"] {
        assert!(log.said.contains(words), "{words}: {log:?}");
    }
    assert!(!log.said.contains(NEW) && !house.up.said_so_far().contains(NEW));
}
