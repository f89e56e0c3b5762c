//! Hostile neighbours: programs of users without rights that attack a host, one kind of attack after the other and several at
//! once, while an honest program writes, an honest consumer reads and root controls the sessions.
//!
//! Nothing honest may be lost or late, and the host's memory stays within its sessions' budgets.

mod attacks;
mod honest;
mod raw;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use openetw::session::{
    Access, Controller, EnableBuilder, Filter, HostOptions, Instance, LogFileMode, SessionBuilder,
};

use shell::process::{HOUR, Process};

pub(super) use attacks::Attacker;
use honest::Honest;
pub(super) use honest::{Consumer, Writer};

/// Users: one without any right, one who may start sessions and enable providers, and an honest one without rights.
const NOBODY: u32 = 4001;
const STARTER: u32 = 4002;
const HONEST: u32 = 4003;

/// The provider that the honest program and the hostile ones have registered.
const PROVIDER: &str = "OpenETW.Torture.Neighbours";
/// The session with everything, and the one with the honest program alone.
const SESSION: &str = "everything";
const WATCH: &str = "watch";

/// How long controls and stops may take.
const CONTROL: Duration = Duration::from_millis(100);
const STOP: Duration = Duration::from_secs(2);
/// Memory of the host beyond the budgets of its sessions, in MiB.
const MEMORY_MIB: u64 = 200;

/// Attack a host while others use it, as root.
#[derive(Args)]
pub(crate) struct Options {
    /// Seconds in all.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Run only this attack.
    #[arg(long)]
    attack: Option<attacks::Attack>,
    /// Seconds of each attack before the next ones begin.
    #[arg(long, default_value_t = 3)]
    each: u64,
    /// Attacks at once.
    #[arg(long, default_value_t = 3)]
    at_once: usize,
    /// Fail if a control takes longer than 100 ms. Use it on an idle machine.
    #[arg(long)]
    timed: bool,
}

/// Serves an instance with an access list until it is told to stop; for internal use.
#[derive(Args)]
pub(crate) struct HostChild {
    directory: String,
}

impl HostChild {
    pub(crate) fn run(&self) -> Result<()> {
        let list = format!("[[allow]]\nuids = [{STARTER}]\nmay = [\"start\", \"enable\"]");
        let mut options = HostOptions::new(Instance::at(&self.directory));
        options.access = Access::from_list(&list).map_err(anyhow::Error::msg)?;
        let stop = etw_sys::signals::watch(&[etw_sys::signals::Signal::Terminate])?;
        Ok(openetw::kernel::serve(options, &stop, |line| eprintln!("host: {line}"), || {})?)
    }
}

