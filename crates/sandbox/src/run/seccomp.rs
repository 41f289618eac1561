//! What of the kernel may be called.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use super::order::Order;
use crate::Network;
use crate::profile::Means;

/// What no server needs and what would lead out: other processes' memory, keys that the user's programs share, the
/// kernel's own insides. `io_uring` makes sockets that no filter sees.
const REFUSED: [c_long; 34] = [
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
];

/// Added to a number, it is the same call of the x32 interface.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;

/// Whether there is a filter for this machine, and the kernel takes filters.
pub(crate) fn works() -> Result<(), String> {
    filter(true, true).map(drop)?;
    let actions = "/proc/sys/kernel/seccomp/actions_avail";
    match std::fs::read_to_string(actions) {
        Ok(actions) if actions.split_whitespace().any(|action| action == "errno") => Ok(()),
        _ => Err("seccomp of this kernel is off".to_owned()),
    }
}

/// Confines this process and all that it will start.
pub(super) fn restrict(order: &Order) -> Result<(), String> {
    // Under bubblewrap there is no interface to reach, and there are no sockets of others to find.
    let by_kernel = order.means == Means::Landlock;
    let (network, unix) = (by_kernel && order.network == Network::None, by_kernel && order.files.is_some());
    for filter in filter(network, unix)? {
        apply_filter(&filter).map_err(|error| format!("seccomp does not confine it: {error}"))?;
    }
    Ok(())
}

/// Filters that refuse sockets of networks, and Unix sockets. A filter has one answer for what it refuses, so there are two.
fn filter(network: bool, unix: bool) -> Result<Vec<BpfProgram>, String> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let mut sockets = Vec::new();
    let is = |index: u8, operator: SeccompCmpOp, value: i32| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, u64::from(value.unsigned_abs()))
    };
    let rule = |conditions: Vec<_>| {
        let conditions: Result<Vec<_>, _> = conditions.into_iter().collect();
        conditions.and_then(SeccompRule::new).map_err(|error| error.to_string())
    };
    if network {
        sockets.push(rule(vec![is(0, SeccompCmpOp::Ne, libc::AF_UNIX)])?);
    }
    if unix {
        sockets.push(rule(vec![is(0, SeccompCmpOp::Eq, libc::AF_UNIX)])?);
    }
    // Keys typed into the terminal that the host was started from.
    let mut typed = Vec::new();
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        let request = i32::try_from(request).map_err(|error| error.to_string())?;
        typed.push(rule(vec![is(1, SeccompCmpOp::Eq, request)])?);
    }
    let mut add = |number: c_long, rules: Vec<SeccompRule>| {
        #[cfg(target_arch = "x86_64")]
        refused.insert(number + X32, rules.clone());
        refused.insert(number, rules);
    };
    REFUSED.into_iter().for_each(|number| add(number, Vec::new()));
    add(libc::SYS_ioctl, typed);
    let mut filters = vec![compile(refused, libc::EPERM)?];
    if !sockets.is_empty() {
        let mut refused = BTreeMap::from([(libc::SYS_socket, sockets.clone())]);
        #[cfg(target_arch = "x86_64")]
        refused.insert(libc::SYS_socket + X32, sockets);
        // As if the kernel had no such network; programs know what to do then.
        filters.push(compile(refused, libc::EAFNOSUPPORT)?);
    }
    Ok(filters)
}

fn compile(refused: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram, String> {
    let architecture = std::env::consts::ARCH;
    let target =
        architecture.try_into().map_err(|_| format!("there is no seccomp filter for {architecture}"))?;
    let filter =
        SeccompFilter::new(refused, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()), target);
    filter.and_then(BpfProgram::try_from).map_err(|error| format!("there is no seccomp filter: {error}"))
}
