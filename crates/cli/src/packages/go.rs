//! Settings of Go that decide where modules come from, and the module of a program that it has built.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use hospes_registry::PackageRegistries;
use serde::Deserialize;
use tokio::process::Command;

use super::process::find_program;

/// Maximum time of a question to `go`.
const GO_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings of `go env`, from its variables and its file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE", default)]
struct GoSettings {
    goproxy: String,
    gosumdb: String,
    goprivate: String,
    gonosumdb: String,
}

/// Applies the settings of Go to the addresses that are asked. Without Go, the usual ones stay.
pub(crate) async fn apply_settings(registries: &mut PackageRegistries) {
    let names = ["GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOSUMDB"];
    let Some(text) = output(["env", "-json"].iter().chain(&names)).await else { return };
    if let Ok(settings) = serde_json::from_str::<GoSettings>(&text) {
        settings.apply(registries);
    }
}

impl GoSettings {
    fn apply(&self, registries: &mut PackageRegistries) {
        let mut proxies = self.goproxy.split([',', '|']).map(str::trim);
        registries.go_proxy = proxies
            .find(|proxy| proxy.starts_with("https://") || proxy.starts_with("http://"))
            .map(str::to_owned);
        // `sum.golang.org`, `NAME+KEY`, or either of them with a URL.
        let mut words = self.gosumdb.split_whitespace();
        let name = words.next().and_then(|name| name.split('+').next()).unwrap_or("sum.golang.org");
        registries.go = match (name, words.next()) {
            ("off", _) => None,
            (_, Some(url)) => Some(url.to_owned()),
            (name, None) => Some(format!("https://{name}")),
        };
        let patterns = self.goprivate.split(',').chain(self.gonosumdb.split(','));
        registries.go_private =
            patterns.map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect();
    }
}

/// Returns the hash of the module that a program was built from, such as `h1:BASE64=`, as Go has written it into the
/// program.
pub(super) async fn module_hash(program: &Path) -> Option<String> {
    let text = output(["version".as_ref(), "-m".as_ref(), program.as_os_str()]).await?;
    read_hash(&text)
}

fn read_hash(text: &str) -> Option<String> {
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.find_map(|words| match words.as_slice() {
        ["mod", _, _, hash] if hash.starts_with("h1:") => Some((*hash).to_owned()),
        _ => None,
    })
}

/// Returns the output of a question to `go`, outside of all modules. `None` if it is missing or fails.
async fn output(args: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>) -> Option<String> {
    let mut command = Command::new(find_program("go").ok()?);
    command.args(args).current_dir(std::env::temp_dir()).kill_on_drop(true);
    command.env("GOTOOLCHAIN", "local").env("GOWORK", "off");
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let output = tokio::time::timeout(GO_TIMEOUT, command.output()).await.ok()?.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    #[test]
    fn the_settings_of_go_decide_what_is_asked() {
        let apply = |text: &str| {
            let mut registries = PackageRegistries::default();
            serde_json::from_str::<GoSettings>(text).unwrap().apply(&mut registries);
            (registries.go_proxy, registries.go, registries.go_private)
        };
        let usual = r#"{"GOPROXY":"https://proxy.golang.org,direct","GOSUMDB":"sum.golang.org"}"#;
        let url = |text: &str| Some(text.to_owned());
        assert_eq!(
            apply(usual),
            (url("https://proxy.golang.org"), url("https://sum.golang.org"), Vec::new())
        );
        let other = r#"{"GOPROXY":"file:///p|direct","GOSUMDB":"off","GOPRIVATE":"a.example, *.b.example"}"#;
        assert_eq!(apply(other), (None, None, vec!["a.example".to_owned(), "*.b.example".to_owned()]));
        let keyed = r#"{"GOPROXY":"off","GOSUMDB":"sum.example+01ab+key https://sums.example"}"#;
        assert_eq!(apply(keyed), (None, url("https://sums.example"), Vec::new()));
    }

    #[test]
    fn the_hash_of_a_module_is_that_of_the_program() {
        let text = "/b/tool: go1.22\n\tpath\texample.com/m/cmd/tool\n\tmod\texample.com/m\tv1.0.0\th1:AAAA=\n\
                    \tdep\texample.com/d\tv1.0.0\th1:BBBB=\n";
        assert_eq!(read_hash(text).as_deref(), Some("h1:AAAA="));
        assert_eq!(read_hash("\tmod\texample.com/m\t(devel)\t\n"), None);
    }
}
