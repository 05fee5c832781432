// What the operations do with stored rows, behind one table per instruction set.
#pragma once

#include <cstdint>
#include <span>

namespace scar_gpu {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// Lanes of the canonical dot product, whatever the width of a register. Vectors handed to `dot`
// as `query` are padded with zeros to a multiple of it.
inline constexpr int64_t LANES = 32;

inline constexpr int64_t padded(int64_t dim) { return (dim + LANES - 1) / LANES * LANES; }

// Functions over rows of one dtype.
struct RowFunctions {
  // out[r] = <query, row r>, for n_rows rows that lie row_bytes apart. If given, `ahead` is where
  // the next call's rows begin: their memory is fetched in the meantime, since a burst of requests
  // would leave memory idle while this call computes.
  void (*dot)(const float* query, const void* rows, int64_t row_bytes, int64_t n_rows, int64_t dim,
              float* out, const void* ahead);
  // The sum of the squares of a row, in float64.
  double (*sum_of_squares)(const void* row, int64_t dim);
  // out[d] = row[d] * factor for d < dim, then zeros up to padded(dim).
  void (*widen)(const void* row, int64_t dim, float factor, float* out);
};

// The neighbours of rows at one offset: their cosines, their penalties, and the words that `judge`
// writes.
struct Side {
  const float *neighbors, *penalties;
  uint32_t *above, *close;
};

struct InstructionSet {
  const char* name;
  bool (*available)();
  RowFunctions float32, float16, bfloat16;
  // Of n_rows rows of n values, the first one where values[i] * scale is not below thresholds[i],
  // NaN included, for some i; n_rows when there is none. `positions` get those i, `found` their
  // number.
  int64_t (*passing)(const float* values, const float* scales, const float* thresholds, int64_t n,
                     int64_t n_rows, int32_t* positions, int64_t* found);
  // values[i] = values[i] * scales[i] * factor, in this order.
  void (*scale)(float* values, const float* scales, float factor, int64_t n);
  // Compares S = neighbors[i] - penalties[i] with the threshold gamma * parents[i] on both sides,
  // 32 i per word: bits of `above` where S exceeds it by more than `bound`, of `close` where it
  // does not and is no farther than that below. NaN sets no bit. Whether a bit of `close` is set;
  // as many values from `ahead` on are fetched for the next call.
  bool (*judge)(const Side (&sides)[2], const float* parents, float gamma, float bound,
                int64_t n_words, const float* ahead);
};

extern const InstructionSet avx512, avx2, neon, scalar;

// Those compiled into this binary that the machine can run, fastest first.
std::span<const InstructionSet* const> instruction_sets();

// The one in use. Every one gives the same bits; tests switch between them.
const InstructionSet& instruction_set();
void use_instruction_set(const InstructionSet& chosen);

}  // namespace scar_gpu
