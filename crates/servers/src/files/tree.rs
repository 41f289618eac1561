//! Drawing of folder trees as text.

use hospes::Result;

use super::closed_folders::ClosedFolders;
use super::folder::{self, EntryKind};
use super::served_folders::ServedPath;
use crate::platform::FolderHandle;

/// Draws the content of a folder, with at most `most` entries in total.
pub(super) fn draw(place: &ServedPath<'_>, depth: usize, most: usize) -> Result<String> {
    let folder = place.open_folder()?;
    let mut drawing = TreeDrawing { text: place.shown(), closed: place.closed(), left: most, left_out: 0 };
    drawing.text.push('\n');
    drawing.folder(&folder, depth, &mut String::new()).map_err(|why| place.failed("list", &why))?;
    if drawing.left_out > 0 {
        drawing.text.push_str(&format!("({} more)\n", drawing.left_out));
    }
    Ok(drawing.text)
}

struct TreeDrawing<'c> {
    text: String,
    closed: &'c ClosedFolders,
    left: usize,
    left_out: usize,
}

impl TreeDrawing<'_> {
    fn folder(&mut self, folder: &FolderHandle, depth: usize, indent: &mut String) -> std::io::Result<()> {
        let entries = folder::entries(folder)?;
        let last = entries.len().saturating_sub(1);
        for (at, entry) in entries.iter().enumerate() {
            if self.left == 0 {
                self.left_out += entries.len() - at;
                return Ok(());
            }
            self.left -= 1;
            let (branch, below) = if at == last { ("└── ", "    ") } else { ("├── ", "│   ") };
            self.text.push_str(indent);
            self.text.push_str(branch);
            self.text.push_str(&entry.name.to_string_lossy());
            self.text.push_str(match entry.stat.kind() {
                EntryKind::Folder => "/\n",
                EntryKind::Link => " (link)\n",
                EntryKind::File | EntryKind::Other => "\n",
            });
            if entry.stat.kind() == EntryKind::Folder && depth > 1 {
                let length = indent.len();
                indent.push_str(below);
                // A folder that cannot be opened is skipped.
                if let Ok(inner) = folder::enter(folder, &entry.name, self.closed) {
                    let _ = self.folder(&inner, depth - 1, indent);
                }
                indent.truncate(length);
            }
        }
        Ok(())
    }
}
