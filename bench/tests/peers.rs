//! The benchmark with its peers, as its users run it: real processes, a real server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

const BENCH: &str = env!("CARGO_BIN_EXE_manyhands-bench");
const FORGETFUL: &str = env!("CARGO_BIN_EXE_forgetful");

/// One short run; returns its lines, and what it printed.
fn run(program: &str, arguments: &[&str], directory: &Path) -> (Vec<Value>, Output) {
    let output = Command::new(program)
        .args(arguments)
        .args(["--repeat", "1", "--seconds", "0.5", "--directory"])
        .arg(directory)
        .output()
        .expect("the command starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lines = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (lines, output)
}

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // The server's user goes through it.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(directory.path(), permissions).expect("it is ours");
    directory
}

/// Runs a workload on both peers: each line has passed its check, and nothing is left behind.
fn check(arguments: &[&str], engines: &str) -> Vec<Value> {
    let directory = directory();
    let (lines, output) =
        run(BENCH, &[arguments, &["--engines", engines]].concat(), directory.path());
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for line in &lines {
        assert_eq!(line["check"], "ok", "{line}");
        let errors = line["figures"]["errors"].as_object().expect("by kind");
        assert!(errors.is_empty(), "nobody waits for 5 s here: {errors:?}");
    }
    assert!(files_in(directory.path()).is_empty());
    lines
}

fn files_in(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory).expect("it is there");
    files.flatten().filter_map(|file| file.file_name().into_string().ok()).collect()
}

const PEERS: &str = "turso,postgres";

/// Rows of single statements are all there, with their syncs, CPU time and memory: a server's count as its clients'.
#[test]
fn inserts() {
    for line in check(&["threads", "--threads", "1,4"], PEERS) {
        let figures = &line["figures"];
        assert!(figures["syncs"].as_u64() > Some(0), "nothing was durable: {line}");
        assert!(figures["cpu_s"].as_f64() > Some(0.0), "{line}");
        assert!(figures["rss_peak_bytes_max"].as_u64() > Some(1_000_000), "{line}");
        let versions = &line["circumstances"]["engines"];
        assert!(versions["turso"].as_str().is_some_and(|it| it.starts_with("Turso ")), "{line}");
        let postgres = versions["postgres"].as_str().expect("it takes part");
        assert!(postgres.starts_with("PostgreSQL "), "{line}");
    }
}

/// One client alone: no commit without a sync of its own.
#[test]
fn each_commit_is_durable() {
    for line in check(&["threads", "--threads", "1"], PEERS) {
        let figures = &line["figures"];
        let of = |name: &str| figures[name].as_u64().expect("a number");
        assert!(of("syncs") >= of("acknowledged"), "{line}");
    }
}

/// A slower disk is slower for them, too: PostgreSQL's server syncs, and Turso in the workers.
#[test]
fn syncs_that_take_longer() {
    for line in check(&["threads", "--threads", "1", "--sync-us", "20000"], PEERS) {
        assert!(line["figures"]["p50_ms"].as_f64() >= Some(20.0), "{line}");
    }
}

/// The other workloads of one process; what conflicts is run again by the client, and counted.
#[test]
fn transactions() {
    check(&["think", "--threads", "4", "--think-us", "100", "--think-kind", "busy"], PEERS);
    check(&["think", "--threads", "4", "--think-us", "0"], "postgres-pipelined");
    check(&["orm", "--threads", "4"], "turso,postgres,postgres-read-committed");
    let long = ["mixed", "--threads", "2", "--long-seconds", "0.5"];
    assert_eq!(check(&long, PEERS).len(), 4);
    let hot = ["transfer", "--threads", "4", "--think-kind", "wait", "--accounts", "100"];
    for line in check(&hot, PEERS) {
        assert!(line["figures"]["effort"]["retries"].as_u64() > Some(0), "{line}");
    }
}

/// Single statements on hot rows are refused at serializable and by Turso, and run again.
#[test]
fn counters() {
    for line in check(&["counter", "--threads", "8"], "turso,postgres") {
        assert!(line["figures"]["effort"]["retries"].as_u64() > Some(0), "{line}");
    }
    for line in check(&["counter", "--threads", "8"], "postgres-read-committed") {
        assert_eq!(line["figures"]["effort"]["retries"], 0, "{line}");
    }
}

/// Each job is claimed once, by threads, and where a server is, by processes; PostgreSQL as its users do it.
#[test]
fn jobs() {
    for line in check(&["claim", "--threads", "4", "--jobs", "300"], "postgres-read-committed") {
        assert_eq!(line["figures"]["acknowledged"], 300);
        assert_eq!(line["figures"]["effort"]["retries"], 0, "it skips what others have locked");
    }
    check(&["claim", "--processes", "3", "--jobs", "100"], "postgres,postgres-read-committed");
    check(&["claim", "--threads", "2", "--jobs", "100"], "turso");
}

/// Async tasks of several processes, on a pool of connections each.
#[test]
fn clients() {
    check(&["clients", "--processes", "2", "--clients", "20"], "postgres");
}

