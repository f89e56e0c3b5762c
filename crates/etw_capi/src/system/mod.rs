//! What programs that use ETW need of Windows besides (`openetw_system.h`): threads and events, Ctrl-C, GUIDs and text.

mod command_line;
mod console;
mod kernel;
mod locale;
mod modules;
mod objects;
mod text;
mod token;

pub use command_line::*;
pub use console::*;
pub use kernel::*;
pub use locale::*;
pub use modules::*;
pub use objects::*;
pub use text::*;
pub use token::*;
