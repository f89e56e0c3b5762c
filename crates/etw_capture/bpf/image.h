/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Images: unmapping of memory. New mappings are recorded by the kernel itself (perf_event_open). */
#pragma once

#include "stack.h"

#define X86_MUNMAP 11
#define ARM_MUNMAP 215

struct unmapped {
	struct header header;
	u64 address;
	u64 bytes;
};

/* The lock of a process's memory is released at the end of munmap and rarely elsewhere, so other system calls
 * cost nothing. */
SECTION("tp_btf/mmap_lock_released") int image_unmap(u64 *context)
{
	struct task_struct *task = current_task_typed();
	if (!task->mm || (u64)task->mm != context[0])
		return 0;
	void *registers = task_registers(task);
	if (CALL_NUMBER(registers) != (IS_X86 ? X86_MUNMAP : ARM_MUNMAP))
		return 0;
	struct unmapped *record = reserve(sizeof(*record), UNMAPPED, 0);
	if (!record)
		return 0;
	record->address = call_argument(registers, 0);
	record->bytes = call_argument(registers, 1);
	submit(record);
	return 0;
}
