/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What programs do with files: told when a system call begins, and how it went when it ends.
 *
 * What is told of an open file has two keys: that of the file, and one of the open file, which is the number of the
 * operation that opened it; or its address, if that was before the capture. */
#pragma once

/* What is done. `src/capture/event/file.rs` has the same. */
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

/* What the arguments of a system call are. */
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

/* By the numbers of the running machine's system calls. */
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
	/* Where each directory's parts and each path ends. */
	u64 ends[4];
	/* For each path: the parts of the directory that it is relative to, as in names, and the path as it was given. */
};

/* What a thread is about to do; two things if it copies. */
struct under_way {
	u64 irp;
	u64 object;
	u64 key;
	u64 second_object;
	u64 second_key;
	u32 operation;
	u32 second_operation;
	u32 count;
	u32 is_late; /* Its path was not in memory yet. */
};

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 16384);
	TYPE(key, u32);
	TYPE(value, struct under_way);
} under_way MAP;

struct opened {
	u64 object;
	u64 key;
	u64 is_mapped;
};

/* By the address of the kernel's structure for an open file. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 65536);
	TYPE(key, u64);
	TYPE(value, struct opened);
} opened MAP;

/* What the calling thread is about to do, with a new number for it. */
INLINE struct under_way *begin_operation(u32 operation)
{
	u32 thread = (u32)current_pid_tid();
	struct under_way *own = map_lookup(&under_way, &thread);
	if (!own) {
		struct under_way none = { .count = ktime() >> 10 };
		map_update(&under_way, &thread, &none, UPDATE_ANY);
		own = map_lookup(&under_way, &thread);
		if (!own) {
			count_lost();
			return 0;
		}
	}
	own->count = (own->count + 2) & 0x7ffffffe;
	own->irp = (u64)own->count << 32 | thread;
	own->object = own->key = 0;
	own->operation = operation;
	own->second_operation = NO_OPERATION;
	own->is_late = 0;
	return own;
}

/* The second of two operations has the number behind the first one's. */
#define SECOND_IRP(irp) ((irp) + (1ULL << 32))

/* The keys of an open file. Answers whether it is one. */
INLINE bool find_opened(void *context, struct file *file, struct opened *to)
{
	if (!file)
		return false;
	u64 address = (u64)file;
	u64 inode = (u64)LOAD(file, f_inode);
	struct opened *known = map_lookup(&opened, &address);
	if (known && known->key == inode) {
		*to = *known;
		return true;
	}
	to->object = address;
	to->key = file_key(context, file);
	to->is_mapped = 0;
	if (!to->key)
		return false;
	map_update(&opened, &address, to, UPDATE_ANY);
	return true;
}

SHARED void tell_begin(void *context, struct under_way *own, bool second, u64 offset, u64 size)
{
	struct file_begin *record =
		reserve(sizeof(*record), FILE_BEGIN, second ? own->second_operation : own->operation);
	if (!record)
		return;
	record->irp = second ? SECOND_IRP(own->irp) : own->irp;
	record->object = second ? own->second_object : own->object;
	record->key = second ? own->second_key : own->key;
	record->offset = offset;
	record->size = size;
	submit(record);
}

