/* random_engine.h - LinearCongruentialEngine: random numbers whose state is a number of the caller's.
 * The same numbers as std::minstd_rand. */
#ifndef TVM_SUPPORT_RANDOM_ENGINE_H_
#define TVM_SUPPORT_RANDOM_ENGINE_H_

#include <tvm/runtime/logging.h>

#include <cstdint>
#include <random>

namespace tvm {
namespace support MBLOB_HIDDEN {

class MBLOB_HIDDEN LinearCongruentialEngine {
 public:
  using TRandState = int64_t;
  using result_type = uint64_t;
  static constexpr uint64_t multiplier = 48271;
  static constexpr uint64_t increment = 0;
  static constexpr uint64_t modulus = 2147483647;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return modulus - 1; }

  explicit LinearCongruentialEngine(TRandState *state) : state_(state) {}
  static TRandState DeviceRandom() {
    return static_cast<TRandState>(std::random_device()() % modulus);
  }
  /* -1: any. Never 0, from which nothing else follows. */
  static TRandState NormalizeSeed(TRandState seed) {
    const TRandState given = seed == -1 ? DeviceRandom() : seed;
    const auto state = static_cast<TRandState>(static_cast<uint64_t>(given) % modulus);
    return state == 0 ? 1 : state;
  }
  void Seed(TRandState seed) { *state_ = NormalizeSeed(seed); }
  /* A seed for another engine. */
  TRandState ForkSeed() { return static_cast<TRandState>(((*this)() * 32767) % 1999999973); }
  result_type operator()() {
    *state_ = static_cast<TRandState>((static_cast<uint64_t>(*state_) * multiplier + increment) %
                                      modulus);
    return static_cast<result_type>(*state_);
  }

 private:
  TRandState *state_;
};

}  // namespace support MBLOB_HIDDEN
}  // namespace tvm

#endif /* TVM_SUPPORT_RANDOM_ENGINE_H_ */
