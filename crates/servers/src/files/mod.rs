//! Server for files. It lists, reads and searches the given folders, and writes to them if allowed.

mod atomic_write;
mod closed_folders;
mod config;
mod edit;
mod entry_location;
mod folder;
mod paths;
mod pattern;
mod read;
mod search;
mod served_folders;
mod state;
#[cfg(test)]
mod system_tests;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod tree;
mod writing;

use std::sync::Arc;

use hospes::prelude::*;
use hospes::server::{Json, Resource, Uri};
use hospes::{IntoServer, Server};

use closed_folders::ClosedFolders;
use config::FolderScope;
use folder::EntryKind;
use served_folders::ServedFolders;
use state::{FilesServer, run_blocking};

pub use config::FilesConfig;
pub use served_folders::FilesError;
pub(crate) use served_folders::parse_path;

/// Creates a server for files.
///
/// The server lists, reads and searches. With [`FilesConfig::write`] it also writes, edits and moves files and creates
/// folders, and with [`FilesConfig::delete`] it deletes. Nothing outside the folders can be accessed: neither by `..`
/// nor by links, nor by a path that is replaced while a call runs. Everything is opened relative to a folder's
/// handle without following links. A file is written atomically: concurrent readers, and readers after a crash, see
/// either the old or the new content whole.
///
/// ```no_run
/// # async fn example() -> hospes::Result<()> {
/// use hospes_servers::{FilesConfig, files};
///
/// hospes::serve(files(FilesConfig::new(["/home/me/notes"]).write(true))?).await
/// # }
/// ```
///
/// | tool | description |
/// |---|---|
/// | `folders` | lists the served folders |
/// | `list`, `tree`, `stat`, `search` | lists a folder; shows the tree below it; returns metadata of a file; finds files by name and text |
/// | `read` | returns a file, or some of its lines |
/// | `write_file`, `edit_file` | writes a whole text file; replaces exact parts of it and shows the difference |
/// | `create_directory`, `move_file` | creates folders; moves or renames, never replacing an entry |
/// | `delete_file` | deletes a file, a link or an empty folder |
///
/// Every file is a resource, `file:///…`. Subscribers are notified when this server changes it.
///
/// # Errors
/// If there is no folder to serve, or one of them is not a folder or cannot be opened.
pub fn files(config: FilesConfig) -> Result<Server, FilesError> {
    let FilesConfig { folders, closed, scope, writes, deletes, limits } = config;
    let closed = ClosedFolders::new(&closed);
    let roots = if scope == FolderScope::Client {
        ServedFolders::none(closed)
    } else {
        ServedFolders::open(&folders, closed)?
    };
    let files = FilesServer::new(roots, scope, limits);
    let mut roots: Vec<_> = files.0.roots.all().iter().map(|place| (place.uri(), place.shown())).collect();
    // One folder may be given twice, but a resource is listed once.
    roots.sort();
    roots.dedup();
    let mut server = files.clone().into_server();
    for (uri, name) in roots {
        let folder = Resource::new(uri).name(name).description("A served folder.").mime(paths::FOLDER);
        let files = files.clone();
        server = server.resource(folder, move |ctx: Context, uri: Uri| {
            // The handler is called many times, and each future needs its own clone.
            let files = files.clone();
            async move { files.file(&ctx, uri).await }
        });
    }
    if writes {
        server = server.add(writing::FileWriteTools(files.clone())).instructions(
            "Lists, reads, searches and writes files in the folders that `folders` lists. Paths are absolute, or \
             relative to one of these folders. To change a part of a file, read it first and use `edit_file`.",
        );
    }
    if deletes {
        server = server.add(writing::FileDeleteTools(files));
    }
    Ok(server)
}

/// A file or a folder in a list.
#[derive(Serialize, JsonSchema)]
struct Entry {
    name: String,
    kind: EntryKind,
    /// In bytes; of files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// When it last changed, as in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
}

/// What is in a folder.
#[derive(Serialize, JsonSchema)]
struct Listed {
    folder: String,
    entries: Vec<Entry>,
    /// How many more there are than this list has.
    #[serde(skip_serializing_if = "is_zero")]
    left_out: usize,
}

/// What is known of a file or a folder.
#[derive(Serialize, JsonSchema)]
struct Stat {
    path: String,
    kind: EntryKind,
    /// In bytes.
    size: u64,
    /// When it last changed, as in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// Its media type, by its name; of files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<&'static str>,
    /// Who may do what with it, as in `rw-r--r--`.
    permissions: String,
    uri: String,
}

/// The folders that are served.
#[derive(Serialize, JsonSchema)]
struct Folders {
    folders: Vec<String>,
}

/// Lists, reads and searches files in the folders that `folders` names, and changes nothing. Paths are absolute, or
/// relative to one of these folders.
#[hospes::server(name = "files", title = "Files")]
impl FilesServer {
    /// The folders that are served. Everything under them can be read, nothing else.
    #[tool(title = "Served folders", read_only, idempotent, open_world = false)]
    async fn folders(&self, ctx: &Context) -> Result<Json<Folders>> {
        self.run(ctx, |files| Ok(Json(Folders { folders: files.roots.shown() }))).await
    }

