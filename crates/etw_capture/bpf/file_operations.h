/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* File operations by system calls: recorded when a call starts, with the result when it ends.
 *
 * Operations on an open file have two keys: that of the file, and that of the open file, which is the number of
 * the operation that opened it, or its address if that was before the capture. */
#pragma once

#include "file.h"

/* Operations; `FileAct` in `src/records/file.rs` has the same. */
enum operation {
	NO_OPERATION,
	OPEN,
	CLOSE,
	READ,
	WRITE,
	SET_BASIC,
	SET_SIZE,
	SET_ALLOCATION,
	DELETE,
	RENAME,
	ADD_LINK,
	QUERY,
	ENUMERATE,
	FLUSH,
	MAKE_DIRECTORY,
	MAKE_NODE,
	MAP_INTO_MEMORY,
	CLOSE_MAPPED,
	MADE_NEW,
};

/* What the arguments of a system call are; `Form` in `src/capture/file_calls.rs` has the same. */
enum form {
	DESCRIPTOR,
	PATH,		 /* path */
	PATH_AT,	 /* directory, path */
	PATH_SECOND,	 /* something, path */
	PATH_AT_SECOND,	 /* something, directory, path */
	PATHS,		 /* path, path */
	PATHS_AT,	 /* directory, path, directory, path */
	FROM_SECOND,	 /* to, from, offset, bytes */
	FROM_TO,	 /* from, offset, to, offset, bytes */
	RANGE,		 /* first, last, flags */
	ONTO,		 /* descriptor, the one that it replaces */
	MAPPING,	 /* address, bytes, protection, flags, descriptor */
};

/* A system call that is captured: its operation, its form, and these. `src/capture/file_calls.rs` has the same. */
#define OPERATION_OF(call) ((call) & 0x1f)
#define FORM_OF(call) ((call) >> 5 & 0xf)
#define WITH_OFFSET (1 << 9)
#define WITH_VECTOR (1 << 10)
#define AS_CREAT (1 << 11)
#define WITH_HOW (1 << 12)
#define CALLS 512

/* By the number of the system call on this architecture. */
const volatile u16 file_calls[CALLS] = {};

struct file_begin {
	struct header header; /* Its number: the operation. */
	u64 irp;
	u64 object;
	u64 key;
	u64 offset;
	u64 size;
};

struct file_end {
	struct header header; /* Its number: the operation. */
	u64 irp;
	u64 object;
	u64 key;
	s64 result;
};

struct file_paths {
	struct header header; /* Its number: the operation. */
	u64 irp;
	u64 parameter;
	u64 bytes;
	u64 cut;
	/* End of each directory's components and of each path. */
	u64 ends[4];
	/* For each path: the components of its base directory, as in names, and the path as passed by the
	 * program. */
};

/* The operations of a thread; two if it copies. */
struct under_way {
	u64 irp;
	u64 object;
	u64 key;
	u64 second_object;
	u64 second_key;
	u32 operation;
	u32 second_operation;
	u32 thread;
	u32 count;
	u32 is_late; /* Its path was not in memory yet. */
	u32 reserved;
};

/* By thread id modulo the size; two threads that share a place rarely have operations at the same time. */
#define THREADS 32768

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, THREADS);
	TYPE(key, u32);
	TYPE(value, struct under_way);
} under_way MAP;

INLINE struct under_way *place_of_thread(struct task_struct *task)
{
	u32 index = (u32)task->pid % THREADS;
	return map_lookup(&under_way, &index);
}

struct opened {
	u64 object;
	u64 key;
	u64 is_mapped;
	/* Number of its descriptors closed in a sweep, and the sweep. */
	u64 gone;
	u64 sweep;
};

/* Open files by the address of the kernel's structure, if another file has taken their place. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 32768);
	TYPE(key, u64);
	TYPE(value, struct opened);
} opened MAP;

/* A place by hash, which open files may share. The sum detects simultaneous writes. */
struct opened_place {
	u64 address;
	u64 sum;
	struct opened opened;
};

#define OPENED_BITS 15

struct {
	NUMBER(type, MAP_ARRAY);
	NUMBER(max_entries, 1 << OPENED_BITS);
	TYPE(key, u32);
	TYPE(value, struct opened_place);
} opened_places MAP;

