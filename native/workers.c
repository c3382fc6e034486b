/* Threads for work that may block or enter a pod's namespace. A piece of work has a thread to itself, so one that enters a namespace
 * needs no second one. Some threads wait for the next pieces, but none that was ever elsewhere: such a one ends, and begins another
 * in its place.
 *
 * A crowd of pods is worked at by about as many threads as there are processors, first come, first served: more of them only wait for
 * the kernel's locks and take the processor from each other, and all are late instead of one. Work that hangs must not keep
 * others waiting: where nobody has come for the next piece for a while, it gets a thread beyond these. */
#define _GNU_SOURCE
#include "workers.h"
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define STACK_BYTES (256 * 1024)
/* Threads that wait for a next piece: what one ADD needs at once. */
#define IDLE_MAX 3
/* Beside one for each processor: some wait for a lock or a grace period. */
#define BESIDE 2
#define PATIENCE_NS (100 * 1000 * 1000L)

struct worker {
	struct worker *next; /* while it waits */
	struct work *work;
	pthread_cond_t came;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker *idle;
static unsigned idle_count, busy_count;
static struct work *queue, **queue_end = &queue;
/* When it was last begun or shortened. */
static struct timespec moved;
static pthread_cond_t grew = PTHREAD_COND_INITIALIZER;
static int has_watcher;

static unsigned worker_count = 1 + BESIDE;
static pthread_once_t counted = PTHREAD_ONCE_INIT;

static void count_workers(void)
{
	cpu_set_t ours;

	if (sched_getaffinity(0, sizeof ours, &ours) == 0)
		worker_count = (unsigned)CPU_COUNT(&ours) + BESIDE;
}

unsigned ae_worker_count(void)
{
	pthread_once(&counted, count_workers);
	return worker_count;
}

static void enqueue(struct work *work)
{
	work->next = NULL;
	*queue_end = work;
	queue_end = &work->next;
	if (queue != work)
		return;
	clock_gettime(CLOCK_MONOTONIC, &moved);
	pthread_cond_signal(&grew);
}

static struct work *dequeue(void)
{
	struct work *work = queue;

	if (work) {
		clock_gettime(CLOCK_MONOTONIC, &moved);
		queue = work->next;
		if (!queue)
			queue_end = &queue;
	}
	return work;
}

static int start_thread(void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error = pthread_attr_init(&attributes);

	if (error)
		return error;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	error = pthread_create(&thread, &attributes, run, argument);
	pthread_attr_destroy(&attributes);
	return error;
}

static void *serve(void *argument);

/* `work` NULL: it waits for its first. Whoever begins it has counted it as busy. */
static int start_worker(struct work *work)
{
	struct worker *worker = malloc(sizeof *worker);
	int error = ENOMEM;

	if (worker) {
		*worker = (struct worker){.work = work, .came = PTHREAD_COND_INITIALIZER};
		error = start_thread(serve, worker);
	}
	if (!error)
		return 0;
	free(worker);
	pthread_mutex_lock(&lock);
	busy_count--;
	pthread_mutex_unlock(&lock);
	return error;
}

/* 0: nothing is to be done, and enough others wait. */
static int find_work(struct worker *self)
{
	pthread_mutex_lock(&lock);
	self->work = dequeue();
	if (!self->work) {
		busy_count--;
		if (idle_count >= IDLE_MAX) {
			pthread_mutex_unlock(&lock);
			return 0;
		}
		self->next = idle;
		idle = self;
		idle_count++;
		/* Whoever gives it work counts it as busy. */
		while (!self->work)
			pthread_cond_wait(&self->came, &lock);
	}
	pthread_mutex_unlock(&lock);
	return 1;
}

/* Back into the queue where no thread can be had. */
static void begin_queued(struct work *work)
{
	if (!work || start_worker(work) == 0)
		return;
	pthread_mutex_lock(&lock);
	enqueue(work);
	pthread_mutex_unlock(&lock);
}

/* Elsewhere a new thread would be, too: then others take what is queued, or the watcher does. */
static void leave_successor(void)
{
	struct work *work = NULL;
	int is_wanted;

	pthread_mutex_lock(&lock);
	if (ae_place == AE_BACK_HOME)
		work = dequeue();
	is_wanted = work || (ae_place == AE_BACK_HOME && idle_count < IDLE_MAX);
	if (!is_wanted)
		busy_count--;
	pthread_mutex_unlock(&lock);
	if (work)
		begin_queued(work);
	else if (is_wanted)
		(void)start_worker(NULL);
}

static void *serve(void *argument)
{
	struct worker *self = argument;

	ae_is_passing = 1;
	while (self->work || find_work(self)) {
		self->work->run(self->work);
		self->work = NULL;
		if (ae_place != AE_AT_HOME) {
			leave_successor();
			break;
		}
	}
	free(self);
	return NULL;
}

static int is_stuck(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return queue && (now.tv_sec - moved.tv_sec) * 1000000000L + now.tv_nsec - moved.tv_nsec >= PATIENCE_NS;
}

/* Sleeps while nothing is queued. */
static void *watch(void *argument)
{
	const struct timespec patience = {.tv_nsec = PATIENCE_NS};

	(void)argument;
	for (;;) {
		struct work *work = NULL;

		pthread_mutex_lock(&lock);
		while (!queue)
			pthread_cond_wait(&grew, &lock);
		pthread_mutex_unlock(&lock);
		nanosleep(&patience, NULL);
		pthread_mutex_lock(&lock);
		if (is_stuck()) {
			work = dequeue();
			busy_count++;
		}
		pthread_mutex_unlock(&lock);
		begin_queued(work);
	}
	return NULL;
}

/* Under the lock. Without a watcher nothing may wait. */
static int may_queue(void)
{
	if (busy_count < ae_worker_count())
		return 0;
	has_watcher = has_watcher || start_thread(watch, NULL) == 0;
	return has_watcher;
}

int ae_hand_over(struct work *work)
{
	struct worker *worker;
	int is_queued = 0;

	pthread_mutex_lock(&lock);
	worker = idle;
	if (worker) {
		idle = worker->next;
		idle_count--;
		busy_count++;
		worker->work = work;
		pthread_cond_signal(&worker->came);
	} else if (may_queue()) {
		enqueue(work);
		is_queued = 1;
	} else {
		busy_count++;
	}
	pthread_mutex_unlock(&lock);
	return worker || is_queued ? 0 : start_worker(work);
}
