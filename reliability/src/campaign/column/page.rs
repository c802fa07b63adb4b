//! The page: what all slices came to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::{Context, Result};

use super::Arguments;
use super::entry::What;
use super::standing::{Found, Standing};
use crate::campaign::results::Run;

/// How much of a finding's words the page has.
const WORDS_MAX: usize = 400;

/// Writes the page anew.
pub fn write(
    arguments: &Arguments,
    standings: &[Standing<'_>],
    ended: &BTreeMap<&str, String>,
) -> Result<()> {
    let text = text(arguments, standings, ended)?;
    let (path, half) = (&arguments.page, arguments.page.with_extension("half"));
    std::fs::write(&half, text).with_context(|| format!("write {}", half.display()))?;
    std::fs::rename(&half, path).with_context(|| format!("write {}", path.display()))
}

fn text(
    arguments: &Arguments,
    standings: &[Standing<'_>],
    ended: &BTreeMap<&str, String>,
) -> Result<String> {
    let mut text = head(arguments, standings)?;
    for standing in standings {
        row(&mut text, standing)?;
    }
    let all: Vec<Found<'_>> = standings.iter().flat_map(Standing::findings).collect();
    let (now, before): (Vec<_>, Vec<_>) = all.into_iter().partition(Found::is_of_this_commit);
    section(&mut text, "Findings", &now)?;
    if now.is_empty() {
        writeln!(text, "\n## Findings\nNone.")?;
    }
    section(&mut text, "Findings of other commits", &before)?;
    let left_out = ended.iter().filter(|(_, reason)| reason.starts_with("cannot"));
    for (index, (words, reason)) in left_out.enumerate() {
        if index == 0 {
            writeln!(text, "\n## Left out")?;
        }
        writeln!(text, "* `{words}`: {reason}")?;
    }
    Ok(text)
}

fn head(arguments: &Arguments, standings: &[Standing<'_>]) -> Result<String> {
    let slices: Vec<&Run> = standings.iter().flat_map(|it| it.slices.iter().copied()).collect();
    let (first, last) = (
        slices.iter().map(|run| run.unix_s).min().unwrap_or(0),
        slices.iter().map(|run| run.unix_s).max().unwrap_or(0),
    );
    let machines: BTreeSet<&str> = slices.iter().map(|run| run.machine.as_str()).collect();
    let machines = Vec::from_iter(machines).join("; ");
    let hours = standings.iter().map(Standing::seconds).sum::<f64>() / 3600.0;
    let complete = standings.iter().filter(|standing| standing.share() >= 1.0).count();
    let mut text = String::from("# The long column, as far as it is\n\n");
    writeln!(
        text,
        "`make campaign` writes this page: it plays every campaign in slices, the one that is least far first, \
         until each has\nits number, and goes on where it ended, on whichever day. \
         [campaigns.jsonl](campaigns.jsonl) has a line for each slice.\n"
    )?;
    write!(text, "Seed {}; {} slices, {hours:.2} hours", arguments.seed, slices.len())?;
    if !slices.is_empty() {
        write!(text, ", {} to {}; {machines}", date(first), date(last))?;
    }
    writeln!(text, ". {complete} of {} entries have their numbers.", standings.len())?;
    if arguments.part > 1 {
        writeln!(text, "The numbers are those of the long column, divided by {}.", arguments.part)?;
    }
    text += "\n| `reliability` | so far, of the long column's number | share | beside it | findings | slices | s | \
             commits |\n|---|---|---|---|---|---|---|---|\n";
    Ok(text)
}

fn row(text: &mut String, standing: &Standing<'_>) -> Result<()> {
    let goals = standing.entry.goals.iter().map(|goal| {
        let (count, figure) = standing.count(goal);
        let (count, number) = (thousands(count), thousands(goal.number));
        match goal.what {
            What::Sum(_) => format!("{count} of {number} {}", spaced(figure)),
            What::Least(beginning) => {
                let points = standing.sums.keys().filter(|name| name.starts_with(beginning));
                let points = points.count();
                format!("least {} of all {points}: {count} of {number}", spaced(figure).trim())
            }
        }
    });
    let beside = standing.entry.beside.iter().filter_map(|name| {
        let figure = standing.sums.get(name)?;
        Some(format!("{} {}", thousands(*figure), spaced(name)))
    });
    let (goals, beside) = (Vec::from_iter(goals).join("; "), Vec::from_iter(beside).join(", "));
    writeln!(
        text,
        "| `{}` | {goals} | {} | {beside} | {} | {} | {:.0} | {} |",
        standing.entry.words,
        percent(standing.share()),
        standing.findings().count(),
        standing.slices.len(),
        standing.seconds(),
        Vec::from_iter(standing.commits()).join(", ")
    )?;
    Ok(())
}

fn section(text: &mut String, title: &str, found: &[Found<'_>]) -> Result<()> {
    if !found.is_empty() {
        writeln!(text, "\n## {title}")?;
    }
    for Found { run, finding } in found {
        let commit = run.commit.as_deref().unwrap_or("not told");
        let what = Vec::from_iter(finding.what.split_whitespace()).join(" ");
        let what: String = what.chars().take(WORDS_MAX).collect();
        writeln!(text, "* {}, commit {commit}, `{}`: {what}", date(run.unix_s), run.command)?;
        writeln!(text, "  Replay: `reliability {}`", finding.replay)?;
    }
    Ok(())
}

fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// Down to one in a million, and never 100 % before all is there.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        100.0 => "100 %".to_owned(),
        10.0.. => format!("{:.0} %", percent.floor()),
        0.1.. => format!("{percent:.2} %"),
        _ => format!("{percent:.4} %"),
    }
}

/// 1,234,567.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The day of a moment, in UTC: 2026-11-22.
fn date(unix_s: u64) -> String {
    let divides = |divisor: u64, year: u64| year.is_multiple_of(divisor);
    let is_leap = |year| divides(4, year) && (!divides(100, year) || divides(400, year));
    let (mut days, mut year) = (unix_s / 86_400, 1970);
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_days_as_people_read_them() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(12_345_678), "12,345,678");
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_795_334_400), "2026-11-22");
        assert_eq!(date(4_107_542_400), "2100-03-01");
        assert_eq!(percent(0.999_99), "99 %");
    }
}
