//! An MCP server that requires tokens, an authorization server that gives them to everybody, and a browser without
//! prompts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};

use super::{House, Ran};

/// Site that accepts the token `s3cret-token`.
pub(crate) struct Site {
    url: String,
    script: Arc<Mutex<Script>>,
}

/// Scripted answers of the site, and the requests it has received.
#[derive(Default)]
pub(crate) struct Script {
    /// The token endpoint answers so: a status and a body.
    pub(crate) token: Option<(&'static str, String)>,
    /// Answer of the MCP endpoint, whatever token it receives.
    pub(crate) mcp: Option<&'static str>,
    /// Requests of these methods need no token.
    pub(crate) open_methods: &'static [&'static str],
    /// Clients are given a secret.
    pub(crate) gives_secrets: bool,
    /// Number of requests with a token that the MCP endpoint answers; it fails with 503 afterwards.
    pub(crate) admits: Option<usize>,
    /// Tokens that were revoked.
    pub(crate) revoked: Vec<String>,
    /// Tokens can be renewed.
    pub(crate) renews: bool,
    /// Number of renewals so far, each of which has given another token.
    pub(crate) renewals: usize,
    /// Lifetime of tokens, in seconds; 600 by default.
    pub(crate) lasts: Option<u64>,
    /// The query of every request, and its body.
    pub(crate) seen: Vec<String>,
    /// `EndpointAuthorization` headers of the requests.
    pub(crate) shown: Vec<String>,
    /// Callback that runs before a request is answered.
    pub(crate) during: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Site {
    pub(crate) fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script: Arc<Mutex<Script>> = Arc::default();
        let (said, shared) = (url.clone(), Arc::clone(&script));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (url, script) = (said.clone(), Arc::clone(&shared));
                // Whoever breaks off wanted no answer.
                thread::spawn(move || answer(&stream, &url, &script));
            }
        });
        Self { url, script }
    }

    /// Its MCP endpoint.
    pub(crate) fn mcp(&self) -> String {
        format!("{}/mcp", self.url)
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock()
    }
}

