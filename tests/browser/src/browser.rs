//! Chromium, driven.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use thirtyfour::error::{WebDriverError, WebDriverErrorInner, WebDriverResult};
use thirtyfour::session::http::{Body, HttpClient};
use thirtyfour::{By, ChromiumLikeCapabilities as _, DesiredCapabilities, WebDriver, WebElement};
use url::Url;

use crate::{WAIT_TIMEOUT, fetch, program_from_env};

/// Interval at which a page is polled while a test waits for something.
const POLL_INTERVAL: Duration = Duration::from_millis(30);

/// Gives an element the focus if the Tab key comes to it, and says what it is, or why not.
const FOCUS: &str = "
    const node = document.querySelector(arguments[0]);
    if (node === null) return 'is not there';
    if (node.tabIndex < 0) return 'is not in the order of the Tab key';
    if (node.matches(':disabled') || node.closest('[inert]')) return 'is disabled';
    if (!node.checkVisibility({ visibilityProperty: true })) return 'is not visible';
    const over = document.querySelector('dialog:modal');
    if (over && !over.contains(node)) return 'is behind a dialog';
    node.focus();
    if (document.activeElement !== node) return 'takes no focus';
    return node.matches('a') ? 'link' : 'button';";

/// Command line arguments that isolate a browser from the user's profile and from the network.
const ARGUMENTS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--hide-scrollbars",
    // Nothing else is found, whatever a page links to.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
];

/// A browser with a fresh profile. It ends when this is dropped.
#[derive(Debug)]
pub struct TestBrowser {
    driver: WebDriver,
    process: Child,
    guard: Child,
    _profile: TempDir,
}

