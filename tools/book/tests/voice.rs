//! Checks that the project's text is plain English, as far as a program can check this.

use std::process::Command;

#[test]
fn private_phrases_stay_within_their_budgets() {
    let output = Command::new(env!("CARGO_BIN_EXE_voice")).arg("--check").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
}
