// SCAR's decision for every row as the hit: a matrix product decides what is not near a threshold.
#pragma once

#include <memory>
#include <vector>

#include "queries.h"

namespace scar_gpu {

class CorpusJudge {
 public:
  CorpusJudge(const Tensor& queries, const Tensor& embeddings, const Tensor& continuity, double lam,
              double gamma, bool contiguous, const std::optional<Tensor>& row_scale);

  // Writes bits [B, 2W, ceil(N / 32)] and, if given, relevances [B, N].
  void run(uint32_t* bits, float* relevance);

 private:
  // Rows begin .. end are judged; the cosines of row r are in column r - begin + halo of a tile.
  struct Tile {
    int64_t begin, end;
    int64_t words() const { return (end - begin + 31) / 32; }
  };

  void prepare(int64_t count);
  void load(const Tile& tile);
  void multiply_tile(const Tile& tile, int64_t count);
  void dot_tile(const Tile& tile, int64_t count);
  bool judge(const Tile& tile, int64_t i, bool is_exact, uint32_t* bits, uint32_t* close);
  bool settle(const Tile& tile, int64_t i, int64_t offset, const uint32_t* close,
              uint32_t* bits) const;
  void stop_at_refusals(uint32_t* bits, int64_t n_words) const;
  float* cosines(int64_t i) { return cosines_.get() + i * stride_; }
  const float* cosines(int64_t i) const { return cosines_.get() + i * stride_; }
  const float* penalties(int64_t slot) const { return penalties_.data() + slot * size_; }
  float cohesion(int64_t row, int64_t offset) const;
  float scale(int64_t row) const { return row_scale_ ? (*row_scale_)(row) : 1.0f; }

  Rows rows_;
  View<float, 2> continuity_;
  std::optional<View<float, 1>> row_scale_;
  float lam_, gamma_;
  bool contiguous_;
  // halo_: rows that are read before and behind a tile; no document is longer than the matrix.
  int64_t n_queries_, window_, halo_, block_, words_;
  QueryBlock queries_;
  // Of a tile: rows, columns of cosines, cosines per query, scales, lam * (1 - continuity) per
  // offset with NaN where there is no neighbour, and rows of half precision widened.
  int64_t size_ = 0, stride_ = 0;
  std::unique_ptr<float[]> cosines_, wide_;
  std::vector<float> scales_, penalties_;
};

}  // namespace scar_gpu
