//! Tables by stack, of a program with known chains of functions that is recorded here. What they have to show is computed
//! from the events of `etw dump` and the symbols of the program alone.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::kernel::{field, record_with};
use crate::kernel_images::{compile, number};
use crate::kernel_stacks::Functions;
use crate::record::example;
use crate::{Etw, json_lines};

/// The functions of the program that are named `k_…`, outermost first.
type Chain = Vec<String>;
/// What each chain weighs.
type Weights = BTreeMap<Chain, u64>;

/// A recording of the program, and its events.
struct Recording {
    etw: Etw,
    events: Vec<Value>,
    process: u64,
    /// The stacks of the program's threads, by the time and thread of their event.
    chains: HashMap<(u64, u64), Chain>,
    /// The same by time and processor: two processors may have events at the same time.
    by_processor: HashMap<(u64, u64), Chain>,
}

/// The time of an event on the session's clock.
fn raw_time(event: &Value) -> u64 {
    event["System"]["TimeCreated"]["RawTime"].as_u64().unwrap()
}

fn processor(event: &Value) -> u64 {
    event["System"]["Execution"]["ProcessorID"].as_u64().unwrap()
}

/// The time of an event in units of 100 ns.
fn time(event: &Value) -> u64 {
    let text = event["System"]["TimeCreated"]["SystemTime"].as_str().unwrap();
    let (_, time) = text.split_once('T').unwrap();
    let [hours, minutes, seconds] =
        [&time[..2], &time[3..5], &time[6..8]].map(|part| part.parse::<u64>().unwrap());
    ((hours * 60 + minutes) * 60 + seconds) * 10_000_000 + time[9..16].parse::<u64>().unwrap()
}

