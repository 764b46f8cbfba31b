/* Changes of the process by loading a library: handlers of signals, the locale. Nothing is put back, because the
 * library may need it; the host is told. */
#define _GNU_SOURCE
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "core/link/link.h"

#define CHANGES_SIZE 512 /* bytes of a text */

static uintptr_t handler_of(int signal) {
  struct sigaction now;
  return sigaction(signal, NULL, &now) == 0 ? (uintptr_t)now.sa_handler : 0;
}

void mb_process_state_take(struct mb_process_state *state) {
  const char *locale = setlocale(LC_ALL, NULL);
  for (int i = 1; i < MB_SIGNALS; i++) state->handlers[i] = handler_of(i);
  (void)snprintf(state->locale, sizeof(state->locale), "%s", locale ? locale : "");
}

char *mb_process_state_changes(const struct mb_process_state *before) {
  char text[CHANGES_SIZE] = "";
  size_t used = 0;
  for (int i = 1; i < MB_SIGNALS; i++)
    if (handler_of(i) != before->handlers[i] && used < sizeof(text))
      used += (size_t)snprintf(text + used, sizeof(text) - used, "%sthe handler of signal %d (%s)",
                               used ? ", " : "", i, strsignal(i));
  const char *locale = setlocale(LC_ALL, NULL);
  if (locale && strncmp(locale, before->locale, sizeof(before->locale) - 1) != 0 &&
      used < sizeof(text))
    used += (size_t)snprintf(text + used, sizeof(text) - used, "%sthe locale, %.64s to %.64s",
                             used ? ", " : "", before->locale, locale);
  return used ? strdup(text) : NULL;
}
