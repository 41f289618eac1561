//! The card of a call shows its content as what it is: the text of a file beside the file on disk, a command line.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use hospes::prelude::*;
use hospes::transport::http_server::{Endpoint, HttpServer};
use hospes_browser_tests::{HospesProgram, RunningHospes, TestBrowser};
use serde_json::Value;
use tokio::task::JoinHandle;

const RULES: &str = "
[[rule]]
decide = 'ask'
tool = ['write_file', 'run']
";

const SCREENS: [(u32, u32); 2] = [(1280, 900), (390, 844)];

struct Desk {
    browser: TestBrowser,
    hospes: HospesProgram,
    _up: RunningHospes,
    serving: JoinHandle<()>,
    client: Arc<Client>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Desk {
    async fn begin() -> Option<Self> {
        let (browser, hospes) = (TestBrowser::start().await?, HospesProgram::find()?);
        std::fs::create_dir(hospes.path("work")).unwrap();
        let run = json!({ "type": "object", "properties": { "command": {}, "args": {}, "cwd": {} } });
        let write = json!({ "type": "object", "properties": { "path": {}, "content": {} } });
        let server = Server::new("shell", "1")
            .tool(Tool::new("run").input_schema(run).read_only(false), |_: RawJson| async move { "ran" })
            .tool(Tool::new("write_file").input_schema(write).read_only(false), |_: RawJson| async move {
                "written"
            });
        let http = HttpServer::bind("127.0.0.1:0", Endpoint::new(server)).await.unwrap();
        let config = format!(
            "[servers.files]\nbuiltin = 'files'\nargs = ['--write', '{}']\n[servers.shell]\nurl = '{}'",
            hospes.path("work").display(),
            http.url()
        );
        let serving = tokio::spawn(async move {
            let _ended = http.serve().await;
        });
        let policy = hospes.path("policy.toml");
        std::fs::write(&policy, RULES).unwrap();
        let args = ["--policy", policy.to_str().unwrap(), "--pins", "first-use"];
        let up = hospes.start_gateway_with(&config, &args);
        browser.open(&hospes.console().await).await;
        browser.wait_for_text("Nothing waits for you").await;
        browser.keys("1").await;
        browser.wait_for_text("No pending approvals").await;
        let client = Arc::new(Client::connect(up.url.as_str()).await.unwrap());
        Some(Self { browser, hospes, _up: up, serving, client })
    }

    fn call(&self, tool: &str, arguments: &Value) -> JoinHandle<String> {
        let (client, tool) = (Arc::clone(&self.client), tool.to_owned());
        let arguments = RawJson::parse(arguments.to_string()).unwrap();
        tokio::spawn(async move {
            let ended = Client::call(&client, &tool, arguments).await;
            ended.map_or_else(|error| error.to_string(), |result| result.all_text())
        })
    }

    /// Chooses the card and decides by a key.
    async fn decide(&self, key: &str) {
        self.browser.show_all().await;
        self.browser.find("[data-once][aria-disabled=false]").await;
        self.browser.keys("j").await;
        self.browser.find(".matter.chosen").await;
        self.browser.keys(key).await;
        self.browser.wait_for_text("No pending approvals.").await;
    }

    async fn lines(&self, selector: &str) -> Vec<String> {
        let script =
            format!("return [...document.querySelectorAll({selector:?})].map((one) => one.textContent)");
        serde_json::from_value(self.browser.run(&script).await).unwrap()
    }
}

/// The new content of a file is compared with the one on disk. A new one begins with its first lines, and is not allowed
/// before all of it was unfolded.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_compared_with_the_one_on_disk() {
    let Some(desk) = Desk::begin().await else { return };
    let browser = &desk.browser;
    let file = desk.hospes.path("work/notes.md");
    for (width, height) in SCREENS {
        browser.resize_window(width, height).await;
        let before: String = (1..=40).map(|line| format!("line {line}\n")).collect();
        std::fs::write(&file, &before).unwrap();
        let after = before.replace("line 20\n", "line twenty\u{202e}\nand more\n");
        let calling = desk.call("files__write_file", &json!({ "path": file, "content": after }));
        let page = browser.wait_for_text("+2 −1").await;
        for words in
            ["wants to write", "notes.md", "41 lines", "replaces the file of 40 lines", "Asked because"]
        {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert_eq!(desk.lines(".diff-line.gone").await, ["−removed: line 20"]);
        let added = desk.lines(".diff-line.new").await;
        assert_eq!(added, ["+added: line twenty\\u{202e}", "+added: and more"]);
        assert_eq!(desk.lines(".diff-skip").await, ["… 16 unchanged lines", "… 17 unchanged lines"]);
        // With room for it, all of it is on screen at once.
        if width > 1000 {
            browser.find("[data-once][aria-disabled=false]").await;
            assert_eq!(browser.run("return scrollY").await, 0);
        }
        browser.take_screenshot(&format!("card-write-{width}")).await;
        browser.resize_window(width, height).await;
        desk.decide("o").await;
        calling.await.unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), after);

