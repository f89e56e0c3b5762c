-- Queries that `etw sql` and DuckDB answer alike, DuckDB over the files that `etw export --table` writes.
-- Each starts with a line of its number and ends with a semicolon. Answers are compared without their order, unless the
-- query orders them; `ordered` says so. `bench/peers/queries.py` runs them.

-- 1
select count(*) as n from generic_events;
-- 2
select k.provider, count(*) as n from generic_events e join event_kinds k on e.kind = k."row" group by k.provider;
-- 3
select provider, event, id, version, opcode, task, channel, keywords, level, count(*) as n from events
where event not like 'StackWalk/%' group by provider, event, id, version, opcode, task, channel, keywords, level;
-- 4
select processor, count(*) as n, min(time) as first, max(time) as last from events where event not like 'StackWalk/%'
group by processor;
-- 5 ordered
select time from events where event not like 'StackWalk/%' order by time limit 100;
-- 6 ordered
select time from events where event not like 'StackWalk/%' order by time desc limit 100;
-- 7
select count(*) as n from events where level = 4 and event not like 'StackWalk/%';
-- 8
select event, count(*) as n from events where provider = 'Windows Kernel Trace' and event not like 'StackWalk/%'
group by event having count(*) > 10;
-- 9
select date_trunc('second', time) as second, count(*) as n from events where event not like 'StackWalk/%' group by 1;
-- 10
select count(*) as n from events where processor in (0, 2) and opcode between 10 and 40 and event not like 'StackWalk/%';
-- 11
select provider, event, count(*) as n from events
where time >= (select min(time) from events) and id <> 0 group by provider, event;
-- 12
select count(distinct event) as kinds, count(distinct provider) as providers from events where event not like 'StackWalk/%';
-- 13
select name, process_id, parent_id, command_line, exit_status, session_id from processes;
-- 14
select p.name, count(*) as threads from threads t join processes p on t.process = p."row" group by p.name;
-- 15
select c.name, p.name as parent from processes c left join processes p on c.parent = p."row";
-- 16
select count(*) as n, sum(duration) as total, max(duration) as longest from processes where duration is not null;
-- 17
select image, count(*) as n, max(size) as size from images group by image;
-- 18
select p.name, i.path from images i join processes p on i.process = p."row" where lower(i.image) like '%.dll';
-- 19
select upper(split_part(image, '.', 1)) as stem, count(distinct path) as paths from images group by 1;
-- 20
select count(*) as n, sum(weight) as weight, sum(count) as samples from cpu_sampled;
-- 21
select p.name, sum(s.weight) as weight from cpu_sampled s join threads t on s.thread = t."row"
join processes p on t.process = p."row" group by p.name;
-- 22
select f.module, count(*) as n from cpu_sampled s join frames f on s.frame = f."row" group by f.module;
-- 23
select processor, count(*) as n from cpu_sampled where processor < 4 group by processor;
-- 24
select n, count(*) as stacks from (select stack, count(*) as n from cpu_sampled group by stack) s group by n;
-- 25
select n, count(*) as stacks from (select stack, count(*) as n from generic_events where stack is not null group by stack) s
group by n;
-- 26
select count(*) as n, sum(ran) as ran, sum(waits) as waits, max(ready) as ready from cpu_precise;
-- 27
select new_wait_reason, readied_by, count(*) as n, sum(waits) as waits from cpu_precise
group by new_wait_reason, readied_by;
-- 28
select p.name, t.thread_id, count(*) as switches, sum(c.waits) as waits from cpu_precise c
join threads t on c.new_thread = t."row" join processes p on t.process = p."row" group by p.name, t.thread_id;
-- 29
select r.name as readying, count(*) as n from cpu_precise c join threads t on c.readying_thread = t."row"
join processes r on t.process = r."row" where c.waits > 1000000 group by r.name;
-- 30
select old_state, new_priority, count(*) as n from cpu_precise group by old_state, new_priority;
-- 31
select operation, count(*) as n, sum(size) as bytes, max(duration) as longest, avg(duration) as mean from disk
group by operation;
-- 32
select p.name, f.path, sum(d.size) as bytes from disk d join threads t on d.thread = t."row"
join processes p on t.process = p."row" join files f on d.file = f."row" group by p.name, f.path;
-- 33 ordered
select duration, size, operation from disk order by duration desc nulls last, size, operation limit 20;
-- 34
select disk, count(*) as n, sum(disk_service_time) as busy from disk where size >= 4096 group by disk;
-- 35
select depth, sum(duration) as time, sum(request_time) as request_time from disk_queue group by depth;
-- 36
select operation, count(*) as n, sum(size) as bytes, count(duration) as ended from file_io group by operation;
-- 37
select p.name, i.operation, count(*) as n from file_io i left join threads t on i.thread = t."row"
left join processes p on t.process = p."row" group by p.name, i.operation;
-- 38
select status, count(*) as n from file_io where status >= 3221225472 group by status;
-- 39
select f.path, count(*) as n from file_io i join files f on i.file = f."row" where starts_with(f.path, 'C:') group by f.path;
-- 40
select case when duration < 10000 then 'short' when duration < 1000000 then 'long' else 'very long' end as class,
  count(*) as n from file_io where duration is not null group by 1;
