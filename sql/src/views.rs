//! Views that every database has, and those of a file.

/// The views as SQL, which a file of the user may replace.
pub(crate) const BUILT_IN: &str = "
-- Processor time of each process, by samples.
create or replace view top_processes as
select p.process, p.command_line, sum(s.weight) as cpu_ns, count(*) as samples, s.trace
from cpu_sampled s
left join threads t on s.thread = t.row
left join processes p on t.process = p.row
group by p.process, p.command_line, s.trace;

-- Where threads waited, by process, reason and what ended the wait.
create or replace view waits as
select p.process, w.new_wait_reason as reason, w.readied_by, r.process as readying_process,
  sum(w.waits) as waits_ns, max(w.waits) as longest_ns, count(*) as waits, w.trace
from cpu_precise w
left join threads t on w.new_thread = t.row
left join processes p on t.process = p.row
left join threads rt on w.readying_thread = rt.row
left join processes r on rt.process = r.row
where w.waits is not null
group by p.process, w.new_wait_reason, w.readied_by, r.process, w.trace;

-- Requests of disks.
create or replace view slow_io as
select d.duration as duration_ns, d.init_time, d.time, d.operation, p.process, f.path, d.size, d.disk,
  d.disk_service_time as disk_service_ns, d.trace
from disk d
left join threads t on d.thread = t.row
left join processes p on t.process = p.row
left join files f on d.file = f.row;

-- Garbage collections of .NET.
create or replace view gc_pauses as
select g.pause as pause_ns, g.start_time, p.process, g.generation, g.type, g.reason, g.suspension as suspension_ns,
  g.size_before, g.size_after, g.promoted, g.trace
from gc g
left join processes p on g.process = p.row;

-- Processes with their ancestors.
create or replace view process_tree as
with recursive tree as (
  select p.row, '' || cast(p.process as varchar) as path, cast(0 as bigint) as depth
  from processes p where p.parent is null
  union all
  select p.row, tree.path || ' / ' || cast(p.process as varchar), tree.depth + 1
  from processes p join tree on p.parent = tree.row where tree.depth < 64
)
select tree.depth, p.process, tree.path, p.process_id, p.parent_id, p.start, p.\"end\", p.exit_status, p.command_line,
  p.trace
from tree join processes p on tree.row = p.row;
";
