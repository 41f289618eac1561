//! A server that calls the kernel by numbers: whatever acts on other processes, or on files by their paths. A victim of
//! the same user stands beside it, and files that were not granted.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command};

use hospes_sandbox::{
    LaunchCommand, SandboxFiles, SandboxKind, SandboxMechanism, SandboxNetwork, SandboxProfile,
};
use tempfile::TempDir;

use super::started::{said, said_with};
use super::{both, by, confined, text};

/// Perl calls the kernel by number, and is part of every Debian, Ubuntu and Fedora.
const PERL: &str = "/usr/bin/perl";

/// Calls on a process by its id, which is `$pid`. `$b` is a buffer of zeros, `$fd` a handle of the process.
const ON_PROCESSES: [(&str, i64, &str); 21] = [
    ("prlimit file size", libc::SYS_prlimit64, "$pid, 1, pack('QQ', 0, 0), 0"),
    ("prlimit processor time", libc::SYS_prlimit64, "$pid, 0, pack('QQ', 0, 0), 0"),
    ("prlimit read", libc::SYS_prlimit64, "$pid, 1, 0, $b"),
    ("setpriority", libc::SYS_setpriority, "0, $pid, 19"),
    ("setpriority group", libc::SYS_setpriority, "1, $pid, 19"),
    ("setpriority user", libc::SYS_setpriority, "2, 0, 19"),
    ("ioprio_set", libc::SYS_ioprio_set, "1, $pid, 3 << 13"),
    ("sched_setaffinity", libc::SYS_sched_setaffinity, "$pid, 8, pack('Q', 1)"),
    ("sched_setscheduler", libc::SYS_sched_setscheduler, "$pid, 5, pack('L', 0)"),
    ("sched_setattr", libc::SYS_sched_setattr, "$pid, pack('LLQlLQQQ', 48, 5, 0, 0, 0, 0, 0, 0), 0"),
    ("ptrace attach", libc::SYS_ptrace, "16, $pid, 0, 0"),
    ("ptrace seize", libc::SYS_ptrace, "0x4206, $pid, 0, 0"),
    ("process_vm_readv", libc::SYS_process_vm_readv, "$pid, $b, 1, $b, 1, 0"),
    ("process_vm_writev", libc::SYS_process_vm_writev, "$pid, $b, 1, $b, 1, 0"),
    ("process_madvise", libc::SYS_process_madvise, "$fd, $b, 1, 21, 0"),
    ("process_mrelease", libc::SYS_process_mrelease, "$fd, 0"),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, "$fd, 0, 0"),
    ("kcmp", libc::SYS_kcmp, "$pid, $$, 0, 0, 0"),
    ("move_pages", libc::SYS_move_pages, "$pid, 1, $b, 0, $b, 0"),
    ("migrate_pages", libc::SYS_migrate_pages, "$pid, 64, $b, $b"),
    ("perf_event_open", libc::SYS_perf_event_open, "pack('LLQx112', 1, 128, 0), $pid, -1, -1, 0"),
];

/// Signals, which Landlock refuses since Linux 6.12.
const SIGNALS: [(&str, i64, &str); 7] = [
    ("kill", libc::SYS_kill, "$pid, 15"),
    ("kill group", libc::SYS_kill, "-$pid, 15"),
    ("tkill", libc::SYS_tkill, "$pid, 15"),
    ("tgkill", libc::SYS_tgkill, "$pid, $pid, 15"),
    ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo, "$pid, 15, pack('lllx116', 15, 0, -1)"),
    ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo, "$pid, $pid, 15, pack('lllx116', 15, 0, -1)"),
    ("pidfd_send_signal", libc::SYS_pidfd_send_signal, "$fd, 15, 0, 0"),
];

