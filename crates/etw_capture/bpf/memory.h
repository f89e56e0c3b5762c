/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory: allocations of programs, files that they map, and page faults. */
#pragma once

#include "file.h"

/* ---- Mappings ---- */

/* The helper that finds a mapping by an address exists since 5.17; without it no mapping has a file. */
struct found {
	struct file *file; /* 0 for memory of no file. */
	u64 begin;
	u64 page_offset; /* Offset in the file in pages. */
	u64 flags;
};

static long note_mapping(struct task_struct *task, struct vm_area_struct *mapping, struct found *found)
{
	found->file = LOAD(mapping, vm_file);
	found->begin = LOAD(mapping, vm_start);
	found->page_offset = LOAD(mapping, vm_pgoff);
	found->flags = LOAD(mapping, vm_flags);
	return 0;
}

/* Returns whether the mapping was found. It is not if another thread is changing the mappings. */
INLINE bool find_mapping(u64 address, struct found *found)
{
	found->file = 0;
	found->begin = found->page_offset = found->flags = 0;
	return HAS_FIND_MAPPING && !mapping_at(current_task_typed(), address, note_mapping, found, 0);
}

enum memory_act {
	TAKE,
	GIVE_BACK,
	MAP_FILE,
	UNMAP_FILE,
};

struct memory {
	struct header header; /* Its number: the act. */
	u64 base;
	u64 bytes;
	u64 file; /* Its key; 0 if it has none. */
	u64 protection;
};

INLINE void tell_memory(u32 act, u64 base, u64 bytes, u64 file, u64 protection)
{
	struct memory *record = reserve(sizeof(*record), MEMORY, act);
	if (!record)
		return;
	record->base = base;
	record->bytes = bytes;
	record->file = file;
	record->protection = protection;
	submit(record);
}

enum memory_call {
	NO_MEMORY_CALL,
	MMAP,
	MUNMAP,
	BRK,
	MREMAP,
};

INLINE enum memory_call memory_call_of(u32 number)
{
	if (IS_X86)
		return number == 9 ? MMAP : number == 11 ? MUNMAP : number == 12 ? BRK : number == 25 ? MREMAP : NO_MEMORY_CALL;
	return number == 222 ? MMAP : number == 215 ? MUNMAP : number == 214 ? BRK : number == 216 ? MREMAP : NO_MEMORY_CALL;
}

#define READ_AND_WRITE 3
#define MAP_ANONYMOUS 0x20
#define MREMAP_DONTUNMAP 4

/* What is lost when a call ends, by thread: the end of its heap, or the file that was mapped. */
struct memory_before {
	u64 heap_end;
	u64 is_of_file;
	u64 file;
};

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, struct memory_before);
} memory_before MAP;

INLINE void note_file(struct memory_before *before, u64 address)
{
	struct found found;
	find_mapping(address, &found);
	before->is_of_file = found.file != 0;
	before->file = found.file ? file_key(found.file) : 0;
}

SECTION("tp_btf/sys_enter") int memory_begin(u64 *context)
{
	enum memory_call call = memory_call_of(context[1]);
	if (call < MUNMAP || is_left_out() || is_of_32_bit(current_task()))
		return 0;
	struct memory_before before = { 0, 0, 0 };
	if (call == BRK)
		before.heap_end = LOAD(LOAD((struct task_struct *)current_task(), mm), brk);
	else
		note_file(&before, call_argument((void *)context[0], 0));
	u32 key = (u32)current_pid_tid();
	map_update(&memory_before, &key, &before, UPDATE_ANY);
	return 0;
}

SECTION("tp_btf/sys_exit") int memory_end(u64 *context)
{
	void *registers = (void *)context[0];
	u64 result = context[1];
	enum memory_call call = memory_call_of(CALL_NUMBER(registers));
	if (call == NO_MEMORY_CALL || result >= (u64)-4095 || is_left_out() || is_of_32_bit(current_task()))
		return 0;
	u64 base = call_argument(registers, 0);
	u64 bytes = call_argument(registers, 1);
	u64 third = call_argument(registers, 2);
	u64 flags = call_argument(registers, 3);
	if (call == MMAP) {
		struct memory_before now = { 0, 0, 0 };
		if (!(flags & MAP_ANONYMOUS))
			note_file(&now, result);
		tell_memory(flags & MAP_ANONYMOUS ? TAKE : MAP_FILE, result, bytes, now.file, third);
		return 0;
	}
	u32 key = (u32)current_pid_tid();
	struct memory_before *found = map_lookup(&memory_before, &key);
	if (!found)
		return 0;
	struct memory_before before = *found;
	map_delete(&memory_before, &key);
	u32 taken = before.is_of_file ? MAP_FILE : TAKE;
	u32 given_back = before.is_of_file ? UNMAP_FILE : GIVE_BACK;
	if (call == MUNMAP) {
		tell_memory(given_back, base, bytes, before.file, 0);
	} else if (call == BRK) {
		/* It returns the heap's end, changed or not. */
		if (result > before.heap_end)
			tell_memory(TAKE, before.heap_end, result - before.heap_end, 0, READ_AND_WRITE);
		else if (result < before.heap_end)
			tell_memory(GIVE_BACK, result, before.heap_end - result, 0, 0);
	} else if (result != base) {
		if (bytes && !(flags & MREMAP_DONTUNMAP))
			tell_memory(given_back, base, bytes, before.file, 0);
		tell_memory(taken, result, third, before.file, READ_AND_WRITE);
	} else if (third > bytes) {
		tell_memory(taken, base + bytes, third - bytes, before.file, READ_AND_WRITE);
	} else if (third < bytes) {
		tell_memory(given_back, base + third, bytes - third, before.file, 0);
	}
	return 0;
}

