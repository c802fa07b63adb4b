//! The tables of `manyhands top`, as texts: the screen and the plain text show the same ones.

use comfy_table::{CellAlignment, ColumnConstraint, Table as Lines, presets::NOTHING};

use super::words::{cut, per_second};
use crate::{
    figure::{time, whole},
    inside::state::{Asks, Member, Stands, State, Waiting},
};

/// A table of texts. Columns in which nothing stands are left out.
pub struct Table {
    pub header: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
    /// How many of its first columns are to the right.
    pub numbers: usize,
}

impl Table {
    fn new<const COLUMNS: usize>(
        header: [&'static str; COLUMNS],
        mut rows: Vec<Vec<String>>,
        numbers: usize,
    ) -> Self {
        let is_used: Vec<_> =
            (0..COLUMNS).map(|at| rows.iter().any(|row| !row[at].is_empty())).collect();
        let used = |at: &usize| is_used[*at];
        let header = (0..COLUMNS).filter(used).map(|at| header[at]).collect();
        let numbers = (0..numbers).filter(used).count();
        for row in &mut rows {
            let mut at = 0..COLUMNS;
            row.retain(|_| at.next().is_some_and(|at| is_used[at]));
        }
        Self { header, rows, numbers }
    }

    /// Its columns in a line.
    pub fn text(&self) -> String {
        let mut lines = Lines::new();
        lines.load_preset(NOTHING).set_header(&self.header).add_rows(&self.rows);
        for (at, column) in lines.column_iter_mut().enumerate() {
            column.set_padding((0, 2)).set_constraint(ColumnConstraint::ContentWidth);
            if at < self.numbers {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let text = lines.to_string();
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        lines.join("\n")
    }
}

const MEMBERS: [&str; 9] =
    ["PID", "COMMITS/S", "COMMITS", "CONFLICTS", "WAITS", "AGE", "LABEL", "CONTAINER", "COMMAND"];

/// A member's row.
pub fn member(member: &Member) -> Vec<String> {
    let pid = pid(member.pid).unwrap_or_else(|| format!("{}?", member.own_pid));
    vec![
        format!("{}{pid}", if member.leads { "*" } else { "" }),
        per_second(member.commits_per_s),
        whole(member.commits),
        whole(member.conflicts.into()),
        member.waits_s.map(time).unwrap_or_default(),
        time(member.age_s),
        member.label.clone(),
        member.container.clone().unwrap_or_default(),
        cut(&member.command),
    ]
}

fn pid(pid: Option<i32>) -> Option<String> {
    pid.map(|pid| pid.to_string())
}

/// All members.
pub fn members(state: &State) -> Table {
    of_members(state.members.iter())
}

/// These.
pub fn of_members<'a>(members: impl Iterator<Item = &'a Member>) -> Table {
    Table::new(MEMBERS, members.map(member).collect(), 6)
}

fn waiting(waiting: &Waiting) -> Vec<String> {
    let more = match waiting.statements {
        0 | 1 => String::new(),
        more => format!(" (and {} more)", more - 1),
    };
    vec![
        waiting.place.to_string(),
        pid(waiting.pid).unwrap_or_else(|| "?".to_owned()),
        time(waiting.waits_s),
        match waiting.asks {
            Asks::Request => "request",
            Asks::Turn => "turn",
        }
        .to_owned(),
        match waiting.state {
            Stands::Waits => "waits",
            Stands::Executes => "executes",
            Stands::Executed => "executed",
        }
        .to_owned(),
        waiting.label.clone(),
        waiting.statement.as_deref().map(cut).unwrap_or_default() + &more,
    ]
}

pub fn queue(state: &State) -> Table {
    let header = ["#", "PID", "WAITS", "ASKS FOR", "STATE", "LABEL", "STATEMENT"];
    Table::new(header, state.queue.iter().map(waiting).collect(), 3)
}

pub fn stock(state: &State) -> Table {
    let rows = state.stock.iter().map(|stock| {
        let library = stock.library.as_ref().map(|path| path.display().to_string());
        vec![
            stock.pid.to_string(),
            if stock.is_guest { "Manyhands" } else { "SQLite" }.to_owned(),
            stock.date.clone().unwrap_or_default(),
            library.unwrap_or_default(),
            cut(&stock.command),
        ]
    });
    let header = ["PID", "IS", "OF", "LIBRARY", "COMMAND"];
    Table::new(header, rows.collect(), 1)
}
