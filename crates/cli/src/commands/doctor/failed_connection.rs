//! Steps at which connecting to a server fails, and what mends each.

use hospes::client::{ConnectError, ConnectStage};
use hospes_host::config::is_secret_reference;
use hospes_host::upstream::NOISE_WARNING;
use hospes_http_client::{ProxyRoute, ProxySetting};
use http::Uri;
use url::Url;

use super::check::{
    C01, DoctorCode, DoctorFinding, N01, N02, N03, N04, N05, N06, O01, S01, S02, S03, S04, T01,
};
use crate::shown_commands::shown_command;

/// Steps of a process, after those of its program.
pub(super) const PROCESS_STEPS: [&DoctorCode; 5] = [&S01, &S02, &S03, &S04, &T01];
/// Steps of a URL.
pub(super) const URL_STEPS: [&DoctorCode; 10] = [&N01, &N02, &N04, &N03, &N05, &N06, &O01, &S03, &S04, &T01];

/// Fault of a program that prints other text than messages, and what mends it.
pub(super) const NOISE: &str = NOISE_WARNING;
pub(super) const NOISE_MEND: &str = "make the server log to stderr, and report it to its author";

/// Server whose connection failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedServer<'a> {
    pub(super) name: &'a str,
    /// URL of the server. `None` for a process.
    pub(super) url: Option<&'a str>,
    /// Command line, without secrets. `None` for a URL.
    pub(super) command: Option<&'a str>,
}

impl FailedServer<'_> {
    fn parsed(&self) -> Option<Url> {
        Url::parse(self.url?).ok()
    }

    /// Returns the host of the URL.
    fn host(&self) -> String {
        let url = self.parsed();
        url.as_ref().and_then(Url::host_str).unwrap_or("the server").to_owned()
    }

    /// Returns the host and the port of the URL.
    fn address(&self) -> String {
        let port = self.parsed().and_then(|url| url.port_or_known_default());
        port.map_or_else(|| self.host(), |port| format!("{}:{port}", self.host()))
    }

    /// Returns the proxy of the environment on the way to the URL.
    fn proxy(&self) -> Option<ProxyRoute> {
        let origin: Uri = self.parsed()?.origin().ascii_serialization().parse().ok()?;
        ProxyRoute::to(&origin, &ProxySetting::Environment).ok().flatten()
    }
}

/// Returns the step at which connecting failed, and what mends it.
pub(super) fn explain(
    error: &ConnectError,
    server: FailedServer<'_>,
) -> (&'static DoctorCode, DoctorFinding) {
    let mut finding = DoctorFinding::new(error.what.clone());
    // Here the time limit is set by a flag.
    finding.mend = error.hint.as_ref().map(|hint| hint.replace("connect_timeout", "--connect-timeout"));
    finding.why = error.source.as_ref().map(|source| crate::exit::error_chain(&**source));
    finding.why = finding.why.filter(|why| *why != finding.what);
    finding.evidence = error.stderr.clone().or_else(|| error.noise.clone());
    let code = step(error, server.url.is_some());
    match code.code {
        "S01" => {
            let output = error.stderr.as_deref().unwrap_or_default();
            let (why, mend) = explain_exit(&error.what, output, server);
            (finding.why, finding.mend) = (why.or(finding.why), Some(mend));
        }
        "S02" => {
            finding.why = Some(finding.what);
            finding.what = NOISE.to_owned();
            finding.evidence = error.noise.clone().or(finding.evidence);
            finding.mend = Some(NOISE_MEND.to_owned());
        }
        "S03" => finding.mend = Some(silence_remedy(error, server)),
        "N01" => {
            let mend = "correct the name in `url`; or connect the network, or the VPN that it needs";
            finding.mend = Some(format!("{mend}. Then: {}", shown_command("doctor", server.name)));
        }
        "N02" => explain_unreachable(&mut finding, server),
        "N03" if wants_proxy_password(error) => explain_proxy_password(&mut finding, server),
        "N03" => {
            let host = server.host();
            if is_page(error) {
                finding.what = "a web page answered instead of the server".to_owned();
                finding.why = Some(
                    "a proxy or the sign-in page of a network is in the way, or the URL is that of a page"
                        .to_owned(),
                );
            }
            finding.mend = Some(if is_proxy_fault(error) {
                let variable = proxy_variable(server);
                format!(
                    "export {variable}=http://HOST:PORT, with those of the proxy; or go without it: export NO_PROXY={host}"
                )
            } else if server.proxy().is_some() {
                format!("sign in to the network or the proxy; or go without it: export NO_PROXY={host}")
            } else {
                "correct `url` of the entry, whose path is often /mcp; or sign in to the network in a browser"
                    .to_owned()
            });
        }
        "N04" => explain_tls(&mut finding, server),
        "N05" => finding.mend = Some(path_remedy(error, finding.mend, server)),
        "N06" => {
            finding.mend = Some("start the server with this name among its allowed hosts".to_owned());
        }
        "S04" => {
            finding.mend = finding.mend.or_else(|| Some("hospes upgrade, or update the server".to_owned()));
        }
        _ => {}
    }
    (code, finding)
}

