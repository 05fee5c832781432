// 1 / |e_i| of every row, with the norm in float64.

#include <cmath>

#include "operations.h"

namespace scar_gpu {

Tensor row_scale(const Tensor& embeddings) {
  const Rows rows(embeddings, "embeddings");
  Tensor result = allocate({rows.count()}, ScalarType::Float);
  float* scale = data<float>(result);
  parallel_for(rows.count(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double norm = std::sqrt(rows.sum_of_squares(i));
      scale[i] = norm == 0 ? 0.0f : static_cast<float>(1 / norm);
    }
  });
  return result;
}

}  // namespace scar_gpu
