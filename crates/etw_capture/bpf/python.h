/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Follows the frames of Python's interpreter, from version 3.11 on: which code a thread runs, and where in it. A frame in
 * memory is linked to the one that called it; one call of the interpreter's function in C runs all frames up to one that is
 * marked as its entry.
 *
 * Code that the reader does not know is described by a record of its own, with its name, file and lines, since only here the
 * memory of a program can be read without waiting for it. */
#pragma once

#include "room.h"

#define DIRECT (u32) - 1

/* Where an interpreter keeps what; offsets in bytes. The reader knows them by the version. */
struct interpreter {
	u64 first; /* Address of the pointer to the state of the first interpreter. */
	/* In the state of an interpreter: the next one, and the first thread. */
	u32 next_interpreter;
	u32 first_thread;
	/* In the state of a thread: the next one, its id, and the frame that runs, or what points to that. */
	u32 next_thread;
	u32 thread_id;
	u32 frame;
	u32 frame_through; /* DIRECT if nothing lies in between. */
	/* In a frame. */
	u32 code;
	u32 caller;
	u32 instruction;
	u32 mark; /* A byte. */
	u32 mark_of_entry; /* Its value in the entry frame of the interpreter's function. */
	u32 entry_runs_code; /* Whether the entry frame is one of code, and not only a mark. */
	/* In code. */
	u32 name;
	u32 file;
	u32 lines;
	u32 first_line;
	u32 first_instruction;
	/* In texts: the characters of those in ASCII, and of others. */
	u32 ascii;
	u32 characters;
	u32 reserved;
};

/* The interpreters of address spaces, by the reader. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 512);
	TYPE(key, struct space);
	TYPE(value, struct interpreter);
} interpreters MAP;

/* The state of a thread in its interpreter; without one, when to look again, and where. */
struct python_thread {
	u64 state;
	u64 look_again;
	u64 interpreter;
	u64 candidate;
};

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 8192);
	TYPE(key, u32);
	TYPE(value, struct python_thread);
} python_threads MAP;

#define LOOK_AGAIN_AFTER 100000000 /* ns */
/* Number of threads that are looked at for one stack; the next stack goes on from there. */
#define THREADS_AT_ONCE 32

struct code_key {
	struct space space;
	u64 code;
};

/* What the reader was told about: the address of the table of lines, which other code at the same place does not share. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 65536);
	TYPE(key, struct code_key);
	TYPE(value, u64);
} python_codes MAP;

/* In all versions: the length and state of texts, and the length and bytes of binary values. */
#define TEXT_LENGTH 16
#define TEXT_STATE 32
#define BYTES_LENGTH 16
#define BYTES_DATA 32
/* Of the state. */
#define TEXT_KIND(state) (state >> 2 & 7)
#define TEXT_ASCII (1 << 6)

GLOBAL u64 find_python_thread(u32 index, u32 own_id)
{
	struct room *room = map_lookup(&rooms, &index);
	if (!room)
		return 0;
	struct interpreter *python = map_lookup(&interpreters, &room->walk.space);
	if (!python)
		return 0;
	u32 thread = (u32)current_pid_tid();
	u64 now = ktime(), id = 0;
	struct python_thread found = { 0 };
	struct python_thread *known = map_lookup(&python_threads, &thread);
	if (known)
		found = *known;
	if (found.state && !read_user(&id, sizeof(id), (void *)(found.state + python->thread_id)) && id == own_id)
		return found.state;
	if (!found.state && now < found.look_again)
		return 0;
	if (found.state || !found.candidate) {
		found.state = found.interpreter = found.candidate = 0;
		read_user(&found.interpreter, sizeof(u64), (void *)python->first);
		read_user(&found.candidate, sizeof(u64), (void *)(found.interpreter + python->first_thread));
	}
	for (u32 i = 0; i < THREADS_AT_ONCE && found.candidate; i++) {
		id = 0;
		read_user(&id, sizeof(id), (void *)(found.candidate + python->thread_id));
		if (id == own_id) {
			found.state = found.candidate;
			break;
		}
		u64 next = 0;
		read_user(&next, sizeof(next), (void *)(found.candidate + python->next_thread));
		if (!next) {
			/* The threads of another interpreter. */
			u64 interpreter = 0;
			read_user(&interpreter, sizeof(u64), (void *)(found.interpreter + python->next_interpreter));
			found.interpreter = interpreter;
			if (interpreter)
				read_user(&next, sizeof(next), (void *)(interpreter + python->first_thread));
		}
		found.candidate = next;
	}
	found.look_again = found.candidate ? 0 : now + LOOK_AGAIN_AFTER;
	map_update(&python_threads, &thread, &found, UPDATE_ANY);
	return found.state;
}

