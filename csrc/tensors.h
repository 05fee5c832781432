// Tensors as the kernels see them: strided views, rows of any float dtype, ids of either width.
//
// The kernels refuse what they cannot read; the public functions then say why in the user's terms.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "rows.h"

namespace scar_gpu {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Python sees std::out_of_range as IndexError and std::invalid_argument as ValueError.
template <class Error, class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(message.str());
}

template <class Error = std::invalid_argument, class... Parts>
void check(bool holds, const Parts&... parts) {
  if (!holds) [[unlikely]]
    fail<Error>(parts...);
}

// A number that kernels calculate with in float32.
inline float finite_float(const char* name, double value) {
  const float narrow = static_cast<float>(value);
  check(std::isfinite(narrow), name, " must be finite in float32, got ", value);
  return narrow;
}

// What a kernel needs to know of an input, read once: every question crosses the shim.
struct Layout {
  Layout(const Tensor& tensor, const char* name, int64_t rank);
  void check_dtype(int32_t expected) const;

  const char* name;
  const void* data;
  int32_t dtype;
  const int64_t *sizes, *strides;
};

template <class T>
int32_t dtype_of() {
  if constexpr (std::is_same_v<T, float>) return aoti_torch_dtype_float32();
  if constexpr (std::is_same_v<T, bool>) return aoti_torch_dtype_bool();
  if constexpr (std::is_same_v<T, int32_t>) return aoti_torch_dtype_int32();
  if constexpr (std::is_same_v<T, int64_t>) return aoti_torch_dtype_int64();
}

// An input of known dtype and any strides.
template <class T, int RANK>
class View {
 public:
  View(const Tensor& tensor, const char* name) : View(Layout(tensor, name, RANK)) {}
  int64_t size(int dimension) const { return size_[dimension]; }
  template <class... Index>
  T operator()(Index... index) const {
    static_assert(sizeof...(Index) == RANK);
    int64_t offset = 0, i = 0;
    ((offset += index * stride_[i++]), ...);
    return data_[offset];
  }

 private:
  explicit View(const Layout& layout) : data_(static_cast<const T*>(layout.data)) {
    layout.check_dtype(dtype_of<T>());
    std::copy_n(layout.sizes, RANK, size_);
    std::copy_n(layout.strides, RANK, stride_);
  }

  const T* data_;
  int64_t size_[RANK], stride_[RANK];
};

template <class T, int RANK>
std::optional<View<T, RANK>> optional_view(const std::optional<Tensor>& tensor, const char* name) {
  if (!tensor) return std::nullopt;
  return View<T, RANK>(*tensor, name);
}

// [B, K] row numbers, int32 or int64.
class Ids {
 public:
  Ids(const Tensor& tensor, const char* name);
  int64_t size(int dimension) const { return size_[dimension]; }
  int64_t operator()(int64_t b, int64_t k) const {
    const int64_t offset = b * stride_[0] + k * stride_[1];
    return wide_ ? static_cast<const int64_t*>(data_)[offset]
                 : static_cast<const int32_t*>(data_)[offset];
  }
  // -1 is padding; IndexError for any other id outside [0, limit).
  void check_range(int64_t limit) const;

 private:
  const char* name_;
  const void* data_;
  bool wide_;
  int64_t size_[2], stride_[2];
};

// A matrix of float32, float16 or bfloat16 rows whose elements are adjacent.
class Rows {
 public:
  Rows(const Tensor& matrix, const char* name);
  int64_t count() const { return count_; }
  int64_t dim() const { return dim_; }
  int64_t row_bytes() const { return row_bytes_; }
  bool is_float32() const { return is_float32_; }
  const void* data(int64_t i) const { return row(i); }
  // Dot products of the rows from `first` on, while those from `ahead` on (if >= 0) are fetched.
  void dot(const float* query, int64_t first, int64_t n_rows, float* out,
           int64_t ahead = -1) const {
    functions_->dot(query, row(first), row_bytes_, n_rows, dim_, out,
                    ahead < 0 ? nullptr : row(ahead));
  }
  // Dot products of row `first` and the one `distance` rows on, while row `ahead` and the one as
  // far from it are fetched.
  void dot_pair(const float* query, int64_t first, int64_t distance, float* out,
                int64_t ahead) const {
    functions_->dot(query, row(first), distance * row_bytes_, 2, dim_, out, row(ahead));
  }
  // Asks for the memory of rows that are needed soon; they need not exist. Into the second-level
  // cache, since they are many lines.
  void prefetch(int64_t first, int64_t n_rows) const {
    const char* end = row(first + n_rows);
    for (const char* line = row(first); line < end; line += 64) __builtin_prefetch(line, 0, 2);
  }
  double sum_of_squares(int64_t i) const { return functions_->sum_of_squares(row(i), dim_); }
  void widen(int64_t i, float factor, float* out) const {
    functions_->widen(row(i), dim_, factor, out);
  }

 private:
  const char* row(int64_t i) const { return data_ + i * row_bytes_; }

  const char* data_;
  int64_t count_, dim_, row_bytes_;
  bool is_float32_;
  const RowFunctions* functions_;
};

// The functions for rows of the layout's dtype.
const RowFunctions& row_functions(const Layout& layout);

// doc_offsets, checked to rise from 0 to n_chunks.
class Documents {
 public:
  explicit Documents(const Tensor& doc_offsets);
  int64_t n_chunks() const { return offsets_(offsets_.size(0) - 1); }
  int64_t count() const { return offsets_.size(0) - 1; }
  int64_t begin(int64_t document) const { return offsets_(document); }
  int64_t end(int64_t document) const { return offsets_(document + 1); }
  // The document that owns `row`, by binary search.
  int64_t of(int64_t row) const;

 private:
  View<int64_t, 1> offsets_;
};

// An uninitialised CPU tensor, past the dispatcher: a result costs a fraction of a call through it.
Tensor allocate(std::initializer_list<int64_t> shape, ScalarType dtype);

// Whether `allocate` fills results with NaN or large numbers, so that tests see a hole in one;
// returns what held before.
bool poison_results(bool on);

template <class T>
T* data(const Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

// Runs f(begin, end) over parts of [0, n), on this thread alone when n <= grain.
template <class Function>
void parallel_for(int64_t n, int64_t grain, const Function& f) {
  if (n <= grain) {
    if (n > 0) f(int64_t{0}, n);
  } else {
    torch::stable::parallel_for(0, n, grain, f);
  }
}

}  // namespace scar_gpu
