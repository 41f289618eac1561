//! The helper by itself: what servers are started with where the host's own program is none of ours.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    hospes_sandbox::entry(None, std::env::args_os().skip(1))
}

#[cfg(not(target_os = "linux"))]
fn main() {}
