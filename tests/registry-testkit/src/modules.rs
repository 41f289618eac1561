//! A small MCP server as a module of Go, in the form in which a module proxy serves it.

use bytes::Bytes;

use crate::archives::zip;

/// Path of the module.
const MODULE: &str = "example.com/loopback/clock";

/// The server. It has no dependencies. Its second version has one more tool.
const SERVER: &str = r##"package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

const version = "@VERSION@"

func main() {
	tools := `{"name":"now","description":"Returns the current time.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	if version != "v1.0.0" {
		tools += `,{"name":"set_alarm","description":"Sets an alarm.","inputSchema":{"type":"object"}}`
	}
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"loopback-clock","version":"` + version + `"}}`,
		"ping":       `{}`,
		"tools/list": `{"tools":[` + tools + `]}`,
		"tools/call": `{"content":[{"type":"text","text":"now"}]}`,
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var message struct {
			Id     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &message) != nil || message.Id == nil {
			continue
		}
		answer, known := results[message.Method]
		if known {
			answer = `"result":` + answer
		} else {
			answer = `"error":{"code":-32601,"message":"method not found"}`
		}
		fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n", message.Id, answer)
	}
}
"##;

/// Returns the files of the module at a proxy, in these versions: paths and contents. The program is the package
/// `cmd/loopback-clock` of the module.
pub(crate) fn proxy_files(versions: &[&str]) -> Vec<(String, Bytes)> {
    let place = |name: &str| format!("go/{MODULE}/{name}");
    let info = |version: &str| {
        Bytes::from(format!("{{\"Version\":\"{version}\",\"Time\":\"2026-01-02T03:04:05Z\"}}"))
    };
    let manifest = format!("module {MODULE}\n\ngo 1.18\n");
    let mut files = vec![(place("@v/list"), Bytes::from(versions.join("\n")))];
    files.extend(versions.last().map(|version| (place("@latest"), info(version))));
    for version in versions {
        let below = |name: &str| format!("{MODULE}@{version}/{name}");
        let (manifest_name, server_name) = (below("go.mod"), below("cmd/loopback-clock/main.go"));
        let server = SERVER.replace("@VERSION@", version);
        let archive = zip(&[(&manifest_name, &manifest), (&server_name, &server)]);
        files.push((place(&format!("@v/{version}.info")), info(version)));
        files.push((place(&format!("@v/{version}.mod")), Bytes::from(manifest.clone())));
        files.push((place(&format!("@v/{version}.zip")), Bytes::from(archive)));
    }
    files
}
