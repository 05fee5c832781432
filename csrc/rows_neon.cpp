// The row functions for 64-bit Arm.
#if defined(__aarch64__)
#include "rows.inl"
SCAR_GPU_INSTRUCTION_SET(neon, [] { return true; })
#endif
