/* connect-rate SERVER DIALLED SECONDS: new TCP connections through the rules of this namespace, one after another.
 * SERVER and DIALLED are ADDRESS:PORT (IPv4). Prints connections a second of this process's CPU time, which another load
 * on the machine does not change; loopback's packets are handled in the caller's time. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in read_address(char *text)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	char *colon = strchr(text, ':');

	*colon = '\0';
	if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
		exit(2);
	address.sin_port = htons((uint16_t)atoi(colon + 1));
	return address;
}

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Reset on close: the port is free at once. */
static void reset(int fd)
{
	struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in server, dialled;
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	double start, seconds;
	long count = 0;

	if (argc != 4)
		return 2;
	server = read_address(argv[1]);
	dialled = read_address(argv[2]);
	seconds = atof(argv[3]);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (struct sockaddr *)&server, sizeof server) < 0 || listen(listener, 8) < 0) {
		perror("listen");
		return 1;
	}
	for (start = cpu_seconds(); cpu_seconds() - start < seconds; count++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), accepted;

		if (connect(fd, (struct sockaddr *)&dialled, sizeof dialled) < 0) {
			perror("connect");
			return 1;
		}
		accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		reset(fd);
		close(accepted);
	}
	printf("%.0f\n", (double)count / (cpu_seconds() - start));
	return 0;
}