impl TestBrowser {
    /// Starts one; none, and a line that says so, where the environment names none.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start() -> Option<Self> {
        let (chromium, chromedriver) =
            (program_from_env("HOSPES_CHROMIUM")?, program_from_env("HOSPES_CHROMEDRIVER")?);
        let profile = tempfile::tempdir().expect("a folder");
        // A group of its own, so that whatever it starts ends with it.
        let mut process = Command::new(chromedriver)
            .args(["--port=0", "--log-level=SEVERE"])
            .env("HOME", profile.path())
            // Chromium leaves folders behind; they go with the profile.
            .env("TMPDIR", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("chromedriver starts");
        // A test that is killed drops nothing: this one sees its standard input close then, and ends the group.
        let guard = Command::new("sh")
            .args(["-c", "read -r _; kill -s KILL -- \"-$1\"", "guard", &process.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let (found, port) = mpsc::channel();
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines().map_while(Result::ok);
        std::thread::spawn(move || {
            for line in lines {
                if let Some((_, port)) = line.split_once("started successfully on port ") {
                    let _late = found.send(port.trim_end_matches('.').to_owned());
                }
            }
        });
        let port = tokio::task::spawn_blocking(move || port.recv_timeout(WAIT_TIMEOUT)).await;
        let port = port.ok().and_then(Result::ok).expect("chromedriver listens");
        let mut wanted = DesiredCapabilities::chrome();
        let folder = format!("--user-data-dir={}", profile.path().join("profile").display());
        wanted.set_binary(&chromium).expect("a capability");
        for argument in ARGUMENTS.into_iter().chain([folder.as_str(), "--window-size=1280,900"]) {
            wanted.add_arg(argument).expect("a capability");
        }
        let driver =
            WebDriver::builder(format!("http://127.0.0.1:{port}"), wanted).client(WebDriverHttp).await;
        Some(Self { driver: driver.expect("chromium starts"), process, guard, _profile: profile })
    }

    /// The driver itself, for what is not here.
    #[must_use]
    pub fn driver(&self) -> &WebDriver {
        &self.driver
    }

    /// Goes to a page.
    ///
    /// # Panics
    /// When the browser says that it cannot.
    pub async fn open(&self, url: &str) {
        self.driver.goto(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    }

    /// Returns the current URL.
    ///
    /// # Panics
    /// When the browser does not say.
    pub async fn url(&self) -> Url {
        self.driver.current_url().await.expect("a URL")
    }

    /// Returns the visible text of the page.
    pub async fn text(&self) -> String {
        match self.driver.find(By::Css("body")).await {
            Ok(body) => body.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    }

    /// Waits until the page says this, and returns all that it says.
    ///
    /// # Panics
    /// When it does not say so within [`WAIT_TIMEOUT`].
    pub async fn wait_for_text(&self, words: &str) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text().await;
            if text.contains(words) {
                return text;
            }
            assert!(
                begun.elapsed() < WAIT_TIMEOUT,
                "`{words}` is not said at {}, but: {text}",
                self.url().await
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until the URL begins so.
    ///
    /// # Panics
    /// When it does not within [`WAIT_TIMEOUT`].
    pub async fn wait_for_url(&self, at: &str) -> Url {
        let begun = Instant::now();
        loop {
            let url = self.url().await;
            if url.as_str().starts_with(at) {
                return url;
            }
            assert!(begun.elapsed() < WAIT_TIMEOUT, "{url} is not {at}; it says: {}", self.text().await);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The element of a CSS selector, once it is there.
    ///
    /// # Panics
    /// When it is not within [`WAIT_TIMEOUT`].
    pub async fn find(&self, selector: &str) -> WebElement {
        let begun = Instant::now();
        loop {
            match self.driver.find(By::Css(selector)).await {
                Ok(element) => return element,
                Err(error) => assert!(
                    begun.elapsed() < WAIT_TIMEOUT,
                    "no {selector} at {}: {error}; it says: {}",
                    self.url().await,
                    self.text().await
                ),
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Types into a field.
    ///
    /// # Panics
    /// When it cannot be typed into.
    pub async fn fill(&self, selector: &str, text: &str) {
        let field = self.find(selector).await;
        field.clear().await.expect("a field that can be cleared");
        field.send_keys(text).await.expect("a field that can be typed into");
    }

    /// Clicks an element with the mouse. Where the page draws it anew between finding and clicking it, the one that stands
    /// in its place is clicked. A message that lies over it goes away by itself.
    ///
    /// # Panics
    /// When it cannot be clicked within [`WAIT_TIMEOUT`].
    pub async fn click(&self, selector: &str) {
        let begun = Instant::now();
        loop {
            match self.find(selector).await.click().await {
                Ok(()) => return,
                Err(error) => assert!(
                    matches!(
                        *error,
                        WebDriverErrorInner::StaleElementReference(_)
                            | WebDriverErrorInner::ElementClickIntercepted(_)
                    ) && begun.elapsed() < WAIT_TIMEOUT,
                    "{selector}: {error}"
                ),
            }
        }
    }

    /// Presses a button, link, switch or summary by keyboard: it takes the focus, as it does when a person comes to it
    /// with the Tab key, and gets Enter if it is a link, and Space otherwise.
    ///
    /// # Panics
    /// When the Tab key does not come to it within [`WAIT_TIMEOUT`].
    pub async fn press(&self, selector: &str) {
        let begun = Instant::now();
        loop {
            let found = match self.driver.execute(FOCUS, vec![selector.into()]).await {
                Ok(found) => found.json().as_str().unwrap_or_default().to_owned(),
                // Another page is just coming.
                Err(error) => error.to_string(),
            };
            match found.as_str() {
                "link" => return self.keys("\u{e007}").await,
                "button" => return self.keys(" ").await,
                problem => assert!(
                    begun.elapsed() < WAIT_TIMEOUT,
                    "{selector} at {} {problem}; it says: {}",
                    self.url().await,
                    self.text().await
                ),
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Presses "show the next" of a card or a definition until all of it was in view.
    ///
    /// # Panics
    /// When something is still not in view after two hundred steps.
    pub async fn show_all(&self) {
        // What was in view is counted by an observer of the page, which runs with its frames.
        let script = "for (let step = 0; step < 200; step += 1) {
               const next = document.querySelector('[data-show-next]');
               if (next === null) return true;
               next.click();
               await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
             }
             return false;";
        assert!(self.run(script).await == true, "something cannot be shown: {}", self.text().await);
    }

    /// Waits until something is no longer on the page.
    ///
    /// # Panics
    /// When it still is after [`WAIT_TIMEOUT`].
    pub async fn wait_until_gone(&self, selector: &str) {
        let begun = Instant::now();
        while self.driver.find(By::Css(selector)).await.is_ok() {
            assert!(begun.elapsed() < WAIT_TIMEOUT, "{selector} is still there: {}", self.text().await);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Types keys to the page, not into a field.
    ///
    /// # Panics
    /// When it takes none.
    pub async fn keys(&self, keys: &str) {
        self.driver
            .action_chain()
            .send_keys(keys)
            .perform()
            .await
            .unwrap_or_else(|error| panic!("{keys}: {error}"));
    }

    /// Runs a script in the page and returns its result.
    ///
    /// # Panics
    /// When it fails.
    pub async fn run(&self, script: &str) -> serde_json::Value {
        let done = self.driver.execute(script, Vec::new()).await;
        done.unwrap_or_else(|error| panic!("{script}: {error}")).json().clone()
    }

    /// Takes screenshots of the page, if `HOSPES_PICTURES` names a folder for them: at desktop and phone size, each
    /// with a light and a dark color scheme.
    ///
    /// # Panics
    /// When the browser cannot.
    pub async fn take_screenshot(&self, name: &str) {
        let Some(folder) = std::env::var_os("HOSPES_PICTURES") else { return };
        for (screen, width, height) in [("desktop", 1280, 900), ("phone", 390, 844)] {
            for scheme in ["light", "dark"] {
                let feature = serde_json::json!({ "name": "prefers-color-scheme", "value": scheme });
                let size = serde_json::json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
                self.devtools("Emulation.setEmulatedMedia", serde_json::json!({ "features": [feature] }))
                    .await;
                self.devtools("Emulation.setDeviceMetricsOverride", size).await;
                // What the page does about it comes with the next frame.
                tokio::time::sleep(POLL_INTERVAL).await;
                let file = Path::new(&folder).join(format!("{name}-{screen}-{scheme}.png"));
                self.driver.screenshot(&file).await.expect("a picture");
            }
        }
        self.devtools("Emulation.clearDeviceMetricsOverride", serde_json::json!({})).await;
    }

    /// Resizes the window, in CSS pixels.
    ///
    /// # Panics
    /// When the browser cannot.
    pub async fn resize_window(&self, width: u32, height: u32) {
        let size =
            serde_json::json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    pub(crate) async fn devtools(&self, command: &str, params: serde_json::Value) {
        let session = self.driver.session_id().to_string();
        let body = serde_json::json!({ "cmd": command, "params": params });
        let url = format!("{}session/{session}/goog/cdp/execute", self.driver.server_url());
        let request = Request::post(url).header("content-type", "application/json");
        let request = request.body(Bytes::from(body.to_string())).expect("a request");
        let answer = fetch(request).await.expect("an answer of the driver");
        assert!(answer.status().is_success(), "{command}: {answer:?}");
    }

    fn end(&mut self) {
        let _gone = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _reaped = self.process.wait();
        let _gone = self.guard.kill();
        let _reaped = self.guard.wait();
    }
}

impl Drop for TestBrowser {
    fn drop(&mut self) {
        self.end();
    }
}

/// HTTP client for WebDriver commands.
struct WebDriverHttp;

#[async_trait]
impl HttpClient for WebDriverHttp {
    async fn send(&self, request: Request<Body<'_>>) -> WebDriverResult<Response<Bytes>> {
        let request = request.map(|body| match body {
            Body::Empty => Bytes::new(),
            Body::Json(json) => Bytes::from(json.to_string()),
        });
        fetch(request).await.map_err(|error| WebDriverError::RequestFailed(error.to_string()))
    }

    async fn new(&self) -> Arc<dyn HttpClient> {
        Arc::new(Self)
    }
}
