/* vector_types.h - the OpenCL-like vectors that TVM's C generator writes, as C++17 classes.
 *
 * `float4(a, b, c, d)`, `(float4)(x, x, x, x)` (a comma expression: every lane is x), `v.s0`,
 * arithmetic, and `*(float4*)p` on data that is aligned like one element. Included by
 * c_backend_api.h in C++; define MBLOB_NO_VECTOR_TYPES where these names mean something else.
 * Sources that mblob itself packs do not need it: they are rewritten, with all widths and
 * operators (docs/vectors.md).
 *
 * Minimum and maximum arrive as `(a) < (b) ? (a) : (b)` over named vectors, meant lane by lane.
 * C++ can only pick one operand, so the comparison stores the lane-wise choice in `a`, answers
 * "a", and puts the old value back at the end of the full expression. Other selections between
 * vectors do not compile. */
#ifndef TVM_RUNTIME_VECTOR_TYPES_H_
#define TVM_RUNTIME_VECTOR_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#define MBLOB_VEC_INLINE __attribute__((always_inline)) inline

namespace mblob_vec __attribute__((visibility("hidden"))) {

  /* What the compiler computes with; N lanes, aligned like one. */
  template <typename T, int N>
  struct native {
    typedef T type __attribute__((vector_size(N * sizeof(T)), aligned(alignof(T)), may_alias));
  };
  template <typename T>
  struct native<T, 3> { /* no vector unit has three lanes: computed one by one */
    struct type {};
  };

  template <typename T, int N>
  struct lanes;

#define MBLOB_VEC_LANES(N, ...)         \
  template <typename T>                 \
  struct lanes<T, N> {                  \
    __extension__ union {               \
      T lane[N];                        \
      typename native<T, N>::type simd; \
      __extension__ struct {            \
        T __VA_ARGS__;                  \
      };                                \
    };                                  \
  };
  MBLOB_VEC_LANES(2, s0, s1)
  MBLOB_VEC_LANES(3, s0, s1, s2)
  MBLOB_VEC_LANES(4, s0, s1, s2, s3)
  MBLOB_VEC_LANES(8, s0, s1, s2, s3, s4, s5, s6, s7)
  MBLOB_VEC_LANES(16, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf)
#undef MBLOB_VEC_LANES

  template <int N, int M>
  struct same_count;
  template <int N>
  struct same_count<N, N> {
    typedef int yes;
  };

  template <typename T, int N>
  struct __attribute__((may_alias)) vec : lanes<T, N> {
    vec() = default;
    MBLOB_VEC_INLINE vec(T all) {
      for (int i = 0; i < N; ++i) this->lane[i] = all;
    }
    template <typename... A, typename same_count<sizeof...(A), N>::yes = 0>
    MBLOB_VEC_INLINE vec(A... each) {
      const T values[N] = {static_cast<T>(each)...};
      for (int i = 0; i < N; ++i) this->lane[i] = values[i];
    }
    /* Not trivial, so that an operand is read when it is evaluated and not when the operator
     * runs. */
    MBLOB_VEC_INLINE vec(const vec &o) { assign(o); }
    MBLOB_VEC_INLINE vec &operator=(const vec &o) {
      assign(o);
      return *this;
    }
    template <typename U>
    MBLOB_VEC_INLINE explicit vec(const vec<U, N> &o) {
      for (int i = 0; i < N; ++i) this->lane[i] = static_cast<T>(o.lane[i]);
    }

   private:
    MBLOB_VEC_INLINE void assign(const vec &o) {
      if constexpr (N == 3)
        for (int i = 0; i < N; ++i) this->lane[i] = o.lane[i];
      else
        this->simd = o.simd;
    }
  };

#define MBLOB_VEC_OPERATOR(op)                                                        \
  template <typename T, int N>                                                        \
  MBLOB_VEC_INLINE vec<T, N> operator op(vec<T, N> a, vec<T, N> b) {                  \
    vec<T, N> r;                                                                      \
    if constexpr (N == 3)                                                             \
      for (int i = 0; i < N; ++i) r.lane[i] = static_cast<T>(a.lane[i] op b.lane[i]); \
    else                                                                              \
      r.simd = a.simd op b.simd;                                                      \
    return r;                                                                         \
  }                                                                                   \
  template <typename T, int N>                                                        \
  MBLOB_VEC_INLINE vec<T, N> operator op(vec<T, N> a, T b) {                          \
    return a op vec<T, N>(b);                                                         \
  }                                                                                   \
  template <typename T, int N>                                                        \
  MBLOB_VEC_INLINE vec<T, N> operator op(T a, vec<T, N> b) {                          \
    return vec<T, N>(a) op b;                                                         \
  }                                                                                   \
  template <typename T, int N, typename B>                                            \
  MBLOB_VEC_INLINE vec<T, N> &operator op## = (vec<T, N> & a, B b) {                  \
    return a = a op b;                                                                \
  }
  MBLOB_VEC_OPERATOR(+)
  MBLOB_VEC_OPERATOR(-)
  MBLOB_VEC_OPERATOR(*)
  MBLOB_VEC_OPERATOR(/)
  MBLOB_VEC_OPERATOR(%)
  MBLOB_VEC_OPERATOR(&)
  MBLOB_VEC_OPERATOR(|)
  MBLOB_VEC_OPERATOR(^)
  MBLOB_VEC_OPERATOR(<<)
  MBLOB_VEC_OPERATOR(>>)
