/* Threads for work that may block or enter a pod's namespace. */
#ifndef AETHER_WORKERS_H
#define AETHER_WORKERS_H

/* Part of what is handed over, which stays until `run` gets it: that one owns it. */
struct work {
	struct work *next; /* while no thread has it */
	void (*run)(struct work *work);
};

/* Runs it on a thread: at once while few are at work, otherwise in the order of arrival. 0, or an errno: it will not be run. Only
 * from a thread that is home. */
int ae_hand_over(struct work *work);

/* How many are at work at once while none takes long. */
unsigned ae_worker_count(void);

#endif