-- 41
select f.path, count(*) as n, sum(h.duration) as time from hard_faults h left join files f on h.file = f."row" group by f.path;
-- 42
select type, processor, count(*) as n, sum(duration) as time from dpc_isr group by type, processor;
-- 43
select f.function, count(*) as n from dpc_isr d join frames f on d.routine = f."row" group by f.function;
-- 44
select f.function, count(*) as n, max(s.duration) as longest from syscalls s join frames f on s.routine = f."row"
group by f.function;
-- 45
select protocol, operation, remote_port, count(*) as n, sum(size) as bytes from network
group by protocol, operation, remote_port;
-- 46
select p.name, c.protocol, sum(c.bytes_sent) as sent, sum(c.bytes_received) as received from connections c
left join processes p on c.process = p."row" group by p.name, c.protocol;
-- 47
select operation, count(*) as n, sum(elapsed_time) as time from registry group by operation;
-- 48
select p.name, count(*) as n, sum(g.pause) as pause, max(g.size_after) as size from gc g
join processes p on g.process = p."row" group by p.name;
-- 49
select generation, type, reason, count(*) as n from gc group by generation, type, reason;
-- 50
select type, processor, count(*) as n, count(distinct address) as pages from page_faults group by type, processor;
-- 51
select count(*) as n, count(distinct function) as functions, count(distinct module) as modules from frames;
-- 52
select module, sum(case when function is null then 1 else 0 end) as nameless from frames group by module;
-- 53
select name, process_id, row_number() over (partition by name order by process_id, start, "end") as number from processes;
-- 54 ordered
with sums as (select processor, sum(size) as bytes from generic_events group by processor)
select processor, bytes, sum(bytes) over (order by processor) as so_far from sums order by processor;
-- 55
select size, count(*) as n from (select size from generic_events union all select size from generic_events) b group by size;
-- 56
select k.event, min(e.size) as least, max(e.size) as greatest from generic_events e
join event_kinds k on e.kind = k."row" where not exists (select 1 from processes p where p."row" = e.process) group by k.event;
-- 57
select version, level, count(*) as n, min(time) as first from "Thread/CSwitch" group by version, level;
-- 58
select "NewThreadId", count(*) as n, sum("NewThreadWaitTime") as waits from "Thread/CSwitch"
where "NewThreadPriority" >= 8 group by "NewThreadId";
-- 59
select "DiskNumber", sum("TransferSize") as bytes, max("HighResResponseTime") as longest from "DiskIo/Read"
where "TransferSize" > 4096 group by "DiskNumber";
-- 60
select "ImageFileName", "ProcessId", "ParentId", "ExitStatus" from "Process/DCStart";
-- 61
select "FileName", "ImageBase", "ImageSize" from "Image/DCStart" where processor >= 0;
