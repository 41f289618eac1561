//! `hospes search`: finds servers in an MCP registry.

use std::time::Duration;

use hospes_registry::{
    AnswerSource, EntryStatus, RefreshMode, RegistryAnswer, RegistryClient, RegistryError, SearchResults,
    ServerEntry, TrustContext, trust_signs,
};
use jiff::Timestamp;
use serde_json::json;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::add::entry_origin;
use super::config_target::configured_registry;
use crate::args::SearchArgs;
use crate::exit::CliResult;
use crate::output::{BOLD, CliOutput, DIM, YELLOW, one_line, paint, printable, result_width};
use crate::registry::{base_url, format_age, format_ago, open_registry};

/// Maximum time to look for the address of a registry that was not reached.
const LOOKUP_TIME: Duration = Duration::from_secs(2);
/// Width of a result that does not go to a terminal, in columns.
const PLAIN_WIDTH: usize = 120;
/// Maximum width of the column with name and version.
const MAX_NAME_WIDTH: usize = 64;
/// Space for the columns after the name: kinds and age.
const REST_WIDTH: usize = 30;

pub(crate) async fn run(args: SearchArgs, output: CliOutput) -> CliResult {
    let registry = open_registry(&base_url(&args.registry, configured_registry().as_deref()))?;
    let is_told = args.refresh && !refresh(&registry, output).await?;
    let query = args.words.join(" ");
    let answer = Box::pin(registry.search(&query, args.limit)).await?;
    if output.json {
        output.value(&to_json(&registry, &answer, &[]));
        return Ok(());
    }
    if let Some(error) = &answer.offline {
        let mut parts = Vec::new();
        // The refresh has said it already.
        if !is_told {
            parts.push(first_part(error, &registry).await);
        }
        parts.push(format!("these results are from the cache, {}", format_age(answer.age)));
        output.warn(printable(&parts.join("; ")));
    }
    if answer.value.entries.is_empty() {
        explain_nothing(&registry, &query, &answer, output);
        return Ok(());
    }
    output.result(format_results(&answer.value.entries, result_width().unwrap_or(PLAIN_WIDTH)));
    output.say(paint(DIM, summary(&registry, &answer)));
    Ok(())
}

