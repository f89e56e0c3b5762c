//! The symbol path: where symbol files are looked for, in the syntax of `_NT_SYMBOL_PATH`.
//!
//! Source: Microsoft, "Symbol path for Windows debuggers", "Advanced SymSrv use".

use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The server that `srv*` alone refers to.
const MICROSOFT: &str = "https://msdl.microsoft.com/download/symbols";

/// Directories, symbol stores and symbol servers, in the order in which they are searched.
///
/// Elements are separated by `;`:
///
/// | element | meaning |
/// |---|---|
/// | `DIR` | a directory with symbol files, or a symbol store |
/// | `srv*STORE*URL` | a server, and the store that keeps its files; several stores are possible |
/// | `srv**URL`, `srv*URL` | the same with the default store |
/// | `srv*` | the default store, and the server of Microsoft |
/// | `cache*STORE`, `cache*` | a store that keeps the files of all later servers |
/// | `symsrv*symsrv.dll*STORE*URL` | the long form of `srv` |
///
/// ```
/// use etw_symbols::SymbolPath;
///
/// let path: SymbolPath = "/work/bin;srv*/var/symbols*https://symbols.example.org".parse()?;
/// assert!(path.has_server());
/// # Ok::<(), etw_symbols::SymbolPathError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SymbolPath {
    pub(crate) elements: Vec<Element>,
}

/// An element of a symbol path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Element {
    /// A directory with symbol files, or a symbol store.
    Directory(PathBuf),
    /// Stores of which each gets its missing files from the ones after it.
    Chain(Vec<Store>),
}

/// A symbol store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Store {
    /// In a directory.
    Local(PathBuf),
    /// At a URL without a slash at its end.
    Server(String),
}

/// The error of a symbol path that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolPathError {
    /// `symsrv*` with another server library than `symsrv.dll`.
    #[error("symbol path element '{element}': only symsrv.dll is supported")]
    OtherLibrary {
        /// The element.
        element: String,
    },
    /// `cache*` with several stores, or with a URL.
    #[error("symbol path element '{element}': cache* takes one directory")]
    Cache {
        /// The element.
        element: String,
    },
}

impl SymbolPath {
    /// Returns whether the path has a server.
    pub fn has_server(&self) -> bool {
        let is_server = |store: &Store| matches!(store, Store::Server(_));
        self.elements.iter().any(|element| match element {
            Element::Chain(stores) => stores.iter().any(is_server),
            Element::Directory(_) => false,
        })
    }

    /// Returns whether the path has no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns the directories, without those of stores in front of servers.
    pub(crate) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.elements.iter().filter_map(|element| match element {
            Element::Directory(directory) => Some(directory.as_path()),
            Element::Chain(_) => None,
        })
    }

    /// Adds the elements of another path, which are searched later.
    pub fn then(mut self, other: SymbolPath) -> SymbolPath {
        self.elements.extend(other.elements);
        self
    }
}

impl FromStr for SymbolPath {
    type Err = SymbolPathError;

    fn from_str(text: &str) -> Result<SymbolPath, SymbolPathError> {
        parse(text, &default_store())
    }
}

/// Returns the directory for files of servers that have no store in the symbol path.
pub(crate) fn default_store() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME")
        .or_else(|| set("LOCALAPPDATA"))
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir);
    set("_NT_SYMCACHE_PATH").unwrap_or_else(|| cache.join("openetw").join("symbols"))
}

fn parse(text: &str, default: &Path) -> Result<SymbolPath, SymbolPathError> {
    let mut elements = Vec::new();
    let mut cache: Option<PathBuf> = None;
    for element in text.split(';').map(str::trim).filter(|element| !element.is_empty()) {
        let mut words = element.split('*').map(str::trim);
        let kind = words.next().unwrap_or_default().to_ascii_lowercase();
        let is_plain = !element.contains('*');
        let mut words: Vec<&str> = words.collect();
        match kind.as_str() {
            "cache" if !is_plain => match words.as_slice() {
                [] | [""] => cache = Some(default.to_owned()),
                [directory] if !is_url(directory) => cache = Some(PathBuf::from(directory)),
                _ => return Err(SymbolPathError::Cache { element: element.to_owned() }),
            },
            "symsrv" if !is_plain => {
                if !words.first().is_some_and(|library| library.eq_ignore_ascii_case("symsrv.dll")) {
                    return Err(SymbolPathError::OtherLibrary { element: element.to_owned() });
                }
                words.remove(0);
                elements.push(chain(&words, cache.as_ref(), default));
            }
            "srv" if !is_plain => elements.push(chain(&words, cache.as_ref(), default)),
            _ if is_url(element) => elements.push(chain(&[element], cache.as_ref(), default)),
            _ => elements.push(Element::Directory(PathBuf::from(element))),
        }
    }
    Ok(SymbolPath { elements })
}

