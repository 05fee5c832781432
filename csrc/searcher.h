// Exact top-k: a matrix product as a filter, canonical scores for what it lets through.
#pragma once

#include <atomic>
#include <vector>

#include "best.h"
#include "queries.h"

namespace scar_gpu {

class Searcher {
 public:
  Searcher(const Tensor& queries, const Tensor& embeddings, int64_t k,
           const std::optional<Tensor>& row_scale, const std::optional<Tensor>& row_ranges,
           const std::optional<Tensor>& min_scores);

  // Writes [B, k] ids and scores.
  void run(int64_t* ids, float* scores);

 private:
  static constexpr float INF = std::numeric_limits<float>::infinity();
  struct Range {
    int64_t begin, end;
  };

  // What one thread filters on its own: tiles of rows for a range of the block's queries.
  class Filter;

  void stream(int64_t count);
  bool filter(int64_t count);
  Range allowed(int64_t i, int64_t begin, int64_t end) const;
  // What a score of query `first_ + i` must reach.
  float least(int64_t i) const { return min_scores_ ? (*min_scores_)(first_ + i) : -INF; }
  void offer(int64_t i, Hit hit, Best& best) const {
    if (!(hit.score < least(i))) best.offer(hit);
  }
  float scale(int64_t row) const { return row_scale_ ? (*row_scale_)(row) : 1.0f; }

  Rows rows_;
  std::optional<View<float, 1>> row_scale_;
  std::optional<View<int64_t, 2>> row_ranges_;
  std::optional<View<float, 1>> min_scores_;
  int64_t k_, n_queries_, block_, first_ = 0;
  QueryBlock queries_;
  std::vector<Best> best_;
  // For each of the block's queries a k-th score that some thread of `filter` has seen.
  std::vector<std::atomic<float>> floors_;
};

}  // namespace scar_gpu