/// Reads the list of the registry. Returns false if that is not reached.
async fn refresh(registry: &RegistryClient, output: CliOutput) -> CliResult<bool> {
    output.say(format_args!("reading the list of {} …", printable(registry.host())));
    match Box::pin(registry.refresh(RefreshMode::Changes)).await {
        Ok(report) => {
            let what = if report.everything { "all entries" } else { "the changes" };
            let skipped = match report.skipped {
                0 => String::new(),
                skipped => format!(", {skipped} could not be read"),
            };
            output.say(format_args!("read {what}: {} servers{skipped}", report.servers));
            Ok(true)
        }
        // The search says whether the cache has an answer.
        Err(error @ RegistryError::Offline { .. }) => {
            output.warn(printable(&first_part(&error, registry).await));
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns what happened, without the advice, and why the name of the registry has no address.
async fn first_part(error: &RegistryError, registry: &RegistryClient) -> String {
    let text = error.to_string();
    let first = text.split_once("; ").map_or(text.as_str(), |(first, _)| first);
    let reason = match error {
        RegistryError::Offline { .. } => lookup_failure(registry.base_url()).await,
        _ => None,
    };
    reason.map_or_else(|| first.to_owned(), |reason| format!("{first} ({reason})"))
}

/// Returns why the name in a URL is not found in DNS, if it is not.
async fn lookup_failure(url: &str) -> Option<String> {
    let url = url::Url::parse(url).ok()?;
    let Some(url::Host::Domain(name)) = url.host() else { return None };
    let found = tokio::net::lookup_host((name, url.port_or_known_default()?));
    match tokio::time::timeout(LOOKUP_TIME, found).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(format!("its name is not found in DNS: {error}")),
        Err(_) => Some("DNS does not answer".to_owned()),
    }
}

fn explain_nothing(
    registry: &RegistryClient,
    query: &str,
    answer: &RegistryAnswer<SearchResults>,
    output: CliOutput,
) {
    let host = printable(registry.host());
    output.say(format_args!("no server in {host} has all words of `{}`", printable(query)));
    let mut advice = vec!["try one word, or a part of the name"];
    if answer.source == AnswerSource::Cache {
        advice.push("`--refresh` reads the list again");
    } else {
        // The registry itself may look at names only.
        advice.push("`--refresh` reads the whole list, and then descriptions are searched too");
    }
    output.hint(advice.join("; "));
}

/// Formats the line after the results: how many there are, and how old they are.
fn summary(registry: &RegistryClient, answer: &RegistryAnswer<SearchResults>) -> String {
    let (shown, total) = (answer.value.entries.len(), answer.value.total);
    let count = match (shown, total) {
        (1, 1) => "1 server".to_owned(),
        (shown, total) if shown < total => format!("{shown} of {total} servers (--limit shows more)"),
        (_, total) => format!("{total} servers"),
    };
    let age = match answer.source {
        AnswerSource::Server => String::new(),
        _ => format!(", {}", format_age(answer.age)),
    };
    format!("{count} in {}{age}", printable(registry.host()))
}

/// Formats two lines for each entry: name, version, kinds and age; then title and description, clipped to the width.
fn format_results(entries: &[ServerEntry], width: usize) -> String {
    let names: Vec<String> = entries.iter().map(|entry| one_line(&entry.name)).collect();
    let versions: Vec<String> = entries.iter().map(|entry| clip(&one_line(&entry.version), 20)).collect();
    let longest = names.iter().zip(&versions).map(|(name, version)| name.width() + 1 + version.width());
    let column = longest.max().unwrap_or(0).min(MAX_NAME_WIDTH).min(width.saturating_sub(REST_WIDTH)).max(20);
    let mut text = String::new();
    for ((entry, name), version) in entries.iter().zip(&names).zip(&versions) {
        let name = clip(name, column.saturating_sub(1 + version.width()));
        let padding = " ".repeat(column.saturating_sub(name.width() + 1 + version.width()));
        let kinds = clip(&entry.kinds().into_iter().map(one_line).collect::<Vec<_>>().join(" "), 18);
        let kinds = if kinds.is_empty() { "no packages".to_owned() } else { kinds };
        let age = age(entry).map(format_ago).unwrap_or_default();
        let facts = format!("{kinds:<18}{age}");
        text.push_str(&format!(
            "{} {version}{padding}  {}\n",
            paint(BOLD, &name),
            paint(DIM, facts.trim_end())
        ));
        if entry.status() != EntryStatus::Active {
            let reason = entry.official.as_ref().and_then(|official| official.status_message.as_deref());
            let reason = reason.map(|reason| format!(": {}", one_line(reason))).unwrap_or_default();
            let status = format!("{}{reason}", one_line(entry.status().as_str()));
            text.push_str(&format!("  {}\n", paint(YELLOW, clip(&status, width.saturating_sub(2)))));
        }
        let about = match &entry.title {
            Some(title) if !title.trim().is_empty() => {
                format!("{} · {}", one_line(title), one_line(&entry.description))
            }
            _ => one_line(&entry.description),
        };
        if !about.is_empty() {
            text.push_str(&format!("  {}\n", clip(&about, width.saturating_sub(2))));
        }
    }
    text
}

fn age(entry: &ServerEntry) -> Option<Duration> {
    let published = entry.published_at()?;
    Some(Duration::try_from(Timestamp::now().duration_since(published)).unwrap_or_default())
}

/// Cuts a text to a number of columns.
fn clip(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut clipped = String::new();
    let mut used = 1;
    for letter in text.chars() {
        used += letter.width().unwrap_or(0);
        if used > width {
            break;
        }
        clipped.push(letter);
    }
    clipped.truncate(clipped.trim_end().len());
    clipped.push('…');
    clipped
}

/// Returns the results as JSON. `known` are the names of the servers that the person has, which others may resemble.
pub(super) fn to_json(
    registry: &RegistryClient,
    answer: &RegistryAnswer<SearchResults>,
    known: &[&str],
) -> serde_json::Value {
    let servers: Vec<serde_json::Value> = answer
        .value
        .entries
        .iter()
        .map(|entry| {
            let official = entry.official.as_ref();
            let mut context = TrustContext::new(registry.host(), Timestamp::now());
            context.known_names = known.to_vec();
            let signs = trust_signs(entry, &context);
            let publisher = entry_origin::publisher(&signs);
            json!({
                "name": entry.name,
                "title": entry.title,
                "description": entry.description,
                "version": entry.version,
                "kinds": entry.kinds(),
                "publisher": publisher.as_ref().map(|(who, _)| who),
                "isPublisherChecked": publisher.is_some_and(|(_, is_checked)| is_checked),
                "warnings": entry_origin::trust_warnings(&signs),
                "status": entry.status().as_str(),
                "statusMessage": official.and_then(|official| official.status_message.as_deref()),
                "publishedAt": entry.published_at().map(|at| at.to_string()),
                "repository": entry.repository.as_ref().map(|repository| repository.url.as_str()),
            })
        })
        .collect();
    json!({
        "registry": registry.base_url(),
        "registryHost": registry.host(),
        "source": if answer.source == AnswerSource::Server { "registry" } else { "cache" },
        "ageSeconds": answer.age.as_secs(),
        "offline": answer.offline.as_ref().map(ToString::to_string),
        "total": answer.value.total,
        "servers": servers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: &serde_json::Value) -> ServerEntry {
        ServerEntry::read(&value.to_string()).unwrap()
    }

    #[test]
    fn texts_of_entries_are_one_line_and_fit() {
        let entry = entry(&json!({
            "name": "com.example/mail", "title": "Mail\u{1b}[31m", "version": "1.0.0",
            "description": format!("reads\nmail\u{202e} {}", "日本語".repeat(40)),
            "packages": [{ "registryType": "npm", "identifier": "x" }]
        }));
        let text = anstream::adapter::strip_str(&format_results(&[entry], 60)).to_string();
        assert!(text.lines().all(|line| line.width() <= 60), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("Mail\\u{1b}[31m · reads mail\\u{202e}"), "{text}");
        assert!(text.contains("com.example/mail 1.0.0") && text.contains("npm"), "{text}");
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_the_reason() {
        assert_eq!(lookup_failure("http://127.0.0.1:9").await, None);
        let reason = lookup_failure("https://registry.invalid").await;
        assert!(reason.is_some_and(|reason| reason.contains("DNS")));
    }

    #[test]
    fn long_names_are_clipped() {
        assert_eq!(clip("abcdef", 6), "abcdef");
        assert_eq!(clip("abcdefg", 6), "abcde…");
        assert_eq!(clip("日本語", 5), "日本…");
        assert_eq!(clip("abc", 0), "…");
    }
}
