//! Service files for systemd, launchd and the Task Scheduler of Windows, rendered on any system.

use std::fmt::Write as _;

/// Name of the service where names are short.
pub(crate) const NAME: &str = "hospes";
/// Name of the service for launchd, which wants a reversed domain.
pub(crate) const LAUNCHD_LABEL: &str = "dev.hospes";
/// Text by which `hospes service` recognizes its own files.
const MARK: &str = "Written by `hospes service install`; `hospes service remove` deletes this file.";
/// Beginning of the line that lists the folders that were created for the file.
const FOLDERS: &str = "Created folders: ";

/// The service manager of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceManager {
    /// The user manager of systemd.
    Systemd,
    /// Agents of launchd.
    Launchd,
    /// The Task Scheduler of Windows.
    TaskScheduler,
}

impl ServiceManager {
    /// Returns the manager of this system.
    pub(crate) const fn of_this_system() -> Self {
        if cfg!(windows) {
            Self::TaskScheduler
        } else if cfg!(target_os = "macos") {
            Self::Launchd
        } else {
            Self::Systemd
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Launchd => "launchd",
            Self::TaskScheduler => "Task Scheduler",
        }
    }
}

/// Content of a service file.
#[derive(Clone, Debug)]
pub(crate) struct ServiceDefinition {
    /// Absolute path of the program.
    pub(crate) program: String,
    /// Arguments of the program.
    pub(crate) arguments: Vec<String>,
    /// `PATH` of the service.
    pub(crate) path: String,
    /// Folders that are created for the file, the outermost first.
    pub(crate) created_folders: Vec<String>,
}

impl ServiceDefinition {
    /// Renders the file. Returns the text that cannot stand in such a file as an error.
    pub(crate) fn render(&self, manager: ServiceManager) -> Result<String, String> {
        let texts = self.arguments.iter().chain(&self.created_folders).chain([&self.program, &self.path]);
        // A line break would begin a new setting in a unit, and control characters are invalid in XML.
        if let Some(text) = texts.into_iter().find(|text| text.contains(char::is_control)) {
            return Err(text.clone());
        }
        Ok(match manager {
            ServiceManager::Systemd => self.systemd(),
            ServiceManager::Launchd => self.launchd(),
            ServiceManager::TaskScheduler => self.task(),
        })
    }

    fn systemd(&self) -> String {
        let command: Vec<String> = std::iter::once(&self.program)
            .chain(&self.arguments)
            .map(|word| quote_for_systemd(word, true))
            .collect();
        format!(
            "# {MARK}\n\
             # {FOLDERS}{}\n\
             [Unit]\n\
             Description=Hospes, the host of MCP servers\n\
             Documentation=man:hospes(1)\n\
             \n\
             [Service]\n\
             Type=notify\n\
             ExecStart={}\n\
             Environment={}\n\
             Restart=on-failure\n\
             RestartSec=5\n\
             KillMode=mixed\n\
             NoNewPrivileges=yes\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n",
            self.created_folders.join(":"),
            command.join(" "),
            quote_for_systemd(&format!("PATH={}", self.path), false),
        )
    }