INLINE struct opened_place *place_of_opened(u64 address)
{
	u32 index = address * 0x9e3779b97f4a7c15ULL >> (64 - OPENED_BITS);
	return map_lookup(&opened_places, &index);
}

INLINE u64 sum_of(u64 address, struct opened *opened)
{
	return address ^ opened->object ^ opened->key ^ opened->is_mapped ^ opened->gone ^ opened->sweep;
}

INLINE bool is_at(struct opened_place *place, u64 address)
{
	return place->address == address && place->sum == sum_of(address, &place->opened);
}

/* Looks up an open file; returns whether it is known and still refers to this inode. */
INLINE bool recall_opened(u64 address, struct inode *inode, struct opened *to)
{
	struct opened_place *place = place_of_opened(address);
	if (place && is_at(place, address)) {
		*to = place->opened;
		return to->key == (u64)inode;
	}
	struct opened *known = map_lookup(&opened, &address);
	if (known)
		*to = *known;
	return known && known->key == (u64)inode;
}

/* A previous owner of the place moves to the map, where a lookup takes longer. */
INLINE void remember_opened(u64 address, struct opened *now)
{
	struct opened_place *place = place_of_opened(address);
	if (!place)
		return;
	u64 other = place->address;
	if (other && other != address && is_at(place, other))
		map_update(&opened, &other, &place->opened, UPDATE_ANY);
	place->address = address;
	place->opened = *now;
	place->sum = sum_of(address, now);
}

INLINE void forget_opened(u64 address)
{
	struct opened_place *place = place_of_opened(address);
	if (place && place->address == address)
		place->address = 0;
	else
		map_delete(&opened, &address);
}

/* Starts an operation of the calling thread with a new number. */
INLINE struct under_way *begin_operation(struct task_struct *task, u32 operation)
{
	struct under_way *own = place_of_thread(task);
	if (!own)
		return 0;
	u32 thread = task->pid;
	/* The other thread's operation will have no end. */
	if (own->thread != thread && (own->operation || own->second_operation))
		count_lost();
	own->thread = thread;
	if (!own->count)
		own->count = ktime() >> 10;
	own->count = (own->count + 2) & 0x7ffffffe;
	own->irp = (u64)own->count << 32 | thread;
	own->object = own->key = 0;
	own->operation = operation;
	own->second_operation = NO_OPERATION;
	own->is_late = 0;
	return own;
}

/* The second of two operations has the number after the first one's. */
#define SECOND_IRP(irp) ((irp) + (1ULL << 32))

/* The mark of files without a position: pipes, sockets, few others. */
#define STREAM (1 << 21)

/* Finds the keys of an open file; returns whether it is a file. */
INLINE bool find_opened(struct file *file, struct seen *seen, struct opened *to)
{
	if (!file)
		return false;
	look_at(file, seen);
	if (seen->mode & STREAM && !is_file(seen->inode))
		return false;
	u64 address = (u64)file;
	if (recall_opened(address, seen->inode, to))
		return true;
	to->object = address;
	to->key = key_of(seen->inode, seen->entry, seen->mount);
	to->is_mapped = to->gone = to->sweep = 0;
	if (!to->key)
		return false;
	remember_opened(address, to);
	return true;
}

/* Returns process and thread id in the halves of a word. */
INLINE u64 ids_of(struct task_struct *task)
{
	return (u64)task->tgid << 32 | (u32)task->pid;
}

/* As `reserve`, for given process and thread ids. */
INLINE void *reserve_for(u64 ids, u64 size, u32 kind, u32 number)
{
	void *ring = own_ring();
	struct header *record = ring ? ring_reserve(ring, size, 0) : 0;
	if (!record) {
		count_lost();
		return 0;
	}
	record->kind = kind;
	record->pid = ids >> 32;
	record->tid = (u32)ids;
	record->number = number;
	record->time = ktime();
	return record;
}

INLINE void tell_begin(u64 ids, u32 operation, u64 irp, struct opened *keys, u64 offset, u64 size)
{
	struct file_begin *record = reserve_for(ids, sizeof(*record), FILE_BEGIN, operation);
	if (!record)
		return;
	record->irp = irp;
	record->object = keys->object;
	record->key = keys->key;
	record->offset = offset;
	record->size = size;
	submit(record);
}

