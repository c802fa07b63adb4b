//! What a person has chosen on the screen: the file, the order, the filter, a member; and what its keys do.

use std::cmp::Reverse;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::inside::state::{Member, State};

/// What a key has asked for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Quit,
    OtherFile,
    Redraw,
    /// That this member's work is cancelled.
    Cancel(u16),
}

/// The order of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Commits,
    Waits,
    Conflicts,
    Age,
    Pid,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Order::Commits => "commits/s",
            Order::Waits => "waits",
            Order::Conflicts => "conflicts",
            Order::Age => "age",
            Order::Pid => "pid",
        }
    }

    fn next(self) -> Self {
        match self {
            Order::Commits => Order::Waits,
            Order::Waits => Order::Conflicts,
            Order::Conflicts => Order::Age,
            Order::Age => Order::Pid,
            Order::Pid => Order::Commits,
        }
    }
}

/// What the next keys are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Table,
    /// Letters are those of the filter.
    Filter,
    /// A member's details are shown.
    Details,
    /// Whether to cancel this member's work.
    Confirm(u16),
}

pub struct Choices {
    pub file: usize,
    pub files: usize,
    pub order: Order,
    pub filter: String,
    pub mode: Mode,
    /// The member's number.
    pub selected: Option<u16>,
    pub message: Option<String>,
}

impl Choices {
    pub fn new(files: usize) -> Self {
        let (order, filter, mode) = (Order::Commits, String::new(), Mode::Table);
        Self { file: 0, files, order, filter, mode, selected: None, message: None }
    }

