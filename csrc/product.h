// Matrix products by the BLAS that PyTorch uses: fast, and near canonical scores.
#pragma once

#include <cmath>

#include "tensors.h"

namespace scar_gpu {

// A float32 matrix in memory at hand.
Tensor matrix(const void* data, int64_t rows, int64_t columns, int64_t row_stride,
              int64_t column_stride);

// out = a @ b.
void multiply(const Tensor& a, const Tensor& b, const Tensor& out);

// Whether products keep all bits of their factors. PyTorch can be told to multiply float32 matrices
// in bfloat16 or TF32; factors of full precision times 1 show it.
bool product_is_exact();

// Whether a product says anything about a row of this scale. The terms of a shorter one may be
// subnormal, and lose more than unit vectors explain; sums over a longer one may overflow halfway.
inline bool suits_product(float scale) {
  const float size = std::abs(scale);
  return size == 0 || (0x1p-126f <= size && size <= 0x1p80f);
}

// By how much a product of unit vectors and their canonical score differ at most: the product is
// within dim * 2^-24 of the exact sum, whatever its order; the score sums dim / 32 terms per lane,
// then folds five times; and a few roundings follow on either side. Rows taken for unit ones that
// bfloat16 has rounded may be longer by 2^-8.
inline float product_error(int64_t dim) {
  return static_cast<float>(dim + dim / 128 + padded(dim) / LANES + 5 + 16) * 0x1p-24f;
}

}  // namespace scar_gpu
