// The vector source behind rows.h, compiled once per instruction set: rows_<name>.cpp includes it.
//
// The canonical dot product: lane l sums the products d = l, l + 32, l + 64, ... with fused
// multiply-add; a last partial block is filled with zeros; then the lanes are folded in half five
// times. Neither the register width nor the number of rows in flight changes a bit.

#include <type_traits>

#include "simd.h"

namespace {

using scar_gpu::LANES;
using scar_gpu::padded;

constexpr int VECTORS = LANES / Vec::width;
// Of float32: a cache line, and how far a stream out of the second-level cache is fetched ahead.
constexpr int64_t LINE = 16, AHEAD = 1024;

// The fixed order of the last additions: lane l takes lane l + 16, then l + 8, l + 4, l + 2, l + 1.
template <int HALF, class Number>
inline Number fold(Number* lanes) {
  for (int l = 0; l < HALF; ++l) lanes[l] += lanes[l + HALF];
  if constexpr (HALF > 1) return fold<HALF / 2>(lanes);
  return lanes[0];
}

inline float sum_of_lanes(const Vec* lanes) {
  float sums[LANES];
  for (int v = 0; v < VECTORS; ++v) store(sums + v * Vec::width, lanes[v]);
  return fold<LANES / 2>(sums);
}

template <int ROWS, class Row>
inline void accumulate(const float* query, const Row* const* rows, int64_t begin,
                       Vec (*lanes)[VECTORS]) {
  for (int v = 0; v < VECTORS; ++v) {
    const Vec q = load(query + begin + v * Vec::width);
    for (int r = 0; r < ROWS; ++r)
      lanes[r][v] = fused_multiply_add(q, load(rows[r] + begin + v * Vec::width), lanes[r][v]);
  }
}

// Fetches the LANES elements of each row of a group, into the second-level cache.
template <int ROWS, class Row>
inline void prefetch(const char* first, int64_t row_bytes, int64_t begin) {
  for (int r = 0; r < ROWS; ++r)
    for (int64_t byte = 0; byte < LANES * static_cast<int64_t>(sizeof(Row)); byte += 4 * LINE)
      __builtin_prefetch(first + r * row_bytes + begin * sizeof(Row) + byte, 0, 2);
}

template <int ROWS, class Row>
void dot_group(const float* query, const char* first, int64_t row_bytes, int64_t dim, float* out,
               const char* ahead) {
  const Row* rows[ROWS];
  Vec lanes[ROWS][VECTORS];
  for (int r = 0; r < ROWS; ++r) {
    rows[r] = reinterpret_cast<const Row*>(first + r * row_bytes);
    for (int v = 0; v < VECTORS; ++v) lanes[r][v] = zero();
  }
  const int64_t whole = dim / LANES * LANES;
  for (int64_t d = 0; d < whole; d += LANES) {
    if (ahead != nullptr) prefetch<ROWS, Row>(ahead, row_bytes, d);
    accumulate<ROWS>(query, rows, d, lanes);
  }
  if (whole < dim) {
    Row tails[ROWS][LANES] = {};
    for (int r = 0; r < ROWS; ++r) {
      std::memcpy(tails[r], rows[r] + whole, (dim - whole) * sizeof(Row));
      rows[r] = tails[r];
    }
    accumulate<ROWS>(query + whole, rows, 0, lanes);
  }
  for (int r = 0; r < ROWS; ++r) out[r] = sum_of_lanes(lanes[r]);
}

template <class Row>
void dot(const float* query, const void* rows, int64_t row_bytes, int64_t n_rows, int64_t dim,
         float* out, const void* ahead) {
  const auto group = [&]<int ROWS>(int64_t r) {
    const int64_t offset = r * row_bytes;
    const char* next = ahead ? static_cast<const char*>(ahead) + offset : nullptr;
    dot_group<ROWS, Row>(query, static_cast<const char*>(rows) + offset, row_bytes, dim, out + r,
                         next);
  };
  // Three rows in flight: a hit and its two neighbours, and what 16 AVX2 registers hold.
  int64_t r = 0;
  for (; r + 3 <= n_rows; r += 3) group.template operator()<3>(r);
  if (n_rows - r == 2) group.template operator()<2>(r);
  if (n_rows - r == 1) group.template operator()<1>(r);
}

template <class Row>
void widen(const void* row, int64_t dim, float factor, float* out) {
  const Row* values = static_cast<const Row*>(row);
  const Vec by = broadcast(factor);
  const int64_t whole = dim / LANES * LANES;
  for (int64_t d = 0; d < whole; d += Vec::width) store(out + d, multiply(load(values + d), by));
  if (whole < dim) {
    Row tail[LANES] = {};
    std::memcpy(tail, values + whole, (dim - whole) * sizeof(Row));
    for (int64_t d = 0; d < LANES; d += Vec::width)
      store(out + whole + d, multiply(load(tail + d), by));
  }
}

template <class Row>
double sum_of_squares(const void* row, int64_t dim) {
  // A product of two float32 is exact in float64, so only the order of the sums matters.
  double lanes[LANES] = {};
  const Row* values = static_cast<const Row*>(row);
  const auto add = [&](const float* block) {
    for (int l = 0; l < LANES; ++l)
      lanes[l] += static_cast<double>(block[l]) * static_cast<double>(block[l]);
  };
  const int64_t whole = dim / LANES * LANES;
  float block[LANES];
  for (int64_t d = 0; d < whole; d += LANES) {
    if constexpr (std::is_same_v<Row, float>) {
      add(values + d);
    } else {
      for (int v = 0; v < LANES; v += Vec::width) store(block + v, load(values + d + v));
      add(block);
    }
  }
  if (whole < dim) {
    widen<Row>(values + whole, dim - whole, 1, block);
    add(block);
  }
  return fold<LANES / 2>(lanes);
}

int64_t passing(const float* values, const float* scales, const float* thresholds, int64_t n,
                int64_t n_rows, int32_t* positions, int64_t* found) {
  *found = 0;
  for (int64_t row = 0; row < n_rows; ++row, values += n) {
    const Vec by = broadcast(scales[row]);
    int64_t i = 0, count = 0;
    for (; i + LANES <= n; i += LANES) {
      uint32_t lanes = 0;
      for (int64_t line = 0; line < LANES; line += LINE)
        __builtin_prefetch(values + i + AHEAD + line);
      for (int v = 0; v < LANES; v += Vec::width)
        lanes |= not_less(multiply(load(values + i + v), by), load(thresholds + i + v)) << v;
      for (; lanes != 0; lanes &= lanes - 1)
        positions[count++] = static_cast<int32_t>(i + __builtin_ctz(lanes));
    }
    for (; i < n; ++i)
      if (!(values[i] * scales[row] < thresholds[i])) positions[count++] = static_cast<int32_t>(i);
    if (count == 0) continue;
    *found = count;
    return row;
  }
  return n_rows;
}

void scale(float* values, const float* scales, float factor, int64_t n) {
  const Vec by = broadcast(factor);
  int64_t i = 0;
  for (; i + Vec::width <= n; i += Vec::width)
    store(values + i, multiply(multiply(load(values + i), load(scales + i)), by));
  for (; i < n; ++i) values[i] = values[i] * scales[i] * factor;
}

bool judge(const scar_gpu::Side (&sides)[2], const float* parents, float gamma, float bound,
           int64_t n_words, const float* ahead) {
  const Vec by = broadcast(gamma), up = broadcast(bound), down = broadcast(-bound);
  const Vec minus = broadcast(-1);
  uint32_t any_close = 0;
  for (int64_t word = 0; word < n_words; ++word) {
    uint32_t above[2] = {}, not_below[2] = {};
    for (int bit = 0; bit < 32; bit += Vec::width) {
      const int64_t i = 32 * word + bit;
      const Vec parent = load(parents + i);
      const Vec high = fused_multiply_add(by, parent, up);
      const Vec low = fused_multiply_add(by, parent, down);
      for (int s = 0; s < 2; ++s) {
        // One rounding: the bits of the plain difference.
        const Vec score =
            fused_multiply_add(minus, load(sides[s].penalties + i), load(sides[s].neighbors + i));
        above[s] |= less(high, score) << bit;
        not_below[s] |= less(low, score) << bit;
      }
    }
    for (int64_t line = 0; line < 32; line += LINE) __builtin_prefetch(ahead + 32 * word + line);
    for (int s = 0; s < 2; ++s) {
      sides[s].above[word] = above[s];
      sides[s].close[word] = not_below[s] & ~above[s];
      any_close |= sides[s].close[word];
    }
  }
  return any_close != 0;
}

template <class Row>
constexpr scar_gpu::RowFunctions row_functions() {
  return {dot<Row>, sum_of_squares<Row>, widen<Row>};
}

}  // namespace

#define SCAR_GPU_INSTRUCTION_SET(name, available)                                       \
  const scar_gpu::InstructionSet scar_gpu::name = {#name,                               \
                                                   available,                           \
                                                   row_functions<float>(),              \
                                                   row_functions<scar_gpu::Half>(),     \
                                                   row_functions<scar_gpu::BFloat16>(), \
                                                   passing,                             \
                                                   scale,                               \
                                                   judge};
