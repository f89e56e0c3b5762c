//! Pages as users see them, compared with snapshots: `INSTA_UPDATE=always cargo test -p etw_cli pages` writes new ones.

use insta::assert_snapshot;

use crate::Etw;
use crate::generated::write_trace;

#[test]
fn pages_of_a_small_trace() {
    let etw = Etw::new();
    write_trace(&etw.path("a.etl"), 12, 3);
    let page = |arguments: &[&str]| etw.ok(arguments);
    assert_snapshot!("info", page(&["info", "a.etl"]));
    assert_snapshot!("info_json", page(&["info", "a.etl", "--format", "json"]));
    assert_snapshot!("stats", page(&["stats", "a.etl"]));
    assert_snapshot!("report", page(&["report", "a.etl"]));
    for format in ["text", "json", "csv", "xml"] {
        assert_snapshot!(
            format!("dump_{format}"),
            page(&["dump", "a.etl", "--format", format, "--limit", "2"])
        );
    }
}

/// The help of every command, and of the commands of commands.
#[test]
fn help() {
    let etw = Etw::new();
    let mut waiting = vec![Vec::new()];
    let mut count = 0;
    while let Some(command) = waiting.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let page = etw.ok(&words);
        let name = format!("help{}", command.iter().map(|word| format!("_{word}")).collect::<String>());
        let commands = page.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in commands.take_while(|line| line.starts_with("  ")) {
            let word = line.split_whitespace().next().unwrap_or_default();
            if !line.starts_with("   ") && word != "help" {
                waiting.push([&command[..], &[word.to_owned()]].concat());
            }
        }
        assert_snapshot!(name, page);
        count += 1;
    }
    assert!(count > 30, "{count} commands");
}