INLINE void tell_end(u64 ids, u32 operation, u64 irp, u64 object, u64 key, s64 result)
{
	struct file_end *record = reserve_for(ids, sizeof(*record), FILE_END, operation);
	if (!record)
		return;
	record->irp = irp;
	record->object = object;
	record->key = key;
	record->result = result;
	submit(record);
}

/* ---- Paths ---- */

#define CURRENT_DIRECTORY -100

/* Room for paths: one short path, or two of any length. */
#define SHORT_GIVEN 256
#define LONG_GIVEN 4096
#define LONG_BASE 2048
#define SHORT_TEXT (SHORT_PATH + NAME_BYTES + SHORT_GIVEN)
#define LONG_TEXT (LONG_BASE + NAME_BYTES + LONG_GIVEN)

enum which {
	ONE_SHORT,
	FIRST_LONG,
	SECOND_LONG,
};

enum outcome {
	PUT,
	TOO_LONG,
	NOT_IN_MEMORY,
};

/* Appends the base directory of a path and the path as passed by the program. */
SHARED u64 put_path(struct file_paths *record, s32 directory, u64 given, u64 which, bool of_kernel)
{
	char *text = (char *)(record + 1);
	volatile u64 *bytes = &record->bytes;
	u64 before = which == SECOND_LONG ? LONG_TEXT : 0;
	u64 cut = 0;
	char first = 0;
	if (of_kernel ? read_kernel(&first, 1, (void *)given) : read_user(&first, 1, (void *)given))
		return NOT_IN_MEMORY;
	if (first != '/') {
		struct task_struct *task = current_task_typed();
		struct path *base = &task->fs->pwd;
		if (directory != CURRENT_DIRECTORY) {
			struct file *file = file_at(task, directory);
			base = file ? &file->f_path : 0;
		}
		if (base)
			cut = put_parts(text, bytes, before + (which == ONE_SHORT ? SHORT_PATH : LONG_BASE),
					LOAD(base, dentry), LOAD(base, mnt));
	}
	u64 end = *bytes;
	record->ends[which == SECOND_LONG ? 2 : 0] = end;
	if (end > before + (which == ONE_SHORT ? SHORT_PATH : LONG_BASE) + NAME_BYTES)
		return TOO_LONG;
	u32 most = which == ONE_SHORT ? SHORT_GIVEN : LONG_GIVEN;
	s64 copied = of_kernel ? read_kernel_str(text + end, most, (void *)given)
			       : read_user_str(text + end, most, (void *)given);
	if (copied < 0)
		return NOT_IN_MEMORY;
	*bytes = end + copied;
	record->ends[which == SECOND_LONG ? 3 : 1] = end + copied;
	cut |= copied == most;
	record->cut |= cut;
	return cut ? TOO_LONG : PUT;
}

struct paths {
	u64 ids;
	u64 irp;
	u64 parameter;
	u64 path;
	u64 second_path;
	s32 directory;
	s32 second_directory;
	u32 operation;
	u32 of_kernel; /* The paths are in the kernel's memory. */
};

INLINE void fill_paths(struct file_paths *record, struct paths *paths)
{
	record->irp = paths->irp;
	record->parameter = paths->parameter;
	record->bytes = 0;
	record->cut = 0;
	record->ends[0] = record->ends[1] = record->ends[2] = record->ends[3] = 0;
}

/* As `tell_paths`, for two paths or a long one. */
INLINE bool tell_long_paths(struct paths *paths)
{
	struct file_paths *record =
		reserve_for(paths->ids, sizeof(*record) + 2 * LONG_TEXT, FILE_PATHS, paths->operation);
	if (!record)
		return false;
	fill_paths(record, paths);
	u64 outcome = put_path(record, paths->directory, paths->path, FIRST_LONG, paths->of_kernel);
	if (outcome != NOT_IN_MEMORY && paths->second_path) {
		u64 second = put_path(record, paths->second_directory, paths->second_path, SECOND_LONG,
				      paths->of_kernel);
		if (second == NOT_IN_MEMORY)
			outcome = second;
	}
	if (outcome == NOT_IN_MEMORY) {
		ring_discard(record, RING_NO_WAKEUP);
		return true;
	}
	submit(record);
	return false;
}

