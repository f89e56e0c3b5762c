//! The help of every command.

use crate::Etw;

/// Commands whose help is that of other programs.
const OF_OTHERS: [&str; 3] = ["view", "sql", "cluster"];

/// Returns the commands that a page lists.
fn listed(page: &str) -> Vec<&str> {
    let below = page.lines().skip_while(|line| *line != "Commands:").skip(1);
    let entries = below.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names = entries.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help" && !OF_OTHERS.contains(name)).collect()
}

/// Compares the page of a command, and those of the commands that it lists.
fn check(etw: &Etw, command: &[&str]) {
    let words = [command, &["--help"]].concat();
    let output = etw.command(&words).env_remove("COLUMNS").output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    insta::assert_snapshot!([&["etw"], command].concat().join("_"), page);
    let commands = listed(&page);
    // A tool shows its own name.
    let has_example = ["etw"].iter().chain(command.last()).any(|name| page.contains(&format!("\n  {name} ")));
    assert!(has_example || !commands.is_empty(), "{page}");
    for name in commands {
        check(etw, &[command, &[name]].concat());
    }
}

#[test]
fn every_command_has_help() {
    check(&Etw::new(), &[]);
}