/// Calls on the system as a whole, and those that lead out of a confinement.
const ON_THE_SYSTEM: [(&str, i64, &str); 26] = [
    ("kill everybody", libc::SYS_kill, "-1, 0"),
    ("unshare user", libc::SYS_unshare, "0x10000000"),
    ("unshare mounts", libc::SYS_unshare, "0x20000"),
    ("clone user", libc::SYS_clone, "0x10000000 | 17, 0, 0, 0, 0"),
    ("clone3", libc::SYS_clone3, "pack('Qx80', 0x10000000), 88"),
    ("setns", libc::SYS_setns, "$fd, 0x20000"),
    ("chroot", libc::SYS_chroot, "'/'"),
    ("pivot_root", libc::SYS_pivot_root, "'/', '/'"),
    ("mount", libc::SYS_mount, "'none', '/usr', 'tmpfs', 0, 0"),
    ("umount2", libc::SYS_umount2, "'/', 2"),
    ("open_tree", libc::SYS_open_tree, "-100, '/', 1"),
    ("mount_setattr", libc::SYS_mount_setattr, "-100, '/', 0, pack('QQQQ', 0, 1, 0, 0), 32"),
    ("fsopen", libc::SYS_fsopen, "'tmpfs', 0"),
    ("bpf", libc::SYS_bpf, "0, $b, 128"),
    ("userfaultfd", libc::SYS_userfaultfd, "1"),
    ("io_uring_setup", libc::SYS_io_uring_setup, "8, $b"),
    ("add_key", libc::SYS_add_key, "'user', 'hospes', 'x', 1, -4"),
    ("keyctl", libc::SYS_keyctl, "0, -4, 0, 0, 0"),
    ("request_key", libc::SYS_request_key, "'user', 'hospes', 0, -4"),
    ("fanotify_init", libc::SYS_fanotify_init, "0x200, 0"),
    ("acct", libc::SYS_acct, "'/tmp/hospes-acct'"),
    ("swapon", libc::SYS_swapon, "'/tmp/hospes-swap', 0"),
    ("quotactl", libc::SYS_quotactl, "0x80000700, 0, 0, $b"),
    ("open_by_handle_at", libc::SYS_open_by_handle_at, "-100, $b, 0"),
    ("syslog", libc::SYS_syslog, "3, $b, 1000"),
    ("a number of x32", 0x4000_0000 + libc::SYS_getppid, "0"),
];

/// Calls that change a file by its path, which is `$path`, or by a handle of it.
fn on_files() -> Vec<(&'static str, i64, &'static str)> {
    vec![
        ("chmod", libc::SYS_fchmodat, "-100, $path, 0777"),
        ("fchmodat2", libc::SYS_fchmodat2, "-100, $path, 0777, 0"),
        ("chown", libc::SYS_fchownat, "-100, $path, 12345, 12345, 0"),
        ("chown to oneself", libc::SYS_fchownat, "-100, $path, $<, $( + 0, 0"),
        ("utimensat", libc::SYS_utimensat, "-100, $path, pack('QQQQ', 1, 0, 1, 0), 0"),
        ("setxattr", libc::SYS_setxattr, "$path, 'user.hospes', 'x', 1, 0"),
        ("lsetxattr", libc::SYS_lsetxattr, "$path, 'user.hospes', 'x', 1, 0"),
        ("setxattrat", 463, "-100, $path, 0, 'user.hospes', pack('QLL', 0, 0, 0), 16"),
        ("removexattr", libc::SYS_removexattr, "$path, 'user.kept'"),
        ("file_setattr", 469, "-100, $path, pack('x24'), 24, 0"),
        ("truncate", libc::SYS_truncate, "$path, 0"),
        ("rename", libc::SYS_renameat2, "-100, $path, -100, $path . '2', 0"),
        ("link", libc::SYS_linkat, "-100, $path, -100, $path . '2', 0"),
        ("unlink", libc::SYS_unlinkat, "-100, $path, 0"),
        ("mknod", libc::SYS_mknodat, "-100, $path . '3', 0010600, 0"),
        ("symlink", libc::SYS_symlinkat, "'x', -100, $path . '4'"),
        ("mkdir", libc::SYS_mkdirat, "-100, $path . '5', 0700"),
        ("fchmod of what was opened", libc::SYS_fchmod, "$file, 0777"),
        ("chmod through /proc", libc::SYS_fchmodat, "-100, \"/proc/self/fd/$file\", 0777"),
        ("futimens of what was opened", libc::SYS_utimensat, "$file, 0, pack('QQQQ', 1, 0, 1, 0), 0"),
        ("fsetxattr of what was opened", libc::SYS_fsetxattr, "$file, 'user.hospes', 'x', 1, 0"),
        ("chown of a place", libc::SYS_fchownat, "$place, '', $<, $( + 0, 0x1000"),
        ("chattr of what was opened", libc::SYS_ioctl, "$file, 0x40086602, pack('Q', 0x40)"),
    ]
}

