//! The lines of `manyhands top` above its tables: each one sentence or a row of figures, the same on the screen and in plain text.

use crate::{
    figure::{time, whole},
    inside::state::{Does, Leader, Party, Reader, State},
};

/// How much of a statement or a command line is told in one line, in characters.
const TOLD_MAX: usize = 100;

/// The first line.
pub fn title(state: &State) -> String {
    let members = counted(state.members.len(), "member");
    let waiting = format!("{} waiting", state.queue.len());
    let stock = counted(state.stock.len(), "stock program");
    format!("{}: {members}, {waiting}, {stock}", state.file.display())
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What is to be said of the file, each with a name in front.
pub fn lines(state: &State) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    lines.extend(state.note.clone().map(|note| ("note", note)));
    if state.note.is_none() {
        lines.push(("leader", state.leader.as_ref().map_or_else(nobody, leader)));
    }
    if let Some(party) = &state.write_lock {
        let waits = if state.leader.is_some() { ", and the leader waits for it" } else { "" };
        lines.push((
            "lock",
            format!("{} holds SQLite's write lock{waits}", told(party, "a stock program")),
        ));
    }
    if state.note.is_none() {
        lines.push(("commits", commits(state)));
        lines.push(("waits", waits(state)));
        lines.push(("kinds", kinds(state)));
        lines.extend(state.conflict.as_ref().map(|conflict| {
            let pid = conflict.pid.map_or_else(|| "a process".to_owned(), |pid| pid.to_string());
            let ago = time(conflict.ago_s);
            ("conflict", format!("{pid}, {ago} ago, at: {}", cut(&conflict.statement)))
        }));
    }
    lines.push(("wal", wal(state)));
    lines.extend(state.wal.readers.iter().map(|it| ("reader", reader(it))));
    lines
}

fn nobody() -> String {
    "nobody writes".to_owned()
}

fn leader(leader: &Leader) -> String {
    let who = Party {
        pid: leader.pid,
        label: leader.label.clone(),
        command: leader.command.clone(),
        is_stock: false,
    };
    let statement = leader.statement.as_deref().map(cut).unwrap_or_default();
    let does = match (leader.does, leader.idle_s) {
        (Does::Batch, _) => format!("executes the requests of others: {statement}"),
        (Does::Statement, _) => format!("executes: {statement}"),
        (Does::Idle, idle) => {
            let idle = time(idle.unwrap_or_default());
            format!("its transaction is open and has done nothing for {idle}, after: {statement}")
        }
        (Does::Nothing, _) => "begins or ends".to_owned(),
    };
    let stopped = if leader.is_stopped { "; it is STOPPED: kill -CONT lets it go on" } else { "" };
    format!("{} has led for {}, and {does}{stopped}", told(&who, "a process"), time(leader.held_s))
}

/// Who somebody is.
pub fn told(party: &Party, unknown: &str) -> String {
    let Some(pid) = party.pid else { return format!("{unknown} that cannot be named from here") };
    let details = [party.label.as_str(), &cut(&party.command)];
    let details: Vec<_> = details.into_iter().filter(|it| !it.is_empty()).collect();
    let stock = if party.is_stock { "stock program " } else { "" };
    if details.is_empty() {
        return format!("{stock}{pid}");
    }
    format!("{stock}{pid} ({})", details.join(": "))
}

fn commits(state: &State) -> String {
    let rates = &state.rates;
    let mut parts = vec![format!("{}/s", per_second(rates.commits_per_s))];
    parts.extend(rates.sqlite_commits_per_s.map(|it| format!("SQLite {}/s", per_second(it))));
    parts.extend(rates.batch_size.map(|it| format!("batch {it:.1}")));
    parts.extend(rates.sync_ms.map(|it| format!("sync {}", time(it / 1e3))));
    parts.push(format!("syncs {}/s", per_second(rates.syncs_per_s)));
    parts.push(format!("conflicts {}/s", per_second(rates.conflicts_per_s)));
    parts.join("   ")
}

