/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Records and the rings that they are written to, one ring per processor.
 *
 * `src/records/` has the same layouts; a change here needs a change there. Sizes of records are multiples of 8 bytes.
 *
 * The time of a record is taken after its room is reserved. An interrupt that arrives in between writes its records after
 * that one in the ring, with earlier times, and they are complete when that one is. So the reader can sort them. */
#pragma once

#include "kernel.h"

enum kind {
	FORK = 1,
	EXEC,
	EXIT,
	SWITCH,
	WAKING,
	SAMPLE,
	SYSTEM_CALL_ENTER,
	SYSTEM_CALL_EXIT,
	INTERRUPT,
	DPC,
	DISK_ISSUE,
	DISK_COMPLETE,
	PAGE_FAULT,
	THREAD_NAME,
	CONTROL_GROUP,
	FILE_NAME = 20,
	FILE_BEGIN,
	FILE_PATHS,
	FILE_END,
	NETWORK = 40,
	MEMORY,
	PYTHON_CODE,
	/* The reader creates 60 and 61 from the kernel's own records of mappings and replaced programs. */
	UNMAPPED = 62,
	STACK = 63,
};

struct header {
	u64 time;
	u32 kind;
	u32 pid;
	u32 tid;
	u32 number; /* A field of the kind that fits. */
};

struct ring {
	NUMBER(type, MAP_RINGBUF);
	NUMBER(max_entries, 4096);
};

struct {
	NUMBER(type, MAP_ARRAY_OF_MAPS);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	VALUES(values, struct ring);
} rings MAP;

/* Number of records that found no room, by processor. */
struct {
	NUMBER(type, MAP_PERCPU_ARRAY);
	NUMBER(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} lost MAP;

INLINE void count_lost(void)
{
	u32 zero = 0;
	u64 *count = map_lookup(&lost, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
}

INLINE void *own_ring(void)
{
	u32 cpu = processor();
	return map_lookup(&rings, &cpu);
}

INLINE void fill(struct header *to, u32 kind, u32 number)
{
	u64 ids = current_pid_tid();
	to->kind = kind;
	to->pid = ids >> 32;
	to->tid = (u32)ids;
	to->number = number;
	to->time = ktime();
}

/* Reserves room for a record and fills its header; returns 0 without room, which is counted. */
INLINE void *reserve(u64 size, u32 kind, u32 number)
{
	void *ring = own_ring();
	struct header *record = ring ? ring_reserve(ring, size, 0) : 0;
	if (!record) {
		count_lost();
		return 0;
	}
	fill(record, kind, number);
	return record;
}

/* Processes whose system calls, page faults and file operations are not captured; 0 for none. */
const volatile u32 left_out_pid = 0;
const volatile u32 left_out_host_pid = 0;

INLINE bool is_left_out_pid(u32 pid)
{
	return pid && (pid == left_out_pid || pid == left_out_host_pid);
}

INLINE bool is_left_out(void)
{
	return is_left_out_pid((u32)(current_pid_tid() >> 32));
}