/// A script that tries all of them, and prints for each its name and the number of the error, 0 where there was none.
fn script(tries: &[(&str, i64, &str)], pid: u32, path: &Path) -> String {
    let mut script = format!(
        "my $pid = {pid}; my $path = '{}'; my $b = \"\\0\" x 4096; my $fd = syscall({}, $pid, 0);
        my $file = syscall({open}, -100, $path, 0); my $place = syscall({open}, -100, $path, 0x200000);\n",
        path.display(),
        libc::SYS_pidfd_open,
        open = libc::SYS_openat,
    );
    for (name, number, arguments) in tries {
        let comma = if arguments.is_empty() { "" } else { ", " };
        // Perl takes what is written as a text for one that must not be changed.
        let _infallible = writeln!(
            script,
            "{{ my @a = ({arguments}); $! = 0; my $r = syscall({number}{comma}@a); print '{name}=', ($r == -1 ? $! + 0 : 0), \"\\n\"; }}"
        );
    }
    script
}

/// The result of each, by name.
fn outcomes(said: &str) -> Vec<(String, i32)> {
    let lines = said.lines().filter_map(|line| line.rsplit_once('='));
    lines.map(|(name, error)| (name.to_owned(), error.parse().unwrap())).collect()
}

struct Victim(Child);

impl Victim {
    fn new() -> Self {
        use std::os::unix::process::CommandExt as _;
        Self(Command::new("sleep").arg("600").process_group(0).spawn().unwrap())
    }

