/* profiling.h - Timer: how long work on a device takes. */
#ifndef TVM_RUNTIME_PROFILING_H_
#define TVM_RUNTIME_PROFILING_H_

#include <tvm/runtime/packed_func.h>

#include <chrono>

MBLOB_FACE_BEGIN

class MBLOB_HIDDEN TimerNode : public Object {
 public:
  static constexpr const char *_type_key = "TimerNode";
  TVM_DECLARE_BASE_OBJECT_INFO(TimerNode, Object);
  virtual void Start() = 0;
  virtual void Stop() = 0;
  /* Nanoseconds from Start to Stop, work on the device included. */
  virtual int64_t SyncAndGetElapsedNanos() = 0;
};

namespace detail {
class MBLOB_HIDDEN DefaultTimerNode : public TimerNode {
 public:
  explicit DefaultTimerNode(Device device) : device_(device) {}
  void Start() override {
    Wait();
    start_ = std::chrono::steady_clock::now();
  }
  void Stop() override {
    Wait();
    end_ = std::chrono::steady_clock::now();
  }
  int64_t SyncAndGetElapsedNanos() override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(end_ - start_).count();
  }

 private:
  void Wait() const {
    if (device_.device_type != kDLCPU)
      CheckCall(TVMSynchronize(device_.device_type, device_.device_id, nullptr));
  }
  Device device_;
  std::chrono::steady_clock::time_point start_, end_;
};
}  // namespace detail

class MBLOB_HIDDEN Timer : public ObjectRef {
 public:
  TVM_DEFINE_MUTABLE_OBJECT_REF_METHODS(Timer, ObjectRef, TimerNode);
  /* A timer that runs. */
  static Timer Start(Device device) {
    Timer timer{ObjectPtr<Object>(make_object<detail::DefaultTimerNode>(device))};
    timer->Start();
    return timer;
  }
};

MBLOB_FACE_END

#endif /* TVM_RUNTIME_PROFILING_H_ */
