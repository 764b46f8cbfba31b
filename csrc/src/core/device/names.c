#include "core/device/names.h"

#include <stdio.h>

/* The numbers of TVM 0.11 and later; those from 32 on are TVM's own. */
static const struct {
  uint8_t type;
  char name[13];
} names[] = {{1, "cpu"},        {2, "cuda"},     {3, "cuda_host"},     {4, "opencl"},
             {7, "vulkan"},     {8, "metal"},    {9, "vpi"},           {10, "rocm"},
             {11, "rocm_host"}, {12, "ext_dev"}, {13, "cuda_managed"}, {14, "oneapi"},
             {15, "webgpu"},    {16, "hexagon"}, {17, "maia"},         {32, "aocl"},
             {33, "sdaccel"},   {34, "opengl"},  {35, "microdev"}};

const char *mb_device_name(int device_type) {
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (names[i].type == device_type) return names[i].name;
  return NULL;
}

const char *mb_device_text(DLDevice device, char text[MB_DEVICE_TEXT]) {
  const char *name = mb_device_name((int)device.device_type);
  if (name)
    (void)snprintf(text, MB_DEVICE_TEXT, "%s(%d)", name, (int)device.device_id);
  else
    (void)snprintf(text, MB_DEVICE_TEXT, "device_type_%d(%d)", (int)device.device_type,
                   (int)device.device_id);
  return text;
}