/* Records an operation on paths. Returns whether a path was not in memory, so that nothing was recorded. */
GLOBAL u32 tell_paths(struct paths *paths)
{
	if (!paths)
		return false;
	if (paths->second_path)
		return tell_long_paths(paths);
	struct file_paths *record =
		reserve_for(paths->ids, sizeof(*record) + SHORT_TEXT, FILE_PATHS, paths->operation);
	if (!record)
		return false;
	fill_paths(record, paths);
	/* Most paths are short and absolute. */
	char *text = (char *)(record + 1);
	s64 copied = paths->of_kernel ? 0 : read_user_str(text, SHORT_GIVEN, (void *)paths->path);
	u64 outcome = PUT;
	if (copied > 0 && copied < SHORT_GIVEN && *text == '/')
		record->bytes = record->ends[1] = copied;
	else
		outcome = put_path(record, paths->directory, paths->path, ONE_SHORT, paths->of_kernel);
	if (outcome == PUT) {
		submit(record);
		return false;
	}
	ring_discard(record, RING_NO_WAKEUP);
	return outcome == NOT_IN_MEMORY || tell_long_paths(paths);
}

/* ---- Begins ---- */

#define APPEND 02000
#define VECTORS_MOST 1024
#define NOT_KNOWN -1ULL

struct vector {
	u64 base;
	u64 bytes;
};

SHARED u64 bytes_of(struct vector *vectors, u64 count)
{
	u64 sum = 0;
	for (u32 i = 0; i < VECTORS_MOST && i < count; i++) {
		u64 bytes = 0;
		read_user(&bytes, sizeof(bytes), &vectors[i].bytes);
		sum += bytes;
	}
	return sum;
}

/* Returns the position of an operation that does not specify one. */
INLINE u64 place_of(struct seen *seen, u32 operation)
{
	if (operation == WRITE && seen->flags & APPEND)
		return LOAD(seen->inode, i_size);
	return seen->place;
}

/* Returns the position at a program's address; the file's own without an address. */
INLINE u64 named_place(struct seen *seen, u32 operation, u64 address)
{
	if (!address)
		return place_of(seen, operation);
	u64 place;
	return read_user(&place, sizeof(place), (void *)address) ? NOT_KNOWN : place;
}

INLINE u64 references_of(struct file *file)
{
	u64 count = 0;
	if (FIELD_EXISTS(file->f_ref)) {
		read_kernel(&count, sizeof(count), &file->f_ref);
		return count + 1;
	}
	read_kernel(&count, sizeof(count), &((struct file___old *)file)->f_count);
	return count;
}

/* Returns what closing `going` descriptors means: that the open file is closed if there is no other reference, or
 * that only mapped memory still refers to it. */
INLINE u32 closing_of(struct file *file, struct opened *keys, u64 going)
{
	if (references_of(file) == going)
		return CLOSE;
	return keys->is_mapped ? CLOSE_MAPPED : NO_OPERATION;
}

/* Forgets an open file that is closed, or notes that only memory refers to it. */
INLINE void let_opened_go(struct file *file, u32 operation, struct opened *keys)
{
	if (operation == CLOSE) {
		forget_opened((u64)file);
		return;
	}
	keys->is_mapped = 0;
	remember_opened((u64)file, keys);
}

/* Records the close of a descriptor as a side effect. `sweep` is not 0 if others are closed with it. */
SHARED void close_at_once(struct task_struct *task, struct file *file, u64 sweep)
{
	struct seen seen;
	struct opened keys;
	if (!find_opened(file, &seen, &keys))
		return;
	u64 going = sweep && keys.sweep == sweep ? keys.gone + 1 : 1;
	u32 operation = closing_of(file, &keys, going);
	if (!operation) {
		keys.gone = going;
		keys.sweep = sweep;
		if (sweep)
			remember_opened((u64)file, &keys);
		return;
	}
	struct under_way *own = begin_operation(task, NO_OPERATION);
	if (!own)
		return;
	u64 ids = ids_of(task);
	tell_begin(ids, operation, own->irp, &keys, 0, 0);
	tell_end(ids, operation, own->irp, keys.object, keys.key, 0);
	let_opened_go(file, operation, &keys);
}

struct descriptors {
	struct file **files;
	unsigned long *marks; /* Bits of those to close; 0 for all. */
	u64 first;
	u64 sweep;
};

