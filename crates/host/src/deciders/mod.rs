//! Sources of decisions: a browser of the console, a terminal, or a program.
//!
//! The system does not isolate processes of one user from each other. A program that opens a pseudo-terminal, or writes
//! into the state folder, is indistinguishable from the person. These checks keep out programs that only run a command.
//! They also let the audit log name the source of each decision.
//!
//! Linux reports the terminal of a process. On macOS and Windows the program `hospes` looks at its own standard streams and
//! tells the host, which believes the file that it runs from itself and no other program.

mod author;
mod team_decider;

pub use self::author::DecisionAuthor;
pub use self::team_decider::{ApproverRecord, TeamDecider};
use crate::callers::{CallerLookupError, LocalCaller};
pub use crate::config::DecisionSource;

/// A program of the same user that may make decisions, as identified by the system.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decider {
    /// A program in the foreground of a terminal that it reads from or writes to.
    Terminal {
        /// Its name below `/dev`: `pts/3`.
        terminal: String,
        /// The program: `hospes, process 5, started by bash`.
        program: String,
    },
    /// Any other program.
    Program {
        /// The program: `python3, process 5, started by node`.
        program: String,
    },
    /// This program, on a system that does not report terminals. It may say that a person uses it at one.
    OwnProgram {
        /// The program: `hospes, process 5, started by zsh`.
        program: String,
    },
    /// A program on a system that cannot identify it.
    Unidentified,
}

impl Decider {
    /// Describes a process, from the system's information.
    #[must_use]
    pub fn of(caller: &LocalCaller) -> Self {
        let program = caller.process.describe();
        match caller.terminal_in_use() {
            Some(terminal) => Self::Terminal { terminal: terminal.name().to_owned(), program },
            None if caller.vouches_for_terminal => Self::OwnProgram { program },
            None => Self::Program { program },
        }
    }

    /// Applies what a program has said: that a person uses it at a terminal. Only the word of this program counts.
    #[must_use]
    pub fn with_terminal_claim(self) -> Self {
        match self {
            Self::OwnProgram { program } => {
                Self::Terminal { terminal: "of this process".to_owned(), program }
            }
            other => other,
        }
    }

    /// Identifies this process.
    #[must_use]
    pub fn this() -> Self {
        match LocalCaller::this() {
            Ok(caller) => Self::of(&caller),
            Err(CallerLookupError::System) => Self::Unidentified,
            // What cannot be read of this process counts as being at no terminal.
            Err(_) => Self::Program { program: format!("process {}", std::process::id()) },
        }
    }

    /// Checks that the program may decide. `token` is the name of the decision token that it has presented.
    ///
    /// # Errors
    /// [`CheckDeciderError`]: why not.
    pub fn check(&self, from: DecisionSource, token: Option<&str>) -> Result<(), CheckDeciderError> {
        match (from, self) {
            // First, so that neither a terminal nor a token gets around it.
            (DecisionSource::Browser, _) => Err(CheckDeciderError::BrowserOnly),
            (DecisionSource::Programs, _) | (_, Self::Terminal { .. }) => Ok(()),
            _ if token.is_some() => Ok(()),
            _ => Err(CheckDeciderError::NoTerminal),
        }
    }

    /// Checks that the program may get a sign-in link to the console. A holder of that link can decide as the person
    /// does.
    ///
    /// # Errors
    /// [`CheckDeciderError`]: why not.
    pub fn check_link(&self, from: DecisionSource) -> Result<(), CheckDeciderError> {
        match (from, self) {
            (DecisionSource::Programs, _) | (_, Self::Terminal { .. }) => Ok(()),
            _ => Err(CheckDeciderError::NoTerminal),
        }
    }

    /// Returns the author of its decisions for the audit log: the person at its terminal, or the program itself.
    #[must_use]
    pub fn author(&self, token: Option<&str>) -> DecisionAuthor {
        let by = self.describe(token);
        match self {
            Self::Terminal { .. } => DecisionAuthor::person(by),
            Self::Program { .. } | Self::OwnProgram { .. } | Self::Unidentified => {
                DecisionAuthor::program(by)
            }
        }
    }

    /// Returns the description for the audit log: `the person at the terminal pts/3: hospes, process 5, started by
    /// bash`.
    #[must_use]
    pub fn describe(&self, token: Option<&str>) -> String {
        match (self, token) {
            (Self::Terminal { terminal, program }, _) => {
                format!("the person at the terminal {terminal}: {program}")
            }
            (Self::Program { program } | Self::OwnProgram { program }, None) => {
                format!("a program without a terminal: {program}")
            }
            (Self::Program { program } | Self::OwnProgram { program }, Some(token)) => {
                format!("a program with the token {token}: {program}")
            }
            (Self::Unidentified, None) => "a program of the same user, over the socket".to_owned(),
            (Self::Unidentified, Some(token)) => format!("a program with the token {token}"),
        }
    }
}

/// Reasons a program may not decide. A model may read them through the program that it runs, so they name no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckDeciderError {
    /// [`DecisionSource::Browser`] is configured.
    #[error(
        "decisions are accepted only in the browser, because the configuration sets `decisions_from = \"browser\"`; \
         the person decides on the console's page"
    )]
    BrowserOnly,
    /// It is at no terminal and has shown no token.
    #[error(
        "only a person can decide this, in the browser or in a terminal; this program does not run in the \
         foreground of a terminal and has not presented a decision token"
    )]
    NoTerminal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_decide_depends_on_the_setting() {
        let terminal = Decider::Terminal { terminal: "pts/1".to_owned(), program: "hospes".to_owned() };
        let program = Decider::Program { program: "python3".to_owned() };
        for (from, who, token, may, may_link) in [
            (DecisionSource::Browser, &terminal, None, false, true),
            (DecisionSource::Browser, &program, Some("ci"), false, false),
            (DecisionSource::Terminal, &terminal, None, true, true),
            (DecisionSource::Terminal, &program, None, false, false),
            (DecisionSource::Terminal, &program, Some("ci"), true, false),
            (DecisionSource::Terminal, &Decider::Unidentified, None, false, false),
            (DecisionSource::Terminal, &Decider::Unidentified, Some("ci"), true, false),
            (DecisionSource::Programs, &program, None, true, true),
            (DecisionSource::Programs, &Decider::Unidentified, None, true, true),
        ] {
            assert_eq!(who.check(from, token).is_ok(), may, "{from} {who:?} {token:?}");
            assert_eq!(who.check_link(from).is_ok(), may_link, "{from} {who:?}");
        }
        let own = Decider::OwnProgram { program: "hospes".to_owned() };
        assert!(own.check(DecisionSource::Terminal, None).is_err());
        assert!(own.check(DecisionSource::Terminal, Some("ci")).is_ok());
        let own = own.with_terminal_claim();
        assert!(
            own.check(DecisionSource::Terminal, None).is_ok()
                && own.check_link(DecisionSource::Terminal).is_ok()
        );
        for other in [program, Decider::Unidentified] {
            assert!(other.with_terminal_claim().check(DecisionSource::Terminal, None).is_err());
        }
        for why in [CheckDeciderError::BrowserOnly, CheckDeciderError::NoTerminal] {
            assert!(!why.to_string().contains("hospes "), "{why}");
        }
    }
}
