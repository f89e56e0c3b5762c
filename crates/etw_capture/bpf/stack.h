/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Stacks of events: a record after the event's, with its time. `submit` ends every record that may have one. */
#pragma once

#include "follow.h"
#include "python.h"

/* Kinds of events with stacks, one bit each. */
struct kinds {
	u64 bits[2];
};

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct kinds);
} stack_kinds MAP;

/* Stores the registers of a 64-bit program of x86 or ARM; returns whether it is one. */
INLINE bool fill_registers(struct stack *stack, struct task_struct *task)
{
	void *registers = task_registers(task);
	if (IS_X86) {
		if (X86(registers)->cs != X86_USER_64)
			return false;
		stack->instruction = X86(registers)->ip;
		stack->stack_pointer = X86(registers)->sp;
		stack->frame_pointer = X86(registers)->bp;
		stack->link = 0;
	} else {
		if (ARM(registers)->pstate & ARM_USER_32)
			return false;
		stack->instruction = ARM(registers)->pc;
		stack->stack_pointer = ARM(registers)->sp;
		stack->frame_pointer = ARM(registers)->regs[29];
		stack->link = ARM(registers)->regs[30];
	}
	return true;
}

/* Returns the thread's id as the thread itself sees it. */
INLINE u32 id_in_namespace(struct task_struct *task)
{
	struct pid *pid = task->thread_pid;
	u32 id = 0;
	read_kernel(&id, sizeof(id), (u8 *)pid->numbers + pid->level * sizeof(struct upid___sized));
	return id;
}

/* Maximum size of the first thread's stack; other memory is farther away. */
#define FIRST_STACK_MOST (64 << 20)

/* Copies memory of a program from an address on, page by page, after the frames of a buffer's stack, until memory
 * cannot be read. Inside of a stack, pages that are not present were never used and read as zero. Returns the
 * number of bytes. */
GLOBAL u64 copy_memory(u32 index, u64 behind, u64 from, u64 most, u32 is_inside)
{
	struct room *room = map_lookup(&rooms, &index);
	if (!room)
		return 0;
	u64 done = 0;
	for (u32 i = 0; i <= STACK_BYTES_MOST / CHUNK; i++) {
		u64 part = CHUNK - ((from + done) & (CHUNK - 1));
		if (part > most - done)
			part = most - done;
		u64 to = behind + done;
		if (!part || part > CHUNK || to > FRAMES_MOST_ALL * 8 + STACK_BYTES_MOST)
			break;
		/* Memory that cannot be read is zero then. */
		if (read_user(room->stack.rest + to, part, (void *)(from + done)) && !is_inside)
			break;
		done += part;
	}
	return done;
}

/* Stores the kernel's frames or the program's. At a tracepoint there are no registers to start from: the first
 * frames are tracing code, which the reader drops. */
INLINE s64 frames(void *sampled, void *to, u32 size, u64 flags)
{
	return sampled ? get_stack(sampled, to, size, flags) : get_task_stack(current_task_typed(), to, size, flags);
}

/* Copies the stack of the program after the frames, from its pointer on; returns the number of bytes. */
INLINE u64 copy_stack(u32 index, struct stack *stack, void *ring, struct task_struct *task, u64 behind)
{
	u64 from = (stack->stack_pointer - (IS_X86 ? BELOW : 0)) & ~7ULL;
	/* If the reader does not keep up, events are more important than whole stacks. */
	u64 limit = ring_query(ring, RING_UNREAD) > ring_bytes / 2 ? CHUNK : STACK_BYTES_MOST;
	/* The first thread's stack ends where the program's arguments start. */
	u64 to_end = task->mm->start_stack - from;
	u64 most = to_end < limit ? to_end : limit;
	u64 copied = copy_memory(index, behind, from, most, to_end < FIRST_STACK_MOST);
	if (copied > STACK_BYTES_MOST)
		copied = 0;
	stack->memory = from;
	stack->copied_bytes = copied;
	return copied;
}

/* Writes the stack of the event that was written last. `sampled` is the context of a sample; `in_kernel` tells
 * whether the processor was in the kernel. */
INLINE void write_stack(void *sampled, bool in_kernel, u32 kind, u64 time)
{
	void *ring = own_ring();
	u32 index = ring ? take_room() : NO_ROOM;
	struct room *room = map_lookup(&rooms, &index);
	if (!ring || !room) {
		count_lost();
		return;
	}
	struct stack *stack = &room->stack;
	fill(&stack->header, STACK, kind);
	stack->header.time = time;
	bool is_idle = stack->header.tid == 0;
	s64 bytes = 0;
	if (in_kernel)
		bytes = frames(sampled, stack->rest, is_idle ? FRAMES_IDLE * 8 : FRAMES_MOST * 8, 0);
	u64 kernel = bytes > 0 ? bytes : 0;
	if (kernel > FRAMES_MOST * 8)
		kernel = 0;
	u64 all = kernel;
	stack->kernel_bytes = kernel;
	stack->instruction = 0;
	stack->followed_bytes = 0;
	stack->user_bytes = 0;
	stack->copied_bytes = 0;
	stack->followed = FOLLOWED_NOT;
	stack->space = (struct space){ 0 };
	stack->python_bytes = 0;
	struct task_struct *task = has_registers ? current_task_typed() : 0;
	bool is_known = task && !is_idle && task->mm && fill_registers(stack, task);
	if (is_known && follows_stacks) {
		begin_walk(room, task, kernel);
		stack->followed = follow(index);
		all += end_walk(room);
	}
	if (!is_idle && stack->followed != FOLLOWED_WHOLE && stack->followed != FOLLOWED_TO_LIMIT) {
		bytes = frames(sampled, stack->rest + all, FRAMES_MOST * 8, STACK_OF_USER);
		if (bytes > 0 && bytes <= FRAMES_MOST * 8) {
			stack->user_bytes = bytes;
			all += bytes;
		}
		if (is_known)
			all += copy_stack(index, stack, ring, task, all);
	}
	if (is_known && follows_stacks) {
		u64 python = follow_python(index, id_in_namespace(task), all, time);
		if (python > PYTHON_FRAMES_MOST * 16)
			python = 0;
		stack->python_bytes = python;
		all += python;
	}
	u64 head = sizeof(*stack) - sizeof(stack->rest);
	if (ring_output(ring, stack, head + all, RING_NO_WAKEUP))
		count_lost();
	__sync_fetch_and_add(&room->users, -1);
}

/* Writes the stack at a tracepoint. It is a global function so that the verifier checks it once. */
GLOBAL int put_stack(u32 kind, u64 time)
{
	write_stack(0, true, kind, time);
	return 0;
}

INLINE bool has_stack(u32 kind)
{
	u32 zero = 0;
	struct kinds *kinds = map_lookup(&stack_kinds, &zero);
	return kinds && kinds->bits[kind / 64 & 1] >> (kind & 63) & 1;
}

/* Submits a record, followed by its stack if its kind has stacks. */
INLINE void submit(void *record)
{
	struct header *header = record;
	u32 kind = header->kind;
	u64 time = header->time;
	ring_submit(record, RING_NO_WAKEUP);
	if (has_stack(kind))
		put_stack(kind, time);
}