static long close_one(u32 at, struct descriptors *descriptors)
{
	u64 descriptor = descriptors->first + at;
	u64 marks = -1ULL;
	if (descriptors->marks)
		read_kernel(&marks, sizeof(marks), descriptors->marks + descriptor / 64);
	struct file *file = 0;
	if (marks >> (descriptor & 63) & 1)
		read_kernel(&file, sizeof(file), descriptors->files + descriptor);
	if (file)
		close_at_once(current_task_typed(), file, descriptors->sweep);
	return 0;
}

/* Closes a range of descriptors, or those of them that are closed on exec. */
INLINE void close_many(struct files_struct *files, u64 first, u64 last, bool by_exec)
{
	struct fdtable *table = files->fdt;
	u64 all = table->max_fds;
	if (first >= all || last < first)
		return;
	struct descriptors descriptors = { table->fd, by_exec ? table->close_on_exec : 0, first, ktime() };
	u64 count = (last < all ? last + 1 : all) - first;
	repeat(count, close_one, &descriptors, 0);
}

INLINE void begin_on_descriptor(struct task_struct *task, void *registers, u32 call, u32 descriptor)
{
	struct file *file = file_at(task, descriptor);
	struct seen seen;
	struct opened keys;
	if (!find_opened(file, &seen, &keys))
		return;
	u32 operation = OPERATION_OF(call);
	u64 offset = 0, size = 0;
	if (operation == CLOSE) {
		operation = closing_of(file, &keys, 1);
		if (!operation)
			return;
	} else if (operation == READ || operation == WRITE || operation == ENUMERATE) {
		size = call_argument(registers, 2);
		if (call & WITH_VECTOR)
			size = bytes_of((void *)call_argument(registers, 1), size);
		offset = call & WITH_OFFSET ? call_argument(registers, 3) : NOT_KNOWN;
		if (offset == NOT_KNOWN)
			offset = place_of(&seen, operation);
	} else if (operation == SET_SIZE) {
		size = call_argument(registers, 1);
	} else if (operation == SET_ALLOCATION) {
		size = call_argument(registers, 2) + call_argument(registers, 3);
	}
	struct under_way *own = begin_operation(task, operation);
	if (!own)
		return;
	own->object = keys.object;
	own->key = keys.key;
	tell_begin(ids_of(task), operation, own->irp, &keys, offset, size);
	if (operation == CLOSE || operation == CLOSE_MAPPED)
		let_opened_go(file, operation, &keys);
}

INLINE void begin_copy(struct task_struct *task, void *registers, u32 form)
{
	bool is_sendfile = form == FROM_SECOND;
	struct file *from = file_at(task, is_sendfile ? call_argument(registers, 1) : call_argument(registers, 0));
	struct file *to = file_at(task, is_sendfile ? call_argument(registers, 0) : call_argument(registers, 2));
	u64 from_place = is_sendfile ? call_argument(registers, 2) : call_argument(registers, 1);
	u64 to_place = is_sendfile ? 0 : call_argument(registers, 3);
	u64 size = is_sendfile ? call_argument(registers, 3) : call_argument(registers, 4);
	struct seen seen;
	struct opened from_keys, to_keys;
	bool reads = find_opened(from, &seen, &from_keys);
	from_place = reads ? named_place(&seen, READ, from_place) : 0;
	bool writes = find_opened(to, &seen, &to_keys);
	if (!reads && !writes)
		return;
	struct under_way *own = begin_operation(task, NO_OPERATION);
	if (!own)
		return;
	if (reads) {
		own->object = from_keys.object;
		own->key = from_keys.key;
		own->operation = READ;
		tell_begin(ids_of(task), READ, own->irp, &from_keys, from_place, size);
	}
	if (writes) {
		own->second_object = to_keys.object;
		own->second_key = to_keys.key;
		own->second_operation = WRITE;
		to_place = named_place(&seen, WRITE, to_place);
		tell_begin(ids_of(task), WRITE, SECOND_IRP(own->irp), &to_keys, to_place, size);
	}
}

