//! The functions on stacks, on a trace whose stacks are known.

use crate::{Fixture, machine, text_of};

/// Rounds of the trace; the stack of a round has 1 to 4 of these methods.
const ROUNDS: u32 = 110;
const METHODS: [&str; 4] = ["Main", "Serve", "TakeOrder", "CheckNumber"];

/// Returns how many samples have so many frames.
fn samples(depth: usize) -> usize {
    (0..ROUNDS).filter(|round| 1 + (round * 7 % 11) as usize % METHODS.len() == depth).count()
}

#[test]
fn functions_on_stacks_name_the_functions_of_the_trace() {
    let fixture = Fixture::empty();
    machine::write(&fixture.path("trace.etl"), 0, ROUNDS);
    machine::write(&fixture.path("other.etl"), 1, ROUNDS);
    let named = fixture.ask("select distinct frame(stack, 0) from cpu_sampled order by 1");
    let short = |text: &str| METHODS.iter().find(|name| text.contains(&format!(".{name}("))).copied();
    let found: Vec<Option<&str>> = named.lines().map(short).collect();
    assert_eq!(found, ["CheckNumber", "Main", "Serve", "TakeOrder"].map(Some), "{named}");
    let expected = |value: &dyn Fn(usize) -> String| {
        let mut lines: Vec<String> = (1..=METHODS.len()).map(value).collect();
        lines.sort();
        lines.join("\n")
    };
    assert_eq!(
        fixture.ask("select cardinality(stack_frames(stack)) as depth, count(*) from cpu_sampled group by 1 order by 1"),
        expected(&|depth| format!("{depth},{}", samples(depth)))
    );
    let contains = |name: &str| {
        fixture.ask(&format!("select count(*) from cpu_sampled where stack_contains(stack, '{name}')"))
    };
    assert_eq!(contains("server.serve"), (samples(2) + samples(3) + samples(4)).to_string());
    assert_eq!(contains("no such"), "0");
    assert_eq!(fixture.ask("select count(*) from cpu_sampled where frame(stack, 4) is not null"), "0");
    assert_eq!(
        fixture.ask(
            "select count(*) from cpu_sampled where frame(stack, 0) = split_part(stack_text(stack), ';', -1)"
        ),
        ROUNDS.to_string()
    );
    // Frames are rows of the table of frames, whose functions are those of the text.
    let joined = fixture.ask(
        "select count(*) from (select stack, stack_frames(stack)[1] as inner_frame from cpu_sampled) s \
         join frames f on s.inner_frame = f.row where frame(s.stack, 0) = f.function",
    );
    assert_eq!(joined, ROUNDS.to_string());
    // The lines of `flame` are the sums of the texts.
    let flame = fixture.ask("select flame(stack, 1) from cpu_sampled");
    let mut lines: Vec<&str> = flame.trim_matches('"').lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let sums = fixture.ask(
        "select s || ' ' || n from (select stack_text(stack) as s, count(*) as n from cpu_sampled group by 1) x \
         order by 1",
    );
    assert_eq!(lines, sums.lines().map(|line| line.trim_matches('"')).collect::<Vec<_>>());
    assert_eq!(lines.len(), METHODS.len());
    // The same in a database of two traces, whose stacks have other numbers.
    let both = |query: &str| text_of(&fixture.run(&["other.etl", "trace.etl", query, "--format", "csv"]));
    let query = "select stack_text(stack) as s, count(*) as n, count(distinct stack) as stacks from cpu_sampled group by s order by s";
    let (one, two) = (fixture.ask(query), both(query));
    let counts = |text: &str| -> Vec<(String, u32)> {
        let rows = text.lines().filter_map(|line| line.rsplit_once(',')?.0.rsplit_once(','));
        rows.filter_map(|(text, n)| Some((text.to_owned(), n.parse().ok()?))).collect()
    };
    let sum = |rows: &[(String, u32)]| rows.iter().map(|(_, n)| n).sum::<u32>();
    assert_eq!((sum(&counts(&one)), sum(&counts(&two))), (ROUNDS, 2 * ROUNDS), "{one}{two}");
    assert_eq!(counts(&one).len(), counts(&two).len());
}