    fn launchd(&self) -> String {
        let mut words = String::new();
        for word in std::iter::once(&self.program).chain(&self.arguments) {
            // Writing into a string cannot fail.
            let _ = writeln!(words, "    <string>{}</string>", escape_xml(word));
        }
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!-- {MARK} -->\n\
             <!-- {FOLDERS}{} -->\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <plist version=\"1.0\">\n\
             <dict>\n  \
               <key>Label</key>\n  <string>{LAUNCHD_LABEL}</string>\n  \
               <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n  \
               <key>EnvironmentVariables</key>\n  <dict>\n    \
                 <key>PATH</key>\n    <string>{}</string>\n  </dict>\n  \
               <key>RunAtLoad</key>\n  <true/>\n  \
               <key>KeepAlive</key>\n  <dict>\n    \
                 <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n  \
               <key>ProcessType</key>\n  <string>Interactive</string>\n\
             </dict>\n\
             </plist>\n",
            // Two hyphens end a comment.
            escape_xml(&self.created_folders.join(":")).replace("--", "&#45;&#45;"),
            escape_xml(&self.path),
        )
    }

    /// Renders a task. A task has no environment of its own and gets that of the user, with its `PATH`.
    fn task(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(|word| quote_for_windows(word)).collect();
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!-- {MARK} -->\n\
             <Task version=\"1.4\" xmlns=\"http://schemas.microsoft.com/windows/2004/02/mit/task\">\n  \
               <RegistrationInfo>\n    <Description>Hospes, the host of MCP servers</Description>\n  </RegistrationInfo>\n  \
               <Triggers>\n    <LogonTrigger>\n      <Enabled>true</Enabled>\n    </LogonTrigger>\n  </Triggers>\n  \
               <Principals>\n    <Principal id=\"Author\">\n      \
                 <LogonType>InteractiveToken</LogonType>\n      <RunLevel>LeastPrivilege</RunLevel>\n    \
               </Principal>\n  </Principals>\n  \
               <Settings>\n    \
                 <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>\n    \
                 <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>\n    \
                 <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>\n    \
                 <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>\n    \
                 <Hidden>true</Hidden>\n    \
                 <RestartOnFailure>\n      <Interval>PT1M</Interval>\n      <Count>255</Count>\n    </RestartOnFailure>\n  \
               </Settings>\n  \
               <Actions Context=\"Author\">\n    <Exec>\n      \
                 <Command>{}</Command>\n      <Arguments>{}</Arguments>\n    </Exec>\n  </Actions>\n\
             </Task>\n",
            escape_xml(&self.program),
            escape_xml(&arguments.join(" ")),
        )
    }
}

/// Returns true if `hospes service install` wrote the file.
pub(crate) fn is_ours(content: &str) -> bool {
    content.contains(MARK)
}

/// Returns the program and the `PATH` of a file of this program. A task has no `PATH` of its own.
pub(crate) fn program_and_path(content: &str, manager: ServiceManager) -> Option<(String, Option<String>)> {
    let between = |text: &str, start: &str, end: &str| {
        let (_, rest) = text.split_once(start)?;
        rest.split_once(end).map(|(found, _)| unescape_xml(found))
    };
    let string_after = |key: &str| {
        let (_, rest) = content.split_once(&format!("<key>{key}</key>"))?;
        between(rest, "<string>", "</string>")
    };
    let line = |key: &str| content.lines().find_map(|line| line.strip_prefix(key)).and_then(unquote_systemd);
    Some(match manager {
        ServiceManager::Systemd => {
            let path = line("Environment=").and_then(|word| word.strip_prefix("PATH=").map(str::to_owned));
            (line("ExecStart=")?.replace("$$", "$"), path)
        }
        ServiceManager::Launchd => (string_after("ProgramArguments")?, string_after("PATH")),
        ServiceManager::TaskScheduler => (between(content, "<Command>", "</Command>")?, None),
    })
}

/// Returns the first word of a setting of a unit, which is quoted.
fn unquote_systemd(setting: &str) -> Option<String> {
    let mut word = String::new();
    let mut letters = setting.strip_prefix('"')?.chars();
    loop {
        match letters.next()? {
            '"' => return Some(word.replace("%%", "%")),
            '\\' => word.push(letters.next()?),
            letter => word.push(letter),
        }
    }
}

/// Returns the folders that were created for a file, the outermost first.
pub(crate) fn created_folders(content: &str) -> Vec<String> {
    let line = content.lines().find_map(|line| line.split_once(FOLDERS));
    let folders =
        line.map(|(_, rest)| rest.trim_end_matches(" -->").replace("&#45;", "-")).unwrap_or_default();
    let folders = folders.split(':').filter(|folder| !folder.is_empty());
    folders.map(unescape_xml).collect()
}

/// Quotes a word for a unit. `%` begins a specifier; `$` begins a variable in a command, but not in `Environment=`.
fn quote_for_systemd(word: &str, is_command: bool) -> String {
    let word = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    let word = if is_command { word.replace('$', "$$") } else { word };
    format!("\"{word}\"")
}

