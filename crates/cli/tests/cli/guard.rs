//! The end of `supervise` by KILL, which nobody can catch. No process stays, and nothing else is
//! different because of the second process that sees to this.
#![cfg(target_os = "linux")]

use rustix::process::{Pid, Signal, getpgid, getsid, kill_process, test_kill_process};

use crate::support::running::Running;

/// A command that TERM cannot end, with one more in its group, one in a session of its own, and one
/// that has forked twice and belongs to nobody.
const FAMILY: &str = r#"
    trap '' TERM HUP INT
    sh -c 'echo ready $$; exec sleep 1000' &
    setsid sh -c 'echo ready $$; exec sleep 1000' &
    (setsid sh -c '(sh -c "echo ready \$\$; exec sleep 1000" &)' &)
    echo ready $$
    echo supervisor $PPID
    while :; do wait; done"#;

/// Returns the number in the line that begins with the word.
fn number(program: &mut Running, word: &str) -> Pid {
    let line = program.wait_for(|line| line.starts_with(word));
    Pid::from_raw(line[word.len()..].trim().parse().expect("a number")).expect("a process")
}

fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

/// Starts the family. Returns the program, the supervisor, and the processes of the command.
fn family(args: &[&str]) -> (Running, Pid, Vec<Pid>) {
    let mut program = Running::start(&[&["supervise", "--shell", "--grace", "1h"], args].concat());
    let (mut pids, mut supervisor) = (Vec::new(), None);
    while pids.len() < 4 || supervisor.is_none() {
        let line = program.wait_for(|line| line.starts_with("ready ") || line.starts_with("supervisor "));
        let (word, number) = line.split_once(' ').expect("two words");
        let pid = Pid::from_raw(number.parse().expect("a number")).expect("a process");
        if word == "ready" { pids.push(pid) } else { supervisor = Some(pid) }
    }
    (program, supervisor.expect("it was told"), pids)
}

#[test]
fn nothing_outlives_a_supervisor_that_is_killed() {
    let (program, supervisor, pids) = family(&[FAMILY]);
    assert_ne!(program.pid(), supervisor);
    program.signal(Signal::KILL);
    // The stderr of the program ends only when the last process that holds it has ended.
    let ended = program.end();
    assert_eq!(ended.code, None);
    assert_eq!(ended.stdout, "", "somebody else has the terminal by now");
    assert!(pids.into_iter().all(is_gone));
}

#[test]
fn nothing_outlives_the_process_behind_it_either() {
    let (program, supervisor, pids) = family(&[FAMILY]);
    kill_process(supervisor, Signal::KILL).expect("it runs");
    let ended = program.end();
    assert_eq!(ended.code, Some(128 + 9), "{:#?}", ended.stderr);
    assert!(pids.into_iter().all(is_gone));
}

#[test]
fn nothing_outlives_the_shell_job_that_is_killed() {
    // A shell kills a job by its group. The commands are in groups of their own.
    let mut command = crate::support::output::eventcast(&["supervise", "--shell", "--grace", "1h", FAMILY]);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut program = Running::spawn(command);
    let pids: Vec<Pid> = (0..4).map(|_| number(&mut program, "ready ")).collect();
    rustix::process::kill_process_group(program.pid(), Signal::KILL).expect("it runs");
    assert_eq!(program.end().code, None);
    assert!(pids.into_iter().all(is_gone));
}

#[test]
fn what_runs_again_ends_too() {
    // Each time the command leaves a process of another session behind. It ends once that process
    // has its session: what is in the command's group then is killed.
    let mut program = Running::start(&[
        "supervise",
        "--shell",
        "--backoff",
        "50ms",
        "--reset-after",
        "1h",
        "(setsid sh -c 'echo ready $$ >&2; echo; exec sleep 1000 >&2' &) | read line; exit 1",
    ]);
    let pids: Vec<Pid> = (0..3).map(|_| number(&mut program, "ready ")).collect();
    program.signal(Signal::KILL);
    assert_eq!(program.end().code, None);
    assert!(pids.into_iter().all(is_gone));
}

#[test]
fn groups_and_sessions_are_as_without_a_guard() {
    let mut program = Running::start(&["supervise", "--shell", "echo ready $$; exec sleep 1000"]);
    let command = number(&mut program, "ready ");
    assert_eq!(getpgid(Some(command)), Ok(command), "a group of its own");
    assert_eq!(getsid(Some(command)), getsid(Some(program.pid())), "the session of the program");
    // A Ctrl-C reaches the group in the foreground.
    program.signal(Signal::INT);
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
    assert!(ended.stdout.contains("stopped with its supervisor"), "{}", ended.stdout);
}

#[test]
fn a_command_reads_nothing_from_the_guard() {
    let mut program = Running::start(&["supervise", "--shell", "cat; echo ready $$; exec sleep 1000"]);
    number(&mut program, "ready ");
    program.signal(Signal::TERM);
    assert_eq!(program.end().code, Some(0));
}
