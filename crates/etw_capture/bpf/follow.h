/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Follows the stacks of programs by the rules that the reader provides. Where a rule is missing, following stops; the
 * reader gets a copy of the memory, continues from there, and provides the rule. */
#pragma once

#include "room.h"

/* Finds the image of an address; returns 0, or why there is none. */
GLOBAL u32 find_image(u32 index, u64 address)
{
	struct room *room = map_lookup(&rooms, &index);
	if (!room)
		return SPACE_UNKNOWN;
	struct walk *walk = &room->walk;
#pragma unroll
	for (u32 i = 0; i < RECENT; i++) {
		if (address >= walk->recent[i].start && address < walk->recent[i].end) {
			walk->image = walk->recent[i];
			return 0;
		}
	}
	struct images *images = map_lookup(&spaces, &walk->space);
	if (!images)
		return SPACE_UNKNOWN;
	u32 low = 0, high = images->count;
	for (u32 i = 0; i <= 7 && low < high; i++) {
		u32 middle = (low + high) / 2;
		if (middle >= IMAGES_MOST)
			break;
		if (images->images[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	u32 at = low - 1;
	if (at >= IMAGES_MOST)
		return IMAGE_UNKNOWN;
	struct image *image = &images->images[at];
	if (address < image->start || address >= image->end)
		return IMAGE_UNKNOWN;
	walk->image = walk->recent[walk->next++ % RECENT] = *image;
	return 0;
}

/* Stores a frame and moves to its caller; returns 0, or why following ends. */
GLOBAL u32 follow_frame(u32 index)
{
	struct room *room = map_lookup(&rooms, &index);
	if (!room)
		return FOLLOWED_NOT;
	struct walk *walk = &room->walk;
	/* A call may be the last instruction of its function, and the return address that of another one. */
	u64 address = walk->instruction - (walk->frames ? 1 : 0);
	if (address < walk->image.start || address >= walk->image.end) {
		u32 unknown = find_image(index, address);
		if (unknown)
			return unknown;
	}
	u64 from_start = address - walk->image.start;
	u64 bits = find_rule(walk->image.units + (from_start >> UNIT_BITS), from_start & ((1 << UNIT_BITS) - 1));
	struct rule *rule = (void *)&bits;
	u32 base = rule->offset & BASES;
	if (base == BASE_NONE)
		return RULE_UNKNOWN;
	u64 caller = (base == BASE_STACK ? walk->stack_pointer : walk->frame_pointer) + (rule->offset & ~BASES);
	if (base == BASE_KEPT && read_user(&caller, sizeof(caller), (void *)caller))
		return MEMORY_UNREADABLE;
	struct {
		u64 frame_pointer;
		u64 instruction;
	} kept = { 0 };
	if (base != BASE_END) {
		/* Stacks grow down. */
		if (caller <= walk->stack_pointer || read_user(&kept, sizeof(kept), (void *)(caller - sizeof(kept))))
			return MEMORY_UNREADABLE;
		if (rule->frame_pointer == -2)
			walk->frame_pointer = kept.frame_pointer;
		else if (rule->frame_pointer || base == BASE_KEPT) {
			u64 from = base == BASE_KEPT ? walk->frame_pointer : caller + 8 * (s64)rule->frame_pointer;
			if (read_user(&kept.frame_pointer, sizeof(u64), (void *)from))
				return MEMORY_UNREADABLE;
			walk->frame_pointer = kept.frame_pointer;
		}
	}
	u64 to = walk->behind + walk->frames * 8;
	if (to > (FRAMES_MOST + FOLLOWED_MOST - 1) * 8)
		return FOLLOWED_TO_LIMIT;
	*(u64 *)(room->stack.rest + to) = walk->instruction;
	walk->frames++;
	walk->instruction = kept.instruction;
	walk->stack_pointer = caller;
	return kept.instruction ? 0 : FOLLOWED_WHOLE;
}

/* Follows the stack of the current program from its registers; returns why it ended. */
GLOBAL u32 follow(u32 index)
{
	u32 end = 0;
	for (u32 i = 0; i < FOLLOWED_MOST; i++) {
		end = follow_frame(index);
		if (end)
			return end;
	}
	return FOLLOWED_TO_LIMIT;
}

INLINE void begin_walk(struct room *room, struct task_struct *task, u64 behind)
{
	struct walk *walk = &room->walk;
	struct stack *stack = &room->stack;
	stack->space.began = task->group_leader->start_time;
	stack->space.pid = task->tgid;
	stack->space.programs = task->self_exec_id;
	walk->space = stack->space;
	walk->image.start = walk->image.end = 0;
#pragma unroll
	for (u32 i = 0; i < RECENT; i++)
		walk->recent[i].start = walk->recent[i].end = 0;
	walk->next = 0;
	walk->instruction = stack->instruction;
	walk->stack_pointer = stack->stack_pointer;
	walk->frame_pointer = stack->frame_pointer;
	walk->behind = behind;
	walk->frames = 0;
}

/* Stores where following ended, for the reader to continue; returns the size of the frames in bytes. */
INLINE u64 end_walk(struct room *room)
{
	struct walk *walk = &room->walk;
	struct stack *stack = &room->stack;
	stack->instruction = walk->instruction;
	stack->stack_pointer = walk->stack_pointer;
	stack->frame_pointer = walk->frame_pointer;
	u64 bytes = walk->frames * 8;
	if (bytes > FOLLOWED_MOST * 8)
		bytes = 0;
	stack->followed_bytes = bytes;
	return bytes;
}
