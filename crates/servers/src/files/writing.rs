//! Tools that write or delete, available only if enabled.

use hospes::prelude::*;
use hospes::server::{IntoToolResult, Json, ServerHandle};

use super::atomic_write::{self, OverwriteMode};
use super::edit::{self, Edit};
use super::entry_location::EntryLocation;
use super::folder::EntryKind;
use super::state::{FilesServer, FilesState};

/// The tools that write.
pub(super) struct FileWriteTools(pub(super) FilesServer);

/// The tool that deletes.
pub(super) struct FileDeleteTools(pub(super) FilesServer);

/// What was written.
#[derive(Serialize, JsonSchema)]
struct Written {
    path: String,
    uri: String,
    /// How long the file is.
    bytes: usize,
    /// Whether there was no file before.
    created: bool,
}

/// What was edited.
#[derive(Serialize, JsonSchema)]
struct Edited {
    path: String,
    uri: String,
    /// How many places were changed.
    replaced: usize,
    /// Whether the file was written.
    written: bool,
    /// The difference, as `diff -u` shows it.
    diff: String,
}

/// The folder that is there.
#[derive(Serialize, JsonSchema)]
struct Made {
    path: String,
    /// Whether it was not there before.
    created: bool,
}

/// What was moved.
#[derive(Serialize, JsonSchema)]
struct Moved {
    from: String,
    to: String,
}

/// What was deleted.
#[derive(Serialize, JsonSchema)]
struct Deleted {
    path: String,
    kind: EntryKind,
}

/// A difference as text, with the other members as structured content.
struct EditReport(Edited);

impl IntoToolResult for EditReport {
    fn into_tool_result(self) -> Result<CallToolResult> {
        let note = if self.0.written { "" } else { "(not written: dry_run)\n" };
        let mut result = CallToolResult::structured(&self.0)?;
        result.content = vec![ContentBlock::text(format!("{note}{}", self.0.diff))];
        Ok(result)
    }

    fn output_schema() -> Option<RawJson> {
        <Json<Edited> as IntoToolResult>::output_schema()
    }
}

#[hospes::server]
impl FileWriteTools {
    /// Writes a text file: a new one, or in place of what it says now, all of it. To change a part of a file, use
    /// `edit_file`. The folder has to be there.
    #[tool(title = "Write a file", destructive, idempotent, open_world = false)]
    async fn write_file(
        &self,
        ctx: &Context,
        server: &ServerHandle,
        path: String,
        /// All that the file is to say.
        content: String,
        /// Whether to refuse where there is a file already.
        #[arg(default)]
        only_new: bool,
    ) -> Result<Json<Written>> {
        let written = self.0.run(ctx, move |files| {
            files.check_write_size(content.len())?;
            let spot = files.roots.resolve_write_target(&path)?;
            // Held until the closure ends, so that checks and replacement are not interleaved with another call's.
            let _turn = files.lock_writes();
            let created = atomic_write::save(
                &spot,
                content.as_bytes(),
                if only_new { &OverwriteMode::Nothing } else { &OverwriteMode::File },
            )?;
            let place = spot.place();
            Ok(Written { path: place.shown(), uri: place.uri(), bytes: content.len(), created })
        });
        let written = written.await?;
        server.resource_updated(&written.uri);
        Ok(Json(written))
    }

    /// Changes parts of a text file: each edit names word for word what is to go, and what comes in its place. Either all
    /// edits are made or none. Answers with the difference.
    #[tool(title = "Edit a file", destructive, open_world = false)]
    async fn edit_file(
        &self,
        ctx: &Context,
        server: &ServerHandle,
        path: String,
        /// Made one after the other; each sees what those before it did.
        #[arg(length(min = 1, max = 100))]
        edits: Vec<Edit>,
        /// Whether only to show the difference, and write nothing.
        #[arg(default)]
        dry_run: bool,
    ) -> Result<EditReport> {
        let edited = self.0.run(ctx, move |files| {
            let place = files.roots.find(&path)?;
            // Locked before the file is read, so that of two concurrent edits none is lost.
            let _turn = files.lock_writes();
            let (old, stat) = super::read::text(&place, files.limits.write_bytes)?;
            let limit = usize::try_from(files.limits.write_bytes).unwrap_or(usize::MAX);
            let (new, replaced) = edit::apply(&old, &edits, limit)?;
            let written = !dry_run && new != old;
            if written {
                let spot = files.roots.resolve_write_target(&place.shown())?;
                atomic_write::save(&spot, new.as_bytes(), &OverwriteMode::This(stat))?;
            }
            let diff = edit::diff(&place.shown(), &old, &new);
            Ok(Edited { path: place.shown(), uri: place.uri(), replaced, written: !dry_run, diff })
        });
        let edited = edited.await?;
        if edited.written {
            server.resource_updated(&edited.uri);
        }
        Ok(EditReport(edited))
    }

    /// Makes a folder, and those above it that are missing. That it is there already is no mistake.
    #[tool(title = "Create a folder", destructive = false, idempotent, open_world = false)]
    async fn create_directory(&self, ctx: &Context, path: String) -> Result<Json<Made>> {
        let make = move |files: &FilesState| {
            let _turn = files.lock_writes();
            let (path, created) = files.roots.make(&path)?;
            Ok(Json(Made { path: path.display().to_string(), created }))
        };
        self.0.run(ctx, make).await
    }

    /// Moves or renames a file or a folder. Nothing may be at the new place yet, and its folder has to be there.
    #[tool(title = "Move a file", destructive, open_world = false)]
    async fn move_file(
        &self,
        ctx: &Context,
        server: &ServerHandle,
        /// What is to be moved.
        source: String,
        /// Where it is to be, with its new name.
        destination: String,
    ) -> Result<Json<Moved>> {
        let moved = self.0.run(ctx, move |files| {
            let (from, to) = (files.roots.spot(&source)?, files.roots.spot(&destination)?);
            check_not_closed(&from)?;
            let _turn = files.lock_writes();
            atomic_write::rename(&from, &to)?;
            Ok((from.place().uri(), to.place().uri(), Moved { from: from.shown(), to: to.shown() }))
        });
        let (from, to, moved) = moved.await?;
        server.resource_updated(&from);
        server.resource_updated(&to);
        Ok(Json(moved))
    }
}

#[hospes::server]
impl FileDeleteTools {
    /// Deletes a file, a link (not what it leads to), or an empty folder. It cannot be had back.
    #[tool(title = "Delete a file", destructive, open_world = false)]
    async fn delete_file(&self, ctx: &Context, server: &ServerHandle, path: String) -> Result<Json<Deleted>> {
        let deleted = self.0.run(ctx, move |files| {
            let spot = files.roots.spot(&path)?;
            check_not_closed(&spot)?;
            let _turn = files.lock_writes();
            let kind = atomic_write::delete(&spot)?;
            Ok((spot.place().uri(), Deleted { path: spot.shown(), kind }))
        });
        let (uri, deleted) = deleted.await?;
        server.resource_updated(&uri);
        Ok(Json(deleted))
    }
}

/// Returns an error if the entry is closed or contains a closed folder.
fn check_not_closed(spot: &EntryLocation<'_>) -> Result<()> {
    if spot.folder.closed().lies_in(&spot.place().path()) {
        return Err(Error::msg(format!(
            "{} cannot be moved: its contents are closed to this server",
            spot.shown()
        )));
    }
    Ok(())
}
