/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Files: their keys and names. */
#pragma once

#include "stack.h"

/* ---- Names ---- */

/* Kinds of files, in the bits of a mode. */
#define KIND_OF_FILE 0170000
#define DIRECTORY 0040000
#define BLOCK_DEVICE 0060000
#define REGULAR 0100000

/* A file system of the kernel's own: pipes, sockets, descriptors of events. Memory that is a file has one too. */
#define NOT_FOR_USERS (1UL << 31)
#define MAGIC_OF_TMPFS 0x01021994

/* Maximum sizes of a component with its NUL, and of the components in a name's record of either size; maximum
 * number of components. */
#define NAME_BYTES 256
#define SHORT_PATH 256
#define LONG_PATH 4096
#define PARTS_MOST 64

struct file_name {
	struct header header; /* Its number: whether the path's start is missing. */
	u64 key;
	u64 bytes;
	/* The components of the path, the last one first, each with its NUL. */
};

/* What an inode's address referred to when its name was recorded, and its entry and directory. */
struct named {
	u64 number;
	u64 generation;
	u64 entry;
	u64 directory;
};

struct {
	NUMBER(type, MAP_LRU_HASH);
	NUMBER(max_entries, 65536);
	TYPE(key, u64);
	TYPE(value, struct named);
} named MAP;

/* Fields that lie near each other are read at once, since a read costs more than the bytes: as many bytes as the
 * span has, from the first field on, rounded down to a multiple of 8. */
#define SPAN_BEGIN(type, first) (FIELD_OFFSET(type, first) & ~7U)
#define IN_SPAN(span, type, first, field)                                                                         \
	(FIELD_OFFSET(type, field) - SPAN_BEGIN(type, first) <= sizeof(span) - 8)
#define READ_SPAN(span, type, first, from)                                                                        \
	read_kernel(span, sizeof(span), (const void *)(from) + SPAN_BEGIN(type, first))
/* Hides from the compiler that the offset is aligned, since the verifier only allows addition on pointers. */
#define FROM_SPAN(span, type, first, field)                                                                       \
	({                                                                                                        \
		u64 place_ = FIELD_OFFSET(type, field) - SPAN_BEGIN(type, first);                                 \
		asm volatile("" : "+r"(place_));                                                                  \
		*(typeof(((type *)0)->field) *)((void *)(span) + place_);                                         \
	})

/* Returns whether an inode is a file whose operations are captured. */
INLINE bool is_file(struct inode *inode)
{
	u32 kind = LOAD(inode, i_mode) & KIND_OF_FILE;
	if (kind == DIRECTORY || kind == BLOCK_DEVICE)
		return 1;
	if (kind != REGULAR)
		return 0;
	struct super_block *system = LOAD(inode, i_sb);
	return !(LOAD(system, s_flags) & NOT_FOR_USERS) || LOAD(system, s_magic) == MAGIC_OF_TMPFS;
}

/* Appends the components of a path after the first `bytes` bytes; returns whether there are more. A component
 * starts before `most`, so `most` + NAME_BYTES is the room that is needed.
 *
 * The number of bytes is in memory so that each iteration of the loop looks the same to the verifier. */
SHARED u64 put_parts(char *to, volatile u64 *bytes, u64 most, struct dentry *at, struct vfsmount *on)
{
	struct mount *mount = HOLDER(struct mount, mnt, on);
	struct dentry *top = LOAD(mount, mnt.mnt_root);
	for (u32 i = 0; i < PARTS_MOST; i++) {
		if (at == top) {
			struct mount *above = LOAD(mount, mnt_parent);
			if (above == mount)
				return 0;
			at = LOAD(mount, mnt_mountpoint);
			mount = above;
			top = LOAD(mount, mnt.mnt_root);
			continue;
		}
		struct dentry *parent = LOAD(at, d_parent);
		u64 before = *bytes;
		if (before >= most)
			return 1;
		s64 copied = read_kernel_str(to + before, NAME_BYTES, LOAD(at, d_name.name));
		if (copied < 0)
			return 1;
		*bytes = before + copied;
		if (parent == at)
			return 0;
		at = parent;
	}
	return 1;
}

INLINE void look_at_inode(struct inode *inode, struct named *to)
{
	u64 span[9];
	if (IN_SPAN(span, struct inode, i_ino, i_generation)) {
		READ_SPAN(span, struct inode, i_ino, inode);
		to->number = FROM_SPAN(span, struct inode, i_ino, i_ino);
		to->generation = FROM_SPAN(span, struct inode, i_ino, i_generation);
		return;
	}
	to->number = LOAD(inode, i_ino);
	to->generation = LOAD(inode, i_generation);
}

INLINE void look_at_entry(struct dentry *entry, struct named *to)
{
	u64 span[2];
	if (IN_SPAN(span, struct dentry, d_parent, d_name.hash_len)) {
		READ_SPAN(span, struct dentry, d_parent, entry);
		to->directory = (u64)FROM_SPAN(span, struct dentry, d_parent, d_parent);
		to->entry = FROM_SPAN(span, struct dentry, d_parent, d_name.hash_len);
		return;
	}
	to->directory = (u64)LOAD(entry, d_parent);
	to->entry = LOAD(entry, d_name.hash_len);
}