/* ---- Page faults ---- */

#define NO_ADDRESS (u64) - 1

/* A fault that a thread is in. */
struct fault_begun {
	u64 time;
	u64 code; /* The processor's. */
	u64 address; /* All ones when it is over. */
	u64 is_found;
	struct found found;
};

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, struct fault_begun);
} faults_begun MAP;

INLINE int begin_fault(u64 *context)
{
	u32 key = (u32)current_pid_tid();
	struct fault_begun now = { ktime(), context[2], context[0], 0, { 0, 0, 0, 0 } };
	map_update(&faults_begun, &key, &now, UPDATE_ANY);
	return 0;
}

SECTION("tp_btf/page_fault_user") int fault_begin(u64 *context)
{
	return begin_fault(context);
}

/* The kernel accesses a program's memory too. */
SECTION("tp_btf/page_fault_kernel") int fault_begin_in_kernel(u64 *context)
{
	return begin_fault(context);
}

/* A fault counts the page that it maps. Finding the mapping here costs little; at the fault's end, where
 * interrupts are off, the kernel would need an interrupt for it. */
SECTION("tp_btf/rss_stat") int fault_page(u64 *context)
{
	u32 key = (u32)current_pid_tid();
	struct fault_begun *begun = map_lookup(&faults_begun, &key);
	if (!begun || begun->address == NO_ADDRESS || begun->is_found)
		return 0;
	struct found found;
	begun->is_found = find_mapping(begun->address, &found);
	begun->found = found;
	return 0;
}

/* Kinds, numbered as in Windows. */
#define TRANSITION 10
#define DEMAND_ZERO 11
#define COPY_ON_WRITE 12
#define GUARD_PAGE 13
#define HARD 14

/* Bits of the processor's code, and of a mapping. */
#define FAULT_PROTECTION 1
#define FAULT_WRITE 2
#define MAPPING_SHARED 8
#define MAPPING_GROWS_DOWN 0x100
#define PAGE_BYTES 4096

struct page_fault {
	struct header header; /* Its number: the kind. */
	u64 address;
	u64 instruction;
	u64 begun; /* 0 if unknown. */
	u64 file; /* Its key; 0 if it has none. */
	u64 offset; /* Offset in the file. */
};

INLINE u32 kind_of_fault(struct found *found, u64 code, u64 address)
{
	bool writes = code & FAULT_WRITE;
	if (code & FAULT_PROTECTION)
		return writes ? COPY_ON_WRITE : TRANSITION;
	if (found->file)
		return writes && !(found->flags & MAPPING_SHARED) ? COPY_ON_WRITE : TRANSITION;
	if (found->flags & MAPPING_GROWS_DOWN && address - found->begin < PAGE_BYTES)
		return GUARD_PAGE;
	return DEMAND_ZERO;
}

/* Fields of the context, at offsets of each architecture. */
#define OF_CONTEXT(at) (*(u64 *)(context + (at)))
#define X86_INSTRUCTION 128
#define X86_ADDRESS 176

/* Runs in the thread when its page is mapped. */
INLINE int tell_fault(void *context, bool is_hard)
{
	if (is_left_out())
		return 0;
	u32 key = (u32)current_pid_tid();
	struct fault_begun *begun = map_lookup(&faults_begun, &key);
	u64 address = OF_CONTEXT(X86_ADDRESS);
	u64 code = begun ? begun->code : 0;
	struct found found = { 0, 0, 0, 0 };
	if (begun && begun->is_found)
		found = begun->found;
	else if (is_hard || !(code & FAULT_PROTECTION))
		find_mapping(address, &found);
	u64 file = found.file ? file_key(found.file) : 0;
	u32 kind = is_hard ? HARD : kind_of_fault(&found, code, address);
	struct page_fault *record = reserve(sizeof(*record), PAGE_FAULT, kind);
	if (!record)
		return 0;
	record->address = address;
	record->instruction = OF_CONTEXT(X86_INSTRUCTION);
	record->begun = 0;
	if (begun) {
		record->begun = begun->time;
		begun->address = NO_ADDRESS;
	}
	record->file = file;
	record->offset = found.file ? found.page_offset * PAGE_BYTES + (address - found.begin) : 0;
	submit(record);
	return 0;
}

SECTION("perf_event") int fault_soft(void *context)
{
	return tell_fault(context, false);
}

SECTION("perf_event") int fault_hard(void *context)
{
	return tell_fault(context, true);
}