INLINE void tell_end(void *context, u32 operation, u64 irp, u64 object, u64 key, s64 result)
{
	struct file_end *record = reserve(sizeof(*record), FILE_END, operation);
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

/* Room for paths: one short one, or two of any length. */
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

/* Puts a path that a program gives, behind the directory that it is relative to. */
SHARED u64 put_path(struct file_paths *record, s32 directory, u64 given, u64 which)
{
	char *text = (char *)(record + 1);
	volatile u64 *bytes = &record->bytes;
	u64 before = which == SECOND_LONG ? LONG_TEXT : 0;
	u64 cut = 0;
	char first = 0;
	if (read_user(&first, 1, (void *)given))
		return NOT_IN_MEMORY;
	if (first != '/') {
		struct fs_struct *own = LOAD((struct task_struct *)current_task(), fs);
		struct path *base = &own->pwd;
		if (directory != CURRENT_DIRECTORY) {
			struct file *file = file_at(directory);
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
	s64 copied = read_user_str(text + end, most, (void *)given);
	if (copied < 0)
		return NOT_IN_MEMORY;
	*bytes = end + copied;
	record->ends[which == SECOND_LONG ? 3 : 1] = end + copied;
	cut |= copied == most;
	record->cut |= cut;
	return cut ? TOO_LONG : PUT;
}

struct paths {
	u64 irp;
	u64 parameter;
	u64 path;
	u64 second_path;
	s32 directory;
	s32 second_directory;
	u32 operation;
};

INLINE void fill_paths(struct file_paths *record, struct paths *paths)
{
	record->irp = paths->irp;
	record->parameter = paths->parameter;
	record->bytes = 0;
	record->cut = 0;
	record->ends[0] = record->ends[1] = record->ends[2] = record->ends[3] = 0;
}

/* Tells an operation on what paths name. Answers whether a path was not in memory, so that nothing was told. */
SHARED bool tell_paths(void *context, struct paths *paths)
{
	struct file_paths *record;
	if (!paths->second_path) {
		record = reserve(sizeof(*record) + SHORT_TEXT, FILE_PATHS, paths->operation);
		if (!record)
			return false;
		fill_paths(record, paths);
		u64 outcome = put_path(record, paths->directory, paths->path, ONE_SHORT);
		if (outcome == PUT) {
			submit(record);
			return false;
		}
		ring_discard(record, RING_NO_WAKEUP);
		if (outcome == NOT_IN_MEMORY)
			return true;
	}
	record = reserve(sizeof(*record) + 2 * LONG_TEXT, FILE_PATHS, paths->operation);
	if (!record)
		return false;
	fill_paths(record, paths);
	u64 outcome = put_path(record, paths->directory, paths->path, FIRST_LONG);
	if (outcome != NOT_IN_MEMORY && paths->second_path) {
		u64 second = put_path(record, paths->second_directory, paths->second_path, SECOND_LONG);
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

/* Where an operation without a place of its own begins. */
INLINE u64 place_of(struct file *file, u32 operation)
{
	if (operation == WRITE && LOAD(file, f_flags) & APPEND)
		return LOAD(LOAD(file, f_inode), i_size);
	return LOAD(file, f_pos);
}

/* The place that a program names by its address; where it names none, the file's own. */
INLINE u64 named_place(struct file *file, u32 operation, u64 address)
{
	if (!address)
		return place_of(file, operation);
	u64 place;
	return read_user(&place, sizeof(place), (void *)address) ? NOT_KNOWN : place;
}

INLINE bool is_last_reference(struct file *file)
{
	u64 more = 0;
	if (FIELD_EXISTS(file->f_ref)) {
		read_kernel(&more, sizeof(more), &file->f_ref);
		return more == 0;
	}
	read_kernel(&more, sizeof(more), &((struct file___old *)file)->f_count);
	return more == 1;
}

/* What it means that a descriptor goes: that the open file is closed, if there is no other; also if only memory that is
 * mapped still refers to it. */
INLINE u32 closing_of(struct file *file, struct opened *keys)
{
	if (is_last_reference(file))
		return CLOSE;
	return keys->is_mapped ? CLOSE_MAPPED : NO_OPERATION;
}

/* Forgets an open file, or that only memory refers to it any more. */
INLINE void forget_opened(struct file *file, u32 operation, struct opened *keys)
{
	u64 address = (u64)file;
	if (operation == CLOSE) {
		map_delete(&opened, &address);
		return;
	}
	struct opened now = { keys->object, keys->key, 0 };
	map_update(&opened, &address, &now, UPDATE_ANY);
}

/* A descriptor goes by the way, as when its process ends. */
SHARED void close_at_once(void *context, struct file *file)
{
	struct opened keys;
	if (!find_opened(context, file, &keys))
		return;
	u32 operation = closing_of(file, &keys);
	if (!operation)
		return;
	struct under_way *own = begin_operation(operation);
	if (!own)
		return;
	own->object = keys.object;
	own->key = keys.key;
	tell_begin(context, own, false, 0, 0);
	tell_end(context, operation, own->irp, keys.object, keys.key, 0);
	own->operation = NO_OPERATION;
	forget_opened(file, operation, &keys);
}

struct descriptors {
	void *context;
	struct file **files;
	u64 first;
};

static long close_one(u32 at, struct descriptors *descriptors)
{
	struct file *file = 0;
	read_kernel(&file, sizeof(file), descriptors->files + descriptors->first + at);
	if (file)
		close_at_once(descriptors->context, file);
	return 0;
}

/* Descriptors from one to another go. */
INLINE void close_many(void *context, struct files_struct *files, u64 first, u64 last)
{
	struct fdtable *table = LOAD(files, fdt);
	u64 all = LOAD(table, max_fds);
	if (first >= all || last < first)
		return;
	struct descriptors descriptors = { context, LOAD(table, fd), first };
	u64 count = (last < all ? last + 1 : all) - first;
	repeat(count, close_one, &descriptors, 0);
}

INLINE void begin_on_descriptor(void *context, void *registers, u32 call, u32 descriptor)
{
	struct file *file = file_at(descriptor);
	struct opened keys;
	if (!find_opened(context, file, &keys))
		return;
	u32 operation = OPERATION_OF(call);
	u64 offset = 0, size = 0;
	if (operation == CLOSE) {
		operation = closing_of(file, &keys);
		if (!operation)
			return;
	} else if (operation == READ || operation == WRITE || operation == ENUMERATE) {
		size = call_argument(registers, 2);
		if (call & WITH_VECTOR)
			size = bytes_of((void *)call_argument(registers, 1), size);
		offset = call & WITH_OFFSET ? call_argument(registers, 3) : NOT_KNOWN;
		if (offset == NOT_KNOWN)
			offset = place_of(file, operation);
	} else if (operation == SET_SIZE) {
		size = call_argument(registers, 1);
	} else if (operation == SET_ALLOCATION) {
		size = call_argument(registers, 2) + call_argument(registers, 3);
	}
	struct under_way *own = begin_operation(operation);
	if (!own)
		return;
	own->object = keys.object;
	own->key = keys.key;
	tell_begin(context, own, false, offset, size);
	if (operation == CLOSE || operation == CLOSE_MAPPED)
		forget_opened(file, operation, &keys);
}

INLINE void begin_copy(void *context, void *registers, u32 form)
{
	bool is_sendfile = form == FROM_SECOND;
	struct file *from = file_at(is_sendfile ? call_argument(registers, 1) : call_argument(registers, 0));
	struct file *to = file_at(is_sendfile ? call_argument(registers, 0) : call_argument(registers, 2));
	u64 from_place = is_sendfile ? call_argument(registers, 2) : call_argument(registers, 1);
	u64 to_place = is_sendfile ? 0 : call_argument(registers, 3);
	u64 size = is_sendfile ? call_argument(registers, 3) : call_argument(registers, 4);
	struct opened from_keys, to_keys;
	bool reads = find_opened(context, from, &from_keys);
	bool writes = find_opened(context, to, &to_keys);
	if (!reads && !writes)
		return;
	struct under_way *own = begin_operation(NO_OPERATION);
	if (!own)
		return;
	if (reads) {
		own->object = from_keys.object;
		own->key = from_keys.key;
		own->operation = READ;
		tell_begin(context, own, false, named_place(from, READ, from_place), size);
	}
	if (writes) {
		own->second_object = to_keys.object;
		own->second_key = to_keys.key;
		own->second_operation = WRITE;
		tell_begin(context, own, true, named_place(to, WRITE, to_place), size);
	}
}

/* The flags that a file is opened with, or the size that it is given. */
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

INLINE struct paths paths_of(void *registers, u32 call, u32 form)
{
	struct paths paths = { .operation = OPERATION_OF(call), .directory = CURRENT_DIRECTORY };
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

INLINE void begin_on_paths(void *context, void *registers, u32 call, u32 form)
{
	struct paths paths = paths_of(registers, call, form);
	/* Without a path it is the descriptor that is meant. */
	bool may_be_descriptor = paths.operation == QUERY || paths.operation == SET_BASIC;
	if (form == PATH_AT && may_be_descriptor && paths.directory >= 0) {
		char first = 0;
		if (!paths.path || (!read_user(&first, 1, (void *)paths.path) && !first)) {
			begin_on_descriptor(context, registers, paths.operation, paths.directory);
			return;
		}
	}
	paths.parameter = parameter_of(registers, call, form);
	struct under_way *own = begin_operation(paths.operation);
	if (!own)
		return;
	paths.irp = own->irp;
	own->is_late = tell_paths(context, &paths);
}

#define CREATE_NEW 0300
#define X86_DIRECTORY 0200000
#define ARM_DIRECTORY 040000

/* Tells that an operation has made the file that its path names, with the flags that it could have been opened with. */
INLINE void tell_made(void *context, void *registers, u32 call, u64 irp)
{
	u32 form = FORM_OF(call);
	struct paths paths = paths_of(registers, call, form);
	if (paths.operation == OPEN)
		paths.parameter = parameter_of(registers, call, form);
	else if (paths.operation == MAKE_DIRECTORY)
		paths.parameter = CREATE_NEW | (IS_X86 ? X86_DIRECTORY : ARM_DIRECTORY);
	else
		paths.parameter = CREATE_NEW;
	paths.irp = irp;
	paths.operation = MADE_NEW;
	tell_paths(context, &paths);
}

#define FOR_NO_FILE 0x20
#define LATER 4

INLINE void begin_call(void *context, void *registers, u32 call)
{
	u32 form = FORM_OF(call);
	if (form == DESCRIPTOR) {
		begin_on_descriptor(context, registers, call, call_argument(registers, 0));
	} else if (form <= PATHS_AT) {
		begin_on_paths(context, registers, call, form);
	} else if (form <= FROM_TO) {
		begin_copy(context, registers, form);
	} else if (form == RANGE) {
		struct files_struct *files = LOAD((struct task_struct *)current_task(), files);
		if (!(call_argument(registers, 2) & LATER))
			close_many(context, files, (u32)call_argument(registers, 0), (u32)call_argument(registers, 1));
	} else if (form == ONTO) {
		u32 from = call_argument(registers, 0), onto = call_argument(registers, 1);
		struct file *replaced = file_at(onto);
		if (replaced && from != onto && file_at(from))
			close_at_once(context, replaced);
	} else if (!(call_argument(registers, 3) & FOR_NO_FILE)) {
		struct file *file = file_at(call_argument(registers, 4));
		struct opened keys;
		u64 address = (u64)file;
		if (find_opened(context, file, &keys) && !keys.is_mapped) {
			keys.is_mapped = 1;
			map_update(&opened, &address, &keys, UPDATE_ANY);
		}
	}
}

INLINE u32 call_at(u64 number)
{
	u32 call = number < CALLS ? file_calls[number] : 0;
	return call && !is_left_out() && !is_of_32_bit(current_task()) ? call : 0;
}

SECTION("tp_btf/sys_enter") int file_begin(u64 *context)
{
	u32 call = call_at(context[1]);
	if (call)
		begin_call(context, (void *)context[0], call);
	return 0;
}

/* ---- Ends ---- */

/* The mark of a file that was made when it was opened, and what is said of that. */
#define MADE (1 << 20)
#define WAS_THERE 1
#define WAS_MADE 2

SECTION("tp_btf/sys_exit") int file_end(u64 *context)
{
	void *registers = (void *)context[0];
	s64 result = context[1];
	u32 call = call_at(CALL_NUMBER(registers));
	if (!call)
		return 0;
	u32 thread = (u32)current_pid_tid();
	struct under_way *own = map_lookup(&under_way, &thread);
	if (!own || (!own->operation && !own->second_operation))
		return 0;
	if (own->is_late)
		begin_on_paths(context, registers, call, FORM_OF(call));
	u32 operation = own->operation;
	u64 irp = own->irp;
	bool is_made = (operation == MAKE_DIRECTORY || operation == MAKE_NODE) && result == 0;
	if (operation == OPEN && result >= 0) {
		struct file *file = file_at(result);
		struct opened now = { irp, file ? file_key(context, file) : 0, 0 };
		u64 address = (u64)file;
		if (now.key) {
			map_update(&opened, &address, &now, UPDATE_ANY);
			own->object = irp;
			own->key = now.key;
		}
		is_made = LOAD(file, f_mode) & MADE;
		result = is_made ? WAS_MADE : WAS_THERE;
	}
	if (is_made)
		tell_made(context, registers, call, irp);
	if (operation)
		tell_end(context, operation, irp, own->object, own->key, result);
	if (own->second_operation)
		tell_end(context, own->second_operation, SECOND_IRP(irp), own->second_object, own->second_key, result);
	own->operation = own->second_operation = NO_OPERATION;
	return 0;
}

/* Processes of several threads whose files were told to be closed. */
struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 4096);
	TYPE(key, struct process_key);
	TYPE(value, u32);
} let_go MAP;

/* With the last thread of a process its descriptors go, unless another process shares them. */
SECTION("tp_btf/sched_process_exit") int file_process_exit(u64 *context)
{
	struct task_struct *task = (void *)context[0];
	struct signal_struct *process = task->signal;
	if (process->live.counter || is_left_out())
		return 0;
	struct files_struct *files = LOAD(task, files);
	if (!files || LOAD(files, count.counter) > process->nr_threads)
		return 0;
	if (process->nr_threads > 1) {
		struct process_key key = { task->group_leader->start_time, task->tgid };
		u32 one = 1;
		if (map_update(&let_go, &key, &one, UPDATE_NEW_ONLY))
			return 0;
	}
	close_many(context, files, 0, -1U);
	return 0;
}
