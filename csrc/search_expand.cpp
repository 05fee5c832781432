// Search, and the judgement and union of what it finds, in one call.

#include "operations.h"
#include "scar_expand.h"
#include "searcher.h"

namespace scar_gpu {

SearchExpansionTensors search_expand(const Tensor& queries, const Tensor& embeddings,
                                     const Tensor& continuity, int64_t k, double lam, double gamma,
                                     bool contiguous, OptionalTensor row_scale,
                                     OptionalTensor row_ranges, OptionalTensor min_scores,
                                     bool document_order) {
  Searcher searcher(queries, embeddings, k, row_scale, row_ranges, min_scores);
  const int64_t n_queries = queries.size(0), window = Layout(continuity, "continuity", 2).sizes[0];
  const int64_t width = expansion_width(k, window, window), n = 2 * window;
  const Tensor ids = allocate({n_queries, k}, ScalarType::Long);
  const Tensor scores = allocate({n_queries, k}, ScalarType::Float);
  // All padding at first: what is wrong with an argument shows before the search, not after it.
  std::fill_n(data<int64_t>(ids), n_queries * k, -1);
  // A search finds canonical scores, which are the relevances.
  NeighborScorer scorer(queries, embeddings, continuity, ids, lam, gamma, contiguous, row_scale,
                        scores);
  const Tensor relevance = allocate({n_queries, k}, ScalarType::Float);
  const Tensor neighbor_scores = allocate({n_queries, k, n}, ScalarType::Float);
  const Tensor mask = allocate({n_queries, k, n}, ScalarType::Bool);
  const ExpansionResult result(n_queries, width);

  searcher.run(data<int64_t>(ids), data<float>(scores));
  for (int64_t first = 0; first < n_queries; first += scorer.block()) {
    const int64_t count = std::min(scorer.block(), n_queries - first);
    float* relevances = data<float>(relevance) + first * k;
    float* judged = data<float>(neighbor_scores) + first * k * n;
    bool* admitted = data<bool>(mask) + first * k * n;
    scorer.run(first, count, relevances, judged, admitted);
    expand_judged(scorer, first, count, {relevances, judged, admitted}, document_order, result);
  }
  return std::tuple_cat(std::make_tuple(ids, scores, relevance, neighbor_scores, mask),
                        result.tensors());
}

}  // namespace scar_gpu
