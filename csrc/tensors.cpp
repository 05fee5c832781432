// Checks and reading of tensors.

#include "tensors.h"

#include <cstring>
#include <utility>

namespace scar_gpu {

Layout::Layout(const Tensor& tensor, const char* name, int64_t rank) : name(name) {
  const AtenTensorHandle handle = tensor.get();
  int64_t actual_rank, *raw_sizes, *raw_strides;
  int32_t device;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(handle, &actual_rank));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(handle, &device));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(handle, &dtype));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(handle, &raw_sizes));
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(handle, &raw_strides));
  STABLE_TORCH_ERROR_CODE_CHECK(torch_get_const_data_ptr(handle, &data));
  check(actual_rank == rank, name, " must have ", rank, " dimensions, got ", actual_rank);
  check(device == aoti_torch_device_type_cpu(), name, " must be on the CPU like the others");
  sizes = raw_sizes;
  strides = raw_strides;
}

void Layout::check_dtype(int32_t expected) const {
  check(dtype == expected, name, " must have another dtype, got number ", dtype);
}

Ids::Ids(const Tensor& tensor, const char* name) : name_(name) {
  const Layout layout(tensor, name, 2);
  wide_ = layout.dtype == aoti_torch_dtype_int64();
  if (!wide_) layout.check_dtype(aoti_torch_dtype_int32());
  data_ = layout.data;
  std::copy_n(layout.sizes, 2, size_);
  std::copy_n(layout.strides, 2, stride_);
}

void Ids::check_range(int64_t limit) const {
  for (int64_t b = 0; b < size_[0]; ++b)
    for (int64_t k = 0; k < size_[1]; ++k) {
      const int64_t id = (*this)(b, k);
      check<std::out_of_range>(id >= -1 && id < limit, name_, "[", b, ", ", k,
                               "] must be -1 or in [0, ", limit, "), got ", id);
    }
}

const RowFunctions& row_functions(const Layout& layout) {
  const InstructionSet& set = instruction_set();
  if (layout.dtype == aoti_torch_dtype_float16()) return set.float16;
  if (layout.dtype == aoti_torch_dtype_bfloat16()) return set.bfloat16;
  layout.check_dtype(aoti_torch_dtype_float32());
  return set.float32;
}

Rows::Rows(const Tensor& matrix, const char* name) {
  const Layout layout(matrix, name, 2);
  functions_ = &row_functions(layout);
  data_ = static_cast<const char*>(layout.data);
  count_ = layout.sizes[0];
  dim_ = layout.sizes[1];
  check(dim_ <= 1 || layout.strides[1] == 1, name, " must have a contiguous last dimension");
  is_float32_ = layout.dtype == aoti_torch_dtype_float32();
  row_bytes_ = layout.strides[0] * (is_float32_ ? 4 : 2);
}

Documents::Documents(const Tensor& doc_offsets) : offsets_(doc_offsets, "doc_offsets") {
  const int64_t n = offsets_.size(0);
  check(n >= 1 && offsets_(0) == 0, "doc_offsets must start at 0, got ", n ? offsets_(0) : -1);
  // Every call reads all of them: a loop that ends early could not take several at a time. The sign
  // of a bound or of the step to it shows a fall; unsigned, since other steps may overflow.
  const auto signs_of = [n](auto at) {
    uint64_t signs = 0;
    for (int64_t d = 1; d < n; ++d) {
      const uint64_t bound = at(d), before = at(d - 1);
      signs |= bound | (bound - before);
    }
    return signs;
  };
  const Layout layout(doc_offsets, "doc_offsets", 1);
  const int64_t* bounds = static_cast<const int64_t*>(layout.data);
  const uint64_t signs =
      layout.strides[0] == 1 ? signs_of([=](int64_t d) { return bounds[d]; }) : signs_of(offsets_);
  for (int64_t d = 1; signs >> 63 && d < n; ++d)
    check(offsets_(d) >= offsets_(d - 1), "doc_offsets must not fall, got ", offsets_(d - 1),
          " then ", offsets_(d), " at position ", d);
}

int64_t Documents::of(int64_t row) const {
  // Halving without branches, which nobody could predict: begin(low) <= row < begin(low + size).
  int64_t low = 0;
  for (int64_t size = count(); size > 1;) {
    const int64_t half = size / 2;
    low += begin(low + half) <= row ? half : 0;
    size -= half;
  }
  return low;
}

namespace {

bool results_poisoned = false;

void poison(const Tensor& result, ScalarType dtype, int64_t numel) {
  const int byte = dtype == ScalarType::Float ? 0xff : dtype == ScalarType::Bool ? 1 : 0x7f;
  const int64_t width = dtype == ScalarType::Long ? 8 : dtype == ScalarType::Bool ? 1 : 4;
  std::memset(result.mutable_data_ptr(), byte, numel * width);
}

}  // namespace

bool poison_results(bool on) { return std::exchange(results_poisoned, on); }

Tensor allocate(std::initializer_list<int64_t> shape, ScalarType dtype) {
  const int32_t type = torch::stable::detail::to<int32_t>(torch::stable::detail::from(dtype));
  const int64_t rank = static_cast<int64_t>(shape.size());
  int64_t strides[4];
  check(rank <= 4, "a result of more than 4 dimensions");
  int64_t numel = 1;
  bool fits = true;
  for (int64_t i = rank - 1; i >= 0; --i) {
    strides[i] = numel;
    const int64_t size = shape.begin()[i];
    fits = fits && !__builtin_mul_overflow(numel, std::max<int64_t>(size, 1), &numel);
  }
  AtenTensorHandle result = nullptr;
  if (!fits ||
      aoti_torch_empty_strided(rank, shape.begin(), strides, type, aoti_torch_device_type_cpu(), 0,
                               &result) != AOTI_TORCH_SUCCESS) {
    std::ostringstream sizes;  // made here only: a stream is dearer than an allocation
    for (const int64_t size : shape) sizes << (sizes.tellp() ? ", " : "") << size;
    fail<std::runtime_error>("a result of shape [", sizes.str(), "] does not fit memory");
  }
  Tensor tensor(result);
  if (results_poisoned && tensor.numel() > 0) [[unlikely]]
    poison(tensor, dtype, tensor.numel());
  return tensor;
}

}  // namespace scar_gpu