impl Options {
    pub(crate) fn run(&self) -> Result<()> {
        if etw_sys::credentials::effective_uid() != 0 {
            println!("hostile neighbours: only root can start programs of other users; nothing was tried");
            return Ok(());
        }
        let place = tempfile::tempdir()?;
        let place = place.path();
        fs::set_permissions(place, fs::Permissions::from_mode(0o755))?;
        // The program itself may be where only root has access.
        let program = place.join("torture");
        fs::copy(std::env::current_exe()?, &program)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let child = |uid: u32, arguments: &[&str]| -> Result<Process> {
            let mut command = Command::new(&program);
            command.args(arguments).env("OPENETW_RUNTIME_DIR", place).current_dir("/").uid(uid).gid(uid);
            Process::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()), HOUR)
        };
        let mut host = child(0, &["host-of-neighbours", &place.display().to_string()])?;
        let mut controller = connect(place)?;
        let file = place.join("everything.etl");
        let start = SessionBuilder::new(SESSION).file(&file).mode(LogFileMode::CIRCULAR);
        start.maximum_file_size_mib(64).start(&mut controller)?;
        controller.enable(SESSION, &EnableBuilder::new(PROVIDER.parse()?))?;
        let mut honest = Honest::new(child(HONEST, &["honest-writer"])?)?;
        SessionBuilder::new(WATCH).real_time().start(&mut controller)?;
        let only = EnableBuilder::new(PROVIDER.parse()?).filter(Filter::Pids(vec![honest.id()]));
        controller.enable(WATCH, &only)?;
        let mut consumer = Honest::new(child(0, &["honest-consumer", WATCH])?)?;
        consumer.hear("begun")?;
        honest.tell("begin")?;

        let mut found = Found::default();
        let begun = Instant::now();
        let all: Vec<attacks::Attack> = match self.attack {
            Some(attack) => vec![attack],
            None => attacks::Attack::value_variants().to_vec(),
        };
        let mut next = 0;
        while begun.elapsed() < Duration::from_secs(self.seconds) {
            let now: Vec<attacks::Attack> =
                (0..self.at_once.min(all.len())).map(|index| all[(next + index) % all.len()]).collect();
            next += 1;
            let attackers = now
                .iter()
                .flat_map(|attack| attack.users().iter().map(move |uid| (attack, *uid)))
                .map(|(attack, uid)| child(uid, &["attacker", attack.name()]))
                .collect::<Result<Vec<Process>>>()?;
            let until = Instant::now() + Duration::from_secs(self.each);
            while Instant::now() < until {
                found.look(place, &mut controller, host.id(), &now)?;
                thread::sleep(Duration::from_millis(20));
            }
            drop(attackers);
            ensure!(!host.has_ended()?, "the host has ended during {now:?}");
        }
        honest.tell("end")?;
        let written = honest.number()?;
        // The host may still be cleaning up after the last attackers.
        let before = Instant::now();
        let status = controller.stop(SESSION)?;
        found.stop = before.elapsed();
        let user =
            status.users.iter().find(|user| user.uid == HONEST).context("the honest user is unknown")?;
        let (kept, lost, refused) = (user.events_written, user.events_lost, user.events_refused);
        let watched = controller.stop(WATCH)?;
        let delivered = consumer.number()?;
        let before = Instant::now();
        honest::terminate(&host)?;
        host.wait()?;
        found.end = before.elapsed();
        println!(
            "hostile neighbours: {} s, {} attacks in turn, {} at once; {written} honest events, {kept} kept, {lost} lost, \
             {refused} refused, {delivered} delivered; {} controls, the longest {:.1} ms, 99 % within {:.1} ms; memory {} MiB \
             beyond the sessions' buffers; stop {:.0} ms, end {:.0} ms",
            begun.elapsed().as_secs(),
            all.len(),
            self.at_once,
            found.controls.len(),
            millis(found.longest()),
            millis(found.most()),
            found.memory_mib,
            millis(found.stop),
            millis(found.end),
        );
        for user in &status.users {
            println!(
                "  user {}: {} events written, {} lost, {} refused, {} regions refused",
                user.uid, user.events_written, user.events_lost, user.events_refused, user.regions_refused
            );
        }
        ensure!(written > 0 && kept == written && lost == 0 && refused == 0, "honest events were lost");
        ensure!(
            delivered == written && watched.real_time_events_lost == 0,
            "honest events were not delivered"
        );
        ensure!(found.memory_mib <= MEMORY_MIB, "the host took {} MiB", found.memory_mib);
        ensure!(found.stop <= STOP && found.end <= STOP, "the end took too long");
        ensure!(!self.timed || found.longest() <= CONTROL, "a control took {:?}", found.longest());
        Ok(())
    }
}

/// What was seen of the host.
#[derive(Default)]
struct Found {
    controls: Vec<Duration>,
    memory_mib: u64,
    stop: Duration,
    end: Duration,
}

impl Found {
    /// Lists the sessions over an old and a new connection, and looks at the host's memory.
    fn look(
        &mut self,
        place: &Path,
        controller: &mut Controller,
        host: u32,
        attacks: &[attacks::Attack],
    ) -> Result<()> {
        let mut budget = 0;
        for is_new in [false, true] {
            let begun = Instant::now();
            let sessions = if is_new { connect(place)?.list()? } else { controller.list()? };
            let took = begun.elapsed();
            if took > CONTROL {
                eprintln!("{:.0} ms for a list, during {attacks:?}", millis(took));
            }
            self.controls.push(took);
            ensure!(
                sessions.iter().any(|session| session.properties.logger_name == SESSION),
                "a session is gone"
            );
            let bytes = |p: &openetw::session::SessionProperties| {
                u64::from(p.maximum_buffers) * u64::from(p.buffer_size) * 1024
            };
            budget = sessions.iter().map(|session| bytes(&session.properties)).sum();
        }
        let children = fs::read_to_string(format!("/proc/{host}/task/{host}/children"))?;
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        let kib: u64 = children.chain([host]).map(resident_kib).sum();
        let beyond = (kib * 1024).saturating_sub(budget) >> 20;
        if beyond > self.memory_mib && beyond > MEMORY_MIB {
            eprintln!("{beyond} MiB beyond the budgets, during {attacks:?}");
        }
        self.memory_mib = self.memory_mib.max(beyond);
        Ok(())
    }

    fn longest(&self) -> Duration {
        self.controls.iter().max().copied().unwrap_or_default()
    }

    fn most(&self) -> Duration {
        let mut sorted = self.controls.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * 99 / 100).copied().unwrap_or_default()
    }
}

/// Returns the memory of a process in KiB; 0 if it has ended.
fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    resident.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn connect(place: &Path) -> Result<Controller> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match Controller::connect_to(&Instance::at(place)) {
            Ok(controller) => return Ok(controller),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