#undef MBLOB_VEC_OPERATOR

  template <typename T, int N>
  MBLOB_VEC_INLINE vec<T, N> operator-(vec<T, N> a) {
    return vec<T, N>(static_cast<T>(0)) - a;
  }
  template <typename T, int N>
  MBLOB_VEC_INLINE vec<T, N> operator~(vec<T, N> a) {
    for (int i = 0; i < N; ++i) a.lane[i] = static_cast<T>(~a.lane[i]);
    return a;
  }

  /* A vector that holds a choice until the end of the full expression. One expression can hold
   * several choices that share a named vector, so comparisons look up what its value was before. */
  struct choice_link {
    const void *target;
    const void *before; /* the value of *target when this choice was made */
    choice_link *outer;
  };
  static __thread choice_link *innermost_choice __attribute__((unused));

  template <typename T, int N>
  MBLOB_VEC_INLINE const vec<T, N> &value_before_choices(const vec<T, N> &v) {
    const void *value = &v;
    for (choice_link *c = innermost_choice; c; c = c->outer)
      if (c->target == &v) value = c->before;
    return *static_cast<const vec<T, N> *>(value);
  }

  template <typename T, int N>
  class choice {
   public:
    MBLOB_VEC_INLINE choice(vec<T, N> &a, const vec<T, N> &chosen) : target_(a), before_(a) {
      link_.target = &a;
      link_.before = &before_;
      link_.outer = innermost_choice;
      innermost_choice = &link_;
      a = chosen;
    }
    choice(const choice &) = delete;
    choice &operator=(const choice &) = delete;
    MBLOB_VEC_INLINE ~choice() {
      target_ = before_;
      innermost_choice = link_.outer;
    }
    MBLOB_VEC_INLINE explicit operator bool() const { return true; }

   private:
    vec<T, N> &target_;
    vec<T, N> before_;
    choice_link link_;
  };

#define MBLOB_VEC_CHOICE(op)                                                                     \
  template <typename T, int N>                                                                   \
  MBLOB_VEC_INLINE choice<T, N> operator op(vec<T, N> &a, vec<T, N> &b) {                        \
    const vec<T, N> x = value_before_choices(a), y = value_before_choices(b);                    \
    vec<T, N> chosen;                                                                            \
    for (int i = 0; i < N; ++i) chosen.lane[i] = x.lane[i] op y.lane[i] ? x.lane[i] : y.lane[i]; \
    return choice<T, N>(a, chosen);                                                              \
  }
  MBLOB_VEC_CHOICE(<)
  MBLOB_VEC_CHOICE(>)
#undef MBLOB_VEC_CHOICE

} /* namespace mblob_vec */

#define MBLOB_VEC_NAMES(T)           \
  using T##2 = mblob_vec::vec<T, 2>; \
  using T##3 = mblob_vec::vec<T, 3>; \
  using T##4 = mblob_vec::vec<T, 4>; \
  using T##8 = mblob_vec::vec<T, 8>; \
  using T##16 = mblob_vec::vec<T, 16>;
MBLOB_VEC_NAMES(float)
MBLOB_VEC_NAMES(double)
MBLOB_VEC_NAMES(int8_t)
MBLOB_VEC_NAMES(int16_t)
MBLOB_VEC_NAMES(int32_t)
MBLOB_VEC_NAMES(int64_t)
MBLOB_VEC_NAMES(uint8_t)
MBLOB_VEC_NAMES(uint16_t)
MBLOB_VEC_NAMES(uint32_t)
MBLOB_VEC_NAMES(uint64_t)
#undef MBLOB_VEC_NAMES
#undef MBLOB_VEC_INLINE

#endif /* TVM_RUNTIME_VECTOR_TYPES_H_ */
