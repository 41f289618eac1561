//! The server: one port for everything.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, IF_NONE_MATCH};
use hyper::service::service_fn;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::http::{TestRequest, TestResponse, json as json_response, not_found, respond, with_header};
use crate::packages::{
    CLOCK_PATCH, CLOCK_VERSIONS, bundle, clock_entries, npm_archive, npm_document, sha256_hex, wheel,
    wheel_name,
};
use crate::registry::{ListedVersion, Listing};

/// Fault that replaces the right answer of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryFault {
    /// Sends a page of HTML.
    Html,
    /// Sends this text as JSON.
    Body(String),
    /// Sends this status with a JSON error.
    Status(u16),
    /// Redirects to this URL.
    Redirect(String),
    /// Sends nothing for this time.
    Slow(Duration),
    /// Always names a further page with the same cursor.
    SameCursor,
    /// Always names a further page with another cursor.
    EndlessPages,
    /// Sends more than this number of bytes.
    Huge(usize),
}

/// An MCP registry and package registries on loopback. They stop when it is dropped.
#[derive(Debug)]
pub struct RegistryServer {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct ServerState {
    base: String,
    listing: Listing,
    fault: Option<RegistryFault>,
    requests: Vec<String>,
    not_modified: usize,
    files: HashMap<String, Bytes>,
    /// The archives of npm are not those that its documents describe.
    has_other_archives: bool,
    /// The fault is one of the indexes of packages, too.
    has_index_fault: bool,
    /// Account that published the patch of the package of npm, if there is one.
    patch_by: Option<String>,
}

impl RegistryServer {
    /// Starts a registry with the entries of [`entries`](crate::entries), published in that order a year ago.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(crate::entries())
    }

