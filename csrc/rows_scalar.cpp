// Compiled for the baseline of the architecture, one lane at a time.
#undef __ARM_NEON
#include "rows.inl"
SCAR_GPU_INSTRUCTION_SET(scalar, [] { return true; })
