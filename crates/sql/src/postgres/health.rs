//! Settings of a PostgreSQL server that make it lose what it has acknowledged.

use crate::sql_values;
use crate::transaction::{SqlResult, SqlTransaction};

/// Lowest version with which nodes are tested.
const MIN_VERSION: i64 = 15;

/// Settings of the server, in the order of their names.
const SETTINGS: &str = "
    SELECT CAST(current_setting('server_version_num') AS bigint) / 10000,
           CAST((SELECT count(*) FROM pg_stat_replication) AS bigint),
           current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
           current_setting('fsync')";

/// Returns what should be changed in the settings of the server, as sentences.
pub(super) fn problems(view: &mut dyn SqlTransaction) -> SqlResult<Vec<String>> {
    let Some(row) = view.query_first(SETTINGS, sql_values![])? else { return Ok(Vec::new()) };
    let (version, replicas): (i64, i64) = (row.get(0)?, row.get(1)?);
    let [commit, standbys, fsync]: [String; 3] = [row.get(2)?, row.get(3)?, row.get(4)?];
    let mut problems = Vec::new();
    if version < MIN_VERSION {
        problems.push(format!(
            "PostgreSQL {version} is older than {MIN_VERSION}, the oldest that is tested; upgrade it"
        ));
    }
    if fsync == "off" {
        problems
            .push("fsync is off: a crash of the machine can destroy the database; set it to on".to_owned());
    }
    // `local` waits for this disk, but for no replica.
    if commit == "off" || (commit == "local" && replicas > 0) {
        problems.push(format!(
            "synchronous_commit is {commit}: a decision that was acknowledged can be lost; set it to on"
        ));
    }
    if replicas > 0 && standbys.is_empty() {
        problems.push(format!(
            "the database has replicas ({replicas}) and synchronous_standby_names is empty: a failover can undo an \
             acknowledged decision, and an approval could be used twice; set it, such as to ANY 1 (*)"
        ));
    }
    Ok(problems)
}
