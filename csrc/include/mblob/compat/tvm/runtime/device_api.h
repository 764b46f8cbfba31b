/* device_api.h - DeviceAPI: memory, copies and streams of a device, the host or one that a
 * plug-in brings. */
#ifndef TVM_RUNTIME_DEVICE_API_H_
#define TVM_RUNTIME_DEVICE_API_H_

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>

MBLOB_FACE_BEGIN

/* Bytes: what tensors are aligned to at least; what CopyDataFromTo and kernels of TVM 0.10 and
 * later assume.
 */
inline constexpr int kAllocAlignment = 64;
inline constexpr int kTempAllocaAlignment = 64;
inline constexpr int kDefaultWorkspaceAlignment = 1;
inline constexpr int kMaxStackAlloca = 1024; /* bytes up to which compiled code uses the stack */

/* What GetAttr can be asked for. */
enum DeviceAttrKind : int {
  kExist = 0,
  kMaxThreadsPerBlock = 1,
  kWarpSize = 2,
  kMaxSharedMemoryPerBlock = 3,
  kComputeVersion = 4,
  kDeviceName = 5,
  kMaxClockRate = 6,
  kMultiProcessorCount = 7,
  kMaxThreadDimensions = 8,
  kMaxRegistersPerBlock = 9,
  kGcnArch = 10,
  kApiVersion = 11,
  kDriverVersion = 12,
  kL2CacheSizeBytes = 13,
  kTotalGlobalMemory = 14,
  kAvailableGlobalMemory = 15,
  kImagePitchAlignment = 16
};

/* "cuda" for 2, ... Under this name from 0.12 on, as DeviceName before. */
inline const char *DLDeviceType2Str(int type) {
  switch (type) {
    case kDLCPU: return "cpu";
    case kDLCUDA: return "cuda";
    case kDLCUDAHost: return "cuda_host";
    case kDLOpenCL: return "opencl";
    case kDLVulkan: return "vulkan";
    case kDLMetal: return "metal";
    case kDLVPI: return "vpi";
    case kDLROCM: return "rocm";
    case kDLROCMHost: return "rocm_host";
    case kDLExtDev: return "ext_dev";
    case kDLCUDAManaged: return "cuda_managed";
    case kDLOneAPI: return "oneapi";
    case kDLWebGPU: return "webgpu";
    case kDLHexagon: return "hexagon";
    case kDLAOCL: return "aocl";
    case kDLSDAccel: return "sdaccel";
    case kOpenGL: return "opengl";
    case kDLMicroDev: return "microdev";
    default: throw InternalError("unknown device type " + std::to_string(type));
  }
}

inline const char *DeviceName(int type) { return DLDeviceType2Str(type); }

/* Devices of other machines have numbers from here on; this runtime has none, programs may ask. */
inline constexpr int kRPCSessMask = 128;
inline bool IsRPCSessionDevice(Device device) { return device.device_type / kRPCSessMask > 0; }
inline int GetRPCSessionIndex(Device device) {
  ICHECK(IsRPCSessionDevice(device)) << "GetRPCSessionIndex: the device has no RPC session";
  return device.device_type / kRPCSessMask - 1;
}
inline Device RemoveRPCSessionMask(Device device) {
  device.device_type = static_cast<DLDeviceType>(device.device_type % kRPCSessMask);
  return device;
}

/* "cuda:0". */
inline std::ostream &operator<<(std::ostream &os, DLDevice device) {
  if (IsRPCSessionDevice(device)) os << "remote[" << GetRPCSessionIndex(device) << "]-";
  device = RemoveRPCSessionMask(device);
  return os << DLDeviceType2Str(static_cast<int>(device.device_type)) << ':' << device.device_id;
}

class MBLOB_HIDDEN DeviceAPI {
 public:
  /* For a device without a runtime: throws, or null with `allow_missing`. */
  static DeviceAPI *Get(Device device, bool allow_missing = false) {
    static DeviceAPI host;
    const int rc = TVMSynchronize(device.device_type, device.device_id, nullptr);
    if (rc != 0 && allow_missing) return nullptr;
    detail::CheckCall(rc);
    return &host;
  }

  void SetDevice(Device device) {
    detail::RuntimeFunction("__tvm_set_device")(static_cast<int>(device.device_type),
                                                device.device_id);
  }
  static bool NeedSetDevice(int device_type) { return device_type != kDLCPU; }
  /* Nothing where the device does not tell it, or is not there (kExist: 0). */
  void GetAttr(Device device, DeviceAttrKind kind, TVMRetValue *rv) {
    *rv = detail::RuntimeFunction("runtime.GetDeviceAttr")(
        static_cast<int>(device.device_type), device.device_id, static_cast<int>(kind));
  }
  std::size_t GetDataSize(const DLTensor &tensor, const Optional<String> & = NullOpt) {
    return runtime::GetDataSize(tensor);
  }
  void *AllocDataSpace(Device device, std::size_t nbytes, std::size_t alignment,
                       DLDataType type_hint) {
    void *data = nullptr;
    detail::CheckCall(TVMDeviceAllocDataSpace(device, nbytes, alignment, type_hint, &data));
    return data;
  }
  /* Memory for a tensor of that shape; `mem_scope` is "global" or nothing. */
  void *AllocDataSpace(Device device, int ndim, const int64_t *shape, DLDataType dtype,
                       const Optional<String> &mem_scope = NullOpt) {
    void *data = nullptr;
    detail::CheckCall(TVMDeviceAllocDataSpaceWithScope(
        device, ndim, shape, dtype, mem_scope.defined() ? mem_scope.value().c_str() : nullptr,
        &data));
    return data;
  }
  /* Scratch memory, kept for the next call of this thread, which gives it back too. */
  void *AllocWorkspace(Device device, std::size_t nbytes, DLDataType type_hint = {}) {
    void *data = TVMBackendAllocWorkspace(device.device_type, device.device_id, nbytes,
                                          type_hint.code, type_hint.bits);
    if (!data) detail::ThrowLastError();
    return data;
  }
  void FreeWorkspace(Device device, void *data) {
    detail::CheckCall(TVMBackendFreeWorkspace(device.device_type, device.device_id, data));
  }
  void FreeDataSpace(Device device, void *data) {
    detail::CheckCall(TVMDeviceFreeDataSpace(device, data));
  }
  void CopyDataFromTo(DLTensor *from, DLTensor *to, TVMStreamHandle stream) {
    detail::CheckCall(TVMDeviceCopyDataFromTo(from, to, stream));
  }
  TVMStreamHandle CreateStream(Device device) {
    TVMStreamHandle stream = nullptr;
    detail::CheckCall(TVMStreamCreate(device.device_type, device.device_id, &stream));
    return stream;
  }
  void FreeStream(Device device, TVMStreamHandle stream) {
    detail::CheckCall(TVMStreamFree(device.device_type, device.device_id, stream));
  }
  void SetStream(Device device, TVMStreamHandle stream) {
    detail::CheckCall(TVMSetStream(device.device_type, device.device_id, stream));
  }
  void SyncStreamFromTo(Device device, TVMStreamHandle before, TVMStreamHandle after) {
    detail::CheckCall(
        TVMStreamStreamSynchronize(device.device_type, device.device_id, before, after));
  }
  void StreamSync(Device device, TVMStreamHandle stream) {
    detail::CheckCall(TVMSynchronize(device.device_type, device.device_id, stream));
  }
};

MBLOB_FACE_END

#endif /* TVM_RUNTIME_DEVICE_API_H_ */