    /// Starts a registry with these entries.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start_with(entries: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.set_nonblocking(true).expect("the listener can be used");
        let address = listener.local_addr().expect("the listener has an address");
        let mut listing = Listing { versions: Vec::new(), page_size: 100, has_meta: true };
        let start = Timestamp::now().as_second() - 365 * 24 * 3600;
        for (index, entry) in entries.into_iter().enumerate() {
            let at = start + i64::try_from(index).expect("there are few entries");
            listing.publish(entry, Timestamp::from_second(at).expect("the time is valid"));
        }
        let base = format!("http://{address}");
        let files = HashMap::from([("loopback-clock.mcpb".to_owned(), Bytes::from(bundle()))]);
        let state = ServerState {
            base,
            listing,
            fault: None,
            requests: Vec::new(),
            not_modified: 0,
            files,
            has_other_archives: false,
            patch_by: None,
            has_index_fault: false,
        };
        let state = Arc::new(Mutex::new(state));
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&state);
        // A thread of its own, so that tests without a runtime can use it.
        let thread = std::thread::spawn(move || serve(listener, &served, stopped));
        Self { address, state, stop: Some(stop), thread: Some(thread) }
    }

    /// Returns the base URL of the MCP registry.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the base URL of the registry of npm.
    #[must_use]
    pub fn npm_url(&self) -> String {
        format!("{}/npm", self.url())
    }

    /// Returns the base URL of the index of PyPI: `/simple` and `/pypi/NAME/VERSION/json` are below it.
    #[must_use]
    pub fn pypi_url(&self) -> String {
        format!("{}/pypi", self.url())
    }

    /// Returns the URL of a file.
    #[must_use]
    pub fn file_url(&self, name: &str) -> String {
        format!("{}/files/{name}", self.url())
    }

    /// Returns the host of the registry of images, which has `loopback/clock:1.0.0`.
    #[must_use]
    pub fn image_host(&self) -> String {
        self.address.to_string()
    }

    /// Returns the digest of the image `loopback/clock:1.0.0`.
    #[must_use]
    pub fn image_digest() -> String {
        format!("sha256:{}", sha256_hex(image_manifest().as_bytes()))
    }

    /// Returns the environment with which `npx` and `uvx` use these registries, and caches below a folder.
    #[must_use]
    pub fn environment(&self, folder: &std::path::Path) -> Vec<(String, String)> {
        let below = |name: &str| folder.join(name).display().to_string();
        [
            ("npm_config_registry", self.npm_url()),
            ("npm_config_cache", below("npm")),
            ("npm_config_update_notifier", "false".to_owned()),
            ("npm_config_fetch_retries", "0".to_owned()),
            ("UV_DEFAULT_INDEX", format!("{}/simple", self.pypi_url())),
            ("UV_CACHE_DIR", below("uv")),
            ("UV_TOOL_DIR", below("uv-tools")),
            ("UV_PYTHON_DOWNLOADS", "never".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Publishes the servers that can be started: `io.github.loopback/clock-npm`, `clock-pypi`, each in two versions, and
    /// `clock-bundle`. With `name_registries`, the entries name the package registries, and no environment is needed.
    pub fn publish_clocks(&self, name_registries: bool) {
        let (npm, pypi) = (self.npm_url(), self.pypi_url());
        let (npm, pypi) = (Some(npm.as_str()), Some(pypi.as_str()));
        let (npm, pypi) = if name_registries { (npm, pypi) } else { (None, None) };
        for entry in clock_entries(npm, pypi, &self.file_url("loopback-clock.mcpb")) {
            self.publish(entry);
        }
    }

    /// Publishes `io.github.loopback/clock-cargo`.
    pub fn publish_crate(&self) {
        self.publish(crate::crates::entry());
    }

    /// Writes a home folder of cargo, in which the usual registry is replaced by a folder with the crate of
    /// `io.github.loopback/clock-cargo`. Returns it.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn cargo_home(&self, folder: &std::path::Path) -> std::path::PathBuf {
        crate::crates::write_home(folder).expect("the folder can be written")
    }

    /// Publishes a correction of the second version of the package of npm, by this account. Those before are by
    /// `clockmaker`.
    pub fn publish_patch(&self, account: &str) {
        self.state.lock().patch_by = Some(account.to_owned());
    }

    /// Serves the module `example.com/loopback/clock` of Go in these versions. Its program is the package
    /// `cmd/loopback-clock`.
    pub fn serve_module(&self, versions: &[&str]) {
        self.state.lock().files.extend(crate::modules::proxy_files(versions));
    }

    /// Returns the environment with which `go` uses the proxy, and folders below a folder. There is no checksum database.
    #[must_use]
    pub fn go_environment(&self, folder: &std::path::Path) -> Vec<(String, String)> {
        let below = |name: &str| folder.join(name).display().to_string();
        [
            ("GOPROXY", format!("{}/go", self.url())),
            ("GOSUMDB", "off".to_owned()),
            ("GOPATH", below("go")),
            ("GOCACHE", below("go-build")),
            // Otherwise the files cannot be removed.
            ("GOFLAGS", "-modcacherw".to_owned()),
            ("GOTOOLCHAIN", "local".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Serves other archives of npm than those that the documents describe.
    pub fn exchange_npm_archives(&self) {
        self.state.lock().has_other_archives = true;
    }

    /// Serves the archives of npm that the documents describe again.
    pub fn restore_npm_archives(&self) {
        self.state.lock().has_other_archives = false;
    }

    /// Publishes an entry now. It becomes the newest version of its server.
    pub fn publish(&self, entry: Value) {
        self.publish_at(entry, Timestamp::now());
    }

    /// Publishes an entry at a time.
    pub fn publish_at(&self, entry: Value, at: Timestamp) {
        self.state.lock().listing.publish(entry, at);
    }

    /// Changes the status of a version now.
    ///
    /// # Panics
    /// If there is no such version.
    pub fn set_status(&self, name: &str, version: &str, status: &str, message: Option<&str>) {
        let mut state = self.state.lock();
        let is_meant =
            |known: &&mut ListedVersion| known.server["name"] == name && known.server["version"] == version;
        let known = state.listing.versions.iter_mut().find(is_meant).expect("the version is listed");
        status.clone_into(&mut known.status);
        known.status_message = message.map(str::to_owned);
        known.updated_at = Timestamp::now();
    }

    /// Removes all versions of a server without a trace, as a sub-registry may.
    pub fn erase(&self, name: &str) {
        self.state.lock().listing.versions.retain(|known| known.server["name"] != name);
    }

    /// Sets the maximum number of entries of a page.
    pub fn set_page_size(&self, size: usize) {
        self.state.lock().listing.page_size = size;
    }

    /// Leaves `_meta` out, as a sub-registry may.
    pub fn leave_meta_out(&self) {
        self.state.lock().listing.has_meta = false;
    }

    /// Lets the registry fail, or work again.
    pub fn set_fault(&self, fault: Option<RegistryFault>) {
        self.state.lock().fault = fault;
    }

    /// Lets the registry and the indexes of packages fail, or work again.
    pub fn set_index_fault(&self, fault: Option<RegistryFault>) {
        let mut state = self.state.lock();
        state.has_index_fault = fault.is_some();
        state.fault = fault;
    }

    /// Serves a file below `/files`, and returns its URL.
    pub fn add_file(&self, name: &str, content: impl Into<Bytes>) -> String {
        self.state.lock().files.insert(name.to_owned(), content.into());
        self.file_url(name)
    }

    /// Returns the requests so far, as path and query.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().requests.clone()
    }

    /// Returns the number of answers with status 304.
    #[must_use]
    pub fn not_modified(&self) -> usize {
        self.state.lock().not_modified
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.state.lock().requests.clear();
    }
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn serve(listener: TcpListener, state: &Arc<Mutex<ServerState>>, stopped: oneshot::Receiver<()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("the listener can be used");
        let accept = async {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(state);
                tokio::spawn(async move {
                    let service = service_fn(|request| answer(Arc::clone(&state), request));
                    let io = TokioIo::new(stream);
                    let _closed =
                        hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
                });
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped => {}
        }
    });
    // Connections that are open end here.
    runtime.shutdown_background();
}

async fn answer(
    state: Arc<Mutex<ServerState>>,
    request: Request<Incoming>,
) -> Result<TestResponse, std::convert::Infallible> {
    let uri = request.uri();
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok().map(str::to_owned));
    let parse = url::Url::parse(&format!("http://x/?{}", uri.query().unwrap_or_default()));
    let query = parse.map(|url| url.query_pairs().into_owned().collect()).unwrap_or_default();
    let asked = TestRequest {
        path: uri.path().to_owned(),
        query,
        if_none_match: text(IF_NONE_MATCH),
        authorization: text(AUTHORIZATION),
        is_head: request.method() == Method::HEAD,
    };
    let (response, delay) = {
        let mut state = state.lock();
        state.requests.push(uri.to_string());
        let answer = respond_to(&state, &asked);
        state.not_modified += usize::from(answer.0.status().as_u16() == 304);
        answer
    };
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
    Ok(response)
}

fn respond_to(state: &ServerState, request: &TestRequest) -> (TestResponse, Option<Duration>) {
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let response = match segments.as_slice() {
        ["v0.1", ..] => match &state.fault {
            Some(RegistryFault::Slow(time)) => return (state.listing.answer(request), Some(*time)),
            Some(fault) => fail(fault, request),
            None => state.listing.answer(request),
        },
        ["npm" | "pypi", ..] if state.has_index_fault && state.fault.is_some() => match &state.fault {
            Some(RegistryFault::Slow(time)) => return (not_found("Path"), Some(*time)),
            Some(fault) => fail(fault, request),
            None => not_found("Path"),
        },
        ["npm", rest @ ..] => npm(&state.base, rest, state.has_other_archives, state.patch_by.as_deref()),
        ["pypi", rest @ ..] => pypi(&state.base, rest),
        ["v2", rest @ ..] => images(&state.base, rest, request),
        ["token"] => json_response(200, &json!({ "token": "anonymous-pull" })),
        ["files", name] => match state.files.get(*name) {
            Some(content) => respond(200, "application/octet-stream", content.clone()),
            None => not_found("File"),
        },
        ["redirect", name] => {
            with_header(respond(302, "text/plain", ""), "location", &format!("{}/files/{name}", state.base))
        }
        path => match state.files.get(&path.join("/")) {
            Some(content) => respond(200, "application/json", content.clone()),
            None => not_found("Path"),
        },
    };
    (response, None)
}

fn fail(fault: &RegistryFault, request: &TestRequest) -> TestResponse {
    let page =
        |cursor: String| json_response(200, &json!({ "servers": [], "metadata": { "nextCursor": cursor } }));
    match fault {
        RegistryFault::Html => respond(200, "text/html", "<!doctype html><title>Sign in</title>"),
        RegistryFault::Body(text) => respond(200, "application/json", text.clone()),
        RegistryFault::Status(status) => {
            json_response(*status, &json!({ "error": "the registry is busy\u{1b}[31m" }))
        }
        RegistryFault::Redirect(to) => with_header(respond(302, "text/plain", ""), "location", to),
        RegistryFault::SameCursor => page("same".to_owned()),
        RegistryFault::EndlessPages => {
            let number: usize = request.get("cursor").and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
            page((number + 1).to_string())
        }
        RegistryFault::Huge(bytes) => respond(200, "application/json", vec![b' '; *bytes]),
        RegistryFault::Slow(_) => not_found("Path"),
    }
}

fn npm(base: &str, path: &[&str], has_other_archives: bool, patch_by: Option<&str>) -> TestResponse {
    let registry = format!("{base}/npm");
    match path {
        ["loopback-clock"] => json_response(200, &npm_document(&registry, patch_by)),
        ["loopback-clock", "-", file] => {
            let is_file = |version: &&&str| *file == format!("loopback-clock-{version}.tgz");
            match CLOCK_VERSIONS.iter().chain(&[CLOCK_PATCH]).find(is_file) {
                Some(_) if has_other_archives => {
                    respond(200, "application/octet-stream", npm_archive("9.9.9"))
                }
                Some(version) => respond(200, "application/octet-stream", npm_archive(version)),
                None => not_found("File"),
            }
        }
        ["loopback-clock", version] => {
            let package = npm_document(&registry, patch_by);
            let version =
                package["dist-tags"].get(*version).and_then(|tagged| tagged.as_str()).unwrap_or(version);
            match package["versions"].get(version) {
                Some(document) => json_response(200, document),
                None => not_found("Version"),
            }
        }
        _ => not_found("Package"),
    }
}

fn pypi(base: &str, path: &[&str]) -> TestResponse {
    if path == ["pypi", "loopback-clock", "json"] {
        return pypi(base, &["pypi", "loopback-clock", CLOCK_VERSIONS[1], "json"]);
    }
    let file_url = |version: &str| format!("{base}/pypi/files/{}", wheel_name(version));
    match path {
        ["simple", "loopback-clock", ""] | ["simple", "loopback-clock"] => {
            let link = |version: &&str| {
                let hash = sha256_hex(&wheel(version));
                format!("<a href=\"{}#sha256={hash}\">{}</a><br>\n", file_url(version), wheel_name(version))
            };
            let links: String = CLOCK_VERSIONS.iter().map(link).collect();
            respond(200, "text/html", format!("<!doctype html><html><body>\n{links}</body></html>\n"))
        }
        ["pypi", "loopback-clock", version, "json"] if CLOCK_VERSIONS.contains(version) => {
            let archive = wheel(version);
            let file = json!({
                "filename": wheel_name(version), "packagetype": "bdist_wheel", "url": file_url(version),
                "size": archive.len(), "digests": { "sha256": sha256_hex(&archive) }, "yanked": false
            });
            json_response(
                200,
                &json!({ "info": { "name": "loopback-clock", "version": version }, "urls": [file] }),
            )
        }
        ["files", name] => match CLOCK_VERSIONS.iter().find(|version| *name == wheel_name(version)) {
            Some(version) => respond(200, "application/octet-stream", wheel(version)),
            None => not_found("File"),
        },
        _ => not_found("Package"),
    }
}

fn image_manifest() -> String {
    let kind = "application/vnd.oci.image.index.v1+json";
    json!({ "schemaVersion": 2, "mediaType": kind, "manifests": [] }).to_string()
}

fn images(base: &str, path: &[&str], request: &TestRequest) -> TestResponse {
    let ["loopback", "clock", "manifests", "1.0.0"] = path else { return not_found("Manifest") };
    if request.authorization.as_deref() != Some("Bearer anonymous-pull") {
        let challenge = format!(
            "Bearer realm=\"{base}/token\",service=\"loopback\",scope=\"repository:loopback/clock:pull\""
        );
        return with_header(respond(401, "application/json", "{}"), "www-authenticate", &challenge);
    }
    let body = if request.is_head { String::new() } else { image_manifest() };
    let response = respond(200, "application/vnd.oci.image.index.v1+json", body);
    with_header(response, "docker-content-digest", &RegistryServer::image_digest())
}
