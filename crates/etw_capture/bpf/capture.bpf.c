// SPDX-License-Identifier: MIT OR Apache-2.0
/* Captures the kernel's activity: programs on raw tracepoints and perf events, which write records to one ring
 * per processor. */
#include "file.h"
#include "ring.h"
#include "stack.h"

/* Tracing helpers are available only to programs with a license compatible with the kernel's. */
char terms[] SECTION("license") = "Dual MIT/GPL";

#define SESSION_ID 3

INLINE u32 session_of(struct task_struct *task)
{
	return task->signal->pids[SESSION_ID]->numbers[0].nr;
}

/* ---- Processes and threads ---- */

struct fork {
	struct header header;
	u32 pid;
	u32 tid;
	u32 parent_pid;
	u32 uid;
	u32 session;
	u32 priority;
	char name[16];
	u64 start_boottime;
	u64 control_group; /* Of version 2; 0 if the kernel has none. */
};

INLINE u64 control_group_of(struct task_struct *task)
{
	if (!FIELD_EXISTS(task->cgroups))
		return 0;
	struct cgroup *group = LOAD(LOAD(task, cgroups), dfl_cgrp);
	return LOAD(LOAD(group, kn), id);
}

SECTION("tp_btf/sched_process_fork") int process_fork(u64 *context)
{
	struct task_struct *child = (void *)context[1];
	struct fork *record = reserve(sizeof(*record), FORK, 0);
	if (!record)
		return 0;
	record->pid = child->tgid;
	record->tid = child->pid;
	record->parent_pid = child->real_parent->tgid;
	record->uid = current_uid_gid();
	record->session = session_of(child);
	record->priority = child->prio;
	read_kernel(record->name, sizeof(record->name), child->comm);
	record->start_boottime = child->start_boottime;
	record->control_group = control_group_of(child);
	submit(record);
	return 0;
}

struct rename {
	struct header header;
	/* The thread that gets the name, which another one may set. */
	u32 pid;
	u32 tid;
	char name[16];
};

/* Names that a thread sets, and that of each program that it starts to run, before the program's own record. */
SECTION("tp_btf/task_rename") int process_rename(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct rename *record = reserve(sizeof(*record), THREAD_NAME, 0);
	if (!record)
		return 0;
	record->pid = task->tgid;
	record->tid = task->pid;
	if (read_kernel_str(record->name, sizeof(record->name), (void *)context[1]) < 0)
		record->name[0] = 0;
	submit(record);
	return 0;
}

#define PATH_MOST 4096

#define ARGUMENTS_MOST 24576

struct exec {
	struct header header; /* Its number: the thread's id before. */
	u32 parent_pid;
	u32 uid;
	u32 session;
	u32 path_bytes;
	u32 arguments_bytes;
	u32 arguments_all_bytes;
	u64 start_boottime;
	/* The path with its NUL, then the arguments, each with its NUL. */
};

struct exec_path {
	char bytes[PATH_MOST];
};

struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct exec_path);
} exec_paths MAP;

/* Room is reserved in one of a few sizes, since the verifier requires a constant. */
#define WRITE_EXEC(most)                                                                                          \
	do {                                                                                                      \
		struct exec *record = reserve(sizeof(*record) + (most), EXEC, context[1]);                        \
		if (!record)                                                                                      \
			return 0;                                                                                 \
		u8 *to = (u8 *)(record + 1);                                                                      \
		record->parent_pid = task->real_parent->tgid;                                                     \
		record->uid = current_uid_gid();                                                                  \
		record->session = session_of(task);                                                               \
		record->arguments_all_bytes = all;                                                                \
		record->start_boottime = task->start_boottime;                                                    \
		u64 path_bytes = length;                                                                          \
		if (path_bytes > PATH_MOST || path_bytes > (most) / 2)                                            \
			path_bytes = 0;                                                                           \
		if (path_bytes && read_kernel(to, path_bytes, path->bytes))                                       \
			path_bytes = 0;                                                                           \
		u64 arguments = kept;                                                                             \
		if (arguments > (most) / 2)                                                                       \
			arguments = 0;                                                                            \
		if (arguments && read_user(to + path_bytes, arguments, (void *)start))                            \
			arguments = 0;                                                                            \
		record->path_bytes = path_bytes;                                                                  \
		record->arguments_bytes = arguments;                                                              \
		submit(record);                                                                          \
	} while (0)