    /// What is in a folder: names, kinds, sizes and times.
    #[tool(title = "List a folder", read_only, idempotent, open_world = false)]
    async fn list(
        &self,
        ctx: &Context,
        /// The folder; may be left out where only one is served.
        path: Option<String>,
    ) -> Result<Json<Listed>> {
        self.run(ctx, move |files| {
            let place = files.folder(path.as_deref())?;
            let mut all = folder::entries(&place.open_folder()?).map_err(|why| place.failed("list", &why))?;
            let left_out = all.len().saturating_sub(files.limits.entries);
            all.truncate(files.limits.entries);
            let entries = all.into_iter().map(|entry| Entry {
                name: entry.name.to_string_lossy().into_owned(),
                kind: entry.stat.kind(),
                size: (entry.stat.kind() == EntryKind::File).then_some(entry.stat.size()),
                modified: folder::modified(&entry.stat),
            });
            Ok(Json(Listed { folder: place.shown(), entries: entries.collect(), left_out }))
        })
        .await
    }

    /// The content of a file: its text, all of it or some lines; or its bytes, where it is no text.
    #[tool(title = "Read a file", read_only, idempotent, open_world = false)]
    async fn read(
        &self,
        ctx: &Context,
        path: String,
        /// The first line to read, counted from 1.
        #[arg(range(min = 1))]
        from_line: Option<u64>,
        /// How many lines to read; to the end unless said.
        #[arg(range(min = 1))]
        lines: Option<u64>,
    ) -> Result<ContentBlock> {
        self.run(ctx, move |files| {
            let place = files.roots.find(&path)?;
            if from_line.is_some() || lines.is_some() {
                let text = read::lines(&place, from_line.unwrap_or(1), lines, files.limits.read_bytes)?;
                return Ok(ContentBlock::text(text));
            }
            let bytes = read::whole(&place, files.limits.read_bytes)?;
            Ok(read::as_content(&place, bytes))
        })
        .await
    }

    /// Finds files and folders by name, and files by what they say.
    #[tool(title = "Search", read_only, idempotent, open_world = false)]
    async fn search(
        &self,
        ctx: &Context,
        /// What to look for, such as `*.rs`, `**/test*/*.{md,txt}` or `[Rr]eadme*`. Without a `/` it is matched with
        /// names, else with paths from the folder that is searched.
        pattern: String,
        /// Where to look; in all that is served unless said.
        path: Option<String>,
        /// Only files with a line that has this text in it, in upper or lower case.
        text: Option<String>,
    ) -> Result<Json<search::Found>> {
        self.run(ctx, move |files| {
            let places = match path {
                Some(path) => vec![files.roots.find(&path)?],
                None => files.roots.all(),
            };
            search::search(&places, &pattern, text.as_deref(), files.limits).map(Json)
        })
        .await
    }

    /// What is in a folder and in the folders in it, drawn as a tree.
    #[tool(title = "Show a tree", read_only, idempotent, open_world = false)]
    async fn tree(
        &self,
        ctx: &Context,
        /// The folder; may be left out where only one is served.
        path: Option<String>,
        /// How many levels to draw.
        #[arg(default = 3, range(min = 1, max = 32))]
        depth: u8,
    ) -> Result<String> {
        self.run(ctx, move |files| {
            tree::draw(&files.folder(path.as_deref())?, depth.into(), files.limits.entries)
        })
        .await
    }

    /// What is known of a file or a folder: kind, size, time, media type.
    #[tool(title = "Inspect a file", read_only, idempotent, open_world = false)]
    async fn stat(&self, ctx: &Context, path: String) -> Result<Json<Stat>> {
        self.run(ctx, move |files| {
            let place = files.roots.find(&path)?;
            let stat = place.stat()?;
            Ok(Json(Stat {
                path: place.shown(),
                kind: stat.kind(),
                size: stat.size(),
                modified: folder::modified(&stat),
                media_type: (stat.kind() == EntryKind::File).then(|| place.media_type()).flatten(),
                permissions: stat.permissions(),
                uri: place.uri(),
            }))
        })
        .await
    }

    /// A file in one of the folders that are served, or such a folder: then its entries, one a line.
    #[resource("file:///{+path}", name = "File")]
    async fn file(&self, ctx: &Context, uri: Uri) -> Result<Option<ResourceContents>> {
        self.run(ctx, move |files| {
            // Paths outside and paths that do not exist are indistinguishable here.
            let Ok(place) = files.roots.find(&uri.0) else { return Ok(None) };
            if place.stat()?.kind() == EntryKind::Folder {
                return paths::folder_contents(files, &place, uri.0).map(Some);
            }
            let bytes = read::whole(&place, files.limits.read_bytes)?;
            Ok(Some(read::as_contents(&place, uri.0, bytes)))
        })
        .await
    }

    #[complete(file.path)]
    async fn complete_path(&self, typed: &str) -> Result<Vec<String>> {
        // The client's roots cannot be requested here.
        if self.0.scope != FolderScope::Folders {
            return Ok(Vec::new());
        }
        let typed = typed.to_owned();
        run_blocking(Arc::clone(&self.0), move |files| Ok(paths::completions(files, &typed))).await
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}
