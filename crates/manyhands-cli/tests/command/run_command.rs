//! The command under `run` is the command: its exit status, its signals, its environment, its silence.

use std::{path::Path, process::Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    MANYHANDS,
    programs::STAND_IN,
    running::{Running, ended, run},
};

/// Scripts and supervisors look at the status: it is the one that a shell would see.
#[test]
fn the_exit_status_is_the_commands() {
    let check = |command: &[&str], expected: i32| {
        let arguments = [&["--"], command].concat();
        let ended = ended(&mut run(&STAND_IN, &arguments));
        assert_eq!(ended.status.code(), Some(expected), "{command:?}: {}", ended.rest);
    };
    check(&["true"], 0);
    check(&["sh", "-c", "exit 7"], 7);
    check(&["sh", "-c", "kill -9 $$"], 128 + 9);
    check(&["sh", "-c", "kill -TERM $$"], 128 + 15);
    check(&["manyhands-nonexistent"], 127);
    check(&["/"], 126);
}

/// A supervisor stops `run`, and means the command.
#[test]
fn signals_go_on_to_the_command() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let script = format!("trap 'exit 42' {name}; echo ready; read line; exit 1");
        let mut command = Command::new("env");
        // The tests themselves may run under `nohup`.
        command.args(["--default-signal", MANYHANDS, "run", "--library"]).arg(&*STAND_IN);
        let mut running = Running::start(command.args(["--", "sh", "-c", &script]));
        assert_eq!(running.first_line(), "ready");
        let pid = i32::try_from(running.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), signal).expect("it is ours");
        // The command ends by the signal: its input stays open until then.
        let status = running.child.wait().expect("it is ours");
        assert_eq!(status.code(), Some(42), "{name}");
    }
}

/// Under `nohup` the command ignores the end of the terminal, with `run` before it too.
#[test]
fn an_ignored_signal_stays_ignored() {
    let script = r#"trap "" HUP; exec "$0" run --library "$1" -- grep SigIgn /proc/self/status"#;
    let ended = ended(Command::new("sh").args(["-c", script, MANYHANDS]).arg(&*STAND_IN));
    let mask =
        ended.output.trim().rsplit('\t').next().and_then(|mask| u64::from_str_radix(mask, 16).ok());
    assert_eq!(mask.map(|mask| mask & 1), Some(1), "{}{}", ended.output, ended.rest);
}

/// Children of the command have the library before what was preloaded, and the options, whose paths are absolute.
#[test]
fn children_inherit_the_library_and_the_options() {
    let options = [
        "--only",
        "a.db",
        "/nowhere/*.db",
        "--transaction-mode",
        "immediate",
        "--durability",
        "normal",
        "--timeout",
        "1.5",
        "--",
        "sh",
        "-c",
        "sh -c env",
    ];
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut command = run(&STAND_IN, &options);
    let ended = ended(command.current_dir(folder.path()).env("LD_PRELOAD", "libm.so.6"));
    let here = folder.path().canonicalize().expect("it is there");
    let library = STAND_IN.canonicalize().expect("it is there");
    for line in [
        format!("LD_PRELOAD={}:libm.so.6", library.display()),
        format!("MANYHANDS_ONLY={}/a.db:/nowhere/*.db", here.display()),
        "MANYHANDS_TRANSACTION_MODE=immediate".into(),
        "MANYHANDS_DURABILITY=normal".into(),
        "MANYHANDS_TIMEOUT=1.5".into(),
    ] {
        assert!(
            ended.output.lines().any(|found| found == line),
            "{line} in\n{}{}",
            ended.output,
            ended.rest
        );
    }
}

/// A command that has nothing to do with SQLite is not disturbed.
#[test]
fn nothing_is_told_without_a_reason() {
    let ended = ended(&mut run(&STAND_IN, &["--", "sh", "-c", "ls / | sort > /dev/null"]));
    assert_eq!((ended.output, ended.rest), (String::new(), String::new()));
}

/// Options that have no meaning never start the command.
#[test]
fn wrong_options_are_refused() {
    for options in
        [["--timeout", "-1"], ["--timeout", "soon"], ["--durability", "some"], ["--only", "/a:b"]]
    {
        let ended =
            ended(&mut run(&STAND_IN, &[&options[..], &["--", "echo", "started"]].concat()));
        assert!(!ended.status.success() && ended.output.is_empty(), "{options:?}");
    }
}

/// Where there is no library the command is not run without it, and the user reads what to do.
#[test]
fn without_the_library_nothing_starts() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary directory");
    let alone = folder.path().join("manyhands");
    std::fs::hard_link(MANYHANDS, &alone).expect("one file system");
    let check = |program: &Path, library: Option<&str>, expected: &str| {
        let mut command = Command::new(program);
        command.env_remove("MANYHANDS_LIBRARY").args(["run", "--", "echo", "started"]);
        command.envs(library.map(|library| ("MANYHANDS_LIBRARY", library)));
        let ended = ended(&mut command);
        assert!(!ended.status.success() && ended.output.is_empty());
        assert!(ended.rest.contains(expected), "{}", ended.rest);
    };
    check(&alone, None, "make dropin");
    check(MANYHANDS.as_ref(), Some("/nonexistent"), "/nonexistent");
    check(MANYHANDS.as_ref(), Some("/etc/passwd"), "is no library");
    check(MANYHANDS.as_ref(), Some(MANYHANDS), "make dropin");
}