SECTION("tp_btf/sched_process_exec") int process_exec(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct linux_binprm *program = (void *)context[2];
	u32 zero = 0;
	struct exec_path *path = map_lookup(&exec_paths, &zero);
	if (!path)
		return 0;
	s64 found = read_kernel_str(path->bytes, PATH_MOST, program->filename);
	u64 length = found > 0 ? found : 0;
	u64 start = task->mm->arg_start;
	u64 all = task->mm->arg_end - start;
	u64 kept = all < ARGUMENTS_MOST ? all : ARGUMENTS_MOST;
	if (length <= 256 && kept <= 256)
		WRITE_EXEC(512);
	else if (length <= PATH_MOST && kept <= 4096)
		WRITE_EXEC(8192);
	else
		WRITE_EXEC(2 * ARGUMENTS_MOST);
	return 0;
}

struct moved {
	struct header header; /* Its number: the hierarchy, 0 for version 2. */
	u32 pid;
	u32 path_bytes;
	u64 control_group;
	char path[PATH_MOST]; /* With its NUL. */
};

/* A process moves to another control group. */
SECTION("tp_btf/cgroup_attach_task") int process_move(u64 *context)
{
	struct cgroup *group = (void *)context[0];
	struct task_struct *task = (void *)context[2];
	if (task->pid != task->tgid)
		return 0;
	struct moved *record = reserve(sizeof(*record), CONTROL_GROUP, LOAD(LOAD(group, root), hierarchy_id));
	if (!record)
		return 0;
	s64 found = read_kernel_str(record->path, sizeof(record->path), (void *)context[1]);
	record->pid = task->tgid;
	record->path_bytes = found > 0 ? found : 0;
	record->control_group = LOAD(LOAD(group, kn), id);
	submit(record);
	return 0;
}

#define GROUP_EXIT 4

struct exit {
	struct header header; /* Its number: whether the process ends. */
	u32 code;
	u32 process_code;
	/* CPU times of the thread in nanoseconds. */
	u64 kernel_nanos;
	u64 user_nanos;
};

/* Processes of several threads whose end was recorded. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 4096);
	TYPE(key, struct process_key);
	TYPE(value, u32);
} ended MAP;

SECTION("tp_btf/sched_process_exit") int process_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct signal_struct *process = task->signal;
	u32 last = process->live.counter == 0;
	if (last && process->nr_threads > 1) {
		/* Two threads that end at once may both see that no thread is left. */
		struct process_key key = { task->group_leader->start_time, task->tgid };
		u32 one = 1;
		if (map_update(&ended, &key, &one, UPDATE_NEW_ONLY))
			last = 0;
	}
	struct exit *record = reserve(sizeof(*record), EXIT, last);
	if (!record)
		return 0;
	record->code = task->exit_code;
	record->kernel_nanos = task->stime;
	record->user_nanos = task->utime;
	if (process->flags & GROUP_EXIT)
		record->process_code = process->group_exit_code;
	else
		record->process_code = task->group_leader->exit_code;
	submit(record);
	return 0;
}

/* ---- The scheduler ---- */

#define UNINTERRUPTIBLE 2
#define KERNEL_THREAD 0x200000
#define NO_SYSTEM_CALL (u32) - 1
/* Mark of system calls of 32-bit programs, which have other numbers. */
#define OF_32_BIT 0x80000000

struct switched {
	struct header header; /* Its number: the state of the old thread, whose ids it has. */
	u32 new_pid;
	u32 new_tid;
	u16 old_priority;
	u16 new_priority;
	u8 preempted;
	u8 waits_for_io;
	u16 reserved;
	u32 system_call; /* The old thread's; all ones for none. */
	u32 reserved_too;
};

