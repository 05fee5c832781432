// The union of a query's hits and the rows they bring in, each row once, in the order asked for.
#pragma once

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "hash.h"
#include "tensors.h"

namespace scar_gpu {

// One query's part of an expansion.
struct ExpansionRow {
  int64_t* ids;
  float* scores;
  int32_t* anchors;
  int32_t* length;
};

// One thread's working memory. A query's candidates are numbered in rank order: candidate
// t = hit * reach + offset stands for the row `hit's row + offset - before`.
class Expander {
 public:
  Expander(int64_t n_hits, int64_t before, int64_t after)
      : n_hits_(n_hits),
        before_(before),
        reach_(before + after + 1),
        table_(std::bit_ceil(static_cast<uint64_t>(2 * n_hits * reach_ + 1))),
        alive_(n_hits * reach_),
        rows_(n_hits * reach_),
        scores_(n_hits * reach_) {}

  int64_t width() const { return n_hits_ * reach_; }
  int64_t candidate(int64_t hit, int64_t offset) const { return hit * reach_ + before_ + offset; }

  void begin() {
    std::fill(table_.begin(), table_.end(), Slot{});
    std::fill(alive_.begin(), alive_.end(), false);
  }
  // Offers a row. Of several candidates for one row the highest score lives, the earliest of
  // equal ones; a score of +inf is never displaced.
  void offer(int64_t t, int64_t row, float score, float contest) {
    Slot& slot = find(row);
    if (slot.row == row) {
      if (!(contest > slot.contest)) return;
      alive_[slot.candidate] = false;
    }
    slot = {row, contest, static_cast<int32_t>(t)};
    alive_[t] = true;
    rows_[t] = row;
    scores_[t] = score;
  }
  void finish(bool document_order, const ExpansionRow& out) {
    living_.clear();
    for (int64_t t = 0; t < width(); ++t)
      if (alive_[t]) living_.push_back(static_cast<int32_t>(t));
    if (document_order)
      std::sort(living_.begin(), living_.end(),
                [&](int32_t a, int32_t b) { return rows_[a] < rows_[b]; });
    const int64_t n = static_cast<int64_t>(living_.size());
    for (int64_t i = 0; i < n; ++i) {
      const int32_t t = living_[i];
      out.ids[i] = rows_[t];
      out.scores[i] = scores_[t];
      out.anchors[i] = static_cast<int32_t>(t / reach_);
    }
    std::fill(out.ids + n, out.ids + width(), -1);
    std::fill(out.scores + n, out.scores + width(), -std::numeric_limits<float>::infinity());
    std::fill(out.anchors + n, out.anchors + width(), -1);
    *out.length = static_cast<int32_t>(n);
  }

  // Hits and their admitted neighbours, read through functions of (k) and (k, j).
  template <class Id, class Relevance, class Score, class Mask>
  void run(const Id& id, const Relevance& relevance, const Score& score, const Mask& mask,
           bool document_order, const ExpansionRow& out) {
    constexpr float INF = std::numeric_limits<float>::infinity();
    const auto is_hit = [&](int64_t k) { return id(k) >= 0 && relevance(k) != -INF; };
    begin();
    for (int64_t k = 0; k < n_hits_; ++k)
      if (is_hit(k)) offer(candidate(k, 0), id(k), relevance(k), INF);
    for (int64_t k = 0; k < n_hits_; ++k) {
      if (!is_hit(k)) continue;
      for (int64_t j = 0; j < reach_ - 1; ++j) {
        const int64_t offset = j - before_ + (j >= before_);
        const int64_t row = id(k) + offset;
        const float s = score(k, j);
        if (mask(k, j) && row >= 0 && s > -INF) offer(candidate(k, offset), row, s, s);
      }
    }
    finish(document_order, out);
  }

 private:
  struct Slot {
    int64_t row = -1;
    float contest = 0;
    int32_t candidate = 0;
  };
  // The row's slot, or the free one where it goes.
  Slot& find(int64_t row) {
    const uint64_t last = table_.size() - 1;
    uint64_t at = hash_of_id(row) & last;
    while (table_[at].row != row && table_[at].row != -1) at = (at + 1) & last;
    return table_[at];
  }

  int64_t n_hits_, before_, reach_;
  std::vector<Slot> table_;
  std::vector<uint8_t> alive_;
  std::vector<int64_t> rows_;
  std::vector<float> scores_;
  std::vector<int32_t> living_;
};

// The width of an expansion; candidates are numbered in int32.
inline int64_t expansion_width(int64_t n_hits, int64_t before, int64_t after) {
  constexpr int64_t LIMIT = int64_t{1} << 31;
  const bool fits =
      before < LIMIT && after < LIMIT && n_hits < LIMIT && n_hits < LIMIT / (before + after + 1);
  check(fits, "K * (before + after + 1) must be below 2^31, got ", n_hits, " * (", before, " + ",
        after, " + 1)");
  return n_hits * (before + after + 1);
}

// The four tensors of an expansion of n_queries x width.
class ExpansionResult {
 public:
  ExpansionResult(int64_t n_queries, int64_t width);
  ExpansionRow row(int64_t b) const {
    return {ids_ + b * width_, scores_ + b * width_, anchors_ + b * width_, lengths_ + b};
  }
  const std::tuple<Tensor, Tensor, Tensor, Tensor>& tensors() const { return tensors_; }

 private:
  int64_t width_;
  std::tuple<Tensor, Tensor, Tensor, Tensor> tensors_;
  int64_t* ids_;
  float* scores_;
  int32_t *anchors_, *lengths_;
};

}  // namespace scar_gpu
