//! `hospes audit verify`.

use hospes_store::{AuditReader, SharedTamperEvidence, StoreError, VerifiedChain, VerifiedSharedLog};

use crate::args::AuditVerifyArgs;
use crate::enforcement::audit_error;
use crate::exit::{CliError, CliResult};
use crate::output::{CliOutput, DIM, GREEN, paint, printable};

pub(super) async fn verify(record: &AuditReader, args: &AuditVerifyArgs, output: CliOutput) -> CliResult {
    match record {
        AuditReader::Local(log) => {
            let verified = log.verify(args.noted).await.map_err(|error| audit_error(&error))?;
            let place = verified.last.map(|place| place.to_string());
            if output.json {
                output.value(&serde_json::json!({
                    "entries": verified.entries,
                    "forgotten": verified.cut,
                    "place": place,
                }));
                return Ok(());
            }
            let text = summary(verified.entries, "", verified.cut);
            output.result(text + &noted_line(place.as_deref()));
        }
        AuditReader::Shared(log) => {
            let verified = log.verify(args.noted).await.map_err(|error| shared_error(&error))?;
            if output.json {
                output.value(&shared_json(&verified));
                return Ok(());
            }
            output.result(shared_text(&verified));
        }
        _ => return Err(CliError::usage("this audit log cannot be verified")),
    }
    Ok(())
}

/// Returns the error of a record of all nodes, and what to do.
fn shared_error(error: &StoreError) -> CliError {
    let StoreError::SharedTampered(found) = error else { return audit_error(error) };
    let hint = match found {
        SharedTamperEvidence::Chain { .. } | SharedTamperEvidence::WentBack { .. } => {
            "compare with the file of that node: `hospes audit verify --local` and `hospes audit search --local` there, which \
             have no decisions; find out who can change the database, and restore it from a backup"
        }
        SharedTamperEvidence::NotAsNoted { .. } => {
            "the database was created anew or restored from an older backup since the anchor was noted; if nobody did \
             that, find out who can change the database"
        }
        _ => {
            "find out who can change the database, and compare it with a backup; the entries are also in the files of \
             the nodes (`--local`)"
        }
    };
    audit_error(error).hint(hint)
}

fn summary(entries: u64, further: &str, cut: u64) -> String {
    let noun = if entries == 1 { "entry" } else { "entries" };
    let mut text = format!("{} {entries} {noun}{further}, all intact", paint(GREEN, "verified:"));
    if cut > 0 {
        text.push_str(&format!(", after {cut} expired entries"));
    }
    text
}

/// Returns the line with what to store elsewhere.
fn noted_line(place: Option<&str>) -> String {
    let line = |place| format!("\n{} {place}", paint(DIM, "store elsewhere, for --noted:"));
    place.map(line).unwrap_or_default()
}

fn shared_json(verified: &VerifiedSharedLog) -> serde_json::Value {
    let chain = |chain: &VerifiedChain| {
        serde_json::json!({
            "node": chain.node,
            "chain": chain.id,
            "entries": chain.entries,
            "last": chain.last,
            "missingBefore": chain.missing_before,
            "decisions": chain.has_decisions,
        })
    };
    serde_json::json!({
        "entries": verified.entries,
        "forgotten": verified.cut,
        "chains": verified.chains.iter().map(chain).collect::<Vec<_>>(),
        "anchors": verified.anchors,
        "notAnchored": verified.not_anchored,
        "place": verified.last_anchor.map(|anchor| anchor.to_string()),
    })
}

fn shared_text(verified: &VerifiedSharedLog) -> String {
    let plural =
        |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    let further = format!(
        " of all nodes in {}, {}",
        plural(verified.chains.len() as u64, "chain", "chains"),
        plural(verified.anchors, "anchor", "anchors"),
    );
    let mut text = summary(verified.entries, &further, verified.cut);
    for chain in &verified.chains {
        let id = chain.id.get(..8).unwrap_or(&chain.id);
        text.push_str(&format!(
            "\n  {}{}  chain {id}  {}, the last is {}",
            printable(&chain.node),
            if chain.has_decisions { ", decisions" } else { "" },
            plural(chain.entries, "entry", "entries"),
            chain.last
        ));
        if chain.missing_before > 0 {
            text.push_str(&format!(
                "\n    gap: {} before it were never shipped; the log of that node says why",
                plural(chain.missing_before, "entry", "entries")
            ));
        }
    }
    if verified.not_anchored > 0 {
        text.push_str(&format!(
            "\n  {} since the last anchor",
            plural(verified.not_anchored, "entry", "entries")
        ));
    }
    let place = verified.last_anchor.map(|anchor| anchor.to_string());
    text + &noted_line(place.as_deref())
}
