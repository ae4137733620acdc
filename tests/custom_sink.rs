//! The example `custom_sink`: every behaviour of the store has its outcome. The unit tests of its
//! modules run here too.

#[path = "../examples/custom_sink/main.rs"]
mod program;

#[path = "support/running.rs"]
mod running;

use running::{Running, lines};

#[test]
fn custom_sink_stores_what_can_be_stored_and_tells_of_the_rest() {
    for args in [&[][..], &["--current-thread"]] {
        let ended = Running::start("custom_sink", args).end();
        // The store is busy once, hangs up once and forgets once. The event about the tape takes
        // two further attempts.
        assert_eq!(
            lines(&ended),
            [
                "COUNT  TYPE     REASON      OBJECT    MESSAGE",
                "    1  Normal   Mounted     Disk/sda  mounted on /",
                "    4  Warning  AlmostFull  Disk/sda  97 % are used",
                "",
                "12 requests, 3 created, 2 replaced",
                "store: created 3, updated 2, skipped 0, rejected 1, exhausted 1, recreated 1, retried 4, \
                 last refusal: may be tried again: 500: cannot store a tape",
                "everything adds up",
            ]
        );
        assert_eq!(
            ended.stderr,
            [
                "lost: store: 1 event lost (rejected): Disk/sda Smart: rejected: 413: message must be at \
                 most 1024 bytes, got 2000",
                "lost: store: 1 event lost (too many attempts): Tape/st0 Torn: may be tried again: 500: \
                 cannot store a tape",
            ]
        );
    }
}
