// Reading queries: any strides, lengths that neither overflow nor vanish.

#include "queries.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace scar_gpu {

QueryBlock::QueryBlock(const Tensor& queries, int64_t capacity) {
  const Layout layout(queries, "queries", 2);
  functions_ = &row_functions(layout);
  data_ = static_cast<const char*>(layout.data);
  dim_ = layout.sizes[1];
  row_stride_ = layout.strides[0];
  element_stride_ = dim_ > 1 ? layout.strides[1] : 1;
  element_size_ = layout.dtype == aoti_torch_dtype_float32() ? 4 : 2;
  stride_ = padded(dim_);
  memory_.reset(new float[capacity * (stride_ + 1)]);
  vectors_ = memory_.get();
  inverse_norms_ = vectors_ + capacity * stride_;
}

void QueryBlock::load(int64_t first, int64_t count) {
  parallel_for(count, 64, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<char[]> scratch(element_stride_ == 1 ? nullptr
                                                               : new char[dim_ * element_size_]);
    for (int64_t i = begin; i < end; ++i) load_one(first + i, i, scratch.get());
  });
}

void QueryBlock::load_one(int64_t query, int64_t i, char* scratch) {
  const char* source = data_ + query * row_stride_ * element_size_;
  if (element_stride_ != 1) {  // gather into adjacent elements first
    for (int64_t d = 0; d < dim_; ++d)
      std::memcpy(scratch + d * element_size_, source + d * element_stride_ * element_size_,
                  element_size_);
    source = scratch;
  }
  const double norm = std::sqrt(functions_->sum_of_squares(source, dim_));
  float* out = vectors_ + i * stride_;
  if (norm == 0 || !std::isfinite(norm)) {
    std::fill_n(out, stride_, 0.0f);
    inverse_norms_[i] = norm == 0 ? 0 : std::numeric_limits<float>::quiet_NaN();
    return;
  }
  // To a length in [1, 2), exactly. In two steps where the power of two is itself out of range.
  const int exponent = std::ilogb(norm), first = std::clamp(-exponent, -126, 126);
  functions_->widen(source, dim_, std::ldexp(1.0f, first), out);
  if (first != -exponent) {
    const float rest = std::ldexp(1.0f, -exponent - first);
    for (int64_t d = 0; d < dim_; ++d) out[d] *= rest;
  }
  inverse_norms_[i] = static_cast<float>(std::ldexp(1 / norm, exponent));
}

}  // namespace scar_gpu