/* Returns the flags passed to `open`, or the size to set. */
INLINE u64 parameter_of(void *registers, u32 call, u32 form)
{
	u32 operation = OPERATION_OF(call);
	if (operation == OPEN && call & AS_CREAT)
		return 01101;
	if (operation == OPEN && call & WITH_HOW) {
		u64 flags = 0;
		read_user(&flags, sizeof(flags), (void *)call_argument(registers, 2));
		return flags;
	}
	if (operation == OPEN)
		return form == PATH_AT ? call_argument(registers, 2) : call_argument(registers, 1);
	return operation == SET_SIZE ? call_argument(registers, 1) : 0;
}

INLINE struct paths paths_of(struct task_struct *task, void *registers, u32 call, u32 form)
{
	struct paths paths = { .ids = ids_of(task), .operation = OPERATION_OF(call), .directory = CURRENT_DIRECTORY };
	paths.second_directory = CURRENT_DIRECTORY;
	if (form == PATH_AT || form == PATHS_AT) {
		paths.directory = call_argument(registers, 0);
		paths.path = call_argument(registers, 1);
	} else if (form == PATH_SECOND) {
		paths.path = call_argument(registers, 1);
	} else if (form == PATH_AT_SECOND) {
		paths.directory = call_argument(registers, 1);
		paths.path = call_argument(registers, 2);
	} else {
		paths.path = call_argument(registers, 0);
	}
	if (form == PATHS) {
		paths.second_path = call_argument(registers, 1);
	} else if (form == PATHS_AT) {
		paths.second_directory = call_argument(registers, 2);
		paths.second_path = call_argument(registers, 3);
	}
	return paths;
}

INLINE void begin_on_paths(struct task_struct *task, void *registers, u32 call, u32 form)
{
	struct paths paths = paths_of(task, registers, call, form);
	/* Without a path, the descriptor is meant. */
	bool may_be_descriptor = paths.operation == QUERY || paths.operation == SET_BASIC;
	if (form == PATH_AT && may_be_descriptor && paths.directory >= 0) {
		char first = 0;
		if (!paths.path || (!read_user(&first, 1, (void *)paths.path) && !first)) {
			begin_on_descriptor(task, registers, paths.operation, paths.directory);
			return;
		}
	}
	paths.parameter = parameter_of(registers, call, form);
	struct under_way *own = begin_operation(task, paths.operation);
	if (!own)
		return;
	paths.irp = own->irp;
	own->is_late = tell_paths(&paths);
}

#define CREATE_NEW 0300
#define X86_DIRECTORY 0200000
#define ARM_DIRECTORY 040000

/* Records that an operation has created the file at its path, with equivalent flags of `open`. */
SHARED void tell_made(struct task_struct *task, void *registers, u32 call, u64 irp)
{
	u32 form = FORM_OF(call);
	struct paths paths = paths_of(task, registers, call, form);
	if (paths.operation == OPEN)
		paths.parameter = parameter_of(registers, call, form);
	else if (paths.operation == MAKE_DIRECTORY)
		paths.parameter = CREATE_NEW | (IS_X86 ? X86_DIRECTORY : ARM_DIRECTORY);
	else
		paths.parameter = CREATE_NEW;
	paths.irp = irp;
	paths.operation = MADE_NEW;
	tell_paths(&paths);
}

#define FOR_NO_FILE 0x20
#define LATER 4

INLINE void begin_call(struct task_struct *task, void *registers, u32 call)
{
	u32 form = FORM_OF(call);
	if (form == DESCRIPTOR) {
		begin_on_descriptor(task, registers, call, call_argument(registers, 0));
	} else if (form <= PATHS_AT) {
		begin_on_paths(task, registers, call, form);
	} else if (form <= FROM_TO) {
		begin_copy(task, registers, form);
	} else if (form == RANGE) {
		if (!(call_argument(registers, 2) & LATER))
			close_many(task->files, (u32)call_argument(registers, 0), (u32)call_argument(registers, 1),
				   false);
	} else if (form == ONTO) {
		u32 from = call_argument(registers, 0), onto = call_argument(registers, 1);
		struct file *replaced = file_at(task, onto);
		if (replaced && from != onto && file_at(task, from))
			close_at_once(task, replaced, 0);
	} else if (!(call_argument(registers, 3) & FOR_NO_FILE)) {
		struct file *file = file_at(task, call_argument(registers, 4));
		struct seen seen;
		struct opened keys;
		if (find_opened(file, &seen, &keys) && !keys.is_mapped) {
			keys.is_mapped = 1;
			remember_opened((u64)file, &keys);
		}
	}
}

