// The cosine of every chunk with those after it in its document, in one pass over the rows.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "operations.h"

namespace scar_gpu {

namespace {

// Rows ahead that are fetched: reading half-precision rows in order gains 15 % by it.
constexpr int64_t AHEAD = 4;

// The last `reach + 1` rows in float32, each multiplied by a power of two that brings it to about
// unit length, so that a dot product of two rows neither overflows nor vanishes.
class Ring {
 public:
  Ring(const Rows& rows, const std::optional<View<float, 1>>& row_scale, int64_t reach)
      : rows_(rows),
        row_scale_(row_scale),
        size_(reach + 1),
        stride_(padded(rows.dim())),
        vectors_(size_ * stride_),
        scales_(size_),
        dot_(instruction_set().float32.dot) {}

  void push(int64_t row) {
    rows_.prefetch(row + AHEAD, 1);
    newest_ = newest_ + 1 == size_ ? 0 : newest_ + 1;
    const float scale = row_scale_ ? (*row_scale_)(row) : 1.0f;
    int exponent = 0;
    const float rest = 2 * std::frexp(scale, &exponent);  // scale = rest * 2^(exponent - 1)
    const bool plain = scale == 0 || !std::isfinite(scale);
    scales_[newest_] = plain ? scale : rest;
    rows_.widen(row, plain ? 1.0f : std::ldexp(1.0f, exponent - 1), vector(newest_));
  }
  // The cosine of the newest row with the one pushed `distance` rows before it.
  float cosine(int64_t distance) const {
    const int64_t other = newest_ >= distance ? newest_ - distance : newest_ - distance + size_;
    float dot;
    dot_(vector(newest_), vector(other), 0, 1, stride_, &dot, nullptr);
    const float cosine = dot * scales_[newest_] * scales_[other];
    return std::isnan(cosine) ? cosine : std::clamp(cosine, -1.0f, 1.0f);
  }

 private:
  float* vector(int64_t slot) { return vectors_.data() + slot * stride_; }
  const float* vector(int64_t slot) const { return vectors_.data() + slot * stride_; }

  const Rows& rows_;
  const std::optional<View<float, 1>>& row_scale_;
  int64_t size_, stride_, newest_ = 0;
  std::vector<float> vectors_, scales_;
  decltype(RowFunctions::dot) dot_;
};

}  // namespace

Tensor continuity(const Tensor& embeddings, const Tensor& doc_offsets, int64_t window,
                  OptionalTensor row_scale) {
  const Rows rows(embeddings, "embeddings");
  const Documents documents(doc_offsets);
  const auto scale = optional_view<float, 1>(row_scale, "row_scale");
  const int64_t n_chunks = rows.count();
  check(documents.n_chunks() == n_chunks, "doc_offsets must end at the number of chunks, ",
        n_chunks, ", got ", documents.n_chunks());
  check(!scale || scale->size(0) == n_chunks, "row_scale must have one entry per chunk");
  check(window >= 0, "window must be >= 0, got ", window);

  Tensor result = allocate({window, n_chunks}, ScalarType::Float);
  float* table = data<float>(result);
  std::fill_n(table, window * n_chunks, std::numeric_limits<float>::quiet_NaN());
  if (window == 0 || n_chunks == 0) return result;
  // A table wider than the longest document is NaN from there on.
  int64_t reach = 0;
  for (int64_t d = 0; d < documents.count(); ++d)
    reach = std::max(reach, documents.end(d) - documents.begin(d) - 1);
  reach = std::min(reach, window);
  // A thread reads `reach` rows beyond its own, so its share should be much larger.
  const int64_t grain = std::max<int64_t>(256, 16 * reach);
  parallel_for(n_chunks, grain, [&](int64_t begin, int64_t end) {
    Ring ring(rows, scale, reach);
    int64_t document = documents.of(begin);
    for (int64_t j = begin; j < std::min(end + reach, n_chunks); ++j) {
      while (j >= documents.end(document)) ++document;
      ring.push(j);
      const int64_t first = std::max({begin, documents.begin(document), j - reach});
      for (int64_t i = first; i < std::min(j, end); ++i)
        table[(j - i - 1) * n_chunks + i] = ring.cosine(j - i);
    }
  });
  return result;
}

}  // namespace scar_gpu
