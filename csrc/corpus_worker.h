// What one thread of `corpus_masks` does.
#pragma once

#include <memory>
#include <vector>

#include "corpus_judge.h"

namespace scar_gpu {

// One thread's tile of rows, with a group of queries at a time. The cosine of row r is in column
// r - tile.begin + halo.
class CorpusJudge::Worker {
 public:
  // One of n_threads that do the same.
  Worker(const CorpusJudge& judge, int64_t group, int64_t n_threads);
  // Rows of its tiles.
  static int64_t tile_size(const CorpusJudge& judge, int64_t group, int64_t n_threads);
  // Writes the results of a group of the block's queries; with canonical scores alone, or with a
  // product: false when one is seen to be farther off than rows of unit length explain.
  bool run(Range tile, Range group, bool is_exact, const Results& out);

 private:
  void load(Range tile);
  void multiply_rows(Range tile, Range group);
  void dot_rows(Range tile, Range group);
  void note_close(int64_t i, int64_t slot, int64_t offset, const std::vector<uint32_t>& close);
  bool settle(Range group, const Results& out);
  void stop_at_refusals(uint32_t* bits) const;
  Range reach() const {
    return {std::max<int64_t>(tile_.begin - judge_.halo_, 0),
            std::min(tile_.end + judge_.halo_, judge_.rows_.count())};
  }
  // lam * (1 - continuity) of the tile's rows with those at an offset of up to the halo.
  const float* penalties(int64_t offset) const {
    return penalties_.data() + (offset + judge_.halo_ - (offset > 0)) * size_;
  }
  // Where the tile's decisions for a query and a slot go.
  uint32_t* words(const Results& out, int64_t i, int64_t slot) const {
    return out.bits + ((judge_.first_ + i) * 2 * judge_.window_ + slot) * judge_.words_ +
           tile_.begin / 32;
  }
  int64_t n_words() const { return (tile_.end - tile_.begin + 31) / 32; }

  // A decision that a product leaves open; rows are counted from the tile's first.
  struct Open {
    int32_t query, slot, parent, neighbor;
  };

  const CorpusJudge& judge_;
  const Rows& rows_;
  Range tile_{0, 0};
  // Rows of a tile, cosines per query, entries of a widened row.
  int64_t size_, stride_, row_stride_;
  std::unique_ptr<float[]> cosines_, wide_;
  // Of a tile: scales, and lam * (1 - continuity) per offset, NaN where there is no neighbour.
  std::vector<float> scales_, penalties_;
  bool suits_product_ = true;  // every row of them
  std::vector<uint32_t> close_[2];
  std::vector<Open> open_;
};

}  // namespace scar_gpu
