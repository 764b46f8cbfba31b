/* device_types.h - types of devices: their names, and what their memory is. Made by mblob/device_types.py. */
#ifndef MB_DEVICE_TYPES_H
#define MB_DEVICE_TYPES_H

#define MB_DEVICE_NAMES  \
  {1, "cpu"}, \
  {2, "cuda"}, \
  {3, "cuda_host"}, \
  {4, "opencl"}, \
  {7, "vulkan"}, \
  {8, "metal"}, \
  {9, "vpi"}, \
  {10, "rocm"}, \
  {11, "rocm_host"}, \
  {12, "ext_dev"}, \
  {13, "cuda_managed"}, \
  {14, "oneapi"}, \
  {15, "webgpu"}, \
  {16, "hexagon"}, \
  {17, "maia"}, \
  {32, "aocl"}, \
  {33, "sdaccel"}, \
  {34, "opengl"}, \
  {35, "microdev"}
#define MB_DEVICE_NAME_SIZE 13
#define MB_DEVICES_HOST 0x80aull
#define MB_DEVICES_READ_BY_HOST 0x280aull
#define MB_DEVICES_OF_ADDRESSES 0x2c0eull
#define MB_DEVICES_OF_HANDLES 0x8190ull

#endif
