//! Servers of the user's applications, counted for somebody who has no configuration yet. The files are only read, and
//! nothing is started.

use hospes_host::config::applications::{ApplicationFolders, SystemKind};
use hospes_host::config::import::FoundServers;

/// Maximum size of a file that is read, in bytes. Configuration files are much smaller, and a count is not worth more.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of applications that are named.
const MAX_NAMED: usize = 3;

/// Number of servers, and the applications that have them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FoundApplications {
    servers: usize,
    applications: Vec<&'static str>,
}

impl FoundApplications {
    /// Counts the servers at the known places of the user. Projects are left out, because their files may come from
    /// others.
    pub(super) fn count() -> Self {
        let (Some(home), Ok(project)) = (std::env::home_dir(), std::env::current_dir()) else {
            return Self::default();
        };
        let variable = |name: &str| std::env::var(name).ok();
        let folders = ApplicationFolders::new(SystemKind::current(), home, variable);
        let mut found = FoundServers::default();
        for file in folders.find() {
            if std::fs::metadata(&file.path).is_ok_and(|about| about.len() <= MAX_FILE_BYTES) {
                found.add_file(&file, &project, &variable);
            }
        }
        let mut applications = Vec::new();
        for (file, count) in &found.files {
            if *count > 0 && !applications.contains(&file.application.name) {
                applications.push(file.application.name);
            }
        }
        Self { servers: found.servers.len(), applications }
    }
}

/// Returns the line about what was found.
pub(super) fn found_line(found: &FoundApplications) -> String {
    if found.servers == 0 {
        return "`hospes import` takes over the servers of your applications; none were found yet."
            .to_owned();
    }
    let named: Vec<&str> = found.applications.iter().copied().take(MAX_NAMED).collect();
    let more = found.applications.len().saturating_sub(MAX_NAMED);
    let names = match (named.as_slice(), more) {
        ([], _) => "your applications".to_owned(),
        ([one], 0) => (*one).to_owned(),
        ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
        (named, more) => format!("{} and {more} more", named.join(", ")),
    };
    let servers = if found.servers == 1 { "1 server" } else { &format!("{} servers", found.servers) };
    let them = if found.servers == 1 { "it" } else { "them" };
    format!("{servers} found in {names}: `hospes import` takes {them} over.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_one_line() {
        let line = |servers, applications: &[&'static str]| {
            found_line(&FoundApplications { servers, applications: applications.to_vec() })
        };
        assert!(line(0, &[]).contains("none were found"));
        assert_eq!(line(1, &["Cursor"]), "1 server found in Cursor: `hospes import` takes it over.");
        assert!(line(5, &["Cursor", "VS Code"]).starts_with("5 servers found in Cursor and VS Code: "));
        assert!(line(9, &["A", "B", "C", "D", "E"]).starts_with("9 servers found in A, B, C and 2 more: "));
    }
}
