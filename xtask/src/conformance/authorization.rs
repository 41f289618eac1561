//! Examination of an authorization server by the suite: that of `hospes up`, with a simulated user who signs in.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::suite::{ConformanceSuite, fresh};
use super::verdict::{self, ScenarioVerdict};
use super::{SCRIPT, START_LIMIT};
use crate::paths;
use crate::process::{self, BackgroundServer};

const LABEL: &str = "conformance authorization";
/// Time limit of both scenarios, which take a second if all is well. The suite would wait five minutes for a sign-in.
const LIMIT: Duration = Duration::from_secs(60);
/// Number of scenarios.
const SCENARIOS: usize = 2;

const CLIENT: &str = "conformance";
const PASSWORD: &str = "of-the-examination";

/// Starts the host and examines it.
pub(super) fn examine(suite: &ConformanceSuite<'_>) -> Result<BTreeMap<String, ScenarioVerdict>> {
    let out = fresh("authorization")?;
    let config = out.join("hospes.toml");
    let text = format!(
        "[auth]\nstore = \"auth.db\"\nusers = {{ ann = \"{PASSWORD}\" }}\n\
         [auth.clients.{CLIENT}]\nredirect_uris = [\"http://127.0.0.1/callback\"]\n[servers.time]\nbuiltin = \"time\"\n"
    );
    fs::write(&config, text).with_context(|| format!("writing {}", config.display()))?;
    let mut command = Command::new(paths::program("hospes")?);
    command.args(["up", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
    let host = BackgroundServer::start(command, "hospes up that asks for tokens", START_LIMIT)?;
    let issuer = host.url.trim_end_matches("/mcp").to_owned();
    // The suite wants to be told a port; nobody else takes one that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
    let mut command = suite.node.script(SCRIPT);
    command.args(["authorization", "--url", &issuer, "--client-id", CLIENT, "--port", &port]);
    command.args(["--resource", &host.url, "-o", "."]).current_dir(&out);
    let done = Arc::new(AtomicBool::new(false));
    let person = thread::spawn({
        let (issuer, done) = (issuer.clone(), Arc::clone(&done));
        move || person(&issuer, &done)
    });
    let ran = process::run(command, LABEL, LIMIT);
    done.store(true, Ordering::Relaxed);
    let signed_in = person.join().map_err(|_| anyhow::anyhow!("whoever signs in panicked"))?;
    let ran = ran?;
    let mut verdicts = verdict::read(&out)?;
    if let Err(trouble) = signed_in {
        let what = format!("nobody signed in: {trouble:#}; the host said:\n{}", host.said());
        verdicts.insert("(signing in)".to_owned(), ScenarioVerdict::trouble(what));
    }
    if verdicts.len() != SCENARIOS || ran.code != Some(0) && verdicts.values().all(ScenarioVerdict::is_good) {
        let what = format!("{} verdicts, {}\n{}", verdicts.len(), ran.ending(), ran.tail());
        verdicts.insert("(the suite)".to_owned(), ScenarioVerdict::trouble(what));
    }
    if let Err(trouble) = host.stop() {
        verdicts.insert("(at the end)".to_owned(), ScenarioVerdict::trouble(format!("{trouble:#}")));
    }
    Ok(verdicts)
}

/// Opens the address that the suite prints, signs in, agrees, and goes where the browser is sent.
fn person(issuer: &str, done: &AtomicBool) -> Result<()> {
    let log = process::log(LABEL, "out")?;
    let begins = format!("{issuer}/authorize?");
    let url = loop {
        let said = fs::read_to_string(&log).unwrap_or_default();
        // The last line may not be whole.
        let (whole, _) = said.rsplit_once('\n').unwrap_or_default();
        if let Some(url) = whole.lines().find(|line| line.starts_with(&begins)) {
            break url.to_owned();
        }
        ensure!(!done.load(Ordering::Relaxed), "the suite asked for nothing");
        thread::sleep(Duration::from_millis(20));
    };
    let page = send("GET", &url, "", "")?;
    let cookie = page.cookie()?;
    let fields = format!("{}&user=ann&password={PASSWORD}", page.hidden()?);
    let consent = send("POST", &format!("{issuer}/sign-in"), &cookie, &fields)?;
    let fields = format!("{}&decision=allow", consent.hidden()?);
    let back = send("POST", &format!("{issuer}/consent"), &consent.cookie()?, &fields)?;
    send("GET", back.header("location").context("nobody was sent anywhere")?, "", "")?;
    Ok(())
}

/// A response as it came.
struct LoginResponse(String);

impl LoginResponse {
    fn header(&self, name: &str) -> Option<&str> {
        let (head, _) = self.0.split_once("\r\n\r\n")?;
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    fn cookie(&self) -> Result<String> {
        let cookie = self.header("set-cookie").and_then(|cookie| cookie.split(';').next());
        Ok(cookie.context("no cookie")?.to_owned())
    }

    /// Returns the hidden fields of the page's form.
    fn hidden(&self) -> Result<String> {
        let field = |name: &str| {
            let mark = format!("name=\"{name}\" value=\"");
            self.0.split_once(&mark)?.1.split('"').next()
        };
        match (field("request"), field("csrf")) {
            (Some(request), Some(csrf)) => Ok(format!("request={request}&csrf={csrf}")),
            _ => bail!("no form: {}", self.0),
        }
    }
}

/// One request to this machine.
fn send(method: &str, url: &str, cookie: &str, form: &str) -> Result<LoginResponse> {
    let rest = url.strip_prefix("http://").context("not of this machine")?;
    let (address, path) = rest.split_once('/').context("no path")?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(
        stream,
        "{method} /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncookie: {cookie}\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{form}",
        form.len()
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(LoginResponse(String::from_utf8_lossy(&answer).into_owned()))
}
