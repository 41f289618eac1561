//! Calls that are approved one by one and never as part of a plan.

use std::fmt;

use crate::effects::has_word;
use crate::flow::{CallEffect, FlowLabels};

/// Reason for which a call cannot be part of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanExclusion {
    /// The call changes credentials.
    Credentials,
    /// The call runs code.
    Code,
    /// An argument has a secret that another server returned.
    Secret,
    /// An argument names a private or local address.
    PrivateAddress,
    /// An argument has characters that a shell interprets.
    ShellCharacters,
}

/// Words in the names of tools that change credentials.
const CREDENTIAL_WORDS: [&str; 17] = [
    "password",
    "passwd",
    "passcode",
    "passphrase",
    "credential",
    "token",
    "secret",
    "key",
    "apikey",
    "ssh",
    "oauth",
    "certificate",
    "login",
    "otp",
    "totp",
    "mfa",
    "2fa",
];

/// Words in the names of tools that run code.
const CODE_WORDS: [&str; 19] = [
    "exec",
    "execute",
    "run",
    "spawn",
    "eval",
    "evaluate",
    "shell",
    "bash",
    "powershell",
    "cmd",
    "sudo",
    "script",
    "command",
    "terminal",
    "code",
    "python",
    "javascript",
    "sql",
    "install",
];

impl PlanExclusion {
    /// Returns the reason that a tool excludes by its name, if the tool changes something.
    #[must_use]
    pub fn of_tool(name: &str, labels: FlowLabels) -> Option<Self> {
        match labels.effect {
            CallEffect::None => None,
            _ if has_word(name, &CREDENTIAL_WORDS) => Some(Self::Credentials),
            _ if has_word(name, &CODE_WORDS) => Some(Self::Code),
            _ => None,
        }
    }
}

impl fmt::Display for PlanExclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Credentials => "it changes credentials",
            Self::Code => "it runs code",
            Self::Secret => "it would send a secret to a server that did not return it",
            Self::PrivateAddress => "it reaches a private or local address",
            Self::ShellCharacters => "an argument has characters that a shell interprets",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_change_credentials_or_run_code_are_excluded() {
        let of = |name, effect| {
            let labels = FlowLabels { private: false, untrusted: false, outbound: true, effect };
            PlanExclusion::of_tool(name, labels)
        };
        for (name, excluded) in [
            ("update_password", Some(PlanExclusion::Credentials)),
            ("createAccessTokens", Some(PlanExclusion::Credentials)),
            ("add_ssh_key", Some(PlanExclusion::Credentials)),
            ("create-api-key", Some(PlanExclusion::Credentials)),
            ("RotateApiKeys", Some(PlanExclusion::Credentials)),
            ("run_query", Some(PlanExclusion::Code)),
            ("python", Some(PlanExclusion::Code)),
            ("PowerShell", Some(PlanExclusion::Code)),
            ("install_package", Some(PlanExclusion::Code)),
            ("browser_evaluate", Some(PlanExclusion::Code)),
            ("send_email", None),
            ("truncate_table", None),
            ("pin_message", None),
        ] {
            assert_eq!(of(name, CallEffect::Reversible), excluded, "{name}");
            assert_eq!(of(name, CallEffect::Irreversible), excluded, "{name}");
            assert_eq!(of(name, CallEffect::None), None, "{name}");
        }
    }
}
