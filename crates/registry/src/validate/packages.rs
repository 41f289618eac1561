//! Rules about packages, remotes, arguments and inputs.

use serde_json::{Map, Value};
use url::Url;

use super::text::{check_version, is_uri};
use super::{ViolationReport, join};
use crate::launch::{Piece, is_sha256, pieces};

type Object = Map<String, Value>;

pub(super) fn check_package(path: &str, package: &Object, report: &mut ViolationReport) {
    let kind = report.text(package, path, "registryType", true);
    if let Some(identifier) = report.text(package, path, "identifier", true)
        && identifier.contains(' ')
    {
        report.add(&join(path, "identifier"), "identifier-spaces", "an identifier has no spaces");
    }
    if let Some(version) = report.text(package, path, "version", false) {
        let path = join(path, "version");
        if version.is_empty() {
            report.add(&path, "length", "it is empty; leave the field out instead");
        }
        check_version(&path, version, report);
    }
    if let Some(base) = report.text(package, path, "registryBaseUrl", false)
        && !is_uri(base)
    {
        report.add(&join(path, "registryBaseUrl"), "uri", "expected an absolute URL");
    }
    let hash = report.text(package, path, "fileSha256", false);
    if hash.is_some_and(|hash| !is_sha256(hash)) {
        let what = "expected 64 lower-case hexadecimal digits";
        report.add(&join(path, "fileSha256"), "file-sha256", what);
    }
    if kind == Some("mcpb") && !package.contains_key("fileSha256") {
        report.add(&join(path, "fileSha256"), "bundle-hash", "a bundle needs the SHA-256 of its file");
    }
    report.text(package, path, "runtimeHint", false);
    let mut variables: Vec<&str> = Vec::new();
    for (path, variable) in report.objects(package, path, "environmentVariables") {
        check_key_value(&path, variable, report);
        variables.extend(variable.get("name").and_then(Value::as_str));
    }
    for list in ["runtimeArguments", "packageArguments"] {
        for (path, argument) in report.objects(package, path, list) {
            check_argument(&path, argument, report);
            variables.extend(["name", "valueHint"].iter().filter_map(|key| argument.get(*key)?.as_str()));
        }
    }
    for (path, step) in report.objects(package, path, "postInstallInstructions") {
        report.text(step, &path, "description", true);
        report.text(step, &path, "command", false);
        if report.text(step, &path, "documentation", false).is_some_and(|url| !is_uri(url)) {
            report.add(&join(&path, "documentation"), "uri", "expected an absolute URL");
        }
    }
    let path = join(path, "transport");
    match package.get("transport") {
        None => report.add(&path, "required", "this field is required"),
        Some(Value::Object(transport)) => check_transport(&path, transport, &variables, report),
        Some(_) => report.add(&path, "type", "expected an object"),
    }
}

fn check_transport(path: &str, transport: &Object, variables: &[&str], report: &mut ViolationReport) {
    match report.text(transport, path, "type", true) {
        Some("stdio") => check_stdio(path, transport, report),
        Some("streamable-http" | "sse") => {
            if let Some(url) = report.text(transport, path, "url", true) {
                check_url_template(&join(path, "url"), url, variables, report);
            }
            check_headers(path, transport, report);
        }
        Some(_) => {
            report.add(&join(path, "type"), "transport-type", "expected `stdio`, `streamable-http` or `sse`");
        }
        None => {}
    }
}

pub(super) fn check_remote(path: &str, remote: &Object, report: &mut ViolationReport) {
    match report.text(remote, path, "type", true) {
        Some("streamable-http" | "sse") | None => {}
        Some(_) => {
            report.add(&join(path, "type"), "remote-type", "expected `streamable-http` or `sse`");
        }
    }
    let mut variables: Vec<&str> = Vec::new();
    for (name, path, variable) in variables_of(path, remote, report) {
        variables.push(name);
        check_input(&path, variable, report);
    }
    check_headers(path, remote, report);
    let Some(url) = report.text(remote, path, "url", true) else { return };
    let path = join(path, "url");
    if check_url_template(&path, url, &variables, report) {
        let Ok(parsed) = Url::parse(&with_placeholders(url)) else { return };
        if parsed.scheme() != "https" {
            report.add(&path, "remote-https", "the URL of a remote must begin with https://");
        }
        if hospes_http_client::is_loopback(&parsed) {
            report.add(&path, "remote-localhost", "a remote is not on this machine");
        }
    }
}

