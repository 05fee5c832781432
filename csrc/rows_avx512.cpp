// The row functions for x86 with AVX-512.
#if defined(__x86_64__)
#include "rows.inl"
SCAR_GPU_INSTRUCTION_SET(avx512, [] { return __builtin_cpu_supports("avx512f") != 0; })
#endif
