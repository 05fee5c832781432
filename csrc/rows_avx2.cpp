// The row functions for x86 with AVX2, FMA and F16C.
#if defined(__x86_64__)
#include "rows.inl"
SCAR_GPU_INSTRUCTION_SET(avx2, [] {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
})
#endif
