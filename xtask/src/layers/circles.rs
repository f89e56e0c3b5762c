//! Checks that imports between the folders of a crate go in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::imports::Imports;

/// Imports that the check ignores.
pub(super) struct Exception {
    pub(super) package: &'static str,
    /// The start of the importing file's path, relative to the package's `src`.
    pub(super) from: &'static str,
    /// The start of the imported file's path.
    pub(super) to: &'static str,
    /// Reason for the exception.
    #[expect(dead_code, reason = "for those who read the list")]
    pub(super) why: &'static str,
}

/// Returns the breaches of a crate: circles of imports between files and folders in the same folder.
///
/// A folder is a single entry, including its contents. A circle of only files within one folder is allowed.
/// An unneeded exception is a breach too.
pub(super) fn breaches(package: &str, imports: &Imports, exceptions: &[Exception]) -> Vec<String> {
    let exceptions: Vec<&Exception> = exceptions.iter().filter(|it| it.package == package).collect();
    let remaining = |left_out: Option<usize>| {
        let mut remaining = imports.clone();
        for (_, exception) in exceptions.iter().enumerate().filter(|(index, _)| Some(*index) != left_out) {
            remaining.retain(|(from, to), _| {
                !(starts_with(from, exception.from) && starts_with(to, exception.to))
            });
        }
        circles_across_folders(package, &remaining)
    };
    let mut breaches = remaining(None);
    for (index, exception) in exceptions.iter().enumerate() {
        if remaining(Some(index)) == breaches {
            let Exception { from, to, .. } = exception;
            breaches
                .push(format!("{package}: the exception for imports of `{to}` by `{from}` is not needed"));
        }
    }
    breaches
}

fn circles_across_folders(package: &str, imports: &Imports) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, graph) in folders(imports) {
        for circle in circles(&graph) {
            if circle.iter().all(|name| name.ends_with(".rs")) {
                continue;
            }
            let mut text = format!("{package}: in src/{folder}, {circle:?} import each other in a circle:");
            for ((from, to), example) in &graph {
                if circle.contains(from) && circle.contains(to) {
                    text.push_str("\n    ");
                    text.push_str(example);
                }
            }
            found.push(text);
        }
    }
    found
}

fn starts_with(path: &Path, start: &str) -> bool {
    path.to_str().is_some_and(|path| path.starts_with(start))
}

/// The imports between the entries of one folder, each with an example.
type Graph = BTreeMap<(String, String), String>;

/// The graph of each folder whose entries import each other.
fn folders(imports: &Imports) -> BTreeMap<String, Graph> {
    let mut folders: BTreeMap<String, Graph> = BTreeMap::new();
    for ((from, to), path) in imports {
        let parts =
            |path: &Path| path.iter().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>();
        let (from_parts, to_parts) = (parts(from), parts(to));
        let common = from_parts.iter().zip(&to_parts).take_while(|(one, other)| one == other).count();
        if let (Some(one), Some(other)) = (from_parts.get(common), to_parts.get(common)) {
            let graph = folders.entry(from_parts[..common].join("/")).or_default();
            let example = || format!("{} uses {path} of {}", from.display(), to.display());
            graph.entry((one.clone(), other.clone())).or_insert_with(example);
        }
    }
    folders
}

/// The largest sets of entries each of which imports every other, by whatever way.
fn circles(graph: &Graph) -> Vec<BTreeSet<&String>> {
    let entries: BTreeSet<&String> = graph.keys().flat_map(|(from, to)| [from, to]).collect();
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        entries.iter().map(|entry| (*entry, reachable(graph, entry))).collect();
    let mut circles: Vec<BTreeSet<&String>> = Vec::new();
    for (entry, reached) in &reach {
        if !reached.contains(entry) || circles.iter().any(|circle| circle.contains(entry)) {
            continue;
        }
        circles.push(reached.iter().filter(|other| reach[*other].contains(entry)).copied().collect());
    }
    circles
}

/// Returns the direct and indirect imports of `start`.
fn reachable<'a>(graph: &'a Graph, start: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(entry) = open.pop() {
        for (from, to) in graph.keys() {
            if from == entry && reached.insert(to) {
                open.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Exception = Exception { package: "crate", from: "a/", to: "b/", why: "a test" };

    fn imports(edges: &[(&str, &str)]) -> Imports {
        edges.iter().map(|(from, to)| ((from.into(), to.into()), "crate::X".to_owned())).collect()
    }

    #[test]
    fn circles_that_cross_folders_are_found() {
        let check = |edges: &[(&str, &str)], expected: usize| {
            let found = breaches("crate", &imports(edges), &[]);
            assert_eq!(found.len(), expected, "{edges:?}: {found:?}");
        };
        check(&[("a/mod.rs", "b/mod.rs"), ("a/x.rs", "error.rs"), ("b/x.rs", "error.rs")], 0);
        // By the same file, by other files of the folders, and by a third one.
        check(&[("a/x.rs", "b/x.rs"), ("b/x.rs", "a/x.rs")], 1);
        check(&[("a/x.rs", "b/x.rs"), ("b/y.rs", "a/z/w.rs")], 1);
        check(&[("a/x.rs", "b/x.rs"), ("b/x.rs", "c.rs"), ("c.rs", "a/y.rs")], 1);
        // A folder and a file beside it; a folder and a file of the folder around it.
        check(&[("a/x.rs", "lib.rs"), ("lib.rs", "a/x.rs")], 1);
        check(&[("a/b/x.rs", "a/y.rs"), ("a/mod.rs", "a/b/x.rs"), ("a/y.rs", "a/mod.rs")], 1);
        // Files within one folder.
        check(&[("x.rs", "y.rs"), ("y.rs", "x.rs"), ("a/x.rs", "a/mod.rs"), ("a/mod.rs", "a/x.rs")], 0);
        check(
            &[("a/x.rs", "b/x.rs"), ("b/x.rs", "a/x.rs"), ("c/d/x.rs", "c/y.rs"), ("c/y.rs", "c/d/z.rs")],
            2,
        );
    }

    #[test]
    fn exceptions_must_be_needed() {
        let circle = imports(&[("a/x.rs", "b/x.rs"), ("b/x.rs", "a/x.rs")]);
        assert_eq!(breaches("crate", &circle, &[ANY]), [""; 0]);
        assert_eq!(breaches("other", &circle, &[ANY]).len(), 1);
        let line = imports(&[("a/x.rs", "b/x.rs")]);
        assert_eq!(breaches("crate", &line, &[ANY]).len(), 1);
    }
}