/// Returns the chain of the words after `srv`.
fn chain(words: &[&str], cache: Option<&PathBuf>, default: &Path) -> Element {
    let is_bare = words.iter().all(|word| word.is_empty());
    let words: Vec<&str> = match is_bare {
        true => vec!["", MICROSOFT],
        false => words.to_vec(),
    };
    let store = |word: &str| match word {
        "" => Store::Local(default.to_owned()),
        url if is_url(url) => Store::Server(url.trim_end_matches('/').to_owned()),
        directory => Store::Local(PathBuf::from(directory)),
    };
    let mut stores: Vec<Store> = cache.cloned().map(Store::Local).into_iter().collect();
    // The cache replaces the default store.
    let is_cached = !stores.is_empty();
    stores.extend(words.into_iter().filter(|word| !(is_cached && word.is_empty())).map(store));
    if let Some(Store::Server(_)) = stores.first() {
        stores.insert(0, Store::Local(default.to_owned()));
    }
    stores.dedup();
    Element::Chain(stores)
}

fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&[&str]]) {
        let path = parse(text, "/default".as_ref()).unwrap();
        let shown: Vec<Vec<String>> = path
            .elements
            .iter()
            .map(|element| match element {
                Element::Directory(path) => vec![path.display().to_string()],
                Element::Chain(stores) => {
                    let text = |store: &Store| match store {
                        Store::Local(path) => format!("local {}", path.display()),
                        Store::Server(url) => format!("server {url}"),
                    };
                    stores.iter().map(text).collect()
                }
            })
            .collect();
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn elements_of_each_kind() {
        let msdl = format!("server {MICROSOFT}");
        check("", &[]);
        check(" ; ;", &[]);
        check(r"c:\bin;d:\my symbols", &[&[r"c:\bin"], &[r"d:\my symbols"]]);
        check("srv*/s*https://x.org/a/", &[&["local /s", "server https://x.org/a"]]);
        check("SRV*/s*HTTP://x.org", &[&["local /s", "server HTTP://x.org"]]);
        check("srv*https://x.org", &[&["local /default", "server https://x.org"]]);
        check("srv**https://x.org", &[&["local /default", "server https://x.org"]]);
        check("https://x.org/sym", &[&["local /default", "server https://x.org/sym"]]);
        check("srv*", &[&["local /default", &msdl]]);
        check("srv*/only", &[&["local /only"]]);
        check("srv*/a*/b*https://x.org", &[&["local /a", "local /b", "server https://x.org"]]);
        check("symsrv*symsrv.dll*/s*https://x.org", &[&["local /s", "server https://x.org"]]);
        check("SymSrv*SymSrv.dll*https://x.org", &[&["local /default", "server https://x.org"]]);
    }

    #[test]
    fn a_cache_is_for_what_follows() {
        check(
            "srv*/s*https://x.org;cache*/c;srv*/s*https://x.org;srv*https://y.org;/dir",
            &[
                &["local /s", "server https://x.org"],
                &["local /c", "local /s", "server https://x.org"],
                &["local /c", "server https://y.org"],
                &["/dir"],
            ],
        );
        check("cache*;srv*https://x.org", &[&["local /default", "server https://x.org"]]);
        check("cache*/c;srv*", &[&["local /c", &format!("server {MICROSOFT}")]]);
    }

    #[test]
    fn what_only_looks_like_a_keyword_is_a_directory() {
        check("srv;cache;symsrv;./srv", &[&["srv"], &["cache"], &["symsrv"], &["./srv"]]);
        check("foo*bar", &[&["foo*bar"]]);
        check("ftp://x.org", &[&["ftp://x.org"]]);
    }

    #[test]
    fn elements_that_cannot_be_used() {
        for text in ["symsrv*other.dll*/s", "symsrv*", "a;cache*/a*/b", "cache*https://x.org"] {
            let error = parse(text, "/default".as_ref()).unwrap_err();
            assert!(error.to_string().contains(text.trim_start_matches("a;")), "{error}");
        }
    }
}
