//! Seccomp filters. `docs/sandbox.md` has the table of all system calls, including those restricted by Landlock and the
//! mounts.

use std::collections::BTreeMap;

use libc::c_long;
#[cfg(target_arch = "x86_64")]
use seccompiler::sock_filter;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

use super::helper_task::HelperTask;
use crate::SandboxNetwork;
use crate::profile::SandboxMechanism;

/// System calls that no server needs and that would break confinement: other processes' memory, keys that the user's
/// programs share, kernel internals. `io_uring` opens files and sockets without any filtered call.
const DENIED_CALLS: [c_long; 45] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
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
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

// Numbers from 424 on are the same on every architecture.
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const OPEN_TREE_ATTR: c_long = 467;
const FILE_SETATTR: c_long = 469;

/// Calls that change modes, owners, times and attributes of files, which Landlock does not control.
const METADATA: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// `ioctl` requests with the same effect: `FS_IOC_SETFLAGS`, `FS_IOC32_SETFLAGS`, `FS_IOC_FSSETXATTR`,
/// `FS_IOC_SETVERSION`.
const ATTRIBUTES: [u32; 4] = [0x4008_6602, 0x4004_6602, 0x401c_5820, 0x4008_7602];

/// Shared memory, message queues and semaphores, which processes of one user share without a file.
const IPC_CALLS: [c_long; 13] = [
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];

