//! Checks that the book's pictures are identical to the output of the `pictures` program.

use std::process::Command;

#[test]
fn the_pictures_are_what_the_program_draws() {
    let output = Command::new(env!("CARGO_BIN_EXE_pictures")).arg("--check").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
