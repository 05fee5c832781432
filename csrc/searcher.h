// Exact top-k: a matrix product as a filter, canonical scores for what it lets through.
#pragma once

#include <vector>

#include "best.h"
#include "queries.h"

namespace scar_gpu {

class Searcher {
 public:
  Searcher(const Tensor& queries, const Tensor& embeddings, int64_t k,
           const std::optional<Tensor>& row_scale, const std::optional<Tensor>& row_ranges);

  // Writes [B, k] ids and scores.
  void run(int64_t* ids, float* scores);

 private:
  struct Range {
    int64_t begin, end;
  };

  void stream(int64_t count);
  bool filter(int64_t count);
  bool scan(const float* products, int64_t begin, int64_t end, int64_t count, int64_t from,
            int64_t to);
  Range allowed(int64_t i, int64_t begin, int64_t end) const;
  float scale(int64_t row) const { return row_scale_ ? (*row_scale_)(row) : 1.0f; }
  float threshold(int64_t i) const;

  Rows rows_;
  std::optional<View<float, 1>> row_scale_;
  std::optional<View<int64_t, 2>> row_ranges_;
  int64_t k_, n_queries_, block_, first_ = 0;
  QueryBlock queries_;
  std::vector<Best> best_;
  // Thresholds of the block's queries for `filter`, on dot product times row scale.
  std::vector<float> thresholds_;
};

}  // namespace scar_gpu
