#include "contributions.h"

#include <cmath>

namespace scar_gpu {

namespace {

constexpr int FRACTION_BITS = 44;
constexpr int64_t LARGEST_SUM = int64_t{1} << 62;

}  // namespace

// The power of two that brings the largest number into [1, 2).
void Contributions::set_scale(double largest) {
  int exponent = 1;
  if (largest > 0) std::frexp(largest, &exponent);
  shift_ = 1 - exponent;
  scale_ = std::ldexp(1.0, -shift_ - FRACTION_BITS);
}

// Halves to even, the rounding mode every program starts with.
int64_t Contributions::rounded(double scaled) const {
  return static_cast<int64_t>(std::nearbyint(std::ldexp(scaled, FRACTION_BITS)));
}

Contributions::Contributions(int64_t n_lists, int64_t n_ranks, double k,
                             const std::optional<std::vector<double>>& weights,
                             const std::optional<Tensor>& table)
    : n_ranks_(n_ranks), values_(n_lists * n_ranks), used_(n_lists) {
  if (table) {
    const View<double, 2> given(*table, "contributions");
    double largest = 0;
    for (int64_t l = 0; l < n_lists; ++l)
      for (int64_t r = 0; r < n_ranks; ++r) {
        const double value = given(l, r);
        check(value >= 0 && std::isfinite(value), "contributions[", l, ", ", r,
              "] must be >= 0 and finite, got ", value);
        largest = std::max(largest, value);
        used_[l] |= value > 0;
      }
    set_scale(largest);
    for (int64_t l = 0; l < n_lists; ++l)
      for (int64_t r = 0; r < n_ranks; ++r)
        values_[l * n_ranks + r] = rounded(std::ldexp(given(l, r), shift_));
    return;
  }
  check(k > 0 && k <= 1e6, "k must be > 0 and <= 1000000, got ", k);
  const std::vector<double> all = weights ? *weights : std::vector<double>(n_lists, 1.0);
  check(static_cast<int64_t>(all.size()) == n_lists, "weights must have one entry per list (",
        n_lists, "), got ", all.size());
  for (int64_t l = 0; l < n_lists; ++l)
    check(all[l] >= 0 && std::isfinite(all[l]), "weights[", l, "] must be >= 0 and finite, got ",
          all[l]);
  set_scale(*std::max_element(all.begin(), all.end()));
  for (int64_t l = 0; l < n_lists; ++l) {
    used_[l] = all[l] > 0;
    const double weight = std::ldexp(all[l], shift_);
    for (int64_t r = 0; r < n_ranks; ++r)
      values_[l * n_ranks + r] = rounded(weight / (k + static_cast<double>(r + 1)));
  }
}

void Contributions::check_sums(const std::vector<int64_t>& lengths, bool are_ranks_given) const {
  // In floating point: the bound itself may not fit. Contributions are at most 2^45.
  double largest = 0;
  for (size_t l = 0; l < lengths.size(); ++l) {
    const int64_t* row = of_list(l);
    if (are_ranks_given)
      largest += static_cast<double>(lengths[l]) *
                 (n_ranks_ ? static_cast<double>(*std::max_element(row, row + n_ranks_)) : 0.0);
    else
      for (int64_t r = 0; r < lengths[l]; ++r) largest += static_cast<double>(row[r]);
  }
  check(largest < static_cast<double>(LARGEST_SUM),
        "contributions must add up to less than 2**62 with duplicates='sum', got up to ", largest);
}

}  // namespace scar_gpu
