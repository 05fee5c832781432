// The union of hits and neighbours that a scorer has judged, a block of queries at a time.
#pragma once

#include "expander.h"
#include "neighbor_scorer.h"

namespace scar_gpu {

// What NeighborScorer::run wrote for queries first .. first + count.
struct Judgement {
  const float *relevance, *scores;
  const bool* mask;
};

void expand_judged(const NeighborScorer& scorer, int64_t first, int64_t count,
                   const Judgement& judged, bool document_order, const ExpansionResult& result);

}  // namespace scar_gpu
