//! Checks, their codes, and chains of them.

use std::time::Instant;

use serde::Serialize;

use crate::printed_secrets;

/// Code of a check, and its subject. The table of the documentation comes from [`DOCTOR_CODES`].
#[derive(Debug)]
pub(crate) struct DoctorCode {
    /// Stable code.
    pub(crate) code: &'static str,
    /// Name of the step.
    pub(crate) step: &'static str,
    /// Subject of the check.
    pub(crate) probe: &'static str,
}

macro_rules! codes {
    ($($name:ident = $code:literal, $step:literal, $probe:literal;)*) => {
        $(pub(crate) const $name: DoctorCode = DoctorCode { code: $code, step: $step, probe: $probe };)*
        /// All codes, in the order of the way from the host to the tools.
        pub(crate) const DOCTOR_CODES: &[DoctorCode] = &[$($name),*];
    };
}

codes! {
    H01 = "H01", "port", "the running host and its endpoint; without one, whether its address (port 7337) is free";
    H02 = "H02", "state", "a file is written to the state folder, and removed";
    H03 = "H03", "disk", "free space of the state folder, at least 100 MiB";
    H04 = "H04", "quota", "room for more files in the state folder";
    H05 = "H05", "databases", "the files of the state are not damaged, and of no newer version";
    H06 = "H06", "files", "files with secrets are readable by their owner alone";
    H07 = "H07", "keyring", "the key of stored tokens and secrets, in the keyring or its file; without one, a key is stored in the keyring and removed";
    H08 = "H08", "clock", "the clock, compared with the answers of up to two servers of the configuration";
    H09 = "H09", "sandbox", "bubblewrap, or the kernel's Landlock and seccomp, confine a program";
    H10 = "H10", "version", "the running host is of the version of this program";
    H11 = "H11", "copies", "other programs `hospes` in PATH are of the same version";
    H12 = "H12", "open files", "the limit of open files, at least 1024";
    H13 = "H13", "rules", "the policy file, if there is one, and whether its rules name servers and tools that exist";
    H14 = "H14", "service", "the installed service, if there is one: its program, and whether its PATH has the programs of the servers";
    F01 = "F01", "postgres", "the database of a fleet answers, and its settings keep what it acknowledges";
    F02 = "F02", "redis", "Redis of a fleet answers, and its settings keep leases and sessions";
    F03 = "F03", "nodes", "this machine reaches the nodes that run";
    A01 = "A01", "file", "the configuration file of the application";
    A02 = "A02", "parsed", "its syntax, by the rules of the application's own parser";
    A03 = "A03", "entry", "the entry of Hospes in it, which may have been removed or changed since, or have another URL than the host";
    A04 = "A04", "program", "the program that the entry starts and its version, or the host at its URL";
    A05 = "A05", "packaged", "the file is the one that a packaged application reads";
    A06 = "A06", "shadowed", "no entry of the project's file takes the place of the user's";
    A07 = "A07", "profile", "the profile that the entry names";
    C01 = "C01", "entry", "the entry of the configuration: keys, variables and secrets";
    C02 = "C02", "command", "the program, in PATH or at its path";
    C03 = "C03", "executable", "its permission to be executed, and the interpreter that it names";
    C04 = "C04", "launcher", "the version of Node.js, uv or Python; that Docker runs";
    C05 = "C05", "folder", "the working folder";
    C06 = "C06", "package", "the package exists at the index that the launcher uses";
    C07 = "C07", "hash", "the hash of the package is the one with which it was added";
    S01 = "S01", "starts", "the process runs";
    S02 = "S02", "stdout", "messages, and nothing else, are on stdout";
    S03 = "S03", "speaks", "the server answers";
    S04 = "S04", "revision", "a revision of the protocol that both speak";
    S05 = "S05", "leftovers", "no process of the server is left after its end";
    N01 = "N01", "name", "the name is found in DNS";
    N02 = "N02", "connection", "a TCP connection is opened";
    N03 = "N03", "proxy", "proxies on the way let the request pass";
    N04 = "N04", "certificate", "the TLS handshake and the certificate";
    N05 = "N05", "path", "the URL is that of an endpoint";
    N06 = "N06", "host header", "the server accepts the name under which it is called";
    O01 = "O01", "authorization", "the server lets the request pass, with the stored token if there is one";
    O02 = "O02", "issuer", "the authorization server that the server names, and what it offers";
    O03 = "O03", "token", "the stored token, or the token in the entry, is accepted";
    O04 = "O04", "callback", "a port of this machine to which the browser can return after a sign-in";
    T01 = "T01", "tools", "the list of tools is read, and compared with the definitions that were accepted";
    T02 = "T02", "names", "names that applications accept: at most 64 characters with the name of the server";
    T03 = "T03", "call", "one call: of the tool of `--call`, or of a tool of a built-in server that only reads";
    T04 = "T04", "filters", "each pattern of the tool filters, those of profiles too, matches a tool";
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckStatus {
    Ok,
    Warning,
    /// A warning that the person does not want to see again.
    Ignored,
    Fault,
    NotReached,
}

/// A check that was made, or not reached.
#[derive(Debug, Serialize)]
pub(crate) struct DoctorCheck {
    pub(crate) code: &'static str,
    /// Server, application or host that was checked.
    pub(crate) target: String,
    #[serde(skip)]
    pub(crate) step: &'static str,
    pub(crate) status: CheckStatus,
    /// Result, as a phrase; empty if nothing has to be said.
    pub(crate) what: String,
    /// Reason, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// Command or action that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mend: Option<String>,
    /// Text of others, such as the last lines on stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) evidence: Option<String>,
    /// Duration in milliseconds.
    pub(crate) ms: u64,
}

impl DoctorCheck {
    fn become_unreached(&mut self) {
        (self.status, self.what) = (CheckStatus::NotReached, "not reached".to_owned());
        (self.why, self.mend, self.evidence) = (None, None, None);
    }
}

/// Receiver of checks as they end.
type CheckListener = Box<dyn Fn(&DoctorCheck) + Send + Sync>;

tokio::task_local! {
    // In place of a parameter of every check.
    static LISTENER: CheckListener;
}

/// Runs `work`, and tells the listener of each check as it ends. Checks that are changed afterwards, because a cause was
/// found, are not told again.
pub(super) async fn listen<T>(
    listener: impl Fn(&DoctorCheck) + Send + Sync + 'static,
    work: impl Future<Output = T>,
) -> T {
    LISTENER.scope(Box::new(listener), work).await
}

/// Checks of one thing, in the order of the way. The first fault ends the chain.
#[derive(Debug)]
pub(crate) struct DoctorChain {
    pub(crate) target: String,
    pub(crate) checks: Vec<DoctorCheck>,
    begun: Instant,
}

/// Description of a fault or warning.
#[derive(Debug, Default)]
pub(crate) struct DoctorFinding {
    pub(crate) what: String,
    pub(crate) why: Option<String>,
    pub(crate) mend: Option<String>,
    pub(crate) evidence: Option<String>,
}

impl DoctorFinding {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    pub(crate) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// Adds text of others.
    pub(crate) fn evidence(mut self, evidence: impl Into<String>) -> Self {
        self.evidence = Some(evidence.into());
        self
    }
}

impl DoctorChain {
    pub(crate) fn new(target: impl Into<String>) -> Self {
        Self { target: target.into(), checks: Vec::new(), begun: Instant::now() }
    }

    pub(crate) fn ok(&mut self, code: &DoctorCode, what: impl Into<String>) {
        self.add(code, CheckStatus::Ok, DoctorFinding::new(what));
    }

    pub(crate) fn warn(&mut self, code: &DoctorCode, finding: DoctorFinding) {
        self.add(code, CheckStatus::Warning, finding);
    }

    /// Adds a fault, and the steps after it that are not reached.
    pub(crate) fn fail(&mut self, code: &DoctorCode, finding: DoctorFinding, not_reached: &[&DoctorCode]) {
        self.add(code, CheckStatus::Fault, finding);
        for code in not_reached {
            self.add(code, CheckStatus::NotReached, DoctorFinding::new("not reached"));
        }
    }

    /// Replaces the fault of the chain by an earlier cause of it, so that the step that failed is not reached.
    pub(crate) fn blame(&mut self, code: &DoctorCode, finding: DoctorFinding) {
        let Some(at) = self.checks.iter().position(|check| check.status == CheckStatus::Fault) else {
            return;
        };
        let evidence = finding.evidence.clone().or_else(|| self.checks[at].evidence.take());
        self.checks[at].become_unreached();
        self.fail(code, DoctorFinding { evidence, ..finding }, &[]);
        if let Some(cause) = self.checks.pop() {
            self.checks.insert(at, cause);
        }
        // A warning of the same step said it less clearly.
        self.checks.retain(|check| check.code != code.code || check.status == CheckStatus::Fault);
    }

    /// Removes and returns the warning of a step.
    pub(crate) fn take_warning(&mut self, code: &DoctorCode) -> Option<DoctorFinding> {
        let is_it = |check: &DoctorCheck| check.code == code.code && check.status == CheckStatus::Warning;
        let found = self.checks.iter().position(is_it)?;
        let DoctorCheck { what, why, mend, evidence, .. } = self.checks.remove(found);
        Some(DoctorFinding { what, why, mend, evidence })
    }

    fn add(&mut self, code: &DoctorCode, status: CheckStatus, finding: DoctorFinding) {
        // Here too, because a report is cut and wrapped before it is printed.
        let mask = |text: String| printed_secrets::mask(&text).into_owned();
        let DoctorFinding { what, why, mend, evidence } = finding;
        let (what, why) = (mask(what), why.map(mask));
        let (mend, evidence) = (mend.map(mask), evidence.map(mask));
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.begun = Instant::now();
        let (code, step, target) = (code.code, code.step, self.target.clone());
        let check = DoctorCheck { code, target, step, status, what, why, mend, evidence, ms };
        // Without a listener nobody wants to know before the end.
        let _silent = LISTENER.try_with(|listener| listener(&check));
        self.checks.push(check);
    }

    /// Returns the worst status of the checks.
    pub(crate) fn status(&self) -> CheckStatus {
        let has = |status| self.checks.iter().any(|check| check.status == status);
        match () {
            () if has(CheckStatus::Fault) => CheckStatus::Fault,
            () if has(CheckStatus::Warning) => CheckStatus::Warning,
            () => CheckStatus::Ok,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the documentation has every code with its words.
    #[test]
    fn the_documentation_has_every_code() {
        let page = include_str!("../../../../../docs/doctor.md");
        for DoctorCode { code, step, probe } in DOCTOR_CODES {
            let row = format!("| {code} | {step} | {probe} |");
            assert!(page.contains(&row), "docs/doctor.md lacks the row\n{row}");
        }
    }
}
