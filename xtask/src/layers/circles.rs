//! The check that imports between the folders of a crate go in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::imports::Imports;

/// Imports that the check overlooks.
pub(super) struct Exception {
    pub(super) package: &'static str,
    /// The start of the importing file's path, relative to the package's `src`.
    pub(super) from: &'static str,
    /// The start of the imported file's path.
    pub(super) to: &'static str,
    /// Why this is agreed on.
    #[expect(dead_code, reason = "for those who read the list")]
    pub(super) why: &'static str,
}

/// The breaches of a crate: circles of imports between files and folders that lie in one folder.
///
/// A folder counts as one with all that it contains. A circle of files alone within one folder is no breach.
/// Exceptions that overlook nothing are breaches too.
pub(super) fn breaches(package: &str, mut imports: Imports, exceptions: &[Exception]) -> Vec<String> {
    let mut breaches = Vec::new();
    for exception in exceptions.iter().filter(|exception| exception.package == package) {
        let before = imports.len();
        imports.retain(|(from, to), _| !(starts_with(from, exception.from) && starts_with(to, exception.to)));
        if imports.len() == before {
            breaches.push(format!(
                "{package}: no file of `{}` imports one of `{}`: remove the exception",
                exception.from, exception.to
            ));
        }
    }
    for (folder, graph) in folders(&imports) {
        for circle in circles(&graph) {
            if !circle.iter().any(|name| !name.ends_with(".rs")) {
                continue;
            }
            let mut text = format!("{package}: src/{folder}: {circle:?} import each other in a circle");
            for ((from, to), example) in &graph {
                if circle.contains(from) && circle.contains(to) {
                    text.push_str(&format!("\n    {from} -> {to}: {example}"));
                }
            }
            breaches.push(text);
        }
    }
    breaches
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

/// What `start` imports, and what that imports, and so on.
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