pub(super) fn is_page(error: &ConnectError) -> bool {
    error.body.as_deref().is_some_and(|body| body.trim_start().starts_with('<'))
}

/// Returns true if a proxy of the environment cannot be used or reached.
fn is_proxy_fault(error: &ConnectError) -> bool {
    error.what.contains("_PROXY") || error.what.contains("_proxy") || error.what.contains("through the proxy")
}

fn is_silence(error: &ConnectError) -> bool {
    error.what.starts_with("no response")
}

fn step(error: &ConnectError, is_url: bool) -> &'static DoctorCode {
    let is_page = is_page(error);
    match (error.stage, error.status) {
        _ if is_url && (is_proxy_fault(error) || wants_proxy_password(error)) => &N03,
        (ConnectStage::Target, _) => &C01,
        (ConnectStage::Spawn, _) => &S01,
        (ConnectStage::Dns, _) => &N01,
        (ConnectStage::Tcp, _) => &N02,
        (ConnectStage::Tls, _) => &N04,
        (_, Some(401 | 403)) if is_url && is_page => &N03,
        (_, Some(401 | 403)) => &O01,
        (_, Some(421)) => &N06,
        // It is there, and has no time.
        (_, Some(429 | 500..=599)) => &S03,
        (ConnectStage::Http, Some(200..=299)) if is_page => &N03,
        (ConnectStage::Negotiate, _) => &S04,
        _ if error.noise.is_some() => &S02,
        _ if is_silence(error) => &S03,
        _ if is_url => &N05,
        _ if error.what.contains("exited")
            || error.what.contains("ended")
            || error.what.contains("terminated")
            || error.what.contains("closed") =>
        {
            &S01
        }
        _ => &S03,
    }
}

/// Remedy for a server that is there, and gives no usable answer.
fn silence_remedy(error: &ConnectError, server: FailedServer<'_>) -> String {
    let again = shown_command("doctor", server.name);
    match (error.status, server.command) {
        (Some(429), _) => format!("wait a while, then: {again}"),
        (Some(_), _) => format!("ask the operator of the server, or try later: {again}"),
        (None, Some(command)) if is_silence(error) => format!(
            "if its first start takes long, {again} --connect-timeout 120; otherwise see what it does: {command}"
        ),
        (None, Some(command)) => format!("is it an MCP server that uses stdio? See what it does: {command}"),
        (None, None) => {
            format!("is an MCP server behind this URL? If it is only slow: {again} --connect-timeout 120")
        }
    }
}

fn path_remedy(error: &ConnectError, hint: Option<String>, server: FailedServer<'_>) -> String {
    match error.status {
        Some(300..=399) => "if the redirect is right, write its target as `url` of the entry; otherwise ask the operator",
        None if error.what.contains("connection was lost") => {
            "if the server speaks TLS, write https:// into `url` of the entry; otherwise correct the port, or start an MCP server there"
        }
        _ => {
            let again = || format!("correct `url` of the entry; the path is often /mcp. Then: {}", shown_command("doctor", server.name));
            return hint.unwrap_or_else(again);
        }
    }
    .to_owned()
}

/// Returns true if a proxy refuses the request for want of a user name and password.
fn wants_proxy_password(error: &ConnectError) -> bool {
    error.status == Some(407) || error.what.contains("proxy authorization required")
}

