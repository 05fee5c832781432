#if defined(__aarch64__)
#include "rows.inl"
SCAR_GPU_INSTRUCTION_SET(neon, [] { return true; })
#endif
