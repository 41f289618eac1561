//! `hospes bundle`: packs a folder into an MCP bundle, and judges bundles.

mod check;

use std::path::{Path, PathBuf};

use hospes_bundle::pack::{file_name, read_manifest};
use hospes_bundle::{FindingLevel, PackError, PackOptions, PackedBundle, ReviewFinding, pack};
use serde_json::{Value, json};

use crate::args::BundleArgs;
use crate::exit::{CliError, CliResult};
use crate::output::{BOLD, CliOutput, DIM, RED, YELLOW, paint, printable, result_width, wrap_text};
use crate::paths::display_path;

/// Maximum number of files that are listed one by one.
const MAX_LISTED: usize = 24;
/// Columns of the names of rows, with the margin.
const LABEL_WIDTH: usize = 14;

pub(crate) fn run(args: &BundleArgs, output: CliOutput) -> CliResult {
    let path = args.path.clone().unwrap_or_else(|| PathBuf::from("."));
    if !path.exists() {
        return Err(CliError::usage(format!("{} does not exist", shown(&path))));
    }
    if args.check {
        return check::run(&path, output);
    }
    if path.is_file() {
        return Err(CliError::usage(format!("{} is a file; a folder is packed", shown(&path)))
            .hint("--check judges a bundle; without it, name the folder that has the manifest.json"));
    }
    let file = match &args.output {
        Some(file) => file.clone(),
        None => {
            let manifest = read_manifest(&path).map_err(|error| describe(&error, &path))?;
            PathBuf::from(file_name(&manifest))
        }
    };
    let options = PackOptions::default().with_allow_secrets(args.allow_secrets);
    let packed = pack(&path, &file, options).map_err(|error| describe(&error, &path))?;
    if output.json {
        output.value(&packed_json(&packed));
        return Ok(());
    }
    output.result(packed_text(&packed));
    for finding in &packed.findings {
        output.warn(printable(&finding.to_string()));
    }
    output.hint(format_args!("`hospes bundle --check {}` shows what others see of it", shown(&file)));
    Ok(())
}

/// Converts a failure to pack, with a hint for what can be mended.
fn describe(error: &PackError, folder: &Path) -> CliError {
    let hint = match error {
        PackError::NoManifest { .. } => {
            "name the folder that has the manifest.json; the documentation of bundles shows the smallest one"
                .to_owned()
        }
        PackError::Manifest(_) | PackError::Faults(_) => {
            format!("nothing was written; `hospes bundle --check {}` lists everything", shown(folder))
        }
        PackError::Secrets(_) => {
            "nothing was written; name them in .mcpbignore, or pack them with --allow-secrets".to_owned()
        }
        PackError::NoBundle { .. } => "choose another name with --output".to_owned(),
        _ => "nothing was written".to_owned(),
    };
    let message = printable(&error.to_string());
    let failure = CliError::usage(message).hint(hint);
    match std::error::Error::source(error) {
        Some(cause) => failure.with_cause(cause),
        None => failure,
    }
}

fn shown(path: &Path) -> String {
    printable(&display_path(path))
}

fn packed_json(packed: &PackedBundle) -> Value {
    json!({
        "file": packed.path,
        "name": packed.manifest.name,
        "version": packed.manifest.version,
        "size": packed.size,
        "unpackedSize": packed.unpacked_size(),
        "sha256": packed.sha256,
        "files": packed.files.iter().map(|file| json!({ "name": file.name, "size": file.size })).collect::<Vec<_>>(),
        "leftOut": packed.left_out,
        "findings": packed.findings.iter().map(finding_json).collect::<Vec<_>>(),
    })
}

fn finding_json(finding: &ReviewFinding) -> Value {
    let level = if finding.level == FindingLevel::Error { "error" } else { "warning" };
    json!({ "level": level, "subject": finding.subject, "message": finding.message })
}

