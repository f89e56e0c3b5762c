/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the reader provides for following stacks: the images of processes, and how code keeps the way to its callers. */
#pragma once

#include "kernel.h"

/* Whether the reader provides rules, which it does on x86-64. */
const volatile bool follows_stacks = false;

/* The address space of a process while it runs one program. */
struct space {
	u64 began; /* Start time of the process. */
	u32 pid;
	u32 programs; /* Number of programs that it ran before. */
};

/* An image. The rules identify its file by a number in the upper half of `units`; the lower half counts units of
 * 256 bytes from the start of the image. */
struct image {
	u64 start;
	u64 end;
	u64 units;
};

#define IMAGES_MOST 128
#define UNIT_BITS 8

struct images {
	u64 count;
	struct image images[IMAGES_MOST]; /* By address. */
};

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 512);
	TYPE(key, struct space);
	TYPE(value, struct images);
} spaces MAP;

/* Where a frame's caller is: its stack pointer is a register plus `offset` bytes, a multiple of 8, and its
 * instruction is stored 8 bytes below. The lowest bits of `offset` select the register. */
struct rule {
	s32 offset;
	s16 frame_pointer; /* Words from there to the stored frame pointer; 0 if it is still in its register. */
	u8 first; /* Range of bytes of the unit that it holds for. */
	u8 last;
};

#define BASES 7
#define BASE_NONE 0 /* There is no rule. */
#define BASE_STACK 1
#define BASE_FRAME 2
#define BASE_END 3 /* There is no caller. */
/* For frames with variable-sized memory after an alignment: the caller's stack pointer is stored `offset` bytes
 * after the frame pointer, and the caller's frame pointer where that points to. */
#define BASE_KEPT 4

/* A unit has its rules in some of the ways of its set. */
struct way {
	u64 unit;
	struct rule rule;
};

#define WAYS 8
#define SET_BITS 16

struct set {
	struct way ways[WAYS];
};

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1 << SET_BITS);
	NUMBER(map_flags, MAP_MMAPABLE);
	TYPE(key, u32);
	TYPE(value, struct set);
} rules MAP;

/* Returns the rule for a byte of a unit; 0 if there is none. */
INLINE u64 find_rule(u64 unit, u32 byte)
{
	u32 index = unit * 0x9E3779B97F4A7C15ULL >> (64 - SET_BITS);
	struct set *set = map_lookup(&rules, &index);
	if (!set)
		return 0;
#pragma unroll
	for (u32 i = 0; i < WAYS; i++) {
		struct way *way = &set->ways[i];
		if (*(volatile u64 *)&way->unit != unit)
			continue;
		u64 bits = *(volatile u64 *)&way->rule;
		/* A way is emptied before it gets another unit. */
		if (*(volatile u64 *)&way->unit != unit)
			continue;
		struct rule *rule = (void *)&bits;
		if (byte >= rule->first && byte <= rule->last)
			return bits;
	}
	return 0;
}
