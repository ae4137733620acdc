//! Sink errors: how they are displayed, and how I/O errors from the system are classified.

use std::io::{self, ErrorKind};

use eventcast::SinkError;
use eventcast::sink::SinkErrorKind;

#[test]
fn errors_show_their_kind_and_their_cause() {
    use SinkErrorKind::{AlreadyExists, NotFound, Rejected, Retry, Unavailable};
    let kinds = [
        (SinkError::retry("a"), Retry, "may be tried again: a"),
        (SinkError::new(Unavailable, "e"), Unavailable, "unavailable: e"),
        (SinkError::rejected("b\u{1b}[2J"), Rejected, r"rejected: b\u{1b}[2J"),
        (SinkError::new(NotFound, "c"), NotFound, "not found: c"),
        (SinkError::new(AlreadyExists, "d"), AlreadyExists, "already exists: d"),
    ];
    for (error, kind, text) in kinds {
        assert_eq!((error.kind(), error.retry_after(), error.to_string().as_str()), (kind, None, text));
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn each_kind_of_io_error_determines_the_next_step() {
    use SinkErrorKind::{GroupUnavailable, Rejected, Retry, Unavailable};
    let of = |error: io::Error| {
        let text = error.to_string();
        let error = SinkError::from(error);
        assert!(error.to_string().ends_with(&text), "{error}");
        error.kind()
    };
    for kind in [
        ErrorKind::NotFound,
        ErrorKind::PermissionDenied,
        ErrorKind::StorageFull,
        ErrorKind::ReadOnlyFilesystem,
        ErrorKind::FileTooLarge,
        ErrorKind::ConnectionRefused,
        ErrorKind::BrokenPipe,
        ErrorKind::UnexpectedEof,
        ErrorKind::WriteZero,
        ErrorKind::ResourceBusy,
    ] {
        assert_eq!(of(kind.into()), Unavailable, "{kind}");
    }
    // There was no response. It is possible that only this tenant's events get no response.
    for kind in [ErrorKind::TimedOut, ErrorKind::WouldBlock] {
        assert_eq!(of(kind.into()), GroupUnavailable, "{kind}");
    }
    for kind in [
        ErrorKind::Interrupted,
        ErrorKind::Deadlock,
        ErrorKind::ExecutableFileBusy,
        ErrorKind::AlreadyExists,
        ErrorKind::DirectoryNotEmpty,
        ErrorKind::IsADirectory,
        ErrorKind::NotADirectory,
        ErrorKind::InvalidData,
        ErrorKind::Other,
    ] {
        assert_eq!(of(kind.into()), Retry, "{kind}");
    }
    for kind in [ErrorKind::InvalidInput, ErrorKind::Unsupported, ErrorKind::ArgumentListTooLong] {
        assert_eq!(of(kind.into()), Rejected, "{kind}");
    }
    // Disk errors have no `ErrorKind` of their own.
    #[cfg(unix)]
    assert_eq!(of(io::Error::from_raw_os_error(5)), Unavailable);
    assert_eq!(of(io::Error::other("the store hung up")), Retry);
}