/* Returns the system call that a thread is in. An interrupt of a program leaves no number. */
INLINE u32 system_call_of(struct task_struct *task)
{
	if (!HAS_TASK_REGISTERS || task->flags & KERNEL_THREAD)
		return NO_SYSTEM_CALL;
	void *registers = task_registers(task);
	u32 number = LOAD_CALL_NUMBER(registers);
	return is_of_32_bit(task) ? number | OF_32_BIT : number;
}

SECTION("tp_btf/sched_switch") int context_switch(u64 *context)
{
	struct task_struct *old = (void *)context[1];
	struct task_struct *new = (void *)context[2];
	u32 state;
	if (FIELD_EXISTS(old->__state))
		state = old->__state;
	else
		state = ((struct task_struct___old *)old)->state;
	struct switched *record = reserve(sizeof(*record), SWITCH, state);
	if (!record)
		return 0;
	record->new_pid = new->tgid;
	record->new_tid = new->pid;
	record->old_priority = old->prio;
	record->new_priority = new->prio;
	record->preempted = context[0] & 1;
	record->waits_for_io = state & UNINTERRUPTIBLE ? BIT_FIELD(old, in_iowait) : 0;
	record->reserved = 0;
	record->system_call = system_call_of(old);
	record->reserved_too = 0;
	submit(record);
	return 0;
}

struct waking {
	struct header header; /* Its number: the priority of the thread that is made ready. */
	u32 pid;
	u32 tid;
	u32 in_interrupt;
	u32 reserved;
};

/* What a processor does on behalf of no thread; one bit per kind, since the kinds interrupt each other. */
#define IN_INTERRUPT 1
#define IN_SOFTIRQ 2
#define IN_TIMER 4

struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u32);
} interrupted MAP;

INLINE u32 set_interrupted(u32 begins, u32 ends)
{
	u32 zero = 0;
	u32 *now = map_lookup(&interrupted, &zero);
	if (now)
		*now = (*now | begins) & ~ends;
	return 0;
}

SECTION("tp_btf/irq_handler_entry") int ready_interrupt_enter(u64 *context)
{
	return set_interrupted(IN_INTERRUPT, 0);
}

SECTION("tp_btf/irq_handler_exit") int ready_interrupt_exit(u64 *context)
{
	return set_interrupted(0, IN_INTERRUPT);
}

SECTION("tp_btf/softirq_entry") int ready_softirq_enter(u64 *context)
{
	return set_interrupted(IN_SOFTIRQ, 0);
}

SECTION("tp_btf/softirq_exit") int ready_softirq_exit(u64 *context)
{
	return set_interrupted(0, IN_SOFTIRQ);
}

SECTION("tp_btf/hrtimer_expire_entry") int ready_timer_enter(u64 *context)
{
	return set_interrupted(IN_TIMER, 0);
}

SECTION("tp_btf/hrtimer_expire_exit") int ready_timer_exit(u64 *context)
{
	return set_interrupted(0, IN_TIMER);
}

SECTION("tp_btf/sched_waking") int ready_thread(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct waking *record = reserve(sizeof(*record), WAKING, task->prio);
	if (!record)
		return 0;
	u32 zero = 0;
	u32 *now = map_lookup(&interrupted, &zero);
	record->pid = task->tgid;
	record->tid = task->pid;
	record->in_interrupt = now ? *now : 0;
	record->reserved = 0;
	submit(record);
	return 0;
}

/* ---- Samples ---- */

struct sample {
	struct header header;
	u64 instruction;
};

/* Reads from the registers of a sample (bpf_perf_event_data). The verifier requires a constant offset in the
 * instruction. */