fn answer(mut stream: &TcpStream, url: &str, script: &Mutex<Script>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let (mut length, mut is_known) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.to_ascii_lowercase().starts_with("authorization:") {
            script.lock().shown.push(line["authorization:".len()..].trim().to_owned());
        }
        let line = line.trim().to_ascii_lowercase();
        match line.split_once(':') {
            None => break,
            Some(("content-length", value)) => length = value.trim().parse().ok()?,
            Some(("authorization", value)) => is_known = value.trim().starts_with("bearer s3cret-token"),
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let target = first.split(' ').nth(1)?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let during = script.lock().during.clone();
    if let Some(during) = during {
        during();
    }
    let mut script = script.lock();
    script.seen.push(query.to_owned());
    script.seen.push(String::from_utf8_lossy(&body).into_owned());
    let none = String::new;
    let is_admitted = path == "/mcp" && is_known && script.admits.is_some_and(|left| left > 0);
    let (status, header, text) = match path {
        "/mcp" if script.mcp.is_some() => (script.mcp?, none(), json!({}).to_string()),
        "/mcp" if is_known && script.admits == Some(0) => ("503 Service Unavailable", none(), none()),
        "/mcp" if is_known || is_open(&body, script.open_methods) => {
            ("200 OK", none(), mcp(&body).to_string())
        }
        "/mcp" => (
            "401 Unauthorized",
            "www-authenticate: Bearer scope=\"read\"\r\n".to_owned(),
            json!({}).to_string(),
        ),
        "/.well-known/oauth-protected-resource/mcp" => {
            let resource = json!({ "resource": format!("{url}/mcp"), "authorization_servers": [url] });
            ("200 OK", none(), resource.to_string())
        }
        "/.well-known/oauth-authorization-server" => {
            let at = |path: &str| format!("{url}{path}");
            let metadata = json!({
                "issuer": url, "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token"),
                "registration_endpoint": at("/register"), "device_authorization_endpoint": at("/device"),
                "code_challenge_methods_supported": ["S256"], "revocation_endpoint": at("/revoke"),
            });
            ("200 OK", none(), metadata.to_string())
        }
        "/register" if script.gives_secrets => {
            let client = json!({
                "client_id": "new", "client_secret": "s3cret-client",
                "token_endpoint_auth_method": "client_secret_basic",
            });
            ("201 Created", none(), client.to_string())
        }
        "/register" => ("201 Created", none(), json!({ "client_id": "new" }).to_string()),
        "/authorize" => {
            let asked: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
            let find =
                |name: &str| asked.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            let (there, state) = (find("redirect_uri")?, find("state")?);
            ("302 Found", format!("location: {there}?code=s3cret-code&state={state}\r\n"), none())
        }
        "/revoke" => {
            let token = url::form_urlencoded::parse(&body).find(|(name, _)| name == "token");
            script.revoked.extend(token.map(|(_, token)| token.into_owned()));
            ("200 OK", none(), none())
        }
        "/device" => {
            let codes = json!({
                "device_code": "s3cret-device", "user_code": "ABCD-EFGH", "interval": 1, "expires_in": 60,
                "verification_uri": format!("{url}/enter"),
            });
            ("200 OK", none(), codes.to_string())
        }
        "/token" => match &script.token {
            Some((status, text)) => (*status, none(), text.clone()),
            None => {
                let is_renewal = body.windows(24).any(|part| part == b"grant_type=refresh_token");
                script.renewals += usize::from(is_renewal);
                let mark = if is_renewal { format!("-{}", script.renewals) } else { String::new() };
                let mut token = json!({
                    "access_token": format!("s3cret-token{mark}"), "token_type": "Bearer",
                    "expires_in": script.lasts.unwrap_or(600),
                });
                if script.renews {
                    token["refresh_token"] = json!("s3cret-refresh");
                }
                ("200 OK", none(), token.to_string())
            }
        },
        _ => ("404 Not Found", none(), json!({}).to_string()),
    };
    if is_admitted {
        script.admits = script.admits.map(|left| left - 1);
    }
    drop(script);
    let kind = "content-type: application/json\r\nconnection: close\r\n";
    write!(stream, "HTTP/1.1 {status}\r\n{kind}{header}content-length: {}\r\n\r\n{text}", text.len()).ok()
}

/// Returns true if a request needs no token.
fn is_open(body: &[u8], open_methods: &[&str]) -> bool {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    open_methods.iter().any(|method| message["method"] == *method)
}

fn mcp(body: &[u8]) -> Value {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    json!({ "jsonrpc": "2.0", "id": message["id"], "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
        "serverInfo": { "name": "site", "version": "1" }, "content": [{ "type": "text", "text": "let in" }],
        "tools": [{ "name": "greet", "inputSchema": { "type": "object" } }], "ttlMs": 0, "cacheScope": "private",
    } })
}

/// Does what a browser does: asks for the page, and goes where it points.
pub(crate) fn browse(url: &str) -> String {
    let url = url::Url::parse(url).unwrap();
    let mut stream = TcpStream::connect(url.socket_addrs(|| None).unwrap()[0]).unwrap();
    let host = url.socket_addrs(|| None).unwrap()[0];
    let query = url.query().unwrap_or_default();
    write!(stream, "GET {}?{query} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n", url.path())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    match answer.lines().find_map(|line| line.strip_prefix("location: ")) {
        Some(there) => browse(there),
        None => answer,
    }
}

/// Runs a command that signs in with a browser. The test opens the page itself.
pub(crate) fn signed_in(house: &House, args: &[&str], environment: &[(&str, &str)]) -> Ran {
    let mut command: Command = house.command(args);
    command.env("BROWSER", "false").env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command.envs(environment.iter().copied());
    let spawned = command.stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.unwrap();
    let mut stderr = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if line.trim().starts_with("http://") {
            browse(line.trim());
        }
        stderr += &line;
        stderr.push('\n');
    }
    let output = child.wait_with_output().unwrap();
    Ran { code: output.status.code(), stdout: String::from_utf8(output.stdout).unwrap(), stderr }
}
