/* call-timer: starts programs as a container runtime does and times each. Reads orders from stdin, one a line, fields
 * separated by tabs; writes a line a result, fields likewise. Small and static on purpose: until its exec a child counts this
 * program's memory as its own peak.
 *
 *   namespace PATH up|down        a fresh network namespace, bound at PATH, with lo up or down and 10.78.0.1 on it: some plugins
 *                                 look for an address of the pod
 *   remove PATH                   takes it away
 *   loopback PATH up|down         sets its lo
 *   width N                       up to N calls at once from here on; 1 at the start
 *   crowd N                       so many processes that do nothing besides; 0 at the start
 *   call LABEL PROGRAM STDIN ARGS ENV…
 *                                 starts a call (STDIN: a file; ARGS: separated by blanks; each of them may be -), then waits
 *                                 while N are under way
 *   join                          waits for all that are under way
 *   clock LABEL PID               CPU time of a process so far
 *   mark LABEL                    the time
 *   pause MICROSECONDS
 *   →  call LABEL wall-ns user-us system-us peak-kB status stdout-bytes [stdout, where the status is not 0]
 *   →  clock LABEL ns             of clock and of mark
 *
 * The clock runs from before vfork() until stdout is at its end and the child is reaped. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_FIELDS 64
#define MAX_WIDTH 256
#define MAX_ARGS 8
#define MAX_CROWD 4096
#define INPUT_MAX 65536 /* what a pipe takes without a reader */

struct call {
	char label[128];
	pid_t pid;
	int64_t start_ns;
	int output;
	size_t bytes;
	char head[512];
};

static struct call running[MAX_WIDTH];
static unsigned under_way, width = 1;
static int nowhere;
static pid_t crowd[MAX_CROWD];
static unsigned in_crowd;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t now_ns(clockid_t clock)
{
	struct timespec time;

	if (clock_gettime(clock, &time) < 0)
		die("clock");
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void set_lo(int up)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = up ? IFF_UP | IFF_RUNNING : 0};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		_exit(1);
}

static void set_address(void)
{
	struct ifreq request = {.ifr_name = "lo:pod"};
	struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	address->sin_family = AF_INET;
	address->sin_addr.s_addr = htonl(0x0a4e0001);
	if (fd < 0 || ioctl(fd, SIOCSIFADDR, &request) < 0)
		_exit(1);
}

static void make_namespace(const char *path, int up)
{
	int status, fd = open(path, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0600);
	pid_t child;

	if (fd < 0)
		die(path);
	close(fd);
	child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWNET) < 0)
			_exit(1);
		set_address();
		set_lo(up);
		_exit(mount("/proc/self/ns/net", path, NULL, MS_BIND, NULL) < 0);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
		die("making a namespace");
}

static void set_loopback(const char *path, int up)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (setns(open(path, O_RDONLY | O_CLOEXEC), CLONE_NEWNET) < 0)
			_exit(1);
		set_lo(up);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
		die("setting lo");
}

static void remove_namespace(const char *path)
{
	if (umount2(path, MNT_DETACH) < 0 || unlink(path) < 0)
		die(path);
}

/* The reading end of a pipe that holds the file. */
static int open_input(const char *path)
{
	static char bytes[INPUT_MAX];
	int file, ends[2];
	ssize_t length;

	if (strcmp(path, "-") == 0)
		return nowhere;
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || pipe2(ends, O_CLOEXEC) < 0)
		die(path);
	length = read(file, bytes, sizeof bytes);
	if (length < 0 || write(ends[1], bytes, (size_t)length) != length)
		die(path);
	close(file);
	close(ends[1]);
	return ends[0];
}

static void start(char **fields, int count)
{
	struct call *call = &running[under_way++];
	char *argv[MAX_ARGS + 2] = {fields[2], NULL};
	int input = open_input(fields[3]), ends[2];

	fields[count] = NULL;
	if (strcmp(fields[4], "-") != 0)
		for (char *rest = fields[4], **next = argv + 1; rest && next <= argv + MAX_ARGS;)
			*next++ = strsep(&rest, " ");
	if (pipe2(ends, O_CLOEXEC) < 0)
		die("pipe");
	call->output = ends[0];
	call->bytes = 0;
	snprintf(call->label, sizeof call->label, "%s", fields[1]);
	call->start_ns = now_ns(CLOCK_MONOTONIC);
	call->pid = vfork();
	if (call->pid == 0) {
		if (dup2(input, 0) < 0 || dup2(ends[1], 1) < 0 || dup2(nowhere, 2) < 0)
			_exit(126);
		execve(fields[2], argv, fields + 5);
		_exit(127);
	}
	if (call->pid < 0)
		die("vfork");
	close(ends[1]);
	if (input != nowhere)
		close(input);
}