impl Recording {
    /// Records the program; `None` if that is not permitted.
    fn new(mode: &str, args: &[&str]) -> Option<Recording> {
        let etw = Etw::new();
        let options = ["-O1", "-fno-optimize-sibling-calls", "-pthread"];
        let program = compile(&etw, "chains", include_str!("known_chains.c"), &options)?;
        let data = etw.path("data");
        record_with(&etw, args, &[&program, mode, &data][..if mode == "files" { 3 } else { 2 }])?;
        let events = json_lines(&etw.ok(&["dump", "k.etl", "--raw-time", "--format", "json"]));
        let is_load = |event: &&Value| kind_of(event) == "Image/Load" && field(event, "FileName") == program;
        let load = events.iter().find(is_load).unwrap();
        let (process, base) = (number(load, "ProcessId"), number(load, "ImageBase"));
        let functions = Functions::from_program(&program);
        let (mut chains, mut by_processor) = (HashMap::new(), HashMap::new());
        for event in events.iter().filter(|event| kind_of(event) == "StackWalk/Stack") {
            if number(event, "StackProcess") != process {
                continue;
            }
            let frames = event["EventData"]["Stack"].as_array().unwrap().iter();
            let addresses = frames.map(|frame| {
                u64::from_str_radix(frame.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
            });
            // A return address may be after the end of its function; the first address of the program is where it was,
            // which may be the first of its function.
            let own = addresses.filter(|address| *address < 1 << 63).enumerate();
            let names: Vec<_> = own
                .filter_map(|(index, address)| {
                    functions.at(address.checked_sub(base + u64::from(index > 0))?)
                })
                .collect();
            let chain: Chain =
                names.into_iter().rev().filter(|name| name.starts_with("k_")).map(str::to_owned).collect();
            let time = number(event, "EventTimeStamp");
            by_processor.insert((time, processor(event)), chain.clone());
            chains.insert((time, number(event, "StackThread")), chain);
        }
        Some(Recording { etw, events, process, chains, by_processor })
    }

    /// The chain of an event of a thread; `None` if it is not one of the program's.
    fn chain(&self, event: &Value, thread: u64) -> Option<&Chain> {
        self.chains.get(&(raw_time(event), thread))
    }

    /// The chain of an event that does not name its thread.
    fn chain_here(&self, event: &Value) -> Option<&Chain> {
        self.by_processor.get(&(raw_time(event), processor(event)))
    }

    /// The weights of the events of some kinds. These events do not name their thread, but the stack does.
    fn weights(&self, kinds: &[&str], weight: impl Fn(&Value) -> u64) -> Weights {
        let mut weights = Weights::new();
        for event in self.events.iter().filter(|event| kinds.contains(&kind_of(event))) {
            if let Some(chain) = self.chain_here(event).filter(|chain| !chain.is_empty()) {
                *weights.entry(chain.clone()).or_default() += weight(event);
            }
        }
        weights
    }

    /// The folded stacks of a table, those with the same chain together, and how many lines each has.
    fn folded(&self, stacks: &str) -> BTreeMap<Chain, (u64, u64)> {
        let process = self.process.to_string();
        let args = ["report", "k.etl", "--stacks", stacks, "--format", "folded", "--pid", &process];
        let mut weights: BTreeMap<Chain, (u64, u64)> = BTreeMap::new();
        for line in self.etw.ok(&args).lines() {
            let (stack, weight) = line.rsplit_once(' ').unwrap();
            let chain: Chain =
                stack.split(';').filter(|name| name.starts_with("k_")).map(str::to_owned).collect();
            if !chain.is_empty() {
                let sum = weights.entry(chain).or_default();
                *sum = (sum.0 + weight.parse::<u64>().unwrap(), sum.1 + 1);
            }
        }
        weights
    }

    /// The inclusive weight of each of the program's functions in the table by function.
    fn by_function(&self, stacks: &str, key: &str) -> BTreeMap<String, u64> {
        let process = self.process.to_string();
        let args = ["report", "k.etl", "--stacks", stacks, "--format", "json", "--pid", &process];
        let report = json_lines(&self.etw.ok(&args)).remove(0);
        let rows = report["tables"][&format!("{stacks}-by-function")]["rows"].as_array().unwrap();
        let rows = rows.iter().filter(|row| row["function"].as_str().unwrap().starts_with("k_"));
        rows.map(|row| (row["function"].as_str().unwrap().to_owned(), row[key].as_u64().unwrap())).collect()
    }

    /// Checks that a table shows exactly these chains with these weights.
    fn check(&self, stacks: &str, expected: &Weights) {
        let shown = self.folded(stacks).into_iter().map(|(chain, (weight, _))| (chain, weight));
        assert_eq!(shown.collect::<Weights>(), *expected, "{stacks}");
    }

    /// Checks the same of times, in units of 100 ns: to the microsecond in folded stacks, exactly in JSON.
    fn check_times(&self, stacks: &str, expected: &Weights) {
        let shown = self.folded(stacks);
        assert!(shown.keys().eq(expected.keys()), "{stacks}: {:?} {:?}", shown.keys(), expected.keys());
        for (chain, (micros, lines)) in &shown {
            let least = expected[chain].div_ceil(10);
            assert!((least..=least + lines).contains(micros), "{stacks}: {chain:?} {micros} {least}");
        }
        let mut by_function: BTreeMap<String, u64> = BTreeMap::new();
        for (chain, weight) in expected {
            chain.iter().for_each(|name| *by_function.entry(name.clone()).or_default() += weight * 100);
        }
        assert_eq!(self.by_function(stacks, "inclusive_time_ns"), by_function, "{stacks}");
    }
}

fn kind_of(event: &Value) -> &str {
    event["System"]["EventType"].as_str().unwrap_or_default()
}

fn chain(names: &[&str]) -> Chain {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A thread that does not run.
struct Away {
    since: u64,
    is_waiting: bool,
    readied: Option<u64>,
    chain: Chain,
}

/// The times of the program's chains, computed from switches and ready threads.
#[derive(Default)]
struct Times {
    waits: Weights,
    off: Weights,
    running: Weights,
    /// By the chain that made a thread ready.
    ready: Weights,
}

impl Times {
    fn from_recording(recording: &Recording) -> Times {
        let mut times = Times::default();
        let add = |weights: &mut Weights, chain: &Chain, weight: u64| {
            if !chain.is_empty() && weight > 0 {
                *weights.entry(chain.clone()).or_default() += weight;
            }
        };
        let mut away: HashMap<u64, Away> = HashMap::new();
        let mut entered: HashMap<u64, u64> = HashMap::new();
        for event in &recording.events {
            match kind_of(event) {
                "Thread/CSwitch" => {
                    let now = time(event);
                    let (new, old) = (number(event, "NewThreadId"), number(event, "OldThreadId"));
                    if let Some(Away { since, is_waiting, readied, chain }) = away.remove(&new) {
                        add(&mut times.off, &chain, now - since);
                        if is_waiting {
                            add(&mut times.waits, &chain, readied.unwrap_or(now) - since);
                        }
                    }
                    let ran = entered.remove(&old).map(|since| now - since);
                    entered.insert(new, now);
                    if let Some(chain) = recording.chain(event, old) {
                        add(&mut times.running, chain, ran.unwrap_or(0));
                        let is_waiting = field(event, "OldThreadState") == "Waiting";
                        away.insert(
                            old,
                            Away { since: now, is_waiting, readied: None, chain: chain.clone() },
                        );
                    }
                }
                "Thread/ReadyThread" => {
                    if let Some(away) = away.get_mut(&number(event, "TThreadId")) {
                        away.readied.get_or_insert(time(event));
                    }
                }
                _ => {}
            }
        }
        times.ready = recording.weights(&["Thread/ReadyThread"], |_| 1);
        times
    }
}

#[test]
fn waits_by_stack_are_those_of_the_switches() {
    let flags = "PROC_THREAD+LOADER+CSWITCH+DISPATCHER";
    let args = ["-k", flags, "--stackwalk", "CSwitch+ReadyThread"];
    let Some(recording) = Recording::new("waits", &args) else { return };
    let Times { waits, off, running, ready } = Times::from_recording(&recording);
    let naps = chain(&["k_naps", "k_nap"]);
    let [sleeps, turns, rests] =
        [["k_sleeps", "k_sleep"], ["k_taker", "k_take_turn"], ["k_giver", "k_rest_before"]]
            .map(|names| chain(&names));
    // They sleep for as long as they say, and no less.
    for (chain, least) in [(&naps, 20 * 10_000), (&sleeps, 10 * 40_000), (&rests, 20 * 20_000)] {
        assert!(waits[chain] >= least, "{chain:?}: {waits:?}");
    }
    assert!(
        waits.contains_key(&turns) && ready[&chain(&["k_giver", "k_give_turn"])] >= 10,
        "{waits:?} {ready:?}"
    );
    recording.check_times("waits", &waits);
    recording.check_times("offcpu", &off);
    recording.check_times("running", &running);
    recording.check("ready", &ready);
    chains_of_waits(&recording, &waits);
    shapes(&recording, &naps);
    // Without ready events a wait lasts until the switch to the thread.
    let Some(recording) =
        Recording::new("waits", &["-k", "PROC_THREAD+LOADER+CSWITCH", "--stackwalk", "CSwitch"])
    else {
        return;
    };
    let Times { waits, .. } = Times::from_recording(&recording);
    assert!(waits[&naps] >= 20 * 10_000, "{waits:?}");
    recording.check_times("waits", &waits);
}

/// The program's taker waits for its giver, which sleeps before it gives.
fn chains_of_waits(recording: &Recording, waits: &Weights) {
    let process = recording.process.to_string();
    let args = ["report", "k.etl", "--table", "wait-chains", "--format", "json", "--pid", &process];
    let report = json_lines(&recording.etw.ok(&args)).remove(0);
    let rows = report["tables"]["wait-chains"]["rows"].as_array().unwrap();
    let taken: Vec<&Value> = rows.iter().filter(|row| row["function"] == "k_take_turn").collect();
    let sum = |key: &str| taken.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("wait_ns"), waits[&chain(&["k_taker", "k_take_turn"])] * 100);
    // The giver's sleep is nearly all of the wait.
    assert!(sum("chained_ns") <= sum("wait_ns") && sum("chained_ns") * 10 >= sum("wait_ns") * 5, "{taken:?}");
    let label = format!("chains ({process})");
    let expected = format!("{label} in k_give_turn, which waited in k_rest_before ← [interrupt]");
    let given: Vec<&&Value> = taken.iter().filter(|row| row["chain"] == *expected).collect();
    let count: u64 = given.iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert!(count >= 10, "{taken:?}");
    for row in given {
        assert_eq!(
            (&row["readied_by"], &row["ready_function"]),
            (&label.as_str().into(), &"k_give_turn".into())
        );
        assert!(row["stack"].as_str().unwrap().contains("main;k_taker;k_take_turn;"), "{row}");
        assert!(row["ready_stack"].as_str().unwrap().contains("k_giver;k_give_turn;"), "{row}");
    }
    // The same by stack.
    let steps = [
        "k_take_turn",
        "[readied by chains",
        "k_give_turn",
        "[which had waited]",
        "k_rest_before",
        "[readied by an interrupt]",
    ];
    let args = ["report", "k.etl", "--stacks", "wait-chains", "--format", "folded", "--pid", &process];
    let folded = recording.etw.ok(&args);
    let in_order = |line: &&str| {
        let mut rest = *line;
        steps.iter().all(|step| match rest.split_once(step) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    };
    assert!(folded.lines().any(|line| in_order(&line)), "{folded}");
    let sum_of = |stacks: &str| -> u64 {
        recording
            .folded(stacks)
            .iter()
            .filter(|(chain, _)| chain.first().is_some_and(|name| name == "k_taker"))
            .map(|(_, (weight, _))| weight)
            .sum()
    };
    assert!(sum_of("wait-chains").abs_diff(sum_of("waits")) < 50);
    let text = recording.etw.ok(&["report", "k.etl", "--table", "wait-chains", "--pid", &process]);
    assert!(text.contains(&expected), "{text}");
    let page = recording.etw.ok(&[
        "report",
        "k.etl",
        "--stacks",
        "wait-chains",
        "--format",
        "html",
        "--pid",
        &process,
    ]);
    assert!(page.contains("id=\"flame-wait-chains-by-function\"") && page.contains("[which had waited]"));
    let page = recording.etw.ok(&[
        "report",
        "k.etl",
        "--table",
        "wait-chains",
        "--format",
        "html",
        "--pid",
        &process,
    ]);
    assert!(page.contains("k_give_turn, which waited in k_rest_before"));
}

/// What is done with stacks before they are shown is done in every format.
fn shapes(recording: &Recording, naps: &Chain) {
    let etw = &recording.etw;
    std::fs::write(
        etw.path("k.stacktags"),
        "<Tag Name=''><Tag Name='Naps'><Entrypoint Method='k_nap'/></Tag></Tag>",
    )
    .unwrap();
    let process = recording.process.to_string();
    let run = |args: &[&str]| {
        etw.ok(&[&["report", "k.etl", "--stacks", "waits", "--pid", &process], args].concat())
    };
    let plain = recording.folded("waits")[naps].0;
    let folded_of = |args: &[&str], part: &str| -> u64 {
        let text = run(&[args, &["--format", "folded"]].concat());
        let lines = text.lines().filter(|line| line.contains(part));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    };
    let row = |args: &[&str], function: &str| -> Value {
        let report = json_lines(&run(&[args, &["--format", "json"]].concat())).remove(0);
        let rows = report["tables"]["waits-by-function"]["rows"].as_array().unwrap();
        rows.iter().find(|row| row["function"] == *function).cloned().unwrap_or_default()
    };
    let plain_ns = row(&[], "k_nap")["inclusive_time_ns"].clone();
    // Each line is rounded up to microseconds.
    let are_same = |one: u64, other: u64| one.abs_diff(other) < 50;
    // Of the system, only the modules are left.
    let own = ["--just-my-code"];
    assert!(are_same(folded_of(&own, ";k_naps;k_nap;"), plain));
    assert_eq!(folded_of(&own, "hrtimer_nanosleep"), 0);
    assert!(folded_of(&own, ";vmlinux") + 50 >= plain);
    assert_eq!(row(&own, "k_nap")["inclusive_time_ns"], plain_ns);
    assert!(row(&own, "hrtimer_nanosleep").is_null() && !row(&[], "hrtimer_nanosleep").is_null());
    assert!(!run(&own).contains("hrtimer_nanosleep") && run(&[]).contains("hrtimer_nanosleep"));
    let page = |args: &[&str]| run(&[args, &["--format", "html", "--top", "1000"]].concat());
    assert!(!page(&own).contains("hrtimer_nanosleep") && page(&own).contains("k_nap"));
    // A folded function counts for its caller.
    let fold = ["--fold", "*!k_nap"];
    assert!(folded_of(&fold, ";k_nap;") == 0 && are_same(folded_of(&fold, ";k_naps;"), plain));
    assert!(row(&fold, "k_nap").is_null() && row(&fold, "k_naps")["inclusive_time_ns"] == plain_ns);
    let tags = ["--stack-tags", "k.stacktags"];
    assert!(are_same(folded_of(&tags, ";Naps;"), plain) && folded_of(&tags, ";k_nap;") == 0);
    assert_eq!(row(&tags, "Naps")["inclusive_time_ns"], plain_ns);
    assert!(page(&tags).contains("Naps") && run(&[&tags[..], &["--top", "100"]].concat()).contains("Naps"));
    let modules = ["--group-modules"];
    assert!(folded_of(&modules, ";chains!?;") + 50 >= plain && folded_of(&modules, "k_nap") == 0);
    assert!(row(&modules, "k_nap").is_null() && row(&modules, "?")["module"].is_string());
    let selected = ["--include", "k_nap"];
    assert!(are_same(folded_of(&selected, ""), plain));
    assert_eq!(row(&selected, "k_nap")["inclusive_percent"], 100.0);
    for shape in [&own[..], &fold, &tags, &modules, &selected] {
        let tree = json_lines(&run(&[shape, &["--tree", "top-down", "--format", "json"]].concat())).remove(0);
        assert!(tree["trees"]["waits-by-function"]["total"].as_u64().unwrap() > 0, "{shape:?}");
    }
}

#[test]
fn memory_calls_and_samples_by_stack() {
    let flags = "PROC_THREAD+LOADER+PROFILE+SYSCALL+VIRT_ALLOC+ALL_FAULTS";
    let stacks = "Profile+SyscallEnter+VirtualAlloc+PagefaultDemandZero";
    let Some(recording) = Recording::new("memory", &["-k", flags, "--stackwalk", stacks]) else { return };
    let memory = recording.weights(&["PageFault/VirtualAlloc"], |event| number(event, "RegionSize"));
    assert_eq!(memory[&chain(&["k_maps", "k_map"])], 8 << 20);
    recording.check("memory", &memory);
    let faults = recording.weights(&["PageFault/DemandZeroFault"], |_| 1);
    assert_eq!(faults.get(&chain(&["k_touches", "k_touch"])), Some(&(8 * 256)), "{faults:?}");
    recording.check("soft-faults", &faults);
    let calls = recording.weights(&["PerfInfo/SysClEnter"], |_| 1);
    assert_eq!(calls[&chain(&["k_asks", "k_ask"])], 300);
    recording.check("syscalls", &calls);
    let samples = recording.weights(&["PerfInfo/SampleProfile"], |event| number(event, "Count"));
    assert!(samples[&chain(&["k_spins", "k_spin"])] >= 100, "{samples:?}");
    recording.check("samples", &samples);
    // The four kinds together; an event of another kind in the same instant as one of them has its stack too.
    let kinds = [
        "PageFault/VirtualAlloc",
        "PageFault/DemandZeroFault",
        "PerfInfo/SysClEnter",
        "PerfInfo/SampleProfile",
    ];
    let sum_of = |kinds: &[&str]| recording.weights(kinds, |_| 1).values().sum::<u64>();
    let mut all_kinds: Vec<&str> = recording.events.iter().map(kind_of).collect();
    all_kinds.sort_unstable();
    all_kinds.dedup();
    all_kinds.retain(|kind| *kind != "StackWalk/Stack");
    let shown = recording.folded("events").values().map(|(weight, _)| weight).sum::<u64>();
    assert!((sum_of(&kinds)..=sum_of(&all_kinds)).contains(&shown), "{shown}");
}

#[test]
fn files_disks_and_sockets_by_stack() {
    let flags = "PROC_THREAD+LOADER+FILE_IO+FILE_IO_INIT+DISK_IO+DISK_IO_INIT+HARD_FAULTS+NETWORKTRACE";
    let stacks = "FileRead+FileWrite+FileFlush+DiskReadInit+DiskWriteInit+HardFault+0x060A+0x060B";
    let Some(recording) = Recording::new("files", &["-k", flags, "--stackwalk", stacks]) else { return };
    let files = recording.weights(&["FileIo/Read", "FileIo/Write"], |event| number(event, "IoSize"));
    assert_eq!(files[&chain(&["k_writes", "k_write"])], 64 * 4096);
    assert_eq!(files[&chain(&["k_reads", "k_read"])], 50 * 1000);
    let mut with_flushes = files.clone();
    for (chain, weight) in recording.weights(&["FileIo/Flush"], |_| 0) {
        *with_flushes.entry(chain).or_default() += weight;
    }
    assert_eq!(with_flushes[&chain(&["k_syncs", "k_sync"])], 0);
    recording.check("files", &with_flushes);
    let network = recording.weights(&["TcpIp/SendIPV4", "TcpIp/RecvIPV4"], |event| number(event, "size"));
    assert_eq!(network[&chain(&["k_sends", "k_send"])], 40 * 500);
    assert_eq!(network[&chain(&["k_receives", "k_receive"])], 40 * 500);
    recording.check("network", &network);
    // The bytes of a request come with its end.
    let (mut begun, mut disk) = (HashMap::new(), Weights::new());
    for event in &recording.events {
        match kind_of(event) {
            "DiskIo/ReadInit" | "DiskIo/WriteInit" => {
                if let Some(chain) = recording.chain_here(event).filter(|chain| !chain.is_empty()) {
                    disk.entry(chain.clone()).or_default();
                    begun.insert(number(event, "Irp"), chain);
                } else {
                    begun.remove(&number(event, "Irp"));
                }
            }
            "DiskIo/Read" | "DiskIo/Write" => {
                if let Some(chain) = begun.remove(&number(event, "Irp")) {
                    *disk.entry(chain.clone()).or_default() += number(event, "TransferSize");
                }
            }
            _ => {}
        }
    }
    println!("disk: {disk:?}");
    recording.check("disk", &disk);
    // A temporary directory in memory has no disk.
    if !disk.is_empty() {
        assert!(
            disk.get(&chain(&["k_syncs", "k_sync"])).is_some_and(|bytes| *bytes >= 64 * 4096),
            "{disk:?}"
        );
        let faults = recording.weights(&["PageFault/HardFault"], |_| 1);
        let count = |stacks| recording.by_function(stacks, "inclusive_count");
        println!("hard faults: {faults:?}");
        assert!(faults.contains_key(&chain(&["k_page_ins", "k_page_in"])), "{faults:?}");
        let mut by_function: BTreeMap<String, u64> = BTreeMap::new();
        for (chain, weight) in &faults {
            chain.iter().for_each(|name| *by_function.entry(name.clone()).or_default() += weight);
        }
        assert_eq!(count("faults"), by_function);
        assert!(recording.folded("faults").keys().eq(faults.keys()));
    }
}

#[test]
fn events_of_programs_by_stack() {
    let etw = Etw::new();
    let output =
        etw.record(&["-p", "Example.Chains", "--stacks", "-o", "t.etl"], &[&example("known_chains")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folded = etw.ok(&["report", "t.etl", "--stacks", "events", "--format", "folded"]);
    let mut weights = Weights::new();
    for line in folded.lines() {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        let names = stack.split(';').filter_map(|name| name.rsplit("::").next());
        let chain: Chain = names.filter(|name| name.contains("chain")).map(str::to_owned).collect();
        *weights.entry(chain).or_default() += weight.parse::<u64>().unwrap();
    }
    let of = |names: &[&str], weight: u64| (chain(&[&["known_chains"], names].concat()), weight);
    let expected = [
        of(&["other_chain", "inner_of_chain"], 20),
        of(&["outer_chain", "middle_of_chain", "inner_of_chain"], 30),
    ];
    assert_eq!(weights.into_iter().collect::<Vec<_>>(), expected, "{folded}");
}
