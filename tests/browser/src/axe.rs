//! Accessibility of a page, as axe-core judges it.

use crate::TestBrowser;

/// Runs the rules and returns what weighs `serious` or `critical`: the rule, and the elements that break it.
const SCRIPT: &str = "
    const { violations } = await axe.run(document, { resultTypes: ['violations'] });
    return violations.filter(({ impact }) => impact === 'serious' || impact === 'critical').map(({ id, help, nodes }) => (
      `${id} (${help}): ${nodes.map(({ html, any }) => `${html.slice(0, 200)} ${any[0]?.message ?? ''}`).join(' | ')}`));";

impl TestBrowser {
    /// Sets the color scheme that the page is told the person prefers: `light` or `dark`.
    ///
    /// # Panics
    /// If the browser cannot.
    pub async fn set_color_scheme(&self, scheme: &str) {
        let feature = serde_json::json!({ "name": "prefers-color-scheme", "value": scheme });
        self.devtools("Emulation.setEmulatedMedia", serde_json::json!({ "features": [feature] })).await;
    }

    /// Returns the serious and critical findings of axe-core on the page. `None` if the environment names no axe-core.
    ///
    /// # Panics
    /// If it cannot be read or fails.
    pub async fn find_accessibility_problems(&self) -> Option<Vec<String>> {
        let file = crate::program_from_env("HOSPES_AXE")?;
        if self.run("return typeof axe === 'undefined'").await == true {
            let source = std::fs::read_to_string(&file).expect("axe-core");
            // The driver runs it beside the page, so the page's policy for scripts stays as it is.
            self.run(&format!("{source}\nwindow.axe = axe;")).await;
        }
        Some(serde_json::from_value(self.run(SCRIPT).await).expect("a list of findings"))
    }
}
