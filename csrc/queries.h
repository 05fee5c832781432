// Queries of any dtype and strides, as the canonical score wants them.
#pragma once

#include <memory>

#include "tensors.h"

namespace scar_gpu {

// A block of queries in float32, each scaled by a power of two so that neither the dot product nor
// 1/|q| overflows, with 1/|q| of the scaled vector: 0 for a zero query, NaN for a NaN or infinite
// one, whose cosines are then NaN everywhere.
class QueryBlock {
 public:
  QueryBlock(const Tensor& queries, int64_t capacity);
  // Reads queries first .. first + count into the block.
  void load(int64_t first, int64_t count);
  const float* vector(int64_t i) const { return vectors_ + i * stride_; }
  float inverse_norm(int64_t i) const { return inverse_norms_[i]; }
  // The canonical score: (dot * row_scale) * 1/|q|, in this order.
  float cosine(int64_t i, float dot, float row_scale) const {
    return dot * row_scale * inverse_norms_[i];
  }
  static int64_t bytes_per_query(int64_t dim) { return padded(dim) * 4 + 4; }

 private:
  void load_one(int64_t query, int64_t i, char* scratch);

  const char* data_;
  const RowFunctions* functions_;
  int64_t dim_, row_stride_, element_stride_, element_size_, stride_;
  std::unique_ptr<float[]> memory_;
  float *vectors_, *inverse_norms_;
};

}  // namespace scar_gpu
