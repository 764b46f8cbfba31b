/* What a command costs, all processes that it waits for included.
 *     runner REPORT COMMAND ARGUMENT...
 * Writes "wall cpu peak" to the file REPORT: seconds, seconds (user and system), and the KiB of
 * the largest single process. A small program does the fork, because a process begins with the
 * peak of the one that it was forked from. Exits as the command does, which ends when this does. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

int main(int argc, char **argv) {
  struct rusage usage;
  int status;
  if (argc < 3) return fprintf(stderr, "runner REPORT COMMAND ARGUMENT...\n"), 2;
  const double start = now();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    _exit(127);
  }
  if (child < 0 || wait4(child, &status, 0, &usage) != child) return perror("runner"), 2;
  const double wall = now() - start;
  FILE *report = fopen(argv[1], "w");
  if (!report) return perror(argv[1]), 2;
  fprintf(report, "%.9f %.6f %ld\n", wall, seconds(usage.ru_utime) + seconds(usage.ru_stime),
          usage.ru_maxrss);
  if (fclose(report)) return perror(argv[1]), 2;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
