# $(call files_in,FOLDERS,PATTERN): all files below, found by make itself: a machine that compiles may have no find(1).
files_in = $(sort $(foreach f,$(wildcard $(addsuffix /*,$(1))),$(call files_in,$(f),$(2)) $(filter $(2),$(f))))
# The same, and an error where there are none: a library of nothing would link.
some_files_in = $(or $(call files_in,$(1),$(2)),$(error no $(2) in $(1): the source tree is not complete))