/// Quotes an argument by the rules of the C runtime of Windows: backslashes are special only before a quotation mark.
fn quote_for_windows(word: &str) -> String {
    if !word.is_empty() && !word.contains([' ', '"']) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    let mut backslashes = 0;
    for letter in word.chars() {
        match letter {
            '\\' => backslashes += 1,
            '"' => {
                quoted.push_str(&"\\".repeat(backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        quoted.push(letter);
    }
    quoted.push_str(&"\\".repeat(backslashes));
    quoted.push('"');
    quoted
}

fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn unescape_xml(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> ServiceDefinition {
        ServiceDefinition {
            program: "/opt/a b/100%/hospes".to_owned(),
            arguments: ["up", "--config", "/home/me/$x & \"y\".toml"].map(str::to_owned).to_vec(),
            path: "/home/me/.local/bin:/usr/bin:/a--b & c".to_owned(),
            created_folders: vec!["/home/me/a".to_owned(), "/home/me/a/b--c & d".to_owned()],
        }
    }

    #[test]
    fn a_unit_quotes_each_word_and_no_specifier_is_expanded() {
        let unit = definition().render(ServiceManager::Systemd).unwrap();
        assert!(
            unit.contains(
                "\nExecStart=\"/opt/a b/100%%/hospes\" \"up\" \"--config\" \"/home/me/$$x & \\\"y\\\".toml\"\n"
            ),
            "{unit}"
        );
        assert!(unit.contains("\nEnvironment=\"PATH=/home/me/.local/bin:/usr/bin:/a--b & c\"\n"), "{unit}");
        for line in [
            "Type=notify",
            "Restart=on-failure",
            "KillMode=mixed",
            "NoNewPrivileges=yes",
            "WantedBy=default.target",
        ] {
            assert!(unit.lines().any(|one| one == line), "{line}: {unit}");
        }
    }

    #[test]
    fn a_task_starts_at_logon_with_least_privilege_and_quotes_for_windows() {
        let mut definition = definition();
        definition.program = r"C:\Program Files\hospes\hospes.exe".to_owned();
        definition.arguments = ["up", r"--config", r"C:\Users\me\a b\", ""].map(str::to_owned).to_vec();
        let task = definition.render(ServiceManager::TaskScheduler).unwrap();
        assert!(task.contains(r"<Command>C:\Program Files\hospes\hospes.exe</Command>"), "{task}");
        assert!(
            task.contains(r"<Arguments>up --config &quot;C:\Users\me\a b\\&quot; &quot;&quot;</Arguments>"),
            "{task}"
        );
        for part in
            ["<LogonTrigger>", "<RunLevel>LeastPrivilege<", "<Hidden>true<", "<LogonType>InteractiveToken<"]
        {
            assert!(task.contains(part), "{part}: {task}");
        }
        assert_eq!(quote_for_windows(r#"a\"b"#), r#""a\\\"b""#);
    }

    #[test]
    fn a_file_says_which_folders_were_created_for_it() {
        for manager in [ServiceManager::Systemd, ServiceManager::Launchd] {
            let file = definition().render(manager).unwrap();
            assert!(is_ours(&file));
            assert_eq!(created_folders(&file), definition().created_folders, "{file}");
        }
        assert!(!is_ours("[Service]\nExecStart=/bin/true\n"));
        assert!(created_folders("[Service]\n").is_empty());
    }

    #[test]
    fn program_and_path_are_read_back() {
        let mut definition = definition();
        definition.program = "/opt/a b/100%/$x \\ \"y\" & z/hospes".to_owned();
        for manager in [ServiceManager::Systemd, ServiceManager::Launchd, ServiceManager::TaskScheduler] {
            let file = definition.render(manager).unwrap();
            let path = (manager != ServiceManager::TaskScheduler).then(|| definition.path.clone());
            assert_eq!(program_and_path(&file, manager), Some((definition.program.clone(), path)), "{file}");
        }
    }

    /// A line break in a path would begin a setting of its own, such as `ExecStartPre=`.
    #[test]
    fn control_characters_are_refused() {
        let mut definition = definition();
        definition.path = "/bin\nExecStartPre=/bin/rm".to_owned();
        for manager in [ServiceManager::Systemd, ServiceManager::Launchd, ServiceManager::TaskScheduler] {
            assert_eq!(definition.render(manager), Err(definition.path.clone()));
        }
    }
}