        let fresh = desk.hospes.path(&format!("work/new-{width}.md"));
        let calling = desk.call("files__write_file", &json!({ "path": fresh, "content": before }));
        let page = browser.wait_for_text("a new file of 40 lines").await;
        assert!(page.contains("line 6") && !page.contains("line 7"), "{page}");
        // Its beginning was in view, and so was the end of what is unfolded.
        browser.find("[data-deny][aria-disabled=false]").await;
        browser.run("document.querySelector('[data-whole]').scrollIntoView()").await;
        let once = "return document.querySelector('[data-once]').getAttribute('aria-disabled')";
        assert_eq!(browser.run(once).await, "true", "the rest is folded away");
        if width > 1000 {
            browser.show_all().await;
        } else {
            browser.run("document.querySelector('[data-whole]').focus()").await;
            browser.keys("\u{e007}").await;
        }
        browser.wait_for_text("line 40").await;
        desk.decide("d").await;
        assert!(calling.await.unwrap().contains("denied"));
        assert!(!fresh.exists());
        // What hides in a later line is not folded away.
        let hiding = before.replace("line 30", "line\u{200b} 30");
        let calling = desk.call("files__write_file", &json!({ "path": fresh, "content": hiding }));
        browser.wait_for_text("line\\u{200b} 30").await;
        desk.decide("d").await;
        calling.await.unwrap();
    }
}

/// The host reads no file that the server cannot reach, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_out_of_reach_is_not_read() {
    let Some(desk) = Desk::begin().await else { return };
    let browser = &desk.browser;
    let secret = desk.hospes.path("secret.txt");
    std::fs::write(&secret, "the secret text").unwrap();
    // A server on another machine has no files here.
    for (tool, why) in [
        ("files__write_file", "outside the known folders of this server"),
        ("shell__write_file", "the folders of this server are not known"),
    ] {
        let calling = desk.call(tool, &json!({ "path": secret, "content": "mine" }));
        let page = browser.wait_for_text(why).await;
        assert!(page.contains("Not compared with the file on disk"), "{page}");
        assert!(!browser.text().await.contains("the secret text"));
        desk.decide("d").await;
        calling.await.unwrap();
    }
}

/// A command is shown word by word, and one text as the line that a shell would take apart.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_shown_as_its_words() {
    let Some(desk) = Desk::begin().await else { return };
    let browser = &desk.browser;
    let words = json!({ "command": "npm", "args": ["run", "it && rm -rf ~"], "cwd": "/srv" });
    let calling = desk.call("shell__run", &words);
    browser.find(".argv").await;
    assert_eq!(desk.lines(".argv li").await, ["npm", "run", "it && rm -rf ~"]);
    let heading = desk.lines("#matter-title").await.join("");
    assert!(heading.contains("run code"), "{heading}");
    browser.take_screenshot("card-command").await;
    desk.decide("o").await;
    assert_eq!(calling.await.unwrap(), "ran");
}
