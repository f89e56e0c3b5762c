//! All checks, in two tiers: what every change must pass, and what `--all` adds.

use anyhow::{Context, Result, bail};
use clap::Args;
use shell::cargo;
use shell::cost::{Cost, Meter};

use crate::{api, bpf, dependencies, dist, fuzz, layers, msrv, python, systems, tools, ui, workspace};

/// A check.
struct Stage {
    name: &'static str,
    tier: Tier,
    /// Whether it uses what the stage `build` makes.
    needs_build: bool,
    run: fn() -> Result<()>,
}

/// When a stage runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// For every change.
    First,
    /// With `--all`.
    All,
}

use Tier::{All, First};

/// The stages, cheap ones first. The line above each says why it is in its tier.
const STAGES: &[Stage] = &[
    // First: a second, and every diff is read.
    stage("format", First, || shell::run(&mut cargo(["fmt", "--all", "--check"]))),
    // First: a second; the structure is what everything else rests on.
    stage("layers", First, layers::check),
    // First: seconds; a new dependency is a decision.
    stage("dependencies", First, dependencies::check),
    // First: seconds; what users get is the committed bundle, not its source.
    stage("page of the viewer", First, ui::check),
    // First: seconds where its compiler is installed; users get the committed object.
    stage("kernel programs", First, bpf::check),
    // First: everything below uses it; and what Clippy finds is cheapest to mend now.
    stage("build with Clippy", First, workspace::build),
    // First: the counts of records of real traces guard data; the pages follow from code.
    after_build("pages of the documentation", First, || tools::run_built("pages", &["--check"])),
    // First: a second.
    after_build("numbers of the schema pack", First, || tools::run_built("schemas", &["--check-page"])),
    // First: what the documentation shows must work.
    after_build("examples in the documentation", First, || {
        shell::run(&mut workspace::cargo_with_clippy(["test"], ["--workspace", "--doc", "--quiet"]))
    }),
    // First: records of real traces, damage, sessions, the programs.
    after_build("tests", First, workspace::test),
    // First: a wrong answer of SQL or of a table.
    after_build("answers of SQL", First, || tools::run_built("peers", &["--only", "queries"])),
    // First: the package is a product.
    after_build("Python package", First, python::check),
    // First: a lost event is the worst fault there is.
    after_build("killed writers, some rounds", First, || tools::run_built("torture", &["--rounds", "150"])),
    // First: whoever attacks a machine attacks its tracing first. Hours with `cargo xtask torture hostile`.
    after_build("hostile neighbours, a second each", First, || {
        tools::run_built("torture", &["hostile", "--seconds", "17", "--each", "1", "--at-once", "2"])
    }),
    // First: an answer that is short, or never comes. Hours with `cargo xtask torture cluster`.
    after_build("killed executors, some seeds", First, || {
        tools::run_built("torture", &["cluster", "--seeds", "12"])
    }),
    // All: only a release makes these packages.
    stage("packages for crates.io", All, package),
    // All: a crate that needs a feature of another is found by its users only.
    stage("feature sets", All, systems::check_features),
    // All: minutes for each system; code for one system changes seldom.
    stage("other systems", All, systems::check),
    // All: compiles everything with another compiler; clippy reports newer functions already (`incompatible_msrv`).
    stage("minimum Rust version", All, msrv::check),
    // All: rustdoc compiles everything again; broken links hurt readers, not data.
    stage("documentation", All, || {
        shell::run(cargo(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
    }),
    // All: as the documentation; the text is for reviews of releases.
    stage("public API", All, api::check),
    // All: compiles the module again, as a wheel has it.
    after_build("Python wheel", All, python::check_wheel),
    // All: emulated; byte order is decided in a few places of two crates.
    stage("big-endian", All, systems::test_big_endian),
    // All: makes a root of Debian; the package changes seldom.
    after_build("installed package", All, dist::smoke),
    // All: compiles with another configuration; the lock-free code changes seldom, and its tests are in the first tier.
    stage("model checking", All, model_check),
    // All: minutes of Python programs; the records of real traces are in the first tier.
    after_build("independent readers", All, || tools::run_built("peers", &[])),
    // All: builds everything for Windows, and needs Wine.
    after_build("Windows programs under Wine", All, || tools::run_built("wine", &[])),
    // All: compiles everything for libFuzzer; seeds, damaged seeds and regressions are replayed in the first tier.
    stage("fuzzing, a few seconds each", All, fuzz::smoke),
    // All: that they run; their numbers need an idle machine.
    after_build("benches, for a moment", All, || tools::run_built("bench", &["--smoke"])),
];

const fn stage(name: &'static str, tier: Tier, run: fn() -> Result<()>) -> Stage {
    Stage { name, tier, needs_build: false, run }
}

const fn after_build(name: &'static str, tier: Tier, run: fn() -> Result<()>) -> Stage {
    Stage { name, tier, needs_build: true, run }
}

/// Packages that are for development only.
const UNPUBLISHED: [&str; 12] = [
    "bench",
    "etw_fuzz",
    "etw_python",
    "etw_sql",
    "etw_testkit",
    "pages",
    "peers",
    "schemas",
    "shell",
    "torture",
    "wine",
    "xtask",
];

/// Creates the packages that `cargo publish` would upload, without building them.
///
/// `cargo publish --dry-run` rebuilds every crate, which takes minutes; run it for a release.
fn package() -> Result<()> {
    let mut command = cargo(["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"]);
    for name in UNPUBLISHED {
        command.args(["--exclude", name]);
    }
    shell::run(&mut command)
}

/// Runs the lock-free code under loom, in a separate target directory, because the flag changes every crate.
fn model_check() -> Result<()> {
    let mut command = cargo(["test", "--quiet", "--release", "--package", "etw_buffer", "--lib", "model"]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", shell::target_dir().join("loom"));
    shell::run(&mut command)
}

/// Options of `ci`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run also what takes long: other systems, packages, model checking, independent readers, Wine, fuzzing, benches.
    #[arg(long)]
    all: bool,
    /// Skip the checks before this one, for instance after it failed.
    #[arg(long, value_name = "CHECK")]
    from: Option<String>,
    /// Run only this check, of either tier.
    #[arg(long, value_name = "CHECK", conflicts_with_all = ["all", "from"])]
    only: Option<String>,
    /// List the checks.
    #[arg(long, exclusive = true)]
    list: bool,
}

/// Runs the checks in order, stops at the first failure, and prints what each cost.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.list {
        for stage in STAGES {
            println!("{:<5} {}", if stage.tier == First { "first" } else { "all" }, stage.name);
        }
        return Ok(());
    }
    let chosen = match (&options.only, &options.from) {
        (Some(only), _) => std::slice::from_ref(&STAGES[position(only)?]),
        (None, Some(from)) => &STAGES[position(from)?..],
        (None, None) => STAGES,
    };
    let chosen = chosen.iter().filter(|stage| options.all || options.only.is_some() || stage.tier == First);
    let mut costs = Vec::new();
    let whole = Meter::start()?;
    let mut is_built = false;
    let mut failed = None;
    for stage in chosen {
        eprintln!("\n== {}", stage.name);
        let meter = Meter::start()?;
        let mut done = Ok(());
        if stage.needs_build && !is_built {
            done = workspace::build();
        }
        is_built |= stage.needs_build || stage.name == "build with Clippy";
        done =
            done.and_then(|()| (stage.run)()).with_context(|| format!("the check `{}` failed", stage.name));
        costs.push((stage.name, meter.cost()?));
        if let Err(error) = done {
            failed = Some(error);
            break;
        }
    }
    let ran = costs.len();
    costs.push(("all of these", whole.cost()?));
    eprintln!("\n seconds  processor  crates");
    for (name, Cost { seconds, processor_seconds, crates }) in costs {
        eprintln!("{seconds:>8.1} {processor_seconds:>10.1} {crates:>7}  {name}");
    }
    match failed {
        Some(error) => Err(error),
        None if ran == 0 => bail!("no check of the first tier comes after that one: add --all"),
        None => {
            eprintln!("{ran} checks passed");
            Ok(())
        }
    }
}

/// Returns the position of a stage.
fn position(wanted: &str) -> Result<usize> {
    STAGES.iter().position(|stage| stage.name == wanted).with_context(|| {
        let names: Vec<&str> = STAGES.iter().map(|stage| stage.name).collect();
        format!("unknown check '{wanted}'; expected one of: {}", names.join(", "))
    })
}
