// One vector type, `Vec`, for the instruction set this file is compiled for.
//
// The canonical dot product always has 32 lanes; `Vec` says how many of them one register holds.
// Everything lives in an anonymous namespace: each translation unit has other compiler flags, and a
// function shared between them could be linked in its AVX-512 form on a machine without AVX-512.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "rows.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace {

using scar_gpu::BFloat16;
using scar_gpu::Half;

#if defined(__AVX512F__)

struct Vec {
  static constexpr int width = 16;
  __m512 value;
};
inline Vec zero() { return {_mm512_setzero_ps()}; }
inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline Vec load(const Half* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Vec load(const BFloat16* p) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a.value); }
inline Vec broadcast(float a) { return {_mm512_set1_ps(a)}; }
inline Vec multiply(Vec a, Vec b) { return {_mm512_mul_ps(a.value, b.value)}; }
inline Vec fused_multiply_add(Vec a, Vec b, Vec c) {
  return {_mm512_fmadd_ps(a.value, b.value, c.value)};
}
// One bit per lane where a is less than b, NaN excluded; lane 0 is the lowest bit.
inline uint32_t less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.value, b.value, _CMP_LT_OQ); }
// The same where a is not less than b, NaN included.
inline uint32_t not_less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a.value, b.value, _CMP_NLT_UQ); }

#elif defined(__AVX2__)

struct Vec {
  static constexpr int width = 8;
  __m256 value;
};
inline Vec zero() { return {_mm256_setzero_ps()}; }
inline Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
inline Vec load(const Half* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline Vec load(const BFloat16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
}
inline void store(float* p, Vec a) { _mm256_storeu_ps(p, a.value); }
inline Vec broadcast(float a) { return {_mm256_set1_ps(a)}; }
inline Vec multiply(Vec a, Vec b) { return {_mm256_mul_ps(a.value, b.value)}; }
inline Vec fused_multiply_add(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.value, b.value, c.value)};
}
inline uint32_t less(Vec a, Vec b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a.value, b.value, _CMP_LT_OQ));
}
inline uint32_t not_less(Vec a, Vec b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a.value, b.value, _CMP_NLT_UQ));
}

#elif defined(__ARM_NEON)

struct Vec {
  static constexpr int width = 4;
  float32x4_t value;
};
inline Vec zero() { return {vdupq_n_f32(0)}; }
inline Vec load(const float* p) { return {vld1q_f32(p)}; }
inline Vec load(const Half* p) {
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const uint16_t*>(p));
  return {vcvt_f32_f16(vreinterpret_f16_u16(bits))};
}
inline Vec load(const BFloat16* p) {
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const uint16_t*>(p));
  return {vreinterpretq_f32_u32(vshll_n_u16(bits, 16))};
}
inline void store(float* p, Vec a) { vst1q_f32(p, a.value); }
inline Vec broadcast(float a) { return {vdupq_n_f32(a)}; }
inline Vec multiply(Vec a, Vec b) { return {vmulq_f32(a.value, b.value)}; }
inline Vec fused_multiply_add(Vec a, Vec b, Vec c) {
  return {vfmaq_f32(c.value, a.value, b.value)};
}
inline uint32_t less(Vec a, Vec b) {
  constexpr uint32_t BITS[4] = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(vld1q_u32(BITS), vcltq_f32(a.value, b.value)));
}
inline uint32_t not_less(Vec a, Vec b) { return less(a, b) ^ 0xf; }

#else

struct Vec {
  static constexpr int width = 1;
  float value;
};
inline Vec zero() { return {0}; }
inline Vec load(const float* p) { return {*p}; }
inline Vec load(const BFloat16* p) {
  const uint32_t bits = static_cast<uint32_t>(p->bits) << 16;
  Vec a;
  std::memcpy(&a.value, &bits, sizeof bits);
  return a;
}
inline Vec load(const Half* p) {
  // Exponent and mantissa moved to their float32 places, then the exponent bias corrected by an
  // exact multiplication, which also normalises subnormals; infinity and NaN keep theirs.
  const uint32_t sign = static_cast<uint32_t>(p->bits & 0x8000u) << 16;
  uint32_t bits = static_cast<uint32_t>(p->bits & 0x7fffu) << 13;
  float magnitude;
  std::memcpy(&magnitude, &bits, sizeof bits);
  magnitude *= 0x1p112f;
  std::memcpy(&bits, &magnitude, sizeof bits);
  if ((p->bits & 0x7c00u) == 0x7c00u) bits = 0x7f800000u | (p->bits & 0x3ffu) << 13;
  bits |= sign;
  Vec a;
  std::memcpy(&a.value, &bits, sizeof bits);
  return a;
}
inline void store(float* p, Vec a) { *p = a.value; }
inline Vec broadcast(float a) { return {a}; }
inline Vec multiply(Vec a, Vec b) { return {a.value * b.value}; }
inline Vec fused_multiply_add(Vec a, Vec b, Vec c) {
  return {std::fmaf(a.value, b.value, c.value)};
}
inline uint32_t less(Vec a, Vec b) { return a.value < b.value; }
inline uint32_t not_less(Vec a, Vec b) { return !(a.value < b.value); }

#endif

}  // namespace
