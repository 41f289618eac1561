//! A program that tries to do what servers should not: `hospes-naughty WORD [ARGUMENTS]`. What came of it is one line on
//! stdout: `ok`, or the kind of error.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::exit, reason = "a program for tests")]

#[cfg(target_os = "linux")]
mod tries {
    use std::fs::{self, File};
    use std::io::{self, Read as _, Write as _};
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    pub(crate) fn main() {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = match words[..] {
            ["read", path] => fs::read_to_string(path).map(drop),
            ["write", path] => fs::write(path, "naughty"),
            ["append", path] => {
                File::options().append(true).open(path).and_then(|mut file| file.write_all(b"x"))
            }
            ["truncate", path] => rustix::fs::openat(
                rustix::fs::CWD,
                path,
                rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::TRUNC,
                rustix::fs::Mode::empty(),
            )
            .map(drop)
            .map_err(Into::into),
            // A terminal is opened and not read: nobody types there.
            ["open", path] => File::options().read(true).open(path).map(drop),
            ["list", path] => fs::read_dir(path).map(drop),
            ["remove", path] => fs::remove_file(path),
            ["link", from, to] => fs::hard_link(from, to),
            ["run", path] => Command::new(path).stdout(Stdio::null()).status().map(drop),
            ["tcp", address] => TcpStream::connect(address).map(drop),
            ["udp", address] => {
                UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.send_to(b"x", address)).map(drop)
            }
            ["unix", path] => UnixStream::connect(path).map(drop),
            ["temporary"] => tempfile::NamedTempFile::new().map(drop),
            ["kill", pid] => {
                let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(Into::into)
            }
            ["environment-of", pid] => {
                fs::read(format!("/proc/{pid}/environ")).and_then(|read| match read.len() {
                    0 => Err(io::ErrorKind::PermissionDenied.into()),
                    _ => Ok(()),
                })
            }
            // Mounting is what a root that kept its capabilities would get out by.
            ["mount", at] => run("mount", &["-t", "tmpfs", "none", at]),
            ["env"] => {
                std::env::vars().for_each(|(name, value)| println!("{name}={value}"));
                Ok(())
            }
            ["exit", code] => std::process::exit(code.parse().unwrap()),
            ["abort"] => std::process::abort(),
            ["close-stdout"] => {
                rustix::stdio::dup2_stdout(File::open("/dev/null").unwrap()).unwrap();
                linger();
                Ok(())
            }
            // Goes on until it is told to end, or its input ends.
            ["serve", ..] => {
                println!("serving");
                io::stdin().read_to_end(&mut Vec::new()).map(drop)
            }
            ["tree", marker] => {
                tree(marker);
                io::stdin().read_to_end(&mut Vec::new()).map(drop)
            }
            ["stubborn-tree", marker] => {
                tree(marker);
                stubborn()
            }
            ["tree-and-crash", marker] => {
                tree(marker);
                std::process::abort()
            }
            ["daemon", marker, again] => daemon(marker, again),
            ["linger", _] => {
                linger();
                Ok(())
            }
            ["stubborn", _] => stubborn(),
            _ => panic!("{words:?} are no words"),
        };
        match done {
            Ok(()) => println!("ok"),
            Err(error) => println!("{:?}", error.kind()),
        }
    }

    fn run(program: &str, args: &[&str]) -> io::Result<()> {
        let status = Command::new(program).args(args).stderr(Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    /// Starts a child, one that ignores SIGTERM, and one that has left its parents and their session.
    fn tree(marker: &str) {
        for words in [&["linger", marker][..], &["stubborn", marker], &["daemon", marker, "2"]] {
            again(words);
        }
        let started = || {
            let all = fs::read_dir("/proc").unwrap().flatten();
            let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
            lines
                .filter(|line| {
                    String::from_utf8_lossy(line).replace('\0', " ").contains(&format!("linger {marker}"))
                })
                .count()
        };
        while started() < 2 {
            std::thread::sleep(Duration::from_millis(2));
        }
        println!("started");
    }

    fn again(words: &[&str]) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its parent does not wait for it.
        drop(command.spawn().unwrap());
    }

    /// Leaves session and parents, as daemons do.
    fn daemon(marker: &str, times: &str) -> io::Result<()> {
        let _leader = rustix::process::setsid();
        match times {
            "0" => again(&["linger", marker]),
            "1" => again(&["daemon", marker, "0"]),
            _ => again(&["daemon", marker, "1"]),
        }
        std::process::exit(0)
    }

    fn linger() {
        std::thread::sleep(Duration::from_secs(600));
    }

    /// Neither a signal that may be caught nor the end of its input ends it.
    fn stubborn() -> io::Result<()> {
        let mut all = nix::sys::signal::SigSet::all();
        all.remove(nix::sys::signal::Signal::SIGCHLD);
        all.thread_block().unwrap();
        linger();
        Ok(())
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    tries::main();
}