    /// The members that are shown, in their order.
    pub fn members<'a>(&self, state: &'a State) -> Vec<&'a Member> {
        let filter = self.filter.to_lowercase();
        let has = |member: &Member| {
            let pid = member.pid.map(|pid| pid.to_string()).unwrap_or_default();
            let container = member.container.clone().unwrap_or_default();
            let texts = [&pid, &member.label, &member.command, &container];
            texts.iter().any(|text| text.to_lowercase().contains(&filter))
        };
        let mut members: Vec<_> = state.members.iter().filter(|member| has(member)).collect();
        // Equal ones stay where they are.
        let millis = |seconds: f64| (seconds * 1e3) as u64;
        members.sort_by_key(|member| match self.order {
            // A tenth: what moves less would jump about.
            Order::Commits => Reverse((member.commits_per_s / 10.0).round() as u64),
            Order::Waits => Reverse(member.waits_s.map_or(0, millis)),
            Order::Conflicts => Reverse(member.conflicts.into()),
            Order::Age => Reverse(millis(member.age_s)),
            Order::Pid => Reverse(u64::MAX - u64::from(member.pid.unwrap_or(0).unsigned_abs())),
        });
        members
    }

    /// A member that has gone is not selected any more.
    pub fn accept(&mut self, state: &State) {
        let is_there = |number: &u16| state.members.iter().any(|it| it.member == *number);
        self.selected = self.selected.filter(is_there);
        let needs_member = matches!(self.mode, Mode::Details | Mode::Confirm(_));
        if needs_member && self.selected.is_none() {
            self.mode = Mode::Table;
        }
    }

    /// What a key does.
    pub fn press(&mut self, key: KeyEvent, state: &State) -> Option<Asked> {
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(Asked::Quit);
        }
        match (self.mode, key.code) {
            (Mode::Filter, KeyCode::Enter) => self.mode = Mode::Table,
            (Mode::Filter, KeyCode::Esc) => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            (Mode::Filter, KeyCode::Backspace) => drop(self.filter.pop()),
            (Mode::Filter, KeyCode::Char(letter)) => self.filter.push(letter),
            (Mode::Confirm(member), code) => {
                self.mode = Mode::Table;
                if code == KeyCode::Char('y') {
                    return Some(Asked::Cancel(member));
                }
            }
            (Mode::Details, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q')) => {
                self.mode = Mode::Table;
            }
            (_, KeyCode::Char('q')) => return Some(Asked::Quit),
            // Not the end: a slow terminal may send a key's first byte, which is the same, alone.
            (_, KeyCode::Esc) => self.filter.clear(),
            (_, KeyCode::Char('s')) => self.order = self.order.next(),
            (_, KeyCode::Char('/')) => self.mode = Mode::Filter,
            (_, KeyCode::Down | KeyCode::Char('j')) => self.select(state, 1),
            (_, KeyCode::Up | KeyCode::Char('k')) => self.select(state, -1),
            (_, KeyCode::Enter) if self.selected.is_some() => self.mode = Mode::Details,
            (_, KeyCode::Char('c')) => match self.selected {
                Some(member) => self.mode = Mode::Confirm(member),
                None => self.message = Some("choose a member first: up and down".to_owned()),
            },
            (_, KeyCode::Tab) if self.files > 1 => {
                self.file = (self.file + 1) % self.files;
                self.selected = None;
                return Some(Asked::OtherFile);
            }
            _ => return None,
        }
        Some(Asked::Redraw)
    }

    fn select(&mut self, state: &State, step: isize) {
        let members = self.members(state);
        let Some(last) = members.len().checked_sub(1) else { return };
        let now = members.iter().position(|it| Some(it.member) == self.selected);
        let next = match now {
            Some(at) => at.saturating_add_signed(step).min(last),
            None if step > 0 => 0,
            None => last,
        };
        self.selected = Some(members[next].member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let member = |member, label: &str, commits_per_s, waits_s| Member {
            member,
            pid: Some(100 + i32::from(member)),
            label: label.to_owned(),
            commits_per_s,
            waits_s,
            ..Member::default()
        };
        let members = vec![
            member(0, "web", 10.0, None),
            member(1, "job", 500.0, Some(2.0)),
            member(2, "web", 90.0, Some(9.0)),
        ];
        State { members, ..State::default() }
    }

    fn numbers(choices: &Choices) -> Vec<u16> {
        choices.members(&state()).iter().map(|it| it.member).collect()
    }

    fn press(choices: &mut Choices, keys: &str) -> Option<Asked> {
        let state = state();
        let code = |letter| match letter {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            'v' => KeyCode::Down,
            '^' => KeyCode::Up,
            letter => KeyCode::Char(letter),
        };
        keys.chars().map(|letter| choices.press(code(letter).into(), &state)).last().flatten()
    }

    #[test]
    fn members_are_sorted_and_filtered() {
        let mut choices = Choices::new(1);
        assert_eq!(numbers(&choices), [1, 2, 0]);
        press(&mut choices, "s");
        assert_eq!((choices.order, numbers(&choices)), (Order::Waits, vec![2, 1, 0]));
        press(&mut choices, "/WEB\n");
        assert_eq!(numbers(&choices), [2, 0]);
        press(&mut choices, "sss");
        assert_eq!((choices.order, numbers(&choices)), (Order::Pid, vec![0, 2]));
    }

    /// Nobody's work is cancelled by one key.
    #[test]
    fn a_cancel_is_asked_for_twice() {
        let mut choices = Choices::new(1);
        press(&mut choices, "c");
        assert!(choices.message.is_some());
        assert_eq!(press(&mut choices, "vvc"), Some(Asked::Redraw));
        assert_eq!(press(&mut choices, "n"), Some(Asked::Redraw));
        assert_eq!(press(&mut choices, "cy"), Some(Asked::Cancel(2)));
        assert_eq!(choices.mode, Mode::Table);
    }

    #[test]
    fn files_and_details() {
        let mut choices = Choices::new(2);
        assert_eq!(press(&mut choices, "\t"), Some(Asked::OtherFile));
        assert_eq!(press(&mut choices, "\t"), Some(Asked::OtherFile));
        assert_eq!(choices.file, 0);
        press(&mut choices, "^\n");
        assert_eq!((choices.mode, choices.selected), (Mode::Details, Some(0)));
        choices.accept(&State::default());
        assert_eq!((choices.mode, choices.selected), (Mode::Table, None));
        assert_eq!(press(&mut choices, "q"), Some(Asked::Quit));
    }
}
