// SCAR's judgement of the neighbours of hits, a block of queries at a time.
#pragma once

#include <vector>

#include "queries.h"

namespace scar_gpu {

class NeighborScorer {
 public:
  NeighborScorer(const Tensor& queries, const Tensor& embeddings, const Tensor& continuity,
                 const Tensor& hits, double lam, double gamma, bool contiguous,
                 const std::optional<Tensor>& row_scale, const std::optional<Tensor>& relevance);

  int64_t n_queries() const { return hits_.size(0); }
  int64_t n_hits() const { return hits_.size(1); }
  int64_t window() const { return continuity_.size(0); }
  int64_t n_neighbors() const { return 2 * window(); }
  // The most queries one call of `run` takes.
  int64_t block() const { return block_; }
  const Ids& hits() const { return hits_; }

  // Judges the hits of queries first .. first + count. The outputs start at query `first`:
  // relevance [count, K], scores and mask [count, K, 2W].
  void run(int64_t first, int64_t count, float* relevance, float* scores, bool* mask);

 private:
  struct Outputs {
    float *relevance, *scores;
    bool* mask;
  };
  // One thread's room for the cosines and continuities around a hit.
  struct Scratch {
    explicit Scratch(int64_t window) : dots(2 * window + 1), cohesion(2 * window) {}
    std::vector<float> dots, cohesion;
  };

  int64_t list_hits(int64_t first, int64_t count, const Outputs& out);
  void sort_by_row(int64_t n_items);
  // `next` is the item to be scored after this one, whose memory is fetched meanwhile; or `item`.
  void score(uint64_t item, uint64_t next, int64_t first, const Outputs& out,
             Scratch& scratch) const;
  float cosine(int64_t i, float dot, int64_t row) const {
    return queries_.cosine(i, dot, row_scale_ ? (*row_scale_)(row) : 1.0f);
  }

  Rows embeddings_;
  View<float, 2> continuity_;
  Ids hits_;
  float lam_, gamma_;
  bool contiguous_;
  std::optional<View<float, 1>> row_scale_;
  std::optional<View<float, 2>> relevance_;
  int64_t block_;
  QueryBlock queries_;
  // The hits of the block as row << 32 | slot, where slot = query in the block * K + k.
  std::vector<uint64_t> items_, sorted_;
};

}  // namespace scar_gpu
