//! Choice among several packages of one application. Only one of them runs, and it cannot be told from the files which.

use hospes_host::config::applications::ApplicationFile;

use crate::exit::{CliError, CliResult};
use crate::output::printable;
use crate::paths::display_path;

/// Asks which package is meant. Without an answer nothing is guessed.
pub(super) fn choose_package(
    packages: &[ApplicationFile],
    ask: impl FnOnce(String) -> Option<String>,
) -> CliResult<&ApplicationFile> {
    let name = packages.first().map_or("the application", |first| first.application.name);
    let mut question = format!("There are several packages of {name}:\n");
    for (number, package) in packages.iter().enumerate() {
        question.push_str(&format!("  {}  {}\n", number + 1, printable(&display_path(&package.path))));
    }
    question.push_str("Which one do you use? [number] ");
    let chosen = ask(question).and_then(|answer| answer.trim().parse::<usize>().ok());
    chosen.and_then(|number| packages.get(number.checked_sub(1)?)).ok_or_else(|| {
        CliError::usage(several(packages))
            .hint("run the command in a terminal and choose one, or remove the others")
    })
}

/// Describes the packages.
pub(super) fn several(packages: &[ApplicationFile]) -> String {
    let name = packages.first().map_or("the application", |first| first.application.name);
    let places: Vec<String> = packages.iter().map(|package| display_path(&package.path)).collect();
    format!("there are several packages of {name}, and only one of them runs: {}", places.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hospes_host::config::applications::{Application, ApplicationFolders, SystemKind};

    #[test]
    fn one_of_several_packages_is_chosen_by_the_person_and_never_guessed() {
        let home = tempfile::tempdir().unwrap();
        for package in ["Claude_one", "Claude_two"] {
            let folder = format!("AppData/Local/Packages/{package}/LocalCache/Roaming/Claude");
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        let folders = ApplicationFolders::new(SystemKind::Windows, home.path(), |_| None);
        let packages = folders.packaged(Application::find("claude-desktop").unwrap());
        assert_eq!(packages.len(), 2);
        let chosen = choose_package(&packages, |question| {
            assert!(question.contains("Claude_one") && question.contains("Claude_two"), "{question}");
            Some("2".to_owned())
        });
        assert_eq!(chosen.unwrap().path, packages[1].path);
        for answer in [None, Some("0"), Some("3"), Some("")] {
            assert!(choose_package(&packages, |_| answer.map(str::to_owned)).is_err(), "{answer:?}");
        }
    }
}
