/* minimal.h - what errors say of what MBLOB_PROFILE_MINIMAL leaves out. The files of this folder, and of its folders for one
 * profile, stand for the files of src/ that are left out (csrc/amalgamation.py has the list): they do less, or refuse. */
#ifndef MB_MINIMAL_H
#define MB_MINIMAL_H

#define MB_MORE_IN_CORE \
  "; this build of mblob.c has MBLOB_PROFILE_MINIMAL: compile it without this macro"

#endif
