/* native/workers.c under the thread sanitizer, without Node: `few` or `hanging`. Says what it saw, in a line. */
#define _GNU_SOURCE
#include "../../native/internal.h"
#include "../../native/workers.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CROWD 200

_Thread_local int ae_is_passing;
_Thread_local enum ae_place ae_place;

struct piece {
	struct work work; /* first */
	int number;
};

static atomic_int at_work, most, started, out_of_order, elsewhere;
static sem_t finished, released;

static void note_start(int number)
{
	int now = atomic_fetch_add(&at_work, 1) + 1, seen = atomic_load(&most);

	while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
		;
	/* Those that run side by side may overtake each other; one whose thread had to wait moves all others by a place. */
	if (abs(number - atomic_fetch_add(&started, 1)) >= 2 * (int)ae_worker_count())
		atomic_fetch_add(&out_of_order, 1);
	if (ae_place != AE_AT_HOME)
		atomic_fetch_add(&elsewhere, 1);
}

/* Every third is elsewhere, as one that enters a pod; every ninth cannot come back. */
static void run_short(struct work *work)
{
	struct piece *piece = (struct piece *)work;

	note_start(piece->number);
	usleep(20000);
	if (piece->number % 3 == 0)
		ae_place = piece->number % 9 == 0 ? AE_AWAY : AE_BACK_HOME;
	atomic_fetch_sub(&at_work, 1);
	free(piece);
	sem_post(&finished);
}

static void run_hanging(struct work *work)
{
	while (sem_wait(&released) < 0 && errno == EINTR)
		;
	free(work);
	sem_post(&finished);
}

static void run_releasing(struct work *work)
{
	for (unsigned i = 0; i < ae_worker_count(); i++)
		sem_post(&released);
	free(work);
	sem_post(&finished);
}

static int give(void (*run)(struct work *), int number)
{
	struct piece *piece = malloc(sizeof *piece);

	*piece = (struct piece){.work.run = run, .number = number};
	return ae_hand_over(&piece->work);
}

static void await(int count)
{
	while (count > 0)
		if (sem_wait(&finished) == 0)
			count--;
}

int main(int argc, char **argv)
{
	int count = (int)ae_worker_count();

	sem_init(&finished, 0, 0);
	sem_init(&released, 0, 0);
	if (argc == 2 && strcmp(argv[1], "few") == 0) {
		for (int i = 0; i < CROWD; i++)
			if (give(run_short, i) != 0)
				return 1;
		await(CROWD);
		/* On a busy machine the watcher takes slow threads for hanging ones, and a late thread starts its piece late. */
		printf("few=%d order=%d home=%d\n", atomic_load(&most) <= CROWD / 8, atomic_load(&out_of_order) <= CROWD / 8,
		       atomic_load(&elsewhere) == 0);
		return 0;
	}
	for (int i = 0; i < count; i++)
		if (give(run_hanging, i) != 0)
			return 1;
	if (give(run_releasing, count) != 0)
		return 1;
	await(count + 1);
	puts("released");
	return 0;
}
