// What an entry of a ranking adds to its document's score, as integers: their sums are exact.
#pragma once

#include <vector>

#include "tensors.h"

namespace scar_gpu {

template <>
inline int32_t dtype_of<double>() {
  return aoti_torch_dtype_float64();
}

class Contributions {
 public:
  // round(w / (k + rank) * 2^44), with the weights scaled so that the largest is in [1, 2); or
  // likewise the entries of a table [L, R], which has one column per rank.
  Contributions(int64_t n_lists, int64_t n_ranks, double k,
                const std::optional<std::vector<double>>& weights,
                const std::optional<Tensor>& table);

  int64_t n_ranks() const { return n_ranks_; }
  // A list of weight 0 does not count at all.
  bool is_used(int64_t list) const { return used_[list]; }
  // of_list(l)[r - 1] belongs to rank r.
  const int64_t* of_list(int64_t list) const { return values_.data() + list * n_ranks_; }
  // The sum rounded once to float32, times a power of two.
  float score(int64_t sum) const {
    return static_cast<float>(static_cast<double>(static_cast<float>(sum)) * scale_);
  }
  // Refuses lists whose repeated ids could add up beyond int64.
  void check_sums(const std::vector<int64_t>& lengths, bool are_ranks_given) const;

 private:
  void set_scale(double largest);
  int64_t rounded(double scaled) const;

  int64_t n_ranks_;
  std::vector<int64_t> values_;
  std::vector<uint8_t> used_;
  int shift_ = 0;
  double scale_ = 1;
};

}  // namespace scar_gpu