/// A rate in few digits.
pub fn per_second(rate: f64) -> String {
    if rate < 9.95 && rate != 0.0 { format!("{rate:.1}") } else { whole(rate.round() as u64) }
}

fn waits(state: &State) -> String {
    let waits = &state.waits;
    let (Some(p50), Some(p99), Some(max)) = (waits.p50_ms, waits.p99_ms, waits.max_ms) else {
        return format!("no wait has ended in the last {}", time(state.seconds));
    };
    let [p50, p99, max] = [p50, p99, max].map(|millis| time(millis / 1e3));
    format!("{} waits   p50 {p50}   p99 {p99}   max {max}", whole(waits.count))
}

fn kinds(state: &State) -> String {
    let rates = &state.rates;
    let shares = [
        ("batched", rates.batched),
        ("alone", rates.alone),
        ("in turn", rates.in_turn),
        ("promoted", rates.promoted),
        ("replayed", rates.replayed),
    ];
    let told = shares
        .into_iter()
        .filter_map(|(name, share)| share.map(|share| format!("{name} {:.0} %", share * 100.0)));
    let told: Vec<_> = told.collect();
    if told.is_empty() { "no commits".to_owned() } else { told.join("   ") }
}

fn wal(state: &State) -> String {
    let wal = &state.wal;
    let mut parts = vec![bytes(wal.bytes)];
    if let (Some(frames), Some(copied)) = (wal.frames, wal.copied) {
        parts.push(format!("{} frames", whole(frames.into())));
        parts.push(format!("{} copied", whole(copied.into())));
    }
    if wal.kept_bytes != 0 {
        parts.push(format!("{} kept by a reader", bytes(wal.kept_bytes)));
    }
    parts.join(", ")
}

/// A number of bytes, with a unit.
pub fn bytes(count: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000)];
    let unit = UNITS.iter().find(|(_, size)| count >= *size);
    unit.map_or_else(
        || format!("{count} bytes"),
        |(name, size)| format!("{:.1} {name}", count as f64 / *size as f64),
    )
}

fn reader(reader: &Reader) -> String {
    let who = told(&reader.party, "a process");
    let frames = counted(reader.frames_behind as usize, "frame");
    format!("{who} has read for {} at least, {frames} behind", time(reader.age_s))
}

/// The beginning of a text, in one line.
pub fn cut(text: &str) -> String {
    // No more than is told, and the spaces in it.
    let end = text.floor_char_boundary(TOLD_MAX * 8);
    let words: Vec<_> = text[..end].split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= TOLD_MAX {
        return line;
    }
    line.chars().take(TOLD_MAX - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one sentence that whoever got a timeout looks for.
    #[test]
    fn a_forgotten_transaction_is_told_in_one_line() {
        let state = State {
            leader: Some(Leader {
                pid: Some(17),
                label: "job".into(),
                command: "python3 job.py".into(),
                held_s: 34.2,
                does: Does::Idle,
                statement: Some("UPDATE t\n  SET a = 1".into()),
                idle_s: Some(34.1),
                is_stopped: false,
            }),
            ..State::default()
        };
        let (name, line) = &lines(&state)[0];
        assert_eq!(*name, "leader");
        assert_eq!(
            line,
            "17 (job: python3 job.py) has led for 34.2 s, and its transaction is open and has done nothing for 34.1 s, \
             after: UPDATE t SET a = 1"
        );
    }

    #[test]
    fn figures_and_texts() {
        assert_eq!([0, 999, 8_372_224].map(bytes), ["0 bytes", "999 bytes", "8.4 MB"]);
        assert_eq!([0.0, 0.5, 12_345.6].map(per_second), ["0", "0.5", "12,346"]);
        assert_eq!(cut(&"a".repeat(200)).len(), TOLD_MAX);
        assert_eq!(counted(1, "frame"), "1 frame");
    }
}
