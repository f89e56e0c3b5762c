//! Key bindings.

use etw_live::{Model, View};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{App, Command, PromptKind};

/// Performs the action of a key.
pub(crate) fn press(key: KeyEvent, app: &mut App, model: &mut Model) {
    if key.kind == KeyEventKind::Release {
        return;
    }
    let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
    if has_control && key.code == KeyCode::Char('c') {
        return app.act(Command::Quit, model);
    }
    if app.prompt.is_some() {
        return typed(key.code, has_control, app, model);
    }
    if let Some(command) = command(key.code, has_control) {
        app.act(command, model);
    }
}

fn typed(code: KeyCode, has_control: bool, app: &mut App, model: &mut Model) {
    match code {
        KeyCode::Esc => app.cancel(),
        KeyCode::Enter => app.accept(model),
        KeyCode::Backspace => app.edit(|text| {
            text.pop();
        }),
        KeyCode::Char('u') if has_control => app.edit(String::clear),
        KeyCode::Char(character) if !has_control => app.edit(|text| text.push(character)),
        _ => {}
    }
}

fn command(code: KeyCode, has_control: bool) -> Option<Command> {
    Some(match code {
        KeyCode::Char('f') if has_control => Command::Page(1),
        KeyCode::Char('b') if has_control => Command::Page(-1),
        _ if has_control => return None,
        KeyCode::Char('q') => Command::Quit,
        KeyCode::Char(digit @ '1'..='7') => Command::Show(View::ALL[digit as usize - '1' as usize]),
        KeyCode::Tab => Command::NextView(true),
        KeyCode::BackTab => Command::NextView(false),
        KeyCode::Up | KeyCode::Char('k') => Command::Move(-1),
        KeyCode::Down | KeyCode::Char('j') => Command::Move(1),
        KeyCode::PageUp => Command::Page(-1),
        KeyCode::PageDown => Command::Page(1),
        KeyCode::Home | KeyCode::Char('g') => Command::First,
        KeyCode::End | KeyCode::Char('G') => Command::Last,
        KeyCode::Char(' ') => Command::Pause,
        KeyCode::Char('/') => Command::Ask(PromptKind::Search),
        KeyCode::Char('n') => Command::FindNext(true),
        KeyCode::Char('N') => Command::FindNext(false),
        KeyCode::Char('f') => Command::Ask(PromptKind::Filter),
        KeyCode::Char('F') => Command::ClearFilter,
        KeyCode::Char('s') => Command::Ask(PromptKind::Save),
        KeyCode::Enter => Command::Open,
        KeyCode::Esc => Command::Close,
        KeyCode::Char('<') => Command::SortBy(-1),
        KeyCode::Char('>') => Command::SortBy(1),
        KeyCode::Char('r') => Command::Reverse,
        KeyCode::Char('+') => Command::Speed(true),
        KeyCode::Char('-') => Command::Speed(false),
        KeyCode::Char('?' | 'h') => Command::Help,
        _ => return None,
    })
}