static void report(struct call *call)
{
	struct rusage usage;
	int64_t wall_ns;
	int status, code;

	if (wait4(call->pid, &status, 0, &usage) < 0)
		die("wait4");
	wall_ns = now_ns(CLOCK_MONOTONIC) - call->start_ns;
	code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	printf("call\t%s\t%lld\t%lld\t%lld\t%ld\t%d\t%zu", call->label, (long long)wall_ns,
	       (long long)usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec,
	       (long long)usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec, usage.ru_maxrss, code, call->bytes);
	if (code != 0) {
		size_t length = call->bytes < sizeof call->head - 1 ? call->bytes : sizeof call->head - 1;

		for (size_t i = 0; i < length; i++)
			if (call->head[i] == '\n' || call->head[i] == '\t')
				call->head[i] = ' ';
		call->head[length] = '\0';
		printf("\t%s", call->head);
	}
	putchar('\n');
	close(call->output);
}

/* True at the end of its output. */
static int drain(struct call *call)
{
	char rest[65536];
	ssize_t got = read(call->output, rest, sizeof rest);

	if (got < 0 && errno == EINTR)
		return 0;
	if (got < 0)
		die("reading stdout");
	if (call->bytes < sizeof call->head) {
		size_t room = sizeof call->head - call->bytes;

		memcpy(call->head + call->bytes, rest, (size_t)got < room ? (size_t)got : room);
	}
	call->bytes += (size_t)got;
	return got == 0;
}

static void wait_below(unsigned limit)
{
	struct pollfd ends[MAX_WIDTH];

	while (under_way > 0 && under_way >= limit) {
		for (unsigned i = 0; i < under_way; i++)
			ends[i] = (struct pollfd){.fd = running[i].output, .events = POLLIN};
		if (poll(ends, under_way, -1) < 0 && errno != EINTR)
			die("poll");
		/* From the end, so that the last one can take a finished one's place. */
		for (unsigned i = under_way; i-- > 0;)
			if (ends[i].revents && drain(&running[i])) {
				report(&running[i]);
				running[i] = running[--under_way];
			}
	}
}

static void print_clock(const char *label, pid_t pid)
{
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0)
		die("clock of a process");
	printf("clock\t%s\t%lld\n", label, (long long)now_ns(clock));
}

static void set_crowd(unsigned wanted)
{
	for (; in_crowd < wanted; in_crowd++) {
		crowd[in_crowd] = fork();
		if (crowd[in_crowd] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		if (crowd[in_crowd] < 0)
			die("fork");
	}
	for (; in_crowd > wanted; in_crowd--)
		if (kill(crowd[in_crowd - 1], SIGKILL) < 0 || waitpid(crowd[in_crowd - 1], NULL, 0) < 0)
			die("kill");
}

static void obey(char **fields, int count)
{
	const char *order = fields[0];

	if (strcmp(order, "call") == 0 && count >= 5) {
		start(fields, count);
		wait_below(width);
	} else if (strcmp(order, "namespace") == 0 && count == 3) {
		make_namespace(fields[1], strcmp(fields[2], "up") == 0);
	} else if (strcmp(order, "loopback") == 0 && count == 3) {
		set_loopback(fields[1], strcmp(fields[2], "up") == 0);
	} else if (strcmp(order, "remove") == 0 && count == 2) {
		remove_namespace(fields[1]);
	} else if (strcmp(order, "clock") == 0 && count == 3) {
		print_clock(fields[1], (pid_t)atoi(fields[2]));
	} else if (strcmp(order, "mark") == 0 && count == 2) {
		printf("clock\t%s\t%lld\n", fields[1], (long long)now_ns(CLOCK_MONOTONIC));
	} else if (strcmp(order, "pause") == 0 && count == 2) {
		usleep((useconds_t)atoi(fields[1]));
	} else if (strcmp(order, "crowd") == 0 && count == 2 && atoi(fields[1]) >= 0 && atoi(fields[1]) <= MAX_CROWD) {
		set_crowd((unsigned)atoi(fields[1]));
	} else if (strcmp(order, "join") == 0) {
		wait_below(1);
	} else if (strcmp(order, "width") == 0 && count == 2 && atoi(fields[1]) > 0 && atoi(fields[1]) <= MAX_WIDTH) {
		width = (unsigned)atoi(fields[1]);
	} else {
		fprintf(stderr, "call-timer: no such order: %s\n", order);
		exit(2);
	}
}

int main(void)
{
	char *line = NULL, *fields[MAX_FIELDS + 1];
	size_t room = 0;

	nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nowhere < 0)
		die("/dev/null");
	while (getline(&line, &room, stdin) > 0) {
		int count = 0;

		line[strcspn(line, "\n")] = '\0';
		for (char *rest = line; rest && count < MAX_FIELDS; count++)
			fields[count] = strsep(&rest, "\t");
		obey(fields, count);
	}
	wait_below(1);
	set_crowd(0);
	return fflush(stdout) == 0 ? 0 : 1;
}
