/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The record of a stack, and the memory in which it is assembled. */
#pragma once

#include "ring.h"
#include "rules.h"

#define FRAMES_MOST 127
/* Maximum number of followed frames of a program. */
#define FOLLOWED_MOST 192
#define FRAMES_MOST_ALL (2 * FRAMES_MOST + FOLLOWED_MOST)
/* The limit for an idle processor. */
#define FRAMES_IDLE 16
#define STACK_BYTES_MOST 32768
#define CHUNK 4096
/* Number of bytes that code may use below its stack pointer (the red zone of x86). */
#define BELOW 128
#define ROOMS 4

/* Whether the kernel has the helper for registers of programs, since 5.15. */
const volatile bool has_registers = true;
/* Size of each processor's ring. */
const volatile u32 ring_bytes = 4096;

/* Why following ended. */
#define FOLLOWED_NOT 0
#define FOLLOWED_WHOLE 1
#define FOLLOWED_TO_LIMIT 2
#define SPACE_UNKNOWN 3
#define IMAGE_UNKNOWN 4
#define RULE_UNKNOWN 5
#define MEMORY_UNREADABLE 6

/* Number of recent images of a walk, since stacks go from one image to another and back. */
#define RECENT 4

/* The state of following a stack. */
struct walk {
	u64 instruction;
	u64 stack_pointer;
	u64 frame_pointer;
	struct image image; /* Of the previous frame. */
	struct image recent[RECENT]; /* Those before it. */
	u64 next; /* The next one to replace. */
	struct space space;
	u64 behind; /* Where frames are written. */
	u64 frames;
};

/* Maximum number of frames of Python, and the part of one that is read. */
#define PYTHON_FRAMES_MOST 192
#define PYTHON_FRAME_BYTES 80
#define TEXT_MOST 512
#define LINES_MOST 8192

/* A text of Python, in one, two or four bytes per character as its state says. */
struct python_text {
	u32 state;
	u32 bytes;
	u8 data[TEXT_MOST];
};

/* The state of following frames of Python. */
struct python_walk {
	u64 frame; /* The next one. */
	u64 told; /* Number of descriptions with this stack. */
	u8 bytes[128 + 8]; /* A frame. */
};

struct python_code {
	struct header header;
	u64 instructions; /* Address of the first one. */
	u64 units; /* Number of words of 16 bits that it has. */
	u32 first_line;
	u32 lines_bytes;
	struct python_text name;
	struct python_text file;
	u8 lines[LINES_MOST];
};

struct stack {
	struct header header; /* Its number: the kind of the event, whose time it has. */
	/* Of the program; all zero without one, or for one of 32 bits. */
	u64 instruction;
	u64 stack_pointer;
	u64 frame_pointer;
	u64 link;
	/* Start address of the copied memory. */
	u64 memory;
	struct space space;
	u16 kernel_bytes;
	u16 followed_bytes;
	u16 user_bytes;
	u16 copied_bytes;
	u32 followed; /* Why following ended. */
	u32 python_bytes;
	/* Frames of the kernel, then followed frames of the program. If these are not complete, the registers
	 * are those of the next frame, and the program's frames by frame pointers and the memory of its stack
	 * follow. The frames of Python come last. */
	u8 rest[FRAMES_MOST_ALL * 8 + STACK_BYTES_MOST + CHUNK + PYTHON_FRAMES_MOST * 16];
};

/* Buffers for assembling stacks, several per processor, since programs may be interrupted by others. */
struct room {
	u64 users;
	struct walk walk;
	struct python_walk python;
	struct python_code python_code;
	struct stack stack;
};

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, ROOMS);
	TYPE(key, u32);
	TYPE(value, struct room);
} rooms MAP;

#define NO_ROOM (u32) - 1

/* Takes a buffer that nothing else uses. A program that runs between the two steps sees two users and takes
 * another one. */
GLOBAL u32 take_room(void)
{
	u32 first = processor() * ROOMS;
	for (u32 i = 0; i < ROOMS; i++) {
		u32 index = first + i;
		struct room *room = map_lookup(&rooms, &index);
		if (!room)
			break;
		__sync_fetch_and_add(&room->users, 1);
		if (*(volatile u64 *)&room->users == 1)
			return index;
		__sync_fetch_and_add(&room->users, -1);
	}
	return NO_ROOM;
}
