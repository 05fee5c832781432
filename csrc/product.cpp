// Calls of the matrix product, and a test of its precision.

#include "product.h"

#include <vector>

namespace scar_gpu {

Tensor matrix(const void* data, int64_t rows, int64_t columns, int64_t row_stride,
              int64_t column_stride) {
  const int64_t sizes[] = {rows, columns}, strides[] = {row_stride, column_stride};
  return torch::stable::from_blob(const_cast<void*>(data), {sizes, 2}, {strides, 2},
                                  torch::stable::Device(torch::headeronly::DeviceType::CPU),
                                  ScalarType::Float);
}

void multiply(const Tensor& a, const Tensor& b, const Tensor& out) {
  using torch::stable::detail::from, torch::stable::detail::to;
  StableIValue stack[] = {from(a), from(b), from(out)};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::mm", "out", stack, TORCH_ABI_VERSION));
  to<Tensor>(stack[0]);  // takes back the returned reference
}

bool product_is_exact() {
  constexpr int64_t SIZE = 64;
  std::vector<float> factor(SIZE * SIZE), one(SIZE * SIZE), product(SIZE * SIZE);
  for (int64_t i = 0; i < SIZE * SIZE; ++i)
    factor[i] = 1.0f + static_cast<float>(2 * i + 1) * 0x1p-23f + static_cast<float>(i) * 0x1p-12f;
  for (int64_t i = 0; i < SIZE; ++i) one[i * SIZE + i] = 1.0f;
  multiply(matrix(factor.data(), SIZE, SIZE, SIZE, 1), matrix(one.data(), SIZE, SIZE, SIZE, 1),
           matrix(product.data(), SIZE, SIZE, SIZE, 1));
  return product == factor;
}

}  // namespace scar_gpu
