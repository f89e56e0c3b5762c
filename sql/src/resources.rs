//! The memory and the temporary files of queries: their limits, and how queries go on with less.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::common::DataFusionError;
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::context::SessionConfig;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion_distributed::DistributedConfig;

use crate::memory;
use crate::opened::Files;
use crate::source::OpenOptions;
use crate::temporary::TemporaryDirectory;

/// Rows of a batch where there is little memory.
const FEW_ROWS: usize = 512;
/// Memory for each row of a batch: many batches are on their way at a time, which nobody counts.
const ROW_BYTES: usize = 24 << 10;

/// How a query runs: fast, or with less memory after it needed too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    Full,
    /// Joins by hash keep one side in memory. Those of sorted rows use temporary files, as sorting does.
    SortedJoins,
    /// One piece of a table after the other, in small batches: each that is read at a time must have room for a batch.
    OneByOne,
}

impl Pace {
    /// Returns the next pace that needs less memory.
    pub(crate) fn slower(self) -> Option<Pace> {
        match self {
            Pace::Full => Some(Pace::SortedJoins),
            Pace::SortedJoins => Some(Pace::OneByOne),
            Pace::OneByOne => None,
        }
    }

    /// Returns the pace of a session.
    pub(crate) fn from_config(config: &SessionConfig) -> Pace {
        config.get_extension::<Pace>().map_or(Pace::Full, |pace| *pace)
    }

    /// Has the queries of a session run so.
    pub(crate) fn set(self, config: &mut SessionConfig) {
        config.set_extension(Arc::new(self));
        let options = config.options_mut();
        options.optimizer.prefer_hash_join = self == Pace::Full;
        if self == Pace::OneByOne {
            // With one, the engine would join by hash.
            options.execution.target_partitions = 2;
            if let Ok(rows) = ConfigNonZeroUsize::try_new(FEW_ROWS) {
                options.execution.batch_size = rows;
            }
            if let Some(distributed) = options.extensions.get_mut::<DistributedConfig>() {
                distributed.shuffle_batch_size = FEW_ROWS;
            }
        }
    }

    /// Returns the plan for this pace: sorting for the first rows keeps them in memory, and sorting for all does not.
    ///
    /// # Errors
    ///
    /// Fails if a node of the plan has other inputs than it says.
    pub(crate) fn planned(
        self,
        plan: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        if self != Pace::OneByOne {
            return Ok(plan);
        }
        let changed = plan.transform_up(|node| {
            let Some((sort, rows)) =
                node.downcast_ref::<SortExec>().and_then(|sort| Some((sort, sort.fetch()?)))
            else {
                return Ok(Transformed::no(node));
            };
            let whole = SortExec::new(sort.expr().clone(), sort.input().clone())
                .with_preserve_partitioning(sort.preserve_partitioning());
            Ok(Transformed::yes(
                Arc::new(LocalLimitExec::new(Arc::new(whole), rows)) as Arc<dyn ExecutionPlan>
            ))
        })?;
        Ok(changed.data)
    }
}

/// Limits of what queries use.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Limits {
    /// Memory of the process, in MiB; what does not fit is sorted, grouped and joined in temporary files.
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(64..))]
    memory: u32,
    /// Directory of temporary files, instead of the system's.
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
    /// Limit of temporary files, and also of what is fetched from URLs, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 102_400, value_parser = clap::value_parser!(u64).range(1..))]
    disk: u64,
}

impl Limits {
    /// Returns the limit of temporary files.
    fn disk_bytes(&self) -> u64 {
        self.disk.saturating_mul(1 << 20)
    }

    /// Returns the directory of temporary files, if it is not the system's.
    pub(crate) fn temp_dir(&self) -> Option<&Path> {
        self.temp_dir.as_deref()
    }

    /// Returns a table of traces that are opened, of which those at URLs keep to the limits.
    pub(crate) fn files(&self, options: OpenOptions) -> Files {
        Files::new(options, self.temp_dir.as_deref(), self.disk_bytes())
    }

    /// Returns the memory and the temporary files that all queries share.
    ///
    /// # Errors
    ///
    /// Fails if there is no such directory.
    pub(crate) fn resources(&self) -> Result<Resources> {
        if let Some(directory) = self.temp_dir.as_deref().filter(|directory| !directory.is_dir()) {
            bail!("{} is not a directory", directory.display());
        }
        let directory = TemporaryDirectory::new(&self.temp_dir.clone().unwrap_or_else(std::env::temp_dir));
        let (mode, directory) = match directory {
            Ok(directory) => {
                (DiskManagerMode::Directories(vec![directory.path().to_owned()]), Some(Arc::new(directory)))
            }
            Err(error) if self.temp_dir.is_some() => {
                return Err(error).context("cannot make a directory for temporary files");
            }
            // What fits in memory needs no files.
            Err(_) => (DiskManagerMode::Disabled, None),
        };
        let disk = DiskManagerBuilder::default().with_mode(mode);
        let disk = disk.with_max_temp_directory_size(self.disk_bytes());
        let pool = memory::pool(self.memory as usize * (1 << 20));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk);
        Ok(Resources { runtime: runtime.build_arc()?, _directory: directory })
    }
}

/// The memory and the temporary files that all queries of a process share.
#[derive(Clone)]
pub(crate) struct Resources {
    runtime: Arc<RuntimeEnv>,
    /// It is there as long as this.
    _directory: Option<Arc<TemporaryDirectory>>,
}

impl Resources {
    /// Returns them as sessions have them.
    pub(crate) fn runtime(&self) -> Arc<RuntimeEnv> {
        self.runtime.clone()
    }

    /// Returns the limit of the memory.
    pub(crate) fn memory(&self) -> MemoryLimit {
        self.runtime.memory_pool.memory_limit()
    }

    /// Sets how the queries of a session use them, on some threads.
    pub(crate) fn limit(&self, config: &mut SessionConfig, threads: usize) {
        let execution = &mut config.options_mut().execution;
        // What is exchanged between threads has a file for each batch: where two threads append to files at a time, the
        // engine reads the older file only, and waits for ever if what it needs is in the newer one
        // (https://github.com/apache/datafusion/issues/24883).
        if let Ok(least) = ConfigNonZeroUsize::try_new(1) {
            execution.max_spill_file_size_bytes = least;
        }
        if let MemoryLimit::Finite(bytes) = self.memory() {
            // What each sort keeps for merging its files: the default is too much for several sorts in little memory.
            let kept = &mut execution.sort_spill_reservation_bytes;
            *kept = (*kept).min(bytes / (32 * threads));
            let rows = (bytes / ROW_BYTES).clamp(FEW_ROWS, execution.batch_size.get());
            if let Ok(rows) = ConfigNonZeroUsize::try_new(rows) {
                execution.batch_size = rows;
            }
        }
    }
}
