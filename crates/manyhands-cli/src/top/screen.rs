//! The live screen of `manyhands top`: redrawn four times a second, with keys.

mod choices;

mod draw;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};

use crate::inside::{Inside, state::State};
use choices::{Asked, Choices};

/// How often it is redrawn.
const TICK: Duration = Duration::from_millis(250);

/// Shows the files until a person has seen enough.
pub fn run(looks: &mut [Inside]) -> Result<ExitCode> {
    let terminal = ratatui::try_init().context("the terminal cannot be used")?;
    let shown = show(terminal, looks);
    ratatui::restore();
    shown?;
    Ok(ExitCode::SUCCESS)
}

fn show(mut terminal: DefaultTerminal, looks: &mut [Inside]) -> Result<()> {
    let mut choices = Choices::new(looks.len());
    loop {
        let began = Instant::now();
        let look = &mut looks[choices.file];
        let state = look.look()?;
        choices.accept(&state);
        terminal.draw(|frame| draw::draw(frame, &state, &mut choices))?;
        loop {
            let left = TICK.saturating_sub(began.elapsed());
            if left.is_zero() || !event::poll(left)? {
                break;
            }
            if let Some(asked) = answer(&event::read()?, &mut choices, &state) {
                match asked {
                    Asked::Quit => return Ok(()),
                    Asked::OtherFile => break,
                    Asked::Cancel(member) => {
                        choices.message = Some(look.cancel(member));
                    }
                    Asked::Redraw => {}
                }
                // What was chosen is shown at once; what goes on is looked at in its time.
                terminal.draw(|frame| draw::draw(frame, &state, &mut choices))?;
            }
        }
    }
}

fn answer(event: &Event, choices: &mut Choices, state: &State) -> Option<Asked> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Press => choices.press(*key, state),
        Event::Resize(..) => Some(Asked::Redraw),
        _ => None,
    }
}
