//! The templates of `packaging/`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

/// Templates below a folder.
#[derive(Debug)]
pub(crate) struct Templates {
    folder: PathBuf,
    environment: Environment<'static>,
}

impl Templates {
    /// Uses the templates of this folder.
    pub(crate) fn new(folder: PathBuf) -> Self {
        let mut environment = Environment::new();
        // A name that nobody fills in would be a package with a hole.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_keep_trailing_newline(true);
        Self { folder, environment }
    }

    /// Fills a template in.
    pub(crate) fn render(&self, name: &str, values: &Value) -> Result<String> {
        let path = self.folder.join(name);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        self.environment
            .render_str(&text, values)
            .with_context(|| format!("in the template {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    #[test]
    fn a_name_without_a_value_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "{{ x }} & {{ y }}\n").unwrap();
        let templates = Templates::new(folder.path().to_path_buf());
        assert_eq!(templates.render("a", &context! { x => "<1>", y => 2 }).unwrap(), "<1> & 2\n");
        assert!(templates.render("a", &context! { x => 1 }).is_err());
    }
}
