//! Kills `supervise` with KILL, which a process cannot catch. No process may be left running. The
//! guard process that ensures this must not change anything else.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, getpgid, kill_process};

use crate::support::output::PROGRAM;
use crate::support::running::{PATIENCE, Running, is_gone};

/// A command that ignores TERM and starts three more processes. One of these is in the command's
/// group, one is in a separate session, and one is an orphan that was forked twice.
const FAMILY: &str = r#"
    trap '' TERM HUP INT
    sh -c 'echo ready $$; exec sleep 1000' &
    setsid sh -c 'echo ready $$; exec sleep 1000' &
    (setsid sh -c '(sh -c "echo ready \$\$; exec sleep 1000" &)' &)
    echo ready $$
    echo supervisor $PPID
    while :; do wait; done"#;

/// Returns the number in the line that begins with the given word.
fn number(program: &mut Running, word: &str) -> Pid {
    let line = program.wait_for(|line| line.starts_with(word));
    Pid::from_raw(line[word.len()..].trim().parse().expect("a number")).expect("a process")
}

/// Returns the session of a process in the form in which the kernel prints it. If a process outside
/// this container leads the session, the kernel prints 0. In this case, rustix's `getsid` would
/// panic.
fn session(pid: Pid) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).expect("it runs");
    // The name in parentheses may contain spaces. It is followed by the state, the parent, the
    // group and the session.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
    fields.split(' ').nth(3).expect("a session").to_owned()
}

/// Starts the program with the family of processes. Returns the program, the supervisor, and the
/// command's processes.
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
    // The program's stderr is closed only when the last process that holds it open has ended.
    let ended = program.end();
    assert_eq!(ended.code, None);
    assert_eq!(ended.stdout, "", "somebody else has the terminal by now");
    assert!(pids.into_iter().all(is_gone));
}

#[test]
fn no_command_outlives_a_killed_supervisor() {
    let (program, supervisor, pids) = family(&[FAMILY]);
    kill_process(supervisor, Signal::KILL).expect("it runs");
    let ended = program.end();
    assert_eq!(ended.code, Some(128 + 9), "{:#?}", ended.stderr);
    let line = "eventcast: the supervisor was killed by signal 9, so its commands were killed";
    assert_eq!(ended.stderr.last().map(String::as_str), Some(line));
    assert!(pids.into_iter().all(is_gone));
}

#[test]
fn nothing_outlives_the_shell_job_that_is_killed() {
    // A shell kills a job through its process group. The commands are in separate groups.
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
    // Each time, the command leaves a process in another session. The command waits until that
    // process has its own session before the command ends, because everything in the command's
    // group is then killed.
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
    assert_eq!(session(command), session(program.pid()), "the session of the program");
    // A Ctrl-C is sent to the group in the foreground.
    program.signal(Signal::INT);
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
    assert!(ended.stdout.contains("stopped with its supervisor"), "{}", ended.stdout);
}

#[test]
fn a_command_reads_nothing_from_the_guard() {
    let mut program = Running::start(&["supervise", "--shell", "cat; echo ready $$; exec sleep 1000"]);
    number(&mut program, "ready ");
    program.stop();
}

/// A command that prints the process ID of its supervisor.
const WITH_PARENT: &str = "echo supervisor $PPID; exec sleep 1000";

