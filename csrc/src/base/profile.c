#include "base/profile.h"

#include <stddef.h>
#include <string.h>

_Atomic(const struct mb_profile *) mb_profile_in_use;

void *mb_profile_symbol(const char *name) {
  const struct mb_profile *profile = mb_profile_of_program();
  return profile ? profile->symbol(name) : NULL;
}

bool mb_list_has(const char *list, const char *item) {
  size_t size = strlen(item);
  for (const char *p = list; size && (p = strstr(p, item)); p++)
    if ((p == list || p[-1] == ',' || p[-1] == ' ') && (p[size] == ',' || !p[size])) return true;
  return false;
}

static const char *hint_of(const char *hints, const char *name) {
  for (const char *names = hints, *hint; *names; names = hint + strlen(hint) + 1) {
    hint = names + strlen(names) + 1;
    if (mb_list_has(names, name)) return hint;
  }
  return NULL;
}

const char *mb_profile_hint(const char *name, const char *others) {
  const struct mb_profile *profile = mb_profile_of_program();
  const char *hint = profile && profile->elsewhere ? hint_of(profile->elsewhere, name) : NULL;
  return hint ? hint : hint_of(others, name);
}