    /// The state of it that others could have changed.
    fn state(&self) -> (String, String, String, String) {
        let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap();
        let status = read("status");
        let allowed =
            status.lines().filter(|line| line.starts_with("Cpus_allowed:") || line.starts_with("TracerPid"));
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        // Priority, nice value and scheduler.
        let scheduling = format!("{} {} {}", fields[15], fields[16], fields[38]);
        (read("limits"), allowed.collect(), scheduling, read("oom_score_adj"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with a file that is not granted, one that may be read and one that may be written, as `0600` and old.
fn folders() -> (TempDir, SandboxFiles) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["secret", "read", "write"] {
        let inner = folder.path().join(name);
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("file"), name).unwrap();
        fs::set_permissions(inner.join("file"), Permissions::from_mode(0o600)).unwrap();
    }
    let files = SandboxFiles::new().read(folder.path().join("read")).write(folder.path().join("write"));
    (folder, files)
}

/// Everything of a file that others could have changed, and what lies beside it.
fn looks(path: &Path) -> (u32, u32, u32, i64, i64, u64, Vec<u8>, usize) {
    let found = path.metadata().unwrap();
    let beside = fs::read_dir(path.parent().unwrap()).unwrap().count();
    let content = fs::read(path).unwrap();
    (found.mode(), found.uid(), found.gid(), found.mtime(), found.ctime(), found.nlink(), content, beside)
}

/// Every profile that demands anything.
fn profiles() -> (TempDir, Vec<LaunchCommand>) {
    let (folder, files) = folders();
    let mut launches = both(&confined(files.clone()));
    launches.extend(both(&SandboxProfile::new().with_files(files)));
    launches.extend(both(&SandboxProfile::new().with_network(SandboxNetwork::None)));
    (folder, launches)
}

#[test]
fn nothing_is_done_to_another_process() {
    let (folder, launches) = profiles();
    let victim = Victim::new();
    let before = victim.state();
    let path = folder.path().join("secret/file");
    for launch in launches {
        let by = &launch.confinement;
        let said = said(&launch, &[PERL, "-e", &script(&ON_PROCESSES, victim.0.id(), &path)]);
        let outcomes = outcomes(&said);
        assert_eq!(outcomes.len(), ON_PROCESSES.len(), "{by}: {said}");
        for (name, error) in outcomes {
            // Of its user's processes, bubblewrap's has only its own in view.
            let is_harmless = by.means == SandboxMechanism::Bubblewrap && name == "setpriority user";
            assert!(error != 0 || is_harmless, "{by}: {name} was not refused");
        }
        assert_eq!(victim.state(), before, "{by}: the other process is not what it was");
    }
}

/// Operations that a profile cannot refuse on an older kernel are reported; no restriction is omitted silently.
#[test]
fn signals_reach_no_other_process_or_the_profile_says_that_they_do() {
    let (folder, launches) = profiles();
    let path = folder.path().join("secret/file");
    for launch in launches {
        let mut victim = Victim::new();
        let by = &launch.confinement;
        let said = said(&launch, &[PERL, "-e", &script(&SIGNALS, victim.0.id(), &path)]);
        let outcomes = outcomes(&said);
        assert_eq!(outcomes.len(), SIGNALS.len(), "{by}: {said}");
        if by.lacks.iter().any(|lack| lack.contains("signal")) {
            assert!(by.to_string().contains("signal"), "{by}");
            continue;
        }
        for (name, error) in outcomes {
            assert_ne!(error, 0, "{by}: {name} was not refused");
        }
        assert!(victim.0.try_wait().unwrap().is_none(), "{by}: the other process has ended");
    }
}

#[test]
fn nothing_leads_out_by_a_number() {
    let (folder, launches) = profiles();
    let path = folder.path().join("secret/file");
    for launch in launches {
        let by = &launch.confinement;
        // Namespaces within bubblewrap's have nothing that is not there already.
        let tries: Vec<_> = ON_THE_SYSTEM
            .into_iter()
            .filter(|(name, ..)| {
                let is_harmless = ["unshare", "clone", "kill"].iter().any(|word| name.starts_with(word));
                by.means != SandboxMechanism::Bubblewrap || !is_harmless
            })
            .collect();
        let said = said(&launch, &[PERL, "-e", &script(&tries, std::process::id(), &path)]);
        let outcomes = outcomes(&said);
        assert_eq!(outcomes.len(), tries.len(), "{by}: {said}");
        for (name, error) in outcomes {
            assert_ne!(error, 0, "{by}: {name} was not refused");
        }
    }
}

/// By path, and by handles of what may be read: modes, owners, times and attributes too.
#[test]
fn files_that_are_not_to_be_written_stay_as_they_are() {
    let (folder, files) = folders();
    let launches =
        both(&confined(files.clone())).into_iter().chain(both(&SandboxProfile::new().with_files(files)));
    for launch in launches {
        let by = &launch.confinement;
        for name in ["secret", "read"] {
            stay(&launch, &folder.path().join(name).join("file"), &by.to_string(), said);
        }
    }
}

#[track_caller]
fn stay(launch: &LaunchCommand, path: &Path, by: &str, run: impl Fn(&LaunchCommand, &[&str]) -> String) {
    let (before, tries) = (looks(path), on_files());
    let said = run(launch, &[PERL, "-e", &script(&tries, std::process::id(), path)]);
    let outcomes = outcomes(&said);
    assert_eq!(outcomes.len(), tries.len(), "{by}: {said}");
    for (name, error) in outcomes {
        assert_ne!(error, 0, "{by}: {name} of {} was not refused", path.display());
    }
    assert_eq!(looks(path), before, "{by}: {} is not what it was", path.display());
}

/// Returns true if the user who runs the tests can create mount namespaces on this system.
fn can_make_a_view(path: &Path) -> bool {
    let tries = [("root", libc::SYS_unshare, "0x20000"), ("users", libc::SYS_unshare, "0x10020000")];
    let script = script(&tries, std::process::id(), path);
    let said = Command::new(PERL).args(["-e", &script]).output().unwrap().stdout;
    outcomes(&String::from_utf8(said).unwrap()).iter().any(|(_, error)| *error == 0)
}

/// Changes that programs make when they unpack and copy files.
#[test]
fn modes_and_times_of_files_that_may_be_written_can_be_changed() {
    let (folder, files) = folders();
    let path = folder.path().join("write/file");
    let can_make_a_view = can_make_a_view(&path);
    for launch in both(&confined(files)) {
        let by = &launch.confinement;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let tries = [
            ("chmod", libc::SYS_fchmodat, "-100, $path, 0640"),
            ("utimensat", libc::SYS_utimensat, "-100, $path, pack('QQQQ', 1, 0, 1, 0), 0"),
            ("futimens", libc::SYS_utimensat, "$file, 0, pack('QQQQ', 2, 0, 2, 0), 0"),
        ];
        let said = said(&launch, &[PERL, "-e", &script(&tries, std::process::id(), &path)]);
        if !can_make_a_view && by.means == SandboxMechanism::Landlock {
            assert!(outcomes(&said).iter().all(|(_, error)| *error == libc::EPERM), "{by}: {said}");
            continue;
        }
        assert!(outcomes(&said).iter().all(|(_, error)| *error == 0), "{by}: {said}");
        let found = path.metadata().unwrap();
        assert_eq!((found.mode() & 0o777, found.mtime()), (0o640, 2), "{by}");
    }
}

/// In a container that allows no mount namespaces, modes and times cannot be changed at all.
#[test]
fn where_no_mounts_can_be_made_modes_and_times_are_refused_by_number() {
    let (folder, files) = folders();
    let outer = by(SandboxKind::Landlock, &SandboxProfile::new().with_network(SandboxNetwork::None));
    let inner = by(SandboxKind::Landlock, &confined(files));
    let (Some(outer), Some(inner)) = (outer, inner) else { return };
    let nested = |_: &LaunchCommand, server: &[&str]| {
        // The host of the inner helper is the shell that starts it.
        let args: Vec<&str> = inner.args.iter().map(|arg| arg.to_str().unwrap()).collect();
        let parent = args.iter().position(|arg| *arg == "--parent").unwrap() + 1;
        let script = "helper=$1; shift; \"$helper\" supervise --parent $$ \"$@\"; :";
        let mut command = vec!["/bin/sh", "-c", script, "sh", text(&inner.program)];
        command.extend(&args[parent + 1..]);
        command.push("--");
        command.extend(server);
        said_with(&outer, &command, &[("PATH", "/usr/bin:/bin")])
    };
    for name in ["secret", "read"] {
        stay(&inner, &folder.path().join(name).join("file"), "within another", nested);
    }
    let path = folder.path().join("write/file");
    let before = looks(&path);
    let tries =
        [("chmod", libc::SYS_fchmodat, "-100, $path, 0640"), ("fchmod", libc::SYS_fchmod, "$file, 0640")];
    let said = nested(&inner, &[PERL, "-e", &script(&tries, std::process::id(), &path)]);
    assert_eq!(
        outcomes(&said),
        [("chmod".to_owned(), libc::EPERM), ("fchmod".to_owned(), libc::EPERM)],
        "{said}"
    );
    assert_eq!(looks(&path), before);
}