#[test]
fn what_ran_before_the_program_stays() {
    // The earlier child reads a line from the test, and responds if the child is still running.
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let (mut answer, answers) = std::io::pipe().expect("a pipe");
    let script = r#"exec 3<&0; { read line; echo $line; } <&3 2>&- & exec "$0" "$@" 3<&- </dev/null >&2"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, PROGRAM, "supervise", "--shell", "echo ready; exec sleep 1000"]);
    let mut program = command.stdin(reader).stdout(answers).stderr(Stdio::piped()).spawn().expect("a shell");
    drop(command);
    let mut stderr = BufReader::new(program.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(stderr.any(|line| line == "ready"));
    kill_process(Pid::from_child(&program), Signal::TERM).expect("it runs");
    assert!(stderr.any(|line| line.starts_with("accounting: ")));
    assert_eq!(program.wait().expect("it ends").code(), Some(0));
    let _ = writer.write_all(b"alive\n");
    let mut line = String::new();
    answer.read_to_string(&mut line).expect("UTF-8");
    assert_eq!(line, "alive\n");
}

#[test]
fn it_ends_even_if_the_signal_for_that_is_blocked() {
    let mut command = Command::new("env");
    command.args([
        "--default-signal=HUP,INT,QUIT,TERM",
        "--block-signal=CHLD",
        PROGRAM,
        "supervise",
        "--shell",
        WITH_PARENT,
    ]);
    let mut program = Running::spawn(command);
    number(&mut program, "supervisor ");
    program.stop();
}

#[test]
fn a_repeated_request_keeps_the_grace_time() {
    let slow = "trap 'echo told >&2; sleep 0.3; echo finished >&2; exit' TERM
        echo supervisor $PPID
        while :; do sleep 1000 & wait; done";
    for signal in [Signal::TERM, Signal::HUP] {
        let mut program = Running::start(&["supervise", "--shell", "--grace", "1h", slow]);
        let supervisor = number(&mut program, "supervisor ");
        program.signal(signal);
        kill_process(supervisor, signal).expect("it runs");
        program.wait_for(|line| line == "told");
        program.signal(signal);
        program.wait_for(|line| line == "finished");
        assert_eq!(program.end().code, Some(0), "{signal:?}");
    }
}

#[test]
fn a_signal_that_is_ignored_at_the_start_stays_ignored() {
    let mut command = Command::new("sh");
    let script = r#"trap "" HUP; exec "$0" "$@""#;
    command.args(["-c", script, PROGRAM, "supervise", "--shell", WITH_PARENT]);
    let mut program = Running::spawn(command);
    let supervisor = number(&mut program, "supervisor ");
    let has = |pid: Pid, mask: &str, signal: Signal| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let mask = status.lines().find_map(|line| line.strip_prefix(mask)).expect("a mask");
        (u64::from_str_radix(mask.trim(), 16).expect("a mask") >> (signal.as_raw() - 1)) & 1 == 1
    };
    for pid in [program.pid(), supervisor] {
        assert!(has(pid, "SigIgn:", Signal::HUP) && !has(pid, "SigCgt:", Signal::HUP));
        assert!(!has(pid, "SigIgn:", Signal::TERM) && has(pid, "SigCgt:", Signal::TERM));
    }
    program.stop();
}

#[test]
fn a_signal_ends_it_even_if_its_report_has_no_reader() {
    // The connection's buffer is full, so writing the report blocks.
    let (mut stdout, _reader) = UnixStream::pair().expect("a connection");
    stdout.set_nonblocking(true).expect("it can");
    while stdout.write(&[0; 4096]).is_ok() {}
    while stdout.write(&[0]).is_ok() {}
    stdout.set_nonblocking(false).expect("it can");
    let mut command = crate::support::output::eventcast(&["supervise", "--quiet", "--shell", WITH_PARENT]);
    command.stdin(Stdio::null()).stdout(OwnedFd::from(stdout)).stderr(Stdio::piped());
    let mut program = command.spawn().expect("it starts");
    let mut stderr = BufReader::new(program.stderr.take().expect("piped")).lines().map_while(Result::ok);
    assert!(stderr.any(|line| line.starts_with("supervisor ")));
    // The first signal stops the command. One of the later signals interrupts writing the report.
    let start = Instant::now();
    let status = loop {
        if let Some(status) = program.try_wait().expect("it can be waited for") {
            break status;
        }
        assert!(start.elapsed() < PATIENCE, "it ignores the signals");
        kill_process(Pid::from_child(&program), Signal::TERM).expect("it is not reaped");
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(128 + 15));
}
