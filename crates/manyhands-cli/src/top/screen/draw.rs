//! What the screen looks like. Colours are left out where `NO_COLOR` is set (<https://no-color.org>).

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Paragraph, Row, Table, TableState, Wrap},
};

use super::choices::{Choices, Mode};
use crate::{
    figure::{time, whole},
    inside::state::{Member, State},
    top::{tables, words},
};

const KEYS: &str =
    "q quit   s sort   / filter   up, down choose   enter details   c cancel   tab next file";
/// Rows of the queue that are shown, if there is room for the members, too.
const QUEUE_ROWS_MAX: usize = 12;
/// And of stock programs.
const STOCK_ROWS_MAX: usize = 4;

/// Draws all of it.
pub fn draw(frame: &mut Frame, state: &State, choices: &mut Choices) {
    let lines = words::lines(state);
    let queue = tables::queue(state);
    let stock = tables::stock(state);
    // With a header, and an empty line before it.
    let rows = |count: usize, max: usize| if count == 0 { 0 } else { count.min(max) as u16 + 2 };
    let [title, head, members, waiting, others, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(head_rows(&lines, frame.area().width)),
        Constraint::Min(4),
        Constraint::Length(rows(queue.rows.len(), QUEUE_ROWS_MAX)),
        Constraint::Length(rows(stock.rows.len(), STOCK_ROWS_MAX)),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let which = match choices.files {
        1 => String::new(),
        files => format!("  (file {} of {files})", choices.file + 1),
    };
    frame.render_widget(Line::from(words::title(state) + &which).style(bold()), title);
    let lines: Vec<Line> = lines.iter().map(|(name, text)| line(name, text)).collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), head);
    let selected = choices.selected.and_then(|it| state.members.iter().find(|m| m.member == it));
    match selected.filter(|_| choices.mode == Mode::Details) {
        Some(member) => details(frame, members, state, member),
        None => draw_members(frame, members, state, choices),
    }
    draw_table(frame, waiting, &queue);
    draw_table(frame, others, &stock);
    frame.render_widget(Line::from(last_line(choices)).style(bold()), foot);
}

/// How many rows the lines above the tables take, those included that are longer than the screen is wide.
fn head_rows(lines: &[(&str, String)], width: u16) -> u16 {
    let width = usize::from(width.max(20));
    let rows: usize =
        lines.iter().map(|(_, text)| (text.chars().count() + 10).div_ceil(width)).sum();
    rows.min(usize::from(u16::MAX)) as u16
}

fn last_line(choices: &Choices) -> String {
    match (choices.mode, &choices.message) {
        (Mode::Filter, _) => format!("filter: {}_", choices.filter),
        (Mode::Confirm(_), _) => {
            "cancel what this process waits for and executes? y for yes, any other key for no"
                .to_owned()
        }
        (_, Some(message)) => message.clone(),
        _ if choices.filter.is_empty() => format!("by {}   {KEYS}", choices.order.name()),
        _ => format!("by {}, with \"{}\"   {KEYS}", choices.order.name(), choices.filter),
    }
}

fn line<'a>(name: &'a str, text: &'a str) -> Line<'a> {
    let alarm = text.contains("STOPPED")
        || text.contains("has done nothing for")
        || matches!(name, "lock" | "note" | "reader");
    let style = if alarm { coloured(Color::Yellow) } else { Style::new() };
    Line::from(vec![Span::styled(format!("{name:<9} "), bold()), Span::styled(text, style)])
}

fn draw_members(frame: &mut Frame, area: Rect, state: &State, choices: &Choices) {
    let members = choices.members(state);
    let table = tables::of_members(members.iter().copied());
    let at = members.iter().position(|it| Some(it.member) == choices.selected);
    let mut selection = TableState::new().with_selected(at);
    let area = below_a_gap(area);
    frame.render_stateful_widget(widget(&table), area, &mut selection);
}

fn draw_table(frame: &mut Frame, area: Rect, table: &tables::Table) {
    if area.height > 1 {
        frame.render_widget(widget(table), below_a_gap(area));
    }
}

fn below_a_gap(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

fn widget(table: &tables::Table) -> Table<'_> {
    let width = |at: usize| {
        let cells = table.rows.iter().map(|row| row[at].chars().count());
        cells.chain([table.header[at].len()]).max().unwrap_or_default() as u16
    };
    let last = table.header.len().saturating_sub(1);
    let widths = (0..table.header.len()).map(|at| match at {
        at if at == last => Constraint::Min(8),
        at => Constraint::Length(width(at)),
    });
    let aligned = |row: &[String]| {
        let cells = row.iter().enumerate().map(|(at, cell)| {
            let line = Line::from(cell.clone());
            if at < table.numbers { line.right_aligned() } else { line }
        });
        Row::new(cells.collect::<Vec<_>>())
    };
    let header: Vec<_> = table.header.iter().map(ToString::to_string).collect();
    Table::new(table.rows.iter().map(|row| aligned(row)), widths)
        .header(aligned(&header).style(bold()))
        .column_spacing(2)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

/// All that is known of a member, and what it has in the queue.
fn details(frame: &mut Frame, area: Rect, state: &State, member: &Member) {
    let mut lines = vec![
        ("process", tables::member(member)[0].clone()),
        ("in its own table of processes", member.own_pid.to_string()),
        ("label", member.label.clone()),
        ("command", member.command.clone()),
        ("container", member.container.clone().unwrap_or_default()),
        ("member since", time(member.age_s)),
        ("commits", whole(member.commits)),
        ("conflicts", whole(member.conflicts.into())),
    ];
    lines.extend(state.queue.iter().filter(|it| it.pid == member.pid).map(|it| {
        let statement = it.statement.as_deref().unwrap_or("its turn");
        ("waits", format!("for {}, in place {}: {statement}", time(it.waits_s), it.place))
    }));
    let lines = lines.iter().map(|(name, text)| {
        let name = Span::styled(format!("{name:<30} "), bold());
        Line::from(vec![name, Span::raw(text.clone())])
    });
    let text: Vec<Line> = lines.collect();
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }), below_a_gap(area));
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn coloured(color: Color) -> Style {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    if is_plain { Style::new() } else { Style::new().fg(color) }
}