INLINE u32 call_at(u64 number)
{
	return number < CALLS ? file_calls[number] : 0;
}

/* Returns whether a thread's operations are captured. */
INLINE bool is_told(struct task_struct *task)
{
	return !is_left_out_pid((u32)task->tgid) && !is_vouched_of_32_bit(task);
}

SECTION("tp_btf/sys_enter") int file_begin(u64 *context)
{
	u32 call = call_at(context[1]);
	if (!call)
		return 0;
	struct task_struct *task = current_task_typed();
	if (is_told(task))
		begin_call(task, (void *)context[0], call);
	return 0;
}

/* ---- Ends ---- */

/* The mark of a file that was created by opening it, and the results of opening. */
#define MADE (1 << 20)
#define WAS_THERE 1
#define WAS_MADE 2

/* Remembers the file that an operation has opened. Returns whether it was created. */
INLINE bool note_opened(struct task_struct *task, u32 descriptor, u64 irp, struct opened *to)
{
	struct seen seen = {};
	struct file *file = file_at(task, descriptor);
	if (file)
		look_at(file, &seen);
	to->object = irp;
	to->key = file ? key_of(seen.inode, seen.entry, seen.mount) : 0;
	to->is_mapped = to->gone = to->sweep = 0;
	if (to->key)
		remember_opened((u64)file, to);
	else
		to->object = 0;
	return seen.mode & MADE;
}

SHARED void begin_late(struct task_struct *task, void *registers, u32 call)
{
	begin_on_paths(task, registers, call, FORM_OF(call));
}

SECTION("tp_btf/sys_exit") int file_end(u64 *context)
{
	void *registers = (void *)context[0];
	s64 result = context[1];
	u32 call = call_at(CALL_NUMBER(registers));
	if (!call)
		return 0;
	struct task_struct *task = current_task_typed();
	struct under_way *own = place_of_thread(task);
	if (!own || own->thread != (u32)task->pid || (!own->operation && !own->second_operation))
		return 0;
	if (own->is_late)
		begin_late(task, registers, call);
	u32 operation = own->operation;
	u64 irp = own->irp;
	bool is_made = (operation == MAKE_DIRECTORY || operation == MAKE_NODE) && result == 0;
	if (operation == OPEN && result >= 0) {
		struct opened now;
		is_made = note_opened(task, result, irp, &now);
		own->object = now.object;
		own->key = now.key;
		result = is_made ? WAS_MADE : WAS_THERE;
	}
	if (is_made)
		tell_made(task, registers, call, irp);
	u64 ids = ids_of(task);
	if (operation)
		tell_end(ids, operation, irp, own->object, own->key, result);
	if (own->second_operation)
		tell_end(ids, own->second_operation, SECOND_IRP(irp), own->second_object, own->second_key, result);
	own->operation = own->second_operation = NO_OPERATION;
	return 0;
}

/* Processes of several threads whose files were recorded as closed. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 4096);
	TYPE(key, struct process_key);
	TYPE(value, u32);
} let_go MAP;

/* The end of a process's last thread closes its descriptors, unless another process shares them. */
SECTION("tp_btf/sched_process_exit") int file_process_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct signal_struct *process = task->signal;
	if (process->live.counter || is_left_out())
		return 0;
	struct files_struct *files = task->files;
	if (!files || files->count.counter > process->nr_threads)
		return 0;
	if (process->nr_threads > 1) {
		struct process_key key = { task->group_leader->start_time, task->tgid };
		u32 one = 1;
		if (map_update(&let_go, &key, &one, UPDATE_NEW_ONLY))
			return 0;
	}
	close_many(files, 0, -1U, false);
	return 0;
}

/* Exec closes the descriptors that are marked so. Other threads end before that. If another process shares the
 * descriptors, the program gets its own copy, and the others keep all files open. */
SECTION("tp_btf/sched_prepare_exec") int file_exec(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct files_struct *files = task->files;
	if (is_left_out() || !files || files->count.counter > task->signal->nr_threads)
		return 0;
	close_many(files, 0, -1U, true);
	return 0;
}
