# How libmblob is built, whoever builds it: csrc/Makefile, tests/c/Makefile, and setup.py, which has no make and
# reads the lines `NAME := value` itself. One line each, no references to other variables but $(SONAME).
SONAME := libmblob.so.0
COMPILE := -std=gnu11 -fPIC -fvisibility=hidden -pthread -DMBLOB_HOST
# nodelete: threads free their memory through keys whose destructors are here, however late they end.
LINK := -pthread -Wl,-soname,$(SONAME) -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete -Wl,-z,noexecstack
LDLIBS := -ldl