/// Calls on the process whose id is the first argument; 0 is the caller.
const PROCESS_ID_CALLS: [c_long; 6] = [
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// `PRIO_USER` and `IOPRIO_WHO_USER`: all processes of a user.
const WHOLE_USER: [(c_long, u32); 2] = [(libc::SYS_setpriority, 2), (libc::SYS_ioprio_set, 3)];

/// Flags of `clone` that create namespaces. In its own namespace a program would have capabilities.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Denied calls of one filter by number. A call without rules is always denied.
type SeccompDenials = BTreeMap<i64, Vec<SeccompRule>>;

/// Optional denials, in addition to the unconditional ones.
#[derive(Clone, Copy, Debug)]
struct SeccompOptions {
    /// True if other processes are visible, so that operations on their ids must be denied.
    processes: bool,
    /// True if network sockets are denied.
    network: bool,
    /// True if files are confined. Unix sockets and objects shared without files are then denied too.
    files: bool,
    /// True if modes, owners, times and attributes of files may not be changed at all.
    metadata: bool,
}

/// Checks that filters exist for this architecture and that the kernel accepts them.
pub(crate) fn check_support() -> Result<(), String> {
    filters(SeccompOptions { processes: true, network: true, files: true, metadata: true }).map(drop)?;
    let actions = "/proc/sys/kernel/seccomp/actions_avail";
    // The filters return error codes, which is an action that the kernel must support.
    match std::fs::read_to_string(actions) {
        Ok(actions) if actions.split_whitespace().any(|action| action == "errno") => Ok(()),
        _ => Err("seccomp is disabled in this kernel".to_owned()),
    }
}

/// Confines this process and its descendants. If `guarded_by_mounts` is true, paths that are not granted are mounted
/// read-only, so the kernel itself prevents changes of modes, owners and times there.
pub(super) fn restrict(order: &HelperTask, guarded_by_mounts: bool) -> Result<(), String> {
    // Under bubblewrap there are no network interfaces, sockets or processes of others to reach, and read-only paths
    // are mounted read-only.
    let by_kernel = order.means == SandboxMechanism::Landlock;
    let files = by_kernel && order.files.is_some();
    let wanted = SeccompOptions {
        processes: by_kernel,
        network: by_kernel && order.network == SandboxNetwork::None,
        files,
        metadata: files && !guarded_by_mounts,
    };
    for filter in filters(wanted)? {
        apply_filter(&filter).map_err(|error| format!("cannot confine it with seccomp: {error}"))?;
    }
    Ok(())
}

/// Creates the filters. A filter has one action for all denied calls, so there are several.
fn filters(wanted: SeccompOptions) -> Result<Vec<BpfProgram>, String> {
    // The kernel uses 32 bits of these arguments; a 64-bit comparison could be evaded by garbage in the upper bits.
    let is = |index: u8, operator: SeccompCmpOp, value: u32| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, u64::from(value))
    };
    let rule = |condition: Result<SeccompCondition, _>| {
        condition.and_then(|condition| SeccompRule::new(vec![condition])).map_err(|error| error.to_string())
    };
    let mut refused: SeccompDenials = DENIED_CALLS.into_iter().map(|number| (number, Vec::new())).collect();
    let mut unknown = SeccompDenials::new();
    // Limits of other processes: a file size limit of 0 would end a process at its next write.
    refused.insert(libc::SYS_prlimit64, vec![rule(is(0, SeccompCmpOp::Ne, 0))?]);
    // Input injected into the terminal from which the host was started.
    // The type of requests differs between C libraries.
    let mut requests = vec![u32::try_from(libc::TIOCSTI), u32::try_from(libc::TIOCLINUX)];
    if wanted.metadata {
        refused.extend(METADATA.iter().map(|number| (*number, Vec::new())));
        requests.extend(ATTRIBUTES.map(Ok));
    }
    for request in requests {
        let request = request.map_err(|error| error.to_string())?;
        refused.entry(libc::SYS_ioctl).or_default().push(rule(is(1, SeccompCmpOp::Eq, request))?);
    }
    if wanted.processes {
        for number in PROCESS_ID_CALLS {
            refused.insert(number, vec![rule(is(0, SeccompCmpOp::Ne, 0))?]);
        }
        for (number, user) in WHOLE_USER {
            let rules = vec![rule(is(1, SeccompCmpOp::Ne, 0))?, rule(is(0, SeccompCmpOp::Eq, user))?];
            refused.insert(number, rules);
        }
        // -1 means all processes.
        refused.insert(libc::SYS_kill, vec![rule(is(0, SeccompCmpOp::Eq, u32::MAX))?]);
        refused.insert(libc::SYS_unshare, Vec::new());
        let mut made = Vec::new();
        for namespace in NAMESPACES.map(i32::cast_unsigned) {
            made.push(rule(is(0, SeccompCmpOp::MaskedEq(namespace.into()), namespace))?);
        }
        refused.insert(libc::SYS_clone, made);
        // Its flags are in memory, which no filter can read. C libraries fall back to `clone` if the call is unknown.
        unknown.insert(libc::SYS_clone3, Vec::new());
    }
    if wanted.files {
        refused.extend(IPC_CALLS.map(|number| (number, Vec::new())));
    }
    let mut sockets = Vec::new();
    let unix = libc::AF_UNIX.cast_unsigned();
    if wanted.network {
        sockets.push(rule(is(0, SeccompCmpOp::Ne, unix))?);
    }
    if wanted.files {
        sockets.push(rule(is(0, SeccompCmpOp::Eq, unix))?);
    }
    let mut filters = vec![compile(refused, libc::EPERM)?];
    if !unknown.is_empty() {
        filters.push(compile(unknown, libc::ENOSYS)?);
    }
    if !sockets.is_empty() {
        // The error of a kernel without such a network, which programs handle.
        filters.push(compile(BTreeMap::from([(libc::SYS_socket, sockets)]), libc::EAFNOSUPPORT)?);
    }
    #[cfg(target_arch = "x86_64")]
    filters.push(without_x32());
    Ok(filters)
}

/// Denies all calls of the x32 interface, as kernels without it do, because some have other numbers there. Calls of
/// other architectures are ended by the earlier filters.
#[cfg(target_arch = "x86_64")]
fn without_x32() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let step =
        |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: u16::try_from(code).unwrap_or(0), jt, jf, k };
    vec![
        // The number of the call is the first word of the filter's input.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned()),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

fn compile(refused: SeccompDenials, errno: i32) -> Result<BpfProgram, String> {
    let architecture = std::env::consts::ARCH;
    let target = architecture.try_into().map_err(|_| format!("no seccomp filter for {architecture}"))?;
    let filter =
        SeccompFilter::new(refused, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()), target);
    filter.and_then(BpfProgram::try_from).map_err(|error| format!("cannot build the seccomp filter: {error}"))
}
