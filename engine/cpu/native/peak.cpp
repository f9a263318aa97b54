// Fused multiply-adds in registers, as many as a processor's core can do: the ceiling that a bench holds its kernels against.
// Knows no memory and no model.

#include <cstdint>

namespace {

constexpr int CHAINS = 12;  // independent sums: more than the pipeline is deep

#define CHAINED(NAME, LANES, TARGET)                                     \
  TARGET float NAME(int64_t rounds) {                                    \
    typedef float vf __attribute__((vector_size(LANES * 4)));            \
    vf a[CHAINS];                                                        \
    const vf by = vf{} + 1.0000001f, plus = vf{} + 1e-9f;                \
    for (int i = 0; i < CHAINS; ++i) a[i] = vf{} + float(i);             \
    for (int64_t n = 0; n < rounds; ++n)                                 \
      _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; ++i) a[i] = a[i] * by + plus; \
    float sum = 0;                                                       \
    for (int i = 0; i < CHAINS; ++i)                                     \
      for (int l = 0; l < LANES; ++l) sum += a[i][l];                    \
    return sum;                                                          \
  }

CHAINED(plain, 4, )
#if defined(__x86_64__)
CHAINED(avx2, 8, __attribute__((target("avx2,fma"))))
CHAINED(avx512, 16, __attribute__((target("avx512f,fma"))))
#endif

}  // namespace

// `rounds` of CHAINS vectors on each of `threads` threads; returns the operations (a multiplication and an addition are two).
extern "C" double inkling_multiply_adds(int64_t rounds, int threads, float* sink) {
  float (*run)(int64_t) = plain;
  int lanes = 4;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) run = avx512, lanes = 16;
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) run = avx2, lanes = 8;
#endif
  float total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
  total += run(rounds);
  *sink = total;
  return 2.0 * CHAINS * lanes * double(rounds) * threads;
}
