//! `hospes audit export`: entries in order, to the standard output, a file or a syslog server.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use hospes_store::{AuditReader, RecordedEntry};

use super::syslog::SyslogSender;
use crate::args::AuditExportArgs;
use crate::enforcement::audit_error;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, escape_hidden};

/// Number of entries that are read at once.
const PAGE_SIZE: usize = 1000;

/// Target of entries.
enum ExportTarget {
    Stdout,
    File(BufWriter<File>),
    Syslog(SyslogSender),
}

/// Reason that an export ends.
enum ExportEnd {
    /// End of the standard output: its reader has gone.
    Closed,
    Failed(CliError),
}

pub(super) async fn export(record: &AuditReader, args: &AuditExportArgs, output: CliOutput) -> CliResult {
    let mut target = match (&args.file, &args.syslog) {
        (Some(file), _) => ExportTarget::File(BufWriter::new(open_file(file, args.after > 0)?)),
        (None, Some(url)) => {
            ExportTarget::Syslog(SyslogSender::connect(url, args.syslog_ca.as_deref()).await?)
        }
        (None, None) => ExportTarget::Stdout,
    };
    let (mut after, mut count, mut delivered) = (args.after, 0_u64, args.after);
    let ended = loop {
        let page = match record.after(after, PAGE_SIZE).await {
            Ok(page) => page,
            Err(error) => break Err(ExportEnd::Failed(audit_error(&error))),
        };
        let (Some(first), Some(last)) = (page.first(), page.last()) else { break Ok(()) };
        if args.after > 0 && after == args.after && first.seq > after + 1 {
            let gone = first.seq - after - 1;
            output.warn(format_args!("{gone} entries after {after} were deleted before this export"));
        }
        after = last.seq;
        let written = target.write_page(record, &page, args.arguments).await;
        if written.is_err() {
            break written;
        }
        (count, delivered) = (count + page.len() as u64, after);
    };
    let ended = match ended {
        Ok(()) => target.finish().await.map_err(ExportEnd::Failed),
        ended => ended,
    };
    match ended {
        Err(ExportEnd::Closed) => Ok(()),
        Err(ExportEnd::Failed(failure)) => {
            // Syslog has no acknowledgements, so all of it is sent again.
            let delivered = if args.syslog.is_some() { args.after } else { delivered };
            let hint =
                format!("`--after {delivered}` goes on; entries may arrive twice, with the same number");
            Err(if failure.hint.is_none() { failure.hint(hint) } else { failure })
        }
        Ok(()) => {
            let noun = if count == 1 { "entry" } else { "entries" };
            output.say(format_args!("exported {count} {noun}; to go on later: --after {delivered}"));
            Ok(())
        }
    }
}

/// Opens a file that only its owner can read. One with content is added to only if the export goes on.
fn open_file(file: &Path, goes_on: bool) -> CliResult<File> {
    let failed =
        |error: io::Error| CliError::usage(format!("cannot write {}", file.display())).with_cause(&error);
    match hospes_fs::create_private(file) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !goes_on {
                let message = format!("{} exists", file.display());
                let hint = "name another file; to add to this one, say with --after where its last line ends";
                return Err(CliError::usage(message).hint(hint));
            }
            OpenOptions::new().append(true).open(file).map_err(failed)
        }
        made => made.map_err(failed),
    }
}

impl ExportTarget {
    async fn write_page(
        &mut self,
        record: &AuditReader,
        page: &[RecordedEntry],
        with_arguments: bool,
    ) -> Result<(), ExportEnd> {
        let mut lines = Vec::with_capacity(page.len());
        for one in page {
            let line = json_line(record, one, with_arguments).await.map_err(ExportEnd::Failed)?;
            lines.push(line);
        }
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                for line in lines {
                    writeln!(out, "{line}").map_err(|_| ExportEnd::Closed)?;
                }
            }
            Self::File(file) => {
                for line in lines {
                    writeln!(file, "{line}").map_err(|error| ExportEnd::Failed(file_error(&error)))?;
                }
                file.flush().map_err(|error| ExportEnd::Failed(file_error(&error)))?;
            }
            Self::Syslog(sender) => {
                for (one, line) in page.iter().zip(lines) {
                    sender.send(one, &line).await.map_err(ExportEnd::Failed)?;
                }
                sender.flush().await.map_err(ExportEnd::Failed)?;
            }
        }
        Ok(())
    }

    async fn finish(self) -> CliResult {
        match self {
            Self::Stdout => Ok(()),
            Self::File(file) => {
                let file = file.into_inner().map_err(|error| file_error(error.error()))?;
                file.sync_all().map_err(|error| file_error(&error))
            }
            Self::Syslog(sender) => sender.finish().await,
        }
    }
}

fn file_error(error: &io::Error) -> CliError {
    CliError::usage("cannot write the exported entries").with_cause(error)
}

async fn json_line(record: &AuditReader, one: &RecordedEntry, with_arguments: bool) -> CliResult<String> {
    let mut value = serde_json::to_value(one).unwrap_or_default();
    if with_arguments {
        let opened = record.unseal(one).await.map_err(|error| audit_error(&error))?;
        value["arguments"] = opened.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    }
    Ok(escape_hidden(&value.to_string()))
}
