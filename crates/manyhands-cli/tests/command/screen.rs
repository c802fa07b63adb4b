//! The live screen of `manyhands top` in a terminal: it shows what `--once --json` says, by itself and with its keys.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    MANYHANDS,
    player::{Player, wait_for},
    top::{Place, state},
};

/// A terminal in which `manyhands top` runs.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn top(file: &Path) -> Self {
        // A server of its own, so that nobody's settings and sessions matter.
        let terminal = Self { socket: file.with_file_name("tmux") };
        let size = ["-x", "170", "-y", "45"];
        let program = [MANYHANDS, "top", file.to_str().expect("text")];
        terminal.tmux(&[&["new-session", "-d"][..], &size, &program].concat());
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]);
        tmux.args(arguments).stderr(Stdio::null());
        let output = tmux.output().expect("tmux is installed: apt-get install tmux");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn shown(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Looks until all of these are shown, and none of those.
    fn shows(&self, these: &[&str], those: &[&str]) -> String {
        let mut shown = String::new();
        let is_so = |shown: &str| {
            these.iter().all(|it| shown.contains(it)) && !those.iter().any(|it| shown.contains(it))
        };
        wait_for(&format!("{these:?}, and not {those:?}"), || {
            shown = self.shown();
            is_so(&shown).then_some(())
        });
        shown
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_screen_shows_what_json_says() {
    let place = Place::new();
    let mut job = Player::open(&place.file(), "job");
    job.does("BEGIN IMMEDIATE");
    job.does("UPDATE t SET a = 7 WHERE a = 1");
    let terminal = Terminal::top(&place.file());
    terminal.shows(&["1 member,", "0 waiting"], &[]);
    // What comes is shown by itself.
    let mut web = Player::open(&place.file(), "web");
    web.begin("INSERT INTO t VALUES (4)");
    // A picture may be taken while the terminal is written to: the last line of what is looked at is waited for, too.
    let last = "INSERT INTO t VALUES (4)";
    let shown = terminal.shows(&["2 members, 1 waiting", "COMMITS/S", "ASKS FOR", last], &[]);
    let now = state(&place.file());
    let leader = &now["leader"];
    let of_leader = format!("{} ({}: ", leader["pid"], leader["label"].as_str().expect("text"));
    let line = shown.lines().find(|line| line.starts_with("leader")).expect("a leader");
    assert!(line.contains(&of_leader), "{shown}");
    assert!(shown.contains(leader["statement"].as_str().expect("text")), "{shown}");
    for member in now["members"].as_array().expect("a list") {
        let pid = member["pid"].to_string();
        let row = shown
            .lines()
            .find(|line| line.trim_start().trim_start_matches('*').starts_with(&format!("{pid} ")));
        let row = row.unwrap_or_else(|| panic!("{pid} is not there:\n{shown}"));
        assert!(row.contains(member["label"].as_str().expect("text")), "{row}");
    }
    let waiting = now["queue"][0]["statement"].as_str().expect("text");
    let row = shown.lines().find(|line| line.contains(waiting)).expect("what waits");
    assert!(row.contains(&now["queue"][0]["pid"].to_string()) && row.contains("request"), "{row}");
    let place_of = |text: &str| shown.lines().position(|line| line.contains(text));
    assert!(place_of("COMMITS/S") < place_of("ASKS FOR"));

    terminal.press(&["/", "j", "o", "b", "Enter"]);
    // Its command line is in the members' table alone.
    let row_of_web = format!("{} ", web.pid());
    wait_for("the filter", || {
        let shown = terminal.shows(&["with \"job\""], &[]);
        let is_row = |line: &&str| line.trim_start().starts_with(&row_of_web);
        shown.lines().find(is_row).is_none().then_some(())
    });
    terminal.press(&["s", "j", "Enter"]);
    terminal.shows(&["in its own table of processes", "by waits"], &["COMMITS/S"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["COMMITS/S"], &[]);

    // Another filter, and its first member's work is cancelled.
    terminal.press(&["/", "BSpace", "BSpace", "BSpace", "w", "e", "b", "Enter"]);
    terminal.shows(&["with \"web\""], &[]);
    terminal.press(&["j", "c"]);
    terminal.shows(&["cancel what this process waits for and executes? y for yes"], &[]);
    terminal.press(&["y"]);
    assert!(web.hear().starts_with("error: interrupted: somebody has cancelled"));
    terminal.shows(&["0 waiting"], &["ASKS FOR"]);
    web.begin("INSERT INTO t VALUES (5)");
    terminal.shows(&["1 waiting"], &[]);
    job.does("COMMIT");
    assert_eq!(web.hear(), "ok");
    terminal.shows(&["nobody writes", "0 waiting"], &["ASKS FOR"]);
    terminal.press(&["q"]);
    wait_for("its end", || terminal.tmux(&["list-sessions"]).is_empty().then_some(()));
}

/// 200 processes write: all are found, and the screen shows that it goes on.
#[test]
fn a_storm_of_200_processes() {
    const PROCESSES: usize = 200;
    let place = Place::new();
    let mut players: Vec<_> =
        (0..PROCESSES).map(|_| Player::start(&place.file(), "storm")).collect();
    for player in &mut players {
        assert_eq!(player.hear(), "open");
        player.begin("storm 600");
    }
    let terminal = Terminal::top(&place.file());
    let picture = terminal.shows(&["200 members", "COMMITS/S", "batched"], &["no wait has ended"]);
    wait_for("another picture", || {
        let next = terminal.shows(&["200 members"], &[]);
        let line =
            |picture: &str| picture.lines().find(|it| it.starts_with("commits")).map(str::to_owned);
        (line(&next) != line(&picture)).then_some(())
    });
    let now = state(&place.file());
    let members = now["members"].as_array().expect("a list");
    let mut found: Vec<_> = members.iter().filter_map(|it| it["pid"].as_i64()).collect();
    let mut started: Vec<i64> = players.iter().map(|player| player.pid().into()).collect();
    found.sort_unstable();
    started.sort_unstable();
    assert_eq!(found, started);
}
