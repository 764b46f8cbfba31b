/* Read a numpy .npy file of uint8 images, as written by numpy.save (format 1.0, C order). */
#ifndef DIGITS_NPY_H
#define DIGITS_NPY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pixels of `path`, an array uint8 [n,8,8]; free() them. NULL, with a line on stderr, if it is
 * anything else. */
static uint8_t *npy_read_images(const char *path, int64_t *n) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    return NULL;
  }
  unsigned char head[10]; /* magic, version, u16 length of the header text */
  char text[1024] = "";
  long long count = 0;
  uint8_t *pixels = NULL;
  const char *problem = NULL;
  if (fread(head, 1, sizeof head, file) != sizeof head ||
      memcmp(head, "\x93NUMPY\x01\x00", 8) != 0) {
    problem = "expected a .npy file, format 1.0";
  } else {
    const size_t length = head[8] | (size_t)head[9] << 8;
    if (length >= sizeof text || fread(text, 1, length, file) != length)
      problem = "a damaged .npy header";
  }
  if (problem == NULL) {
    const char *shape = strstr(text, "'shape': (");
    int end = 0;
    if (strstr(text, "'descr': '|u1'") == NULL || strstr(text, "'fortran_order': False") == NULL ||
        shape == NULL || sscanf(shape, "'shape': (%lld, 8, 8)%n", &count, &end) != 1 || end == 0 ||
        count < 1 || count > 1000000)
      problem = "expected an array uint8 [n,8,8], n from 1 to 1000000";
  }
  if (problem == NULL) {
    const size_t size = (size_t)count * 64;
    pixels = malloc(size);
    if (pixels == NULL || fread(pixels, 1, size, file) != size) {
      problem = pixels == NULL ? "out of memory" : "the file ends before its last image";
      free(pixels);
      pixels = NULL;
    }
  }
  fclose(file);
  if (problem != NULL) fprintf(stderr, "%s: %s\n", path, problem);
  *n = pixels == NULL ? 0 : (int64_t)count;
  return pixels;
}

#endif