/// Returns the variable of the environment that names the proxy, or would.
fn proxy_variable(server: FailedServer<'_>) -> &'static str {
    let is_secure = server.url.is_some_and(|url| url.starts_with("https:"));
    let names = match is_secure {
        true => ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"],
        false => ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"],
    };
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    names.into_iter().find(is_set).unwrap_or(names[1])
}

/// Explains an answer 407. It comes from the proxy of the environment, or from one that nobody has named.
fn explain_proxy_password(finding: &mut DoctorFinding, server: FailedServer<'_>) {
    let (host, variable) = (server.host(), proxy_variable(server));
    let said = std::mem::take(&mut finding.what);
    match server.proxy() {
        Some(proxy) => {
            let shown = proxy.shown();
            let (wants, export) = match proxy.auth {
                Some(_) => ("it refuses the user name and password in the variable", "the right ones"),
                None => ("it wants a user name and password", "yours"),
            };
            finding.what = format!("the proxy {shown} answers 407: {wants}");
            finding.mend = Some(format!(
                "export {variable}=http://USER:PASSWORD@{shown}, with {export}; or go without the proxy: export NO_PROXY={host}"
            ));
        }
        None => {
            finding.what = format!(
                "{} answers 407: a proxy on the way wants a user name and password",
                server.address()
            );
            finding.mend = Some(format!(
                "export {variable}=http://USER:PASSWORD@HOST:PORT, with those of the proxy; or ask the operator of {host}"
            ));
        }
    }
    finding.why = Some(said);
}

/// Explains that no connection could be opened.
fn explain_unreachable(finding: &mut DoctorFinding, server: FailedServer<'_>) {
    let (address, again) = (server.address(), shown_command("doctor", server.name));
    let said = finding.what.to_ascii_lowercase();
    let (what, mend) = if said.contains("refused") {
        (
            format!("nothing accepts connections at {address}"),
            format!("start the server, or correct the port in `url` of the entry. Then: {again}"),
        )
    } else {
        (
            format!("{address} cannot be reached"),
            format!(
                "connect the network, or the VPN that it needs; or correct `url` of the entry. Then: {again}"
            ),
        )
    };
    finding.why = Some(std::mem::replace(&mut finding.what, what));
    finding.mend = Some(mend);
}

/// Explains the errors of TLS, which name neither a reason nor a remedy.
fn explain_tls(finding: &mut DoctorFinding, server: FailedServer<'_>) {
    let said = format!("{} {}", finding.what, finding.why.as_deref().unwrap_or_default());
    let host = server.url.and_then(|url| url::Url::parse(url).ok());
    let host = host.as_ref().and_then(|url| url.host_str()).unwrap_or("the server");
    let (what, mend) = if said.contains("CaUsedAsEndEntity") {
        (
            format!("the certificate of {host} is signed by itself, and is that of an authority"),
            "make a certificate for the server with its own authority (such as mkcert does), and name the authority: SSL_CERT_FILE=FILE hospes up",
        )
    } else if said.contains("UnknownIssuer") {
        (
            format!(
                "the certificate of {host} is signed by itself, or by an authority that is not trusted here"
            ),
            "for the authority of a company: SSL_CERT_FILE=FILE hospes up",
        )
    } else if said.contains("Expired") || said.contains("expired") {
        (
            format!("the certificate of {host} has expired, or the clock of this machine is ahead"),
            "compare the clock with `date`; if it is right, ask the operator of the server for a new certificate",
        )
    } else if said.contains("NotValidYet") || said.contains("not valid yet") {
        (
            format!("the certificate of {host} is not valid yet, or the clock of this machine is behind"),
            "compare the clock with `date`; if it is wrong: sudo timedatectl set-ntp true",
        )
    } else if said.contains("NotValidForName") || said.contains("not valid for name") {
        (
            format!("the certificate is for other names than {host}"),
            "write a name of the certificate into `url` of the entry",
        )
    } else if said.contains("InvalidContentType") || said.contains("corrupt message") {
        (
            format!("{host} does not speak TLS at this port"),
            "write http:// instead of https:// into `url` of the entry, or correct the port",
        )
    } else {
        finding.mend = Some(
            "check that the URL is https and the host is right; for the authority of a company: SSL_CERT_FILE=FILE"
                .to_owned(),
        );
        return;
    };
    finding.why = Some(std::mem::replace(&mut finding.what, what));
    finding.mend = Some(mend.to_owned());
}

/// Explains why a process has ended: by its last words, otherwise by its exit status.
fn explain_exit(what: &str, output: &str, server: FailedServer<'_>) -> (Option<String>, String) {
    if let Some(variable) = missing_variable(output) {
        // The name of a secret has neither blanks nor brackets.
        let qualified = format!("{}.{variable}", server.name);
        let secret = if is_secret_reference(&qualified) { qualified } else { variable.to_owned() };
        return (
            Some(format!("it needs the environment variable {variable}")),
            format!(
                "hospes secret set {secret}, and in the entry: env = {{ {variable} = \"${{secret:{secret}}}\" }}"
            ),
        );
    }
    let has = |part: &str| output.contains(part);
    if has("Cannot find module") || has("No module named") || has("ERR_MODULE_NOT_FOUND") {
        let again = "install the server again, with the packages that it needs";
        return (Some("a package that it needs is not installed".to_owned()), again.to_owned());
    }
    if has("EADDRINUSE") || has("ddress already in use") {
        return (
            Some("another program uses the port that it wants".to_owned()),
            "end the other copy of the server, or choose another port in `args` of the entry".to_owned(),
        );
    }
    let run = server.command.map_or_else(
        || shown_command("logs", server.name),
        |command| format!("see what it says when you run it: {command}"),
    );
    let number =
        |after: &str| what.rsplit_once(after).and_then(|(_, number)| number.trim().parse::<u32>().ok());
    // A launcher passes a signal on as such a status.
    let status = number("status ").or_else(|| Some(128 + number("signal ")?));
    let why = match status {
        Some(0) => {
            "it ended without a word; a server that uses stdio runs until its input ends. Does it need an argument such as `--stdio`?"
        }
        Some(126) => "the system refused to start it",
        Some(127) => "a program that it starts does not exist",
        Some(132) => "it uses instructions that this processor does not have (signal 4)",
        Some(134) => "it aborted (signal 6)",
        Some(137) => "it was killed (signal 9), perhaps because memory ran out",
        Some(139) => "it crashed (signal 11)",
        _ => return (None, run),
    };
    (Some(why.to_owned()), run)
}

/// Returns the environment variable that a program misses, if its output names one.
fn missing_variable(output: &str) -> Option<&str> {
    const WORDS: [&str; 11] = [
        "required",
        "not set",
        "missing",
        "unset",
        "keyerror",
        "must be set",
        "must set",
        "undefined",
        "not provided",
        "not found in environment",
        "please set",
    ];
    let lines = output.lines().filter(|line| {
        let line = line.to_ascii_lowercase();
        WORDS.iter().any(|word| line.contains(word))
    });
    let words = lines.flat_map(|line| {
        line.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).filter(|word| {
            word.len() <= 80
                && word.contains('_')
                && word.starts_with(|letter: char| letter.is_ascii_uppercase())
                && word.chars().all(|letter| !letter.is_ascii_lowercase())
                // Codes of errors look the same.
                && !word.starts_with("ERR_")
        })
    });
    words.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_variable_is_read_from_what_a_program_says() {
        for (said, expected) in [
            ("KeyError: 'BRAVE_API_KEY'", Some("BRAVE_API_KEY")),
            ("Error: GITHUB_TOKEN environment variable is required", Some("GITHUB_TOKEN")),
            ("Usage\nPlease set SLACK_BOT_TOKEN and SLACK_TEAM_ID", Some("SLACK_BOT_TOKEN")),
            ("ERR_MISSING_ARGS: an argument is missing", None),
            ("API_KEY accepted\nthe file is missing", None),
            ("", None),
        ] {
            assert_eq!(missing_variable(said), expected, "{said}");
        }
    }

    #[test]
    fn the_end_of_a_process_is_explained_by_its_output_or_its_status() {
        let server = FailedServer { name: "one", url: None, command: Some("one --stdio") };
        for (what, output, why, mend) in [
            (
                "the server exited with status 1",
                "TOKEN_X must be set",
                "TOKEN_X",
                "hospes secret set one.TOKEN_X",
            ),
            (
                "the server exited with status 1",
                "Cannot find module 'zod'",
                "a package",
                "install the server again",
            ),
            ("the server exited with status 1", "listen EADDRINUSE: :::3000", "the port", "another port"),
            ("the server exited with status 0", "", "--stdio", "one --stdio"),
            ("the server exited with status 137", "", "memory", "one --stdio"),
        ] {
            let (found, remedy) = explain_exit(what, output, server);
            assert!(found.as_deref().is_some_and(|found| found.contains(why)), "{found:?}");
            assert!(remedy.contains(mend), "{remedy}");
        }
        assert_eq!(explain_exit("the server exited with status 3", "", server).0, None);
    }
}