/// A transaction that only reads sees one snapshot beside the writers.
#[test]
fn a_reader() {
    for line in &check(&["endless-reader", "--threads", "2"], PEERS)[2..] {
        assert!(line["figures"]["reader"]["refusal"].is_null(), "{line}");
    }
}

/// Many processes: only a server can.
#[test]
fn a_storm() {
    let lines = check(&["storm", "--processes", "3", "--rounds", "2"], "postgres");
    assert_eq!(lines[0]["figures"]["acknowledged"], 6);
    let directory = directory();
    let (_, output) =
        run(BENCH, &["storm", "--processes", "1", "--engines", "turso"], directory.path());
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("turso: only one process can have the file"), "{stderr}");
}

/// Who does not take part is named, in the table and in each line.
#[test]
fn who_is_left_out_is_named() {
    let directory = directory();
    let (lines, output) = run(
        FORGETFUL,
        &["threads", "--threads", "1", "--engines", "stock,absent"],
        directory.path(),
    );
    assert!(output.status.success());
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["circumstances"]["left_out"]["absent"], "it is not installed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("left out: absent: it is not installed"), "{stderr}");
}

/// One acknowledged row that is not in the file takes the figure away, whoever forgot it.
#[test]
fn a_forgotten_row_has_no_figure() {
    let engines = "forgetful-manyhands,forgetful-stock,forgetful-turso,forgetful-postgres";
    for (arguments, missing) in [
        (&["threads", "--threads", "2"][..], 2),
        (&["think", "--threads", "2", "--think-us", "0"], 2),
        (&["counter", "--threads", "2"], 2),
    ] {
        let directory = directory();
        let (lines, output) =
            run(FORGETFUL, &[arguments, &["--engines", engines]].concat(), directory.path());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(lines.len(), 4, "{stderr}");
        for line in &lines {
            assert!(line["figures"].is_null(), "{line}");
            let told = line["check"].as_str().expect("a reason");
            let numbers: Vec<i64> = told
                .split(|character: char| !character.is_ascii_digit())
                .filter_map(|number| number.parse().ok())
                .collect();
            let [.., stored, acknowledged] = numbers[..] else { panic!("{told}") };
            assert_eq!(acknowledged - stored, missing, "{told}");
        }
        assert!(stderr.contains("CHECK FAILED"), "{stderr}");
    }
}

/// The postmaster and those who write for it; the command itself is connected once more.
const SERVERS_AT_START: usize = 7;

/// A run on PostgreSQL that goes on for an hour, when its server is there; and the numbers of the server's processes.
fn endless_run(directory: &Path) -> (Child, Vec<u32>) {
    // Whoever runs the tests in the background has SIGINT ignored, which a program inherits.
    let mut command = Command::new("env")
        .args(["--default-signal=INT", BENCH])
        .args(["threads", "--threads", "2", "--engines", "postgres"])
        .args(["--seconds", "3600", "--directory"])
        .arg(directory)
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    let began = Instant::now();
    let mut servers = servers_in(directory);
    // The first processes come with the start, sessions later.
    while servers.len() <= SERVERS_AT_START && began.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(50));
        servers = servers_in(directory);
    }
    if servers.len() <= SERVERS_AT_START {
        command.kill().expect("it was started");
        command.wait().expect("it was started");
        panic!("no server: {servers:?}");
    }
    (command, servers)
}

/// Processes that work in a directory below this one.
fn servers_in(directory: &Path) -> Vec<u32> {
    let directory = directory.canonicalize().expect("it is there");
    let processes = fs::read_dir("/proc").expect("this is Linux").flatten();
    processes
        .filter(|process| {
            fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&directory))
        })
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect()
}

/// The directory of the server's socket: the fifth line of its lock file.
fn sockets_of(directory: &Path) -> Option<PathBuf> {
    let server = files_in(directory).into_iter().find(|file| file.contains("postgres"))?;
    let lock = fs::read_to_string(directory.join(server).join("data/postmaster.pid")).ok()?;
    Some(lock.lines().nth(4)?.into())
}

/// Interrupted, terminated, or killed: no server and no file of it outlives the command.
#[test]
fn no_server_is_left_behind() {
    for signal in ["INT", "TERM", "KILL"] {
        let directory = directory();
        let (mut command, servers) = endless_run(directory.path());
        let sockets = sockets_of(directory.path()).expect("it runs");
        assert!(sockets.is_dir());
        let killed = Command::new("kill")
            .args(["-s", signal, &command.id().to_string()])
            .status()
            .expect("there is a kill");
        assert!(killed.success());
        command.wait().expect("it was started");
        let began = Instant::now();
        let is_left = || {
            servers.iter().any(|server| Path::new("/proc").join(server.to_string()).exists())
                || files_in(directory.path()).iter().any(|file| file.contains("postgres"))
                || sockets.exists()
        };
        while is_left() {
            assert!(began.elapsed() < Duration::from_secs(30), "SIG{signal}: {servers:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}
