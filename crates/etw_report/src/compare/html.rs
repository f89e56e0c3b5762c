//! A comparison as a page with differential flame graphs.

use maud::{Markup, html};

use super::condition::Verdict;
use super::rows::{Row, Subject, ends, percent_text};
use super::{Compared, Side};
use crate::flame;
use crate::html::{Shown, document, plural};

/// Returns the page, with at most `top` rows of each kind that grew, and as many that shrank.
pub(super) fn page(sides: &[Side; 2], compared: &[Compared], verdicts: &[Verdict], top: usize) -> Markup {
    let [before, after] = sides;
    let has_any = |compared: &&Compared| compared.comparison.totals().iter().any(|sum| !sum.is_zero());
    let (full, empty): (Vec<&Compared>, Vec<&Compared>) = compared.iter().partition(has_any);
    let body = html! {
        h1 { (Shown(&before.file)) " → " (Shown(&after.file)) }
        @for (name, side) in ["Before", "After"].into_iter().zip(sides) {
            p.dim {
                (name) ": " (Shown(&side.file)) ", " (format!("{:.3}", side.seconds)) " s, "
                (plural(side.events, "event")) " from " (side.start.to_string())
                @if let Some(losses) = &side.losses { ", incomplete: " (Shown(losses)) }
            }
        }
        @for verdict in verdicts {
            @if verdict.holds { .verdict.bad { "Failed" span { (Shown(&verdict.to_string())) } } }
            @else { .verdict.good { "Passed" span { (Shown(&verdict.to_string())) } } }
        }
        nav {
            @for compared in &full {
                a href={ "#" (compared.kind.name()) } { (compared.kind.title()) }
                a href={ "#flame-" (compared.kind.name()) } { "Flame graph: " (compared.kind.title()) }
            }
        }
        @for compared in &full {
            (graph(compared))
            (tables(compared, top))
        }
        @if !empty.is_empty() {
            footer {
                "Tables without stacks, with what records them: "
                @for (index, compared) in empty.iter().enumerate() {
                    @if index > 0 { "; " }
                    (compared.kind.title()) " (" (compared.kind.flags()) ")"
                }
                "."
            }
        }
    };
    let title = format!("Comparison: {} and {}", before.file, after.file);
    document(&title, &body, !full.is_empty())
}

fn graph(compared: &Compared) -> Markup {
    let totals = compared.comparison.totals();
    flame::difference(compared.kind, compared.unit, totals, compared.seconds, |percent| {
        compared.comparison.tree(percent)
    })
}

fn tables(compared: &Compared, top: usize) -> Markup {
    let all = compared.all();
    html! {
        section id=(compared.kind.name()) {
            h2 { (compared.kind.title()) }
            p {
                (compared.rate_text(all.rates[0])) " before, " (compared.rate_text(all.rates[1])) " after ("
                (percent_text(all.change_percent())) ")"
            }
            @for subject in Subject::ALL {
                @let rows = compared.rows(subject);
                @let ([grew, shrank], others) = ends(&rows, top);
                h2 { (subject.title()) }
                @if grew.is_empty() && shrank.is_empty() { p.note { "Nothing changed." } }
                @else {
                    .scroll { table {
                        thead { tr {
                            th.n { "Before" } th.n { "After" } th.n { "Change" } th.n { "Change %" }
                            th.n { "Before %" } th.n { "After %" } th.t { "Name" }
                        } }
                        tbody {
                            @for row in grew.iter().chain(shrank) { (row_markup(compared, row)) }
                        }
                    } }
                    @if others > 0 { p.note { "… " (others) " more that changed less or not" } }
                }
            }
        }
    }
}

fn row_markup(compared: &Compared, row: &Row) -> Markup {
    let sign = if row.change() < 0.0 { "−" } else { "+" };
    html! {
        tr {
            @for rate in row.rates { td.n { (compared.rate_text(rate)) } }
            td.n { (sign) (compared.rate_text(row.change().abs())) }
            td.n { (percent_text(row.change_percent())) }
            @for share in row.shares { td.n { (format!("{share:.2}")) } }
            td.t { span.long { (Shown(&row.name)) } }
        }
    }
}
