// SCAR's decision for every row as the hit: a matrix product decides what is not near a threshold.
#pragma once

#include "queries.h"

namespace scar_gpu {

class CorpusJudge {
 public:
  CorpusJudge(const Tensor& queries, const Tensor& embeddings, const Tensor& continuity, double lam,
              double gamma, bool contiguous, const std::optional<Tensor>& row_scale);

  // Writes bits [B, 2W, ceil(N / 32)] and, if given, relevances [B, N].
  void run(uint32_t* bits, float* relevance);

 private:
  struct Range {
    int64_t begin, end;
  };
  struct Results {
    uint32_t* bits;
    float* relevance;
  };
  class Worker;

  float scale(int64_t row) const { return row_scale_ ? (*row_scale_)(row) : 1.0f; }
  // cos(row, row + offset), NaN where there is no such neighbour.
  float cohesion(int64_t row, int64_t offset) const;

  Rows rows_;
  View<float, 2> continuity_;
  std::optional<View<float, 1>> row_scale_;
  float lam_, gamma_;
  bool contiguous_;
  // halo_: rows that are read before and behind a tile; no document is longer than the matrix.
  int64_t n_queries_, window_, halo_, block_, words_, first_ = 0;
  QueryBlock queries_;
};

}  // namespace scar_gpu
