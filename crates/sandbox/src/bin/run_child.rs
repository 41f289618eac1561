//! Stand-alone helper program. It starts servers for hosts whose own program does not call `hospes_sandbox::entry`.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    hospes_sandbox::entry(None, std::env::args_os().skip(1))
}

#[cfg(not(target_os = "linux"))]
fn main() {}
