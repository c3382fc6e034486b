/* Memory that was needed at the start alone: pages of program files, and what malloc keeps for later. */
#define _GNU_SOURCE
#include "libaether.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A mapping as /proc/self/smaps tells of it. */
struct mapping {
	unsigned long long start, end;
	int is_file; /* of a file, and nobody may write to it */
};

/* "00400000-00746000 r--p 00000000 fe:00 1079 /path". 0: the line is another. */
static int read_mapping(const char *line, struct mapping *mapping)
{
	struct mapping found;
	unsigned long long inode;
	char mode[5];

	if (sscanf(line, "%llx-%llx %4s %*x %*x:%*x %llu", &found.start, &found.end, mode, &inode) != 4)
		return 0;
	found.is_file = inode != 0 && mode[0] == 'r' && mode[1] == '-' && mode[3] == 'p';
	*mapping = found;
	return 1;
}

/* Pages that are the file's own come back from it when they are touched again. A mapping that holds a single page of this
 * process's (relocated, patched by a debugger) is left alone: that page would be lost. */
static int64_t let_go(FILE *smaps)
{
	struct mapping mapping = { 0 };
	unsigned long long kib, resident = 0;
	int64_t total = 0;
	size_t room = 0;
	char *line = NULL;

	while (getline(&line, &room, smaps) >= 0) {
		if (read_mapping(line, &mapping) || !mapping.is_file)
			continue;
		if (sscanf(line, "Rss: %llu", &kib) == 1)
			resident = kib;
		else if (sscanf(line, "Anonymous: %llu", &kib) == 1 && kib == 0 && resident > 0 &&
			 madvise((void *)mapping.start, mapping.end - mapping.start, MADV_DONTNEED) == 0)
			total += (int64_t)resident;
	}
	free(line);
	return total;
}

int64_t ae_trim_memory(void)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	int64_t kib;

	if (!smaps)
		return -errno;
	kib = let_go(smaps);
	fclose(smaps);
	malloc_trim(0);
	return kib;
}
