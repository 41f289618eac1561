//! Repetition of changes that fail because another program has a file open at the moment.

use std::io;
use std::time::Duration;

/// Pauses before further attempts, in milliseconds. Programs that scan or index new files hold them for a moment.
const RETRY_PAUSES: [u64; 5] = [5, 20, 80, 240, 480];

/// Windows errors for a file that another program has open: `ERROR_ACCESS_DENIED`, which a replacement gets for it,
/// `ERROR_SHARING_VIOLATION`, `ERROR_LOCK_VIOLATION`, and `ERROR_USER_MAPPED_FILE`.
const IN_USE_ERRORS: [i32; 4] = [5, 32, 33, 1224];

/// Makes a change to a file. On Windows, it is repeated at most five times, within 825 ms, while it fails because another
/// program has the file open. Other systems do not know this error. Blocks.
///
/// # Errors
/// The error of the last attempt.
pub fn retry_while_in_use<T>(change: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let is_in_use = |error: &io::Error| {
        cfg!(windows) && error.raw_os_error().is_some_and(|code| IN_USE_ERRORS.contains(&code))
    };
    retry(&RETRY_PAUSES, is_in_use, change)
}

fn retry<T>(
    pauses: &[u64],
    is_in_use: impl Fn(&io::Error) -> bool,
    mut change: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    for pause in pauses {
        match change() {
            Err(error) if is_in_use(&error) => std::thread::sleep(Duration::from_millis(*pause)),
            done => return done,
        }
    }
    change()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PAUSES: [u64; 3] = [0; 3];

    fn attempts(failures: usize, kind: io::ErrorKind) -> (usize, io::Result<()>) {
        let mut attempts = 0;
        let result = retry(
            &NO_PAUSES,
            |error| error.kind() == io::ErrorKind::ResourceBusy,
            || {
                attempts += 1;
                if attempts > failures { Ok(()) } else { Err(kind.into()) }
            },
        );
        (attempts, result)
    }

    #[test]
    fn only_a_file_in_use_is_tried_again_and_not_without_end() {
        let busy = io::ErrorKind::ResourceBusy;
        assert!(matches!(attempts(0, busy), (1, Ok(()))));
        assert!(matches!(attempts(3, busy), (4, Ok(()))));
        assert!(matches!(attempts(4, busy), (4, Err(error)) if error.kind() == busy));
        assert!(matches!(attempts(1, io::ErrorKind::NotFound), (1, Err(_))));
    }
}