/* Reads a text; returns whether that failed. */
INLINE bool read_text(struct python_text *to, u64 from, struct interpreter *python)
{
	u64 length = 0;
	if (read_user(&length, sizeof(length), (void *)(from + TEXT_LENGTH)) ||
	    read_user(&to->state, sizeof(to->state), (void *)(from + TEXT_STATE)))
		return true;
	u64 bytes = length * TEXT_KIND(to->state);
	if (length > TEXT_MOST || bytes > TEXT_MOST)
		bytes = TEXT_MOST;
	to->bytes = bytes;
	u64 at = from + (to->state & TEXT_ASCII ? python->ascii : python->characters);
	return bytes && read_user(to->data, bytes, (void *)at);
}

/* Maximum number of descriptions with a stack. The others come with later stacks: a program may not fill the ring by code that
 * is always new. */
#define TOLD_MOST 4

/* Describes code to the reader, unless that was done before; returns the number of descriptions. */
GLOBAL u32 tell_code(u32 index, u64 code, u64 time)
{
	struct room *room = map_lookup(&rooms, &index);
	void *ring = own_ring();
	if (!room || !ring)
		return 0;
	struct interpreter *python = map_lookup(&interpreters, &room->walk.space);
	if (!python)
		return 0;
	struct code_key key = { .space = room->walk.space, .code = code };
	u64 lines = 0;
	if (read_user(&lines, sizeof(lines), (void *)(code + python->lines)))
		return 0;
	u64 *known = map_lookup(&python_codes, &key);
	if (known && *known == lines)
		return 0;
	struct python_code *record = &room->python_code;
	u64 name = 0, file = 0, length = 0;
	if (read_user(&name, sizeof(name), (void *)(code + python->name)) ||
	    read_user(&file, sizeof(file), (void *)(code + python->file)) ||
	    read_user(&record->first_line, sizeof(record->first_line), (void *)(code + python->first_line)) ||
	    read_user(&record->units, sizeof(record->units), (void *)(code + BYTES_LENGTH)) ||
	    read_user(&length, sizeof(length), (void *)(lines + BYTES_LENGTH)) ||
	    read_text(&record->name, name, python) || read_text(&record->file, file, python))
		return 0;
	if (length > LINES_MOST)
		length = LINES_MOST;
	if (length && read_user(record->lines, length, (void *)(lines + BYTES_DATA)))
		return 0;
	fill(&record->header, PYTHON_CODE, 0);
	record->header.time = time;
	record->instructions = code + python->first_instruction;
	record->lines_bytes = length;
	u64 size = (sizeof(*record) - sizeof(record->lines) + length + 7) & ~7ULL;
	if (size > sizeof(*record))
		return 0;
	/* Events are more important than names. */
	if (ring_query(ring, RING_UNREAD) > ring_bytes / 2 || ring_output(ring, record, size, RING_NO_WAKEUP))
		return 0;
	map_update(&python_codes, &key, &lines, UPDATE_ANY);
	return 1;
}

/* Writes a frame to a place in the rest of the stack: the code, whose lowest bit marks the entry of the interpreter's function,
 * and the instruction. Goes on to its caller; returns whether there was a frame. */
GLOBAL u32 follow_python_frame(u32 index, u64 to, u64 time)
{
	struct room *room = map_lookup(&rooms, &index);
	if (!room)
		return 0;
	struct interpreter *python = map_lookup(&interpreters, &room->walk.space);
	u64 frame = room->python.frame;
	if (!python || !frame || to > sizeof(room->stack.rest) - 16)
		return 0;
	if (read_user(room->python.bytes, PYTHON_FRAME_BYTES, (void *)frame))
		return 0;
	u64 code = *(u64 *)(room->python.bytes + (python->code & 0x78));
	bool is_entry = room->python.bytes[python->mark & 0x7f] == python->mark_of_entry;
	*(u64 *)(room->stack.rest + to) = code | is_entry;
	*(u64 *)(room->stack.rest + to + 8) = *(u64 *)(room->python.bytes + (python->instruction & 0x78));
	room->python.frame = *(u64 *)(room->python.bytes + (python->caller & 0x78));
	if (room->python.told < TOLD_MOST && (!is_entry || python->entry_runs_code))
		room->python.told += tell_code(index, code, time);
	return 1;
}

/* Writes the frames of the current thread `behind` the rest of the stack; returns their size in bytes. */
GLOBAL u64 follow_python(u32 index, u32 own_id, u64 behind, u64 time)
{
	u64 state = find_python_thread(index, own_id);
	struct room *room = map_lookup(&rooms, &index);
	if (!state || !room)
		return 0;
	struct interpreter *python = map_lookup(&interpreters, &room->walk.space);
	if (!python)
		return 0;
	u64 frame = 0;
	if (read_user(&frame, sizeof(frame), (void *)(state + python->frame)))
		return 0;
	if (python->frame_through != DIRECT &&
	    read_user(&frame, sizeof(frame), (void *)(frame + python->frame_through)))
		return 0;
	room->python.frame = frame;
	room->python.told = 0;
	u64 bytes = 0;
	for (u32 i = 0; i < PYTHON_FRAMES_MOST; i++) {
		if (!follow_python_frame(index, behind + bytes, time))
			break;
		bytes += 16;
	}
	return bytes;
}