fn packed_text(packed: &PackedBundle) -> String {
    let title = format!("{} {}", packed.manifest.title(), packed.manifest.version);
    let mut report = BundleReport::new(&title);
    let files = packed.files.iter().map(|file| (file.name.as_str(), file.size));
    let count = packed.files.len();
    let total = format!("{}, {}", counted(count, "file"), size_text(packed.unpacked_size()));
    report.row("file", &format!("{} · {}", shown(&packed.path), size_text(packed.size)));
    report.row("sha256", &packed.sha256);
    report.row("content", &total);
    report.list(&grouped(files));
    if packed.left_out > 0 {
        report.row(
            "left out",
            &format!("{} by the usual patterns or .mcpbignore", counted(packed.left_out, "entry")),
        );
    }
    report.text
}

/// Returns the files with their sizes; of many, the folders at the top.
fn grouped<'f>(files: impl Iterator<Item = (&'f str, u64)> + Clone) -> Vec<(String, u64)> {
    let count = files.clone().count();
    if count <= MAX_LISTED {
        return files.map(|(name, size)| (name.to_owned(), size)).collect();
    }
    let mut groups: std::collections::BTreeMap<&str, (usize, u64)> = std::collections::BTreeMap::new();
    for (name, size) in files {
        let group = name.split_once('/').map_or(name, |(folder, _)| folder);
        let (number, total) = groups.entry(group).or_default();
        *number += 1;
        *total += size;
    }
    let line = |(group, (number, total)): (&str, (usize, u64))| match number {
        1 => (group.to_owned(), total),
        _ => (format!("{group}/ ({})", counted(number, "file")), total),
    };
    let mut lines: Vec<(String, u64)> = groups.into_iter().map(line).collect();
    let more = lines.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        let rest: u64 = lines.drain(MAX_LISTED..).map(|(_, size)| size).sum();
        lines.push((format!("and {more} more"), rest));
    }
    lines
}

fn counted(count: usize, what: &str) -> String {
    match (count, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        _ => format!("{count} {what}s"),
    }
}

/// Formats a size in bytes for people.
fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];

    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Text with a title and rows that are aligned and folded at the width of the terminal.
struct BundleReport {
    text: String,
}

impl BundleReport {
    fn new(title: &str) -> Self {
        Self { text: format!("{}\n", paint(BOLD, printable(title))) }
    }

    fn row(&mut self, label: &str, value: &str) {
        self.styled_row(DIM, label, &printable(value));
    }

    fn styled_row(&mut self, style: &str, label: &str, value: &str) {
        for (index, line) in value.lines().enumerate() {
            let folded = wrap_text(line, LABEL_WIDTH, result_width());
            let column = if index == 0 { format!("  {label:<12}") } else { " ".repeat(LABEL_WIDTH) };
            let folded = folded.get(LABEL_WIDTH..).unwrap_or_default();
            self.text.push_str(&format!("{}{folded}\n", paint(style, column)));
        }
    }

    fn list(&mut self, files: &[(String, u64)]) {
        for (name, size) in files {
            let size = size_text(*size);
            self.text.push_str(&format!("  {size:>11} {}\n", printable(name)));
        }
    }

    fn findings(&mut self, findings: &[ReviewFinding]) {
        for finding in findings {
            let (style, label) = match finding.level {
                FindingLevel::Error => (RED, "error"),
                _ => (YELLOW, "warning"),
            };
            self.styled_row(style, label, &printable(&finding.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_digit_behind_the_point() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1.0 MiB"),
            (512 * 1024 * 1024, "512.0 MiB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }

    #[test]
    fn many_files_are_grouped_by_their_folders() {
        let names: Vec<String> = (0..30).map(|number| format!("lib/{number}")).collect();
        let files = names.iter().map(|name| (name.as_str(), 2)).chain([("a", 1)]);
        assert_eq!(grouped(files), [("a".to_owned(), 1), ("lib/ (30 files)".to_owned(), 60)]);
        assert_eq!(counted(1, "entry"), "1 entry");
        assert_eq!(counted(2, "entry"), "2 entries");
    }
}
