//! Command lines: words, switches and flags with a value. Nothing here needs more than that.

use anyhow::{Result, bail};

/// Flags that a chore accepts, besides plain words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedFlags {
    /// Flags that take a value, as `--only rust` or `--only=rust`.
    pub(crate) values: &'static [&'static str],
    /// Flags that stand alone.
    pub(crate) switches: &'static [&'static str],
}

/// A command line taken apart.
#[derive(Debug, Default)]
pub(crate) struct ChoreFlags {
    /// Everything that is no flag, in order.
    pub(crate) words: Vec<String>,
    values: Vec<(String, String)>,
    switches: Vec<String>,
}

impl ChoreFlags {
    /// Parses `arguments` and rejects flags that `accepted` does not list.
    pub(crate) fn parse(arguments: &[String], accepted: AcceptedFlags) -> Result<Self> {
        let mut flags = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let Some(flag) = argument.strip_prefix("--") else {
                flags.words.push(argument.clone());
                continue;
            };
            let (name, attached) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            if accepted.values.contains(&name) {
                let Some(value) = attached.or_else(|| rest.next().cloned()) else {
                    bail!("--{name} needs a value");
                };
                flags.values.push((name.to_owned(), value));
            } else if accepted.switches.contains(&name) && attached.is_none() {
                flags.switches.push(name.to_owned());
            } else {
                bail!("unknown flag --{flag}; known here: {}", accepted.listed());
            }
        }
        Ok(flags)
    }

    /// Returns true if the switch was given.
    pub(crate) fn has(&self, switch: &str) -> bool {
        self.switches.iter().any(|given| given == switch)
    }

    /// The flag's last value.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// All values of a flag that may be repeated or hold a list with commas.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let given = self.values.iter().filter(|(given, _)| given == name);
        given.flat_map(|(_, value)| value.split(',')).map(str::to_owned).collect()
    }
}

impl AcceptedFlags {
    fn listed(&self) -> String {
        let flags = self.values.iter().map(|name| format!("--{name} VALUE"));
        let all: Vec<String> = flags.chain(self.switches.iter().map(|name| format!("--{name}"))).collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCEPTED: AcceptedFlags = AcceptedFlags { values: &["only"], switches: &["check"] };

    fn parse(line: &str) -> Result<ChoreFlags> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ChoreFlags::parse(&arguments, ACCEPTED)
    }

    #[test]
    fn flags_may_stand_anywhere() {
        let flags = parse("server --only rust,docs --check --only=peers").unwrap();
        assert_eq!(flags.words, ["server"]);
        assert!(flags.has("check"));
        assert_eq!(flags.list("only"), ["rust", "docs", "peers"]);
        assert_eq!(flags.value("only"), Some("peers"));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let complaint = parse("--chek").unwrap_err().to_string();
        assert!(complaint.contains("--only VALUE, --check"), "{complaint}");
        assert!(parse("--only").is_err());
        assert!(parse("--check=yes").is_err());
    }
}