/* Records the name of a file. The arguments are addresses. */
GLOBAL u32 tell_name(u64 key, u64 entry, u64 mount)
{
	struct dentry *at = (void *)entry;
	struct vfsmount *on = (void *)mount;
	struct named now;
	look_at_inode((void *)key, &now);
	look_at_entry(at, &now);
	struct file_name *record = reserve(sizeof(*record) + SHORT_PATH + NAME_BYTES, FILE_NAME, 0);
	if (!record)
		return 0;
	record->bytes = 0;
	if (put_parts((char *)(record + 1), &record->bytes, SHORT_PATH, at, on)) {
		ring_discard(record, RING_NO_WAKEUP);
		record = reserve(sizeof(*record) + LONG_PATH + NAME_BYTES, FILE_NAME, 0);
		if (!record)
			return 0;
		record->bytes = 0;
		record->header.number = put_parts((char *)(record + 1), &record->bytes, LONG_PATH, at, on);
	}
	record->key = key;
	submit(record);
	/* Not earlier: a program that finds the entry relies on the name's being recorded. */
	map_update(&named, &key, &now, UPDATE_ANY);
	return 1;
}

/* Returns the key of a file, and records its name: once, and again when the inode is another file's, was renamed,
 * or was not used for long. 0 for what is not a file. */
INLINE u64 key_of(struct inode *inode, struct dentry *at, struct vfsmount *on)
{
	u64 key = (u64)inode;
	struct named now;
	look_at_inode(inode, &now);
	look_at_entry(at, &now);
	struct named *told = map_lookup(&named, &key);
	if (told && told->number == now.number && told->generation == now.generation && told->entry == now.entry &&
	    told->directory == now.directory)
		return key;
	if (!is_file(inode))
		return 0;
	tell_name(key, (u64)at, (u64)on);
	return key;
}

/* The fields read from the kernel's structure of an open file. */
struct seen {
	struct inode *inode;
	struct dentry *entry;
	struct vfsmount *mount;
	u64 place;
	u32 mode;
	u32 flags;
};

/* One span has all of it since 6.13. */
#define FILE_SPAN(field) FROM_SPAN(span, struct file, f_mode, field)
#define IN_FILE_SPAN(field) IN_SPAN(span, struct file, f_mode, field)

INLINE void look_at(struct file *file, struct seen *to)
{
	u64 span[16];
	if (IN_FILE_SPAN(f_inode) && IN_FILE_SPAN(f_flags) && IN_FILE_SPAN(f_pos) && IN_FILE_SPAN(f_path.dentry) &&
	    IN_FILE_SPAN(f_path.mnt)) {
		READ_SPAN(span, struct file, f_mode, file);
		to->inode = FILE_SPAN(f_inode);
		to->entry = FILE_SPAN(f_path.dentry);
		to->mount = FILE_SPAN(f_path.mnt);
		to->place = FILE_SPAN(f_pos);
		to->mode = FILE_SPAN(f_mode);
		to->flags = FILE_SPAN(f_flags);
		return;
	}
	to->inode = LOAD(file, f_inode);
	to->entry = LOAD(file, f_path.dentry);
	to->mount = LOAD(file, f_path.mnt);
	to->place = LOAD(file, f_pos);
	to->mode = LOAD(file, f_mode);
	to->flags = LOAD(file, f_flags);
}

/* Returns the key of an open file. */
INLINE u64 file_key(struct file *file)
{
	return key_of(LOAD(file, f_inode), LOAD(file, f_path.dentry), LOAD(file, f_path.mnt));
}

/* Returns the file of a thread's descriptor; 0 if there is none. */
INLINE struct file *file_at(struct task_struct *task, u32 descriptor)
{
	struct fdtable *table = task->files->fdt;
	if (descriptor >= table->max_fds)
		return 0;
	struct file *file = 0;
	read_kernel(&file, sizeof(file), table->fd + descriptor);
	return file;
}

#define MOUNTS_MOST 64

/* Returns the first mount of a whole file system. */
SHARED struct vfsmount *mount_of(struct super_block *system)
{
	if (!FIELD_EXISTS(((struct mount *)0)->mnt_next_for_sb)) {
		void *first = LOAD((struct super_block___old *)system, s_mounts.next);
		struct mount *mount = (void *)HOLDER(struct mount___old, mnt_instance, first);
		return &mount->mnt;
	}
	struct dentry *top = LOAD(system, s_root);
	struct mount *mount = LOAD(system, s_mounts);
	struct mount *oldest = mount;
	for (u32 i = 0; i < MOUNTS_MOST && mount; i++) {
		if (LOAD(mount, mnt.mnt_root) == top)
			oldest = mount;
		mount = LOAD(mount, mnt_next_for_sb);
	}
	return &oldest->mnt;
}

/* A page that is part of a larger one has the address of its first page here, with the lowest bit set. */
#define IS_PART 1
/* Pages without a file have a mark in the lowest bits. */
#define NO_FILE 3

/* Returns the key of the file that a page caches; 0 if there is none. */
INLINE u64 page_key(struct page *page)
{
	unsigned long first = LOAD(page, compound_head);
	if (first & IS_PART)
		page = (void *)(first - IS_PART);
	struct address_space *mapping = LOAD(page, mapping);
	if (!mapping || (u64)mapping & NO_FILE)
		return 0;
	struct inode *inode = LOAD(mapping, host);
	/* Memory of the kernel has other data here. */
	if (LOAD(inode, i_mapping) != mapping)
		return 0;
	struct super_block *system = LOAD(inode, i_sb);
	if (LOAD(system, s_flags) & NOT_FOR_USERS)
		return 0;
	void *alias = LOAD(inode, i_dentry.first);
	if (!alias)
		return 0;
	return key_of(inode, HOLDER(struct dentry, d_u.d_alias, alias), mount_of(system));
}

/* Runs for each open file of each process when its output is read: a byte per file. */
SECTION("iter/task_file") int open_files(struct open_file *context)
{
	if (!context->file)
		return 0;
	file_key(context->file);
	char told = '.';
	seq_write(context->meta->seq, &told, sizeof(told));
	return 0;
}