/// Checks a URL template. Returns true if the URL is usable.
fn check_url_template(path: &str, url: &str, variables: &[&str], report: &mut ViolationReport) -> bool {
    let has_scheme = url.starts_with("https://") || url.starts_with("http://");
    if !has_scheme || url.chars().any(char::is_whitespace) {
        report.add(path, "url-form", "expected a URL that begins with https:// or http://, without spaces");
        return false;
    }
    for piece in pieces(url) {
        let Piece::Variable(name) = piece else { continue };
        if !variables.contains(&name) {
            let name = crate::entry::read_escape(name);
            report.add(path, "url-variable", format!("the variable `{{{name}}}` is not declared"));
        }
    }
    let is_url = Url::parse(&with_placeholders(url))
        .is_ok_and(|url| url.host_str().is_some_and(|host| !host.is_empty()));
    if !is_url {
        report.add(path, "url-form", "this is not a URL, even with all variables filled in");
    }
    is_url
}

/// Fills each variable: with digits where a port stands, else with a word.
fn with_placeholders(url: &str) -> String {
    let mut filled = String::new();
    for piece in pieces(url) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Variable(_) if filled.ends_with(':') => filled.push_str("8080"),
            Piece::Variable(_) => filled.push_str("placeholder"),
        }
    }
    filled
}

fn check_headers(path: &str, owner: &Object, report: &mut ViolationReport) {
    for (path, header) in report.objects(owner, path, "headers") {
        check_key_value(&path, header, report);
    }
}

fn check_key_value(path: &str, input: &Object, report: &mut ViolationReport) {
    report.text(input, path, "name", true);
    check_input_with_variables(path, input, report);
}

fn check_argument(path: &str, argument: &Object, report: &mut ViolationReport) {
    report.boolean(argument, path, "isRepeated");
    report.text(argument, path, "valueHint", false);
    check_input_with_variables(path, argument, report);
    match report.text(argument, path, "type", true) {
        Some("positional") => check_positional(path, argument, report),
        Some("named") => check_named(path, argument, report),
        Some(_) => report.add(&join(path, "type"), "argument-type", "expected `positional` or `named`"),
        None => {}
    }
}

fn check_stdio(path: &str, transport: &Object, report: &mut ViolationReport) {
    if report.text(transport, path, "url", false).is_some_and(|url| !url.is_empty()) {
        report.add(&join(path, "url"), "stdio-url", "a server on stdio has no URL");
    }
}

fn check_positional(path: &str, argument: &Object, report: &mut ViolationReport) {
    if !argument.contains_key("value") && !argument.contains_key("valueHint") {
        report.add(path, "positional-value", "a positional argument needs `value` or `valueHint`");
    }
}

fn check_named(path: &str, argument: &Object, report: &mut ViolationReport) {
    let Some(name) = report.text(argument, path, "name", true) else { return };
    if name.is_empty() {
        report.add(&join(path, "name"), "argument-name", "the name of an argument is empty");
        return;
    }
    if name.contains(['<', '>', ' ', '$']) {
        let what = "the name of an argument has no `<`, `>`, `$` and spaces; its value belongs in `value`";
        report.add(&join(path, "name"), "argument-name", what);
    }
    for key in ["value", "default"] {
        let text = argument.get(key).and_then(Value::as_str).unwrap_or_default();
        if text.starts_with(name) {
            let what = "it begins with the name of the argument, which is added anyway";
            report.add(&join(path, key), "argument-value-name", what);
        }
    }
}

fn variables_of<'a>(
    path: &str,
    owner: &'a Object,
    report: &mut ViolationReport,
) -> Vec<(&'a str, String, &'a Object)> {
    let path = join(path, "variables");
    let mut found = Vec::new();
    match owner.get("variables") {
        None => {}
        Some(Value::Object(variables)) => {
            for (name, variable) in variables {
                let path = join(&path, name);
                match variable {
                    Value::Object(variable) => found.push((name.as_str(), path, variable)),
                    _ => report.add(&path, "type", "expected an object"),
                }
            }
        }
        Some(_) => report.add(&path, "type", "expected an object"),
    }
    found
}

fn check_input_with_variables(path: &str, input: &Object, report: &mut ViolationReport) {
    check_input(path, input, report);
    for (_, path, variable) in variables_of(path, input, report) {
        check_input(&path, variable, report);
    }
}

fn check_input(path: &str, input: &Object, report: &mut ViolationReport) {
    for name in ["description", "value", "default", "placeholder"] {
        report.text(input, path, name, false);
    }
    report.boolean(input, path, "isRequired");
    report.boolean(input, path, "isSecret");
    if let Some(format) = report.text(input, path, "format", false)
        && !matches!(format, "string" | "number" | "boolean" | "filepath")
    {
        report.add(&join(path, "format"), "enum", "expected `string`, `number`, `boolean` or `filepath`");
    }
    match input.get("choices") {
        None => {}
        Some(Value::Array(choices)) if choices.iter().all(Value::is_string) => {}
        Some(_) => report.add(&join(path, "choices"), "type", "expected a list of texts"),
    }
}