#define FROM_SAMPLE(context, place)                                                                               \
	({                                                                                                        \
		u64 value_;                                                                                       \
		asm volatile("%0 = *(u64 *)(%1 + " #place ")" : "=r"(value_) : "r"(context));                     \
		value_;                                                                                           \
	})

/* Runs in the timer's interrupt. */
SECTION("perf_event") int sample(void *context)
{
	struct sample *record = reserve(sizeof(*record), SAMPLE, 0);
	if (!record)
		return 0;
	if (IS_X86)
		record->instruction = FROM_SAMPLE(context, 128);
	else
		record->instruction = FROM_SAMPLE(context, 256);
	u64 time = record->header.time;
	/* The upper half of all addresses is the kernel's. */
	bool in_kernel = (s64)record->instruction < 0;
	ring_submit(record, RING_NO_WAKEUP);
	if (has_stack(SAMPLE))
		write_stack(context, in_kernel, SAMPLE, time);
	return 0;
}

/* ---- System calls ---- */

/* Returns the number of a system call as stored in records. */
INLINE u32 marked(u32 number)
{
	return is_of_32_bit(current_task()) ? number | OF_32_BIT : number;
}

SECTION("tp_btf/sys_enter") int system_call_enter(u64 *context)
{
	if (is_left_out())
		return 0;
	struct header *record = reserve(sizeof(*record), SYSTEM_CALL_ENTER, marked(context[1]));
	if (record)
		submit(record);
	return 0;
}

struct system_call_exit {
	struct header header; /* Its number: the system call's. */
	s64 result;
};

SECTION("tp_btf/sys_exit") int system_call_exit(u64 *context)
{
	if (is_left_out())
		return 0;
	void *registers = (void *)context[0];
	struct system_call_exit *record =
		reserve(sizeof(*record), SYSTEM_CALL_EXIT, marked(CALL_NUMBER(registers)));
	if (!record)
		return 0;
	record->result = context[1];
	submit(record);
	return 0;
}

/* ---- Interrupts ---- */

/* Start times of the interrupt and the softirq that run on a processor. They are cleared when their programs are
 * attached. */
#define BEGUN                                                                                                     \
	struct {                                                                                                  \
		NUMBER(type, MAP_PERCPU_ARRAY);                                                                   \
		NUMBER(max_entries, 1);                                                                           \
		TYPE(key, u32);                                                                                   \
		TYPE(value, u64);                                                                                 \
	}

BEGUN interrupt_begun MAP;
BEGUN dpc_begun MAP;

INLINE u64 *own_begun(const void *map)
{
	u32 zero = 0;
	return map_lookup(map, &zero);
}

struct interrupt {
	struct header header; /* Its number: the interrupt's. */
	u64 begun;
	u64 routine;
	u64 handled;
};

SECTION("tp_btf/irq_handler_entry") int interrupt_enter(u64 *context)
{
	u64 *begun = own_begun(&interrupt_begun);
	if (begun)
		*begun = ktime();
	return 0;
}

SECTION("tp_btf/irq_handler_exit") int interrupt_exit(u64 *context)
{
	struct irqaction *action = (void *)context[1];
	u64 *begun = own_begun(&interrupt_begun);
	if (!begun || !*begun)
		return 0;
	struct interrupt *record = reserve(sizeof(*record), INTERRUPT, context[0]);
	if (!record)
		return 0;
	record->begun = *begun;
	record->routine = (u64)action->handler;
	record->handled = (s32)context[2];
	*begun = 0;
	submit(record);
	return 0;
}

struct dpc {
	struct header header; /* Its number: the softirq's. */
	u64 begun;
};

SECTION("tp_btf/softirq_entry") int dpc_enter(u64 *context)
{
	u64 *begun = own_begun(&dpc_begun);
	if (begun)
		*begun = ktime();
	return 0;
}

SECTION("tp_btf/softirq_exit") int dpc_exit(u64 *context)
{
	u64 *begun = own_begun(&dpc_begun);
	if (!begun || !*begun)
		return 0;
	struct dpc *record = reserve(sizeof(*record), DPC, context[0]);
	if (!record)
		return 0;
	record->begun = *begun;
	*begun = 0;
	submit(record);
	return 0;
}

/* ---- Disks ---- */

struct disk {
	struct header header; /* Its number: the operation and its flags. */
	u64 request;
	u64 sector;
	u32 bytes;
	u32 device;
	u64 issued;
	u32 issuer_pid;
	u32 issuer_tid;
	u64 error;
	u64 file; /* Its key; 0 if the data is not from a file. */
};

struct issue {
	u64 time;
	u64 ids;
	u64 file;
	u64 is_queued; /* Recorded when it was queued, and not sent yet. */
};

struct {
	NUMBER(type, MAP_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, u64);
	TYPE(value, struct issue);
} issued MAP;

INLINE void fill_disk(struct disk *record, struct request *request)
{
	struct gendisk *disk;
	if (FIELD_EXISTS(request->q->disk))
		disk = request->q->disk;
	else
		disk = ((struct request___old *)request)->rq_disk;
	record->request = (u64)request;
	record->sector = request->__sector;
	record->device = disk->major << 20 | disk->first_minor;
}

/* The operation in a request's flags; greater ones are not reads or writes. */
#define OPERATION 0xff
#define DISK_WRITE 1

/* Returns the key of the file that the data of a request starts with; 0 if it is not cached file data. */
INLINE u64 file_of(struct request *request)
{
	if ((request->cmd_flags & OPERATION) > DISK_WRITE)
		return 0;
	struct bio *bio = request->bio;
	struct bio_vec *part = LOAD(bio, bi_io_vec);
	return page_key(LOAD(part + LOAD(bio, bi_iter.bi_idx), bv_page));
}

/* Records the start of a request by the thread that it is for. A queued request may be sent later by any thread. */
INLINE int disk_begin(struct request *request, u64 is_queued)
{
	u64 file = file_of(request);
	struct disk *record = reserve(sizeof(*record), DISK_ISSUE, request->cmd_flags);
	u64 key = (u64)request;
	struct issue now = { 0, current_pid_tid(), file, is_queued };
	if (!record) {
		now.time = ktime();
		map_update(&issued, &key, &now, UPDATE_ANY);
		return 0;
	}
	now.time = record->header.time;
	map_update(&issued, &key, &now, UPDATE_ANY);
	fill_disk(record, request);
	record->bytes = request->__data_len;
	record->issued = now.time;
	record->issuer_pid = record->header.pid;
	record->issuer_tid = record->header.tid;
	record->error = 0;
	record->file = file;
	submit(record);
	return 0;
}

SECTION("tp_btf/block_rq_insert") int disk_queue(u64 *context)
{
	return disk_begin((void *)context[0], 1);
}

/* The request becomes part of another one. */
SECTION("tp_btf/block_rq_merge") int disk_merge(u64 *context)
{
	u64 key = context[0];
	map_delete(&issued, &key);
	return 0;
}

/* The driver had no room and gets the request again. */
SECTION("tp_btf/block_rq_requeue") int disk_requeue(u64 *context)
{
	u64 key = context[0];
	struct issue *issue = map_lookup(&issued, &key);
	if (issue)
		issue->is_queued = 1;
	return 0;
}

SECTION("tp_btf/block_rq_issue") int disk_issue(u64 *context)
{
	u64 key = context[0];
	struct issue *issue = map_lookup(&issued, &key);
	if (issue && issue->is_queued) {
		issue->is_queued = 0;
		return 0;
	}
	return disk_begin((void *)context[0], 0);
}

SECTION("tp_btf/block_rq_complete") int disk_complete(u64 *context)
{
	struct request *request = (void *)context[0];
	u64 key = (u64)request;
	struct issue *issue = map_lookup(&issued, &key);
	/* A request with a flush ends once more, after the flush and its data, which are recorded by themselves. */
	if (!issue && !(u32)context[2] && (request->cmd_flags & OPERATION) <= DISK_WRITE)
		return 0;
	struct disk *record = reserve(sizeof(*record), DISK_COMPLETE, request->cmd_flags);
	if (record) {
		fill_disk(record, request);
		record->bytes = context[2];
		record->issued = issue ? issue->time : 0;
		record->issuer_pid = issue ? issue->ids >> 32 : 0;
		record->issuer_tid = issue ? (u32)issue->ids : 0;
		record->error = context[1] & 0xffffffff;
		record->file = issue ? issue->file : 0;
		submit(record);
	}
	/* A request may complete in parts. */
	if (issue && (u32)context[2] >= request->__data_len)
		map_delete(&issued, &key);
	return 0;
}

#include "file_operations.h"
#include "file_rings.h"
#include "network.h"
#include "memory.h"
#include "image.h"
