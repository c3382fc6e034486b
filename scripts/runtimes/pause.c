/* The whole content of the sandbox image: waits for SIGTERM or SIGINT, then ends. A first process of a PID namespace gets no
 * signal that it does not ask for, so it asks. Built static by setup.sh. */
#include <signal.h>

int main(void) {
  sigset_t awaited;
  int received;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGTERM);
  sigaddset(&awaited, SIGINT);
  sigprocmask(SIG_BLOCK, &awaited, 0);
  return sigwait(&awaited, &received);
}
