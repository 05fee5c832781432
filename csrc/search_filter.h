// The filter of a search: what one thread does.
#pragma once

#include "searcher.h"

namespace scar_gpu {

class Searcher::Filter {
 public:
  static constexpr int64_t GROUP = 1024;  // queries of a product
  // Of the block's queries in `queries`, whose k best are kept from best[queries.begin] on; one of
  // n_threads that do the same.
  Filter(Searcher& searcher, Range queries, Best* best, int64_t n_threads);

  // Takes one tile of rows after the other, from `next` on, until none is left. False when a
  // product and its canonical score differ by more than float32 arithmetic explains.
  bool run(std::atomic<int64_t>& next);

 private:
  bool load(Range tile);
  bool scan(Range tile, Range group);
  float threshold(int64_t i) const;

  Searcher& searcher_;
  const Rows& rows_;
  Range queries_;
  Best* best_;
  int64_t stride_, group_, size_;
  std::unique_ptr<float[]> products_, wide_;
  // Of a tile: row scales, NaN where a product says nothing, and for each query what a dot product
  // times row scale must reach.
  std::vector<float> scales_, thresholds_;
  // For each query how many rows have been rescored. The first k are, whatever its least score:
  // rows that are not of unit length would otherwise not show.
  std::vector<int64_t> rescored_;
  std::vector<int32_t> passed_;
};

}  // namespace scar_gpu
