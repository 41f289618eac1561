//! The scripts, which are sent by hash. Both versions of a program can run theirs during an upgrade.

use std::sync::LazyLock;

use ::redis::Script;

/// First line of scripts that write. Redis refuses them as a whole when it is out of memory, read-only, or lacks
/// replicas, so none is applied in part.
const WRITES: &str = "#!lua\n";

/// First line of scripts that write little and are needed when memory is short: they end things or keep owners alive.
const ENDS: &str = "#!lua flags=allow-oom\n";

/// First line of scripts that only read.
const READS: &str = "#!lua flags=no-writes\n";

const OWNED: &str = include_str!("owned.lua");
const INDEX: &str = include_str!("index.lua");
const EXTEND: &str = include_str!("extend.lua");
const CHANGE_PARTS: [&str; 4] = [INDEX, EXTEND, OWNED, include_str!("change.lua")];

fn script(first_line: &str, parts: &[&str]) -> Script {
    Script::new(&[first_line, &parts.concat()].concat())
}

macro_rules! scripts {
    ($($name:ident = $first_line:expr, $parts:expr;)*) => {$(
        pub(super) static $name: LazyLock<Script> = LazyLock::new(|| script($first_line, &$parts));
    )*};
}

scripts! {
    JOIN = WRITES, [include_str!("join.lua")];
    ANNOUNCE = WRITES, [include_str!("announce.lua")];
    END_SILENT_LEASE = ENDS, [include_str!("end_silent_lease.lua")];
    NODES = ENDS, [include_str!("nodes.lua")];
    RESERVE = WRITES, [INDEX, include_str!("reserve.lua")];
    CHANGE = WRITES, CHANGE_PARTS;
    // Changes that store no more than a state, such as the end of a session.
    CHANGE_STATE = ENDS, CHANGE_PARTS;
    ADOPT = ENDS, [INDEX, EXTEND, include_str!("adopt.lua")];
    HAND_OVER = ENDS, [INDEX, EXTEND, include_str!("hand_over.lua")];
    OPEN_STREAM = WRITES, [EXTEND, OWNED, include_str!("open_stream.lua")];
    APPEND = WRITES, [EXTEND, OWNED, include_str!("append.lua")];
    READ = READS, [include_str!("read.lua")];
    STREAMS = READS, [include_str!("streams.lua")];
    LIMIT = WRITES, [include_str!("limit.lua")];
    // Less is stored than before.
    UNCOUNT = ENDS, [include_str!("uncount.lua")];
    LABELS = WRITES, [include_str!("labels.lua")];
}
