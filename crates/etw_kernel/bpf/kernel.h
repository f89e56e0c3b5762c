/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the programs need of the kernel: the few fields of its structures that they read, and its helpers by number.
 * Only the names of structures and fields count; where a field lies is found in the running kernel's BTF at load. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef _Bool bool;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline
#define RELOCATED __attribute__((preserve_access_index))

/* How a map says what it is: the types of its members, which stand in the object's BTF. */
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, value) typeof(value) *name
#define VALUES(name, value) typeof(value) *name[]
#define MAP SECTION(".maps")

enum map_type {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_LRU_HASH = 9,
	MAP_ARRAY_OF_MAPS = 12,
	MAP_RINGBUF = 27,
};

#define UPDATE_ANY 0
#define UPDATE_NEW_ONLY 1
#define RING_NO_WAKEUP 1
#define STACK_OF_USER 256

static void *(*const map_lookup)(const void *map, const void *key) = (void *)1;
static long (*const map_update)(const void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(const void *map, const void *key) = (void *)3;
static u64 (*const ktime)(void) = (void *)5;
static u32 (*const processor)(void) = (void *)8;
static u64 (*const current_pid_tid)(void) = (void *)14;
static u64 (*const current_uid_gid)(void) = (void *)15;
static long (*const get_stack)(void *context, void *to, u32 size, u64 flags) = (void *)67;
static long (*const read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*const ring_output)(void *ring, const void *from, u64 size, u64 flags) = (void *)130;
static void *(*const ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const ring_submit)(void *record, u64 flags) = (void *)132;

#define FIELD_EXISTS(field) __builtin_preserve_field_info(field, 2)

/* Reads a bit field, which is not where the compiler thinks: offset, size and shifts come from the kernel's BTF. */
#define BIT_FIELD(from, field)                                                                                    \
	({                                                                                                        \
		u64 value_ = 0;                                                                                   \
		const void *at_ = (const void *)(from) + __builtin_preserve_field_info((from)->field, 0);         \
		read_kernel(&value_, __builtin_preserve_field_info((from)->field, 1), at_);                       \
		value_ <<= __builtin_preserve_field_info((from)->field, 4);                                       \
		value_ >>= __builtin_preserve_field_info((from)->field, 5);                                       \
		value_;                                                                                           \
	})

/* The name after ___ is dropped when the kernel's structure is looked for. */

struct upid {
	int nr;
} RELOCATED;

struct pid {
	struct upid numbers[1];
} RELOCATED;

struct counter {
	int counter;
};

struct signal_struct {
	struct counter live;
	int nr_threads;
	int group_exit_code;
	u32 flags;
	struct pid *pids[4];
} RELOCATED;

struct mm_struct {
	unsigned long arg_start;
	unsigned long arg_end;
} RELOCATED;

struct task_struct {
	u32 __state;
	int pid;
	int tgid;
	int prio;
	int exit_code;
	u64 start_time;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	unsigned in_iowait : 1;
	char comm[16];
} RELOCATED;

/* Before 5.14. */
struct task_struct___old {
	long state;
} RELOCATED;

struct linux_binprm {
	const char *filename;
} RELOCATED;

struct gendisk {
	int major;
	int first_minor;
} RELOCATED;

struct request_queue {
	struct gendisk *disk;
} RELOCATED;

struct request {
	struct request_queue *q;
	u32 cmd_flags;
	u32 __data_len;
	u64 __sector;
} RELOCATED;

/* Before 5.17. */
struct request___old {
	struct gendisk *rq_disk;
} RELOCATED;

struct irqaction {
	void *handler;
} RELOCATED;

struct pt_regs___x86 {
	unsigned long orig_ax;
	unsigned long ip;
} RELOCATED;

struct pt_regs___arm {
	int syscallno;
} RELOCATED;
