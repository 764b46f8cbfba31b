/* A library that the dynamic linker must refuse: its data needs a symbol that is nowhere. */
extern int nobody_has_this;
int *needs_it = &nobody_has_this;
