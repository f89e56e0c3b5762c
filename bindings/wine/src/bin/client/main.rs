//! A Windows program for each task of the tests: `client TASK ARGUMENTS`. Fails with a message if something is not as on
//! Windows.

mod bench;
mod classic;
mod consume;
mod control;
mod hostile;
mod provide;
mod relog;
mod support;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["functions", dll, ref names @ ..] => support::find_functions(dll, names),
        ["provide", guid, count, rate] => provide::run(guid, support::number(count), support::number(rate)),
        ["write-until-killed", guid, ledger] => provide::until_killed(guid, ledger),
        ["consume", session, guid, count] => consume::run(session, guid, support::number(count)),
        ["control", directory] => control::run(directory),
        ["classic", directory] => classic::run(directory),
        ["relog", directory] => relog::run(directory),
        ["hostile"] => hostile::run(),
        ["bench"] => bench::run(),
        _ => panic!("unknown task: {arguments:?}"),
    }
}
